"""Check that a plug-in keeps the contract of its kind: run these in the plug-in's own tests.

    from canarybank.testing import check_method

    def test_my_method():
        check_method("my_package.thirds:THIRDS")

A check raises a ``ConformanceError`` that says what is wrong. It finds errors; it proves nothing.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from canarybank.auditing import Branch, Counts, Method, expected_bound, find_method
from canarybank.auditing.rates import rate_epsilon
from canarybank.errors import ConformanceError

__all__ = ["check_method"]

_DELTA = 0.1
_TRIALS = 10
_ROUNDING = 1e-9
_UNSTEADY = 1e-4
"""A bound that is found by a search may fall by this much where it should rise."""

Array = NDArray[np.float64]


def check_method(method: Method | str) -> None:
    """Check a bound method: what it says of itself, its shares of alpha, its bounds, their coverage, its forecast.

    Coverage is enumerated, not sampled: the probability of every outcome whose bound exceeds the truth is summed, for
    ten trials of each hypothesis, for ten against a rate that is known (unless the bound is a slow search), and for
    two unequal canaries where the method pools.

    Args:
        method: What you register under ``canarybank.methods``, or its name.

    Example:
        >>> check_method("clopper-pearson")
        >>> from canarybank.auditing import Method
        >>> class Hopeful(Method):
        ...     def share(self, alpha, canaries):
        ...         return alpha
        >>> check_method(Hopeful("hopeful", assumption="trials are independent"))
        Traceback (most recent call last):
            ...
        canarybank.errors.ConformanceError: The method 'hopeful' spends 0.4 of alpha 0.2 on 2 canaries.
    """
    found = find_method(method)
    alpha = min(0.2, found.largest_alpha)
    _check_words(found)
    for canaries in range(1, 6):
        spent = found.share(alpha, canaries) * (1 if found.pools else canaries)
        _require(spent <= alpha * (1 + _ROUNDING), found, f"spends {spent:g} of alpha {alpha:g} on {canaries} canaries")
    few = _Arm.enumerated(_TRIALS)
    for q in (0.3, 1.0):
        _check_forecast(found, alpha, q)
        _check_coverage(found, alpha, q, few, few)
        for rate in (0.02, 0.4) if found.exact else ():
            _check_coverage(found, alpha, q, few, _Arm.known(rate))
            _check_coverage(found, alpha, q, _Arm.known(rate), few)
        if found.pools:
            _check_unequal(found, alpha, q)


def _require(holds: object, method: Method, fault: str) -> None:
    if not holds:
        raise ConformanceError(f"The method {str(method)!r} {fault}.")


def _check_words(method: Method) -> None:
    _require(method.name and not set(method.name) & set(": \t\n"), method, "needs a name without a colon or a space")
    _require(method.assumption.strip(), method, "does not say what its bound assumes")
    aims = set(method.aims)
    _require(aims and aims <= {None, Branch.FORWARD, Branch.REVERSE}, method, f"cannot aim at {method.aims!r}")
    _require(not method.single.pools, method, "pools, so its `single` must be a method that does not")


def _check_forecast(method: Method, alpha: float, q: float) -> None:
    tp, fp = np.array([[0.0], [3.7], [10.0]]), np.array([[0.0, 0.4, 6.5, 10.0]])
    for branch in method.branches(tp, fp, _TRIALS, _TRIALS, delta=_DELTA, alpha=alpha, q=q):
        fine = np.shape(branch) == (3, 4) and not np.isnan(branch).any() and np.all(branch < np.inf)
        _require(fine, method, "must forecast a number, or -inf, for every pair of counts that it is given")
    law = expected_bound(0.1 + 0.8 * q, 0.1, 50, delta=_DELTA, alpha=alpha, method=method, q=q)
    _require(0 <= law.q05 <= law.median <= law.q95 < math.inf, method, f"forecasts no law of its bound: {law}")


@dataclass(frozen=True, slots=True)
class _Arm:
    """The trials of one hypothesis: every outcome, true rates, and the law of the outcomes at each rate, a row each."""

    trials: int
    outcomes: tuple[int, ...]
    rates: Array
    law: Array

    @classmethod
    def enumerated(cls, trials: int) -> Self:
        rates = expit(np.linspace(-9, 9, 301))
        law = np.asarray(binom.pmf(np.arange(trials + 1), trials, rates[:, None]))
        return cls(trials, tuple(range(trials + 1)), rates, law)

    @classmethod
    def known(cls, rate: float, trials: int = 10**9) -> Self:
        return cls(trials, (round(rate * trials),), np.array([rate]), np.ones((1, 1)))


def _check_coverage(method: Method, alpha: float, q: float, first: _Arm, second: _Arm) -> None:
    """Check every bound from the trials of two arms: that it rises, claims nothing from nothing, and covers."""
    bounds = np.array(
        [
            [_epsilon(method, [Counts(tp, fp, first.trials, second.trials)], alpha, q) for fp in second.outcomes]
            for tp in first.outcomes
        ]
    )
    _require(np.all(np.diff(bounds, axis=0) >= -_UNSTEADY), method, "falls when there are more true positives")
    if first is second:
        _require(not np.diag(bounds).any(), method, "makes a claim from as many false as true positives")
        tp, fp, n = np.array(first.outcomes)[:, None], np.array(second.outcomes), first.trials
        forecast = np.maximum(*method.branches(tp, fp, n, n, delta=_DELTA, alpha=alpha, q=q))
        told = not method.exact or np.allclose(np.maximum(forecast, 0.0), bounds)
        _require(told, method, "gives bounds that its `branches` do not; override `claim` where they are a forecast")
    truth = _truth(method, first.rates[:, None], second.rates, q)
    for value in np.unique(bounds[bounds > 0]):
        reached = np.where(truth < value - _ROUNDING, first.law @ (bounds >= value) @ second.law.T, 0.0)
        i, j = np.unravel_index(np.argmax(reached), reached.shape)
        _require(
            reached[i, j] <= alpha * (1 + _ROUNDING),
            method,
            f"exceeds the true epsilon {truth[i, j]:.4g} with probability {reached[i, j]:.4g}, more than alpha "
            f"{alpha:g}, at {first.trials:,} and {second.trials:,} trials, rates {first.rates[i]:.4g} and "
            f"{second.rates[j]:.4g}, delta {_DELTA:g}, q {q:g}",
        )


def _check_unequal(method: Method, alpha: float, q: float) -> None:
    """Check the coverage of two canaries that differ."""
    n = 4
    outcomes = list(product(range(n + 1), repeat=4))
    bounds = np.array([_epsilon(method, [Counts(a, b, n, n), Counts(c, d, n, n)], alpha, q) for a, b, c, d in outcomes])
    for rates in ((0.9, 0.1, 0.001, 0.001), (0.6, 0.2, 0.2, 0.05), (0.99, 0.5, 0.3, 0.3), (0.2, 0.02, 0.7, 0.4)):
        truth = max(float(_truth(method, np.array(one), np.array(other), q)) for one, other in (rates[:2], rates[2:]))
        chance = np.prod(binom.pmf(outcomes, n, rates), axis=1)
        missed = float(chance @ (bounds > truth + _ROUNDING))
        _require(
            missed <= alpha,
            method,
            f"exceeds the true epsilon {truth:.4g} of unequal canaries with probability {missed:.4g}, more than alpha "
            f"{alpha:g}, at {n} trials and rates {rates}, delta {_DELTA:g}, q {q:g}",
        )


def _epsilon(method: Method, counts: list[Counts], alpha: float, q: float) -> float:
    bound = method.bound(counts, delta=_DELTA, alpha=alpha, q=q)
    said = (bound.method, bound.assumption, bound.confidence, bound.delta)
    _require(
        said == (method.name, method.assumption, 1 - alpha, _DELTA),
        method,
        f"must state a bound with its name, assumption, confidence and delta, not {said}",
    )
    _require(0 <= bound.epsilon < math.inf, method, f"gives {bound.epsilon} for {counts}")
    return bound.epsilon


def _truth(method: Method, first: Array, fpr: Array, q: float) -> Array:
    """Return the epsilon that rates force, the first being that of the trials that the method counts."""
    tpr = (1 - q) * fpr + q * first if method.included else first
    forced = np.maximum(rate_epsilon(tpr, fpr, _DELTA), rate_epsilon(1 - fpr, 1 - tpr, _DELTA))
    return np.maximum(forced, 0.0)
