"""Show how far long work has come, without the work knowing how it is shown.

Work asks its ``Progress`` for a stage and advances it; a terminal draws a bar, a log gets plain lines, a
library call stays silent.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TextIO

__all__ = ["SILENT", "Bars", "Lines", "Progress", "Silent", "Stage", "for_stream"]

_LINE_EVERY_SECONDS = 5.0


class Stage(Protocol):
    """One piece of long work under way."""

    def advance(self, done: int = 1, note: str = "") -> None:
        """Count more units as done, with an optional note on what the work has seen so far."""


class Progress(Protocol):
    """A display of long work."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Stage]:
        """Open a stage of that many units; leaving the context closes it."""


class Silent:
    """Show nothing: the default of every library call."""

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        """Open a stage that shows nothing."""
        del name, total, unit
        yield _SilentStage()


class _SilentStage:
    def advance(self, done: int = 1, note: str = "") -> None:
        pass


SILENT = Silent()


class Lines:
    """Write a plain line when a stage starts, every few seconds, and when it ends."""

    def __init__(self, stream: TextIO | None = None, every: float = _LINE_EVERY_SECONDS) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._every = every

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        """Open a stage shown as plain lines."""
        stage = _LineStage(self._stream, name, total, unit, self._every)
        stage.write("started")
        yield stage
        stage.write(f"done in {time.monotonic() - stage.began:.1f} s")


class _LineStage:
    def __init__(self, stream: TextIO, name: str, total: int | None, unit: str, every: float) -> None:
        self._stream, self._name, self._total, self._unit, self._every = stream, name, total, unit, every
        self.began = self._last = time.monotonic()
        self._done = 0

    def advance(self, done: int = 1, note: str = "") -> None:
        self._done += done
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            rate = self._done / max(now - self.began, 1e-9)
            left = f", {(self._total - self._done) / rate:.0f} s left" if self._total and rate else ""
            suffix = f"; {note}" if note else ""
            of = f" of {self._total:,}" if self._total else ""
            self.write(f"{self._done:,}{of} {self._unit}, {rate:,.0f}/s{left}{suffix}")

    def write(self, text: str) -> None:
        self._stream.write(f"{self._name}: {text}\n")
        self._stream.flush()


class Bars:
    """Draw bars on a terminal."""

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        """Open a stage drawn as a bar, with its rate, the time left and the latest note."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(
                "{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}" if total else "{task.completed:,.0f}"
            ),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as bars:
            yield _BarStage(bars, bars.add_task(name, total=total, unit=unit, note=""))


class _BarStage:
    def __init__(self, bars: object, task: int) -> None:
        self._bars, self._task = bars, task

    def advance(self, done: int = 1, note: str = "") -> None:
        self._bars.update(self._task, advance=done, **({"note": note} if note else {}))  # type: ignore[attr-defined]


def for_stream(stream: TextIO | None = None, *, quiet: bool = False) -> Progress:
    """Choose the display that fits: bars on a terminal, plain lines elsewhere, nothing when quiet."""
    if quiet:
        return SILENT
    stream = stream if stream is not None else sys.stderr
    return Bars() if stream.isatty() else Lines(stream)
