import math
from copy import deepcopy

from drawn_figures import labelled

from canarybank.report import canary_figure


def test_a_row_for_each_canary_of_each_attack(summary):
    figure = canary_figure(summary["attacks"], 1.6845)
    assert len(figure.rows) == sum(len(attack["canaries"]) for attack in summary["attacks"])


def test_rows_show_what_was_counted(attack):
    figure = canary_figure([attack], 1.6845)
    row = dict(zip(figure.columns, figure.rows[0], strict=True))
    canary = attack["canaries"][0]
    assert row["canary"] == canary["id"]
    assert float(row["bound"]) == float(f"{canary['bound']['epsilon']:.4g}")
    assert row["true positives"] == f"{canary['counts']['tp']:,}"


def test_of_many_canaries_the_strongest_are_drawn_and_all_are_in_the_table(attack):
    many = deepcopy(attack)
    many["canaries"] = [deepcopy(attack["canaries"][0]) | {"id": f"c{i}"} for i in range(90)]
    for i, canary in enumerate(many["canaries"]):
        canary["bound"]["epsilon"] = i / 100
    figure = canary_figure([many], 1.6845)
    assert len(figure.rows) == 90
    (drawn,) = labelled(figure, "lower bound")
    assert sorted(drawn.get_xdata()) == [i / 100 for i in range(70, 90)]


def leaving(attacks):
    (arrows,) = labelled(canary_figure(attacks, 1.6845), "_leaving")
    return arrows.get_xdata()


def test_an_endless_interval_leaves_the_scale(summary):
    attacks = deepcopy(summary["attacks"])
    before = len(leaving(attacks))
    attacks[0]["canaries"][0] |= {"upper": math.inf, "supremum": {"lower": math.inf, "upper": math.inf}}
    assert len(leaving(attacks)) == before + 1
