"""Bound what one run shows from guesses who was in, where a fair coin of the auditor decided that for each canary.

One rule guesses all canaries, and is fixed beforehand. Let mu be the shift that canaries are designed for, and x the
whitened score of a canary in a round. The canary's score over the run is the sum over rounds of
log(1 - q + q exp(mu x - mu²/2)); the guess is "in" where it is positive, and its confidence is the absolute value. Only
the most confident guesses are made; how many is fixed beforehand too.

``guessing_lower`` assumes nothing of the mechanism: Steinke, Nasr and Jagielski, "Privacy auditing with one (1)
training run", 2023, https://arxiv.org/abs/2305.08846. ``order_statistics_lower`` assumes the family: canaries are
independent and alike, x is N(mu, 1) in rounds that the canary took part in and N(0, 1) in others, and a canary that is
in takes part in each round at rate q.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import bdtr, betainc, betaincinv, betaln, expit, ndtr
from scipy.stats import binom

from canarybank.auditing.known_coins import Expected, family_epsilon
from canarybank.auditing.rates import Array, probability
from canarybank.errors import InputError
from canarybank.mechanism.mechanism import whole
from canarybank.score import mixture, unmix

__all__ = [
    "GuessLaw",
    "Guessing",
    "best_guesses",
    "expected_guesses",
    "guess_scores",
    "guessing_lower",
    "order_statistics_lower",
    "wrong_guesses",
]

Guessing: TypeAlias = Literal["order-statistics", "guessing"]
"""How guesses are judged: inside the family, or without any assumption."""

LARGEST_EPSILON: Final = 700.0
SHIFTS: Final = 97
"""Shifts of the table in which the smallest one that is not rejected is looked up."""
CANDIDATES: Final = 24
NOTHING: Final = 1e-13
POINTS, CELLS, REACH, SURE = 4001, 2**17, 9.0, 45.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


def guess_scores(scores: ArrayLike, *, q: float, designed: float) -> Array:
    """Return the score of each canary over its rounds: positive where it is guessed to be in.

    For canaries with the designed shift it is the exact log-likelihood ratio of "in" against "out".

    The formula: Steinke, Nasr and Jagielski (2023, https://arxiv.org/abs/2305.08846).

    Args:
        scores: Whitened scores, canaries by rounds.
        q: The claimed rate at which a canary that is in takes part in a round.
        designed: The shift that canaries were designed for.

    Example:
        >>> guess_scores([[3.0, 2.0], [-2.0, 0.0]], q=1.0, designed=1.0).tolist()
        [4.0, -3.0]
    """
    x = np.asarray(scores, np.float64)
    return np.asarray(mixture(designed * x - designed**2 / 2, q).reshape(len(x), -1).sum(axis=1))


def wrong_guesses(scores: ArrayLike, eligible: ArrayLike, *, guesses: int, q: float, designed: float) -> int:
    """Return how many of the most confident guesses are wrong.

    Args:
        scores: Whitened scores, canaries by rounds.
        eligible: Whether each canary was in.
        guesses: How many guesses are made, fixed before the run.
        q: The claimed rate at which a canary that is in takes part in a round.
        designed: The shift that canaries were designed for.
    """
    found, there = guess_scores(scores, q=q, designed=designed), np.asarray(eligible, bool)
    if found.shape != there.shape:
        raise InputError(f"Scores of {len(found)} canaries and {there.size} in or out; give one of each.")
    _checked_counts(len(found), guesses, 0)
    chosen = np.argsort(-np.abs(found), kind="stable")[:guesses]
    return int(((found > 0) != there)[chosen].sum())


@lru_cache(maxsize=8192)
def guessing_lower(canaries: int, guesses: int, correct: int, *, delta: float, alpha: float) -> float:
    """Return the largest epsilon that so many correct guesses refute, without any assumption on the mechanism.

    If the run is (epsilon, delta)-private for adding or removing one user, and each canary was in by its own fair
    coin, then P(lower > epsilon) <= alpha. For at least v guesses are right with probability at most
    P(B >= v) + 2·canaries·delta·max over i = 1..v of P(v > B >= v - i)/i, B ~ Bin(guesses, e^epsilon/(1 + e^epsilon)).

    The formula: Steinke, Nasr and Jagielski (2023, https://arxiv.org/abs/2305.08846).

    Args:
        canaries: All canaries, also those that no guess was made of.
        guesses: The guesses made.
        correct: How many of them are right.
        delta: The delta at which epsilon is stated.
        alpha: The probability with which the bound may exceed the truth.

    Example:
        >>> guessing_lower(100, 100, 50, delta=1e-5, alpha=0.05)
        0.0
        >>> round(guessing_lower(100, 100, 100, delta=0.0, alpha=0.05), 3)  # 0.05 = rate^100
        3.493
    """
    _checked_counts(canaries, guesses, correct)
    probability("delta", delta, or_zero=True)
    probability("alpha", alpha)

    def excess(epsilon: float) -> float:
        return _chance_correct(canaries, guesses, correct, epsilon, delta) - alpha

    if correct == 0 or excess(0.0) >= 0:
        return 0.0
    upper = 1.0
    while excess(upper) < 0:
        upper *= 2
        if upper > LARGEST_EPSILON:
            return LARGEST_EPSILON
    found = float(brentq(excess, 0.0, upper, xtol=1e-12))
    return max(0.0, found - 1e-11)  # the end of the bracket that is refuted


def _chance_correct(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the theorem's bound on the probability of at least so many correct guesses."""
    rate = float(expit(epsilon))
    chance = float(betainc(correct, guesses - correct + 1, rate))
    if delta == 0:
        return chance
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, rate))
    return chance + 2 * canaries * delta * float((below / np.arange(1, correct + 1)).max())


