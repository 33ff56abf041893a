"""Check rows of releases, whatever file they come from, and take the inspected values out of them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError

__all__ = [
    "ARRAYS",
    "LARGEST_NUMBER",
    "LONG",
    "VERSION",
    "WHOLE",
    "Part",
    "Wanted",
    "columns_of",
    "long_part",
    "whole_part",
]

VERSION: Final = 1
"""The version of the formats; a table may state it in a column ``version``."""
KNOWN: Final = ("run", "round", "label", "position", "value", "release", "version")
LARGEST_NUMBER: Final = 2**31 - 1
UN_NOISED: Final = frozenset(
    ("clean raw count counts true truth exact original noise noiseless seed vote votes unclipped nonprivate").split()  # noqa: SIM905
)
UN_NOISED_PARTS: Final = ("unnois", "nonois", "noisefree", "withoutnois", "beforenois", "prenois", "unperturb")

Whole = NDArray[np.int64]
Where = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Part:
    """The inspected values among some rows, and how many values each run and round has in these rows."""

    run: Whole
    round: Whole
    slot: Whole
    value: NDArray[np.float64]
    sized_run: Whole
    sized_round: Whole
    size: Whole


@dataclass
class Wanted:
    """Which (label, position) pairs are inspected, in which order; it also notes what the files hold besides."""

    positions: tuple[tuple[str, int], ...]
    unfinished: bool = False
    is_one_run: bool = False
    """Whether all rows are of one run, so that they need not name it."""
    labels_found: set[str] = field(default_factory=set)
    ignored_columns: set[str] = field(default_factory=set)
    form: str | None = None
    longest: int = 0

    def __post_init__(self) -> None:
        labels = list(dict.fromkeys(label for label, _ in self.positions))
        self.codes = {label: code for code, label in enumerate(labels)}
        self.labelled = labels != [""]
        pairs = np.array([(self.codes[label], position) for label, position in self.positions], dtype=np.int64)
        keys = pairs[:, 0] * (LARGEST_NUMBER + 1) + pairs[:, 1]
        self._order = np.argsort(keys)
        self._keys = keys[self._order]
        self._by_label = {
            label: (pairs[pairs[:, 0] == code, 1], np.flatnonzero(pairs[:, 0] == code))
            for label, code in self.codes.items()
        }

    @property
    def remedy(self) -> str:
        """Say what to do about a value that is no number."""
        if self.is_one_run:
            return "write the number that was released: one run cannot lose a part of itself"
        return "write a number, or leave the whole run out: it then counts as lost"

    def slots(self, codes: Whole, positions: Whole) -> Whole:
        """Return the place of each (label code, position) among the inspected ones, and -1 for others."""
        keys = codes * (LARGEST_NUMBER + 1) + positions
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where((self._keys[place] == keys) & (codes >= 0), self._order[place], -1)

    def pick(self, label: str, values: NDArray[np.float64]) -> tuple[Whole, NDArray[np.float64]]:
        """Return the slots and values of the inspected positions of one whole histogram, as far as it reaches."""
        self.longest = max(self.longest, len(values))
        positions, slots = self._by_label.get(label, self._by_label.get("", _NOTHING))
        there = positions < len(values)
        return slots[there], values[positions[there]]

    def code(self, label: str | None, where: str) -> int:
        """Return the code of a row's label, -1 for one that is not inspected, and refuse a label that cannot be."""
        if label and label not in self.codes and _looks_un_noised(label):
            raise _un_noised(where, f"the label {label!r}")
        if not self.labelled:
            self.labels_found.add(label or "")
            if len(self.labels_found) > 1:
                one, other = sorted(self.labels_found)[:2]
                raise InputError(
                    f"{where} has the label {label or ''!r}, and the inspected positions name no labels, so it is not "
                    f"known which of {one!r} and {other!r} is meant; give positions as (label, position) pairs."
                )
            return 0
        if not label:
            raise InputError(
                f"{where} has no label, and the inspected positions have labels ({', '.join(self.codes)}); "
                "write the label of each value."
            )
        self.labels_found.add(label)
        return self.codes.get(label, -1)

    def note_form(self, form: str, where: str) -> None:
        """Refuse files of different forms."""
        if self.form not in {None, form}:
            raise InputError(f"{where} holds {form}, and others hold {self.form}; write all releases in one form.")
        self.form = form


_NOTHING = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
LONG = "one value a row (columns position and value)"
WHOLE = "one histogram a row (column release)"
ARRAYS = "one array a file"


def columns_of(names: Sequence[str], path: Path, wanted: Wanted) -> tuple[str, dict[str, str]]:
    """Return the form of a table and its columns by their plain names, or say what is wrong with its columns."""
    plain: dict[str, str] = {}
    for name in names:
        known = name.strip().lower()
        if known in plain:
            raise InputError(f"{path} has two columns {known!r}; leave one of them.")
        if known in KNOWN:
            plain[known] = name
        elif _looks_un_noised(name):
            raise _un_noised(str(path), f"the column {name!r}")
        else:
            wanted.ignored_columns.add(name)
    listed = ", ".join(names) or "none"
    if "run" not in plain and not wanted.is_one_run:
        raise InputError(
            f"{path} has no column 'run' (its columns: {listed}); write the columns run, position, value, separated by "
            "commas in CSV, with the run's number from the schedule."
        )
    if "release" in plain and ("position" in plain or "value" in plain):
        raise InputError(
            f"{path} mixes two forms: a column 'release' holds whole histograms, 'position' and 'value' single values; "
            "leave out one or the other."
        )
    if missing := [name for name in ("position", "value") if name not in plain and "release" not in plain]:
        raise InputError(
            f"{path} has no column {missing[0]!r} (its columns: {listed}); write one value a row with the columns run, "
            "position, value, or whole histograms in a column 'release' of JSON lines or Parquet."
        )
    form = WHOLE if "release" in plain else LONG
    wanted.note_form(form, str(path))
    return form, plain


