"""Draw pieces of the paper with matplotlib, as SVG and PDF: the same piece gives the same bytes."""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from canarybank.paper import DATASETS, Cell, Piece
from canarybank.report.text import setting_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["alternative", "draw_piece", "figure_bytes"]

_COLOURS: Final = ("#0b5fa5", "#c2410c", "#4d7c0f", "#7c3aed", "#d4a017", "#0f766e", "#be185d", "#475569")
_INCHES_A_LETTER: Final = 0.078
_PANELS_A_ROW: Final = 3
_GREY: Final = "#7c8696"
_LIKELY: Final = "90% of such bounds"
_SAMPLING: Final = "99.9%, sampling alone"
_STYLE: Final = {
    "svg.hashsalt": "canarybank",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e1e5ea",
    "legend.frameon": False,
}
_SILENT: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": "canarybank"},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "canarybank", "Producer": "canarybank"},
}


def figure_bytes(piece: Piece, kind: str) -> bytes:
    """Return the figure of a piece as ``svg`` or ``pdf``."""
    import matplotlib as mpl

    settings: Any = {**mpl.rcParamsDefault, "backend": mpl.rcParams["backend"], **_STYLE}
    buffer = io.BytesIO()
    with mpl.rc_context(settings):
        draw_piece(piece).savefig(buffer, format=kind, metadata=_SILENT[kind])
    return buffer.getvalue()


def draw_piece(piece: Piece) -> "Figure":
    """Return the figure of a piece."""
    return {"table": _table, "curves": _curves, "rounds": _rounds}[piece.shape](piece)


def alternative(piece: Piece) -> str:
    """Say in words what the figure shows."""
    parts = [
        f"{', '.join(str(value) for value in cell.at.values())}: observed {cell.observed:.3f}, exact "
        f"{_number(cell.exact):.3f}"
        for cell in piece.cells
    ]
    return f"{piece.title}. {'; '.join(parts)}."


