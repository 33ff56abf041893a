"""Add up the Gaussian tails of every outcome of the coins, where they are few."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from canarybank.score.cumulants import EPS, TINY, NoisySum

__all__ = ["enumerated_tail", "outcomes"]

BLOCK = 2**20
DEEP = 37.0
FARTHEST = 1e100


def outcomes(law: NoisySum) -> float:
    """Return the number of distinct outcomes that `enumerated_tail` would visit."""
    if law.q == 1.0:
        return 1.0
    return float(np.exp(min(700.0, float(np.log(law.counts + 1.0).sum()))))


def enumerated_tail(law: NoisySum, thresholds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper ends of P(X > t) for finite scaled thresholds t.

    All terms are positive, so the relative error stays at rounding level in both tails.
    """
    sums, chances = _outcomes(law)
    size = max(1, BLOCK // len(sums))
    parts = [_block(law, sums, chances, thresholds[i : i + size]) for i in range(0, len(thresholds), size)]
    lower = np.concatenate([part[0] for part in parts]) if parts else np.empty(0)
    upper = np.concatenate([part[1] for part in parts]) if parts else np.empty(0)
    return lower, upper


def _outcomes(law: NoisySum) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if law.q == 1.0:
        return np.array([float(law.counts @ law.weights)]), np.ones(1)
    sums, chances = np.zeros(1), np.ones(1)
    for weight, count in zip(law.weights, law.counts.astype(int), strict=True):
        binomial = np.ones(1)
        for _ in range(count):
            binomial = np.convolve(binomial, [1.0 - law.q, law.q])
        sums = np.add.outer(sums, weight * np.arange(count + 1)).ravel()
        chances = np.multiply.outer(chances, binomial).ravel()
    return sums, chances


def _block(
    law: NoisySum, sums: NDArray[np.float64], chances: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with np.errstate(over="ignore"):
        z = np.clip(np.subtract.outer(thresholds, sums) / law.noise, -FARTHEST, FARTHEST)
        size = np.abs(thresholds)[:, None] + (len(law.counts) + 1.0) * law.reach
        slack = np.minimum(2.0 * EPS * (np.abs(z) + size / law.noise), FARTHEST)
    lower = _gaussian(z + slack, -1.0) @ chances
    upper = _gaussian(z - slack, 1.0) @ chances
    relative = EPS * (8.0 + 4.0 * law.users + len(sums))
    return np.clip(lower * (1.0 - relative), 0.0, 1.0), np.clip(upper * (1.0 + relative) + TINY, 0.0, 1.0)


def _gaussian(z: NDArray[np.float64], side: float) -> NDArray[np.float64]:
    # The library's error grows like that of exp(-z²/2); below 1e-300 nothing is claimed from below.
    value = ndtr(-z) * (1.0 + side * EPS * (16.0 + 2.0 * np.minimum(z * z, 1e6)))
    if side < 0.0:
        return np.where(z < DEEP, np.maximum(value, 0.0), 0.0)
    return np.where(z < DEEP, value, np.exp(-0.5 * np.minimum(z, 100.0) ** 2) + TINY)
