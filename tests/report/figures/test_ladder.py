from copy import deepcopy
from itertools import pairwise
from xml.etree import ElementTree as ET

from canarybank.report.figures.ladder import CAUSES, ladder_figure, top_of


def bars(figure):
    root = ET.fromstring(figure.svg)  # noqa: S314, our own markup
    return [box for box in root.findall("rect") if box.get("class", "").startswith("bar bar-")]


def test_bars_are_as_long_as_their_epsilons(attack):
    widths = [float(bar.get("width")) for bar in bars(ladder_figure(attack, claimed=True))]
    values = [rung["epsilon"] for rung in attack["ladder"]]
    assert all(abs(w / widths[0] - v / values[0]) < 2e-3 for w, v in zip(widths, values, strict=True))


def test_the_table_holds_every_rung_with_its_step(attack):
    figure = ladder_figure(attack, claimed=True)
    rungs = attack["ladder"]
    assert [row[0] for row in figure.rows] == list(CAUSES)
    assert figure.rows[0][4] == "—"
    assert figure.rows[1][4] == f"{rungs[1]['epsilon'] - rungs[0]['epsilon']:+.3f}"


def test_the_largest_step_is_named(attack):
    rungs = attack["ladder"]
    steps = {below["name"]: above["epsilon"] - below["epsilon"] for above, below in pairwise(rungs)}
    largest = max(steps, key=steps.get)
    assert f"{steps[largest]:.3f}, is {CAUSES[largest]}" in ladder_figure(attack, claimed=True).alternative


def test_without_an_accountant_nobody_claims(attack):
    assert "none was given" in ladder_figure(attack, claimed=False).svg
    assert "no claim to compare with" in ladder_figure(attack, claimed=False).svg
    assert "none was given" not in ladder_figure(attack, claimed=True).svg


def test_a_step_of_nothing_has_no_sign(attack):
    level = deepcopy(attack)
    level["ladder"][1]["epsilon"] = level["ladder"][0]["epsilon"] - 1e-6
    assert ">0.000  the accountant's slack" in ladder_figure(level, claimed=True).svg


def test_an_unbounded_rung_is_drawn_as_such(attack):
    endless = deepcopy(attack)
    endless["ladder"][2] |= {"epsilon": None, "high": None}
    figure = ladder_figure(endless, claimed=True)
    assert "unbounded" in figure.svg
    assert figure.rows[2][1] == "∞"
    assert top_of(endless["ladder"]) == 1.695


def test_luck_can_lift_the_last_rung(attack):
    lucky = deepcopy(attack)
    lucky["ladder"][5] |= {"epsilon": lucky["ladder"][4]["epsilon"] + 0.1}
    assert "+0.100  the luck of these trials" in ladder_figure(lucky, claimed=True).svg
