"""State the epsilon of a mechanism over rounds, from the privacy loss distribution, and as Opacus has it.

Neighbours are two populations of which one has one user more (add or remove one user), in both directions.
"""

import importlib
import math
from dataclasses import replace
from functools import lru_cache

from canarybank.errors import InputError, MissingError
from canarybank.mechanism.composition import composed_epsilon
from canarybank.mechanism.mechanism import Mechanism, require_delta, whole
from canarybank.mechanism.one_round import one_round_epsilon

__all__ = ["epsilon", "prv_epsilon"]

LEAST_SIGMA = 1e-3


def epsilon(mechanism: Mechanism, rounds: int = 1) -> float:
    """Return the epsilon at the mechanism's delta of ``rounds`` releases, for adding or removing one user.

    The composed releases are (epsilon, delta)-differentially private under adding or removing one user, whatever
    each round's bank was made of, released histograms included. One release has a closed form, right to rounding.
    Several are composed by their privacy loss distribution, whose discretisation is pessimistic: but for rounding in
    float64 the figure lies above the exact epsilon, by less than 1e-6 of it for sigma from 1e-3 on and up to 10,000
    rounds. Below a sigma of 1e-3 it is the sum of the rounds' closed forms, an upper bound. At delta = 0 it is
    infinite: Gaussian noise has no finite epsilon without a delta.
    """
    count = whole("rounds", rounds)
    if mechanism.delta == 0:
        return math.inf
    if count == 1:
        return one_round_epsilon(mechanism)
    if mechanism.sigma < LEAST_SIGMA:
        return count * one_round_epsilon(replace(mechanism, delta=mechanism.delta / count))
    return _composed(mechanism.sigma, mechanism.q, mechanism.delta, count)


@lru_cache(maxsize=1024)
def _composed(sigma: float, q: float, delta: float, rounds: int) -> float:
    return composed_epsilon(Mechanism(sigma=sigma, q=q, delta=delta), rounds)


def prv_epsilon(mechanism: Mechanism, rounds: int = 1, *, error: float = 0.01) -> float:
    """Return the epsilon that Opacus's ``PRVAccountant`` states, for parity with the paper.

    It is the upper end of that accountant's band around the exact epsilon, so it lies above it by about
    ``error``: a claim that is valid but loose. It needs the extra ``opacus``.
    """
    count = whole("rounds", rounds)
    require_delta(mechanism.delta, "Opacus's accountant")
    if not 0 < error < math.inf:
        raise InputError(f"The accountant's error must be positive and finite, not {error!r}; Opacus uses 0.01.")
    try:
        accountants = importlib.import_module("opacus.accountants")
    except ImportError as problem:
        raise MissingError(
            "The PRV accountant comes with Opacus, which is not installed; run: pip install 'canarybank[opacus]'"
        ) from problem
    accountant = accountants.PRVAccountant()
    accountant.history = [(mechanism.sigma, mechanism.q, count)]
    return float(accountant.get_epsilon(mechanism.delta, eps_error=error))
