"""Show pieces of the paper, or a sweep: CSV, LaTeX, SVG and PDF of each, and one page with a section for each.

Figures are matplotlib's. The same piece gives the same bytes.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from canarybank import __version__
from canarybank.auditing import own_method
from canarybank.paper import DATASETS, UNPUBLISHED, Cell, Piece, Span
from canarybank.report.drawing import PRINTED, Drawn, saved, style
from canarybank.report.page import page_of
from canarybank.report.tables import PACKAGES, latex_table, write_csv
from canarybank.report.text import UNKNOWN, clean, confidence, decimal, epsilon, interval_text, setting_text
from canarybank.report.themed import COLOURS
from canarybank.store import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "alternative",
    "draw_piece",
    "figure_bytes",
    "piece_latex",
    "piece_rows",
    "render_pieces",
    "shown_columns",
    "shown_rows",
    "stands_on",
    "write_pieces",
]

_CLAIMS = {None: UNKNOWN, "stands": "no violation", "fails": "FAILS"}
_EXPLAINED = {None: UNKNOWN, True: "yes", False: "NO"}
_COLOURS: Final = tuple(
    COLOURS[name] for name in ("exact", "canary", "leaf", "violet", "gold", "teal", "rose", "slate")
)
_INCHES_A_LETTER: Final = 0.078
_PANELS_A_ROW, _PANELS_A_ROW_ON_PAGE = 3, 2
_NARROW: Final = 4.4
"""The width in inches of a figure on a telephone: letters of 9 points are about as many pixels high there."""
_TITLE_LETTERS: Final = 44
_GREY: Final = COLOURS["other"]
_DARK: Final = COLOURS["ink"]
_DOTTED: Final[dict[str, Any]] = {"marker": "o", "ms": 3.5}
_LIKELY: Final = "90% of such bounds"
_SAMPLING: Final = "99.9%, sampling alone"


def write_pieces(pieces: Sequence[Piece], folder: Path, *, title: str = "the paper, reproduced") -> Path:
    """Write every form of every piece into a folder, and the page of all; return the page.

    The same pieces give the same bytes.

    Args:
        pieces: Tables and figures of the paper, or sweeps.
        folder: Where the files go.
        title: The heading of the page.

    Example:
        >>> from canarybank.config import resolve
        >>> from canarybank.flow import Point
        >>> from canarybank.paper import sweep_piece
        >>> from canarybank.run import open_run
        >>> point = Point("sigma-1", resolve(), {"mechanism.sigma": 1.0}, open_run("runs/demo"))
        >>> page = write_pieces([sweep_piece("sweep", [point], "runs")], Path("pieces"), title="a sweep")
        >>> sorted(path.name for path in page.parent.iterdir())
        ['index.html', 'sweep.csv', 'sweep.pdf', 'sweep.svg', 'sweep.tex']
    """
    for piece in pieces:
        write_csv(piece_rows(piece), folder / f"{piece.name}.csv")
        write_atomic(folder / f"{piece.name}.tex", piece_latex(piece))
        for kind in ("svg", "pdf"):
            write_atomic(folder / f"{piece.name}.{kind}", figure_bytes(piece, kind))
    page = folder / "index.html"
    write_atomic(page, render_pieces(pieces, title=title))
    return page


def render_pieces(pieces: Sequence[Piece], *, title: str = "the paper, reproduced") -> str:
    """Return one page with a section for each piece.

    Args:
        pieces: Tables and figures of the paper, or sweeps.
        title: The heading of the page.

    Example:
        >>> from canarybank.config import resolve
        >>> from canarybank.flow import Point
        >>> from canarybank.paper import sweep_piece
        >>> from canarybank.run import open_run
        >>> point = Point("sigma-1", resolve(), {"mechanism.sigma": 1.0}, open_run("runs/demo"))
        >>> "Sweep over mechanism.sigma" in render_pieces([sweep_piece("sweep", [point], "runs")])
        True
    """
    sections = [
        {
            "name": piece.name,
            "title": piece.title,
            "about": piece.about,
            "setup": [(name, clean(value, 400)) for name, value in piece.setup.items()],
            "notes": [clean(note, 600) for note in piece.notes],
            "figure": Drawn(
                key=piece.name,
                title=piece.title,
                caption=stands_on(piece),
                alternative=alternative(piece),
                figure=draw_piece(piece, _PANELS_A_ROW_ON_PAGE),
                narrow=draw_piece(piece, 1),
                style=PRINTED,
            ),
            "columns": shown_columns(piece),
            "rows": shown_rows(piece),
        }
        for piece in pieces
    ]
    return page_of("paper.html", title=title, version=__version__, sections=sections)


def piece_latex(piece: Piece) -> str:
    """Return a piece as a LaTeX table, with what its figures stand on in the caption."""
    table = latex_table(shown_columns(piece), shown_rows(piece), f"{piece.title}. {stands_on(piece)}")
    notes = "".join(f"% {clean(note, 400)}\n" for note in piece.notes)
    return f"{PACKAGES}\n{notes}{table}\n"


def piece_rows(piece: Piece) -> list[dict[str, Any]]:
    """Return a row for each cell, numbers as they are; the paper's stand in columns of their own."""
    tables = sorted({(value.dataset, value.table) for cell in piece.cells for value in cell.paper})
    return [
        {
            **cell.at,
            **({"paper": UNPUBLISHED} if piece.unpublished else {}),
            **dict.fromkeys(f"paper: {dataset}, {table}" for dataset, table in tables),
            **{f"paper: {value.dataset}, {value.table}": value.value for value in cell.paper},
            "observed": cell.observed,
            "exact": as_number(cell.exact),
            "exact_rule": as_number(cell.rule),
            "expected": as_number(cell.expected),
            "expected_05": as_number(cell.likely.low),
            "expected_95": as_number(cell.likely.high),
            "sampling_low": None if cell.explained is None else as_number(cell.explained.low),
            "sampling_high": None if cell.explained is None else as_number(cell.explained.high),
            "explained": cell.is_explained,
            "mechanism": cell.mechanism,
            "accounted": cell.accounted,
            "claim": cell.claim,
            "method": cell.method,
            "confidence": cell.confidence,
            "trials": cell.trials,
            "canaries": cell.canaries,
            "threshold": cell.threshold,
            "delta": cell.delta,
            **{name: cell.more.get(name) for name in _more(piece)},
        }
        for cell in piece.cells
    ]


