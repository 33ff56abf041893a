"""Audit DPSDA's Private Evolution without changing it: a tap on a `pe.runner.PE` object records what it releases.

**Where the release is.** In each iteration and for each label `PE.run` computes the clean histogram, hands it to
its `DP` object, and gives the result to the population. All that comes later (threshold, selection, variations) is a
function of the noisy histogram and of public randomness, so the claimed epsilon is that of the noisy histograms: the
column ``PE.DP_HISTOGRAM``, after the noise and before the threshold. The tap stands there. It never reads the clean
histogram.

**Two ways.** ``system`` is audited from Python by ``audit_system``; ``record`` makes the releases of a plant that
`canarybank design` wrote. Both take a function of yours, ``make_pe(rows)``: it returns a fresh `PE` whose private data
holds these rows of a canary too, and none where the list is empty. See docs/dpsda.md.

Written for microsoft/DPSDA at 9078c67. Nothing of it is imported here: the tap uses the object that it is given.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from canarybank.errors import InputError
from canarybank.mechanism import Claim, Mechanism
from canarybank.mechanism.accounting import epsilon as exact_epsilon
from canarybank.systems.trials import Hypothesis, Observation, Trial

__all__ = ["LabelHistogram", "PESystem", "Tap", "claim", "read_probes", "record", "system", "tap"]

NOISY = "PE.DP_HISTOGRAM"
LABEL = "PE.LABEL_ID"
EMBEDDING = "PE.LOOKAHEAD_EMBEDDING"

MakePE = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class LabelHistogram:
    """One noisy histogram, as `PE` passes it on: that of one label in one iteration."""

    iteration: int
    """The iteration, from 1."""
    label: int
    """The label's id."""
    name: str
    """The label's name, as the private data gives it; empty where it gives none."""
    votes: NDArray[np.float64]
    """The noisy votes, one for each synthetic sample of the label."""
    bank: NDArray[np.float64]
    """The vectors that the votes are for, one a row: what a private sample is compared with."""


class Tap:
    """The `DP` object of a `PE`, with a record of what passes; `tap` makes one."""

    def __init__(self, dp: Any) -> None:
        self._dp = dp
        self.histograms: list[LabelHistogram] = []
        """What was released since the last run began, in order."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dp, name)

    def set_epsilon_and_delta(self, *args: Any, **kwargs: Any) -> Any:
        """Pass the budget on; `PE.run` begins with it, so the record begins anew."""
        self.histograms = []
        return self._dp.set_epsilon_and_delta(*args, **kwargs)

    def add_noise(self, syn_data: Any) -> Any:
        """Let the noise be added, record the result, and pass it on as it is."""
        noisy = self._dp.add_noise(syn_data=syn_data)
        frame = noisy.data_frame
        if missing := [name for name in (NOISY, LABEL, EMBEDDING) if name not in frame.columns]:
            raise InputError(
                f"The synthetic data after the noise has no column {missing[0]!r}; the tap is written for DPSDA's own "
                "histogram and DP classes."
            )
        label = int(frame[LABEL].iloc[0])
        self.histograms.append(
            LabelHistogram(
                iteration=int(noisy.metadata.iteration) + 1,
                label=label,
                name=str(noisy.metadata.label_info[label].get("name", "")),
                votes=frame[NOISY].to_numpy(dtype=np.float64, copy=True),
                bank=np.array([np.asarray(vector, dtype=np.float64) for vector in frame[EMBEDDING]]),
            )
        )
        return noisy

    def observation(self) -> tuple[NDArray[np.float64], ...]:
        """Return the last run's release: one vector an iteration, labels joined in their order."""
        iterations = sorted({histogram.iteration for histogram in self.histograms})
        return tuple(np.concatenate([h.votes for h in self._of(iteration)]) for iteration in iterations)

    def banks(self, iteration: int = 1) -> Mapping[int, NDArray[np.float64]]:
        """Return the bank of each label that the votes of an iteration were for: what probes are designed against."""
        return {histogram.label: histogram.bank for histogram in self._of(iteration)}

    def _of(self, iteration: int) -> list[LabelHistogram]:
        return sorted((h for h in self.histograms if h.iteration == iteration), key=lambda h: h.label)


def tap(pe: Any) -> Tap:
    """Put a tap on an unmodified `PE` object and return it; whatever `PE` computes stays the same.

    Args:
        pe: A `pe.runner.PE`. Call its `run` as usual, then read `Tap.observation` and `Tap.banks`.
    """
    dp = getattr(pe, "_dp", None)
    if not (callable(getattr(dp, "add_noise", None)) and callable(getattr(dp, "set_epsilon_and_delta", None))):
        raise InputError(f"{type(pe).__name__!r} object is not a pe.runner.PE: it has no DP object that adds noise.")
    if isinstance(dp, Tap):
        return dp
    tapped = Tap(dp)
    pe._dp = tapped  # noqa: SLF001, PE has no other way in
    return tapped


