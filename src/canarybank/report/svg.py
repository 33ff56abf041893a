"""Draw in SVG: scales, axes and marks that take their colours from the page's theme.

Elements carry classes and no colours, so one drawing serves the light page, the dark one and the printed one. The tree
is built as elements, never as text, so that no label can close a tag. Which font a page is shown in depends on the
reader's machine, so text is laid out by the widths of the widest common default, DejaVu Sans: ``text_width``.
"""

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

__all__ = [
    "Box",
    "Canvas",
    "Drawn",
    "Key",
    "Scale",
    "decades",
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

TEXT_SIZES = {"": 13.0, "axis": 12.5, "entry-name": 12.0, "key": 12.5, "row-name": 13.0, "rung-name": 14.5}
TEXT_SIZES |= {"rung-note": 12.0, "small": 10.5, "tick": 12.0, "value": 15.0}
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
_GAP, _MARK_GAP = 16.0, 8.0
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


@dataclass(frozen=True, slots=True)
class Scale:
    """A map from values to places on the canvas, and the values that get a tick."""

    place: Callable[[float], float]
    ticks: tuple[tuple[float, str], ...]

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        return self.place(value)


def linear(low: float, high: float, start: float, end: float, *, count: int = 6) -> Scale:
    """Return a linear scale from values to places, with about so many round ticks."""
    width = (high - low) or 1.0
    return Scale(lambda value: start + (value - low) / width * (end - start), tuple(nice_ticks(low, high, count)))


def log(low: float, high: float, start: float, end: float) -> Scale:
    """Return a logarithmic scale that clamps to its ends, with a tick at each power of ten."""
    bottom, width = math.log10(low), (math.log10(high) - math.log10(low)) or 1.0

    def place(value: float) -> float:
        inside = min(max(value, low), high)
        return start + (math.log10(inside) - bottom) / width * (end - start)

    return Scale(place, tuple(decades(low, high)))


def nice_ticks(low: float, high: float, count: int) -> Iterable[tuple[float, str]]:
    """Return round values between two ends with their labels."""
    rough = (high - low) / max(count, 1)
    if rough <= 0:
        return [(low, f"{low:g}")]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(index * step, f"{round(index * step, 10):g}") for index in range(first, last + 1)]