def shown_columns(piece: Piece) -> tuple[str, ...]:
    """Return the heads of the table for people; where the paper has no number for any cell, it has no column."""
    return tuple(_columns(piece))


def shown_rows(piece: Piece) -> list[tuple[str, ...]]:
    """Return the rows of the table for people."""
    return list(zip(*_columns(piece).values(), strict=True))


def _columns(piece: Piece) -> dict[str, list[str]]:
    """Return the columns of the table for people, each with a word for every cell; an empty one is not shown."""
    cells, more = piece.cells, _more(piece)
    datasets = dict.fromkeys(value.dataset for cell in cells for value in cell.paper)
    sampled = cells if any(cell.explained is not None for cell in cells) else ()
    claims = cells if any(cell.claim is not None for cell in cells) else ()
    differing = cells if "theory" not in more and len({cell.mechanism for cell in cells}) > 1 else ()
    columns = {
        **{name: [setting_text(cell.at[name]) for cell in cells] for name in piece.coordinates},
        f"paper ({'; '.join(DATASETS.get(name, name) for name in datasets)})": [
            _paper_words(cell) for cell in (cells if datasets else ())
        ],
        "observed": [epsilon(cell.observed) for cell in cells],
        "exact": [epsilon(as_number(cell.exact)) for cell in cells],
        "at rule": [epsilon(as_number(cell.rule)) for cell in cells],
        "expected": [epsilon(as_number(cell.expected)) for cell in cells],
        "5% to 95%": [_span_text(cell.likely) for cell in cells],
        "99.9% sampling": [_span_text(cell.explained) for cell in sampled],
        "explained": [_EXPLAINED[cell.is_explained] for cell in sampled],
        "mechanism": [epsilon(cell.mechanism) for cell in differing],
        "claim": [_CLAIMS[cell.claim] for cell in claims],
        **{name: [decimal(cell.more.get(name)) for cell in cells] for name in more},
    }
    return {name: words for name, words in columns.items() if words}


