"""Count all that admission read, so that nothing is lost silently."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from canarybank.users.rows import Fault

__all__ = ["AdmissionReport", "Drop"]


class Drop(StrEnum):
    """Why a user is not admitted."""

    FEW = "fewer usable records than the minimum"
    MANY = "more usable records than the maximum"
    UNDRAWN = "not drawn among the users asked for"


@dataclass(frozen=True, slots=True)
class AdmissionReport:
    """Every row and every user that was read, counted once.

    ``rows`` is the sum of ``skipped`` and of the records that were kept, fell to the cap, or belong to users who
    were dropped; ``users`` is the sum of ``admitted`` and ``dropped``. ``first_lines`` says where each reason to
    skip a row first occurred. ``full`` counts users who have as many records as the cap: canaries come from them.
    """

    rows: int
    skipped: Mapping[Fault, int]
    first_lines: Mapping[Fault, int]
    users: int
    admitted: int
    dropped: Mapping[Drop, int]
    records: int
    records_capped: int
    records_dropped: int
    full: int

    def table(self) -> list[tuple[str, int, str]]:
        """Return the counts as lines of what, how many, and a remark."""
        skips = [
            (f"  skipped: {fault}", self.skipped[fault], f"first at line {self.first_lines[fault]:,}")
            for fault in Fault
            if fault in self.skipped
        ]
        drops = [(f"  dropped: {drop}", self.dropped[drop], "") for drop in Drop if drop in self.dropped]
        return [
            ("rows read", self.rows, ""),
            *skips,
            ("  of users who were dropped", self.records_dropped, ""),
            ("  beyond the cap", self.records_capped, ""),
            ("  kept as records", self.records, ""),
            ("users seen", self.users, ""),
            *drops,
            ("  admitted", self.admitted, f"{self.full:,} with as many records as the cap"),
        ]

    def as_dict(self) -> dict[str, object]:
        """Return the counts as JSON-ready values."""
        return {
            "rows": self.rows,
            "skipped": {fault.name.lower(): count for fault, count in self.skipped.items()},
            "first_lines": {fault.name.lower(): line for fault, line in self.first_lines.items()},
            "users": self.users,
            "admitted": self.admitted,
            "dropped": {drop.name.lower(): count for drop, count in self.dropped.items()},
            "records": self.records,
            "records_capped": self.records_capped,
            "records_dropped": self.records_dropped,
            "full": self.full,
        }

    def __str__(self) -> str:
        lines = [(what, f"{count:,}", remark) for what, count, remark in self.table()]
        first, second = (max(len(line[i]) for line in lines) for i in (0, 1))
        return "\n".join(f"{a:<{first}}  {b:>{second}}  {c}".rstrip() for a, b, c in lines)
