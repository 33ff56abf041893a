"""Say what a perfect attack would show with so many trials, and how many trials a given epsilon needs.

A perfect attack sees the canary's whole contribution on coordinates that nobody else touches. Its score, whitened,
is N(0, 1) without the canary and N(1/sigma, 1) when the canary takes part; no attack on one release does better.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from canarybank.auditing.forecast import ExpectedBound, summary
from canarybank.auditing.methods import Method, find_method
from canarybank.auditing.rates import Array
from canarybank.auditing.threshold import AttackRates, Target, best_threshold
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.score import unmix

__all__ = ["Ceiling", "ceiling", "perfect_rates", "trials_needed", "trials_needed_for"]

MOST_TRIALS = 10**15


@dataclass(frozen=True, slots=True)
class Ceiling(ExpectedBound):
    """The law of a perfect attack's bound at its best threshold.

    It is what a perfect attack typically shows, not a maximum: one perfect canary exceeds its median half of the time.
    """

    threshold: float
    """The best threshold for so many trials, on the log-likelihood ratio of a canary that takes part."""
    whitened: float
    """The same threshold on the score in units of its noise."""
    fpr: float
    tpr: float
    rule: float
    """The exact epsilon of that frozen rule, which endless trials at it would show."""
    exact: float
    """The exact epsilon of one release, which endless trials at their own best threshold would show."""

    def __str__(self) -> str:
        return f"perfect attack: {ExpectedBound.__str__(self)}; exact epsilon {self.exact:.4f}"


def perfect_rates(mechanism: Mechanism) -> AttackRates:
    """Return FPR and TPR of a perfect attack as functions of the threshold on its log-likelihood ratio."""
    mu, q = 1 / mechanism.sigma, mechanism.q

    def rates(thresholds: Array) -> tuple[Array, Array]:
        score = np.asarray(thresholds, np.float64) / mu + mu / 2
        fpr, included = ndtr(-score), ndtr(mu - score)
        return fpr, (1 - q) * fpr + q * included

    return rates


def ceiling(
    mechanism: Mechanism,
    trials: float,
    *,
    method: Method | str = "paper",
    alpha: float = 0.01,
    canaries: int = 1,
) -> Ceiling:
    """Return the law of the bound that perfect canaries give with so many trials of each hypothesis of each.

    ``alpha`` is the level of each bound: one canary's share, or all of it for ``pooled``. ``trials`` may be infinite.
    """
    target = Target(trials, mechanism.delta, alpha, find_method(method), canaries, mechanism.q)
    rates, exact, mu = perfect_rates(mechanism), one_round_epsilon(mechanism), 1 / mechanism.sigma
    # The best event of one release is where its mixture score exceeds epsilon.
    threshold = float(unmix(exact, mechanism.q)) if trials == math.inf else best_threshold(rates, target)[0]
    fpr, tpr = (float(rate[0]) for rate in rates(np.array([threshold])))
    if trials == math.inf:  # the exact epsilon, always
        law = {name: getattr(target, name) for name in ("trials", "canaries", "alpha", "delta")}
        law |= dict.fromkeys(("expected", "median", "q05", "q95", "mean"), exact) | {
            "sd": 0.0,
            "method": str(target.method),
        }
    else:
        law = summary(target, [(tpr, fpr)] * canaries)
    # A rate that underflows says nothing; no rule on one release shows more than the exact epsilon.
    rule = min(exact, max(0.0, float(replace(target, trials=math.inf).bound(tpr, fpr))))
    return Ceiling(
        **law,
        threshold=threshold,
        whitened=threshold / mu + mu / 2,
        fpr=fpr,
        tpr=tpr,
        rule=rule,
        exact=exact,
    )


def trials_needed(
    mechanism: Mechanism,
    epsilon: float,
    *,
    method: Method | str = "paper",
    alpha: float = 0.01,
    canaries: int = 1,
) -> int:
    """Return how many trials of each hypothesis a perfect attack needs for an expected bound of epsilon.

    That many are enough, and no more than a millionth part too many.
    """
    target = Target(1, mechanism.delta, alpha, find_method(method), canaries, mechanism.q)
    return _least(perfect_rates(mechanism), epsilon, target, one_round_epsilon(mechanism))


def trials_needed_for(rates: AttackRates, epsilon: float, target: Target) -> int:
    """Return how many trials of each hypothesis an attack with these rates needs for an expected bound of epsilon.

    For each number of trials the threshold is the best one; ``target.trials`` plays no part.
    """
    return _least(rates, epsilon, target, best_threshold(rates, replace(target, trials=math.inf))[1])


def _least(rates: AttackRates, epsilon: float, target: Target, exact: float) -> int:
    if not 0 < epsilon < exact:
        raise InputError(
            f"No number of trials is expected to show epsilon {epsilon:g}: it must be positive and below the attack's "
            f"exact epsilon, which is {f'{exact:.6g}' if exact < math.inf else 'infinite'}."
        )

    def lacking(log_trials: float) -> float:
        trials = math.ceil(math.exp(log_trials))
        return epsilon - best_threshold(rates, replace(target, trials=trials))[1]

    low, high = 0.0, math.log(16)
    while lacking(high) > 0:
        low, high = high, high + math.log(16)
        if high > math.log(MOST_TRIALS):
            raise InputError(
                f"Epsilon {epsilon:g} of the exact {exact:.6g} needs more than {MOST_TRIALS:,} trials: it is "
                "too close, or its events are too rare; ask for less."
            )
    log_trials = brentq(lacking, low, high, xtol=1e-7, rtol=1e-12) if lacking(low) > 0 else low
    while lacking(log_trials) > 0:
        log_trials += 1e-7 + math.log1p(math.exp(-log_trials))
    return math.ceil(math.exp(log_trials))
