"""Put figures of matplotlib into a page: no style, no colour of their own, no id twice."""

import re
from xml.etree import ElementTree as ET

import pytest
from shown_pages import drawing_of

from canarybank.report import render_pieces, write_pieces


@pytest.fixture(scope="module")
def pieces(table, curves, rounds, grid):
    made = (table, curves, rounds, grid)
    return [piece.model_copy(update={"title": "T < t"}) for piece in made]


@pytest.fixture(scope="module")
def page(pieces):
    return render_pieces(pieces)


@pytest.fixture(scope="module")
def figures(pieces, page):
    return {piece.name: drawing_of(page, piece.name) for piece in pieces}


def test_every_colour_is_one_of_the_theme(figures, page):
    for markup in figures.values():
        assert re.findall(r"#[0-9a-f]{6}\b", markup) == []
        assert {f"var(--{name})" for name in ("ink", "paper", "faint")} <= set(re.findall(r"var\(--\w+\)", markup))
        assert all(f"--{name}:" in page for name in re.findall(r"var\(--(\w+)\)", markup))


def test_nothing_in_it_needs_a_style_that_the_policy_forbids(figures):
    for markup in figures.values():
        root = ET.fromstring(markup)  # noqa: S314, our own markup
        assert not [each for each in root.iter() if "style" in each.attrib or each.tag in {"style", "metadata"}]
        assert root.find("title").text == "T < t"
        assert root.find("desc").text.startswith("T < t. ")


def test_no_group_is_there_for_nothing(figures):
    for markup in figures.values():
        assert "<g>" not in markup
        assert "<g " in markup  # those that move or clip what they hold


def test_ids_and_what_points_at_them_are_the_figures_own(figures):
    for key, markup in figures.items():
        ids = re.findall(r'\bid="([^"]+)"', markup)
        assert len(ids) == len(set(ids))
        assert all(name.startswith(f"{key}-") for name in ids)
        targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', markup)
        assert targets
        assert {one or other for one, other in targets} <= set(ids)


def test_several_pieces_stand_on_one_page_without_an_image(pieces, page):
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert "<img" not in page
    # Each is drawn twice: for a wide screen, and with its panels below each other for a narrow one.
    assert page.count("<svg") == 2 * len(pieces)
    assert page.count('class="at-narrow"') == len(pieces)


def test_letters_that_are_shapes_keep_their_size_and_place(table, figures, tmp_path):
    """A letter's shape is scaled by a small number: rounded like a place, letters would run into each other."""
    write_pieces([table], tmp_path)
    scales = r"scale\(([\d.]+)"
    written = set(re.findall(scales, (tmp_path / "main.svg").read_text()))
    assert set(re.findall(scales, figures["main"])) == written