@dataclass(frozen=True)
class GuessLaw:
    """The law of a guess and its confidence, for one canary of the family.

    Args:
        q: The rate at which a canary that is in takes part in a round.
        designed: The shift that the rule assumes.
        shift: The shift that the canary has.
        rounds: The number of releases.
    """

    q: float
    designed: float
    shift: float
    rounds: int = 1

    def __post_init__(self) -> None:
        whole("rounds", self.rounds)
        if not (0 < self.designed < math.inf and 0 <= self.shift < math.inf):
            raise InputError(
                f"The designed shift must be positive and the shift at least 0, both finite, not {self.designed!r} and "
                f"{self.shift!r}."
            )

    @cached_property
    def _tails(self) -> tuple[Array, Array]:
        """Return, for growing tails, P(confidence above c), and P(that and a wrong guess): from none to all."""
        # Without sampling the summed score is that of one round with less noise.
        times, rounds = (math.sqrt(self.rounds), 1) if self.q == 1 else (1.0, self.rounds)
        rule = _rule(self.q, self.designed * times, rounds)
        above0, below0 = rule.tails0
        above1, below1 = rule.tails(self.shift * times)
        wrong = (above0 + below1) / 2
        total = wrong + (above1 + below0) / 2
        first = max(int(np.searchsorted(total, NOTHING)) - 1, 0)
        return total[first:].copy(), wrong[first:].copy()  # what is left out would fill memory with zeros

    def error_above(self, quantile: ArrayLike) -> Array:
        """Return the mean error of guesses whose confidence is above its quantile, such as 0.9 for the top tenth."""
        tail = 1 - np.asarray(quantile, np.float64)
        total, wrong = self._tails
        return np.clip(np.interp(tail, total, wrong) / np.maximum(tail, 1e-300), 0.0, 1.0)

    def wrong_at_most(self, canaries: int, guesses: int, wrong: ArrayLike) -> Array:
        """Return the probability of at most so many wrong guesses among the most confident of all canaries.

        The confidence of the best guess that is not made has quantile W ~ Beta(canaries - guesses, guesses + 1). Above
        it guesses are independent, and each is wrong with probability ``error_above(W)``.
        """
        quantiles, mass = _last_left_out(canaries, guesses)
        counts = np.asarray(wrong, np.float64)[..., None]
        return np.asarray(bdtr(counts, guesses, self.error_above(quantiles)) @ mass)


