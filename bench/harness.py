"""Time the literal way and ours in one process, and say the ratio."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

__all__ = ["Result", "measure", "ratio", "table"]

PASS_SHARE = 0.8


@dataclass(frozen=True)
class Result:
    """One line of the benchmark: how many times as fast as the baseline, beside what was promised."""

    work: str
    size: str
    baseline_seconds: float
    our_seconds: float
    ratio: float
    target: float
    note: str = ""
    strict: bool = False
    unit: str = "s"

    @property
    def met(self) -> bool:
        """Say whether at least 80% of the target was reached, or all of a strict one; below, `make bench` fails."""
        return self.ratio >= (1.0 if self.strict else PASS_SHARE) * self.target

    def as_dict(self) -> dict[str, object]:
        """Return the line as JSON-ready values."""
        return asdict(self) | {"met": self.met}


def measure(work: Callable[[], object], *, repeats: int = 5, warm: bool = True) -> float:
    """Return the median wall time of some work in seconds."""
    if warm:
        work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def ratio(
    work: str,
    size: str,
    baseline: float,
    ours: float,
    target: float,
    note: str = "",
    *,
    strict: bool = False,
    unit: str = "s",
) -> Result:
    """Build the line for a baseline and our own time, both in seconds (or another unit) for the same work."""
    return Result(work, size, baseline, ours, baseline / ours, target, note, strict, unit)


def table(results: list[Result]) -> str:
    """Return the lines as an aligned table."""
    rows = [("work", "size", "baseline", "ours", "ratio", "target", "")]
    rows += [
        (
            r.work,
            r.size,
            f"{r.baseline_seconds:.4g} {r.unit}",
            f"{r.our_seconds:.4g} {r.unit}",
            f"{r.ratio:,.2f}x",
            f"{r.target:g}x",
            ("ok" if r.met else "MISSED") + (f"  {r.note}" if r.note else ""),
        )
        for r in results
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(7)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
