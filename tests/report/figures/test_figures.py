import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from drawn_figures import out_of

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
    assert not [element for element in root.iter() if "style" in element.attrib]
    assert re.findall(r"#[0-9a-f]{6}\b", every[name].svg) == []
    assert "var(--" in every[name].svg
    ids = re.findall(r'\bid="([^"]+)"', every[name].svg)
    assert len(ids) == len(set(ids))
    assert all(each.startswith(f"{every[name].key}-") for each in ids)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_stays_text(every, name):
    tags = {element.tag for element in ET.fromstring(every[name].svg).iter()}  # noqa: S314, our own markup
    assert tags <= {"svg", "title", "desc", "g", "defs", "clipPath", "use", "text", "rect", "path"}
    assert "\u202e" not in every[name].svg


@pytest.mark.parametrize("name", NAMES)
def test_text_has_room_in_its_drawing_in_the_widest_font(every, name):
    assert out_of(every[name]) == []


def test_a_drawing_is_the_same_whatever_the_readers_settings_are(attack):
    plain = ladder_figure(attack).svg
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert ladder_figure(attack).svg == plain


def test_a_figure_can_be_saved_from_python(attack, tmp_path):
    ladder_figure(attack).figure.savefig(tmp_path / "ladder.png")
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


def test_signs_of_mathematics_are_letters(attack):
    """A text with dollars would be a formula to matplotlib, and one that is none an error."""
    paid = attack | {"name": "costs $5 and $\\frac{1$"}
    assert "costs $5 and $\\frac{1$" in overview_figure([paid], 1.6845, 1.695).svg
