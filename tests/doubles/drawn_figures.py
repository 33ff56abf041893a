"""Read a figure of matplotlib as its artists have it, and its markup as a browser has it."""

from pathlib import Path
from xml.etree import ElementTree as ET

from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font, LoadFlags

FONTS = Path(get_data_path()) / "fonts" / "ttf"


def labelled(drawn, label):
    """Return the patches and lines of a figure with a label; a legend shows those that do not begin with "_"."""
    return [
        artist
        for axes in drawn.figure.axes
        for artist in (*axes.patches, *axes.lines, *axes.collections)
        if artist.get_label() == label
    ]


def bars(drawn, label):
    """Return the bars of a figure with a label."""
    held = [each for axes in drawn.figure.axes for each in axes.containers if each.get_label() == label]
    return [patch for container in held for patch in container.patches]


def words(drawn):
    """Return the texts that a figure shows."""
    return [text.text for text in ET.fromstring(drawn.svg).iter("text")]  # noqa: S314, our own markup


def out_of(drawn):
    """Return the texts that leave the drawing in the widest common default font."""
    root = ET.fromstring(drawn.svg)  # noqa: S314, our own markup
    _, _, width, height = map(float, root.get("viewBox").split())
    found = []
    for text in root.iter("text"):
        is_turned = "-90" in text.get("transform", "")
        room = height if is_turned else width
        at = float(text.get("transform").split()[2].rstrip(")")) if is_turned else float(text.get("x"))
        long = reach(text.text, float(text.get("font-size").removesuffix("px")), bold="font-weight" in text.attrib)
        left = at - {"end": long, "middle": long / 2}.get(text.get("text-anchor"), 0.0)
        if left < -1 or left + long > room + 1:
            found.append(text.text)
    return found


def reach(text, size, *, bold=False):
    """Return how wide a text is in DejaVu Sans; a letter that it lacks is as wide as those of Han."""
    font = FT2Font(str(FONTS / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")))
    return size * sum(_em(font, ord(letter)) for letter in text)


def _em(font, code):
    if not font.get_char_index(code):
        return 1.0
    return font.load_char(code, flags=LoadFlags.NO_SCALE).horiAdvance / font.units_per_EM
