"""Advise on an evolution before it runs, from public people who stand in for the private ones.

A stand-in u casts votes that sum to 1 over the bank, the row h_u; clipped to norm C it is c_u. N people like the n
stand-ins give entry j the votes V_j = (N/n)·sum_u h_uj in truth. A release over it is R_j = sum_u I_u c_uj + Z_j, with
coins I_u of q and noise of standard deviation sigma·C, so

    E R_j = q·(N/n)·sum_u c_uj,        Var R_j = q(1-q)·(N/n)·sum_u c_uj² + (sigma·C)².

R_j is taken to be Gaussian, which the noise is and a sum over many people nearly is. Of p entries ``top`` stay. Where p
is large, the entry that just stays has about the same votes in every draw: the t at which sum_j P(R_j > t) = top. So
the share of the true top that survives is the mean of P(R_j > t) over the ``top`` entries with the largest V_j.

Where there are fewer people than stand-ins, N of these are drawn. Where there are more, votes are scaled up: an entry's
luck with n stand-ins is then taken for what N people want, and the prediction is too high where n is small, by up
to 0.13 for 50 stand-ins in ``tools/tune_study.py``.

The formula is for the keeper ``top``. What another keeper keeps is simulated: releases are drawn over N people who vote
as the stand-ins do, and the keeper decides on each.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.special import ndtr

from canarybank.errors import InputError
from canarybank.evolution.keeping import Choice, Keeper, KeepTop, apply_keeper, describe
from canarybank.evolution.keeping import top as most_voted
from canarybank.mechanism import Bank, Mechanism, contributions, route
from canarybank.mechanism.budget import rounded_up
from canarybank.mechanism.mechanism import finite_number, whole
from canarybank.seeds import stream

__all__ = [
    "TESTED",
    "Keeping",
    "Setting",
    "StandIns",
    "Tested",
    "best_settings",
    "choose_setting",
    "covering_tests",
    "predict_setting",
    "predict_survival",
    "simulate_keeper",
    "spare_noise",
    "surviving_share",
    "vote_sums",
]

Floats = NDArray[np.float64]

NO_CLIP = 1.0
"""Votes of a person sum to 1, so their norm is at most 1."""
CLIP_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
"""The quantiles of the stand-ins' norms that are tried as clip."""
CLIP_DIGITS = 3
"""A clip is rounded up to so many digits, so that whoever is not clipped at the quantile is not clipped."""
TOLERANCE = 0.02
"""Settings whose survival differs by less than this count as equally good."""
MOST_GROUPS = 4
"""Where there are fewer people than stand-ins, the prediction is the mean over as many groups of them at most."""
FEWEST_DRAWS, MOST_DRAWS = 4, 16
"""Of a keeper that is simulated: the draws where many entries stay, and where few do."""
DRAWN_ENTRIES = 400
"""Between those, so many draws are made that this many entries of the true top stay or go."""


@dataclass(frozen=True, eq=False)
class StandIns:
    """The votes of public people over a bank: a row each that sums to 1, and nobody is clipped."""

    votes: csr_array

    @classmethod
    def of(cls, records: ArrayLike, owners: ArrayLike, bank: Bank | ArrayLike, k: int) -> "StandIns":
        """Let every record vote for its ``k`` nearest entries.

        Args:
            records: The vectors of all records.
            owners: Whose they are: a whole number each, from 0.
            bank: The bank, or its vectors.
            k: The entries that each record votes for.
        """
        owner = np.asarray(owners, dtype=np.int64)
        size = bank.size if isinstance(bank, Bank) else len(np.asarray(bank))
        return cls(contributions(route(records, bank, k), owner, int(owner.max()) + 1, size, NO_CLIP))

    def __len__(self) -> int:
        return int(self.votes.shape[0])

    @property
    def entries(self) -> int:
        """Return the size of the bank."""
        return int(self.votes.shape[1])

    @cached_property
    def norms(self) -> Floats:
        """Return the L2 norm of each person's votes before they are clipped."""
        return np.sqrt(np.asarray(self.votes.multiply(self.votes).sum(axis=1), dtype=np.float64))

    def norm_quantile(self, level: float) -> float:
        """Return the smallest norm that at least this share of the stand-ins does not exceed."""
        return float(np.quantile(self.norms, level, method="inverted_cdf"))

    def clipped_share(self, clip: float) -> float:
        """Return the share of the stand-ins whose votes a clip would scale down."""
        return float((self.norms > clip).mean())

    def take(self, people: NDArray[np.int64]) -> "StandIns":
        """Return some of the stand-ins."""
        return StandIns(csr_array(self.votes[people]))

    def clipped(self, clip: float, entry_cap: float | None = None) -> csr_array:
        """Return everybody's contribution: votes after the entry cap, scaled down to norm ``clip`` where need be."""
        rows = np.repeat(np.arange(len(self)), np.diff(self.votes.indptr))
        values = self.votes.data if entry_cap is None else np.minimum(self.votes.data, entry_cap)
        norms = np.sqrt(np.bincount(rows, weights=values**2, minlength=len(self)))
        with np.errstate(divide="ignore"):  # of somebody without a vote, who has no value to scale
            scale = np.minimum(1.0, clip / norms)
        return csr_array((values * scale[rows], self.votes.indices, self.votes.indptr), shape=self.votes.shape)


