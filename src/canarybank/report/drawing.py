"""Draw for a page with matplotlib: figures as wide as a telephone, and what stands for them where they are not seen.

Places are pixels from the upper left corner: figures are drawn at 72 dots an inch. Text is laid out by the widths of
DejaVu Sans, the widest common default, and the page shows it in the reader's own font.
"""

import io
import math
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from canarybank.report.themed import COLOURS, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BOLD",
    "PAGE",
    "PRINTED",
    "SMALL",
    "WIDTH",
    "Drawn",
    "add_dots",
    "add_legend",
    "add_text",
    "in_style",
    "is_drawable",
    "saved",
    "set_log_scale",
    "sheet",
    "shortened",
    "style",
    "text_width",
]

WIDTH: Final = 400.0
"""The width of a figure: what a telephone shows without making its text too small."""
SIZE, SMALL = 12.0, 11.0
BOLD: Final[dict[str, Any]] = {"weight": "bold"}
STYLE: Final[dict[str, Any]] = {
    "svg.hashsalt": "canarybank",
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": COLOURS["faint"],
    "legend.frameon": False,
}
PAGE: Final[dict[str, Any]] = STYLE | {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": COLOURS["ink"],
    "font.size": SIZE,
    "axes.labelsize": SMALL,
    "axes.labelcolor": COLOURS["soft"],
    "axes.edgecolor": COLOURS["line"],
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.labelcolor": COLOURS["soft"],
    "ytick.labelcolor": COLOURS["soft"],
    "legend.fontsize": SMALL,
    "legend.labelcolor": COLOURS["soft"],
    "legend.borderpad": 0.0,
    "legend.borderaxespad": 0.3,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.2,
}
"""Text of a page's figure is text: readers find it, and any script of the world has its letters."""
PRINTED: Final[dict[str, Any]] = STYLE | {"svg.fonttype": "path", "pdf.fonttype": 42, "font.size": 9.0}
"""Letters of a paper's figure are shapes, so that it looks alike everywhere."""
SILENT: Final[dict[str, dict[str, Any]]] = {
    "svg": {"Date": None, "Creator": "canarybank"},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "canarybank", "Producer": "canarybank"},
}
"""What a file says of its making, so that the same figure gives the same bytes."""
_AXIS, _LEGEND_LINE, _HANDLE = 42.0, 17.0, 46.0
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN_POWERS = {0: "1", -1: "0.1", -2: "0.01"}
_WIDER = 1.27
# Hundredths of an em, from the space to the tilde.
_ASCII = """
32 41 46 84 64 96 78 28 40 40 50 84 32 37 32 34 64 64 64 64 64 64 64 64 64 64 34 34 84 84 84 54 100 69 69 70 78 64 58
78 76 30 30 66 56 87 75 79 61 79 70 64 62 74 69 99 69 62 69 40 34 40 84 50 50 62 64 55 64 62 36 64 64 28 28 58 28 98 64
62 64 64 42 53 40 64 60 82 60 60 53 64 34 64 84
"""
_EMS = {chr(code): int(width) / 100 for code, width in enumerate(_ASCII.split(), start=32)}
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with what stands for it where it cannot be seen: a text alternative, and the numbers as a table."""

    key: str
    title: str
    caption: str
    alternative: str
    figure: "Figure"
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | float | int]] = ()
    narrow: "Figure | None" = None
    """The same for a narrow screen, where the figure is too wide for one."""
    style: Mapping[str, Any] = field(default_factory=lambda: PAGE)

    @property
    def svg(self) -> str:
        """Return the figure as markup for a page, in the colours of the page's theme."""
        return themed_svg(saved(self.figure, "svg", self.style), self.key, self.title, self.alternative)

    @property
    def narrow_svg(self) -> str:
        """Return the figure for a narrow screen as markup, or nothing where there is none."""
        if self.narrow is None:
            return ""
        drawn = saved(self.narrow, "svg", self.style)
        return themed_svg(drawn, f"{self.key}-narrow", self.title, self.alternative)


def in_style(draw: Callable[P, T]) -> Callable[P, T]:
    """Let a function draw in our style, whatever the reader's own settings of matplotlib are."""

    @wraps(draw)
    def styled(*args: P.args, **given: P.kwargs) -> T:
        with style(PAGE):
            return draw(*args, **given)

    return styled


