"""Put a figure of matplotlib into a page: its colours become those of the page's theme, light or dark.

The drawing keeps its shapes. Each colour that it was drawn with is a placeholder for a colour of the theme; styles
become attributes, which the page's policy allows; the page's own font takes the place of matplotlib's; ids get the
figure's name in front, so that several figures fit on one page; and what nobody sees is dropped: ids that nothing
points at, groups without attributes, blanks, and digits of places below a hundredth of a pixel.
"""

import re
from collections.abc import Callable
from typing import Final
from xml.etree import ElementTree as ET

__all__ = ["COLOURS", "themed_svg"]

COLOURS: Final = {
    "ink": "#1b1f27",
    "soft": "#545d6b",
    "paper": "#ffffff",
    "faint": "#e1e5ea",
    "line": "#c6ccd5",
    "lost": "#e9ecf1",
    "other": "#7c8696",
    "exact": "#0b5fa5",
    "exact-soft": "#dbe9f6",
    "canary": "#c2410c",
    "alarm": "#b3261e",
    "leaf": "#4d7c0f",
    "violet": "#7c3aed",
    "gold": "#d4a017",
    "teal": "#0f766e",
    "rose": "#be185d",
    "slate": "#475569",
}
"""The colours that figures are drawn with, by the name that each has in style.css."""
_NAMES = {colour: name for name, colour in COLOURS.items()} | {"#000000": "ink"}
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#(.*?)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_STRAIGHT = re.compile(r"[ML\d. -]+z?")
_PLACES = frozenset({"d", "x", "y", "width", "height"})
_FONT = re.compile(r"(?:(?P<weight>\d+|bold) )?(?P<size>[\d.]+px)")


def themed_svg(drawn: bytes, key: str, title: str, alternative: str) -> str:
    """Return a drawing of matplotlib as markup for a page, with a title and a text for those who do not see it.

    Args:
        drawn: An SVG file of matplotlib, drawn in the placeholder colours.
        key: A name that no other figure of the page has.
        title: The title that a screen reader says.
        alternative: What the figure shows, in words.
    """
    root = ET.fromstring(drawn)  # noqa: S314, matplotlib wrote it a moment ago
    _remove(root, lambda each: each.tag in {f"{_SVG}metadata", f"{_SVG}style"})
    pointed_at = set(re.findall(r'(?:href="|url\()#([^")]+)', drawn.decode()))
    for each in root.iter():
        _theme(each, key, pointed_at)
    _remove(root, lambda each: each.tag in {"g", "defs"} and not len(each))
    _unwrap(root)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    words = {"title": title, "desc": alternative}
    root.attrib |= {
        "viewBox": box,
        "role": "img",
        "class": "figure-svg",
        "aria-labelledby": " ".join(f"{key}-{name}" for name in words),
        "fill": "var(--ink)",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    for place, (name, text) in enumerate(words.items()):
        element = ET.Element(name, {"id": f"{key}-{name}"})
        element.text = text
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _remove(root: ET.Element, is_dropped: Callable[[ET.Element], bool]) -> None:
    """Remove elements, the innermost first: one that is empty then may go too."""
    for parent in reversed(list(root.iter())):
        for part in [each for each in parent if is_dropped(each)]:
            parent.remove(part)


def _unwrap(parent: ET.Element) -> None:
    """Put what stands in groups without attributes in their place."""
    for part in list(parent):
        _unwrap(part)
        if part.tag == "g" and not part.attrib:
            place = list(parent).index(part)
            parent[place : place + 1] = list(part)


def _theme(each: ET.Element, key: str, pointed_at: set[str]) -> None:
    """Give an element the theme's colours, short numbers and the figure's own ids, where something points at them."""
    each.tag = each.tag.removeprefix(_SVG)
    each.text, each.tail = each.text if each.tag == "text" else None, None
    target, name = each.attrib.pop(_LINK, None), each.attrib.pop("id", None)
    for style, value in _styles(each.attrib.pop("style", "")):
        each.set(style, value)
    for attribute, value in list(each.attrib.items()):
        shown = _LONG_NUMBER.sub(_rounded, value) if attribute in _PLACES else _themed(value)
        each.set(attribute, " ".join(_REFERENCE.sub(rf"url(#{key}-\1)", shown).split()))
    if target is not None:
        each.set("href", f"#{key}-{target.removeprefix('#')}")
    if name in pointed_at:
        each.set("id", f"{key}-{name}")
    if each.get("transform", "").startswith("rotate(-0 "):
        del each.attrib["transform"]
    if _STRAIGHT.fullmatch(path := each.get("d", "")):
        each.set("d", path.replace(" L ", " "))  # points that follow a point are joined by lines as it is


def _styles(style: str) -> list[tuple[str, str]]:
    """Return the declarations of a style attribute as attributes; the font's family is left to the page."""
    pairs = [tuple(map(str.strip, part.split(":", 1))) for part in style.split(";") if part.strip()]
    found = []
    for name, value in pairs:
        if name == "font" and (short := _FONT.match(value)):
            found += [(f"font-{key}", part) for key, part in short.groupdict().items() if part is not None]
        elif name != "font-family":
            found.append((name, value))
    return found


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _themed(value: str) -> str:
    name = _NAMES.get(value.lower())
    return value if name is None else f"var(--{name})"
