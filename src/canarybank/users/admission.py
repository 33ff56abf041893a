"""Decide which users take part, and with which of their records."""

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from canarybank.errors import ColumnError, DataError, InputError
from canarybank.progress import SILENT, Progress
from canarybank.users.chosen import Chosen, rank
from canarybank.users.records import Users
from canarybank.users.report import AdmissionReport, Drop
from canarybank.users.rows import Fault, Row, Skip, same_text
from canarybank.users.sources import Source, source

__all__ = [
    "ADMISSIONS",
    "Admission",
    "Admitted",
    "Census",
    "admit",
    "choose_records",
    "draw_lots",
    "find_drops",
    "judge_rows",
    "kept_users",
    "nobody_admitted",
    "require_label_column",
    "rule_for",
]

_LABELS_LISTED = 8
_LABELS_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is admitted: users with ``minimum`` to ``maximum`` usable records, each then cut to ``cap`` by seed.

    A record is usable when it has at least ``minimum_words`` words and, where ``labels`` are given, one of
    them. ``users`` bounds how many users are admitted, by seed. Minimum and maximum count usable records before
    the cap, so a minimum equal to the cap leaves every user with exactly that many.
    """

    minimum: int = 1
    maximum: int | None = None
    cap: int = 64
    minimum_words: int = 1
    labels: frozenset[str] | None = None
    users: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("minimum", "cap", "minimum_words", "users"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"An admission's {name} must be at least 1, not {value}.")
        if self.maximum is not None and self.maximum < self.minimum:
            raise InputError(f"No user can have at least {self.minimum} and at most {self.maximum} records.")
        if self.labels is not None:
            object.__setattr__(self, "labels", frozenset(self.labels))
            if not self.labels:
                raise InputError("An empty set of labels admits nobody; name labels, or None for all.")

    def fault(self, row: Row) -> Fault | None:
        """Return why a row is not a usable record, if it is not."""
        words = self.minimum_words
        if words > 1 and len(row.text.split(None, words - 1)) < words:
            return Fault.WORDS
        if self.labels is not None and row.label not in self.labels:
            return Fault.LABEL
        return None

    def drop(self, records: int) -> Drop | None:
        """Return why a user with this many usable records is not admitted, if they are not."""
        if records < self.minimum:
            return Drop.FEW
        if self.maximum is not None and records > self.maximum:
            return Drop.MANY
        return None


ADMISSIONS: Mapping[str, Admission] = MappingProxyType(
    {
        "yelp": Admission(minimum=64, cap=64),
        "sentiment140": Admission(minimum=32, cap=64),
        "chitchat": Admission(minimum=32, cap=64, minimum_words=4),
    }
)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The users who take part, and the count of all that was read."""

    users: Users
    report: AdmissionReport


def admit(
    users: Source | str | Path,
    admission: Admission | None = None,
    *,
    progress: Progress = SILENT,
) -> Admitted:
    """Read a source twice, in bounded memory: count every user's records, then keep those of the admitted.

    Without an admission the format's own holds: the paper's for ``yelp`` and ``sentiment140``. Users come
    sorted by id and their records by rank, so the outcome does not depend on the order of the file's rows.
    Memory holds the id of every user and at most ``cap`` texts of each admitted one. That nobody is admitted is an
    error, unless the source is isolated.

    Args:
        users: The source, or the path of a file, or ``chitchat`` for the built-in users.
        admission: Who is admitted; left out, the format's own rule.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.users import Admission
        >>> found = admit("my-users.csv", Admission(minimum=2, cap=4))
        >>> len(found.users), found.report.rows, found.report.records, found.report.records_capped
        (24, 144, 96, 48)
    """
    given = users if isinstance(users, Source) else source(users)
    rule = admission or ADMISSIONS.get(given.format.name, Admission())
    rule = rule_for(given, rule)
    census = Census.take(judge_rows(given.rows(progress, "count users of"), rule))
    drops = find_drops(census.counts, rule)
    if rule.users is not None:
        lots = draw_lots((name for name in census.counts if name not in drops), rule.seed)
        drops |= dict.fromkeys(lots[rule.users :], Drop.UNDRAWN)
    kept = {name: Chosen(rule.cap) for name in census.counts if name not in drops}
    if not kept and not given.isolated:
        most = max(census.counts.values(), default=0)
        raise nobody_admitted(
            given, rule, census.rows, len(census.counts), most, Counter(drops.values()), census.skipped
        )
    rows = choose_records(
        judge_rows(given.rows(progress, "choose records of"), rule), kept, rule.seed, isolated=given.isolated
    )
    if rows != census.rows or any(chosen.seen != census.counts[name] for name, chosen in kept.items()):
        raise DataError(f"{given.path} changed while it was read; read it again when nothing writes to it.")
    return _admitted(kept, census, drops, rule, labelled=given.labelled)


def rule_for(given: Source, rule: Admission) -> Admission:
    """Return an admission as it holds for a source; refuse one by labels where the source has none."""
    require_label_column(given, rule)
    if given.isolated and rule.labels is not None:
        return replace(rule, labels=frozenset(same_text(label) or "" for label in rule.labels))
    return rule


def require_label_column(given: Source, rule: Admission) -> None:
    """Refuse an admission by labels where no column is named as the label."""
    if rule.labels is not None and not given.labelled:
        raise InputError(
            f"Labels {sorted(rule.labels)} are asked for, but no column of {given.path} is named as the label."
        )


