"""Turn scores over a known background into normal scores, by their exact tails."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array
from scipy.special import ndtri

from canarybank.errors import InputError
from canarybank.score.tails import both_tails

__all__ = ["normal_scores"]

WIDEST = 1e-6
"""How wide, relative to itself, the certified interval of a tail may be."""


def normal_scores(scores: ArrayLike, background: Any, q: float, noise: ArrayLike) -> NDArray[np.float64]:
    """Return z_i = Phi^-1(P(X_i <= x_i)) of each score x_i, X_i = N(0, noise_i²) + sum over users of I_u a_ui.

    The I_u are independent coins of q, and X_i is what the score is without the canary. P(X_i <= x_i) is certified on
    the side of the smaller tail, and the midpoint of its interval is used, so z keeps its precision far from 0.

    Without the canary z_i is exactly N(0, 1), whatever the background: X_i has a continuous law, so P(X_i <= x) at
    x = X_i is uniform. A canary that adds s to its score makes z_i stochastically at most N(s/noise_i, 1): "z_i > t" is
    a test of N(0, noise_i²) against N(s, noise_i²) that adds an independent background to what it sees, its level is
    1 - Phi(t), and by Neyman and Pearson no test of that level has more power than 1 - Phi(t - s/noise_i).

    This is said of each canary by itself. The coins of a user who votes for probes of two canaries are in both scores.

    Args:
        scores: A score for each canary, or a row of them.
        background: What each user adds to each score when taking part, users by canaries, dense or sparse.
        q: The probability with which a user takes part.
        noise: The deviation that the noise alone gives each score; one number for all, or one each.

    Example:
        >>> normal_scores([1.5, 4.0], [[0.0, 1.0], [0.0, 2.0]], 1.0, 0.5)
        array([3., 2.])
    """
    given, votes = np.asarray(scores, dtype=np.float64), csc_array(background)
    if given.ndim == 0 or votes.ndim != 2 or votes.shape[1] != len(given):  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"A background of shape {votes.shape} is not that of scores of shape {given.shape}; give a column for each "
            "canary."
        )
    deviations = np.broadcast_to(np.asarray(noise, dtype=np.float64), given.shape[:1])
    own = np.split(votes.data, votes.indptr[1:-1])
    rows = [_normal(*each, q) for each in zip(given, own, deviations, strict=True)]
    return np.array(rows, dtype=np.float64).reshape(given.shape)


def _normal(x: NDArray[np.float64], weights: NDArray[np.float64], noise: float, q: float) -> NDArray[np.float64]:
    """Return the normal scores of one canary."""
    if q == 1.0 or not weights.any():
        return np.asarray((x - weights.sum()) / noise)
    up, down = both_tails(weights, q, noise, x)
    is_high = up.upper <= down.upper
    lower, upper = (np.where(is_high, *pair) for pair in zip(up, down, strict=True))
    if np.any((lower > 0) & (upper - lower > WIDEST * upper)) or np.any((lower == 0) & (upper > np.exp(-600.0))):
        raise InputError(
            "There is so little noise against the votes of users that the law of a score cannot be resolved; raise "
            "sigma, or audit a run with fewer users."
        )
    with np.errstate(divide="ignore"):
        sizes = -ndtri(0.5 * (lower + upper))
    # Below 1e-300 a tail is not computed. All users, or none, take part at most: that is the least that z can be.
    aside = np.where(is_high, x - weights[weights > 0].sum(), weights[weights < 0].sum() - x) / noise
    deepest = -float(ndtri(1e-302))
    return np.asarray(np.where(is_high, 1.0, -1.0) * np.where(lower > 0, sizes, np.maximum(deepest, aside)))