@lru_cache(maxsize=8192)
def order_statistics_lower(
    canaries: int, guesses: int, wrong: int, *, q: float, designed: float, rounds: int, alpha: float
) -> float:
    """Return a lower bound on the shift of canaries from the wrong ones among the most confident guesses.

    In the family, at rate q, P(lower > shift) <= alpha: it is the smallest shift that does not make so few wrong
    guesses less likely than alpha. Larger shifts may do so again; they do not count. It is at most the largest shift
    of the table, four times the designed one and 2.

    Args:
        canaries: All canaries, each in by a fair coin.
        guesses: The guesses made, of the most confident canaries, as fixed before the run.
        wrong: How many of them are wrong.
        q: The rate at which a canary that is in takes part in a round: an assumption here.
        designed: The shift that the rule assumes.
        rounds: The number of releases.
        alpha: The probability with which the bound may exceed the truth.

    Example:
        >>> told = {"q": 1.0, "designed": 1.0, "rounds": 1, "alpha": 0.05}
        >>> few, many = (order_statistics_lower(100, 40, wrong, **told) for wrong in (1, 20))
        >>> few > many == 0.0
        True
    """
    _checked_counts(canaries, guesses, wrong)
    probability("alpha", alpha)
    if designed == 0 or guesses == 0:
        return 0.0
    laws = _laws(q, designed, rounds)

    def excess(law: GuessLaw) -> float:
        return float(law.wrong_at_most(canaries, guesses, wrong)) - alpha

    # Halves of the table that are rejected as a whole would need a proof; every shift is asked.
    first = next((place for place, law in enumerate(laws) if excess(law) > 0), len(laws))
    if first in {0, len(laws)}:
        return 0.0 if first == 0 else laws[-1].shift
    low, high = laws[first - 1].shift, laws[first].shift
    return float(brentq(lambda shift: excess(GuessLaw(q, designed, shift, rounds)), low, high, xtol=1e-7))


@lru_cache(maxsize=256)
def best_guesses(
    canaries: int, *, q: float, shift: float, rounds: int, alpha: float, method: Guessing, delta: float = 1e-5
) -> int:
    """Return how many guesses to make: the number with the largest bound at the mean of wrong ones.

    Between two counts the bound is interpolated, so that no number wins by the luck of rounding. Where no number
    shows anything on average, it is the one at which the mean differs most from guessing by coin, in deviations. It is
    about canaries that have the shift they were designed for, and nothing that is measured enters.

    Args:
        canaries: All canaries.
        q: The claimed rate at which a canary that is in takes part in a round.
        shift: The designed shift.
        rounds: The number of releases.
        alpha: The share of alpha of the bound.
        method: ``order-statistics`` or ``guessing``.
        delta: The delta at which epsilon is stated; only ``guessing`` uses it.
    """
    m = whole("canaries", canaries)
    if shift == 0:
        return m
    law = GuessLaw(q, shift, shift, rounds)

    def lower(guesses: int, wrong: int) -> float:
        if method == "guessing":
            return guessing_lower(m, guesses, guesses - wrong, delta=delta, alpha=alpha)
        return order_statistics_lower(m, guesses, wrong, q=q, designed=shift, rounds=rounds, alpha=alpha)

    def merit(guesses: int) -> tuple[float, float]:
        quantiles, mass = _last_left_out(m, guesses)
        mean = guesses * float(law.error_above(quantiles) @ mass)
        below = min(int(mean), guesses - 1)
        part = mean - below
        shown = (1 - part) * lower(guesses, below) + part * lower(guesses, below + 1)
        return shown, (guesses / 2 - mean) / math.sqrt(guesses)

    numbers: set[int] = {round(float(m) ** (step / CANDIDATES)) for step in range(CANDIDATES + 1)}
    return max(sorted(numbers, reverse=True), key=merit)


