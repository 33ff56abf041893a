import math
import re
from copy import deepcopy
from itertools import pairwise

from drawn_figures import bars as bars_of

from canarybank.report import ladder_figure


def bars(figure):
    return [
        bar
        for kind in ("accounted", "mechanism", "attack", "rule", "expected", "observed")
        for bar in bars_of(figure, f"_{kind}")
    ]


def test_bars_are_as_long_as_their_epsilons(attack):
    widths = [bar.get_width() for bar in bars(ladder_figure(attack))]
    assert widths == [rung["epsilon"] for rung in attack["rungs"].values()]


def test_the_table_holds_every_rung_with_its_step(attack):
    figure = ladder_figure(attack)
    rungs = list(attack["rungs"].values())
    assert [row[0] for row in figure.rows] == list(attack["rungs"])
    assert figure.rows[0][4] == "—"
    assert figure.rows[1][4] == f"{rungs[1]['epsilon'] - rungs[0]['epsilon']:+.3f}"


def test_the_largest_step_is_named(attack):
    rungs = list(attack["rungs"].values())
    steps = {below["name"]: above["epsilon"] - below["epsilon"] for above, below in pairwise(rungs)}
    largest = max(steps, key=steps.get)
    figure = ladder_figure(attack)
    cause = re.search(rf"{steps[largest]:.3f}, is (.*?)\.", figure.alternative)[1]
    assert re.search(rf"[−-]{steps[largest]:.3f}  {cause}<", figure.svg)


def test_without_an_accountant_nobody_claims(attack):
    bare = deepcopy(attack)
    bare["rungs"]["accounted"]["epsilon"] = bare["rungs"]["mechanism"]["epsilon"]
    assert "none was given" in ladder_figure(bare).svg
    assert "no claim to compare with" in ladder_figure(bare).svg
    assert "none was given" not in ladder_figure(attack).svg


def test_a_step_of_nothing_has_no_sign(attack):
    level = deepcopy(attack)
    level["rungs"]["mechanism"]["epsilon"] = level["rungs"]["accounted"]["epsilon"] - 1e-6
    assert ">0.000  the accountant's slack" in ladder_figure(level).svg


def test_an_unbounded_rung_is_drawn_as_such(attack):
    endless = deepcopy(attack)
    endless["rungs"]["attack"] |= {"epsilon": math.inf, "high": math.inf}
    figure = ladder_figure(endless)
    assert "unbounded" in figure.svg
    assert figure.rows[2][1] == "∞"
    largest = max(rung["epsilon"] for rung in attack["rungs"].values())
    assert figure.figure.axes[0].get_xlim()[1] < 1.1 * largest  # the scale is that of the finite rungs


def test_luck_can_lift_the_last_rung(attack):
    lucky = deepcopy(attack)
    lucky["rungs"]["observed"] |= {"epsilon": lucky["rungs"]["expected"]["epsilon"] + 0.1}
    assert "+0.100  the luck of these trials" in ladder_figure(lucky).svg


def test_a_system_without_a_law_has_three_rungs(attack):
    bare = deepcopy(attack)
    bare["rungs"] = {name: bare["rungs"][name] for name in ("accounted", "mechanism", "observed")}
    figure = ladder_figure(bare)
    assert [row[0] for row in figure.rows] == ["accounted", "mechanism", "observed"]
    assert len(bars(figure)) == 3
    assert "what attack and trials do not show" in figure.svg
    assert "luck" not in figure.svg
    assert "states no law" in figure.caption


def test_a_claim_below_the_exact_figure_has_a_shortfall_and_no_slack(attack):
    small = deepcopy(attack)
    small["rungs"]["accounted"]["epsilon"] = small["rungs"]["mechanism"]["epsilon"] - 0.5
    assert ">+0.500  the claim's shortfall" in ladder_figure(small).svg
    assert "slack" not in ladder_figure(small).svg
