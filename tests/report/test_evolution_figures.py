import math

import pytest

from canarybank.report import clouds_figure, epsilon_figure, utility_figure


def figures(after, mauve, recall):
    names = ("precision", "distinct_2", "duplicates", "near_duplicates")
    return {"after": after, "candidates": 1000, "mauve": mauve, "recall": recall, **dict.fromkeys(names, 0.5)} | {
        "kept_share": 0.4,
        "probe_share": None,
    }


@pytest.fixture
def summary():
    rounds = [{"round": t, "epsilon": 1.0 + 0.2 * t, "added_up": 1.5 * t} for t in (1, 2, 3)]
    prefixes = [prefix("nonce", t, 0.6) for t in (1, 2, 3)] + [prefix("exact", t, 0.1) for t in (1, 2, 3)]
    evolution = {
        "rounds": rounds,
        "utility": {"reference_users": 7, "figures": [figures(t, 0.2 * t, 0.1 * t) for t in range(4)]},
        "plain": {"figures": [figures(t, 0.22 * t, 0.1) for t in range(4)]},
    }
    return {
        "mechanism": {"delta": 1e-5},
        "verdict": {"sentence": "."},
        "evolution": evolution,
        "attacks": [{"name": "exact"}, {"name": "nonce"}],
        "strongest": 1,
        "audit": {"method": "paper", "trials": 5000},
        "prefixes": prefixes,
    }


def prefix(attack, rounds, observed):
    known = {"rule": 0.8, "expected_low": 0.5, "expected_high": 0.7, "observed": observed}
    return {"attack": attack, "rounds": rounds, "exact": 0.9 + 0.2 * rounds, **known}


def points(figure):
    """Return how many marks stand on the curves of a figure."""
    return sum(len(line.get_xdata()) for line in figure.figure.axes[0].lines if line.get_marker() == "o")


@pytest.fixture
def evolution(summary):
    return summary["evolution"]


def test_epsilon_has_a_point_for_every_round_and_curve(summary):
    figure = epsilon_figure(summary)
    assert points(figure) == 9
    assert [row[0] for row in figure.rows] == [1, 2, 3]
    assert figure.rows[1][1:] == ("1.400", "3.000", "1.300", "0.8000", "0.5000", "0.7000", "0.6000")
    assert "the attack nonce" in figure.caption
    assert "theory 1.200, 1.400, 1.600" in figure.alternative


def test_without_an_audit_the_rounds_are_added_up(summary):
    figure = epsilon_figure(summary | {"verdict": None})
    assert figure.columns == ("after round", "theory", "added up")
    assert "added up 1.500, 3.000, 4.500" in figure.alternative


def test_one_round_is_drawn_too(summary):
    summary["evolution"]["rounds"] = summary["evolution"]["rounds"][:1]
    one = summary | {"prefixes": [each for each in summary["prefixes"] if each["rounds"] == 1]}
    assert points(epsilon_figure(one)) == 3


def test_an_attack_of_which_nothing_is_computed_has_a_bound_alone(summary):
    for each in summary["prefixes"]:
        each.update(dict.fromkeys(("exact", "rule", "expected_low", "expected_high")))
    figure = epsilon_figure(summary)
    assert figure.columns == ("after round", "theory", "added up", "observed bound")
    assert points(figure) == 6
    assert "exact" not in figure.alternative


def test_utility_stands_with_and_without_probes(evolution):
    figure = utility_figure(evolution)
    assert "MAUVE, no probes 0.000, 0.220" in figure.alternative
    assert figure.rows[2][:5] == (2, "1,000", "0.400", "0.500", "0.200")
    assert "not differentially private" in figure.caption


def test_recall_leads_where_mauve_was_left_out(evolution):
    evolution["utility"]["figures"] = [each | {"mauve": None} for each in evolution["utility"]["figures"]]
    figure = utility_figure(evolution | {"plain": None})
    assert figure.alternative.startswith("Round by round: recall, this run")
    assert "MAUVE" not in figure.alternative


def test_nothing_is_drawn_where_nothing_was_measured(evolution):
    assert utility_figure(evolution | {"utility": None}) is None


def test_an_infinite_figure_has_no_point(summary):
    summary["prefixes"][0] |= {"exact": math.inf, "expected_high": math.inf}
    figure = epsilon_figure(summary)
    assert points(figure) == 8
    assert figure.rows[0][3] == "∞"


CLOUD = {"candidates": 1200, "born": 0, "centre": (0.0, 0.0), "spread": 1.0}


@pytest.fixture
def clouds():
    first = CLOUD | {"after": 0, "older": ((0.0, 0.0), (2.0, 1.0)), "new": ()}
    last = CLOUD | {"after": 3, "born": 600, "centre": (3.0, 4.0), "older": ((0.0, 0.0),), "new": ((4.0, -1.0),)}
    return {
        "explained": (0.5, 0.25),
        "populations": 4,
        "clouds": (first, last),
        "records": 900,
        "real_centre": (0.0, 0.0),
        "real": ((-1.0, 0.0),),
    }


def dots(axes):
    """Return the dots of each kind on a map, in the order in which they are drawn."""
    return [[tuple(vertex) for vertex in patch.get_path().vertices[::2].tolist()] for patch in axes.patches]


def test_each_population_has_a_map_and_all_have_one_scale(clouds):
    maps = clouds_figure(clouds).figure.axes
    assert [axes.get_title(loc="left") for axes in maps] == ["first population", "after round 3"]
    assert [dots(axes) for axes in maps] == [
        [[(-1.0, 0.0)], [(0.0, 0.0), (2.0, 1.0)]],
        [[(-1.0, 0.0)], [(0.0, 0.0)], [(4.0, -1.0)]],
    ]
    assert len({(*axes.get_xlim(), *axes.get_ylim()) for axes in maps}) == 1
    for axes in maps:
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert right - left == pytest.approx(high - low)
        assert left < -1
        assert right > 4
        box = axes.get_window_extent()
        assert box.width == pytest.approx(box.height)


def test_a_map_says_how_far_a_population_is_from_real_text(clouds):
    figure = clouds_figure(clouds)
    assert figure.columns[-1] == "to real centre"
    assert figure.rows[1] == ("after round 3", "1,200", "600", "3.000", "4.000", "1.000", "5.000")
    assert "1 of 900 records of held-out users" in figure.caption
    assert "Shown are 2 of 4." in figure.caption


def test_a_map_of_public_text_alone_speaks_of_no_real_record(clouds):
    figure = clouds_figure(clouds | {"records": 0, "real_centre": None, "real": ()})
    assert figure.columns[-1] == "spread"
    assert ">held-out, real<" not in figure.svg
    assert "held-out" not in figure.caption


def test_a_map_of_one_point_is_drawn(clouds):
    alone = clouds | {"clouds": (CLOUD | {"after": 0, "older": ((0.0, 0.0),), "new": ()},), "real": ()}
    (axes,) = clouds_figure(alone).figure.axes
    assert dots(axes) == [[(0.0, 0.0)]]
    assert sum(axes.get_xlim()) == sum(axes.get_ylim()) == 0