def expected_guesses(
    canaries: int,
    *,
    q: float,
    shift: float,
    rounds: int,
    delta: float,
    alpha: float,
    method: Guessing,
    guesses: int | None = None,
    designed: float | None = None,
) -> Expected:
    """Return the law of the epsilon that guesses will give, for canaries that have the shift.

    The formula: Steinke, Nasr and Jagielski (2023, https://arxiv.org/abs/2305.08846).

    Args:
        canaries: All canaries, each in by a fair coin.
        q: The rate at which a canary that is in takes part in a round.
        shift: The true shift; 1/sigma for a perfect canary.
        rounds: The number of releases; epsilon is that of all of them.
        delta: The delta at which epsilon is stated.
        alpha: The share of alpha of the bound.
        method: ``order-statistics`` or ``guessing``.
        guesses: The guesses made; the best number if it is not given.
        designed: The shift that the rule assumes; the true one if it is not given.

    Example:
        >>> found = expected_guesses(100, q=1.0, shift=1.0, rounds=1, delta=1e-5, alpha=0.05, method="guessing")
        >>> 0 <= found.median < 4
        True
    """
    if shift == 0:
        return Expected(0.0, 0.0, 0.0)
    rule = designed or shift
    r = guesses or best_guesses(canaries, q=q, shift=shift, rounds=rounds, alpha=alpha, method=method, delta=delta)

    def lower(wrong: int) -> float:
        if method == "guessing":
            return guessing_lower(canaries, r, r - wrong, delta=delta, alpha=alpha)
        found = order_statistics_lower(canaries, r, wrong, q=q, designed=rule, rounds=rounds, alpha=alpha)
        return family_epsilon(q, found, rounds, delta)

    return Expected(*map(lower, _wrong_quantiles(GuessLaw(q, rule, shift, rounds), canaries, r)))


def _wrong_quantiles(law: GuessLaw, canaries: int, guesses: int) -> tuple[int, int, int]:
    """Return the median of wrong guesses, and its 95% and 5% quantiles: those of the median, 5% and 95% bound."""
    cdf = law.wrong_at_most(canaries, guesses, np.arange(guesses + 1))
    median, many, few = (int(np.searchsorted(cdf[:-1], level)) for level in (0.5, 0.95, 0.05))
    return median, many, few


def _checked_counts(canaries: int, guesses: int, some: int) -> None:
    if not 0 <= some <= guesses <= canaries:
        raise InputError(
            f"There cannot be {some} of {guesses} guesses of {canaries} canaries; make at most one guess a canary."
        )


@lru_cache(maxsize=256)
def _last_left_out(canaries: int, guesses: int) -> tuple[Array, Array]:
    """Return quantiles of the best confidence that is left out, and their probabilities: nodes of an integral."""
    _checked_counts(canaries, guesses, 0)
    a, b = canaries - guesses, guesses + 1
    if a == 0:
        return np.zeros(1), np.ones(1)
    low, high = (float(betaincinv(a, b, level)) for level in (1e-13, 1 - 1e-13))
    w = (high + low) / 2 + (high - low) / 2 * _NODES
    mass = np.exp((a - 1) * np.log(w) + (b - 1) * np.log1p(-w) - betaln(a, b)) * _WEIGHTS
    return w, mass / mass.sum()


@lru_cache(maxsize=8)
def _laws(q: float, designed: float, rounds: int) -> tuple[GuessLaw, ...]:
    return tuple(GuessLaw(q, designed, float(each), rounds) for each in np.linspace(0.0, 4 * designed + 2, SHIFTS))


@lru_cache(maxsize=32)
def _rule(q: float, designed: float, rounds: int) -> "_OneRound | _Lattice":
    return _OneRound(q, designed) if rounds == 1 else _Lattice(q, designed, rounds)


