from xml.etree import ElementTree as ET

import pytest
from shown_pages import misplaced_texts

from canarybank.mechanism import Mechanism
from canarybank.report import (
    canary_figure,
    density_figure,
    ladder_figure,
    map_figure,
    overview_figure,
    roc_figure,
    vote_figure,
)


@pytest.fixture(scope="module")
def every(summary, attack):
    attacks = summary["attacks"]
    return {
        "ladder": ladder_figure(attack),
        "overview": overview_figure(attacks, 1.6845, 1.695),
        "canaries": canary_figure(attacks, 1.6845),
        "roc": roc_figure(attack, Mechanism(), 1.6845, "roc"),
        "densities": density_figure(attack, 0.1, "densities"),
        "votes": vote_figure(attack, "votes"),
        "map": map_figure(attack, "map"),
    }


NAMES = ["ladder", "overview", "canaries", "roc", "densities", "votes", "map"]


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_says_what_it_shows_and_gives_its_numbers(every, name):
    figure = every[name]
    assert figure.title
    assert len(figure.caption) > 60
    assert any(character.isdigit() for character in figure.alternative)
    assert figure.rows
    assert {len(row) for row in figure.rows} == {len(figure.columns)}


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_well_formed_and_takes_colours_from_the_theme(every, name):
    root = ET.fromstring(every[name].svg)  # noqa: S314, our own markup
    _, _, width, height = map(float, root.get("viewBox").split())
    for element in root.iter():
        assert not {"style", "fill", "stroke"} & set(element.attrib)
        for attribute in ("x", "x1", "x2", "cx"):
            assert 0 <= float(element.get(attribute, 0)) <= width
        for attribute in ("y", "y1", "y2", "cy"):
            assert 0 <= float(element.get(attribute, 0)) <= height


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_stays_text(every, name):
    tags = {element.tag for element in ET.fromstring(every[name].svg).iter()}  # noqa: S314, our own markup
    assert tags <= {"svg", "title", "desc", "text", "line", "rect", "circle", "path"}
    assert "\u202e" not in every[name].svg


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_names_its_title_and_description(every, name):
    root = ET.fromstring(every[name].svg)  # noqa: S314, our own markup
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [root.find("title").get("id"), root.find("desc").get("id")]
    assert (root.find("title").text, root.find("desc").text) == (every[name].title, every[name].alternative)


@pytest.mark.parametrize("name", NAMES)
def test_text_has_room_in_its_drawing_whatever_the_font(every, name):
    assert list(misplaced_texts(every[name].svg)) == []
