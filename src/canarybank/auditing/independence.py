"""Look for dependence between runs before any bound is stated: a bound from counts assumes that there is none.

Four things are looked for, in both hypotheses: releases or noise that repeat; correlation between runs at the batch
length, at short lags and between the hypotheses; drift over the schedule; losses that depend on the hypothesis. Each
look gives a p-value, and all of them together share one false-alarm rate by Bonferroni's inequality.

**How a repeat is judged.** Rounded, whole or clipped numbers repeat honestly. So a repeated row counts by the
coordinates in which agreement would be a surprise. Where all values of a coordinate lie on a lattice (whole numbers,
six decimals), a nonzero value counts if no other run of the hypothesis has it. Its chance is then the share of pairs of
runs of one hypothesis that agree there, the larger of both, as if the coordinate were free but for its linear relation
to those before it. So whole numbers in a single coordinate repeat honestly, whatever their law, unless they do so
across the hypotheses more than within. Elsewhere a value counts if it has more than six digits (a clipped release
repeats zero, or 2.5), with a chance of 1e-7: the finest lattice that is told from none. Repeated differences between a
run without and a run with the canary (the same noise on both sides) count in coordinates that lie on no lattice and
repeat no value within a hypothesis.

**How correlation is judged.** Scores, and the coordinates of releases, are replaced by their ranks within their
hypothesis. If runs are independent and alike, all orders of a hypothesis's runs are equally likely, which gives
the mean and variance of a sum of products over given pairs of runs; the sum is taken to be normal. A coordinate in
which more than half of a hypothesis's runs have one value (zero, say) is left out: its sum would not be normal.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import fisher_exact, norm, poisson, rankdata

from canarybank.errors import InputError

__all__ = [
    "Dependence",
    "Finding",
    "Independence",
    "check_independence",
    "is_short",
    "lattice_step",
    "rank_products",
    "rank_trends",
]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

DIGITS = 1e-12
"""Values closer than this share of their coordinate's largest are the same."""
FINEST = 1e-7
"""The finest lattice that is told from none, as a share of the largest value."""
FEWEST_PAIRS = 8
MOST_COLUMNS = 64
MOST_DIFFERENCES = 40_000
LAGS = (1, 2, 3)


class Dependence(StrEnum):
    """What kind of dependence was found."""

    REPEATED = "repeated"
    SHARED = "shared"
    CORRELATED = "correlated"
    DRIFT = "drift"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Finding:
    """One look for dependence; a finding where its p-value is small."""

    kind: Dependence
    """What kind of dependence it is."""
    p_value: float
    """The probability of a sign at least as strong in independent runs."""
    statement: str
    """The finding in words, with its numbers."""


@dataclass(frozen=True, slots=True)
class Independence:
    """What was found on the independence of runs."""

    ok: bool
    """Whether nothing was found. Where something was, no bound may be stated."""
    findings: tuple[Finding, ...]
    """What was found, the strongest sign first."""
    alpha: float
    """The probability that independent runs give any finding."""
    tests: int
    """The number of looks that share alpha."""
    statement: str
    """The result in words."""
    assumption: str = (
        "Under independence all orders of the runs of a hypothesis are equally likely. Dependence that shows neither "
        "as a repeat nor at the lags looked at is not seen."
    )
    """What the p-values assume, and what the check cannot see."""


