"""Print results: as one JSON document, or as lines and tables for people."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from canarybank import __version__
from canarybank.progress import Progress, for_stream, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["OUTPUT", "Output", "facts", "paragraph", "table"]

SCHEMA = 1
PIPE_WIDTH = 120
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
    from rich import box
    from rich.table import Table

    from canarybank.report.text import sentence_case

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for index, header in enumerate(headers):
        side: Literal["left", "right"] = "left" if index < text else "right"
        made.add_column(sentence_case(header), justify=side, overflow="fold", no_wrap=index < whole)
    for row in rows:
        made.add_row(*(_safe(cell) for cell in row))
    return made


def paragraph(text: str, style: str = "") -> "RenderableType":
    """Return text as it is, with no markup in it."""
    from rich.text import Text

    return Text(printable(text), style=style)


def _console(is_terminal: bool, *, stderr: bool = False) -> "Console":  # noqa: FBT001, which of two widths
    from rich.console import Console

    width = None if is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(width=width, stderr=stderr, markup=False, highlight=False)


def _safe(value: object) -> "RenderableType":
    return paragraph(str(value))
