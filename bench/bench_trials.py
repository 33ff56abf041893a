"""Trials on one number a user, against trials on whole releases.

The baseline is batched dense numpy: a participation matrix times the full contributions, a noise vector for every
coordinate of the bank, then the score of the probes. A sample of it is timed and extrapolated to the same number of
trials.
"""

import numpy as np

from canarybank.auditing import Projected, count
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
    trials = Projected(law)

    def ours() -> None:
        count(trials, 3.0, TRIALS // 2, seed=0)

    baseline = measure(literal) / BATCH
    mine = measure(ours) / TRIALS
    size = f"N={USERS:,} ({ACTIVE} active), {PROBES} probes, bank {BANK:,}"
    note = f"{1e9 * mine:,.0f} ns a trial, all cores"
    return [ratio("projected trials, 1M", size, 1e6 * baseline, 1e6 * mine, 200, note)]


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
