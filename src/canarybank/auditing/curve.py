"""Test a claimed mechanism by its whole trade-off curve, which takes far fewer runs than its epsilon alone.

A claim that names its mechanism says more than an epsilon: it says, for every false positive rate, how large the true
positive rate of any rule can be. With the canary's largest shift m (in standard deviations of the noise) and one
release, that is ``F(a) = (1 - q) a + q Phi(Phi^-1(a) + m)``, by the lemma of Neyman and Pearson. A rule whose true
positive rate surely lies above F refutes the mechanism. It does not say that epsilon is above the claim: noise of
another shape can leave the curve and keep the epsilon.

The curve bounds every event. The event "present" is the forward branch. Its complement, read with the hypotheses
exchanged, gives the same inequality again. Its complement read with the hypotheses as they are is the other branch,
FNR <= F(TNR); it takes alpha of its own, so it is tested only where that is declared. F never bounds TNR by FNR.

Trade-off curves as claims of privacy: Dong, Roth and Su, https://arxiv.org/abs/1905.02383.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtr

from canarybank.auditing.methods import Branch
from canarybank.auditing.methods.base import FROZEN
from canarybank.auditing.rates import Array, clopper_pearson, probability
from canarybank.auditing.trials import Counts
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.mechanism.mechanism import whole
from canarybank.score import RoundLaw, SummedLaw, mixture
from canarybank.score.counts import lower_end, upper_end
from canarybank.score.lattice import Lattice, convolve, split

__all__ = [
    "Curve",
    "CurvePower",
    "CurveTest",
    "aim_curve",
    "claimed_curve",
    "curve_power",
    "curve_test",
    "perfect_roc",
]

ROUNDING: Final = 1e-12
"""What a computed curve may be wrong by for rounding in float64, relative to itself: far more than it is."""
CERTIFIED_CELLS, ROC_CELLS = 10**6, 2 * 10**3
"""The cells of the lattice over rounds: all of them behind a certified curve, those of a round behind a forecast."""
LEAST_SHIFT, LARGEST_SHIFT = 1e-4, 40.0
"""Where several releases need a lattice; below, nothing shows, and above, whoever takes part is seen."""
LINES, ROC_POINTS, NEAREST = 2**14, 1001, 8
FACTOR_STEP: Final = 1e-3
LARGEST_EXPONENT: Final = 700.0
LEAST_GAMMA: Final = 1e-30
HALVINGS: Final = 14
MOST: Final = 100.0
"""The largest factor on the noise that a forecast looks at."""
SMOOTH_VALUES, CANDIDATES = 1024, 257
BELIEF, UNSHOWN = 20.0, 4.0
"""Runs with the canary in them that a forecast violation stands for, and the one on the noise where none shows."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The trade-off curve of a claimed mechanism: what any rule's true positive rate can be at most.

    For every event A of the releases, P(A | canary eligible) <= allowed(P(A | canary absent)); in a replacement audit,
    P(A | canary A) <= allowed(P(A | canary B)).
    """

    shift: float
    """How far a canary that takes part moves one release at most, in standard deviations of the noise."""
    q: float
    """The claimed probability of taking part in a release."""
    rounds: int
    """The number of releases."""
    neighbours: str
    """``add-remove`` or ``replace``."""
    normalised: bool = False
    """Whether the shift relies on votes of 1/k each."""

    @property
    def assumption(self) -> str:
        """Return what must hold for an honest system to stay below the curve."""
        moved = "every user's contribution has an L2 norm of at most the clip"
        if self.normalised:
            moved = "every record casts votes of 1/k, averaged over a user's records and then clipped"
        if self.neighbours == "replace":
            moved += ", and votes are never negative, so that two users differ by at most sqrt(2) times that"
        coins = "" if self.q == 1 else "participation coins are fresh and independent, "
        fresh = "noise is Gaussian and fresh" + ("" if self.rounds == 1 else " in each release")
        return f"{moved}; {coins}{fresh}"

    def allowed(self, fpr: ArrayLike) -> Array:
        """Return the largest true positive rate that any rule with these false positive rates can have.

        One release, or several with q = 1, is the closed form. Several with q < 1 is the certified upper envelope of a
        perfect canary's exact curve: never below it, and above it by less than a thousandth at usual settings.
        Rounding is added, so that the figure is never below the truth.
        """
        rate = np.asarray(fpr, np.float64)
        if not np.all((rate >= 0) & (rate <= 1)):
            raise InputError("A false positive rate must lie in [0, 1]; give rates, not counts.")
        if self.rounds == 1 or self.q == 1:
            found = _closed(rate, self.shift * math.sqrt(self.rounds), self.q)
        else:
            found = _several(rate, self.shift, self.q, self.rounds)
        return np.minimum(found * (1 + ROUNDING), 1.0)

    def __str__(self) -> str:
        over = "1 release" if self.rounds == 1 else f"{self.rounds} releases"
        return (
            f"the curve of {over} at q = {self.q:g} that a canary shifts by {self.shift:.4g} noise deviations at most"
        )


def claimed_curve(claim: Claim, *, normalised: bool = False) -> Curve:
    """Return the trade-off curve that a claim with a mechanism makes.

    The claim's sigma counts in units of the clip, so a canary moves a release by at most 1/sigma noise deviations. That
    holds for any system that clips, whatever its votes are. Votes of 1/k have a norm of at most k^-1/2; where the clip
    is larger than that, our own mechanism moves less, and ``normalised=True`` tests for it. It is not the default:
    ``attained_epsilon`` asks what surely is attained, but a curve must hold for every honest system, also for one that
    clips and does not normalise.

    Replacement is closed form at q = 1 only: nonnegative votes of norm at most C differ by at most sqrt(2) C.

    The formula: the trade-off function of a subsampled Gaussian (Dong, Roth and Su, 2022,
    https://arxiv.org/abs/1905.02383).

    Args:
        claim: A claim that names its mechanism.
        normalised: Rely on votes of 1/k each, which have a norm of at most k^-1/2.

    Raises:
        InputError: If the claim names no mechanism, or is about replacement at q < 1.

    Example:
        >>> from canarybank.mechanism import Claim, Mechanism
        >>> curve = claimed_curve(Claim.of(Mechanism()))
        >>> type(curve).__name__
        'Curve'
    """
    mechanism = claim.mechanism
    if mechanism is None:
        raise InputError(
            "This claim is an epsilon and names no mechanism, so it claims no curve; give Claim.of(Mechanism(...)), or "
            "test the epsilon by a bound."
        )
    if claim.neighbours == "replace" and mechanism.q < 1:
        raise InputError(
            f"No trade-off curve is known for replacing one user at q = {mechanism.q:g} < 1; test the claimed epsilon "
            "by a bound, or claim add-remove."
        )
    reach = min(1.0, 1 / (mechanism.clip * math.sqrt(mechanism.k))) if normalised else 1.0
    apart = math.sqrt(2) if claim.neighbours == "replace" else 1.0
    return Curve(apart * reach / mechanism.sigma, mechanism.q, claim.rounds, claim.neighbours, normalised)


def _closed(fpr: Array, shift: float, q: float) -> Array:
    return np.asarray((1 - q) * fpr + q * ndtr(ndtri(fpr) + shift))


def _several(fpr: Array, shift: float, q: float, rounds: int) -> Array:
    """Return an upper end of the curve of several releases, the least of three.

    Without sampling it lies nowhere lower; and with the chance (1 - q)^T the canary takes part in no release, so TPR is
    at most that share of FPR plus the rest. The certified lines are the tight ones, and are asked wherever the
    lattice behind them resolves the score.
    """
    idle = math.exp(rounds * math.log1p(-q))
    found = np.minimum(_closed(fpr, shift * math.sqrt(rounds), 1.0), 1 - idle + idle * fpr)
    if LEAST_SHIFT <= shift <= LARGEST_SHIFT:
        found = np.minimum(found, _envelope(fpr, *_lines(shift, q, rounds)))
    return np.asarray(found)


def _envelope(fpr: Array, slopes: Array, intercepts: Array, touching: Array) -> Array:
    """Return the least of the lines that touch the curve nearest to each rate: every line lies above the curve."""
    near = np.searchsorted(touching, fpr)[..., None] + np.arange(-NEAREST, NEAREST)
    near = np.clip(near, 0, len(touching) - 1)
    return np.asarray(np.min(slopes[near] * fpr[..., None] + intercepts[near], axis=-1))


@lru_cache(maxsize=8)
def _lines(shift: float, q: float, rounds: int) -> tuple[Array, Array, Array]:
    """Return slopes and intercepts of certified lines above the curve, and the rates near which each touches it.

    A perfect canary's summed score L is the exact log-likelihood ratio, so for every t the event L > t maximises
    TPR - e^t FPR, and every rule has TPR <= e^t FPR + (P1(L > t) - e^t P0(L > t)). The ends of the two rates are
    certified, the intercept's upper one is taken.
    """
    law = SummedLaw(*_perfect_rounds(shift, q, rounds, CERTIFIED_CELLS))
    low, high = law.reach(0.0)
    thresholds = np.linspace(min(high, LARGEST_EXPONENT), low, LINES)
    rates = law.rates(thresholds)
    slopes = np.exp(thresholds)
    intercepts = rates.tpr.upper * (1 + ROUNDING) - slopes * rates.fpr.lower * (1 - ROUNDING)
    return slopes, intercepts, np.maximum.accumulate(0.5 * (rates.fpr.lower + rates.fpr.upper))


def _perfect_rounds(shift: float, q: float, rounds: int, cells: int) -> tuple[list[RoundLaw], float]:
    """Return the law of each round's perfect score, and the step at which the sum takes about so many cells."""
    span = rounds * float(np.ptp(mixture(np.array([-8.0, 8.0]) * shift + 0.5 * shift * shift * np.array([-1, 1]), q)))
    return [RoundLaw(np.empty(0), shift, shift * shift, 0.5 * shift * shift, q)] * rounds, span / cells


def perfect_roc(shift: float, q: float, rounds: int = 1) -> tuple[Array, Array]:
    """Return false and true positive rates of a perfect canary over thresholds from high to low, as point values.

    They are those of the likelihood ratio of ``rounds`` releases, each of which a canary that takes part moves by
    ``shift`` noise deviations; several with q < 1 on a lattice, to about 1e-4 of a rate.

    The formula: the trade-off function of a subsampled Gaussian (Dong, Roth and Su, 2022,
    https://arxiv.org/abs/1905.02383).

    Args:
        shift: How far a canary that takes part moves a release, in noise deviations.
        q: The probability that it takes part.
        rounds: How many releases there are.

    Example:
        >>> fpr, tpr = perfect_roc(1.0, 0.1)
        >>> bool((tpr >= fpr).all())
        True
    """
    if rounds > 1 and q < 1 and shift < LEAST_SHIFT:
        return perfect_roc(q * math.sqrt(rounds) * shift, 1.0)  # where only means count
    if rounds == 1 or q == 1:
        moved = min(shift * math.sqrt(rounds), MOST)
        z = np.linspace(9 + moved, -9, ROC_POINTS)
        fpr = ndtr(-z)
        return fpr, (1 - q) * fpr + q * ndtr(moved - z)
    laws, step = _perfect_rounds(min(shift, LARGEST_SHIFT), q, rounds, ROC_CELLS * rounds)
    cells = Lattice.over(laws[:1], step).cells[0]
    fpr, tpr = (
        _tail_sums(convolve([split(cells.areas(survival), cells.step)] * rounds))
        for survival in (RoundLaw.absent, RoundLaw.eligible)
    )
    levels = np.concatenate([np.geomspace(1e-12, 0.5, ROC_POINTS // 4), 1 - np.geomspace(0.5, 1e-6, ROC_POINTS // 4)])
    kept = np.unique(np.concatenate([np.searchsorted(np.maximum.accumulate(rate), levels) for rate in (fpr, tpr)]))
    kept = kept[kept < len(fpr)]
    return fpr[kept], tpr[kept]


def _tail_sums(masses: Array) -> Array:
    above = masses[::-1]
    return np.clip(np.cumsum(above) - 0.5 * above, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class CurveTest:
    """What counts say about a claimed mechanism.

    For a system that keeps the curve, and where the assumption holds, P(refuted) <= alpha.
    """

    refuted: bool
    """Whether this is not the claimed mechanism."""
    p_value: float
    """The smallest alpha at which it would be refuted; 1 where none."""
    alpha: float
    """The chance of refuting an honest system, over all canaries and branches."""
    both: bool
    """Whether the other branch was declared too."""
    curve: Curve
    """What the claimed mechanism allows."""
    counts: tuple[Counts, ...]
    """One entry a canary."""
    canary: int
    """The place of the canary that says most against the claim, from 0."""
    branch: Branch
    """The branch that says most against the claim: forward, or the other where it was declared."""
    rate: float
    """The lower end of that canary's TPR, or of its FNR in the other branch."""
    against: float
    """The upper end of that canary's FPR, or of its TNR in the other branch."""
    allowed: float
    """What the claimed mechanism allows ``rate`` to be at most, given ``against``."""

    @property
    def assumption(self) -> str:
        """Return what the test relies on."""
        return f"{FROZEN}; of an honest system: {self.curve.assumption}"

    @property
    def statement(self) -> str:
        """Return what the test refutes, or that it does not, with its numbers."""
        said = "present" if self.branch is Branch.FORWARD else "absent"
        one, two = ("with the canary", "without it") if self.curve.neighbours == "add-remove" else ("with A", "with B")
        rule = "The rule" if len(self.counts) == 1 else f"The rule of canary {self.canary + 1} of {len(self.counts)}"
        runs = self.counts[self.canary]
        seen = (
            f'{rule} says "{said}" in at least {self.rate:.3%} of runs {one} and at most {self.against:.3%} {two} '
            f"({runs.n1:,} and {runs.n0:,} runs, confidence {1 - self.alpha:.6g}, p = {self.p_value:.2g}); the claimed "
            f"mechanism allows at most {self.allowed:.3%}"
        )
        if self.refuted:
            return f"Refuted: this is not the claimed mechanism. {seen}. This is not a bound on epsilon."
        return f"Not refuted: no violation of the claimed mechanism detected at this power. {seen}."


def curve_test(counts: Sequence[Counts], curve: Curve, *, alpha: float, both: bool = False) -> CurveTest:
    """Test whether the counts of frozen rules can come from the claimed mechanism.

    Refuted where TPR_L > F(FPR_U) for some canary, with one-sided Clopper–Pearson ends at alpha/2 over the number of
    canaries. With ``both`` the other branch FNR_L > F(TNR_U) is tested too, and all ends stand at alpha/4. For every
    system below the curve P(refuted) <= alpha, however the two arms of a canary, or the canaries, depend on each other.

    Args:
        counts: One entry a canary; each canary's rule was frozen before its trials.
        curve: What the claimed mechanism allows.
        alpha: The chance of refuting an honest system.
        both: Whether the other branch is tested too; declare it before the trials.

    Example:
        >>> from canarybank.auditing import Counts
        >>> from canarybank.mechanism import Claim, Mechanism
        >>> curve = claimed_curve(Claim.of(Mechanism(q=1.0)))
        >>> curve_test([Counts(tp=900, fp=10, n1=1000, n0=1000)], curve, alpha=0.05).refuted
        True
    """
    probability("alpha", alpha)
    if not counts:
        raise InputError("A curve test needs the counts of at least one canary, but there are none.")
    tp, fp, n1, n0 = (np.array([getattr(c, name) for c in counts]) for name in ("tp", "fp", "n1", "n0"))
    tails = (4 if both else 2) * len(counts)
    clopper_pearson(tp, n1, alpha), clopper_pearson(fp, n0, alpha)  # which refuse what are no counts
    sides = [(tp, n1, fp, n0)] + ([(n1 - tp, n1, n0 - fp, n0)] if both else [])
    chances = np.stack([least_gamma(curve, *side) for side in sides])
    side, canary = np.unravel_index(int(np.argmin(chances)), chances.shape)
    x1, of1, x0, of0 = (values[canary] for values in sides[side])
    rate, against = float(lower_end(x1, of1, alpha / tails)), float(upper_end(x0, of0, alpha / tails))
    return CurveTest(
        refuted=bool(np.any([_exceeds(curve, a, b, c, d, alpha / tails) for a, b, c, d in sides])),
        p_value=min(1.0, tails * float(chances.min())),
        alpha=float(alpha),
        both=both,
        curve=curve,
        counts=tuple(counts),
        canary=int(canary),
        branch=Branch.REVERSE if side else Branch.FORWARD,
        rate=rate,
        against=against,
        allowed=float(curve.allowed(against)),
    )


def _exceeds(
    curve: Curve, tp: ArrayLike, n1: ArrayLike, fp: ArrayLike, n0: ArrayLike, gamma: ArrayLike
) -> NDArray[np.bool_]:
    """Return where TPR_L > F(FPR_U), with ends at gamma each; counts need not be whole."""
    return np.asarray(lower_end(tp, n1, gamma) > curve.allowed(upper_end(fp, n0, gamma)))


def least_gamma(curve: Curve, tp: ArrayLike, n1: ArrayLike, fp: ArrayLike, n0: ArrayLike) -> Array:
    """Return the least level of each end at which TPR_L > F(FPR_U), to a hundredth of it; 1 where there is none."""
    shape = np.broadcast_shapes(*(np.shape(v) for v in (tp, n1, fp, n0)))
    low, high = np.full(shape, math.log(LEAST_GAMMA)), np.full(shape, math.log(0.5))
    shown = _exceeds(curve, tp, n1, fp, n0, np.exp(high))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        exceeds = _exceeds(curve, tp, n1, fp, n0, np.exp(middle))
        low, high = np.where(exceeds, low, middle), np.where(exceeds, middle, high)
    return np.where(shown, np.exp(high), 1.0)


def aim_curve(absent_scores: ArrayLike, eligible_scores: ArrayLike, curve: Curve, trials: int, alpha: float) -> float:
    """Return the threshold at which so many further runs an arm would refute the curve most clearly.

    The scores come from runs set apart, as few as 30 an arm; they decide the power only, never the validity. Rates at a
    threshold are forecast as follows.

    - FPR: the larger of the share of absent scores above it, each smoothed by a Gaussian kernel (of their width times
      1.06 n^-1/5), and of the tail of one more score where scores are Gaussian (Student's, which knows how few there
      are). So a threshold does not run off to where no absent score was seen.
    - TPR: the smoothed share of eligible scores above it. Only a share q of these runs shows the canary, so 20/q runs'
      worth of belief is added that the system has one of the smallest violations that ``curve_power`` says would show.

    Among 257 even steps and the gaps between scores, the threshold is the one whose expected counts are refuted at the
    smallest level.

    Args:
        absent_scores: Scores of runs without the canary.
        eligible_scores: Scores of runs with the canary eligible.
        curve: What the claimed mechanism allows.
        trials: The runs an arm that will be judged.
        alpha: The level of the test for this canary.
    """
    probability("alpha", alpha)
    runs = whole("trials", trials)
    absent, eligible = sorted_scores("absent", absent_scores), sorted_scores("eligible", eligible_scores)
    candidates = candidate_thresholds(absent, eligible)
    fpr, seen = smoothed_rates(absent, eligible, candidates)
    belief = BELIEF / curve.q
    believed = np.mean([np.interp(fpr, *roc) for roc in _smallest_violations(curve, runs, float(alpha))], axis=0)
    tpr = (len(eligible) * seen + belief * believed) / (len(eligible) + belief)
    clearest = _clearest(curve, runs * tpr, runs * fpr, runs)
    tp, fp = runs * tpr[clearest], runs * fpr[clearest]
    margin = lower_end(tp, runs, alpha / 2) - curve.allowed(upper_end(fp, runs, alpha / 2))
    best = clearest[margin == margin.max()]
    return float(candidates[best[len(best) // 2]])


def _clearest(curve: Curve, tp: Array, fp: Array, runs: int) -> NDArray[np.int64]:
    """Return the places of the counts with the smallest ``least_gamma``, without finding that of all others.

    They halve the same range in the same steps. Once any of them exceeds the curve at a level, those that do not are
    out.
    """
    left = np.arange(len(tp))

    def exceeding(level: float) -> NDArray[np.int64]:
        return left[_exceeds(curve, tp[left], runs, fp[left], runs, level)]

    low, high = math.log(LEAST_GAMMA), math.log(0.5)
    if not (found := exceeding(math.exp(high))).size:
        return left
    left = found
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        found = exceeding(math.exp(middle))
        low, high, left = (low, middle, found) if found.size else (middle, high, left)
    return left


@lru_cache(maxsize=64)
def _smallest_violations(curve: Curve, trials: int, alpha: float) -> list[tuple[Array, Array]]:
    """Return a perfect canary's FPR and TPR under each of the smallest violations that would show."""
    power = curve_power(curve, trials, alpha=alpha)
    rocs = [perfect_roc(curve.shift * (power.noise_factor or UNSHOWN), curve.q, curve.rounds)]
    if power.q_factor is not None:
        rocs.append(perfect_roc(curve.shift, min(1.0, power.q_factor * curve.q), curve.rounds))
    return rocs


def sorted_scores(name: str, scores: ArrayLike) -> Array:
    values = np.sort(np.asarray(scores, np.float64), axis=None)
    if len(values) < 2 or not np.isfinite(values).all():  # noqa: PLR2004, one score has no spread
        raise InputError(f"The {name} scores must be at least two finite numbers; leave lost runs out.")
    return values


def candidate_thresholds(absent: Array, eligible: Array) -> Array:
    pooled = np.unique(np.concatenate([_thinned(absent)[0], _thinned(eligible)[0]]))
    gaps = 0.5 * (pooled[1:] + pooled[:-1]) if len(pooled) > 1 else pooled
    return np.unique(np.concatenate([gaps, np.linspace(pooled[0], pooled[-1], CANDIDATES)]))


def smoothed_rates(absent: Array, eligible: Array, thresholds: Array) -> tuple[Array, Array]:
    number, spread = len(absent), float(absent.std(ddof=1))
    quartiles = np.quantile(absent, (0.25, 0.75))
    narrow = float(quartiles[1] - quartiles[0]) / 1.349
    width = 1.06 * (min(spread, narrow) if narrow > 0 else spread) * number**-0.2
    fpr, tpr = (_smoothed(scores, thresholds, width) for scores in (absent, eligible))
    if spread > 0:
        place = (thresholds - absent.mean()) / (spread * math.sqrt(1 + 1 / number))
        fpr = np.maximum(fpr, stdtr(number - 1, -place))
    return fpr, tpr


def _smoothed(scores: Array, thresholds: Array, width: float) -> Array:
    """Return the share of scores above each threshold, each score being spread out by a Gaussian of this width."""
    values, weights = _thinned(scores)
    above = values[:, None] - thresholds
    shares = weights @ (ndtr(above / width) if width > 0 else (above > 0).astype(np.float64))
    return np.minimum(shares, 1.0)  # the weights add up to one but for rounding


def _thinned(scores: Array) -> tuple[Array, Array]:
    """Return sorted scores and their weights; many are stood for by fewer, the tails being kept one by one."""
    number = len(scores)
    if number <= SMOOTH_VALUES:
        return scores, np.full(number, 1 / number)
    ranks = np.unique(np.geomspace(1, number // 2, SMOOTH_VALUES // 2).astype(np.int64))
    cuts = np.unique(np.concatenate([[0], ranks, number - ranks, [number]]))
    sizes = np.diff(cuts)
    return np.add.reduceat(scores, cuts[:-1]) / sizes, sizes / number


@dataclass(frozen=True, slots=True)
class CurvePower:
    """The smallest violations that so many runs would typically show, with a perfect canary at its best threshold.

    Typical means at the expected counts: about half of the audits show such a violation, and more a larger one.
    """

    trials: int
    """Runs an arm of each canary."""
    alpha: float
    """The chance of refuting an honest system, over all canaries."""
    canaries: int
    curve: Curve
    noise_factor: float | None
    """Noise divided by this shows; None where no division up to 100 does."""
    q_factor: float | None
    """q multiplied by this shows; None where even q = 1 does not, or q is 1 already."""

    @property
    def assumption(self) -> str:
        """Return what the forecast stands on."""
        return f"a perfect canary, expected counts at the best threshold; {FROZEN}"

    @property
    def statement(self) -> str:
        """Return which violations so many runs would typically show, and that smaller ones stay unseen."""
        runs = f"{self.trials:,} runs an arm{'' if self.canaries == 1 else f' of each of {self.canaries} canaries'}"
        return power_statement(f"{runs} at alpha {self.alpha:g}", "the curve test", self.noise_factor, self.q_factor)


def power_statement(runs: str, method: str, noise_factor: float | None, q_factor: float | None) -> str:
    """Say which violations so many runs would typically show by a method, and that smaller ones stay unseen."""
    factors = (("noise divided by", noise_factor), ("q multiplied by", q_factor))
    shown = " or ".join(f"{what} {factor:.2f}" for what, factor in factors if factor is not None)
    if not shown:
        return f"{runs} would typically show no violation of noise or sampling by {method}: too few."
    return (
        f"{runs} would typically show {shown} by {method}, with a perfect canary. Smaller violations may stay unseen."
    )


def curve_power(curve: Curve, trials: int, *, alpha: float, canaries: int = 1, both: bool = False) -> CurvePower:
    """Return the smallest violations of the claimed mechanism that so many runs an arm would typically show.

    Each is a factor of its own: the noise divided by ``noise_factor``, or q multiplied by ``q_factor``.

    Args:
        curve: What the claimed mechanism allows.
        trials: Runs an arm of each canary.
        alpha: The chance of refuting an honest system, over all canaries.
        canaries: How many canaries share alpha.
        both: Whether the other branch is declared too.

    Example:
        >>> from canarybank.mechanism import Claim, Mechanism
        >>> found = curve_power(claimed_curve(Claim.of(Mechanism())), 100_000, alpha=0.05)
        >>> 1 < found.noise_factor < 1.5
        True
    """
    runs, number = whole("trials", trials), whole("canaries", canaries)
    gamma = probability("alpha", alpha) / ((4 if both else 2) * number)

    def shows(shift: float, q: float) -> bool:
        fpr, tpr = perfect_roc(shift, q, curve.rounds)
        return bool(_exceeds(curve, runs * tpr, runs, runs * fpr, runs, gamma).any())

    return CurvePower(
        trials=runs,
        alpha=float(alpha),
        canaries=number,
        curve=curve,
        noise_factor=least_factor(lambda f: shows(f * curve.shift, curve.q), MOST),
        q_factor=least_factor(lambda g: shows(curve.shift, min(1.0, g * curve.q)), 1 / curve.q),
    )


def least_factor(shows: Callable[[float], bool], most: float) -> float | None:
    """Return the least factor from 1 to ``most`` that shows, to a thousandth; None where none does."""
    if most <= 1 or not shows(most):
        return None
    low, high = 1.0, min(2.0, most)
    while not shows(high):
        low, high = high, min(2 * high, most)
    while high > low * (1 + FACTOR_STEP):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high
