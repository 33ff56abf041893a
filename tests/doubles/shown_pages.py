"""Read a page as people do: its tables, its figures, and its words."""

import re
from html import unescape


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


def _figure(page: str, key: str) -> str:
    found = re.search(rf'<figure id="figure-{re.escape(key)}">.*?</figure>', page, re.DOTALL)
    assert found, f"no figure {key!r}"
    return found[0]


def _cells(pattern: str, markup: str) -> list[str]:
    return [unescape(re.sub(r"<[^>]*>", "", each)).strip() for each in re.findall(pattern, markup, re.DOTALL)]
