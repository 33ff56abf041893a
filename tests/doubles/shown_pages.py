"""Read a page as people do: its tables, its figures, and its words."""

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree as ET

from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font, LoadFlags


def table_of(page: str, name: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the heads and the rows of the table with an id."""
    found = re.search(rf'<table id="{re.escape(name)}".*?</table>', page, re.DOTALL)
    assert found, f"no table {name!r}"
    head, _, body = found[0].partition("</thead>")
    heads = tuple(_cells(r"<th[^>]*>(.*?)</th>", head))
    return heads, [tuple(_cells(r"<td[^>]*>(.*?)</td>", row)) for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)]


def drawing_of(page: str, key: str) -> str:
    """Return the drawing of the figure with a key."""
    return re.search(r"<svg.*?</svg>", _figure(page, key), re.DOTALL)[0]


def caption_of(page: str, key: str) -> str:
    """Return what stands below the figure with a key."""
    return text_of(re.search(r"<figcaption>(.*?)</figcaption>", _figure(page, key), re.DOTALL)[1])


def alternative_of(page: str, key: str) -> str:
    """Return the figure with a key in words."""
    return text_of(re.search(r"</summary>\s*<p>(.*?)</p>", _figure(page, key), re.DOTALL)[1])


def text_of(page: str) -> str:
    """Return what a reader sees of a page, or of a part of one."""
    seen = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(seen).split())


def misplaced_texts(svg: str) -> Iterator[str]:
    """Yield the texts that leave their drawing in the widest font that a system has by default.

    Sizes and weights are those of the style sheet. The font comes with matplotlib, so it is here on every machine.
    """
    root = ET.fromstring(svg)  # noqa: S314, our own markup
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for text in root.findall("text"):
        reach = _reach(text.text or "", text.get("class", ""))
        at, end = (float(text.attrib["x"]), width)
        if text.get("transform") is not None:
            at, end = float(text.attrib["y"]), height
        left = at - {"start": 0.0, "middle": reach / 2, "end": reach}[text.get("text-anchor", "start")]
        if left < -1 or left + reach > end + 1:
            yield text.text or ""


def _reach(text: str, css: str) -> float:
    """Return how many pixels a text takes; a character that the font has not is taken as wide as it is high."""
    sizes, bold = _styles()
    font, size = _font("DejaVuSans-Bold.ttf" if css in bold else "DejaVuSans.ttf"), sizes.get(css, sizes[""])
    widths = (
        font.load_char(ord(each), flags=LoadFlags.NO_SCALE).horiAdvance / font.units_per_EM
        if font.get_char_index(ord(each))
        else 1.0
        for each in text
    )
    return size * sum(widths)


@cache
def _font(name: str) -> FT2Font:
    return FT2Font(str(Path(get_data_path()) / "fonts" / "ttf" / name))


@cache
def _styles() -> tuple[dict[str, float], set[str]]:
    """Return the size of text by its class, and the classes in bold, as the style sheet says."""
    style = resources.files("canarybank.report").joinpath("style.css").read_text(encoding="utf-8")
    plain = re.search(r"^svg text { font: (\d+)px", style, re.MULTILINE)
    assert plain
    sizes, bold = {"": float(plain[1])}, set()
    for names, rule in re.findall(r"^(svg \.[^{]*){([^}]*)}", style, re.MULTILINE):
        for name in re.findall(r"\.([\w-]+)", names):
            if size := re.search(r"font-size: ([\d.]+)px", rule):
                sizes[name] = float(size[1])
            if "font-weight" in rule:
                bold.add(name)
    return sizes, bold


def _figure(page: str, key: str) -> str:
    found = re.search(rf'<figure id="figure-{re.escape(key)}">.*?</figure>', page, re.DOTALL)
    assert found, f"no figure {key!r}"
    return found[0]


def _cells(pattern: str, markup: str) -> list[str]:
    return [unescape(re.sub(r"<[^>]*>", "", each)).strip() for each in re.findall(pattern, markup, re.DOTALL)]