@dataclass(frozen=True)
class _OneRound:
    """Tails of the score of one round, exact, at thresholds that fall from the largest confidence to none."""

    q: float
    designed: float

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        """Return, for each threshold c, the x above which the score exceeds c, and that below which it is under -c."""
        x = np.linspace(-REACH, 4 * self.designed + 2 + REACH, POINTS)
        confidence = np.unique(np.abs(mixture(self.designed * x - self.designed**2 / 2, self.q)))[::-1]
        thresholds = np.concatenate([[np.inf], confidence, [0.0]])
        places = [unmix(each, self.q) / self.designed + self.designed / 2 for each in (thresholds, -thresholds)]
        return places[0], places[1]

    @cached_property
    def tails0(self) -> tuple[Array, Array]:
        """Return P(score > c) and P(score < -c) of a canary that is out."""
        high, low = self._places
        return ndtr(-high), ndtr(low)

    def tails(self, shift: float) -> tuple[Array, Array]:
        """Return the same of a canary that is in."""
        high, low = self._places
        above, below = self.tails0
        return (1 - self.q) * above + self.q * ndtr(shift - high), (1 - self.q) * below + self.q * ndtr(low - shift)


@dataclass(frozen=True)
class _Lattice:
    """Tails of the summed score of several rounds, on a lattice.

    Each round's score is rounded to a step that is a hundredth of the sum's deviation, which moves errors by at most
    about 1e-4 of themselves. Scores beyond 45 are all as good as sure, and count as 45.
    """

    q: float
    designed: float
    rounds: int

    @cached_property
    def _grid(self) -> tuple[float, int, NDArray[np.int64]]:
        """Return the step, the size of a transform, and the cells that one round's score may fall into."""
        x = np.linspace(-REACH, REACH, POINTS)
        mass = np.exp(-x * x / 2)
        score = self._score(x)
        mean = float(mass @ score / mass.sum())
        deviation = math.sqrt(float(mass @ (score - mean) ** 2 / mass.sum()) * self.rounds)
        ends = self._score(np.array([-REACH, 4 * self.designed + 2 + REACH]))
        step = max(deviation / 100, self.rounds * float(np.ptp(ends)) / CELLS)
        first, last = math.floor(ends[0] / step), math.ceil(ends[1] / step)
        return step, next_fast_len(self.rounds * (last - first) + 1, real=True), np.arange(first, last + 1)

    def _score(self, x: Array) -> Array:
        return np.clip(mixture(self.designed * x - self.designed**2 / 2, self.q), -SURE, SURE)

    @cached_property
    def _edges(self) -> Array:
        """Return the x at the edges between cells."""
        step, _, cells = self._grid
        return unmix((cells[:-1] + 0.5) * step, self.q) / self.designed + self.designed / 2

    def _transform(self, shift: float) -> NDArray[np.complex128]:
        cdf = ndtr(self._edges - shift)
        return np.asarray(rfft(np.diff(cdf, prepend=0.0, append=1.0), self._grid[1]))

    @cached_property
    def _transform0(self) -> NDArray[np.complex128]:
        return self._transform(0.0)

    def _tails(self, transform: NDArray[np.complex128]) -> tuple[Array, Array]:
        _, size, cells = self._grid
        law = np.maximum(irfft(transform**self.rounds, size), 0.0)[: self.rounds * (len(cells) - 1) + 1]
        zero = -self.rounds * int(cells[0])  # the cell of a sum of 0
        # Thresholds lie between cells, so the middle cell belongs to both signs by halves.
        reach = max(zero, len(law) - 1 - zero)
        padded = np.zeros(2 * reach + 1)
        padded[reach - zero : reach - zero + len(law)] = law
        above, below = np.cumsum(padded[:reach:-1]), np.cumsum(padded[:reach])
        middle = padded[reach] / 2
        return np.concatenate([[0.0], above, [above[-1] + middle]]), np.concatenate(
            [[0.0], below, [below[-1] + middle]]
        )

    @cached_property
    def tails0(self) -> tuple[Array, Array]:
        """Return P(score > c) and P(score < -c) of a canary that is out."""
        return self._tails(self._transform0)

    def tails(self, shift: float) -> tuple[Array, Array]:
        """Return the same of a canary that is in."""
        return self._tails((1 - self.q) * self._transform0 + self.q * self._transform(shift))
