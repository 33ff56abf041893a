"""Bound a rate by counts, one-sided and exactly."""

from collections.abc import Callable
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from canarybank.errors import InputError
from canarybank.score.epsilon import probability

__all__ = ["clopper_pearson", "ends", "lower_end", "upper_end", "whole_counts"]

Array: TypeAlias = NDArray[np.float64]

LEAST_GAMMA = 1e-250
"""The least level at which float64 still tells whether an end is right."""
_CLOSE = 1e-5
"""How far the chance at an end may be from gamma, as a share of it."""
_LEAST_LOG, _HALVINGS = -700.0, 64
"""The logarithm of the least rate that is looked for, and how often the range above it is halved."""


@overload
def clopper_pearson(successes: int, trials: int, gamma: float) -> tuple[float, float]: ...
@overload
def clopper_pearson(successes: ArrayLike, trials: ArrayLike, gamma: float) -> tuple[Array, Array]: ...
def clopper_pearson(successes: Any, trials: Any, gamma: float) -> Any:
    """Return the two one-sided Clopper–Pearson bounds of a rate, each at its own gamma.

    For X ~ Bin(trials, p) and every p: P(lower(X) > p) <= gamma, and P(upper(X) < p) <= gamma. Together they hold
    with probability at least 1 - 2 gamma. Each end is computed so that its chance is gamma to a share of 1e-5.
    Arrays broadcast, and give arrays.

    The formula: Clopper and Pearson (1934, https://doi.org/10.1093/biomet/26.4.404).

    Args:
        successes: How many trials succeeded.
        trials: How many trials there were.
        gamma: How often each end may miss the rate; at least 1e-250.

    Example:
        >>> lower, upper = clopper_pearson(0, 100, 0.025)
        >>> float(lower), round(float(upper), 4)
        (0.0, 0.0362)
    """
    probability("gamma", gamma)
    x, n = np.broadcast_arrays(whole_counts("successes", successes), whole_counts("trials", trials))
    if np.any(n < 1):
        raise InputError(
            f"There must be at least one trial, not {_first(n, n < 1)}; without trials no rate is bounded."
        )
    if np.any(x > n):
        raise InputError(
            f"{_first(x, x > n)} successes cannot come from {_first(n, x > n)} trials; check which is which."
        )
    lower, upper = ends(x, n, gamma)
    return (float(lower), float(upper)) if lower.ndim == 0 else (lower, upper)


def ends(x: ArrayLike, n: ArrayLike, gamma: float) -> tuple[Array, Array]:
    """Return what ``clopper_pearson`` returns, unchecked, and for expected counts too, which need not be whole."""
    return lower_end(x, n, gamma), upper_end(x, n, gamma)


def lower_end(x: ArrayLike, n: ArrayLike, gamma: ArrayLike) -> Array:
    """Return the lower one of the ends."""
    x, n, gamma = _broadcast(x, n, gamma)
    a, b = np.where(x > 0, x, 1.0), n - x + 1
    return np.where(x > 0, _checked_ends(betainc, betaincinv(a, b, gamma), a, b, gamma, is_rising=True), 0.0)


def upper_end(x: ArrayLike, n: ArrayLike, gamma: ArrayLike) -> Array:
    """Return the upper one of the ends."""
    x, n, gamma = _broadcast(x, n, gamma)
    a, b = x + 1, np.where(x < n, n - x, 1.0)
    return np.where(x < n, _checked_ends(betaincc, betainccinv(a, b, gamma), a, b, gamma, is_rising=False), 1.0)


def _broadcast(x: ArrayLike, n: ArrayLike, gamma: ArrayLike) -> list[Array]:
    if np.min(gamma) < LEAST_GAMMA:
        raise InputError(f"An end of a rate cannot be computed at a level of {np.min(gamma):g}; use a larger alpha.")
    return list(np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (x, n, gamma))))


def _checked_ends(
    chance: Callable[..., Any], found: Any, a: Array, b: Array, gamma: Array, *, is_rising: bool
) -> Array:
    """Return the rates at which a chance is gamma: what was found where that is right, all others by bisection.

    SciPy's inverses are far off for some counts, such as 1,000 of more than 1e8 trials. Bisection is of the logarithm
    of the rate, and ends where the chance is at most gamma.
    """
    rates: Array = np.array(found)
    wrong = ~(np.abs(chance(a, b, rates) - gamma) <= _CLOSE * gamma)
    if wrong.any():
        a, b, gamma = a[wrong], b[wrong], gamma[wrong]
        low, high = np.full(len(a), _LEAST_LOG), np.zeros(len(a))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_above = (chance(a, b, np.exp(middle)) > gamma) == is_rising
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        rates[wrong] = np.exp(low if is_rising else high)
    return rates


def whole_counts(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return counts as integers, or say which of them is no count."""
    given = np.asarray(values)
    if given.dtype == np.bool_ or given.dtype.kind not in "iuf":
        raise InputError(f"{name} must be whole numbers, not {values!r}.")
    wrong = ~((given >= 0) & (given == np.floor(given)) & (given < 2**63))
    if np.any(wrong):
        raise InputError(
            f"{name} must be whole numbers of at least 0, not {_first(given, wrong)}; give counts, not rates."
        )
    return given.astype(np.int64)


def _first(values: NDArray[Any], where: NDArray[np.bool_]) -> Any:
    return values[where].flat[0].item() if values.ndim else values.item()
