"""Measure how fast this machine works, on a small piece of the work itself."""

import time
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, random_array

from canarybank.auditing import Literal, Projected, TrialEngine, Trials
from canarybank.encode import Encoder
from canarybank.mechanism import Mechanism
from canarybank.score import LinearScore, Moments, RoundLaw
from canarybank.seeds import stream
from canarybank.systems import BankSystem

__all__ = ["encode_rate", "trial_rate"]

_TEXTS = 256
_TRIALS = 1 << 14
_USERS_TOUCHED = 0.05


def trial_rate(mechanism: Mechanism, eligible: int, coordinates: int, engine: TrialEngine) -> float:
    """Return the trials a second of one worker, with so many eligible users who all touch the inspected coordinates."""
    trials = _sample(mechanism, eligible, coordinates, engine)
    rng = stream(0, "plan", "rate")
    trials.scores(False, _TRIALS // 8, rng)  # noqa: FBT003, as the protocol has it
    began = time.perf_counter()
    trials.scores(False, _TRIALS, rng)  # noqa: FBT003, as the protocol has it
    return _TRIALS / max(time.perf_counter() - began, 1e-9)


def encode_rate(encoder: Encoder, texts: Sequence[str]) -> float:
    """Return the texts a second of an encoder, on the first few of these texts."""
    sample = list(texts[:_TEXTS])
    encoder.encode(sample[:8])
    began = time.perf_counter()
    encoder.encode(sample)
    return len(sample) / max(time.perf_counter() - began, 1e-9)


def _sample(mechanism: Mechanism, eligible: int, coordinates: int, engine: TrialEngine) -> Trials:
    rng = stream(0, "plan", "sample")
    if engine is TrialEngine.PROJECTED:
        return Projected(RoundLaw(rng.normal(0.0, 0.05, eligible), 1.0, 1.0, 0.5, mechanism.q))
    canary = np.full(coordinates, mechanism.clip / coordinates**0.5)
    users = csr_array(random_array((eligible, coordinates), density=_USERS_TOUCHED, rng=rng))
    users.data *= mechanism.clip
    score = LinearScore(canary, Moments(np.zeros(coordinates), mechanism.noise**2 * np.eye(coordinates)))
    return Literal(BankSystem(users, canary, mechanism), score)
