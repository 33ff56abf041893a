"""Draw in SVG: scales, axes and marks that take their colours from the page's theme.

Elements carry classes and no colours, so one drawing serves the light page, the dark one and the printed one. The tree
is built as elements, never as text, so that no label can close a tag. Which font a page is shown in depends on the
reader's machine, so text is laid out by the widths of the widest common default, DejaVu Sans: ``text_width``.
"""

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

__all__ = [
    "BELOW",
    "NARROW",
    "WIDE",
    "Box",
    "Canvas",
    "Drawn",
    "Key",
    "Scale",
    "key_lines",
    "key_room",
    "linear",
    "log",
    "nice_ticks",
    "shortened",
    "text_width",
]

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""The frame of a plot inside its canvas: left, top, right, bottom."""
Key = tuple[str, str, str]
"""One entry of a legend: the shape of its mark, the class of the mark, and its name."""

WIDE, NARROW, BELOW = 820.0, 400.0, 44.0
"""The width of a figure that takes the whole page, its width on a telephone, and the room below its axis."""
TEXT_SIZES = {
    "": 13.0,
    "axis": 12.5,
    "entry-name": 12.0,
    "key": 12.5,
    "row-name": 13.0,
    "rung-name": 14.5,
    "rung-note": 12.0,
    "small": 10.5,
    "tick": 12.0,
    "value": 15.0,
}
"""The size in pixels of each class of text, as in style.css."""
BOLD_TEXT = frozenset({"row-name", "rung-name", "value"})
_BOLD = 1.27
# Hundredths of an em, from the space to the tilde.
_ASCII = """
32 41 46 84 64 96 78 28 40 40 50 84 32 37 32 34 64 64 64 64 64 64 64 64 64 64 34 34 84 84 84 54 100 69 69 70 78 64 58
78 76 30 30 66 56 87 75 79 61 79 70 64 62 74 69 99 69 62 69 40 34 40 84 50 50 62 64 55 64 62 36 64 64 28 28 58 28 98 64
62 64 64 42 53 40 64 60 82 60 60 53 64 34 64 84
"""
_WIDTHS = {chr(code): int(width) / 100 for code, width in enumerate(_ASCII.split(), start=32)}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_GAP, _MARK_GAP, _KEY_LINE = 16.0, 8.0, 18.0
_MARK_WIDTHS = {
    "circle": 10.0,
    "diamond": 12.0,
    "dots": 7.0,
    "interval": 34.0,
    "limit": 2.0,
    "line": 24.0,
    "rect": 22.0,
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawing with what stands for it where it cannot be seen: a text alternative, and the numbers as a table."""

    key: str
    title: str
    caption: str
    alternative: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    narrow: str = ""
    """The same drawn for a narrow screen, where the drawing is too wide for one."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A map from values to places on the canvas, and the values that get a tick."""

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return self.place(value)


NO_SCALE = Scale(float, ())


def linear(low: float, high: float, start: float, end: float, *, count: int = 6) -> Scale:
    """Return a linear scale from values to places, with about so many round ticks."""
    width = (high - low) or 1.0
    return Scale(lambda value: start + (value - low) / width * (end - start), tuple(nice_ticks(low, high, count)))