def check_independence(
    releases: ArrayLike,
    eligible: ArrayLike,
    *,
    scores: ArrayLike | None = None,
    order: ArrayLike | None = None,
    batches: Sequence[int] = (),
    lost_absent: int = 0,
    lost_eligible: int = 0,
    alpha: float = 1e-3,
) -> Independence:
    """Say whether runs show any sign of dependence: independent runs do with probability at most ``alpha``.

    Args:
        releases: One row a run, rounds and labels joined; the runs for fitting and those to be judged together.
        eligible: For each row, whether the canary was eligible.
        scores: The score of each row, once it is fitted; without it the releases alone are looked at.
        order: The place of each row in the schedule; by default the rows are in order.
        batches: How many runs the system plays at a time, where it is known: looked at as lags.
        lost_absent: How many further runs without the canary gave no release.
        lost_eligible: How many further runs with an eligible canary gave no release.
        alpha: The false-alarm rate of all looks together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> runs, eligible = rng.normal(size=(200, 3)), np.arange(200) % 2 == 1
        >>> check_independence(runs, eligible).ok
        True
        >>> restarted = np.tile(runs[:20], (10, 1))
        >>> [finding.kind.value for finding in check_independence(restarted, eligible, batches=[20]).findings][0]
        'repeated'
    """
    if not 0.0 < alpha < 1.0:
        raise InputError(f"The false-alarm rate alpha must be in (0, 1), not {alpha}.")
    table, present, values = _checked(releases, eligible, scores)
    if min(batches, default=1) < 1:
        raise InputError(f"A batch has at least one run, not {min(batches)}.")
    if min(lost_absent, lost_eligible) < 0:
        raise InputError("The number of lost runs cannot be negative.")
    places = np.arange(len(table)) if order is None else np.asarray(order, dtype=np.float64)
    if places.shape != present.shape or len(np.unique(places)) != len(places):
        raise InputError("The order must give each run a place of its own in the schedule.")
    sequence = np.argsort(places)
    table, present = table[sequence], present[sequence]
    values = None if values is None else values[sequence]

    series = [*_series(table, values, present)]
    looks = [
        *_repeats(table, present),
        *_correlations(series, present, batches),
        *_drifts(series, present),
        *_losses(present, lost_absent, lost_eligible),
    ]
    level = alpha / max(1, len(looks))
    findings = tuple(sorted((look for look in looks if look.p_value <= level), key=lambda look: look.p_value))
    absent = int((~present).sum())
    runs = f"{len(table):,} runs ({absent:,} without the canary, {len(table) - absent:,} with it eligible)"
    if findings:
        statement = (
            f"The runs are not independent, so no bound is stated. {findings[0].statement} Found in {runs}, with a "
            f"false-alarm rate of {alpha:g} over all {len(looks)} looks."
        )
    else:
        reach = min(1.0, float(norm.isf(level / 2.0)) / np.sqrt(max(1, len(table) - 1)))
        statement = (
            f"No dependence found in {runs}, with a false-alarm rate of {alpha:g} over all {len(looks)} looks. That is "
            f"no proof of independence: a rank correlation below about {reach:.2f} between runs at one lag is missed "
            "more often than not."
        )
    return Independence(not findings, findings, alpha, len(looks), statement)


def _checked(releases: ArrayLike, eligible: ArrayLike, scores: ArrayLike | None) -> tuple[Array, Mask, Array | None]:
    table = np.array(releases, dtype=np.float64)
    present = np.asarray(eligible, dtype=bool)
    values = None if scores is None else np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or present.shape != (len(table),):  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"Releases of shape {table.shape} and hypotheses of shape {present.shape} do not belong together; give one "
            "row of releases and one hypothesis for each run."
        )
    if values is not None and values.shape != present.shape:
        raise InputError(f"Scores of shape {values.shape} do not belong to {len(table)} runs; give one a run.")
    if not np.isfinite(table).all() or (values is not None and np.isnan(values).any()):
        raise InputError("The releases or scores hold NaN or infinite entries; leave lost runs out and count them.")
    return table, present, values


# Repeats


def _repeats(table: Array, present: Mask) -> Iterator[Finding]:
    """Look for rows that repeat, and for differences between the hypotheses that repeat."""
    if len(table) < 2 or not table.shape[1]:  # noqa: PLR2004, a repeat takes two
        return
    scale = np.abs(table).max(axis=0)
    scale[scale == 0.0] = 1.0
    unit = table / scale
    columns = zip(table.T[:MOST_COLUMNS], unit.T[:MOST_COLUMNS], strict=True)
    lattice = np.array([_is_decimal(column) or lattice_step(share) > 0.0 for column, share in columns])
    yield _repeated_rows(unit, present, lattice, is_short(table))

    fine = np.array([j for j, is_on in enumerate(lattice) if not is_on and _all_differ(unit[:, j], present)], dtype=int)
    absent, with_canary = unit[~present][:, fine], unit[present][:, fine]
    if fine.size and min(len(absent), len(with_canary)) >= 2:  # noqa: PLR2004, as above
        yield _repeated_differences(absent, with_canary)


