"""Say how far the best known attacks reach where every client votes for a secret share of the bank.

With a share f, each client that takes part draws a set S of entries, new at every release, and votes within it. A
release without the canary is P. With the canary eligible it is (1 - q) P + q E_S[P shifted by c(S)], where c(S) is what
the canary contributes when its set is S. In units of the noise, without other users, the likelihood ratio of a canary
that takes part is

    R(y) = E_S exp(c(S) · y - |c(S)|² / 2),

and no rule on releases does better than R(y) > t. ``equal_ranking_ratio`` is that ratio, exactly, where all records of
the canary rank the probes alike: a recursion over ranks. For any other canary R is averaged over sets that are drawn,
and other users enter by their mean and covariance; that is a rule too, and it is judged like any other.

A rule's epsilon is log((TPR - delta) / FPR) with TPR = (1 - q) FPR + q I, I being its rate when the canary takes part.
Its rates are far below what plain sampling sees. So releases are drawn from noise that is shifted towards the canary's
contributions, by several lengths, and weighted by the exact ratio of the two densities. The threshold, and which of
the filters is used, are chosen on a quarter of the batches; the others judge it.

The formal epsilon of the mechanism is what it is without the share. A figure here is what the best attack that we know
reaches; a better one may exist.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.stats import t as student

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.score import Interval, Moments
from canarybank.seeds import stream

__all__ = [
    "CONFIDENCE",
    "ShareReach",
    "core_epsilon",
    "cores_reach",
    "equal_ranking_ratio",
    "equal_ranking_reach",
    "filtered_reach",
    "spread_epsilon",
]

CONFIDENCE = 0.99
STEP, BEYOND, LONGEST = 1.5, 3.5, 20.0
"""Releases are shifted towards a contribution, by steps of so many deviations of the noise, up to the contribution and
so many beyond; a longer contribution than LONGEST makes ratios that floating point cannot hold."""
BATCHES = 32
PILOT = 4
"""One in so many batches chooses the threshold."""
REUSED = 16
"""So many releases of a batch share one draw of the background."""
CAUTION, LEAST = 2.0, 100
"""So many errors of an epsilon are taken off, and so many draws must lie above a threshold, before it is chosen."""

Floats = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], Floats]
"""Draw so many vectors on the inspected entries, one a row."""


@dataclass(frozen=True, slots=True)
class ShareReach:
    """What an attack reaches against a secret share: the epsilon of a rule whose threshold was chosen on other draws.

    ``interval`` holds that rule's epsilon with the ``confidence`` stated, by the spread of independent batches.
    """

    epsilon: float
    interval: Interval
    filter: str
    samples: int
    confidence: float = CONFIDENCE

    def __str__(self) -> str:
        return (
            f"the best known attack reaches epsilon {self.epsilon:.3f} ({100 * self.confidence:g}% interval "
            f"{self.interval.lower:.3f} to {self.interval.upper:.3f}, {self.filter} filter, {self.samples:,} draws)"
        )


def spread_epsilon(mechanism: Mechanism) -> float:
    """Return what a linear filter reaches against a canary whose records vote for many probes alike, in the limit.

    Its votes lie evenly on all probes in its set, with norm C. The sum over m probes then moves by C (|S|/m)^1/2, which
    is f^1/2 C up to the chance of |S|: in the limit of many probes the epsilon is that of a mechanism whose sigma is
    larger by f^-1/2. With few probes it is a little more; with so many that the votes are no longer clipped, less.

    The formula: docs/defences.md derives the sigma. The epsilon is the trade-off of two Gaussians (Balle and Wang,
    2018, https://arxiv.org/abs/1805.06530), subsampled as in Zhu, Dong and Wang (2022,
    https://arxiv.org/abs/2106.08567).

    Args:
        mechanism: The parameters of the release, its share among them.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> round(spread_epsilon(Mechanism(share=0.5)), 3), round(spread_epsilon(Mechanism(sigma=2**0.5)), 3)
        (0.769, 0.769)
    """
    return one_round_epsilon(replace(mechanism.whole_bank, sigma=mechanism.sigma / math.sqrt(mechanism.share)))


def core_epsilon(mechanism: Mechanism, records: int = 32) -> float:
    """Return what is reached on one core probe, the nearest entry of all the canary's records.

    Each record has other entries behind it, which nobody inspects. With chance f the core is in the canary's set, and
    gets a k-th of all votes; else the canary leaves no trace. That is a canary that takes part with chance q f, whose
    contribution to the core follows from cap and clip. It is exact.

    The formula: docs/defences.md derives the shift. The epsilon is the trade-off of two Gaussians (Balle and Wang,
    2018, https://arxiv.org/abs/1805.06530), subsampled as in Zhu, Dong and Wang (2022,
    https://arxiv.org/abs/2106.08567).

    Args:
        mechanism: The parameters of the release, its share among them.
        records: How many records the canary has.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> half = Mechanism(k=1, share=0.5)
        >>> round(core_epsilon(half), 3), round(spread_epsilon(half), 3)
        (1.033, 0.769)
    """
    k, cap = mechanism.k, 1.0 if mechanism.entry_cap is None else mechanism.entry_cap
    core, other = min(1 / k, cap), min(1 / (records * k), cap)
    norm = math.sqrt(core**2 + records * (k - 1) * other**2)
    shift = core * min(1.0, mechanism.clip / norm) / mechanism.noise
    return one_round_epsilon(replace(mechanism.whole_bank, sigma=1 / shift, q=mechanism.q * mechanism.share))


def equal_ranking_ratio(releases: ArrayLike, shift: float, k: int, share: float) -> Floats:
    """Return R(y) of releases y (n, probes) in units of the noise, for a canary all of whose records rank alike.

    The probes stand in the order of that ranking, before all other entries. The canary votes for the first k entries of
    its set, each with ``shift``. Let e_i be the average over sets, restricted to the probes so far, of the ratio where
    i of them are in the set. A further probe with value y, and z = exp(shift · y - shift² / 2), gives

        e_i <- (1 - f) e_i + f z e_(i-1)  for i < k,    e_k <- e_k + f z e_(k-1),

    and R is the sum of all e_i: votes that are left go to entries that nobody inspects.

    The formula: the likelihood ratio, which no rule beats (Neyman and Pearson, 1933,
    https://doi.org/10.1098/rsta.1933.0009).

    Args:
        releases: The releases, one a row, divided by the noise's deviation.
        shift: What the canary adds to a probe that it votes for, in the same units.
        k: How many entries each record votes for.
        share: The chance f that an entry is in the canary's set.

    Example:
        >>> equal_ranking_ratio([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], shift=1.0, k=1, share=0.5).round(2).tolist()
        [0.7, 6.49, 3.6]
    """
    values = np.atleast_2d(np.asarray(releases, dtype=np.float64))
    gained = np.exp(shift * values - shift**2 / 2)
    found = np.zeros((k + 1, len(values)))
    found[0] = 1.0
    for z in gained.T:
        moved = share * z * found[:-1]
        found[:-1] *= 1 - share
        found[1:] += moved
    return np.asarray(found.sum(axis=0))


def equal_ranking_reach(
    mechanism: Mechanism, *, probes: int = 64, samples: int = 1 << 17, confidence: float = CONFIDENCE, seed: int = 0
) -> ShareReach:
    """Return what the optimal filter reaches against a canary all of whose records rank the probes alike.

    Nobody else votes for the probes. With k = 1 this is the strongest attack that we know.

    The formula: the likelihood ratio, which no rule beats (Neyman and Pearson, 1933,
    https://doi.org/10.1098/rsta.1933.0009), and the region of error rates that (epsilon, delta) allows (Kairouz, Oh and
    Viswanath, 2015, https://arxiv.org/abs/1311.0776).

    Args:
        mechanism: The parameters of the release, its share among them.
        probes: How many entries the attacker plants, nearest first.
        samples: How many releases are drawn.
        confidence: The confidence of the interval.
        seed: The root of what is drawn.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> mechanism = Mechanism(k=1, share=0.5)
        >>> found = equal_ranking_reach(mechanism, samples=1 << 13)
        >>> found.interval.lower < core_epsilon(mechanism) < found.interval.upper
        True
    """
    k, share = mechanism.k, mechanism.share
    each = min(1 / k, 1.0 if mechanism.entry_cap is None else mechanism.entry_cap, mechanism.clip / math.sqrt(k))
    shift = each / mechanism.noise
    lengths = _lengths(shift * math.sqrt(k))
    rng, size = stream(seed, "defend", "equal ranking"), -(-samples // BATCHES)
    batches = []
    for _ in range(BATCHES):
        sets = rng.random((size, probes)) < share
        votes = shift * (sets & (np.cumsum(sets, axis=1) <= k))
        y = rng.standard_normal((size, probes)) + votes * rng.choice(lengths, size)[:, None]
        drawn = np.mean([equal_ranking_ratio(y, shift * length, k, share) for length in lengths], axis=0)
        ratio = equal_ranking_ratio(y, shift, k, share)
        batches.append(_Batch(np.log(ratio)[None], 1 / drawn, ratio / drawn))
    return _judged(batches, ("optimal",), mechanism, confidence)


def cores_reach(
    mechanism: Mechanism,
    cores: int,
    *,
    records: int = 32,
    samples: int = 1 << 17,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> ShareReach:
    """Return what the optimal filter reaches where all records vote for a few core probes first.

    Behind the cores each record ranks entries of its own, which nobody inspects. The cores in the canary's set get a
    k-th of all votes each; the votes that are left are spread so thinly that the clip hardly counts them. The
    likelihood ratio is the average over all sets of cores. Nobody else votes for the cores.

    The formula: the likelihood ratio, which no rule beats (Neyman and Pearson, 1933,
    https://doi.org/10.1098/rsta.1933.0009), and the region of error rates that (epsilon, delta) allows (Kairouz, Oh and
    Viswanath, 2015, https://arxiv.org/abs/1311.0776).

    Args:
        mechanism: The parameters of the release, its share among them.
        cores: How many core probes there are, at most k.
        records: How many records the canary has.
        samples: How many releases are drawn.
        confidence: The confidence of the interval.
        seed: The root of what is drawn.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> mechanism = Mechanism(share=0.5)
        >>> found = cores_reach(mechanism, 1, samples=1 << 13)
        >>> found.interval.lower < core_epsilon(mechanism) < found.interval.upper
        True
    """
    k, share, most = mechanism.k, mechanism.share, mechanism.entry_cap or 1.0
    if not 1 <= cores <= k:
        raise InputError(f"There must be from 1 to k = {k} cores, not {cores}: a record votes for k entries.")
    sets = np.array(list(product([0.0, 1.0], repeat=cores)))
    inside = sets.sum(axis=1)
    chances = share**inside * (1 - share) ** (cores - inside)
    core, other = min(1 / k, most), min(1 / (records * k), most)
    norms = np.sqrt(inside * core**2 + records * (k - inside) * other**2)
    shifts = sets * (core * np.minimum(1.0, mechanism.clip / norms) / mechanism.noise)[:, None]
    lengths = _lengths(float(np.linalg.norm(shifts, axis=1).max()))
    rng, size = stream(seed, "defend", "cores"), -(-samples // BATCHES)
    batches = []
    for _ in range(BATCHES):
        moved = shifts[rng.choice(len(sets), size, p=chances)] * rng.choice(lengths, size)[:, None]
        y = rng.standard_normal((size, cores)) + moved
        drawn = np.mean([_set_ratio(y, shifts * length, chances) for length in lengths], axis=0)
        ratio = _set_ratio(y, shifts, chances)
        batches.append(_Batch(np.log(ratio)[None], 1 / drawn, ratio / drawn))
    return _judged(batches, ("optimal",), mechanism, confidence)


def _set_ratio(values: Floats, shifts: Floats, chances: Floats) -> Floats:
    """Return the average over sets, by their chances, of exp(c · y - |c|² / 2), of each row y of values."""
    return np.asarray(np.exp(values @ shifts.T - 0.5 * np.square(shifts).sum(axis=1)) @ chances)


def filtered_reach(
    canary: Draw,
    background: Draw,
    moments: Moments,
    mechanism: Mechanism,
    *,
    samples: int = 1 << 16,
    sets: int = 2048,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> ShareReach:
    """Return what the better of two filters reaches: the linear one, and the likelihood ratio over drawn sets.

    The filters know how the canary votes and what the background looks like by its moments, and nothing else of the
    users whose background is drawn.

    The formula: the region of error rates that (epsilon, delta) allows (Kairouz, Oh and Viswanath, 2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        canary: Draws what the canary contributes to the inspected entries when it takes part.
        background: Draws the sum of what all others contribute there.
        moments: Mean and covariance of a release without the canary there, noise among it.
        mechanism: The parameters of the release.
        samples: How many releases are drawn.
        sets: How many of the canary's sets the likelihood ratio is averaged over.
        confidence: The confidence of the interval.
        seed: The root of what is drawn.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.score import Moments
        >>> mechanism = Mechanism(share=0.5)
        >>> alone = Moments(np.zeros(1), np.full((1, 1), mechanism.noise**2))
        >>> found = filtered_reach(
        ...     lambda size, rng: mechanism.clip * (rng.random((size, 1)) < mechanism.share),
        ...     lambda size, rng: np.zeros((size, 1)),
        ...     alone,
        ...     mechanism,
        ...     samples=1 << 12,
        ... )
        >>> found.interval.lower < core_epsilon(Mechanism(k=1, share=0.5)) < found.interval.upper
        True
    """
    noise, rng = mechanism.noise, stream(seed, "defend", "share")
    known = canary(sets, rng)
    length = float(np.linalg.norm(known, axis=1).max()) / noise
    if length == 0.0:
        return ShareReach(0.0, Interval(0.0, 0.0), "no", 0, confidence)
    filters = _Filters.of(known, moments)
    towards = np.concatenate([known[:128] / noise * part for part in _lengths(length)])
    size = -(-samples // BATCHES)
    seen = np.array_split(background(max(BATCHES, samples // REUSED), rng), BATCHES)
    fresh = np.array_split(canary(BATCHES * sets // 4, rng) / noise, BATCHES)
    batches = []
    for others, shifts in zip(seen, fresh, strict=True):
        z = rng.standard_normal((size, known.shape[1])) + towards[rng.integers(len(towards), size=size)]
        drawn, ratio = _mean_ratio(z, towards), _mean_ratio(z, shifts)
        releases = others[np.arange(size) % len(others)] + noise * z
        batches.append(_Batch(filters.scores(releases), 1 / drawn, ratio / drawn))
    return _judged(batches, ("linear", "likelihood"), mechanism, confidence)


@dataclass(frozen=True, eq=False)
class _Filters:
    """Two scores of a release: linear in it, and the logarithm of the mean ratio over the canary's drawn sets."""

    whitener: Floats
    mean: Floats
    votes: Floats
    direction: Floats

    @classmethod
    def of(cls, contributions: Floats, moments: Moments) -> "_Filters":
        lower = np.asarray(np.linalg.cholesky(moments.covariance), dtype=np.float64)
        votes = solve_triangular(lower, contributions.T, lower=True).T
        return cls(lower, moments.mean, votes, votes.mean(axis=0))

    def scores(self, releases: Floats) -> Floats:
        white = solve_triangular(self.whitener, (releases - self.mean).T, lower=True).T
        return np.stack([white @ self.direction, np.log(_mean_ratio(white, self.votes))])


def _lengths(longest: float) -> Floats:
    """Return how far releases are shifted when they are drawn, in parts of the longest contribution."""
    if longest > LONGEST:
        raise InputError(
            f"The canary's contribution is {longest:.3g} deviations of the noise long, and a simulation behind a share "
            f"can have {LONGEST:g}; use more noise. The mechanism's own epsilon is beyond any promise there."
        )
    return np.arange(0.0, max(3 * STEP, longest + BEYOND) + 1e-9, STEP) / longest


def _mean_ratio(values: Floats, shifts: Floats) -> Floats:
    """Return the mean over shifts c of exp(c · y - |c|² / 2), of each row y of values."""
    exponents = values @ shifts.T
    exponents -= 0.5 * np.square(shifts).sum(axis=1)
    return np.asarray(np.exp(exponents, out=exponents).mean(axis=1))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Scores of drawn releases, one row a filter, and what each release weighs without and with the canary."""

    scores: Floats
    absent: Floats
    included: Floats


def _judged(batches: Sequence[_Batch], names: tuple[str, ...], mechanism: Mechanism, confidence: float) -> ShareReach:
    """Choose filter and threshold on the first quarter of the batches, and return that rule's epsilon on the others."""
    if not 0 < confidence < 1:
        raise InputError(f"The confidence must lie strictly between 0 and 1, not be {confidence!r}.")
    pilot, others = batches[: len(batches) // PILOT], batches[len(batches) // PILOT :]
    samples = sum(len(each.absent) for each in batches)
    chosen = [_threshold(pilot, row, mechanism) for row in range(len(names))]
    best = int(np.argmax([found for found, _ in chosen]))
    promised, threshold = chosen[best]
    if promised <= 0:  # nothing was found, which does not show that there is nothing
        return ShareReach(0.0, Interval(0.0, one_round_epsilon(mechanism.whole_bank)), "no", samples, confidence)
    above = [each.scores[best] > threshold for each in others]
    absent = np.array([(each.absent * over).mean() for each, over in zip(others, above, strict=True)])
    included = np.array([(each.included * over).mean() for each, over in zip(others, above, strict=True)])
    epsilon, slopes = _rule_epsilon(float(absent.mean()), float(included.mean()), mechanism)
    spread = np.std(slopes[0] * absent + slopes[1] * included, ddof=1) / math.sqrt(len(others))
    half = float(student.ppf(0.5 + confidence / 2, len(others) - 1) * spread)
    ends = Interval(max(0.0, epsilon - half), max(0.0, epsilon + half))
    return ShareReach(max(0.0, epsilon), ends, names[best], samples, confidence)


def _threshold(batches: Sequence[_Batch], row: int, mechanism: Mechanism) -> tuple[float, float]:
    """Return the best threshold of a filter, behind the epsilon that it promises; -inf where none tells anything.

    Far out, rates are estimated from few draws: twice the error of epsilon there is taken off.
    """
    scores = np.concatenate([each.scores[row] for each in batches])
    order = np.argsort(-scores, kind="stable")
    absent, included = (np.concatenate([getattr(each, name) for each in batches])[order] for name in _WEIGHTS)
    n = len(order)
    fpr, rate = np.cumsum(absent) / n, np.cumsum(included) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = 1 - mechanism.q + (mechanism.q * rate - mechanism.delta) / fpr
        # The error of log(odds) by the delta method: its slopes in the two rates, and the sums of squared weights.
        slope, other = -(odds - 1 + mechanism.q) / (fpr * odds), mechanism.q / (fpr * odds)
        squares = slope**2 * np.cumsum(absent**2) + other**2 * np.cumsum(included**2)
        error = np.sqrt(squares + 2 * slope * other * np.cumsum(absent * included)) / n
        found = np.log(odds) - CAUTION * error
    found[:LEAST] = -np.inf
    found[~np.isfinite(found)] = -np.inf
    best = int(np.argmax(found))
    return float(found[best]), float(scores[order[best]])


_WEIGHTS = ("absent", "included")


def _rule_epsilon(absent: float, included: float, mechanism: Mechanism) -> tuple[float, tuple[float, float]]:
    """Return log((TPR - delta) / FPR) of a rule, and its slopes in the two rates."""
    q = mechanism.q
    odds = 1 - q + (q * included - mechanism.delta) / absent if absent > 0 else 0.0
    if odds <= 0:
        return -math.inf, (0.0, 0.0)
    return math.log(odds), (-(odds - 1 + q) / absent / odds, q / absent / odds)