def surviving_share(votes: ArrayLike, mean: ArrayLike, deviation: ArrayLike, top: int) -> float:
    """Return the share of the ``top`` entries with most ``votes`` that are in a noisy top of that size, on average.

    Entry j's noisy votes are N(mean_j, deviation_j²). The entry that just stays is taken to have the same noisy votes
    in every draw: t with sum_j P(R_j > t) = top.

    >>> surviving_share([3, 3, 0, 0], [3, 3, 0, 0], [0.1] * 4, 2)
    1.0
    >>> surviving_share([2, 2, 1, 1], [5, 5, 5, 5], [1.0] * 4, 2)
    0.5

    Args:
        votes: What everybody votes for, entry by entry; ties go to the lowest index.
        mean: The mean of the noisy votes.
        deviation: Their standard deviation.
        top: How many entries stay.
    """
    means, spreads = np.asarray(mean, dtype=np.float64), np.asarray(deviation, dtype=np.float64)
    if not (spreads > 0).all():
        raise InputError("Every entry needs a positive standard deviation; without noise the whole top survives.")
    best = most_voted(votes, top)
    if top == len(means):
        return 1.0

    def excess(threshold: float) -> float:
        return float(ndtr((means - threshold) / spreads).sum()) - top

    low, high = float((means - 40 * spreads).min()), float((means + 40 * spreads).max())
    threshold = float(brentq(excess, low, high, xtol=1e-12 * (high - low)))
    return float(ndtr((means[best] - threshold) / spreads[best]).mean())