def _all_differ(column: Array, present: Mask) -> bool:
    return all(len(np.unique(column[arm])) == arm.sum() for arm in (present, ~present))


def is_short(values: Array) -> Mask:
    """Say which numbers have at most six significant digits."""
    with np.errstate(divide="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.where(values == 0.0, 1.0, np.abs(values)))) - 5.0)
    ratio = values / unit
    return np.asarray(np.abs(ratio - np.round(ratio)) <= 1e-6)  # noqa: PLR2004, rounding of numbers of six digits


def _repeated_rows(unit: Array, present: Mask, lattice: Mask, short: Mask) -> Finding:
    runs = len(unit)
    keys = np.round(unit / DIGITS)
    _, group, sizes = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    first = np.unique(group, return_index=True)[1]
    within = [np.bincount(group[present == arm], minlength=len(sizes)) > 0 for arm in (0, 1)]
    chance = np.log10(_chances(keys, unit, present, lattice))
    surprise = np.zeros(len(sizes))
    for j, is_on in enumerate(lattice):
        column = keys[:, j]
        if is_on:
            value = np.unique(column, return_inverse=True)[1].reshape(-1)
            # A row counts against the runs of its own hypotheses only: what the canary does not move may occur in both.
            holders = sum(
                within[arm] * np.bincount(value[present == arm], minlength=runs)[value[first]] for arm in (0, 1)
            )
            here = (column[first] != 0.0) & (holders == sizes)
        else:
            here = ~short[first, j]
        surprise += np.where(here, chance[j], 0.0)
    judged = (sizes > 1) & (surprise < 0.0)
    repeats = int((sizes[judged] - 1).sum())
    if not repeats:
        return Finding(Dependence.REPEATED, 1.0, "")
    expected = 0.5 * runs * (runs - 1) * 10.0 ** float(surprise[judged].max())
    both = int((judged & within[0] & within[1]).sum())
    across = f" {both:,} of the repeated releases occur under both hypotheses." if both else ""
    return Finding(
        Dependence.REPEATED,
        float(poisson.sf(repeats - 1, expected)),
        f"{repeats:,} of {runs:,} runs repeat an earlier release exactly; independent runs would give {expected:.1g}."
        f"{across} The system restarts its generator, or draws no fresh noise.",
    )


def _chances(keys: Array, unit: Array, present: Mask, lattice: Mask) -> Array:
    """Return the chance that two runs agree in each coordinate, given that they agree in those before it."""
    spread = np.maximum(unit[:, : len(lattice)].std(axis=0), 1e-300)
    chances = np.clip(FINEST / (2.0 * np.sqrt(np.pi) * spread), FINEST, 1.0)
    on = np.flatnonzero(lattice)
    arms = [arm for arm in (present, ~present) if arm.any()]
    # Runs of different hypotheses agree at most as often as those of one of the two, by Cauchy and Schwarz.
    shares = np.max([[_agreeing(column) for column in keys[arm][:, on].T] for arm in arms], axis=0)
    free = np.min([_free(unit[arm][:, on]) for arm in arms], axis=0)
    chances[on] = np.minimum(1.0, shares / np.maximum(free, FINEST))
    return np.asarray(chances)


def _agreeing(column: Array) -> float:
    """Return a share of pairs of runs that agree in a coordinate, above what was seen by what chance may hide."""
    counts = np.unique(column, return_counts=True)[1]
    pairs, agree = 0.5 * len(column) * (len(column) - 1), float((0.5 * counts * (counts - 1)).sum())
    return min(1.0, (agree + 3.0 * math.sqrt(agree) + 5.0) / max(1.0, pairs))


def _free(columns: Array) -> Array:
    """Return how much of each column's spread those before it leave free, by a linear fit of ranks."""
    ranks = _ranks(columns, np.ones(len(columns), dtype=bool))
    lengths = np.sqrt((ranks**2).sum(axis=0))
    left = np.zeros(columns.shape[1])
    known = np.abs(np.diagonal(np.linalg.qr(ranks / np.where(lengths > 0.0, lengths, 1.0), mode="r")))
    left[: len(known)] = known
    return left


def _repeated_differences(absent: Array, eligible: Array) -> Finding:
    """Look at eligible minus absent: run k against run k, and every pair where coordinates and runs allow it."""
    paired = min(len(absent), len(eligible))
    tables = [eligible[:paired] - absent[:paired]]
    if absent.shape[1] > 1:
        most = max(2, MOST_DIFFERENCES // len(eligible))
        tables.append((eligible[None, :, :] - absent[:most, None, :]).reshape(-1, absent.shape[1])[:MOST_DIFFERENCES])
    looks = []
    for differences in tables:
        # Rounding moves a difference by about 1e-16 of the releases, so a cell of 1e-12 of them rarely cuts a repeat.
        keys = np.round(differences / DIGITS)
        sizes = np.unique(keys, axis=0, return_counts=True)[1]
        repeats = int((sizes - 1).sum())
        count = len(differences)
        expected = 0.5 * count * (count - 1) * FINEST ** min(differences.shape[1], 40)
        chance = float(poisson.sf(repeats - 1, expected)) if repeats else 1.0
        looks.append(
            Finding(
                Dependence.SHARED,
                min(1.0, len(tables) * chance),
                f"{repeats:,} of {count:,} differences between a run with and a run without the canary repeat another; "
                f"independent noise would give {expected:.1g}. The hypotheses share their noise.",
            )
        )
    return min(looks, key=lambda look: look.p_value)


def _is_decimal(column: Array) -> bool:
    """Say whether all values have a few decimals only, however large the largest is."""
    for decimals in range(10):
        scaled = column * 10.0**decimals
        if np.abs(scaled).max() > 4e9:  # noqa: PLR2004, where rounding reaches the tolerance below
            return False
        if (np.abs(scaled - np.round(scaled)) <= 1e-6).all():  # noqa: PLR2004, as above
            return True
    return False


def lattice_step(column: Array) -> float:
    """Return the step of the lattice through zero that holds all values, or 0 where it is finer than `FINEST`."""
    values = np.unique(np.abs(column))[-1000:]
    values = values[values > DIGITS]
    if not values.size:
        return 1.0
    step = float(values.min())
    while step >= FINEST:
        rest = np.abs(values - step * np.round(values / step))
        rest = rest[rest > 1e-9]  # noqa: PLR2004, rounding of values of size one, over many steps
        if not rest.size:
            return step
        step = float(rest.min())
    return 0.0


# Correlation and drift


def _correlations(series: Sequence[tuple[str, Array]], present: Mask, batches: Sequence[int]) -> Iterator[Finding]:
    """Look at pairs of runs at given lags, in the schedule and within a hypothesis, and across the hypotheses."""
    for what, ranks in series:
        for where, pairs in _pairings(present, batches):
            statistic, size = rank_products(ranks, present, pairs)
            if size >= FEWEST_PAIRS:
                yield Finding(
                    Dependence.CORRELATED,
                    float(2.0 * norm.sf(abs(statistic))),
                    f"The {what} of {where} go together: {statistic:+.1f} standard deviations over {size:,} pairs.",
                )


def _series(table: Array, scores: Array | None, present: Mask) -> Iterator[tuple[str, Array]]:
    """Return the ranks of scores and of releases, within each hypothesis, where they vary enough."""
    series = [] if scores is None else [("scores", scores[:, None])]
    if scores is None or table.shape[1] > 1:
        series.append(("releases", table[:, :MOST_COLUMNS]))
    for what, columns in series:
        if spread := [column for column in columns.T if not _is_mostly_one(column, present)]:
            yield what, _ranks(np.column_stack(spread), present)


def _is_mostly_one(column: Array, present: Mask) -> bool:
    """Say whether more than half of the runs of a hypothesis have one value."""
    arms = (column[arm] for arm in (present, ~present) if arm.any())
    return any(2 * int(np.unique(values, return_counts=True)[1].max()) > len(values) for values in arms)


def _ranks(columns: Array, present: Mask) -> Array:
    """Return ranks within each hypothesis, centred, of at most 1/2 in size."""
    ranks = np.zeros_like(columns)
    for arm in (present, ~present):
        if size := int(arm.sum()):
            ranks[arm] = (rankdata(columns[arm], axis=0) - 0.5 * (size + 1)) / size
    return ranks


def _pairings(present: Mask, batches: Sequence[int]) -> Iterator[tuple[str, Pairs]]:
    runs = np.arange(len(present))
    arms = [np.flatnonzero(arm) for arm in (~present, present)]
    for lag in sorted({*LAGS, *(int(batch) for batch in batches)}):
        name = "neighbouring runs" if lag == 1 else f"runs {lag:,} places apart"
        yield f"{name} in the schedule", (runs[:-lag], runs[lag:])
        left, right = (np.concatenate([arm[cut] for arm in arms]) for cut in (slice(None, -lag), slice(lag, None)))
        yield f"{name} among those of one hypothesis", (left, right)
    paired = min(len(arm) for arm in arms)
    yield "the first, second, … run of each hypothesis", (arms[0][:paired], arms[1][:paired])


def rank_products(ranks: Array, present: Mask, pairs: Pairs) -> tuple[float, int]:
    """Return the sum of the pairs' inner products in standard deviations of what random orders give."""
    left, right = pairs
    mean = variance = 0.0
    for a in (False, True):
        for b in (False, True):
            size = int(((present[left] == a) & (present[right] == b)).sum())
            if size:
                moments = _product_moments(ranks[present == a], ranks[present == b], same=a == b)
                mean, variance = mean + size * moments[0], variance + size * moments[1]
    if variance <= 0.0:
        return 0.0, 0
    total = float((ranks[left] * ranks[right]).sum())
    return (total - mean) / float(np.sqrt(variance)), len(left)


def _product_moments(one: Array, other: Array, *, same: bool) -> tuple[float, float]:
    """Return mean and variance of the inner product of a random row of one table and another of the other."""
    size = len(one)
    if not same:
        return 0.0, float(((one.T @ one) * (other.T @ other)).sum()) / (size * len(other))
    if size < 2:  # noqa: PLR2004, a pair takes two
        return 0.0, 0.0
    lengths = (one**2).sum(axis=1)
    mean = -float(lengths.sum()) / (size * (size - 1))
    square = (float(((one.T @ one) ** 2).sum()) - float((lengths**2).sum())) / (size * (size - 1))
    return mean, max(0.0, square - mean**2)


def _drifts(series: Sequence[tuple[str, Array]], present: Mask) -> Iterator[Finding]:
    """Look for a trend over the schedule in level and in spread, one coordinate at a time."""
    for what, ranks in series:
        for name, columns in (("level", ranks), ("spread", _ranks(np.abs(ranks), present))):
            statistics = rank_trends(columns, present)
            if statistics.size:
                worst = float(statistics[np.argmax(np.abs(statistics))])
                yield Finding(
                    Dependence.DRIFT,
                    min(1.0, statistics.size * float(2.0 * norm.sf(abs(worst)))),
                    f"The {name} of the {what} drifts over the schedule: {worst:+.1f} standard deviations.",
                )


def rank_trends(ranks: Array, present: Mask) -> Array:
    """Return each column's sum of rank times place, in standard deviations of what random orders give."""
    total, variance = np.zeros(ranks.shape[1]), np.zeros(ranks.shape[1])
    for arm in (present, ~present):
        size = int(arm.sum())
        if size >= FEWEST_PAIRS:
            places = np.arange(size) - 0.5 * (size - 1)
            total += places @ ranks[arm]
            variance += float(places @ places) * (ranks[arm] ** 2).sum(axis=0) / (size - 1)
    return total[variance > 0.0] / np.sqrt(variance[variance > 0.0])


# Losses


def _losses(present: Mask, lost_absent: int, lost_eligible: int) -> Iterator[Finding]:
    if not lost_absent + lost_eligible:
        return
    kept_eligible = int(present.sum())
    kept_absent = len(present) - kept_eligible
    chance = float(fisher_exact(np.array([[lost_absent, kept_absent], [lost_eligible, kept_eligible]])).pvalue)
    yield Finding(
        Dependence.LOST,
        chance,
        f"Losses depend on the hypothesis: {lost_absent:,} of {lost_absent + kept_absent:,} runs without the canary "
        f"and {lost_eligible:,} of {lost_eligible + kept_eligible:,} with it eligible gave no release.",
    )
