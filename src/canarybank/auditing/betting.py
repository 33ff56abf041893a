"""Bet against a claimed epsilon, pair by pair: a refutation that is valid whenever one looks and stops.

A pair is one run with the canary eligible and one with it absent; the rule says "present" in either, or not. Under
(epsilon, delta) the payoff ``G = 1{present, eligible} - e^epsilon 1{present, absent} - delta`` has a mean of at most 0,
given all that came before and however the two runs of a pair depend on each other. So the wealth ``prod(1 + L G)`` of a
stake 0 <= L < 1/(e^epsilon + delta), fixed beforehand, is a nonnegative supermartingale, and the chance that it ever
reaches 1/alpha is at most alpha (Ville 1939). The reverse branch bets on "not present" with the arms exchanged. Wealths
of branches and of canaries are averaged on one clock; the average is such a wealth again, so alpha is not split.

Rules, stakes, the grid of epsilons and the blocks are committed before the first pair. Of a lost run the bet assumes
the worst: a lost eligible run was a miss, a lost absent run a hit.

Betting as inference: Waudby-Smith and Ramdas, https://arxiv.org/abs/2010.09686.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from scipy.stats import binom, invgauss

from canarybank.auditing.curve import (
    MOST,
    candidate_thresholds,
    claimed_curve,
    least_factor,
    perfect_roc,
    power_statement,
    smoothed_rates,
    sorted_scores,
)
from canarybank.auditing.rates import Array, probability, whole_counts
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.mechanism.mechanism import finite_number, whole

__all__ = [
    "Bets",
    "BettingPower",
    "BettingResult",
    "Wealth",
    "aim_bet",
    "betting_power",
    "outcomes",
    "pairs_to_refute",
    "plan_bets",
]

LEAST_SHARE, LARGEST_SHARE = 0.05, 0.95
"""A forward stake is between these shares of its limit: never so large that one loss takes all."""
ROUNDING: Final = 1e-9
"""What a computed log wealth must exceed its limit by, which is far more than its rounding."""
LEAST_RATE: Final = 1e-290
ARMS: Final = 2
CHUNK: Final = 2048
BRANCHES: Final = 2
LARGEST_EPSILON: Final = 500.0
MANY_EVENTS, CELLS_A_STEP, DEPTH = 1000, 8, 8.0


@dataclass(frozen=True, slots=True)
class Bets:
    """What is committed before the first pair: grid, stakes and blocks.

    A block holds ``arms`` = (n1, n0) runs of a canary, and is one bet on its shares of hits, ``G = tp/n1 - e^epsilon
    fp/n0 - delta``. A pair is the block (1, 1).
    """

    epsilons: tuple[float, ...]
    """The grid, ascending."""
    delta: float
    alpha: float
    forward: tuple[tuple[float, ...], ...]
    """The stake of each canary at each epsilon, on "present"."""
    reverse: tuple[tuple[float, ...], ...]
    """The stake of each canary at each epsilon, on "not present" with the arms exchanged; 0 for no bet."""
    arms: tuple[int, int] = (1, 1)
    """Eligible and absent runs of a block."""

    def __post_init__(self) -> None:
        grid = tuple(finite_number("epsilon", e) for e in self.epsilons)
        object.__setattr__(self, "epsilons", grid)
        object.__setattr__(self, "arms", tuple(self.arms))
        if not grid or any(a >= b for a, b in pairwise(grid)) or not 0 <= grid[0] <= grid[-1] <= LARGEST_EPSILON:
            raise InputError(
                f"The grid must be ascending epsilons from 0 to at most {LARGEST_EPSILON:g}, not {grid!r}."
            )
        probability("delta", self.delta, or_zero=True)
        probability("alpha", self.alpha)
        if len(self.arms) != ARMS or any(whole("runs of a block", n) != n for n in self.arms):
            raise InputError(f"A block has two arms of runs, not {self.arms!r}; a pair is (1, 1).")
        if not self.forward:
            raise InputError("Bets need at least one canary, but there is none.")
        limits = 1 / (np.exp(grid) + self.delta)
        for stakes in (self.forward, self.reverse):
            given = np.asarray(stakes, np.float64)
            if given.shape != (len(self.forward), len(grid)) or not np.all((given >= 0) & (given < limits)):
                raise InputError(
                    "There must be one stake for each canary and epsilon, from 0 to below 1/(exp(epsilon) + delta): "
                    "beyond that a wealth could become negative."
                )

    @property
    def canaries(self) -> int:
        """Return the number of canaries."""
        return len(self.forward)


@lru_cache(maxsize=16)
def _log_factors(bets: Bets) -> tuple[Array, Array]:
    """Return log(1 + L G) and log shares: of every canary, branch, epsilon, and outcome tp·(n0 + 1) + fp of a block."""
    stakes = np.stack([np.asarray(bets.forward), np.asarray(bets.reverse)], axis=1)
    payoffs = np.stack([_payoffs(bets.arms, e, bets.delta) for e in bets.epsilons], axis=1)
    factors = np.log1p(stakes[..., None] * payoffs[None])
    made = stakes > 0
    with np.errstate(divide="ignore"):
        shares = np.where(made, -np.log(np.maximum(made.sum(axis=(0, 1)), 1)), -np.inf)
    return factors, np.where(made.any(axis=(0, 1)), shares, -math.log(stakes.shape[0] * BRANCHES))


def _payoffs(arms: tuple[int, int], epsilon: float, delta: float) -> Array:
    """Return G of both branches for every outcome tp·(n0 + 1) + fp of a block."""
    n1, n0 = arms
    tp, fp = (grid.ravel() for grid in np.mgrid[: n1 + 1, : n0 + 1])
    forward = tp / n1 - math.exp(epsilon) * fp / n0 - delta
    reverse = (n0 - fp) / n0 - math.exp(epsilon) * (n1 - tp) / n1 - delta
    return np.stack([forward, reverse])


def _chances(tpr: ArrayLike, fpr: ArrayLike, arms: tuple[int, int]) -> Array:
    """Return the probability of every outcome of a block of independent runs, on the last axis."""
    # The binomial law of scipy overflows at rates that are all but 0, such as that of a score far from all others.
    rates = (np.asarray(rate, np.float64)[..., None] for rate in (tpr, fpr))
    first, second = (
        np.asarray(binom.pmf(np.arange(n + 1), n, np.where(rate < LEAST_RATE, 0.0, rate)))
        for n, rate in zip(arms, rates, strict=True)
    )
    joint = first[..., :, None] * second[..., None, :]
    return np.asarray(joint.reshape(*joint.shape[:-2], -1))


def _best_stakes(chances: Array, payoffs: Array, limit: float | Array) -> Array:
    """Return the stake that makes the expected log wealth grow fastest, 0 where none makes it grow."""
    low, high = np.zeros(chances.shape[:-1]), np.full(chances.shape[:-1], LARGEST_SHARE * np.asarray(limit))
    for _ in range(40):
        middle = 0.5 * (low + high)
        rising = np.sum(chances * payoffs / (1 + middle[..., None] * payoffs), axis=-1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.where(np.sum(chances * payoffs, axis=-1) > 0, low, 0.0)


def plan_bets(
    tpr: ArrayLike,
    fpr: ArrayLike,
    delta: float,
    grid: Sequence[float],
    *,
    alpha: float = 0.05,
    arms: tuple[int, int] = (1, 1),
    reverse: bool = True,
) -> Bets:
    """Return the bets whose wealth grows fastest under the violation that one cares about.

    The rates are those of each canary's frozen rule under that violation: exact ones of a perfect canary, or forecast
    ones from runs set apart. They decide the power only. At epsilons that these rates do not violate, a twentieth of
    the limit is staked forward and nothing in reverse; a bet that is not made takes no share of the average.

    The formula: betting on a claim, as in Waudby-Smith and Ramdas (2024, https://arxiv.org/abs/2010.09686).

    Args:
        tpr: The rule's true positive rate, one entry a canary.
        fpr: Its false positive rate, one entry a canary.
        delta: The delta of the claim.
        grid: The epsilons to bet against, ascending; put the claimed one among them.
        alpha: The chance of ever refuting an epsilon that holds.
        arms: Eligible and absent runs of each block; (1, 1) is a pair.
        reverse: Whether to bet on the reverse branch too.

    Example:
        >>> bets = plan_bets([0.5], [0.01], 1e-5, [0.5, 1.0, 2.0])
        >>> type(bets).__name__
        'Bets'
    """
    first, second = np.atleast_1d(np.asarray(tpr, np.float64)), np.atleast_1d(np.asarray(fpr, np.float64))
    rates = np.concatenate([first.ravel(), second.ravel()])
    if first.shape != second.shape or first.ndim != 1 or not np.all((rates >= 0) & (rates <= 1)):
        raise InputError("Bets are planned from one TPR and one FPR a canary, all in [0, 1].")
    empty = tuple((0.0,) * len(grid) for _ in first)
    checked = Bets(tuple(grid), delta, alpha, empty, empty, arms)
    chances = _chances(first, second, checked.arms)
    limits = np.array([1 / (math.exp(epsilon) + delta) for epsilon in checked.epsilons])
    payoffs = np.stack([_payoffs(checked.arms, epsilon, delta) for epsilon in checked.epsilons], axis=1)
    best = _best_stakes(np.broadcast_to(chances[:, None], (len(first), *payoffs[0].shape)), payoffs[0], limits)
    stakes = np.stack([np.maximum(best, LEAST_SHARE * limits), np.zeros_like(best)])
    if reverse:
        stakes[1] = _best_stakes(np.broadcast_to(chances[:, None], (len(first), *payoffs[1].shape)), payoffs[1], limits)
    forward, backward = (tuple(map(tuple, branch.tolist())) for branch in stakes)
    return replace(checked, forward=forward, reverse=backward)


def outcomes(
    eligible_scores: ArrayLike, absent_scores: ArrayLike, threshold: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where the rule said "present" in each arm, of scores in which NaN marks a lost run.

    A lost eligible run counts as a miss and a lost absent run as a hit: whatever the true answers were, the wealth is
    no larger than with them, so losses that depend on the hypothesis refute nobody.
    """
    eligible, absent = np.asarray(eligible_scores, np.float64), np.asarray(absent_scores, np.float64)
    return eligible > threshold, ~(absent <= threshold)


@dataclass(frozen=True, slots=True)
class Wealth:
    """What the bets have become so far: start one, update it, write it down, read it back, and go on.

    Example:
        >>> bets = plan_bets(0.5, 0.05, 1e-5, [0.5, 1.0])
        >>> wealth = Wealth.start(bets).update(n11=3, n10=57, n01=3, n00=57)
        >>> wealth.result(claimed=1.0).refuted
        True
    """

    bets: Bets
    counts: tuple[tuple[int, ...], ...]
    """How often each outcome of a block came, one row a canary; outcome tp·(n0 + 1) + fp."""
    clock: int
    """The blocks that the clock has counted: pairs, where a block is a pair."""
    best: tuple[float, ...]
    """The largest log wealth that was looked at, one entry an epsilon."""
    crossed: tuple[int | None, ...]
    """The place of the clock at which the wealth was first seen to reach 1/alpha, one entry an epsilon."""

    @classmethod
    def start(cls, bets: Bets) -> "Wealth":
        """Return the wealth of 1 before any pair."""
        empty = (0,) * ((bets.arms[0] + 1) * (bets.arms[1] + 1))
        size = len(bets.epsilons)
        return cls(bets, (empty,) * bets.canaries, 0, (0.0,) * size, (None,) * size)

    @property
    def log_wealth(self) -> Array:
        """Return the logarithm of the average wealth, one entry an epsilon."""
        factors, shares = _log_factors(self.bets)
        return np.asarray(logsumexp(np.einsum("cbeo,co->cbe", factors, np.asarray(self.counts)) + shares, axis=(0, 1)))

    def update(self, n11: ArrayLike, n10: ArrayLike, n01: ArrayLike, n00: ArrayLike) -> "Wealth":
        """Return the wealth after a committed block of pairs, looked at when the block is over.

        Args:
            n11: Pairs in which the rule said "present" in both runs; one entry a canary.
            n10: Pairs in which it said so in the eligible run only.
            n01: Pairs in which it said so in the absent run only.
            n00: Pairs in which it said so in neither.
        """
        if self.bets.arms != (1, 1):
            raise InputError(f"These bets are on blocks of {self.bets.arms} runs, not on pairs; use play(tp, fp).")
        given = [np.atleast_1d(whole_counts("pairs", n)) for n in (n00, n01, n10, n11)]
        if any(n.shape != (self.bets.canaries,) for n in given):
            raise InputError(f"Each of the four counts needs one entry for each of {self.bets.canaries} canaries.")
        rows = np.stack(given, axis=-1)
        counts = tuple(map(tuple, (np.asarray(self.counts) + rows).tolist()))
        moved = replace(self, counts=counts, clock=self.clock + int(rows.sum(axis=1).max()))
        return _looked_at(moved, moved.log_wealth[:, None], np.array([moved.clock]))

    def play(self, tp: ArrayLike, fp: ArrayLike) -> "Wealth":
        """Return the wealth after blocks in their order, looked at after each one: pairs, where a block is a pair.

        Args:
            tp: The eligible runs of each block in which the rule said "present": 0 or 1 of a pair. Blocks in order; one
                row a canary where there are several, block t of all canaries being one tick of the clock.
            fp: The absent runs of each block in which it said so.
        """
        n1, n0 = self.bets.arms
        hits, alarms = (np.atleast_2d(np.asarray(x)) for x in (tp, fp))
        hits, alarms = (x.astype(np.int64) if x.dtype == np.bool_ else whole_counts("hits", x) for x in (hits, alarms))
        if hits.shape != alarms.shape or hits.shape[0] != self.bets.canaries or hits.ndim != ARMS:
            raise InputError(
                f"Both arms need the same blocks of {self.bets.canaries} canaries, not shapes {hits.shape} and "
                f"{alarms.shape}."
            )
        if np.any(hits > n1) or np.any(alarms > n0):
            raise InputError(f"A block has {n1} eligible and {n0} absent runs, so no more of them can be hits.")
        wealth, outcome = self, hits * (n0 + 1) + alarms
        for begin in range(0, outcome.shape[1], CHUNK):
            wealth = wealth._played(outcome[:, begin : begin + CHUNK])
        return wealth

    def _played(self, outcome: NDArray[np.int64]) -> "Wealth":
        factors, shares = _log_factors(self.bets)
        before = np.asarray(self.counts)
        start = np.einsum("cbeo,co->cbe", factors, before) + shares
        steps = np.stack([table[:, :, row] for table, row in zip(factors, outcome, strict=True)])
        logs = logsumexp(start[..., None] + np.cumsum(steps, axis=-1), axis=(0, 1))
        added = np.stack([np.bincount(row, minlength=before.shape[1]) for row in outcome])
        clocks = self.clock + 1 + np.arange(outcome.shape[1])
        moved = replace(self, counts=tuple(map(tuple, (before + added).tolist())), clock=int(clocks[-1]))
        return _looked_at(moved, np.asarray(logs), clocks)

    @property
    def epsilon_lower(self) -> float:
        """Return the largest grid point such that it and every grid point below it were refuted; 0 where none was.

        At all times together it exceeds the true epsilon with probability at most alpha: for that, the wealth of the
        smallest grid point that is not below the truth must have reached 1/alpha.
        """
        refuted = [at is not None for at in self.crossed]
        number = refuted.index(False) if False in refuted else len(refuted)
        return self.bets.epsilons[number - 1] if number else 0.0

    def result(self, claimed: float) -> "BettingResult":
        """Return what the bets say about a claimed epsilon of the grid, and their lower bound."""
        if claimed not in self.bets.epsilons:
            raise InputError(
                f"The claimed epsilon {claimed:g} is not on the committed grid; plan the bets with it on the grid."
            )
        at = self.bets.epsilons.index(claimed)
        return BettingResult(
            refuted=self.crossed[at] is not None,
            claimed=float(claimed),
            pair=self.crossed[at],
            pairs=self.clock,
            log_wealth=float(self.log_wealth[at]),
            best_log_wealth=self.best[at],
            epsilon_lower=self.epsilon_lower,
            delta=self.bets.delta,
            alpha=self.bets.alpha,
            canaries=self.bets.canaries,
            arms=self.bets.arms,
        )


def _looked_at(wealth: Wealth, logs: Array, clocks: NDArray[np.int64]) -> Wealth:
    """Take note of log wealths, one row an epsilon, at these places of the clock."""
    reached = logs >= -math.log(wealth.bets.alpha) + ROUNDING
    first = np.where(reached.any(axis=1), clocks[np.argmax(reached, axis=1)], -1).tolist()
    crossed = tuple(old if old is not None or new < 0 else new for old, new in zip(wealth.crossed, first, strict=True))
    best = np.maximum(wealth.best, logs.max(axis=1))
    return replace(wealth, best=tuple(best.tolist()), crossed=crossed)


@dataclass(frozen=True, slots=True)
class BettingResult:
    """What bets say about a claimed epsilon, valid at any stopping time.

    Where the claim holds, the chance that ``refuted`` is ever true is at most alpha; and the chance that
    ``epsilon_lower`` ever exceeds the true epsilon is at most alpha.
    """

    refuted: bool
    """Whether epsilon is above the claimed one."""
    claimed: float
    """The claimed epsilon."""
    pair: int | None
    """The pair, or block, at which the wealth reached 1/alpha."""
    pairs: int
    """The pairs, or blocks, played so far, of each canary."""
    log_wealth: float
    """The logarithm of the wealth against the claim, now."""
    best_log_wealth: float
    """The largest that it was when looked at."""
    epsilon_lower: float
    """The lower bound on epsilon: a point of the committed grid."""
    delta: float
    alpha: float
    canaries: int
    arms: tuple[int, int]

    @property
    def assumption(self) -> str:
        """Return what the result relies on."""
        return (
            "given all runs before it, each run has the law that the claim is about, and the two arms differ in the "
            "canary only; rules, stakes, grid and blocks committed before the first pair; a lost eligible run counts "
            "as a miss and a lost absent run as a hit"
        )

    @property
    def statement(self) -> str:
        """Return what the bets refute, or that they do not, with their numbers."""
        unit = "pair" if self.arms == (1, 1) else f"block of {self.arms[0]} and {self.arms[1]} runs"
        over = "" if self.canaries == 1 else f" of each of {self.canaries} canaries"
        claim = f"epsilon {self.claimed:.4g} at delta {self.delta:g}"
        level = f"alpha {self.alpha:g}, valid whenever one stops"
        bound = f"Lower bound on epsilon: {self.epsilon_lower:.4g} ({level})."
        if self.refuted:
            return (
                f"Refuted at {unit} {self.pair:,}: epsilon is above the claimed {self.claimed:.4g} at delta "
                f"{self.delta:g} ({self.pairs:,} played{over}, {level}). {bound}"
            )
        wealth = math.exp(min(self.best_log_wealth, 700.0))
        return (
            f"Not refuted: no violation of {claim} detected in {self.pairs:,} {unit}s{over} (the wealth reached "
            f"{wealth:.3g} of the {1 / self.alpha:.3g} that refute; {level}). {bound}"
        )


def aim_bet(
    absent_scores: ArrayLike, eligible_scores: ArrayLike, epsilon: float, delta: float
) -> tuple[float, float, float]:
    """Return the threshold at which bets against epsilon would grow fastest, and the (TPR, FPR) forecast there.

    The scores come from runs set apart. Their rates are smoothed as ``aim_curve`` smooths them; where no threshold
    would let a bet grow, it is the one that comes nearest to it.
    """
    absent, eligible = sorted_scores("absent", absent_scores), sorted_scores("eligible", eligible_scores)
    thresholds = candidate_thresholds(absent, eligible)
    fpr, tpr = smoothed_rates(absent, eligible, thresholds)
    at, _ = _best_event(tpr, fpr, epsilon, delta)
    return float(thresholds[at]), float(tpr[at]), float(fpr[at])


def _best_event(tpr: Array, fpr: Array, epsilon: float, delta: float) -> tuple[int, float]:
    """Return which of the rates let a forward bet grow fastest, and its stake."""
    payoffs = _payoffs((1, 1), epsilon, delta)[0]
    chances = _chances(tpr, fpr, (1, 1))
    stakes = _best_stakes(chances, payoffs, 1 / (math.exp(epsilon) + delta))
    growth = np.sum(chances * np.log1p(stakes[:, None] * payoffs), axis=-1)
    growth = np.where(stakes > 0, growth, np.minimum(chances @ payoffs, 0.0))
    at = int(np.argmax(growth))
    return at, float(stakes[at])


def pairs_to_refute(
    tpr: float,
    fpr: float,
    epsilon: float,
    delta: float,
    *,
    alpha: float,
    canaries: int = 1,
    chances: Sequence[float] = (0.1, 0.5, 0.9),
) -> tuple[int | None, ...]:
    """Return how many pairs refute an epsilon in such shares of the audits; None where these rates never do.

    The rates are those of one canary's rule, its pairs are independent and its stake is the best for them. With several
    canaries on the clock the others are taken to add nothing.

    The law of the time is that of a random walk over pairs in which the rule said "present" at least once, on a lattice
    with an absorbing end; where that takes thousands of such pairs, of a Brownian motion.

    The formula: betting on a claim, as in Waudby-Smith and Ramdas (2024, https://arxiv.org/abs/2010.09686).

    Args:
        tpr: The rule's true positive rate.
        fpr: Its false positive rate.
        epsilon: The claimed epsilon.
        delta: The claimed delta.
        alpha: The chance of ever refuting a claim that holds.
        canaries: The canaries on the clock; all but one are taken to add nothing.
        chances: The shares of audits that are asked about.

    Example:
        >>> few, half, most = pairs_to_refute(0.5, 0.01, 1.0, 1e-5, alpha=0.05)
        >>> few <= half <= most < 100
        True
        >>> pairs_to_refute(0.02, 0.01, 1.0, 1e-5, alpha=0.05)
        (None, None, None)
    """
    payoffs, law = _payoffs((1, 1), epsilon, delta)[0], _chances(tpr, fpr, (1, 1))
    stake = float(_best_stakes(law, payoffs, 1 / (math.exp(epsilon) + delta)))
    barrier = math.log(whole("canaries", canaries) / probability("alpha", alpha))
    if stake == 0:
        return (None,) * len(chances)
    return tuple(_first_passage(np.log1p(stake * payoffs), law, barrier, tuple(chances)))


def _first_passage(steps: Array, law: Array, barrier: float, chances: tuple[float, ...]) -> list[int]:
    """Return quantiles of the first time at which a walk with these steps, and an upward drift, reaches a barrier."""
    drift = float(law @ steps)
    variance = float(law @ steps**2) - drift**2
    if variance <= ROUNDING * drift**2:  # a win in every pair
        return [math.ceil(barrier / drift)] * len(chances)
    eventful = 1 - float(law[0])  # outcome 0: "present" in neither run
    if barrier / drift * eventful > MANY_EVENTS:
        waiting = invgauss(mu=variance / (drift * barrier), scale=barrier**2 / variance)
        return [math.ceil(float(waiting.ppf(chance))) for chance in chances]
    # Between two eventful pairs the walk only pays delta: the mean of that is added to each eventful step.
    jumps = steps[1:] + float(steps[0]) * float(law[0]) / eventful
    arrivals = _crossing(jumps, law[1:] / eventful, barrier, max(chances))
    number = np.arange(1, len(arrivals) + 1)

    def crossed(pairs: int) -> float:
        return float(arrivals @ binom.sf(number - 1, pairs, eventful))

    found = []
    for chance in chances:
        low, high = 0, 1
        while crossed(high) < chance:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if crossed(middle) >= chance else (middle, high)
        found.append(high)
    return found


def _crossing(jumps: Array, law: Array, barrier: float, chance: float) -> Array:
    """Return the probability that a walk first reaches the barrier at jump 1, 2, ..., until it most likely has.

    Positions are cells; a jump is split between two so that its mean stays. By betting well, a wealth falls below e^-8
    with probability below e^-8: there the walk is held.
    """
    cell = float(jumps.max()) / CELLS_A_STEP
    size = math.ceil((barrier + DEPTH) / cell)
    start = size - math.ceil(barrier / cell - 1e-9)  # reaching ``size`` is reaching the barrier
    alive, arrivals = np.zeros(size), []
    alive[start] = 1.0
    while alive.sum() > (1 - chance) / 4:
        moved, gone = np.zeros(size), 0.0
        for jump, weight in zip(jumps / cell, law, strict=True):
            below = math.floor(jump)
            for cells, share in ((below, 1 - (jump - below)), (below + 1, jump - below)):
                mass = alive * (weight * share)
                if cells >= 0:
                    moved[cells:] += mass[: size - cells]
                    gone += float(mass[size - cells :].sum())
                else:
                    moved[:cells] += mass[-cells:]
                    moved[0] += float(mass[:-cells].sum())
        alive = moved
        arrivals.append(gone)
    return np.asarray(arrivals)


@dataclass(frozen=True, slots=True)
class BettingPower:
    """The smallest violations that so many pairs would typically show, with a perfect canary, by betting.

    Typical means that half of the audits refute the claim within so many pairs.
    """

    pairs: int
    """Pairs of each canary."""
    epsilon: float
    """The claimed epsilon."""
    delta: float
    alpha: float
    canaries: int
    noise_factor: float | None
    """Noise divided by this shows; None where no division up to 100 does."""
    q_factor: float | None
    """q multiplied by this shows; None where even q = 1 does not, or q is 1 already."""

    @property
    def assumption(self) -> str:
        """Return what the forecast stands on."""
        return "a perfect canary; rule and stake the best ones for the violation; independent pairs"

    @property
    def statement(self) -> str:
        """Return which violations so many pairs would typically show, and that smaller ones stay unseen."""
        pairs = f"{self.pairs:,} pairs{'' if self.canaries == 1 else f' of each of {self.canaries} canaries'}"
        return power_statement(f"{pairs} at alpha {self.alpha:g}", "betting", self.noise_factor, self.q_factor)


def betting_power(claim: Claim, pairs: int, *, alpha: float, canaries: int = 1) -> BettingPower:
    """Return the smallest violations of a claim's mechanism that so many pairs would typically show by betting.

    Each is a factor of its own: the noise divided by ``noise_factor``, or q multiplied by ``q_factor``.

    The formula: betting on a claim, as in Waudby-Smith and Ramdas (2024, https://arxiv.org/abs/2010.09686).

    Args:
        claim: A claim that names its mechanism, which the violations are of.
        pairs: Pairs of each canary.
        alpha: The chance of ever refuting a claim that holds.
        canaries: The canaries on the clock; all but one are taken to add nothing.

    Example:
        >>> from canarybank.mechanism import Claim, Mechanism
        >>> found = betting_power(Claim.of(Mechanism(q=1.0)), 2_000, alpha=0.05)
        >>> 1 < found.noise_factor < 3
        True
    """
    curve, number = claimed_curve(claim), whole("pairs", pairs)

    def shows(shift: float, q: float) -> bool:
        fpr, tpr = perfect_roc(shift, q, curve.rounds)
        at, _ = _best_event(tpr, fpr, claim.epsilon, claim.delta)
        rates = float(tpr[at]), float(fpr[at])
        found = pairs_to_refute(*rates, claim.epsilon, claim.delta, alpha=alpha, canaries=canaries, chances=(0.5,))[0]
        return found is not None and found <= number

    finite = claim.epsilon < math.inf
    return BettingPower(
        pairs=number,
        epsilon=claim.epsilon,
        delta=claim.delta,
        alpha=float(alpha),
        canaries=canaries,
        noise_factor=least_factor(lambda f: shows(f * curve.shift, curve.q), MOST) if finite else None,
        q_factor=least_factor(lambda g: shows(curve.shift, min(1.0, g * curve.q)), 1 / curve.q) if finite else None,
    )