def predict_survival(stand_ins: StandIns, mechanism: Mechanism, *, people: int, top: int, seed: int = 0) -> float:
    """Return the expected share of the true top that one release keeps, for so many people like the stand-ins.

    The true top are the ``top`` entries that all people's votes choose, without sampling, noise, clip or cap. The
    formula is above. It covers no secret shares.

    Args:
        stand_ins: Public people's votes over a bank.
        mechanism: The parameters of the release.
        people: How many people there are.
        top: How many entries stay.
        seed: Draws the stand-ins where there are more of them than people.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> rng = np.random.default_rng(0)
        >>> stand_ins = StandIns.of(rng.normal(size=(30, 4)), np.repeat(np.arange(10), 3), rng.normal(size=(20, 4)), 2)
        >>> few, many = (predict_survival(stand_ins, Mechanism(k=2), people=n, top=5) for n in (100, 10_000))
        >>> few < many
        True
    """
    _refuse_shares(mechanism)
    count = whole("people", people)
    order = stream(seed, "advice", "people").permutation(len(stand_ins))
    groups = [order[i * count : (i + 1) * count] for i in range(min(MOST_GROUPS, len(order) // count))] or [order]
    return float(np.mean([_survival_of(stand_ins.take(group), mechanism, count, top) for group in groups]))


def _refuse_shares(mechanism: Mechanism) -> None:
    if mechanism.share < 1:
        raise InputError(
            f"The survival under a secret share of {mechanism.share:g} is not predicted. Set mechanism.share to 1, or "
            "draw releases with canarybank.measure.selection_fidelity."
        )


def _survival_of(stand_ins: StandIns, mechanism: Mechanism, people: int, top: int) -> float:
    votes, cast, squares = vote_sums(stand_ins, mechanism, people)
    q = mechanism.q
    return surviving_share(votes, q * cast, np.sqrt(q * (1 - q) * squares + mechanism.noise**2), top)


def vote_sums(stand_ins: StandIns, mechanism: Mechanism, people: int) -> tuple[Floats, Floats, Floats]:
    """Return for each entry the sums over all people of votes, of contributions and of their squares."""
    clipped = stand_ins.clipped(mechanism.clip, mechanism.entry_cap)
    tables = (stand_ins.votes, clipped, clipped.multiply(clipped))
    votes, cast, squares = (
        np.asarray(each.sum(axis=0), dtype=np.float64) * (people / len(stand_ins)) for each in tables
    )
    return votes, cast, squares


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a keeper is expected to keep of one release."""

    survival: float
    """The expected share of the true top that stays."""
    error: float
    """The standard error of that over the draws."""
    kept: float
    """How many entries stay, on average."""


def simulate_keeper(
    stand_ins: StandIns,
    mechanism: Mechanism,
    keeper: Keeper,
    vectors: ArrayLike,
    *,
    people: int,
    top: int,
    labels: Sequence[str] = (),
    seed: int = 0,
) -> Keeping:
    """Let a keeper decide on simulated releases over so many people who vote as the stand-ins do.

    The true top is that of ``predict_survival``. Each draw has people anew: every stand-in stands for as many, or for
    one more, so that all of them together are ``people``.

    Args:
        stand_ins: Public people's votes over a bank.
        mechanism: The parameters of the release.
        keeper: The rule that decides who stays.
        vectors: The vectors of the bank's entries.
        people: How many people there are.
        top: The most entries that may stay.
        labels: The labels of the bank's entries; left out, they have none.
        seed: Draws people, their coins and the noise.
    """
    _refuse_shares(mechanism)
    count, shown = whole("people", people), np.asarray(vectors, dtype=np.float32)
    named, clipped = tuple(labels) or ("",) * len(shown), stand_ins.clipped(mechanism.clip, mechanism.entry_cap)
    shares, sizes = [], []
    for draw in range(min(MOST_DRAWS, max(FEWEST_DRAWS, math.ceil(DRAWN_ENTRIES / top)))):
        rng = stream(seed, "advice", "keeper", draw)
        copies = np.full(len(stand_ins), count // len(stand_ins))
        copies[rng.permutation(len(stand_ins))[: count % len(stand_ins)]] += 1
        coins = rng.binomial(copies, mechanism.q)
        release = coins @ clipped + mechanism.noise * rng.standard_normal(stand_ins.entries)
        kept = apply_keeper(keeper, Choice(release, shown, named, mechanism.noise, top, 0, draw)).indices
        shares.append(float(np.isin(kept, most_voted(copies @ stand_ins.votes, top)).sum()) / top)
        sizes.append(len(kept))
    return Keeping(float(np.mean(shares)), float(np.std(shares, ddof=1) / len(shares) ** 0.5), float(np.mean(sizes)))


@dataclass(frozen=True, slots=True)
class Tested:
    """A comparison of predictions with simulated releases over people who are not the stand-ins."""

    stand_ins: int
    """The fewest stand-ins that predicted."""
    fewest: int
    """The fewest people that they predicted for."""
    most: int
    """The most people that they predicted for."""
    error: float
    """The largest difference between a predicted survival and the simulated one, rounded up."""
    sets: str
    """On how many user sets, in words."""

    @property
    def range(self) -> str:
        """Return in words for how many people how many stand-ins predicted, and on how many sets."""
        people = f"{self.fewest:,}" + (f" to {self.most:,}" if self.most > self.fewest else "")
        return f"{self.stand_ins:,} stand-ins for {people} people on {self.sets} user sets"


TESTED = (
    Tested(225, 225, 300, 0.05, "three"),
    Tested(450, 4000, 4000, 0.04, "two"),
    Tested(300, 3000, 3000, 0.05, "two"),
    Tested(50, 300, 300, 0.13, "three"),
)
"""What ``tools/tune_study.py`` found for the keeper ``top`` where 5% stay."""


def covering_tests(people: int, stand_ins: int) -> tuple[Tested, ...]:
    """Return the tests that cover so many people and stand-ins, the largest error first; none where none do.

    More stand-ins are better. More people for each of them are worse, for their luck is scaled up; and fewer people
    are worse, for these have luck of their own. So one test must have had as many people or more, one as many or fewer,
    and both no more stand-ins; of several such tests the one with the smallest error counts.

    >>> [each.error for each in covering_tests(4000, 450)], [each.error for each in covering_tests(1000, 450)]
    ([0.04], [0.05, 0.04])
    """
    as_few = [each for each in TESTED if each.stand_ins <= stand_ins]
    sides = [each for each in as_few if each.most >= people], [each for each in as_few if each.fewest <= people]
    if not all(sides):
        return ()
    best = {min(side, key=lambda each: each.error) for side in sides}
    return tuple(sorted(best, key=lambda each: -each.error))


def spare_noise(norms: ArrayLike, clip: float) -> float:
    """Return by what factor the noise is larger than it need be: clip divided by the largest norm, and 1 at least.

    A clip at the largest norm changes nobody's votes, and the noise is sigma times clip: so at the same sigma, and the
    same epsilon, its standard deviation would be exactly this factor smaller.

    >>> round(spare_noise([0.05, 0.066], 0.1), 3)
    1.515
    """
    return max(1.0, finite_number("clip", clip) / float(np.max(np.asarray(norms, dtype=np.float64))))


@dataclass(frozen=True, slots=True)
class Setting:
    """A bank size and the parameters of a release over it, with what is expected of them."""

    bank: int
    """The entries of the bank."""
    mechanism: Mechanism
    """The parameters of the release."""
    top: int
    """How many entries stay."""
    survival: float
    """The expected share of the true top that stays."""
    clipped: float
    """The share of people whose votes are scaled down."""
    keeper: str = "top"
    """The keeper that the survival is predicted for."""
    kept_share: float = 1.0
    """How many entries stay, on average, as a share of ``top``."""
    error: float = 0.0
    """The standard error of the survival where it is simulated; 0 where it is computed."""
    failure: str = ""
    """Why the survival is not predicted for the keeper that was asked for."""

    @property
    def chance(self) -> float:
        """Return the survival if entries were kept at random."""
        return self.top / self.bank


def predict_setting(
    stand_ins: StandIns,
    mechanism: Mechanism,
    *,
    people: int,
    top: int,
    keeper: Keeper = KeepTop(),  # noqa: B008, a frozen value
    vectors: ArrayLike = (),
    labels: Sequence[str] = (),
) -> Setting:
    """Return a setting with what is expected of it.

    For the keeper ``top`` that is computed, for any other it is simulated on the bank's ``vectors`` and ``labels``.
    Where a keeper fails, the setting says so and is predicted for ``top``.

    Args:
        stand_ins: Public people's votes over a bank.
        mechanism: The parameters of the release.
        people: How many people there are.
        top: How many entries stay.
        keeper: The rule that decides who stays.
        vectors: The bank's vectors, which other keepers than ``top`` need.
        labels: The bank's labels, likewise.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> rng = np.random.default_rng(0)
        >>> stand_ins = StandIns.of(rng.normal(size=(30, 4)), np.repeat(np.arange(10), 3), rng.normal(size=(20, 4)), 2)
        >>> 0 < predict_setting(stand_ins, Mechanism(k=2), people=1000, top=5).survival <= 1
        True
    """
    clipped, failure = stand_ins.clipped_share(mechanism.clip), ""
    if keeper != KeepTop():
        name = str(describe(keeper)["rule"])
        try:
            found = simulate_keeper(stand_ins, mechanism, keeper, vectors, people=people, top=top, labels=labels)
        except Exception as error:  # noqa: BLE001, a rule of somebody else may fail in any way
            first = error.__cause__ or error
            failure = f"The keeper {name!r} failed on simulated votes: {type(first).__name__}: {first}"
        else:
            kept = found.kept / top
            return Setting(
                stand_ins.entries, mechanism, top, found.survival, clipped, name, kept_share=kept, error=found.error
            )
    survival = predict_survival(stand_ins, mechanism, people=people, top=top)
    return Setting(stand_ins.entries, mechanism, top, survival, clipped, failure=failure)


def best_settings(
    stand_ins: StandIns,
    mechanisms: Iterable[Mechanism],
    *,
    people: int,
    top: int,
    keeper: Keeper = KeepTop(),  # noqa: B008, a frozen value
    vectors: ArrayLike = (),
    labels: Sequence[str] = (),
) -> tuple[Setting, ...]:
    """Return each mechanism over this bank with the best of the clips that are quantiles of the stand-ins' norms.

    Best is what the keeper ``top`` does best with. Of clips that are equally good it is the largest, which changes the
    fewest people's votes.

    Args:
        stand_ins: Public people's votes over a bank.
        mechanisms: The mechanisms to look at.
        people: How many people there are.
        top: How many entries stay.
        keeper: The rule that decides who stays.
        vectors: The bank's vectors, which other keepers than ``top`` need.
        labels: The bank's labels, likewise.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> rng = np.random.default_rng(0)
        >>> stand_ins = StandIns.of(rng.normal(size=(30, 4)), np.repeat(np.arange(10), 3), rng.normal(size=(20, 4)), 2)
        >>> (best,) = best_settings(stand_ins, [Mechanism(k=2)], people=100, top=5)
        >>> 0 < best.mechanism.clip <= 1
        True
    """
    clips = sorted({rounded_up(stand_ins.norm_quantile(level), CLIP_DIGITS) for level in CLIP_QUANTILES}, reverse=True)
    found = []
    for mechanism in mechanisms:
        tried = [predict_setting(stand_ins, replace(mechanism, clip=clip), people=people, top=top) for clip in clips]
        most = max(each.survival for each in tried)
        best = next(each for each in tried if each.survival > most - TOLERANCE / 2)
        if keeper != KeepTop():
            best = predict_setting(
                stand_ins, best.mechanism, people=people, top=top, keeper=keeper, vectors=vectors, labels=labels
            )
        found.append(best)
    return tuple(found)


def choose_setting(settings: Sequence[Setting], *, goal: float) -> Setting:
    """Return the setting to recommend.

    For each bank size, of the settings that are equally good: the one with the fewest people in a round, then with the
    smallest k. Of those, the largest bank whose survival reaches the goal; or where none does, the one with the highest
    survival.

    Args:
        settings: What there is to choose from.
        goal: The share of the true top that shall survive.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Mechanism
        >>> rng = np.random.default_rng(0)
        >>> stand_ins = StandIns.of(rng.normal(size=(30, 4)), np.repeat(np.arange(10), 3), rng.normal(size=(20, 4)), 2)
        >>> settings = best_settings(stand_ins, [Mechanism(k=2, sigma=s) for s in (0.5, 5.0)], people=100, top=5)
        >>> choose_setting(settings, goal=0.9).mechanism.sigma
        0.5
    """
    if not settings:
        raise InputError("There is no setting to choose from.")
    by_bank: dict[int, list[Setting]] = {}
    for each in settings:
        by_bank.setdefault(each.bank, []).append(each)
    chosen = [_frugal(group) for group in by_bank.values()]
    reaching = [each for each in chosen if each.survival >= goal]
    if reaching:
        return max(reaching, key=lambda each: each.bank)
    return max(chosen, key=lambda each: (each.survival, each.bank))


def _frugal(settings: Sequence[Setting]) -> Setting:
    """Return of equally good settings the one with the smallest q, then the smallest k."""
    most = max(each.survival for each in settings)
    good = [each for each in settings if each.survival > most - TOLERANCE]
    return min(good, key=lambda each: (each.mechanism.q, each.mechanism.k))