def decades(low: float, high: float) -> Iterable[tuple[float, str]]:
    """Return the powers of ten between two ends with their labels."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [(10.0**power, _power(power)) for power in range(first, last + 1)]


def text_width(text: str, css: str = "") -> float:
    """Return how wide a text of some class can get, in pixels, in the widest common default font."""
    return sum(map(_em, text)) * TEXT_SIZES[css] * (_BOLD if css in BOLD_TEXT else 1.0)


def shortened(text: str, room: float, css: str = "") -> str:
    """Return a text, cut with an ellipsis where it could be wider than that many pixels."""
    if text_width(text, css) <= room:
        return text
    kept = next((n for n in range(len(text), 0, -1) if text_width(text[:n] + "…", css) <= room), 0)
    return text[:kept].rstrip() + "…"


@dataclass
class Canvas:
    """A drawing of some size; ``key`` names it uniquely on the page."""

    key: str
    width: float
    height: float
    title: str
    alternative: str
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
        ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
        self._add("line", css, ends)

    def rect(self, corner: Point, width: float, height: float, css: str, radius: float = 0) -> None:
        """Draw a box."""
        size = {"x": corner[0], "y": corner[1], "width": max(width, 0.0), "height": max(height, 0.0)}
        self._add("rect", css, size | ({"rx": radius} if radius else {}))

    def circle(self, centre: Point, radius: float, css: str, tip: str | None = None) -> None:
        """Draw a dot, with a tip for those who hover."""
        dot = self._add("circle", css, {"cx": centre[0], "cy": centre[1], "r": radius})
        if tip is not None:
            SubElement(dot, "title").text = tip

    def curve(self, points: Sequence[Point], css: str, *, closed: bool = False) -> None:
        """Draw a line through points."""
        steps = " ".join(f"{_number(x)} {_number(y)}" for x, y in points)
        if steps:
            self._path(f"M{steps}{'Z' if closed else ''}", css)

    def dots(self, points: Sequence[Point], css: str) -> None:
        """Draw many equal dots as one path of round caps, so that a thousand of them stay small."""
        if points:
            self._path("".join(f"M{_number(x)} {_number(y)}h0" for x, y in points), css)

    def diamond(self, centre: Point, radius: float, css: str) -> None:
        """Draw a square on its corner."""
        x, y = centre
        self.curve([(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)], css, closed=True)

    def text(self, at: Point, text: str, css: str = "", *, anchor: str = "start", turn: bool = False) -> None:
        """Write text at a place, or along the vertical axis."""
        written = self._add("text", css, {"x": at[0], "y": at[1]})
        if anchor != "start":
            written.set("text-anchor", anchor)
        if turn:
            written.set("transform", f"rotate(-90 {_number(at[0])} {_number(at[1])})")
        written.text = text

    def keys(self, left: float, y: float, keys: Sequence[Key]) -> None:
        """Write a legend in one line, further to the left where it could run out of the drawing."""
        widths = [_MARK_WIDTHS[shape] + _MARK_GAP + text_width(name, "key") + _GAP for shape, _, name in keys]
        at = max(0.0, min(left, self.width - sum(widths)))
        for key, width in zip(keys, widths, strict=True):
            self.key_at((at, y), key)
            at += width

    def key_at(self, place: Point, key: Key, room: float | None = None) -> None:
        """Write one entry of a legend: its mark, and its name beside it or after so much room."""
        (left, y), (shape, css, name) = place, key
        width, middle = _MARK_WIDTHS[shape], y - 4
        centre = (left + width / 2, middle)
        if shape == "circle":
            self.circle(centre, width / 2 - 0.6, css)
        elif shape == "diamond":
            self.diamond(centre, width / 2, css)
        elif shape == "dots":
            self.dots([centre], css)
        elif shape == "limit":
            self.line((centre[0], middle - 7), (centre[0], middle + 7), css)
        elif shape in {"line", "interval"}:
            self.line((left, middle), (left + width, middle), css)
        else:
            self.rect((left, middle - 6), width, 12, css, 3)
        if shape == "interval":
            self.circle((left, middle), 4, "mark-observed")
        self.text((left + (width + _MARK_GAP if room is None else room), y), name, "key")

    def axes(self, box: Box, x: Scale, y: Scale | None, x_name: str, y_name: str = "") -> None:
        """Draw grid lines, tick labels and the names of the axes around a box."""
        left, top, right, bottom = box
        for value, written in x.ticks:
            at = x(value)
            self.line((at, top), (at, bottom), "grid")
            self.text((at, bottom + 16), written, "tick", anchor="middle")
        for value, written in y.ticks if y else ():
            at = y(value) if y else 0.0
            self.line((left, at), (right, at), "grid")
            self.text((left - 8, at + 4), written, "tick", anchor="end")
        self.text(((left + right) / 2, bottom + 36), x_name, "axis", anchor="middle")
        if y_name:
            self.text((14, (top + bottom) / 2), y_name, "axis", anchor="middle", turn=True)

    def drawn(self, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Drawn:
        """Return the figure, with its numbers as a table."""
        table = tuple(map(tuple, rows))
        return Drawn(self.key, self.title, caption, self.alternative, self.markup(), tuple(columns), table)

    def markup(self) -> str:
        """Return the drawing as markup."""
        return tostring(self.root, encoding="unicode", short_empty_elements=True)

    def _path(self, path: str, css: str) -> None:
        SubElement(self.root, "path", {"d": path, "class": css})

    def _add(self, kind: str, css: str, numbers: dict[str, float]) -> Element:
        attributes = {name: _number(value) for name, value in numbers.items()}
        return SubElement(self.root, kind, attributes | ({"class": css} if css else {}))


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    # Latin, Greek, Cyrillic, punctuation and signs are within an em; Arabic letters, Han and emoji are not.
    is_narrow = character < "\u0530" or "\u2000" <= character < "\u2300"
    return _WIDTHS.get(character, 1.0 if is_narrow else 1.4)


def _power(power: int) -> str:
    return {0: "1", -1: "0.1", -2: "0.01"}.get(power, f"10{str(power).translate(_SUPERSCRIPTS)}")


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