def _looks_un_noised(name: str) -> bool:
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    joined = "".join(words)
    if any(part in joined for part in UN_NOISED_PARTS):
        return True
    return bool(UN_NOISED.intersection(words)) and not {"noisy", "noised"}.intersection(words)


def _un_noised(where: str, what: str) -> InputError:
    return InputError(
        f"{where} has {what}, which looks like values before noise, or like what removes it. Un-noised values must not "
        "leave the system: who has them needs no attack, and an audit would say nothing. Remove it, write the releases "
        "again, and treat this file as private. If it is something else, rename it."
    )


def long_part(
    columns: dict[str, NDArray[np.float64]],
    codes: Whole | None,
    wanted: Wanted,
    where: Where,
    shown: Callable[..., str],
) -> Part:
    """Check rows of one value each and return their inspected values; numbers that were not readable are NaN."""
    value = columns["value"]
    numbers = {name: given for name, given in columns.items() if name != "value"}
    whole = _whole_columns(numbers, len(value), where, shown)
    if (bad := np.flatnonzero(~np.isfinite(value))).size:
        raise InputError(
            f"{where(bad[0])} has the value {shown('value', bad[0])}, which is not a finite number; {wanted.remedy}."
        )
    run, rounds = whole["run"], whole["round"]
    slot = wanted.slots(np.zeros(len(value), dtype=np.int64) if codes is None else codes, whole["position"])
    starts = np.flatnonzero(np.concatenate(([True], (np.diff(run) != 0) | (np.diff(rounds) != 0))[: len(run)]))
    size = np.diff(np.concatenate((starts, [len(run)])))
    kept = slot >= 0
    return Part(run[kept], rounds[kept], slot[kept], value[kept], run[starts], rounds[starts], size)


def _whole_columns(
    columns: dict[str, NDArray[np.float64]], rows: int, where: Where, shown: Callable[..., str]
) -> dict[str, Whole]:
    """Return columns as whole numbers, with run and round 1 where there are none; refuse rows of another version."""
    ones = np.ones(rows, dtype=np.int64)
    whole = {"run": ones, "round": ones}
    whole |= {name: _whole_numbers(name, given, where, shown) for name, given in columns.items()}
    found = whole.get("version", np.empty(0))
    if (bad := np.flatnonzero(found != VERSION)).size:
        raise InputError(
            f"{where(bad[0])} is of version {found[bad[0]]}, and this canarybank reads version {VERSION}; upgrade it, "
            f"or write version {VERSION}."
        )
    return whole


def _whole_numbers(name: str, given: NDArray[np.float64], where: Where, shown: Callable[..., str]) -> Whole:
    """Return a column as whole numbers, or say which row holds none."""
    least = 0 if name == "position" else 1
    with np.errstate(invalid="ignore"):
        good = (given >= least) & (given <= LARGEST_NUMBER) & (given == np.floor(given))
    if (bad := np.flatnonzero(~good)).size:
        counted = "Positions count from 0." if name == "position" else f"{name.capitalize()}s count from 1."
        raise InputError(
            f"{where(bad[0])} has the {name} {shown(name, bad[0])}; it must be a whole number of at least {least}. "
            f"{counted if name != 'version' else 'Leave the column out, or write 1.'}"
        )
    return given.astype(np.int64)


def whole_part(
    columns: dict[str, NDArray[np.float64]],
    labels: Sequence[str | None],
    histograms: Sequence[NDArray[np.float64]],
    wanted: Wanted,
    where: Where,
    shown: Callable[..., str] = repr,
) -> Part:
    """Check rows of one whole histogram each and return their inspected values; columns are runs, rounds, versions."""
    whole, slots, values = _whole_columns(columns, len(histograms), where, shown), [], []
    codes: dict[str | None, int] = {}
    for place, (label, histogram) in enumerate(zip(labels, histograms, strict=True)):
        if not np.isfinite(histogram).all():
            bad = int(np.flatnonzero(~np.isfinite(histogram))[0])
            raise InputError(
                f"{where(place)} has the value {histogram[bad]} at position {bad}, which is not a finite number; "
                f"{wanted.remedy}."
            )
        if label not in codes:
            codes[label] = wanted.code(label, where(place))
        slot, value = wanted.pick(label or "", histogram) if codes[label] >= 0 else (_NOTHING[0], np.empty(0))
        slots.append(slot)
        values.append(value)
    often = np.array([len(slot) for slot in slots], dtype=np.int64)
    return Part(
        whole["run"].repeat(often),
        whole["round"].repeat(often),
        np.concatenate([_NOTHING[0], *slots]),
        np.concatenate([np.empty(0), *values]),
        whole["run"],
        whole["round"],
        np.array([len(histogram) for histogram in histograms], dtype=np.int64),
    )
