"""Put figures of matplotlib into a page: no style, no colour of their own, no id twice."""

import re
from xml.etree import ElementTree as ET

import pytest

from canarybank.report import render_pieces
from canarybank.report.paper import figure_bytes
from canarybank.report.themed import PLACEHOLDERS, themed_svg


@pytest.fixture(scope="module")
def figures(table, curves, rounds, grid):
    return {
        piece.name: themed_svg(figure_bytes(piece, "svg"), piece.name, "T < t", "words & more")
        for piece in (table, curves, rounds, grid)
    }


def test_every_colour_is_one_of_the_theme(figures):
    for markup in figures.values():
        assert re.findall(r"#[0-9a-f]{6}\b", markup) == []
        assert {f"var(--{name})" for name in ("ink", "paper", "faint")} <= set(re.findall(r"var\(--\w+\)", markup))
        assert set(re.findall(r"var\(--(\w+)\)", markup)) <= set(PLACEHOLDERS.values())


def test_nothing_in_it_needs_a_style_that_the_policy_forbids(figures):
    for markup in figures.values():
        root = ET.fromstring(markup)  # noqa: S314, our own markup
        assert not [each for each in root.iter() if "style" in each.attrib or each.tag in {"style", "metadata"}]
        assert (root.find("title").text, root.find("desc").text) == ("T < t", "words & more")


def test_ids_and_what_points_at_them_are_the_figures_own(figures):
    for key, markup in figures.items():
        ids = re.findall(r'\bid="([^"]+)"', markup)
        assert len(ids) == len(set(ids))
        assert all(name.startswith(f"{key}-") for name in ids)
        targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', markup)
        assert targets
        assert {one or other for one, other in targets} <= set(ids)


def test_two_pieces_stand_on_one_page_without_an_image(table, rounds):
    html = render_pieces((table, rounds))
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert "<img" not in html
    # Each is drawn twice: for a wide screen, and with its panels below each other for a narrow one.
    assert html.count("<svg") == html.count("figure-svg drawn") == 4
    assert html.count('class="at-narrow"') == 2
