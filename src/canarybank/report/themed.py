"""Put a figure of matplotlib into a page: its colours become those of the page's theme, light or dark.

The drawing keeps its shapes. Each colour that it was drawn with is a placeholder for a colour of the theme; styles
become attributes, which the page's policy allows; and ids get the figure's name in front, so that several figures fit
on one page.
"""

import re
from typing import Final
from xml.etree import ElementTree as ET

__all__ = ["PLACEHOLDERS", "themed_svg"]

PLACEHOLDERS: Final = {
    "#000000": "ink",
    "#1b1f27": "ink",
    "#ffffff": "paper",
    "#e1e5ea": "faint",
    "#c6ccd5": "line",
    "#7c8696": "other",
    "#0b5fa5": "exact",
    "#c2410c": "canary",
    "#4d7c0f": "leaf",
    "#7c3aed": "violet",
    "#d4a017": "gold",
    "#0f766e": "teal",
    "#be185d": "rose",
    "#475569": "slate",
}
"""The colours that figures are drawn with, and the name that each has in style.css."""
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#(.*?)\)")


def themed_svg(drawn: bytes, key: str, title: str, alternative: str) -> str:
    """Return a drawing of matplotlib as markup for a page, with a title and a text for those who do not see it.

    Args:
        drawn: An SVG file of matplotlib, drawn in the placeholder colours.
        key: A name that no other figure of the page has.
        title: The title that a screen reader says.
        alternative: What the figure shows, in words.
    """
    root = ET.fromstring(drawn)  # noqa: S314, matplotlib wrote it a moment ago
    for part in [each for each in root if each.tag == f"{_SVG}metadata"]:
        root.remove(part)
    for parent in list(root.iter()):
        for part in [each for each in parent if each.tag == f"{_SVG}style"]:
            parent.remove(part)
    for each in root.iter():
        each.tag = each.tag.removeprefix(_SVG)
        for name, value in _styles(each.attrib.pop("style", "")):
            each.set(name, value)
        if (target := each.attrib.pop(_LINK, None)) is not None:
            each.set("href", f"#{key}-{target.removeprefix('#')}")
        if "id" in each.attrib:
            each.set("id", f"{key}-{each.attrib['id']}")
        for name, value in list(each.attrib.items()):
            each.set(name, _REFERENCE.sub(rf"url(#{key}-\1)", _themed(value)))
    box = root.attrib["viewBox"]
    root.attrib.clear()
    words = {"title": title, "desc": alternative}
    root.attrib |= {
        "viewBox": box,
        "role": "img",
        "class": "figure-svg drawn",
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


def _styles(style: str) -> list[tuple[str, str]]:
    """Return the declarations of a style attribute as names and values."""
    pairs = (part.partition(":") for part in style.split(";") if part.strip())
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _themed(value: str) -> str:
    name = PLACEHOLDERS.get(value.lower())
    return value if name is None else f"var(--{name})"