@dataclass(slots=True)
class Census:
    """What the first reading counts."""

    rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    skipped: Counter[Fault] = field(default_factory=Counter)
    first_lines: dict[Fault, int] = field(default_factory=dict)

    @classmethod
    def take(cls, rows: Iterable[Row | Skip]) -> "Census":
        """Count rows, users and reasons to skip."""
        census = cls()
        counts = census.counts
        for row in rows:
            census.rows += 1
            if type(row) is Row:
                counts[row.user] = counts.get(row.user, 0) + 1
            else:
                census.skip(row)  # type: ignore[arg-type]
        return census

    def skip(self, row: Skip) -> None:
        """Count a row that cannot be used."""
        self.skipped[row.fault] += 1
        self.first_lines.setdefault(row.fault, row.line)
        if row.user is not None:
            self.counts.setdefault(row.user, 0)


def judge_rows(rows: Iterator[Row | Skip], rule: Admission) -> Iterator[Row | Skip]:
    """Turn rows that are not usable records into skips."""
    if rule.minimum_words == 1 and rule.labels is None:
        return rows
    return (
        Skip(row.line, fault, row.user) if isinstance(row, Row) and (fault := rule.fault(row)) else row for row in rows
    )


def find_drops(counts: Mapping[str, int], rule: Admission) -> dict[str, Drop]:
    """Return who has too few or too many usable records, and which of the two."""
    return {name: drop for name, count in counts.items() if (drop := rule.drop(count))}


def draw_lots(names: Iterable[str], seed: int) -> list[str]:
    """Return users in the order in which they are drawn, where only so many are admitted."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}\0admit\0{name}".encode()).digest())


def choose_records(rows: Iterable[Row | Skip], kept: Mapping[str, Chosen], seed: int, *, isolated: bool) -> int:
    """Offer each row to its user; when isolated, by its text alone, because ids and labels can be spelled in ways."""
    number = 0
    for row in rows:
        number += 1
        if type(row) is Row and (chosen := kept.get(row.user)) is not None:
            label = None if row.label is None else sys.intern(row.label)
            place = rank(seed, "", row.text, None) if isolated else rank(seed, row.user, row.text, label)
            chosen.add(place, row.text, label)
    return number


def kept_users(kept: Mapping[str, Chosen], *, labelled: bool) -> Users:
    """Return users sorted by id, each with the records that were chosen."""
    ids = sorted(kept)
    records = [kept[name].records() for name in ids]
    return Users(
        ids=tuple(ids),
        owners=np.repeat(np.arange(len(ids)), [len(own) for own in records]),
        texts=tuple(text for own in records for text, _ in own),
        labels=tuple(label or "" for own in records for _, label in own) if labelled else None,
    )


def _admitted(
    kept: Mapping[str, Chosen], census: Census, drops: Mapping[str, Drop], rule: Admission, *, labelled: bool
) -> Admitted:
    users = kept_users(kept, labelled=labelled)
    sizes = users.counts.tolist()
    report = AdmissionReport(
        rows=census.rows,
        skipped=dict(census.skipped),
        first_lines=census.first_lines,
        users=len(census.counts),
        admitted=len(users),
        dropped=dict(Counter(drops.values())),
        records=sum(sizes),
        records_capped=sum(kept[name].seen for name in users.ids) - sum(sizes),
        records_dropped=sum(census.counts[name] for name in drops),
        full=sizes.count(rule.cap),
    )
    return Admitted(users, report)


def nobody_admitted(
    given: Source,
    rule: Admission,
    rows: int,
    users: int,
    most: int,
    dropped: Mapping[Drop, int],
    skipped: Mapping[Fault, int],
) -> DataError:
    """Return the error that nobody is admitted, of so many users in so many rows, the largest with ``most`` records."""
    reasons = [f"{dropped[drop]:,} had {drop}" for drop in sorted(dropped, key=lambda each: (-dropped[each], each))]
    skips = [
        f"{skipped[fault]:,} rows with {fault}" for fault in sorted(skipped, key=lambda each: (-skipped[each], each))
    ]
    found = (
        f"No user of {given.path} is admitted: of {users:,} users in {rows:,} rows, "
        f"{', '.join(reasons) or 'none had a usable record'}"
        f"{'; skipped ' + ', '.join(skips) if skips else ''}. "
    )
    if rule.labels is not None and Fault.LABEL in skipped and not most:
        return DataError(found + _other_labels(given, rule))
    why = _first_malformed(given) if Fault.MALFORMED in skipped and not most else None
    if isinstance(why, ColumnError):
        return ColumnError(f"{found}{why.what}", why.args[1])
    if why is not None:
        return DataError(f"{found}{why}")
    return DataError(
        f"{found}The largest has {most:,} usable records, and the minimum is {rule.minimum:,}; "
        f"lower the minimum or read a larger file."
    )


def _other_labels(given: Source, rule: Admission) -> str:
    """Say which labels there are where none that was asked for is, by reading the records again without the choice."""
    counts: Counter[str] = Counter()
    for row in judge_rows(given.rows(), replace(rule, labels=None)):
        if isinstance(row, Row) and row.label is not None and (row.label in counts or len(counts) < _LABELS_COUNTED):
            counts[row.label] += 1
    listed = ", ".join(f"{label!r} ({count:,} rows)" for label, count in counts.most_common(_LABELS_LISTED))
    more = " and others" if len(counts) > _LABELS_LISTED else ""
    return (
        f"No usable record has a label of {sorted(rule.labels or ())}; the labels that exist are {listed}{more}. Ask "
        "for labels exactly as they are written there, or for none, by users.labels."
    )


def _first_malformed(given: Source) -> DataError | None:
    """Return what is wrong with the first malformed line, by reading up to it again, strictly."""
    try:
        for _ in replace(given, strict=True).rows():
            pass
    except DataError as error:
        return error
    return None
