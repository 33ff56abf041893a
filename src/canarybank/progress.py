"""Show how far long work has come, without the work knowing how it is shown.

Work asks its ``Progress`` for a stage and advances it; a terminal draws a bar, a log gets plain lines, a
library call stays silent.
"""

import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["SILENT", "Bars", "Lines", "Progress", "Silent", "Stage", "for_stream", "printable"]

_LINE_EVERY_SECONDS = 5.0
_SHORT_SECONDS = 1.0
"""A stage that is over sooner leaves no trace: there was nothing to wait for."""
_BAR_WIDTH = 24
_WIDE = 110
"""Columns of a terminal on which a bar of full width leaves room for what stands beside it."""
_MILLION = 1_000_000
_SLOW = 10
"""Rates below this are shown with two digits, for a whole number would say too little."""


def printable(text: str) -> str:
    """Return text that no terminal obeys: controls of the terminal and of the direction of writing are replaced.

    A file's name, a user's id, a key of somebody else's file or a server's message may hold escape sequences, and a
    terminal must not obey them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char == "\n" or unicodedata.category(char) == "Zs"
        else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


class Stage(Protocol):
    """One piece of long work under way."""

    def advance(self, done: int = 1, note: str = "") -> None:
        """Count more units as done, with an optional note on what the work has seen so far."""


class Progress(Protocol):
    """A display of long work."""

    def stage(self, name: str, total: int | None = None, unit: str = "") -> AbstractContextManager[Stage]:
        """Open a stage of that many units; leaving the context closes it."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """Show that a step has begun and that it is done, and nothing else: no count and no time, since it is private.

        A step is shown however short it is, because whether it was short is a time too.
        """


class Silent:
    """Show nothing: the default of every library call."""

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        """Open a stage that shows nothing."""
        del name, total, unit
        yield _SilentStage()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show nothing."""
        del name
        yield


class _SilentStage:
    def advance(self, done: int = 1, note: str = "") -> None:
        pass


SILENT = Silent()


class Lines:
    """Write a plain line when a stage turns out to take a while, every few seconds, and when it ends."""

    def __init__(
        self, stream: TextIO | None = None, every: float = _LINE_EVERY_SECONDS, short: float = _SHORT_SECONDS
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._every, self._short = every, short

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        """Open a stage shown as plain lines; one that is over sooner than the short time shows none."""
        stage = _LineStage(self._stream, name, _Pace(total, unit), self._every)
        announcement = threading.Timer(self._short, stage.announce)
        announcement.daemon = True
        announcement.start()
        try:
            yield stage
        finally:
            announcement.cancel()
        if stage.pace.seconds >= self._short:
            stage.announce()
            stage.write(f"done in {stage.pace.seconds:.1f} s")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Write a line when the step begins, and one when it is done."""
        with _plain_step(self._stream, name):
            yield


@contextmanager
def _plain_step(stream: TextIO, name: str) -> Iterator[None]:
    stream.write(f"{name}: started\n")
    stream.flush()
    yield
    stream.write(f"{name}: done\n")
    stream.flush()


class _Pace:
    """How much of a stage is done, and how fast."""

    def __init__(self, total: int | None, unit: str) -> None:
        self.total, self.unit = total, unit
        self.done, self._began = 0, time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def rate(self) -> float:
        return self.done / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        of = f" of {self.total:,}" if self.total else ""
        left = f", {(self.total - self.done) / self.rate:.0f} s left" if self.total and self.done else ""
        return f"{self.done:,}{of} {self.unit}".rstrip() + f", {_whole(self.rate)}/s{left}"


def _whole(number: float) -> str:
    return f"{number:,.0f}" if number >= _SLOW or number == int(number) else f"{number:.2g}"


class _LineStage:
    def __init__(self, stream: TextIO, name: str, pace: _Pace, every: float) -> None:
        self.pace = pace
        self._stream, self._name, self._every = stream, name, every
        self._last, self._announced = 0.0, False
        self._lock = threading.Lock()

    def advance(self, done: int = 1, note: str = "") -> None:
        self.pace.done += done
        if self.pace.seconds - self._last >= self._every:
            self._last = self.pace.seconds
            self.announce()
            self.write(f"{self.pace}; {note}" if note else str(self.pace))

    def announce(self) -> None:
        with self._lock:
            if not self._announced:
                self._announced = True
                self.write("started")

    def write(self, text: str) -> None:
        self._stream.write(printable(f"{self._name}: {text}") + "\n")
        self._stream.flush()


class Bars:
    """Draw bars on a terminal."""

    def __init__(self, short: float = _SHORT_SECONDS) -> None:
        self._short = short

    @contextmanager
    def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
        """Open a stage drawn as a bar with its rate, the time left and the latest note; a short one leaves no bar."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR_WIDTH if console.width >= _WIDE else _BAR_WIDTH // 2),
            TextColumn("{task.fields[count]}", markup=False),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn(
                "{task.fields[note]}",
                "dim",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
        )
        pace = _Pace(total, unit)
        with RichProgress(*columns, console=console, expand=True, get_time=time.monotonic) as bars:
            yield _BarStage(bars, bars.add_task(printable(name), total=total, count="", rate="", note=""), pace)
            bars.live.transient = pace.seconds < self._short

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Write plain lines: what a bar shows over time would tell how long the step took."""
        with _plain_step(sys.stderr, name):
            yield


class _BarStage:
    def __init__(self, bars: "RichProgress", task: "TaskID", pace: _Pace) -> None:
        self._bars, self._task, self._pace, self._note = bars, task, pace, ""

    def advance(self, done: int = 1, note: str = "") -> None:
        self._pace.done += done
        self._note = printable(note) or self._note
        pace, of = self._pace, f"/{_brief(self._pace.total)}" if self._pace.total else ""
        count, rate = f"{_brief(pace.done)}{of} {pace.unit}".rstrip(), f"{_brief(pace.rate)}/s"
        self._bars.update(self._task, advance=done, count=count, rate=rate, note=self._note)


def _brief(number: float) -> str:
    """Return a number that leaves room for others on a line of a terminal."""
    return f"{number / _MILLION:.3g}M" if number >= _MILLION else _whole(number)


def for_stream(stream: TextIO | None = None, *, quiet: bool = False) -> Progress:
    """Choose the display that fits: bars on a terminal, plain lines elsewhere, nothing when quiet."""
    if quiet:
        return SILENT
    stream = stream if stream is not None else sys.stderr
    return Bars() if stream.isatty() else Lines(stream)
