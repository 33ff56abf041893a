"""Print results: as one JSON document, or as lines and tables for people."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from canarybank import __version__
from canarybank.progress import Progress, for_stream, printable
from canarybank.wording import sentence_case

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["OUTPUT", "Output", "bullets", "facts", "paragraph", "table"]

SCHEMA = 1
PIPE_WIDTH = 120
GAP, MOST_LETTERS = 2, 32
"""The room between two columns of a table, and the longest word of it that is not folded."""
OUTPUT = Group("Output", sort_key=99)


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks: results on standard output, everything else on standard error."""

    json: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print one JSON document instead of text.")
    ] = False
    quiet: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print no progress and no notes, only the result.")
    ] = False
    traceback: Annotated[bool, Parameter(negative="", show_default=False, help="Print the traceback of an error.")] = (
        False
    )

    @property
    def progress(self) -> Progress:
        """Return the display of progress: bars on a terminal, plain lines elsewhere, nothing when quiet."""
        return for_stream(sys.stderr, quiet=self.quiet)

    def note(self, text: str) -> None:
        """Say something beside the result, unless quiet."""
        if not self.quiet:
            _console(sys.stderr.isatty(), stderr=True).print(paragraph(text), soft_wrap=True)

    def result(self, command: str, document: Mapping[str, Any], *parts: "RenderableType") -> None:
        """Print a result: the document as JSON if that was asked for, else the parts for people."""
        if self.json:
            from canarybank.store import canonical_json

            head = {"canarybank": __version__, "command": command, "schema_version": SCHEMA}
            print(canonical_json({**head, **document}, indent=2))
            return
        is_terminal = sys.stdout.isatty()
        console = _console(is_terminal)
        with console.capture() as capture:
            for part in parts:
                console.print(part)
        text = capture.get()
        # A terminal needs no padding removed; a file or pipe wants no blanks at the ends of lines.
        sys.stdout.write(text if is_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def facts(pairs: Mapping[str, object]) -> "RenderableType":
    """Return names and values in two columns; values wrap in their own, and a hash or a path stays whole."""
    return _Facts({f"  {printable(name)}": printable(str(value)) for name, value in pairs.items()})


@dataclass(frozen=True, slots=True)
class _Facts:
    """Names and values. A value of one long word, which would be cut in two beside its name, stands on a line below."""

    pairs: Mapping[str, str]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.table import Table
        from rich.text import Text

        left = max(map(len, self.pairs), default=0)

        def grid() -> Table:
            made = Table.grid(padding=(0, 2))
            made.add_column(style="dim", no_wrap=True, min_width=left)
            made.add_column(overflow="fold")
            return made

        rows = grid()
        for name, value in self.pairs.items():
            if len(value) <= options.max_width - left - 2 or any(sign.isspace() for sign in value):
                rows.add_row(Text(name), Text(value))
                continue
            yield rows
            yield Text(name, style="dim")
            yield Text(f"    {value}", overflow="fold")
            rows = grid()
        yield rows


def table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, text: int = 1, whole: int = 0
) -> "RenderableType":
    """Return rows under headers; the first ``text`` columns stand left, the numbers after them right.

    The first ``whole`` columns are never folded, whatever the width.
    """
    cells = tuple(tuple(printable(str(cell)) for cell in row) for row in rows)
    return _Rows(tuple(map(sentence_case, headers)), cells, text, whole)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows under headers. Where they are too wide for the screen, texts fold; numbers never do: they go on below."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: int
    whole: int

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        every, numbers = range(len(self.headers)), range(self.text, len(self.headers))
        if not numbers or sum(map(self._widest, every)) + GAP * len(every) <= options.max_width:
            yield self._part(every, {})
            return
        room = options.max_width - sum(self._least(index) + GAP for index in range(self.text))
        widths = {index: min(self._least(index), max(room - GAP, 1)) for index in numbers}
        part, left = list[int](), room
        for index in numbers:
            if part and left < widths[index] + GAP:
                yield self._part([*range(self.text), *part], widths)
                part, left = [], room
            part.append(index)
            left -= widths[index] + GAP
        yield self._part([*range(self.text), *part], widths)

    def _lines(self, index: int) -> list[str]:
        return [line for row in self.rows for line in row[index].split("\n")]

    def _widest(self, index: int) -> int:
        from rich.cells import cell_len

        return max(map(cell_len, [*self.headers[index].split("\n"), *self._lines(index)]), default=0)

    def _least(self, index: int) -> int:
        """Return how narrow a column may be: a number is not folded, a text and a header are, between words."""
        from rich.cells import cell_len

        if index < self.whole:
            return self._widest(index)
        lines = self._lines(index)
        cells = lines if index >= self.text else [word for line in lines for word in line.split()]
        return min(MOST_LETTERS, max(map(cell_len, [*self.headers[index].split(), *cells]), default=0))

    def _part(self, columns: Sequence[int], widths: Mapping[int, int]) -> "RenderableType":
        from rich import box
        from rich.table import Table

        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        for index in columns:
            side: Literal["left", "right"] = "left" if index < self.text else "right"
            made.add_column(
                self.headers[index],
                justify=side,
                overflow="fold",
                no_wrap=index < self.whole,
                width=widths.get(index),
            )
        for row in self.rows:
            made.add_row(*(paragraph(row[index]) for index in columns))
        return made


def paragraph(text: str, style: str = "") -> "RenderableType":
    """Return text as it is, with no markup in it."""
    from rich.text import Text

    return Text(printable(text), style=style)


def bullets(items: Iterable[str]) -> "RenderableType":
    """Return texts as a list; what wraps stands below its own text."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for item in items:
        grid.add_row("-", Text(printable(item)))
    return grid


def _console(is_terminal: bool, *, stderr: bool = False) -> "Console":  # noqa: FBT001, which of two widths
    from rich.console import Console

    width = None if is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(width=width, stderr=stderr, markup=False, highlight=False)
