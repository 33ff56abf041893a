"""Our mechanism behind the door that somebody else's system would use, whole or with one thing wrong.

Every system claims the same mechanism, gets a score designed for that claim, and is audited through its releases
alone. The canary is concentrated: all of its records vote for the same five probes, so its normalised histogram has
norm 1/sqrt(5) = 0.447 before clipping.
"""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from canarybank.mechanism import Mechanism, contributions, release
from canarybank.score import LinearScore, Moments
from canarybank.systems import BankSystem, CallableSystem

CLAIM = Mechanism()
RECORDS, PROBES, ENTRIES = 64, 5, 40


def histogram():
    """The canary's raw votes: every record for the five probes."""
    votes = np.zeros(ENTRIES)
    votes[:PROBES] = RECORDS
    return votes


NORMALISED = histogram() / (RECORDS * CLAIM.k)
CANARY = NORMALISED * min(1.0, CLAIM.clip / np.linalg.norm(NORMALISED))


def background(users=50):
    rng = np.random.default_rng(8)
    routes = rng.integers(PROBES, ENTRIES, size=(users * 8, CLAIM.k))
    return contributions(routes, np.repeat(np.arange(users), 8), users, ENTRIES, CLAIM.clip)


USERS = background()
INSPECTED = slice(0, PROBES)
SCORE = LinearScore(CANARY[INSPECTED], Moments.estimate(USERS[:, INSPECTED], CLAIM, USERS.shape[0]))


def system(canary=CANARY, mechanism=CLAIM, participation=None):
    """Our mechanism with one thing wrong, behind the door that somebody else's system would use."""
    inner = BankSystem(csr_array(USERS[:, INSPECTED]), canary[INSPECTED], mechanism, participation)
    return CallableSystem(inner.release, PROBES)


class SameNoise:
    """Draw the noise once and use it in every release."""

    def __init__(self):
        self.noise = np.random.default_rng(1).normal(0.0, CLAIM.noise, PROBES)

    def __call__(self, eligible, size, rng):
        still = replace(CLAIM, sigma=1e-12)
        releases = release(csr_array(USERS[:, INSPECTED]), still, rng, size) + self.noise
        if eligible:
            releases[rng.random(size) < CLAIM.q] += CANARY[INSPECTED]
        return releases
