"""A system that rounds what it releases, as one does that keeps counts as whole numbers of some unit."""

import numpy as np

from canarybank.systems import BankSystem

UNIT = 1e-3
asked = []


class RoundedSystem:
    """Release as canarybank's own mechanism does, rounded to a thousandth."""

    def __init__(self, contributions, canary, mechanism):
        self.exact = BankSystem(contributions, canary, mechanism)

    def release(self, eligible, size, rng):
        asked.append(size)
        return np.round(self.exact.release(eligible, size, rng) / UNIT) * UNIT
