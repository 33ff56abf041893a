"""Trials on one number a user, against trials on whole releases; and those above the threshold alone, against all.

The first baseline is batched dense numpy: a participation matrix times the full contributions, a noise vector for every
coordinate of the bank, then the score of the probes. A sample of it is timed and extrapolated to the same number of
trials. The second is the first's rival, at a threshold that two in ten thousand trials exceed.
"""

import numpy as np
from scipy.optimize import brentq

from canarybank.auditing import Projected, Tail, count
from canarybank.mechanism import Mechanism
from canarybank.score import LinearScore, Moments, RoundLaw
from harness import Result, measure, ratio

USERS, BANK, PROBES, ACTIVE = 1_000, 8_192, 64, 730
BATCH, TRIALS = 256, 1 << 21


def run() -> list[Result]:
    """Time both and return the ratio a trial."""
    mechanism, users, canary, score = _setting()
    dense = users.astype(np.float64)
    rng = np.random.default_rng(0)

    def literal() -> None:
        taking = (rng.random((BATCH, USERS)) < mechanism.q).astype(np.float64)
        releases = taking @ dense + rng.normal(0.0, mechanism.noise, (BATCH, BANK))
        score.llr(releases[:, :PROBES])

    law = RoundLaw.of(score, users[:, :PROBES], canary, mechanism)
    threshold = brentq(lambda at: float(law.point(at)[0]) - 2e-4, 0.0, 20.0)
    baseline = measure(literal) / BATCH
    projected, tail = (
        measure(lambda trials=trials: count(trials, threshold, TRIALS // 2, seed=0)) / TRIALS
        for trials in (Projected(law), Tail(law))
    )
    size = f"N={USERS:,} ({ACTIVE} active), {PROBES} probes, bank {BANK:,}"
    return [
        ratio("projected trials, 1M", size, 1e6 * baseline, 1e6 * projected, 200, f"{1e9 * projected:,.0f} ns a trial"),
        ratio("tail trials, 1M", size, 1e6 * projected, 1e6 * tail, 10, f"{1e9 * tail:,.1f} ns a trial, all cores"),
    ]


def _setting() -> tuple[Mechanism, np.ndarray, np.ndarray, LinearScore]:
    rng = np.random.default_rng(1)
    mechanism = Mechanism()
    users = np.zeros((USERS, BANK))
    for row in users:
        row[rng.choice(np.arange(PROBES, BANK), 60, replace=False)] = rng.random(60)
    users[:ACTIVE, :PROBES] = (rng.random((ACTIVE, PROBES)) < 0.05) * rng.random((ACTIVE, PROBES))
    users[:ACTIVE, 0] += 1e-3
    users *= mechanism.clip / np.linalg.norm(users, axis=1, keepdims=True)
    canary = np.full(PROBES, mechanism.clip / np.sqrt(PROBES))
    score = LinearScore(canary, Moments.estimate(users[:, :PROBES], mechanism, USERS))
    return mechanism, users, canary, score
