"""Bound the shift of canaries in one run whose coins are known: scores of rounds they took part in against the others.

The family: the whitened score of a canary in a round is N(b + mu, s²) if the canary took part and N(b, s²) if not,
independently over canaries and rounds. What is bounded is the shift mu/s, in deviations of the noise that really was
added; where canaries differ, their mean over the rounds they took part in. A mechanism allows 1/sigma at most. The
deviation s is estimated from scores without the canary, never taken from the claim, so the bounds are exact whatever
the noise is. Both statistics have a noncentral t law.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtri, gammainc, gammaincinv, gammaln, ndtr, ndtri, stdtrit
from scipy.stats import binom

from canarybank.auditing.rates import Array, probability
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.mechanism.claim import ROUNDING as CLOSED_FORM
from canarybank.mechanism.composition import RELATIVE_ERROR, composed_epsilon
from canarybank.mechanism.mechanism import whole
from canarybank.score.counts import lower_end
from canarybank.seeds import stream

__all__ = [
    "Expected",
    "Shift",
    "Way",
    "declared_ways",
    "expected_known_coins",
    "expected_shift",
    "family_epsilon",
    "noncentral_exceeds",
    "noncentral_lower",
    "rate_lower",
    "shift_between",
    "shift_within",
    "typically_exceeds",
    "ways",
]

Way: TypeAlias = Literal["between", "within"]
"""What a score with the canary is compared to: those of other canaries in the same round, or its own in others."""
Labels: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.int64]

ROUNDING: Final = 1e-12
"""Differences and deviations below this share of the largest score are rounding, and count as 0."""
GUARD: Final = 0.95
LARGEST_SHIFT: Final = 30.0
"""No bound on a shift is above this, also where there is an effect and no noise at all: nobody asks for more."""
RUNS: Final = 500
"""Simulated runs of a forecast."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
_REACH = 8.8  # deviations, beyond which a normal law has less than 1e-18