def as_number(value: float | None) -> float:
    """Return a number, infinite where it is None: a piece's file cannot hold an infinite one."""
    return math.inf if value is None else value


def _span_text(span: Span | None) -> str:
    return interval_text(None if span is None else {"low": as_number(span.low), "high": as_number(span.high)})


def _more(piece: Piece) -> list[str]:
    return sorted({name for cell in piece.cells for name in cell.more})


def _paper_words(cell: Cell) -> str:
    """Return the paper's numbers by dataset, marking those that sampling alone could give here."""
    datasets = dict.fromkeys(value.dataset for value in cell.paper)
    words = [
        [f"{each.value:.3f}{'*' if cell.explains(each.value) else ''}" for each in cell.paper if each.dataset == name]
        for name in datasets
    ]
    return "; ".join(map("/".join, words)) or UNPUBLISHED


def stands_on(piece: Piece) -> str:
    """Say what a piece's figures stand on."""
    cells = piece.cells
    text = (
        f"Observed: lower bound {_either(_rule(cell) for cell in cells)} at "
        f"{_either(confidence(cell.confidence) for cell in cells)} confidence, "
        f"{_either(f'{trials:,}' for trials in sorted(cell.trials for cell in cells))} trials of each hypothesis of "
        f"each canary, delta {_either(f'{cell.delta:g}' for cell in cells)}, thresholds "
        f"{_either(cell.threshold for cell in cells)}. Exact figures need no trials."
    )
    notes = {
        "Explained: whether the observed bound lies where sampling alone puts it.": any(
            cell.explained is not None for cell in cells
        ),
        "Paper: where its two tables differ, the main table's value stands first; an asterisk marks a value that "
        "sampling alone could give on the users and bank here.": any(cell.paper for cell in cells),
        f"Paper: it has a plot, so each of its values is {UNPUBLISHED}.": piece.unpublished,
    }
    return " ".join([text, *(note for note, holds in notes.items() if holds)])


def _rule(cell: Cell) -> str:
    """Say how the bound of a cell comes from its canaries."""
    over, method = f"the largest over {cell.canaries} canaries", own_method(cell.method)
    if cell.canaries == 1:
        over = "of one canary"
    elif method is not None and method.pools:
        over = f"from the counts of {cell.canaries} canaries together"
    return f"{over} by the method {cell.method}"


def _either(values: Iterable[str]) -> str:
    return " or ".join(dict.fromkeys(values))


def figure_bytes(piece: Piece, kind: str) -> bytes:
    """Return the figure of a piece as ``svg`` or ``pdf``."""
    return saved(draw_piece(piece), kind, PRINTED)


def draw_piece(piece: Piece, across: int = _PANELS_A_ROW) -> "Figure":
    """Return the figure of a piece, as matplotlib draws it.

    Args:
        piece: A piece of the paper, or a sweep.
        across: How many panels stand in a row at most; one is for a narrow screen.

    Example:
        >>> within = Span(low=0.9, high=1.2)
        >>> cell = Cell(
        ...     at={"arm": "A", "attack": "nonce"}, observed=1.05, exact=1.68, rule=1.35, expected=1.09, likely=within,
        ...     mechanism=1.6845, method="paper", confidence=0.95, trials=1000, canaries=5, threshold="calibrated",
        ...     delta=1e-5,
        ... )
        >>> piece = Piece(
        ...     name="own", title="Own", about="By hand.", shape="table", coordinates=("arm", "attack"), cells=(cell,),
        ...     setup={},
        ... )
        >>> [ax.get_title() for ax in draw_piece(piece).axes]
        ['arm A']
    """
    draw = {"table": _table, "curves": _curves, "rounds": _rounds}[piece.shape]
    with style(PRINTED):
        return draw(piece, across)


