"""Play a schedule of trials on any system, and hold what it released.

A ``System`` has one method, ``play(trials, rng)``: it returns one observation for each trial, in the same order, or
None where the run was lost. ``playing`` makes one from an object with ``release`` and from a plain function.
``Releases`` holds the outcome: tables for the score, runs that were lost, and whether the mere number of released
values gives the canary away.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError

__all__ = ["Hypothesis", "Leak", "LengthCount", "Observation", "Releases", "Split", "System", "Trial", "playing"]

Observation = tuple[NDArray[np.float64], ...]
"""What one run released: one vector a round, labels joined in the plant's order. Lengths may differ between runs."""

SHOWN = 4


class Hypothesis(StrEnum):
    """What a run plants: nothing, or the canary. In a ``replace`` audit ABSENT plants canary B instead of canary A."""

    ABSENT = "absent"
    ELIGIBLE = "eligible"


class Split(StrEnum):
    """What a run is for: to fit score and threshold, or to be judged by them."""

    FIT = "fit"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the schedule.

    Args:
        run: The place in the schedule, from 1.
        hypothesis: What is planted.
        canary: The name of the canary that is tested.
        split: What the run is for.
    """

    run: int
    hypothesis: Hypothesis
    canary: str
    split: Split

    def __post_init__(self) -> None:
        """Take the words for the enumerations too, and refuse others."""
        if self.run < 1:
            raise InputError(f"A run's number must be at least 1, not {self.run!r}; runs count from 1.")
        try:
            object.__setattr__(self, "hypothesis", Hypothesis(self.hypothesis))
            object.__setattr__(self, "split", Split(self.split))
        except ValueError as error:
            raise InputError(
                f"Run {self.run} has the hypothesis {str(self.hypothesis)!r} and the split {str(self.split)!r}; these "
                f"are {' or '.join(Hypothesis)}, and {' or '.join(Split)}."
            ) from error


class System(Protocol):
    """Anything that can be run many times, with a canary and without."""

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> Sequence[Observation | None]:
        """Run the system once for each trial, in order; None stands for a run that was lost."""


def playing(system: Any) -> System:
    """Return a system that plays trials.

    A thing with ``play`` is returned as it is. A thing with ``release(eligible, size, rng)``, or a plain function of
    the same three arguments, is called once for the absent and once for the eligible runs. It returns one release a
    row, as a table (size, values), a block (size, rounds, values), or a list of vectors of any lengths with None for
    lost runs.

    Args:
        system: A function, or a thing with ``release`` or ``play``.

    Example:
        >>> import numpy as np
        >>> system = playing(lambda eligible, size, rng: rng.normal(eligible, 1.0, (size, 2)))
        >>> runs = [Trial(run, each, "canary", Split.JUDGE) for run, each in enumerate(Hypothesis, 1)]
        >>> len(system.play(runs, np.random.default_rng(0)))
        2
    """
    if isinstance(system, type):
        raise InputError(f"{system.__name__} is a class, not a system; give an instance of it: {system.__name__}(...).")
    if callable(getattr(system, "play", None)):
        playable: System = system
        return playable
    function = getattr(system, "release", system)
    if not callable(function):
        raise InputError(
            f"{type(system).__name__} is no system: it has neither play(trials, rng) nor release(eligible, size, rng), "
            "and it is no function."
        )
    return _Released(function)


@dataclass(frozen=True, slots=True)
class _Released:
    function: Callable[[bool, int, np.random.Generator], Any]

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> Sequence[Observation | None]:
        planted = sorted({trial.canary for trial in trials if trial.hypothesis is Hypothesis.ELIGIBLE})
        if len(planted) > 1:
            raise InputError(
                f"These trials plant {len(planted)} canaries ({', '.join(planted)}), and release(eligible, size, rng) "
                "is not told which one; give a system with play(trials, rng)."
            )
        observations: list[Observation | None] = [None] * len(trials)
        for hypothesis in Hypothesis:
            places = [place for place, trial in enumerate(trials) if trial.hypothesis is hypothesis]
            if not places:
                continue
            released = self.function(hypothesis is Hypothesis.ELIGIBLE, len(places), rng)
            if len(released) != len(places):
                raise InputError(
                    f"The system returned {len(released)} releases for {len(places)} {hypothesis} runs; it must return "
                    "one for each run, and None for a run that was lost."
                )
            for place, observation in zip(places, released, strict=True):
                observations[place] = _rounds(observation, trials[place].run)
        return observations


@dataclass(frozen=True, eq=False)
class Releases:
    """What a schedule of trials released, in schedule order. Build one by ``Releases.of``."""

    trials: tuple[Trial, ...]
    observations: tuple[Observation | None, ...]
    sizes: tuple[tuple[int, ...] | None, ...] | None = None
    """How many values each run released in all, inspected or not; None where that is not known."""

    @classmethod
    def of(
        cls, trials: Sequence[Trial], observations: Sequence[Any], *, sizes: Mapping[int, tuple[int, ...]] | None = None
    ) -> "Releases":
        """Return the releases of these trials, sorted by run.

        Args:
            trials: The trials.
            observations: One for each trial: a vector a round (a plain vector is one round), or None for a lost run.
            sizes: How many values each run released in all, by run, where more was released than is inspected.

        Raises:
            InputError: If numbers of trials and observations differ, a run stands twice, or a release holds what is not
                a finite number.
        """
        if len(trials) != len(observations):
            raise InputError(
                f"There are {len(observations)} observations of {len(trials)} trials; a system returns one for each "
                "trial, and None for a run that was lost."
            )
        often = [run for run, times in Counter(trial.run for trial in trials).items() if times > 1]
        if often:
            raise InputError(f"Run {min(often)} stands more than once among the trials; each run has its own number.")
        order = sorted(range(len(trials)), key=lambda place: trials[place].run)
        found = tuple(_rounds(observations[place], trials[place].run) for place in order)
        ordered = tuple(trials[place] for place in order)
        _check_finite(ordered, found)
        return cls(ordered, found, None if sizes is None else tuple(sizes.get(trial.run) for trial in ordered))

    @property
    def canaries(self) -> tuple[str, ...]:
        """Return the canaries' names in the order of their first runs."""
        return tuple(dict.fromkeys(trial.canary for trial in self.trials))

    @property
    def lost(self) -> tuple[Trial, ...]:
        """Return the trials whose runs were lost."""
        return tuple(trial for trial, found in self._pairs if found is None)

    @cached_property
    def lengths(self) -> tuple[tuple[int, ...] | None, ...]:
        """Return for each trial how many values each of its rounds released; None for a lost run."""
        return tuple(None if found is None else tuple(map(len, found)) for found in self.observations)

    @cached_property
    def released(self) -> tuple[tuple[int, ...] | None, ...]:
        """Return for each trial how many values it released in all, where that is known, else how many inspected."""
        sizes = self.sizes or (None,) * len(self.trials)
        return tuple(None if each is None else size or each for each, size in zip(self.lengths, sizes, strict=True))

    def lengths_differ(self, canary: str) -> bool:
        """Return whether runs of this canary released different numbers of values, inspected or in all."""
        return self.is_ragged(canary) or len({each for _, each in self._counts(self.released, canary)}) > 1

    def is_ragged(self, canary: str) -> bool:
        """Return whether runs of this canary released different numbers of inspected values."""
        return len(self._shapes.get(canary, ())) > 1

    def trials_of(self, canary: str, hypothesis: Hypothesis, split: Split) -> tuple[Trial, ...]:
        """Return the trials whose releases are the rows of ``table``: in schedule order, without lost runs."""
        return tuple(trial for trial, _ in self._selected(canary, hypothesis, split))

    def planned(self, canary: str, hypothesis: Hypothesis, split: Split) -> int:
        """Return how many trials there are of these, lost ones too."""
        return self._planned[canary, hypothesis, split]

    def table(
        self, canary: str, hypothesis: Hypothesis, split: Split, widths: Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """Return these runs' releases, one a row in schedule order, rounds joined; lost runs are left out.

        All tables of one canary have the same columns: ``widths`` of each round, or as many as were released. Where
        runs released different numbers of values, each round is
        filled up with zeros to its longest: this reads a release and nothing else, so bounds stay valid, and ``leaks``
        says what the lengths themselves show.
        """
        widths = self.widths(canary) if widths is None else tuple(widths)
        wanted = (canary, hypothesis, split, widths)
        if wanted not in self._tables:
            self._tables[wanted] = self._filled([found for _, found in self._selected(*wanted[:3])], canary, widths)
            self._tables[wanted].flags.writeable = False  # the next caller gets it too
        return self._tables[wanted]

    def _filled(self, chosen: list[Observation], canary: str, widths: tuple[int, ...]) -> NDArray[np.float64]:
        if set(self._shapes.get(canary, ())) == {widths}:
            flat = [found[0] if len(found) == 1 else np.concatenate(found) for found in chosen if found]
            return np.stack(flat) if flat else np.zeros((len(chosen), sum(widths)))
        table = np.zeros((len(chosen), sum(widths)))
        starts = np.concatenate(([0], np.cumsum(widths))).astype(int)
        for row, found in zip(table, chosen, strict=True):
            for start, width, values in zip(starts, widths, found, strict=False):
                row[start : start + min(width, len(values))] = values[:width]
        return table

    def leaks(self, alpha: float = 0.05) -> tuple["Leak", ...]:
        """Return a leak for each canary whose runs released different numbers of values; ``alpha`` is shared equally.

        All runs count, of both splits. The numbers are those of inspected values and, where ``sizes`` are known, those
        of all values: where both differ, there are two leaks. Over all of them, numbers that do not depend on the
        canary are said to do so with probability at most ``alpha``.
        """
        found = []
        for canary in self.canaries:
            counts = {"inspected values": _length_counts(self._counts(self.lengths, canary))}
            if self.sizes is not None:
                counts["values"] = _length_counts(self._counts(self.sizes, canary))
            ragged = {what: each for what, each in counts.items() if len(each) > 1}
            share = alpha / len(self.canaries) / max(1, len(ragged))
            found += [Leak(canary, each, share, what) for what, each in ragged.items()]
        return tuple(found)

    @cached_property
    def _tables(self) -> dict[tuple[str, Hypothesis, Split, tuple[int, ...]], NDArray[np.float64]]:
        return {}

    @cached_property
    def _planned(self) -> Counter[tuple[str, Hypothesis, Split]]:
        return Counter((trial.canary, trial.hypothesis, trial.split) for trial in self.trials)

    @cached_property
    def _pairs(self) -> tuple[tuple[Trial, Observation | None], ...]:
        return tuple(zip(self.trials, self.observations, strict=True))

    def _selected(self, canary: str, hypothesis: Hypothesis, split: Split) -> list[tuple[Trial, Observation]]:
        return self._groups.get((canary, hypothesis, split), [])

    @cached_property
    def _groups(self) -> dict[tuple[str, Hypothesis, Split], list[tuple[Trial, Observation]]]:
        """Return the runs that were not lost by what they are for, in one pass over all of them."""
        groups: dict[tuple[str, Hypothesis, Split], list[tuple[Trial, Observation]]] = {}
        for trial, found in self._pairs:
            if found is not None:
                groups.setdefault((trial.canary, trial.hypothesis, trial.split), []).append((trial, found))
        return groups

    def _counts(self, lengths: Sequence[tuple[int, ...] | None], canary: str) -> "Counts":
        rows = zip(self.trials, self.observations, lengths, strict=True)
        return Counter(
            (trial.hypothesis, each)
            for trial, found, each in rows
            if trial.canary == canary and found is not None and each is not None
        )

    @cached_property
    def _shapes(self) -> dict[str, set[tuple[int, ...]]]:
        return {canary: {each for _, each in self._counts(self.lengths, canary)} for canary in self.canaries}

    def widths(self, canary: str) -> tuple[int, ...]:
        """Return how many values each round of this canary's runs released, at most."""
        shapes = self._shapes.get(canary, set())
        rounds = max(map(len, shapes), default=0)
        return tuple(max(lengths[t] for lengths in shapes if len(lengths) > t) for t in range(rounds))


Counts = Counter[tuple[Hypothesis, tuple[int, ...]]]


def _length_counts(counts: Counts) -> tuple["LengthCount", ...]:
    return tuple(
        LengthCount(lengths, counts[Hypothesis.ABSENT, lengths], counts[Hypothesis.ELIGIBLE, lengths])
        for lengths in sorted({lengths for _, lengths in counts})
    )


@dataclass(frozen=True, slots=True)
class LengthCount:
    """How many runs released these numbers of values, one number a round."""

    lengths: tuple[int, ...]
    absent: int
    eligible: int


@dataclass(frozen=True)
class Leak:
    """Runs of one canary released different numbers of values.

    Noise on the values does not hide how many there are. Whether the numbers depend on the canary is asked by exact
    tests (Fisher's, two-sided, as twice the smaller tail): each length against all others, and each total against
    smaller ones, with Bonferroni's correction. Given how often each length occurs, all of it holds at any size.

    Args:
        canary: The canary's name.
        counts: The runs by their lengths.
        alpha: The level of the test, for this canary.
        what: What was counted: ``inspected values``, or all ``values``.
    """

    canary: str
    counts: tuple[LengthCount, ...]
    alpha: float
    what: str = "values"

    @cached_property
    def p_value(self) -> float:
        """Return an exact p-value of "lengths do not depend on the canary"."""
        from scipy.stats import hypergeom

        absent = np.array([count.absent for count in self.counts], dtype=np.int64)
        eligible = np.array([count.eligible for count in self.counts], dtype=np.int64)
        total, place = np.unique([sum(count.lengths) for count in self.counts], return_inverse=True)
        smaller = np.cumsum([np.bincount(place, weights=each)[: len(total)] for each in (absent, eligible)], axis=1)
        cuts = np.concatenate((np.stack((absent, eligible)), smaller[:, :-1].astype(np.int64)), axis=1)
        if len(self.counts) == 2:  # noqa: PLR2004, all cuts are the same one
            cuts = cuts[:, :1]
        runs, planted = int(absent.sum() + eligible.sum()), int(eligible.sum())
        law = hypergeom(runs, cuts.sum(axis=0), planted)
        tails = np.minimum(law.cdf(cuts[1]), law.sf(cuts[1] - 1))
        return float(min(1.0, 2 * cuts.shape[1] * tails.min()))

    @property
    def depends_on_canary(self) -> bool:
        """Return whether the exact test shows, at its level, that the lengths depend on the canary."""
        return self.p_value <= self.alpha

    @property
    def is_certain(self) -> bool:
        """Return whether the lengths depend on the canary and no length occurred both with it and without."""
        return self.depends_on_canary and not any(count.absent and count.eligible for count in self.counts)

    @property
    def statement(self) -> str:
        """Return what the lengths show, in a sentence or two."""
        test = f"exact test, p = {self.p_value:.2g}, level {self.alpha:.2g}"
        if self.is_certain:
            return (
                f"The number of {self.what} released gives canary {self.canary!r} away, whatever the noise: "
                f"{self._seen}; no number occurred under both ({test}). Release the same positions in every run."
            )
        if self.depends_on_canary:
            return (
                f"The number of {self.what} released depends on canary {self.canary!r}, whatever the noise: "
                f"{self._seen} ({test}). Release the same positions in every run."
            )
        return (
            f"The number of {self.what} released differs from run to run, so it depends on the data: "
            f"{self._seen}. These runs do not show that it depends on canary {self.canary!r} ({test})."
        )

    @property
    def assumption(self) -> str:
        """Return what the test assumes."""
        return "Runs are independent, and which runs plant the canary was decided at random."

    @property
    def _seen(self) -> str:
        return (
            f"absent runs released {_described([(c.lengths, c.absent) for c in self.counts])}, "
            f"eligible runs {_described([(c.lengths, c.eligible) for c in self.counts])}"
        )


def _described(counts: list[tuple[tuple[int, ...], int]]) -> str:
    common = sorted((count for count in counts if count[1]), key=lambda count: -count[1])
    shown = [f"{'+'.join(map(str, lengths)) or 'no'} values ({runs:,} runs)" for lengths, runs in common[:SHOWN]]
    others = f", {len(common) - SHOWN:,} other numbers" if len(common) > SHOWN else ""
    return f"{', '.join(shown)}{others}" if shown else "nothing"


def _rounds(given: Any, run: int) -> Observation | None:
    """Return an observation as one float64 vector a round; a plain vector, and a single number, is one round."""
    if given is None:
        return None
    rounds = given if isinstance(given, tuple) else _split(given, run)
    return tuple(values if _is_vector(values) else _vector(values, run) for values in rounds)


def _is_vector(values: Any) -> bool:
    return type(values) is np.ndarray and values.ndim == 1 and values.dtype == np.float64


def _split(given: Any, run: int) -> Sequence[Any]:
    if isinstance(given, list) and given and not np.isscalar(given[0]) and np.ndim(given[0]) > 0:
        return given
    values = np.asarray(given)
    if values.ndim > 2:  # noqa: PLR2004, rounds and values
        raise InputError(f"Run {run} has shape {values.shape}; a run is one vector, or one vector a round.")
    return list(values) if values.ndim == 2 else [np.atleast_1d(values)]  # noqa: PLR2004


def _vector(values: Any, run: int) -> NDArray[np.float64]:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Run {run} released something that is not a number ({error}); release numbers.") from error
    if vector.ndim != 1:
        raise InputError(f"A round of run {run} has shape {vector.shape}; it must be one vector of numbers.")
    return vector


def _check_finite(trials: Sequence[Trial], observations: Sequence[Observation | None]) -> None:
    # All at once is many times as fast as one by one; which run it is matters only where one is found.
    pieces = [values for found in observations if found is not None for values in found]
    if not pieces or np.isfinite(np.concatenate(pieces)).all():
        return
    bad = next(
        trial.run
        for trial, found in zip(trials, observations, strict=True)
        if found is not None and not all(np.isfinite(values).all() for values in found)
    )
    raise InputError(f"Run {bad} released NaN or an infinite value; fix the system, or report the run as lost (None).")
