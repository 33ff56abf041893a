from xml.etree import ElementTree as ET

import pytest

from canarybank.report.svg import Canvas, Frame, decades, linear, log, nice_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 1.7, [0, 0.5, 1, 1.5]), (-3, 3, [-2, 0, 2]), (0, 0.043, [0, 0.01, 0.02, 0.03, 0.04]), (2, 2, [2])],
)
def test_ticks_are_round(low, high, ticks):
    assert [value for value, _ in nice_ticks(low, high, 5)] == pytest.approx(ticks)


def test_powers_of_ten_have_readable_labels():
    assert [label for _, label in decades(1e-4, 1.0)] == ["10⁻⁴", "10⁻³", "0.01", "0.1", "1"]


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
    root = ET.fromstring(drawing.markup())  # noqa: S314, our own markup
    assert {element.tag for element in root.iter()} == {"svg", "title", "desc", "text", "circle"}
    assert root.find("text").text == hostile
    assert root.find("text").get("onload") is None


def test_a_drawing_names_its_title_and_description():
    root = ET.fromstring(canvas().markup())  # noqa: S314, our own markup
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [root.find("title").get("id"), root.find("desc").get("id")]
    assert (root.find("title").text, root.find("desc").text) == ("A title", "What it shows")


def test_marks_stand_where_they_were_put():
    drawing = canvas()
    drawing.curve([(0, 0), (1.25, 2)], "c", closed=True)
    drawing.dots([(3, 4), (5, 6)], "d")
    drawing.rect((1, 2), -3, 4, "r", 2)
    drawing.diamond((10, 10), 2, "m")
    drawing.curve([], "none")
    root = ET.fromstring(drawing.markup())  # noqa: S314, our own markup
    assert [path.get("d") for path in root.findall("path")] == [
        "M0 0 1.2 2Z",
        "M3 4h0M5 6h0",
        "M10 8 12 10 10 12 8 10Z",
    ]
    assert root.find("rect").get("width") == "0"


def test_axes_name_both_directions():
    drawing = canvas()
    scale = linear(0, 1, 10, 90)
    Frame(10, 5, 90, 40).axes(drawing, scale, linear(0, 1, 40, 5), "along", "up")
    texts = [text.text for text in ET.fromstring(drawing.markup()).findall("text")]  # noqa: S314, our own markup
    assert {"along", "up", "0", "1"} <= set(texts)