def claim(
    num_samples_schedule: Sequence[int],
    delta: float,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    **_: Any,
) -> Claim:
    """Return what `PE.run` claims when it is called with these arguments; all its other arguments may be given too.

    It claims Gaussian noise for a sensitivity of 1 in each iteration, every user taking part: together that is one
    Gaussian release of sensitivity sqrt(T). A given epsilon fixes the noise multiplier, which is computed here by
    canarybank's own accounting.

    Example:
        >>> round(claim([100, 100, 100], 1e-5, epsilon=4.0).mechanism.sigma, 4)
        1.529
    """
    rounds = len(num_samples_schedule) - 1
    if rounds < 1 or (epsilon is None) == (noise_multiplier is None):
        raise InputError(
            "PE.run claims something where it has one iteration or more, and either an epsilon or a noise multiplier; "
            "pass the arguments that you call it with."
        )
    if epsilon is None:
        return Claim.of(_gaussian(noise_multiplier or 0.0, delta), rounds=rounds)
    one = brentq(lambda sigma: exact_epsilon(_gaussian(sigma, delta)) - epsilon, 1e-2, 1e4, xtol=1e-12, rtol=1e-13)
    return Claim(epsilon, delta, mechanism=_gaussian(float(one) * rounds**0.5, delta), rounds=rounds)


def _gaussian(sigma: float, delta: float) -> Mechanism:
    return Mechanism(k=1, clip=1.0, sigma=sigma, q=1.0, delta=delta)


@dataclass(frozen=True)
class PESystem:
    """A `PE` that is run once for each trial, with a canary's rows or without; ``system`` makes one."""

    make_pe: MakePE
    canaries: Mapping[str, Sequence[Any]]
    run: Mapping[str, Any]

    def play(self, trials: Sequence[Trial], rng: np.random.Generator) -> list[Observation | None]:
        """Run `PE.run` once for each trial and return what was released."""
        if unknown := sorted({trial.canary for trial in trials} - set(self.canaries)):
            raise InputError(
                f"There are no rows of the canary {unknown[0]!r}; there are those of {list(self.canaries)}."
            )
        return [
            self.once(self.canaries[trial.canary] if trial.hypothesis is Hypothesis.ELIGIBLE else (), rng).observation()
            for trial in trials
        ]

    def once(self, rows: Sequence[Any], rng: np.random.Generator) -> Tap:
        """Run a fresh `PE` with these rows of a canary, and return its tap."""
        with _numpy_seeded(rng):
            pe = self.make_pe(list(rows))
            tapped = tap(pe)
            pe.run(**self.run)
        return tapped


def system(make_pe: MakePE, canaries: Mapping[str, Sequence[Any]], **run: Any) -> PESystem:
    """Return a system for ``audit_system`` from your own `PE`.

    Args:
        make_pe: A function of a list of rows. It returns a fresh `PE` whose private data holds them too.
        canaries: The rows of each canary by its name, as ``make_pe`` wants them; ``audit_system`` calls one "canary".
        run: What `PE.run` is called with.
    """
    return PESystem(make_pe, dict(canaries), run)


@contextmanager
def _numpy_seeded(rng: np.random.Generator) -> Iterator[None]:
    """Draw a fresh seed for numpy's global generator, where DPSDA takes its noise from, and put it back afterwards."""
    before = np.random.get_state()  # noqa: NPY002, DPSDA uses it
    np.random.seed(rng.integers(2**32, size=8, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


def read_probes(plant: Path | str) -> dict[str, dict[int, str]]:
    """Return the probes of a plant: label -> position -> text. The label is empty where the plant has none."""
    probes: dict[str, dict[int, str]] = {}
    for row in _rows(Path(plant) / "probes.csv"):
        probes.setdefault(row["label"], {})[int(row["position"])] = row["text"]
    return probes


def record(make_pe: MakePE, plant: Path | str, releases: Path | str, *, seed: int | None = None, **run: Any) -> None:
    """Run `PE` once for each line of a plant's schedule, and write what it releases as CSV for `canarybank score`.

    Args:
        make_pe: A function of a list of rows. It returns a fresh `PE` whose private data holds them too, and whose
            synthetic data has the probes at their positions, in every iteration. A row is a dictionary with the
            ``label``, ``text`` and ``vector`` of one record of the canary.
        plant: The folder that `canarybank design` wrote.
        releases: The CSV file to write; it must not exist.
        seed: Where the seeds of runs come from; left out, from the operating system.
        run: What `PE.run` is called with.
    """
    folder, path = Path(plant), Path(releases)
    if path.exists():
        raise InputError(f"{str(path)!r} is there already; releases are recorded once, so name another file.")
    vectors = np.load(folder / "canaries.npy", allow_pickle=False)
    canaries: dict[str, list[Any]] = {"": []}
    with (folder / "canaries.jsonl").open(encoding="utf-8") as lines:
        planted = list(map(json.loads, lines))
    for row, vector in zip(planted, vectors, strict=True):
        canaries.setdefault(row["canary"], []).append(row | {"vector": vector})
    played, rng = system(make_pe, canaries, **run), np.random.default_rng(seed)
    schedule = _rows(folder / "schedule.csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "round", "label", "position", "value"])
        for each in schedule:
            tapped = played.once(canaries[each["plant"]], rng)
            writer.writerows(
                (each["run"], histogram.iteration, histogram.name, position, repr(float(value)))
                for histogram in tapped.histograms
                for position, value in enumerate(histogram.votes)
            )
            file.flush()


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