def alternative(piece: Piece) -> str:
    """Say in words what the figure shows."""
    parts = [
        f"{', '.join(str(value) for value in cell.at.values())}: observed {cell.observed:.3f}, exact "
        f"{_number(cell.exact):.3f}"
        for cell in piece.cells
    ]
    return f"{piece.title}. {'; '.join(parts)}."


def _figure(width: float, height: float, panels: int, across: int) -> tuple["Figure", list["Axes"]]:
    """Return a figure with its panels, at most so many in a row; the width is of one row, the height of each."""
    from matplotlib.figure import Figure

    rows, columns = -(-panels // across), min(panels, across)
    figure = Figure(figsize=(_NARROW if across == 1 else width, height * rows), layout="constrained")
    made = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in made[panels:]:
        unused.remove()
    return figure, made[:panels]


def _legend(figure: "Figure", axes: Sequence["Axes"]) -> None:
    """Put the legend below, in as many columns as the figure is wide enough for."""
    named: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    longest = max(map(len, named))
    columns = max(1, min(4, int(figure.get_figwidth() / (0.5 + _INCHES_A_LETTER * longest))))
    figure.legend(list(named.values()), list(named), loc="outside lower center", ncols=columns)


def _table(piece: Piece, across: int) -> "Figure":
    coordinate, groups = piece.coordinates[0], dict[str, list[Cell]]()
    for cell in piece.cells:
        groups.setdefault(str(cell.at[coordinate]), []).append(cell)
    figure, axes = _figure(
        3.6 + 3.2 * min(len(groups), across), 1.6 + 0.34 * max(map(len, groups.values())), len(groups), across
    )
    for ax, (name, cells) in zip(axes, groups.items(), strict=True):
        _dots(ax, cells)
        ax.set(xlim=(0, None), xlabel="epsilon", title=f"{coordinate} {name}")
    _legend(figure, axes)
    return figure


def _dots(ax: "Axes", cells: Sequence[Cell]) -> None:
    places = range(len(cells))
    for place, cell, low, high in zip(places, cells, *_likely(cells), strict=True):
        if cell.explained is not None:
            ends = [_number(cell.explained.low), _number(cell.explained.high)]
            ax.plot(ends, [place, place], color=COLOURS["line"], lw=1.4, zorder=1, label=None if place else _SAMPLING)
        ax.barh(place, high - low, 0.34, low, color=COLOURS["faint"], label=None if place else _LIKELY)
    for marker, (dataset, name) in zip("s^", DATASETS.items(), strict=True):
        stated = [(each.value, place) for place in places for each in cells[place].paper if each.dataset == dataset]
        if stated:
            values, rows = zip(*stated, strict=True)
            ax.scatter(values, rows, marker=marker, s=26, facecolors="none", edgecolors=_GREY, label=f"paper, {name}")
    ax.scatter([_number(cell.exact) for cell in cells], places, marker="D", s=26, color=_COLOURS[0], label="exact")
    rules = [_number(cell.rule) for cell in cells]
    ax.scatter(rules, places, s=24, facecolors="none", edgecolors=_COLOURS[0], label="frozen rule")
    ax.scatter([cell.observed for cell in cells], places, s=24, color=_COLOURS[1], label="observed", zorder=3)
    ax.axvline(cells[0].mechanism, color=_COLOURS[0], lw=1, label="mechanism, exact")
    ax.set_yticks(places, [str(cell.at["attack"]) for cell in cells])
    ax.invert_yaxis()


def _curves(piece: Piece, across: int) -> "Figure":
    panels = _panels(piece)
    figure, axes = _figure(1.0 + 4.4 * min(len(panels), across), 3.9, len(panels), across)
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for ax, ((title, name), lines) in zip(axes, panels.items(), strict=True):
        for label, points in lines.items():
            _line(ax, _in_order(points), label, _COLOURS[labels.index(label) % len(_COLOURS)])
        _reference(ax, _in_order([point for points in lines.values() for point in points]))
        ax.set(title=textwrap.fill(title, _TITLE_LETTERS), xlabel=name, ylabel="epsilon", ylim=(0, None))
    _legend(figure, axes)
    return figure


Points = list[tuple[float | str, Cell]]


def _panels(piece: Piece) -> dict[tuple[str, str], dict[str, Points]]:
    """Return the lines of each panel by its title and the name of what it runs over.

    An ablation has a panel for each axis. A sweep runs over its last key, and has a panel for each combination of the
    others: within a panel the mechanism is one, and a line is an attack.
    """
    panels: dict[tuple[str, str], dict[str, Points]] = {}
    for cell in piece.cells:
        at = dict(cell.at)
        attack = str(at.pop("attack"))
        if "axis" in at:
            title, name, x = "", str(at["axis"]), at["value"]
        else:
            *others, (name, x) = at.items()
            title = ", ".join(f"{key.rpartition('.')[2]} {setting_text(value)}" for key, value in others)
        label = "observed" if attack == str(x) else attack
        place: float | str = x if isinstance(x, str) else float(x)
        panels.setdefault((title, name), {}).setdefault(label, []).append((place, cell))
    return panels


def _in_order(points: Points) -> Points:
    """Return points from left to right; words stay in the order in which they were given."""
    return sorted(points, key=lambda point: 0.0 if isinstance(point[0], str) else point[0])


def _line(ax: "Axes", points: Points, label: str, colour: str) -> None:
    places, cells = [list(each) for each in zip(*points, strict=True)]
    ax.plot(places, [cell.observed for cell in cells], color=colour, lw=1.4, label=label, **_DOTTED)
    if len(points) > 1:
        ax.fill_between(places, *_likely(cells), color=colour, alpha=0.16, lw=0)
    else:
        ax.vlines(places, *_likely(cells), color=colour, alpha=0.4)
    ax.plot(places, [_number(cell.exact) for cell in cells], color=colour, lw=1, ls="--")


def _reference(ax: "Axes", points: Points) -> None:
    known: dict[Any, float] = {place: cell.mechanism for place, cell in points}
    ax.plot(list(known), list(known.values()), color=_DARK, lw=1.2, ls=":", label="mechanism, exact")
    ax.plot([], [], color=_GREY, lw=1, ls="--", label="attack, exact")
    ax.fill_between([], [], [], color=_GREY, alpha=0.3, lw=0, label=_LIKELY)


def _rounds(piece: Piece, across: int) -> "Figure":
    figure, (left, right) = _figure(9.4, 3.9, 2, across)
    cells, rounds = piece.cells, [int(cell.at["rounds"]) for cell in piece.cells]
    left.plot(rounds, [cell.more.get("mauve", math.nan) for cell in cells], color=_COLOURS[2], **_DOTTED)
    curves: dict[str, tuple[list[float], dict[str, Any]]] = {
        "theory, paper": (
            [_number(cell.accounted) for cell in cells],
            {"color": _GREY, "marker": "s", "ms": 3.5, "lw": 1},
        ),
        "theory, exact": ([cell.mechanism for cell in cells], {"color": _DARK, "ls": ":"}),
        "attack, exact": ([_number(cell.exact) for cell in cells], {"color": _COLOURS[0], "ls": "--"}),
        "observed": ([cell.observed for cell in cells], {"color": _COLOURS[1], **_DOTTED}),
    }
    for label, (values, look) in curves.items():
        right.plot(rounds, values, label=label, **look)
    right.fill_between(rounds, *_likely(cells), color=_COLOURS[1], alpha=0.16, lw=0, label=_LIKELY)
    for ax, name in ((left, "MAUVE of the bank's population"), (right, "epsilon")):
        ax.set(ylabel=name, ylim=(0, None), xlabel="releases", xticks=rounds)
    right.legend(loc="best")
    return figure


def _likely(cells: Sequence[Cell]) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends of where 90% of the bounds fall."""
    return [_number(cell.likely.low) for cell in cells], [_number(cell.likely.high) for cell in cells]


def _number(value: float | None) -> float:
    """Return a number that can be drawn: an infinite one, which None stands for too, leaves a gap."""
    return math.nan if value is None or math.isinf(value) else value
