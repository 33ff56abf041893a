"""Check the statistics on one's own figures: coverage by exact enumeration, and a perfect attack of known truth.

Coverage is enumerated, not sampled: the probability of every outcome whose bound exceeds the truth is summed.
Replicates could not tell a right bound from one that fails twice as often as it may.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.stats import binom, binomtest

from canarybank import seeds
from canarybank.auditing import (
    Literal,
    Method,
    Projected,
    Tail,
    Target,
    Trials,
    ceiling,
    clopper_pearson,
    count,
    epsilon_lower,
    find_method,
    perfect_rates,
    rate_epsilon,
    supremum,
)
from canarybank.engine import Engine
from canarybank.mechanism import Mechanism, epsilon, one_round_epsilon
from canarybank.progress import SILENT, Progress
from canarybank.run.commitment import Record
from canarybank.score import LinearScore, Moments, RoundLaw
from canarybank.systems import BankSystem

__all__ = ["Check", "SelfTest", "end_level", "miss_probability", "selftest"]

_CHANCE = 1e-6
_USERS, _RARE = 300, 1e-3
"""A check on sampled trials fails by chance at most this often."""


class Check(Record):
    """One thing that was checked."""

    name: str
    """What was checked."""
    ok: bool
    """Whether it holds."""
    detail: str
    """The figures."""


class SelfTest(Record):
    """The outcome of all checks."""

    ok: bool
    """Whether all hold."""
    checks: tuple[Check, ...]
    """Each check."""


def selftest(
    mechanism: Mechanism,
    trials: int = 1_000_000,
    alpha: float = 0.05,
    *,
    method: Method | str = "paper",
    canaries: int = 5,
    seed: int = 0,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> SelfTest:
    """Check the bound, the exact figures and the trial engines for one's own q, sigma, n and alpha.

    A right program fails the checks on sampled trials with probability at most 8e-6; the others involve no chance.

    Args:
        mechanism: The mechanism, with its q, sigma and delta.
        trials: The trials of each hypothesis of each canary.
        alpha: The level of one attack's claim.
        method: How counts become a bound, by name.
        canaries: The canaries that share alpha.
        seed: The seed of the sampled trials.
        engine: Where trials run; by default on a thread for each core.
        progress: Where progress is shown.

    Example:
        >>> found = selftest(Mechanism(), trials=10_000)
        >>> found.ok, found.checks[0].name
        (True, 'coverage, perfect attack at its best threshold')
    """
    chosen = find_method(method)
    target = Target(trials, mechanism.delta, chosen.share(alpha, canaries), chosen, canaries, mechanism.q)
    checks = (
        *_coverage(mechanism, target),
        *_ends(target),
        *_exact(mechanism),
        *_perfect(mechanism, target, seed, engine, progress),
        *_crowded(mechanism, target, seed, engine, progress),
    )
    return SelfTest(ok=all(check.ok for check in checks), checks=checks)


def miss_probability(target: Target, tpr: float, fpr: float) -> float:
    """Return P(bound > truth) over the counts that these rates give, the truth being the epsilon that they force.

    Every outcome is enumerated but for tails of 1e-13 a side, which count as misses. A bound grows with the true
    positives, so for each number of false ones a search finds the fewest true ones with which it exceeds the truth.
    """
    truth = max(0.0, float(rate_epsilon(tpr, fpr, target.delta)), float(rate_epsilon(1 - fpr, 1 - tpr, target.delta)))
    n = int(target.trials) * target.pool
    false = np.arange(max(0.0, binom.ppf(1e-13, n, fpr)), min(float(n), binom.isf(1e-13, n, fpr)) + 1)
    low, high = np.full(len(false), -1.0), np.full(len(false), n + 1.0)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        misses = _bounds(target, np.clip(middle, 0, n), false, n) > truth * (1 + 1e-12) + 1e-12
        high, low = np.where(misses, middle, high), np.where(misses, low, middle)
    missed = binom.sf(high - 1, n, float(target.first_rate(tpr, fpr)))
    return float(binom.pmf(false, n, fpr) @ missed) + 2e-13


def end_level(trials: int, successes: int, gamma: float, *, declared: float | None = None) -> tuple[float, float]:
    """Return how often each end of an interval fails at the rate where that is worst: (lower, upper).

    The lower end for x successes fails at a rate just below it whenever at least x successes are seen, the upper
    likewise. ``declared`` is the gamma that the ends are made with, where it is not ``gamma`` itself.
    """
    low, high = clopper_pearson(successes, trials, declared or gamma)
    lower = float(binom.sf(successes - 1, trials, low)) if successes > 0 else 0.0
    return lower, float(binom.cdf(successes, trials, high)) if successes < trials else 0.0


def _bounds(target: Target, tp: NDArray[np.float64], fp: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    if target.method.exact:
        return np.maximum(target.at_counts(tp, fp, n), 0.0)
    return np.array([target.claim(one, other, n) for one, other in zip(tp, fp, strict=True)])


def _coverage(mechanism: Mechanism, target: Target) -> Iterator[Check]:
    small = target
    if not target.method.exact:  # each value of such a bound, as of joint, takes a search
        small = Target(min(target.trials, 20), 0.01, target.alpha, target.method, 1, target.q)
    for name, tpr, fpr in _cases(mechanism, small):
        missed = miss_probability(small, tpr, fpr)
        yield Check(
            name=f"coverage, {name}",
            ok=missed <= small.alpha,
            detail=f"the {small.method} bound exceeds the truth with probability {missed:.3g}, at most {small.alpha:g} "
            f"is allowed ({small.trials:,.0f} trials, FPR {fpr:.3g}, TPR {tpr:.3g})",
        )


def _cases(mechanism: Mechanism, target: Target) -> Iterator[tuple[str, float, float]]:
    n = int(target.trials)
    if target.method.exact:
        best = ceiling(mechanism, n, method=target.method, alpha=target.alpha, canaries=target.canaries)
        yield "perfect attack at its best threshold", best.tpr, best.fpr
    rates = perfect_rates(mechanism)
    for level in (0.0, 2.0):
        fpr, tpr = (float(rate[0]) for rate in rates(np.array([level])))
        yield f"perfect attack at llr {level:g}", tpr, fpr
    rare = min(0.5, 30 / n)
    yield "no attack", rare, rare
    yield "no attack but delta", min(1.0, rare + target.delta), rare


def _ends(target: Target) -> Iterator[Check]:
    n, gamma = int(target.trials), target.alpha / target.method.tails
    seen = sorted({max(1, min(n - 1, x)) for x in (1, 10, 100, n // 10)})
    worst = max(max(end_level(n, x, gamma)) for x in seen)
    yield Check(
        name="each Clopper–Pearson end at its own level",
        ok=worst <= gamma * (1 + 1e-6),
        detail=f"at the worst rates an end fails with probability {worst:.6g}, at most {gamma:.6g} is allowed",
    )
    mutant = max(max(end_level(n, x, gamma, declared=min(0.5, 2 * gamma))) for x in seen)
    yield Check(
        name="a bound with twice the level is caught",
        ok=mutant > gamma * (1 + 1e-6),
        detail=f"made at twice its level, an end fails with probability {mutant:.6g}",
    )


def _exact(mechanism: Mechanism) -> Iterator[Check]:
    closed, pld = one_round_epsilon(mechanism), epsilon(mechanism)
    yield Check(
        name="accountant against closed form",
        ok=math.isclose(closed, pld, rel_tol=1e-4, abs_tol=1e-5),
        detail=f"epsilon {pld:.7g} by the privacy loss distribution, {closed:.7g} in closed form",
    )
    found = supremum(RoundLaw.perfect(mechanism), mechanism.delta).interval
    yield Check(
        name="perfect attack spends the whole budget",
        ok=found.lower - 1e-6 <= closed <= found.upper + 1e-6,
        detail=f"its exact epsilon lies in [{found.lower:.7g}, {found.upper:.7g}], the mechanism's is {closed:.7g}",
    )


def _perfect(
    mechanism: Mechanism, target: Target, seed: int, engine: Engine | None, progress: Progress
) -> Iterator[Check]:
    number = min(int(target.trials), 2_000_000)
    at = ceiling(mechanism, number, alpha=target.alpha)
    exact = one_round_epsilon(mechanism)
    for name, trials in _engines(mechanism).items():
        path = ("selftest", name)
        counts = count(trials, at.threshold, number, seed=seed, path=path, engine=engine, progress=progress)
        chances = [binomtest(counts.fp, number, at.fpr).pvalue, binomtest(counts.tp, number, at.tpr).pvalue]
        ends = (counts.tp, counts.fp, counts.n1, counts.n0)
        cautious = epsilon_lower(*ends, delta=mechanism.delta, alpha=_CHANCE)
        shown = epsilon_lower(*ends, delta=mechanism.delta, alpha=target.alpha)
        yield Check(
            name=f"perfect attack by {name} trials",
            ok=min(chances) > _CHANCE / 2 and cautious.epsilon <= exact,
            detail=f"{counts.fp:,} false and {counts.tp:,} true positives of {number:,} (expected "
            f"{at.fpr * number:,.1f} and {at.tpr * number:,.1f}); bound {shown.epsilon:.3f} of the exact {exact:.3f}",
        )


def _crowded(
    mechanism: Mechanism, target: Target, seed: int, engine: Engine | None, progress: Progress
) -> Iterator[Check]:
    """Compare tail trials among users with trials that are drawn in full: given both counts, each is as likely."""
    number = min(int(target.trials), 2_000_000)
    weights = seeds.stream(seed, "selftest", "crowd").gamma(0.2, 0.1, size=_USERS)
    mu = 1.0 / mechanism.sigma
    law = RoundLaw(weights, mu, mu * mu, 0.5 * mu * mu + mechanism.q * float(weights.sum()), mechanism.q)
    threshold = float(brentq(lambda at: float(law.point(at)[0]) - _RARE, *law.reach(1e-9)))
    full, tail = (
        count(trials, threshold, number, seed=seed, path=("selftest", "crowd", name), engine=engine, progress=progress)
        for name, trials in (("projected", Projected(law)), ("tail", Tail(law)))
    )
    pairs = ((full.fp, tail.fp), (full.tp, tail.tp))
    chances = [binomtest(one, one + other, 0.5).pvalue if one + other else 1.0 for one, other in pairs]
    yield Check(
        name="tail trials among users",
        ok=min(chances) > _CHANCE / 2,
        detail=f"{tail.fp:,} false and {tail.tp:,} true positives of {number:,}; drawn in full {full.fp:,} and "
        f"{full.tp:,}",
    )


def _engines(mechanism: Mechanism) -> dict[str, Trials]:
    # One user who contributes nothing stands for everybody else: a perfect attack looks where nobody votes.
    canary = np.array([mechanism.clip])
    score = LinearScore(canary, Moments(np.zeros(1), np.array([[mechanism.noise**2]])))
    system = BankSystem(csr_array((1, 1), dtype=np.float64), canary, mechanism)
    law = RoundLaw.perfect(mechanism)
    return {"literal": Literal(system, score), "projected": Projected(law), "tail": Tail(law)}
