import re
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from matplotlib import get_data_path
from matplotlib.ft2font import FT2Font, LoadFlags

from canarybank.report.svg import (
    BOLD_TEXT,
    TEXT_SIZES,
    Canvas,
    key_lines,
    linear,
    log,
    nice_ticks,
    shortened,
    text_width,
)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1.7, [0, 0.5, 1, 1.5]), (-3, 3, [-2, 0, 2]), (0, 0.043, [0, 0.01, 0.02, 0.03, 0.04]), (2, 2, [2])],
)
def test_ticks_are_round(low, high, ticks):
    assert [value for value, _ in nice_ticks(low, high, 5)] == pytest.approx(ticks)


def test_powers_of_ten_have_readable_labels():
    assert [label for _, label in log(1e-4, 1.0, 0.0, 1.0).ticks] == ["10⁻⁴", "10⁻³", "0.01", "0.1", "1"]


def test_scales_map_ends_to_ends():
    x, y = linear(1.0, 3.0, 10.0, 110.0), log(1e-4, 1.0, 400.0, 0.0)
    assert (x(1.0), x(2.0), x(3.0)) == (10.0, 60.0, 110.0)
    assert (y(1e-4), y(1e-2), y(1.0), y(0.0), y(5.0)) == (400.0, pytest.approx(200.0), 0.0, 400.0, 0.0)


def test_an_empty_range_has_a_scale():
    assert linear(2.0, 2.0, 0.0, 10.0)(2.0) == 0.0


def canvas():
    return Canvas("k", 100, 50, "A title", "What it shows")


def test_no_label_can_close_a_tag(hostile):
    drawing = canvas()
    drawing.text((1, 1), hostile, 'x" onload="y')
    drawing.circle((1, 1), 2, "dot", hostile)
    root = ET.fromstring(drawing.drawn("", (), ()).svg)  # noqa: S314, our own markup
    assert {element.tag for element in root.iter()} == {"svg", "title", "desc", "text", "circle"}
    assert root.find("text").text == hostile
    assert root.find("text").get("onload") is None


def test_marks_stand_where_they_were_put():
    drawing = canvas()
    drawing.curve([(0, 0), (1.25, 2)], "c", closed=True)
    drawing.dots([(3, 4), (5, 6)], "d")
    drawing.rect((1, 2), -3, 4, "r", 2)
    drawing.diamond((10, 10), 2, "m")
    drawing.curve([], "none")
    root = ET.fromstring(drawing.drawn("", (), ()).svg)  # noqa: S314, our own markup
    assert [path.get("d") for path in root.findall("path")] == [
        "M0 0 1.2 2Z",
        "M3 4h0M5 6h0",
        "M10 8 12 10 10 12 8 10Z",
    ]
    assert root.find("rect").get("width") == "0"


def test_axes_name_both_directions():
    drawing = canvas()
    scale = linear(0, 1, 10, 90)
    drawing.axes((10, 5, 90, 40), scale, "along", linear(0, 1, 40, 5), "up")
    texts = [text.text for text in ET.fromstring(drawing.drawn("", (), ()).svg).findall("text")]  # noqa: S314, our own markup
    assert {"along", "up", "0", "1"} <= set(texts)


@pytest.mark.parametrize(("css", "name"), [("key", "DejaVuSans.ttf"), ("row-name", "DejaVuSans-Bold.ttf")])
def test_a_text_is_no_wider_in_the_widest_default_font_than_we_reckon(css, name):
    font = FT2Font(str(Path(get_data_path()) / "fonts" / "ttf" / name))
    for code in (*range(32, 127), *map(ord, "éßØ€–—…−×⁻¹²³Ωжفصक")):
        if font.get_char_index(code):
            advance = font.load_char(code, flags=LoadFlags.NO_SCALE).horiAdvance / font.units_per_EM
            assert advance * TEXT_SIZES[css] <= text_width(chr(code), css) + 1e-9, chr(code)
    assert text_width("漢", css) > TEXT_SIZES[css]


def test_sizes_and_weights_of_text_are_those_of_the_style_sheet():
    style = files("canarybank.report").joinpath("style.css").read_text()
    sizes, bold = {"": float(re.search(r"^svg text { font: (\d+)px", style, re.MULTILINE)[1])}, set()
    for names, rule in re.findall(r"^(svg \.[^{]*){([^}]*)}", style, re.MULTILINE):
        for name in re.findall(r"\.([\w-]+)", names):
            if size := re.search(r"font-size: ([\d.]+)px", rule):
                sizes[name] = float(size[1])
            if weight := re.search(r"font-weight: (\d+)", rule):
                assert int(weight[1]) > 500
                bold.add(name)
    assert sizes == TEXT_SIZES
    assert bold == BOLD_TEXT


@pytest.mark.parametrize(
    "text", ["", "short", "a longer text than there is room for", "漢字" * 30, "😀" * 30, "e\u0301" * 90]
)
def test_a_shortened_text_fits_and_one_that_fits_is_left_alone(text):
    short = shortened(text, 100, "entry-name")
    assert text_width(short, "entry-name") <= 100
    assert (short == text) == (text_width(text, "entry-name") <= 100)
    assert text.startswith(short.removesuffix("…"))


def test_a_legend_stays_in_its_drawing():
    drawing = Canvas("k", 300, 50, "A title", "What it shows")
    drawing.keys(200, 18, [("circle", "mark-rule", "first key"), ("circle", "mark-rule", "second")])
    drawn = [float(mark.get("cx")) for mark in ET.fromstring(drawing.drawn("", (), ()).svg).findall("circle")]  # noqa: S314
    texts = ET.fromstring(drawing.drawn("", (), ()).svg).findall("text")  # noqa: S314, our own markup
    ends = [float(text.get("x")) + text_width(text.text, "key") for text in texts]
    assert [text.text for text in texts] == ["first key", "second"]
    assert 0 <= drawn[0] < ends[0] < drawn[1] < ends[1] <= 300


@pytest.mark.parametrize("shape", ["circle", "diamond", "dots", "interval", "limit", "line", "rect"])
def test_every_mark_of_a_legend_is_drawn_beside_its_name(shape):
    drawing = Canvas("k", 300, 50, "A title", "What it shows")
    drawing.keys(10, 18, [(shape, "mark-rule", "a name")])
    marks = [each for each in ET.fromstring(drawing.drawn("", (), ()).svg) if each.get("class") == "mark-rule"]  # noqa: S314
    assert len(marks) == 1


def test_a_legend_takes_as_many_lines_as_it_needs():
    keys = [("line", "a", "x" * 20) for _ in range(4)]
    assert [len(line) for line in key_lines(keys, 10_000)] == [4]
    assert [len(line) for line in key_lines(keys, 1)] == [1, 1, 1, 1]
    assert key_lines(keys, 450) == [keys[:2], keys[2:]]