@dataclass(frozen=True, slots=True)
class Shift:
    """A lower bound on the shift of canaries, and the statistic it comes from."""

    way: Way
    """How scores in and out were compared: between canary-rounds, or within each canary."""
    included: int
    """Canary-rounds with the canary; whole canaries where each took part in all rounds or in none."""
    left_out: int
    """Those without."""
    difference: float
    """Mean score with the canary, less that without."""
    deviation: float
    """The deviation of one score that the difference was divided by."""
    degrees: int
    """Degrees of freedom of that deviation; below 1 nothing is bounded."""
    lower: float
    """The bound in deviations of the noise, at least 0 and at most 30."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a bound that is still to be measured will be for a perfect canary: its median and its 5% and 95% ends."""

    median: float
    q05: float
    q95: float

    def __str__(self) -> str:
        return f"median {self.median:.3f}, 5% to 95% {self.q05:.3f} to {self.q95:.3f}"


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a bound is computed from: difference/deviation·sqrt(size) has noncentrality shift·sqrt(size·rounds)."""

    way: Way
    included: int = 0
    left_out: int = 0
    difference: float = 0.0
    deviation: float = 0.0
    degrees: int = 0
    size: float = 0.0
    rounds: int = 1  # that one score is the mean of

    @property
    def statistic(self) -> float:
        if self.degrees < 1 or self.size <= 0 or self.difference <= 0:
            return 0.0
        return self.difference / self.deviation * math.sqrt(self.size) if self.deviation else math.inf

    def bounded(self, noncentrality: float) -> Shift:
        lower = min(noncentrality / math.sqrt(self.size * self.rounds), LARGEST_SHIFT) if noncentrality > 0 else 0.0
        return Shift(
            self.way, self.included, self.left_out, self.difference, self.deviation, self.degrees, float(lower)
        )


def shift_between(scores: ArrayLike, took: ArrayLike, gamma: float) -> Shift:
    """Return a lower bound on the shift from scores with a canary against those of other canaries in the same round.

    In the family with a b of its own for each round, and for every shift mu/s: P(lower > mu/s) <= gamma, given the
    coins. Without the guard against wide scores it would be exactly gamma. The deviation is that of the scores without
    a canary; that of the scores with one takes its place where it is larger than an F test at 5% allows, which only
    lowers the bound. Noise that all canaries share in a round cancels: it leaves a deviation that is too small, and a
    large bound.
    Where every canary took part in all rounds or in none, one canary's rounds share its background: then canaries
    are compared by their means over the rounds.

    Args:
        scores: Whitened scores, canaries by rounds.
        took: Whether the canary took part, alike.
        gamma: The probability with which the bound may exceed the shift.

    Example:
        >>> found = shift_between([[0.0], [1.0], [-1.0], [9.0], [10.0]], [[0], [0], [0], [1], [1]], 0.05)
        >>> found.difference, found.deviation, found.degrees, round(found.lower, 2)
        (9.5, 1.0, 2, 1.97)
    """
    probability("gamma", gamma)
    return _bound(_between(*_checked(scores, took)), gamma)


def shift_within(scores: ArrayLike, took: ArrayLike, gamma: float) -> Shift:
    """Return a lower bound on the shift from each canary's rounds with it against its own rounds without it.

    In the family with a b of its own for each canary, and for every shift mu/s: P(lower > mu/s) <= gamma, given the
    coins. Canary i, in n1 rounds and out of n0, has weight n1·n0/(n1 + n0); the deviation is that of scores
    without a canary around that canary's mean of them, with the guard of ``shift_between``. A canary's own background
    cancels, and noise that rounds share does too: it leaves a deviation that is too small, and a large bound.

    Args:
        scores: Whitened scores, canaries by rounds: at least two rounds.
        took: Whether the canary took part, alike.
        gamma: The probability with which the bound may exceed the shift.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> took = rng.random((200, 4)) < 0.5
        >>> 1 < shift_within(rng.normal(size=took.shape) + 2 * took, took, 0.05).lower < 2
        True
    """
    probability("gamma", gamma)
    x, labels = _checked(scores, took)
    if x.shape[1] < 2:  # noqa: PLR2004, a round with and a round without
        raise InputError(
            "One round cannot be compared within canaries: a canary needs a round with it and one without. Use the "
            "comparison between canaries, or run more rounds."
        )
    return _bound(_within(x, labels), gamma)


def ways(rounds: int, took: ArrayLike) -> tuple[Way, ...]:
    """Return which comparisons these coins allow, so that a bound above 0 is possible."""
    labels = np.asarray(took, bool).reshape(-1, whole("rounds", rounds))
    nothing = np.zeros(labels.shape)
    found = [_between(nothing, labels), *([_within(nothing, labels)] if rounds > 1 else [])]
    return tuple(each.way for each in found if each.size > 0 and each.degrees > 0)


def declared_ways(rounds: int, q: float) -> tuple[Way, ...]:
    """Return which comparisons to declare before a run: ``within`` needs several rounds with coins of their own."""
    return ("between", "within") if whole("rounds", rounds) > 1 and q < 1 else ("between",)


def rate_lower(took: ArrayLike, eligible: ArrayLike, gamma: float) -> float:
    """Return the exact binomial lower bound on the rate at which a sampler takes eligible canaries, over all rounds.

    For independent coins of rate q: P(lower > q) <= gamma. Without an eligible canary it is 0.

    The formula: Clopper and Pearson (1934, https://doi.org/10.1093/biomet/26.4.404).

    Args:
        took: Which canaries took part, canaries by rounds, or how many did in each round.
        eligible: Which canaries were eligible, alike.
        gamma: The probability with which the bound may exceed the rate.

    Example:
        >>> took = [True] * 80 + [False] * 20
        >>> round(rate_lower(took, [True] * 100, 0.05), 3)
        0.723
    """
    probability("gamma", gamma)
    labels, there = np.atleast_2d(np.asarray(took, bool).T).T, np.asarray(eligible, bool)
    if labels.shape[:1] != there.shape:
        raise InputError(f"Coins of {len(labels)} canaries and {there.size} eligible or not; give one of each.")
    if labels[~there].any():
        raise InputError("A canary that is not eligible took part; check the coins against the list of who is in.")
    chosen = labels[there]
    return float(lower_end(chosen.sum(), chosen.size, gamma)) if chosen.size else 0.0


@lru_cache(maxsize=4096)
def family_epsilon(q: float, shift: float, rounds: int, delta: float) -> float:
    """Return the epsilon at delta of so many releases with Gaussian noise of 1/shift, for adding or removing one user.

    It is the exact epsilon of the family at (q, shift), from below: what the accountant may be above the truth is taken
    off. It grows with both, so lower bounds on both give a lower bound on epsilon. It is 0 where q or the shift is 0.
    This is not the inversion of Gaussian differential privacy, which forgets q and exceeds the truth for q < 1.

    Args:
        q: The rate at which users take part.
        shift: What taking part adds to a score, in deviations of the noise.
        rounds: The number of releases.
        delta: The delta at which epsilon is stated.

    Example:
        >>> round(family_epsilon(0.1, 1.0, 1, 1e-5), 4), family_epsilon(0.1, 0.0, 1, 1e-5)
        (1.6845, 0.0)
    """
    count = whole("rounds", rounds)
    if not (0 <= q <= 1 and shift >= 0):
        raise InputError(f"q must lie in [0, 1] and the shift be at least 0, not {q!r} and {shift!r}.")
    if q == 1:
        shift, count = shift * math.sqrt(count), 1  # without sampling, rounds are one release with less noise
    if q * shift < 1e-50:  # noqa: PLR2004, far below any delta
        return 0.0
    mechanism = Mechanism(k=1, clip=1.0, sigma=1 / min(shift, LARGEST_SHIFT), q=q, delta=delta)
    if count == 1 or delta == 0:
        return one_round_epsilon(mechanism) * (1 - CLOSED_FORM)
    return composed_epsilon(mechanism, count) * (1 - 2 * RELATIVE_ERROR)


def expected_shift(
    canaries: int, *, q: float, shift: float, rounds: int, between: float, within: float | None = None
) -> Expected:
    """Return the law of the larger of the bounds on the shift, for canaries that all have it.

    From a small simulation with a fixed seed.

    Args:
        canaries: All canaries; at q = 1 a fair coin leaves half of them out.
        q: The sampler's rate.
        shift: The shift, in deviations of the noise.
        rounds: The number of releases.
        between: The share of alpha of ``shift_between``.
        within: The share of alpha of ``shift_within``; None where it is not used.
    """
    return _quantiles(_simulated(canaries, q, shift, rounds, between, within)[0])


def typically_exceeds(
    limit: float, canaries: int, *, q: float, shift: float, rounds: int, between: float, within: float | None = None
) -> bool:
    """Return whether the median of ``expected_shift`` is above a limit, without solving for any bound.

    A bound is above the limit if and only if the chance of its statistic is below gamma there.
    """
    drawn = _draw(canaries, q, shift, rounds, between, within)
    above = np.any([each.exceeds(limit * drawn.scale) for each in drawn.ways], axis=0)
    return int(np.count_nonzero(above)) > RUNS // 2


def expected_known_coins(
    canaries: int,
    *,
    q: float,
    shift: float,
    rounds: int,
    delta: float,
    between: float,
    within: float | None = None,
    sampler: float | None = None,
    releases: int | None = None,
) -> Expected:
    """Return the law of the epsilon that known coins will give, for canaries that all have the shift.

    Args:
        canaries: All canaries; at q = 1 a fair coin leaves half of them out.
        q: The sampler's rate.
        shift: The shift, in deviations of the noise; 1/sigma for a perfect canary.
        rounds: The number of releases that are pooled.
        delta: The delta at which epsilon is stated.
        between: The share of alpha of ``shift_between``.
        within: The share of alpha of ``shift_within``; None where it is not used.
        sampler: The share of alpha of ``rate_lower``; None where q is named as an assumption.
        releases: The number of releases that epsilon is about: all of them, if it is not given.

    Example:
        >>> found = expected_known_coins(400, q=1.0, shift=1.0, rounds=1, delta=1e-5, between=0.05)
        >>> 1 < found.median < 5
        True
    """
    lower, counts, trials = _simulated(canaries, q, shift, rounds, between, within)
    rates = np.full(len(lower), q) if sampler is None else lower_end(counts, np.maximum(trials, 1), sampler)
    pairs = list(zip(rates.tolist(), lower.tolist(), strict=True))
    # The epsilon of one release is quick, and orders runs almost as that of several does.
    order = np.argsort(lower if sampler is None else [family_epsilon(*pair, 1, delta) for pair in pairs], kind="stable")
    over = rounds if releases is None else releases
    return Expected(
        *(family_epsilon(*pairs[order[int(at * (len(pairs) - 1))]], over, delta) for at in (0.5, 0.05, 0.95))
    )


def noncentral_lower(statistic: ArrayLike, degrees: ArrayLike, gamma: float) -> Array:
    """Return the lower confidence bound on the noncentrality of a t statistic, at least 0.

    It solves P(T >= statistic) = gamma for T = (Z + bound)/sqrt(V), Z standard normal and V an independent chi-square
    over its degrees, and is 0 where that holds for no positive bound. So P(lower > noncentrality) is gamma for every
    positive noncentrality and at most gamma at 0. Arrays broadcast.
    """
    t, df = np.broadcast_arrays(np.asarray(statistic, np.float64), np.asarray(degrees, np.float64))
    shape, t, df = t.shape, t.ravel(), df.ravel()
    found = np.where(t == np.inf, np.inf, 0.0)
    finite = np.isfinite(t) & (df >= 1)
    some = finite & (t > stdtrit(np.where(finite, df, 1.0), 1 - gamma))
    if np.any(some):
        found[some] = _solved(t[some], df[some], float(ndtri(gamma)))
    return found.reshape(shape)


def noncentral_exceeds(statistic: Array, degrees: Array | Counts, gamma: float, limit: Array) -> Labels:
    """Return whether ``noncentral_lower`` is above a limit of at least 0, at the cost of a single step of it."""
    df = np.asarray(degrees, np.float64)
    finite = np.isfinite(statistic) & (df >= 1)
    some = finite & (statistic > stdtrit(np.where(finite, df, 1.0), 1 - gamma))
    found: Labels = (statistic == np.inf) & (limit < np.inf)
    if np.any(some):
        found[some] = _chance_above(statistic[some], df[some], limit[some])[0] < gamma
    return found


def _solved(t: Array, df: Array, aim: float) -> Array:
    """Solve for the noncentrality by Newton's steps on normal quantiles, between ends that surely hold it."""
    low, high = np.zeros(len(t)), t * np.sqrt(2 * gammaincinv(df / 2, 1 - 1e-9) / df) + 8
    at = np.clip(t * np.sqrt(1 - 1 / (2 * df)) + aim * np.sqrt(1 + t * t / (2 * df)), 0.01 * high, high)
    for _ in range(200):
        chance, slope = _chance_above(t, df, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value = ndtri(chance)
            step = (value - aim) * np.exp(-value * value / 2) / (math.sqrt(2 * math.pi) * slope)
        low, high = np.where(value < aim, at, low), np.where(value >= aim, at, high)
        new = at - step
        new = np.where((new > low) & (new < high), new, (low + high) / 2)
        done = np.abs(new - at) <= 1e-12 * (1 + at)
        at = new
        if np.all(done):
            break
    return at


def _chance_above(t: Array, df: Array, noncentrality: Array) -> tuple[Array, Array]:
    """Return P(T >= t), for t > 0, and its derivative by the noncentrality.

    Two integrals of the same probability: over the deviation, whose integrand is smooth where the normal law is the
    wider of the two, and over the normal variable, where the deviation's is.
    """
    chance, slope = np.empty(len(t)), np.empty(len(t))
    wide = t * t >= 2 * df
    for rows, integral in ((~wide, _over_deviation), (wide, _over_normal)):
        if np.any(rows):
            chance[rows], slope[rows] = integral(t[rows, None], df[rows, None], noncentrality[rows, None])
    return chance, slope


def _over_deviation(t: Array, df: Array, noncentrality: Array) -> tuple[Array, Array]:
    half = df / 2
    top = half + _REACH * np.sqrt(2 * half) + _REACH**2  # above the 1e-18 upper quantile of half a chi-square
    low, high = np.sqrt(gammaincinv(half, 1e-18) / half), np.sqrt(top / half)
    width = (high - low) / 2
    r = (high + low) / 2 + width * _NODES
    log_density = math.log(2) + half * np.log(half) - gammaln(half) + (df - 1) * np.log(r) - half * r * r
    mass = np.exp(log_density) * _WEIGHTS * width
    z = noncentrality - t * r
    return (mass * ndtr(z)).sum(1), (mass * np.exp(-z * z / 2)).sum(1) / math.sqrt(2 * math.pi)


def _over_normal(t: Array, df: Array, noncentrality: Array) -> tuple[Array, Array]:
    first = np.maximum(-noncentrality, -_REACH)
    width = (_REACH - first) / 2
    z = (_REACH + first) / 2 + width * _NODES
    mass = np.exp(-z * z / 2) * _WEIGHTS * width / math.sqrt(2 * math.pi)
    below = mass * gammainc(df / 2, df / 2 * (np.maximum(noncentrality + z, 0.0) / t) ** 2)
    return below.sum(1), (z * below).sum(1)


def _checked(scores: ArrayLike, took: ArrayLike) -> tuple[Array, Labels]:
    x, labels = np.asarray(scores, np.float64), np.asarray(took)
    if x.ndim not in {1, 2} or x.shape != labels.shape or not x.size:
        raise InputError(f"Scores and coins must both be canaries by rounds, not {x.shape} and {labels.shape}.")
    if not np.isfinite(x).all():
        raise InputError("Some scores are not finite; check the releases.")
    return x.reshape(len(x), -1), labels.astype(bool).reshape(len(x), -1)


def _bound(found: _Compared, gamma: float) -> Shift:
    return found.bounded(float(noncentral_lower(found.statistic, found.degrees, gamma)))


def _between(x: Array, took: Labels) -> _Compared:
    """Compare the canaries of each round with each other, or their means where one took part in all or in none."""
    rounds = 1
    if np.all(took == took[:, :1]):
        rounds = x.shape[1]
        x, took = x.mean(axis=1, keepdims=True), took[:, :1]
    return _compared("between", x.T, took.T, rounds)


def _within(x: Array, took: Labels) -> _Compared:
    """Compare the rounds of each canary with each other."""
    return _compared("within", x, took)


def _compared(way: Way, x: Array, took: Labels, rounds: int = 1) -> _Compared:
    """Compare scores with and without the canary inside each row."""
    n1, n0 = took.sum(axis=1), (~took).sum(axis=1)
    mean1, mean0 = (np.where(has, x, 0.0).sum(axis=1) / np.maximum(n, 1) for has, n in ((took, n1), (~took, n0)))
    weights = n1 * n0 / (n1 + n0)
    size = float(weights.sum())
    if not size:
        return _Compared(way, int(n1.sum()), int(n0.sum()))
    scale = ROUNDING * float(np.abs(x).max())
    residuals = (x - np.where(took, mean1[:, None], mean0[:, None])) ** 2
    degrees = tuple(int(np.maximum(n - 1, 0).sum()) for n in (n1, n0))
    deviation = _deviation((float(residuals[took].sum()), float(residuals[~took].sum())), degrees, scale)
    difference = _rounded(float(weights @ (mean1 - mean0)) / size, scale)
    return _Compared(way, int(n1.sum()), int(n0.sum()), difference, deviation, degrees[1], size, rounds)


def _deviation(squares: tuple[float, ...], degrees: tuple[int, ...], scale: float) -> float:
    """Return the deviation of scores without a canary, or of those with one where it is too large for chance."""
    inside, out = (_rounded(math.sqrt(total / max(n, 1)), scale) for total, n in zip(squares, degrees, strict=True))
    if min(degrees) > 0 and inside**2 > out**2 * float(fdtri(degrees[0], degrees[1], GUARD)):
        return inside
    return out


def _rounded(value: float, scale: float) -> float:
    return value if abs(value) > scale else 0.0


def _quantiles(values: Array) -> Expected:
    return Expected(*(float(each) for each in np.quantile(values, [0.5, 0.05, 0.95], method="lower")))


@dataclass(frozen=True, slots=True)
class _DrawnWay:
    """The t statistics of simulated runs, one way of comparing: a bound on the shift is one of theirs over ``root``."""

    statistic: Array
    degrees: Counts
    root: Array
    gamma: float

    def lower(self) -> Array:
        return noncentral_lower(self.statistic, self.degrees, self.gamma) / self.root

    def exceeds(self, limit: float) -> Labels:
        return noncentral_exceeds(self.statistic, self.degrees, self.gamma, limit * self.root)


@dataclass(frozen=True, slots=True)
class _Draws:
    """Simulated runs: statistics, what divides a bound for the shift of one round, coins with a canary, all coins."""

    ways: tuple[_DrawnWay, ...]
    scale: float
    inside: Counts
    coins: Counts


@lru_cache(maxsize=64)
def _simulated(
    canaries: int, q: float, shift: float, rounds: int, between: float, within: float | None
) -> tuple[Array, Counts, Counts]:
    """Return, for each simulated run, the larger bound on the shift, the coins that fell so, and all coins."""
    drawn = _draw(canaries, q, shift, rounds, between, within)
    lower = np.max([each.lower() for each in drawn.ways], axis=0)
    return lower / drawn.scale, drawn.inside, drawn.coins


def _draw(canaries: int, q: float, shift: float, rounds: int, between: float, within: float | None) -> _Draws:
    """Draw what the bounds are computed from by its own law, every variable from strata of equal probability.

    All rounds count as one group for the comparison between canaries, which changes little; given the coins, the
    difference within canaries is then that between them and something independent.
    """
    m, count = whole("canaries", canaries), whole("rounds", rounds)
    rng = stream(0, "known-coins")
    strata = [rng.permuted((np.arange(RUNS) + rng.random(RUNS)) / RUNS) for _ in range(6)]

    def squares(degrees: Counts) -> Array:
        return np.where(degrees > 0, 2 * gammaincinv(np.maximum(degrees / 2, 0.5), strata.pop()), 0.0)

    # At q = 1 a fair coin decides on all rounds of a canary, and their mean is its one score.
    per, rate, effect = (1, 0.5, shift * math.sqrt(count)) if q == 1 else (count, q, shift)
    times = np.arange(per + 1)  # that a canary took part
    canaries_at = rng.multinomial(m, binom.pmf(times, per, rate), size=RUNS)
    n1, n0 = canaries_at @ times, canaries_at @ (per - times)
    own1, own0 = (canaries_at @ np.maximum(each - 1, 0) for each in (times, per - times))
    size, paired = n1 * n0 / (m * per), canaries_at @ (times * (per - times) / per)
    within1, within0 = squares(own1), squares(own0)
    all1, all0 = within1 + squares(n1 - 1 - own1), within0 + squares(n0 - 1 - own0)
    difference = effect + ndtri(strata.pop()) / np.sqrt(np.where(size > 0, size, 1.0))
    drawn = [_drawn_way(difference, size, (all1, n1 - 1), (all0, n0 - 1), between)]
    if within is not None and per > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(paired > 0, np.sqrt(np.maximum(1 / paired - 1 / size, 0.0)), 0.0)
        own = difference + apart * ndtri(strata.pop())
        drawn.append(_drawn_way(own, paired, (within1, own1), (within0, own0), within))
    if q == 1:
        return _Draws(tuple(drawn), math.sqrt(count), n1 * count, n1 * count)
    return _Draws(tuple(drawn), 1.0, n1, n1 + n0)


def _drawn_way(
    difference: Array, size: Array, inside: tuple[Array, Counts], out: tuple[Array, Counts], gamma: float
) -> _DrawnWay:
    """Return the statistics of drawn differences, sums of squares and their degrees of freedom."""
    probability("gamma", gamma)
    (squares1, df1), (squares0, df0) = inside, out
    ok = (size > 0) & (df0 > 0)
    variance1, variance0 = squares1 / np.maximum(df1, 1), squares0 / np.maximum(df0, 1)
    guarded = (df1 > 0) & (variance1 > variance0 * fdtri(np.maximum(df1, 1), np.maximum(df0, 1), GUARD))
    variance = np.where(guarded, variance1, variance0)
    statistic = np.maximum(difference, 0.0) * np.sqrt(size / np.where(ok, variance, 1.0))
    return _DrawnWay(np.where(ok, statistic, 0.0), df0, np.sqrt(np.where(ok, size, 1.0)), gamma)