def _figure(width: float, height: float, panels: int) -> tuple["Figure", list["Axes"]]:
    """Return a figure with its panels, in rows where they are many; the width is of one row, the height of each."""
    from matplotlib.figure import Figure

    rows = -(-panels // _PANELS_A_ROW)
    columns = min(panels, _PANELS_A_ROW)
    figure = Figure(figsize=(width, height * rows), layout="constrained")
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


def _table(piece: Piece) -> "Figure":
    groups: dict[str, list[Cell]] = {}
    for cell in piece.cells:
        groups.setdefault(str(cell.at[piece.coordinates[0]]), []).append(cell)
    most = max(len(cells) for cells in groups.values())
    figure, axes = _figure(3.6 + 3.2 * len(groups), 1.6 + 0.34 * most, len(groups))
    for ax, (name, cells) in zip(axes, groups.items(), strict=True):
        _dots(ax, cells)
        ax.set_title(f"{piece.coordinates[0]} {name}")
    _legend(figure, axes)
    return figure


def _dots(ax: "Axes", cells: Sequence[Cell]) -> None:
    places = list(range(len(cells)))
    for place, cell in enumerate(cells):
        if cell.explained is not None:
            low, high = _number(cell.explained.low), _number(cell.explained.high)
            ax.plot([low, high], [place, place], color="#c6ccd5", lw=1.4, zorder=1, label=None if place else _SAMPLING)
        low, high = _number(cell.likely.low), _number(cell.likely.high)
        ax.barh(place, high - low, 0.34, low, color="#e1e5ea", label=None if place else _LIKELY)
    for marker, dataset in (("s", "yelp"), ("^", "sentiment140")):
        xs, ys = [], []
        for place, cell in enumerate(cells):
            values = [value.value for value in cell.paper if value.dataset == dataset]
            xs += values
            ys += [place] * len(values)
        if xs:
            label = f"paper, {DATASETS[dataset]}"
            ax.scatter(xs, ys, marker=marker, s=26, facecolors="none", edgecolors=_GREY, label=label)
    exact, rule = [_number(cell.exact) for cell in cells], [_number(cell.rule) for cell in cells]
    ax.scatter(exact, places, marker="D", s=26, color=_COLOURS[0], label="exact")
    ax.scatter(rule, places, s=24, facecolors="none", edgecolors=_COLOURS[0], label="frozen rule")
    ax.scatter([cell.observed for cell in cells], places, s=24, color=_COLOURS[1], label="observed", zorder=3)
    ax.axvline(cells[0].mechanism, color=_COLOURS[0], lw=1, label="mechanism, exact")
    ax.set_yticks(places, [str(cell.at["attack"]) for cell in cells])
    ax.invert_yaxis()
    ax.set(xlim=(0, None), xlabel="epsilon")


def _curves(piece: Piece) -> "Figure":
    panels = _panels(piece)
    figure, axes = _figure(1.0 + 4.4 * min(len(panels), _PANELS_A_ROW), 3.9, len(panels))
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    for ax, ((title, name), lines) in zip(axes, panels.items(), strict=True):
        for label, points in lines.items():
            _line(ax, _in_order(points), label, _COLOURS[labels.index(label) % len(_COLOURS)])
        _reference(ax, _in_order([point for points in lines.values() for point in points]))
        ax.set(title=title, xlabel=name, ylabel="epsilon", ylim=(0, None))
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
    words = list(dict.fromkeys(place for place, _ in points if isinstance(place, str)))
    return sorted(points, key=lambda point: words.index(point[0]) if isinstance(point[0], str) else point[0])


def _line(ax: "Axes", points: Points, label: str, colour: str) -> None:
    x: list[Any] = [place for place, _ in points]
    cells = [cell for _, cell in points]
    ax.plot(x, [cell.observed for cell in cells], color=colour, marker="o", ms=3.5, lw=1.4, label=label)
    if len(points) > 1:
        ax.fill_between(x, *_likely(cells), color=colour, alpha=0.16, lw=0)
    else:
        ax.vlines(x, *_likely(cells), color=colour, alpha=0.4)
    ax.plot(x, [_number(cell.exact) for cell in cells], color=colour, lw=1, ls="--")


def _reference(ax: "Axes", points: Points) -> None:
    known: dict[Any, float] = {place: cell.mechanism for place, cell in points}
    ax.plot(list(known), list(known.values()), color="#1b1f27", lw=1.2, ls=":", label="mechanism, exact")
    ax.plot([], [], color=_GREY, lw=1, ls="--", label="attack, exact")
    ax.fill_between([], [], [], color=_GREY, alpha=0.3, lw=0, label=_LIKELY)


def _rounds(piece: Piece) -> "Figure":
    figure, (left, right) = _figure(9.4, 3.9, 2)
    cells, rounds = piece.cells, [int(cell.at["rounds"]) for cell in piece.cells]
    left.plot(rounds, [cell.more.get("mauve", math.nan) for cell in cells], color=_COLOURS[2], marker="o", ms=3.5)
    left.set(ylabel="MAUVE of the bank's population", ylim=(0, None))
    right.plot(
        rounds,
        [_number(cell.accounted) for cell in cells],
        color=_GREY,
        marker="s",
        ms=3.5,
        lw=1,
        label="theory, paper",
    )
    right.plot(rounds, [cell.mechanism for cell in cells], color="#1b1f27", ls=":", label="theory, exact")
    right.plot(rounds, [_number(cell.exact) for cell in cells], color=_COLOURS[0], ls="--", label="attack, exact")
    right.plot(rounds, [cell.observed for cell in cells], color=_COLOURS[1], marker="o", ms=3.5, label="observed")
    right.fill_between(rounds, *_likely(cells), color=_COLOURS[1], alpha=0.16, lw=0, label=_LIKELY)
    right.set(ylabel="epsilon", ylim=(0, None))
    for ax in (left, right):
        ax.set(xlabel="releases", xticks=rounds)
    right.legend(loc="best")
    return figure


def _likely(cells: Sequence[Cell]) -> tuple[list[float], list[float]]:
    """Return the lower and the upper ends of where 90% of the bounds fall."""
    return [_number(cell.likely.low) for cell in cells], [_number(cell.likely.high) for cell in cells]


def _number(value: float | None) -> float:
    """Return a number that can be drawn: an infinite one, which None stands for too, leaves a gap."""
    return math.nan if value is None or math.isinf(value) else value