@contextmanager
def style(chosen: Mapping[str, Any]) -> Iterator[None]:
    """Set matplotlib's defaults and a style over them for a while."""
    import matplotlib as mpl

    default = {key: value for key, value in mpl.rcParamsDefault.items() if not key.startswith("backend")}
    settings: Any = default | dict(chosen)
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # the reader's browser has other fonts
        warnings.filterwarnings("ignore", "Attempting to set identical low and high")  # of figures that are all 0
        yield


def saved(figure: "Figure", kind: str, chosen: Mapping[str, Any]) -> bytes:
    """Return a figure as a file of a kind, always the same bytes."""
    buffer = io.BytesIO()
    with style(chosen):
        figure.savefig(buffer, format=kind, metadata=SILENT[kind])
    return buffer.getvalue()


def sheet(
    height: float,
    labels: Sequence[str] = (),
    *,
    left: float = 14.0,
    top: float = 8.0,
    axis: float = _AXIS,
) -> tuple["Figure", "Axes"]:
    """Return a figure and its axes of so many pixels in height, with room for ticks and a legend of these labels."""
    from matplotlib.figure import Figure

    total = top + height + axis + _legend_height(labels)
    figure = Figure(figsize=(WIDTH / 72, total / 72), dpi=72)
    across, right = left / WIDTH, (WIDTH - 10.0) / WIDTH
    axes = figure.add_axes((across, 1 - (top + height) / total, right - across, height / total))
    axes.tick_params(length=0, pad=6)
    return figure, axes


def _legend_height(labels: Sequence[str]) -> float:
    return _LEGEND_LINE * math.ceil(len(labels) / _legend_columns(labels)) + 6.0 if labels else 0.0


def _legend_columns(labels: Iterable[str]) -> int:
    widest = _HANDLE + max(text_width(each, SMALL) for each in labels)
    return 2 if 2 * widest < WIDTH else 1


def add_legend(figure: "Figure") -> None:
    """Write a legend of all that has a label below the axes, in the room that ``sheet`` left for it."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    columns = _legend_columns(named)
    figure.legend(list(named.values()), list(named), loc="lower left", ncols=columns)


def add_text(axes: "Axes", across: float, y: float, text: str, **given: Any) -> None:
    """Write text so many pixels from the left edge of the axes, or from the right one where negative, at a height."""
    room = axes.get_position().width * WIDTH
    place, side = (1 + (across + 1) / room, "right") if across < 0 else (across / room, "left")
    axes.text(place, y, text, ha=side, va="baseline", transform=axes.get_yaxis_transform(), **given)


def add_dots(
    axes: "Axes", points: Sequence[Sequence[float]], colour: str, size: float, alpha: float = 1.0, label: str = ""
) -> None:
    """Draw many equal dots as one path of round caps, so that a thousand of them stay small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if label:
        axes.plot([], [], "o", ms=max(size, 5.0), mew=0, color=COLOURS[colour], alpha=alpha, label=label)
    if points:
        path = Path([tuple(point) for point in points for _ in range(2)], [Path.MOVETO, Path.LINETO] * len(points))
        path.should_simplify = False
        axes.add_patch(PathPatch(path, ec=COLOURS[colour], fc="none", lw=size, capstyle="round", alpha=alpha))


def set_log_scale(axes: "Axes", lowest: float) -> None:
    """Run both axes from a lowest rate to 1 in logarithms, with a readable label at each power of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    axes.set(xscale="log", yscale="log", xlim=(lowest, 1.0), ylim=(lowest, 1.0))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())


def _power(value: float) -> str:
    power = round(math.log10(value))
    return _PLAIN_POWERS.get(power, f"10{str(power).translate(_SUPERSCRIPTS)}")


def is_drawable(value: float | None) -> bool:
    """Return whether a value is known and finite."""
    return value is not None and math.isfinite(value)


def text_width(text: str, size: float = SIZE, *, bold: bool = False) -> float:
    """Return how wide a text can get, in pixels, in the widest common default font."""
    return sum(map(_em, text)) * size * (_WIDER if bold else 1.0)


def shortened(text: str, room: float, size: float = SIZE, *, bold: bool = False) -> str:
    """Return a text, cut with an ellipsis where it could be wider than that many pixels."""
    if text_width(text, size, bold=bold) <= room:
        return text
    fitting = (n for n in range(len(text), 0, -1) if text_width(text[:n] + "…", size, bold=bold) <= room)
    return text[: next(fitting, 0)].rstrip() + "…"


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    # Latin, Greek, Cyrillic, punctuation and signs are within an em; Arabic letters, Han and emoji are not.
    is_narrow = character < "\u0530" or "\u2000" <= character < "\u2300"
    return _EMS.get(character, 1.0 if is_narrow else 1.4)
