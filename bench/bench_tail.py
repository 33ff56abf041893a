"""Exact tails at 100 thresholds, against the million trials that would estimate them.

The baseline is batched dense numpy: a participation matrix times the full contributions, a noise vector for every
coordinate of the bank, then the score of the probes. A sample of it is timed and extrapolated to a million trials.
"""

import numpy as np

from canarybank.mechanism import Mechanism
from canarybank.score import LinearScore, Moments, RoundLaw, tail
from harness import Result, measure, ratio

USERS, BANK, PROBES, ACTIVE = 1_000, 8_192, 64, 730
BATCH, TRIALS, THRESHOLDS = 500, 1_000_000, 100


def run() -> list[Result]:
    """Time both and return the ratio."""
    mechanism = Mechanism()
    rng = np.random.default_rng(20)
    contributions = _contributions(rng, mechanism.clip)
    canary = np.full(PROBES, mechanism.clip / np.sqrt(PROBES))
    score = LinearScore(canary, Moments.estimate(contributions[:, :PROBES], mechanism, USERS))

    def trials() -> np.ndarray:
        joining = (rng.random((BATCH, USERS)) < mechanism.q).astype(np.float64)
        noisy = joining @ contributions + rng.normal(0.0, mechanism.noise, (BATCH, BANK))
        return score.llr(noisy[:, :PROBES])

    law = RoundLaw.of(score, contributions[:, :PROBES], canary, mechanism)
    scores = trials()
    thresholds = law.offset + np.linspace(
        scores.mean() - 3.0 * scores.std(), scores.mean() + 7.0 * scores.std(), THRESHOLDS
    )

    def exact() -> tuple[np.ndarray, np.ndarray]:
        return tail(law.weights, law.q, law.noise, thresholds)

    lower, upper = exact()
    middle = int(np.argmin(np.abs(lower - 0.5)))
    share = float((scores + law.offset > thresholds[middle]).mean())
    assert abs(share - lower[middle]) < 5.0 * np.sqrt(0.25 / BATCH)
    width = float(((upper - lower) / lower).max())
    assert width < 1e-9
    baseline = measure(trials) * TRIALS / BATCH
    size = f"N={USERS:,} ({int(np.count_nonzero(law.weights))} active), {PROBES} probes, bank {BANK:,}"
    note = f"{THRESHOLDS} thresholds down to {lower.min():.0e}, relative width at most {width:.0e}"
    return [ratio("exact tail, against 1M trials", size, baseline, measure(exact), 5_000, note)]


def _contributions(rng: np.random.Generator, clip: float) -> np.ndarray:
    """Draw users who vote mostly off the probes, and `ACTIVE` of them on a few probes too."""
    votes = np.zeros((USERS, BANK))
    for user, row in enumerate(votes):
        row[rng.integers(PROBES, BANK, 250)] = rng.integers(1, 4, 250)
        if user < ACTIVE:
            row[rng.integers(0, PROBES, 6)] = rng.integers(1, 6, 6)
    return votes * (clip / np.linalg.norm(votes, axis=1, keepdims=True))