def log(low: float, high: float, start: float, end: float) -> Scale:
    """Return a logarithmic scale that clamps to its ends, with a tick at each power of ten."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    names = {0: "1", -1: "0.1", -2: "0.01"}
    ticks = [
        (10.0**power, names.get(power, f"10{str(power).translate(_SUPERSCRIPTS)}")) for power in range(first, last + 1)
    ]
    place = linear(math.log10(low), math.log10(high), start, end).place
    return Scale(lambda value: place(math.log10(min(max(value, low), high))), tuple(ticks))


def nice_ticks(low: float, high: float, count: int) -> Iterable[tuple[float, str]]:
    """Return round values between two ends with their labels."""
    rough = (high - low) / max(count, 1)
    if rough <= 0:
        return [(low, f"{low:g}")]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(index * step, f"{round(index * step, 10):g}") for index in range(first, last + 1)]


def text_width(text: str, css: str = "") -> float:
    """Return how wide a text of some class can get, in pixels, in the widest common default font."""
    return sum(map(_em, text)) * TEXT_SIZES[css] * (_BOLD if css in BOLD_TEXT else 1.0)


def key_width(key: Key) -> float:
    """Return the room that an entry of a legend takes in a line."""
    shape, _, name = key
    return _MARK_WIDTHS[shape] + _MARK_GAP + text_width(name, "key") + _GAP


def key_lines(keys: Sequence[Key], width: float) -> list[list[Key]]:
    """Return the entries of a legend in as many lines as they need, each at most that wide."""
    lines: list[list[Key]] = [[]]
    for key in keys:
        if lines[-1] and sum(map(key_width, (*lines[-1], key))) - _GAP > width:
            lines.append([])
        lines[-1].append(key)
    return lines


def key_room(keys: Sequence[Key], width: float) -> float:
    """Return the room that the lines of a legend after its first take."""
    return _KEY_LINE * (len(key_lines(keys, width)) - 1)


def shortened(text: str, room: float, css: str = "") -> str:
    """Return a text, cut with an ellipsis where it could be wider than that many pixels."""
    if text_width(text, css) <= room:
        return text
    kept = next((n for n in range(len(text), 0, -1) if text_width(text[:n] + "…", css) <= room), 0)
    return text[:kept].rstrip() + "…"


@dataclass
class Canvas:
    """A drawing of some size; ``key`` names it uniquely on the page, and ``narrow`` is the same for a telephone."""

    key: str
    width: float
    height: float
    title: str
    alternative: str
    narrow: "Canvas | None" = None
    root: Element = field(init=False)

    def __post_init__(self) -> None:
        self.root = Element(
            "svg",
            {
                "viewBox": f"0 0 {self.width:g} {self.height:g}",
                "role": "img",
                "aria-labelledby": f"{self.key}-title {self.key}-desc",
                "class": "figure-svg",
            },
        )
        SubElement(self.root, "title", {"id": f"{self.key}-title"}).text = self.title
        SubElement(self.root, "desc", {"id": f"{self.key}-desc"}).text = self.alternative

    def line(self, start: Point, end: Point, css: str) -> None:
        """Draw a straight line."""
        self._add("line", {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1], "class": css})

    def whisker(self, start: Point, end: Point, cap: Point, css: str) -> None:
        """Draw a straight line with a cap over each end: from the end one way and the other."""
        self.line(start, end, css)
        for x, y in (start, end):
            self.line((x - cap[0], y - cap[1]), (x + cap[0], y + cap[1]), css)

    def rect(self, corner: Point, width: float, height: float, css: str, radius: float = 0) -> None:
        """Draw a box."""
        size = {"width": max(width, 0.0), "height": max(height, 0.0), "rx": radius or None}
        self._add("rect", {"x": corner[0], "y": corner[1], **size, "class": css})

    def circle(self, centre: Point, radius: float, css: str, tip: str | None = None) -> None:
        """Draw a dot, with a tip for those who hover."""
        dot = self._add("circle", {"cx": centre[0], "cy": centre[1], "r": radius, "class": css})
        if tip is not None:
            SubElement(dot, "title").text = tip

    def curve(self, points: Sequence[Point], css: str, *, closed: bool = False) -> None:
        """Draw a line through points."""
        steps = " ".join(f"{_number(x)} {_number(y)}" for x, y in points)
        if steps:
            self._add("path", {"d": f"M{steps}{'Z' if closed else ''}", "class": css})

    def dots(self, points: Sequence[Point], css: str) -> None:
        """Draw many equal dots as one path of round caps, so that a thousand of them stay small."""
        if points:
            self._add("path", {"d": "".join(f"M{_number(x)} {_number(y)}h0" for x, y in points), "class": css})

    def diamond(self, centre: Point, radius: float, css: str) -> None:
        """Draw a square on its corner."""
        x, y = centre
        self.curve([(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)], css, closed=True)

    def text(self, at: Point, text: str, css: str = "", *, anchor: str | None = None, turn: bool = False) -> None:
        """Write text at a place, or along the vertical axis."""
        turned = f"rotate(-90 {_number(at[0])} {_number(at[1])})" if turn else None
        self._add(
            "text", {"x": at[0], "y": at[1], "class": css, "text-anchor": anchor, "transform": turned}
        ).text = text

    def keys(self, left: float, y: float, keys: Sequence[Key]) -> None:
        """Write a legend in one line, further to the left where it could run out of the drawing; in more if need be."""
        for line in key_lines(keys, self.width):
            at = max(0.0, min(left, self.width - sum(map(key_width, line))))
            for key in line:
                self.key_at((at, y), key)
                at += key_width(key)
            y += _KEY_LINE

    def legend(self, corner: Point, keys: Sequence[Key]) -> None:
        """Write a legend in a box with this lower right corner, an entry a line."""
        width = 46 + max(text_width(name, "key") for *_, name in keys)
        left, top = corner[0] - width + 2, corner[1] - _KEY_LINE * len(keys)
        self.rect((left - 8, top - 8), width, corner[1] - top + 8, "legend", 4)
        for row, key in enumerate(keys):
            self.key_at((left, top + 8 + _KEY_LINE * row), key, room=32)

    def key_at(self, place: Point, key: Key, room: float | None = None) -> None:
        """Write one entry of a legend: its mark, and its name beside it or after so much room."""
        (left, y), (shape, css, name) = place, key
        width, middle = _MARK_WIDTHS[shape], y - 4
        across = left + width / 2
        line = partial(self.line, (left, middle), (left + width, middle))
        mark = {
            "circle": partial(self.circle, (across, middle), width / 2 - 0.6),
            "diamond": partial(self.diamond, (across, middle), width / 2),
            "dots": partial(self.dots, [(across, middle)]),
            "interval": line,
            "limit": partial(self.line, (across, middle - 7), (across, middle + 7)),
            "line": line,
            "rect": partial(self.rect, (left, middle - 6), width, 12, radius=3),
        }
        mark[shape](css)
        if shape == "interval":
            self.circle((left, middle), 4, "mark-observed")
        self.text((left + (width + _MARK_GAP if room is None else room), y), name, "key")

    def axes(self, box: Box, x: Scale, x_name: str, y: Scale = NO_SCALE, y_name: str = "") -> None:
        """Draw grid lines, tick labels and the names of the axes around a box; without ``y``, of one axis alone."""
        left, top, right, bottom = box
        for value, written in x.ticks:
            self.line((x(value), top), (x(value), bottom), "grid")
            self.text((x(value), bottom + 16), written, "tick", anchor="middle")
        for value, written in y.ticks:
            self.line((left, y(value)), (right, y(value)), "grid")
            self.text((left - 8, y(value) + 4), written, "tick", anchor="end")
        self.text(((left + right) / 2, bottom + 36), x_name, "axis", anchor="middle")
        if y_name:
            self.text((14, (top + bottom) / 2), y_name, "axis", anchor="middle", turn=True)

    def drawn(self, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Drawn:
        """Return the figure, with its numbers as a table."""
        return Drawn(
            self.key,
            self.title,
            caption,
            self.alternative,
            self.markup,
            tuple(columns),
            tuple(map(tuple, rows)),
            "" if self.narrow is None else self.narrow.markup,
        )

    @property
    def markup(self) -> str:
        """Return the drawing as SVG."""
        return tostring(self.root, encoding="unicode")

    def _add(self, kind: str, attributes: Mapping[str, str | float | None]) -> Element:
        """Add an element with its attributes, without those that are empty."""
        known = {name: value for name, value in attributes.items() if value not in {None, ""}}
        written = {name: value if isinstance(value, str) else _number(value) for name, value in known.items()}
        return SubElement(self.root, kind, written)


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    # Latin, Greek, Cyrillic, punctuation and signs are within an em; Arabic letters, Han and emoji are not.
    is_narrow = character < "\u0530" or "\u2000" <= character < "\u2300"
    return _WIDTHS.get(character, 1.0 if is_narrow else 1.4)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
