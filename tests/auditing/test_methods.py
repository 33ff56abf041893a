import ast
import math
import pickle
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import canarybank
from canarybank.auditing import (
    Branch,
    Counts,
    Method,
    Projected,
    Settings,
    Target,
    Threshold,
    ThresholdMode,
    analytic,
    attack_bound,
    audit,
    best_threshold,
    calibrated,
    calibrated_spread,
    canary_bound,
    ceiling,
    choose_aim,
    clopper_pearson,
    count,
    epsilon_lower,
    expected_bound,
    find_method,
)
from canarybank.auditing.forecast import bound_law
from canarybank.errors import ConfigError, InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.registry import METHODS
from canarybank.score import RoundLaw

THIRDS = """
from canarybank.auditing import Method

THIRDS = Method("thirds", "independent trials; two Clopper–Pearson ends at alpha/3 each", tails=3)
"""
OWN = tuple(METHODS.places)


@pytest.mark.parametrize("name", OWN)
def test_a_method_has_the_name_that_it_is_registered_by(name):
    method = METHODS.find(name)
    assert (method.name, str(method), f"{method}") == (name, name, name)
    assert find_method(method) is method is find_method(name)
    assert pickle.loads(pickle.dumps(method)) == method  # noqa: S301, ours


def operands(node):
    """Return what a comparison compares, the members of a set or tuple included."""
    for each in (node.left, *node.comparators):
        yield from each.elts if isinstance(each, ast.Set | ast.Tuple | ast.List) else (each,)


def test_nothing_outside_a_methods_own_file_asks_for_its_name():
    # "paper" as a word names other things too, and layout 1 labels a claim "pooled".
    texts, constants = {*OWN} - {"paper"}, {name.replace("-", "_").upper() for name in OWN}
    root = Path(canarybank.__file__).parent
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for each in operands(node)
        if (isinstance(each, ast.Constant) and each.value in texts)
        or {getattr(each, "id", None), getattr(each, "attr", None)} & constants
    ]
    assert [place for place in found if not place.startswith("run/verification.py")] == []


def test_settings_and_targets_hold_the_object_and_write_its_name():
    by_name, by_object = Settings(method="joint"), Settings(method=METHODS.find("joint"))
    assert by_name == by_object
    assert by_name.method is METHODS.find("joint")
    assert replace(by_name, method="pooled").method.pools
    assert Target(1000, 1e-5, 0.01, "clopper-pearson").method is METHODS.find("clopper-pearson")
    law = expected_bound(0.5, 0.1, 100, delta=0.01, alpha=0.05, method=METHODS.find("clopper-pearson"))
    assert law == expected_bound(0.5, 0.1, 100, delta=0.01, alpha=0.05, method="clopper-pearson")
    assert asdict(law)["method"] == "clopper-pearson"
    assert asdict(ceiling(Mechanism(), math.inf, method="joint"))["method"] == "joint"


def test_an_unknown_name_is_refused_with_what_may_have_been_meant():
    for refused in (
        lambda: Settings(method="stratifed"),
        lambda: Target(1000, 1e-5, 0.01, "stratifed"),
        lambda: ceiling(Mechanism(), 1000, method="stratifed"),
        lambda: expected_bound(0.5, 0.1, 100, delta=0.01, alpha=0.05, method="stratifed"),
    ):
        with pytest.raises(ConfigError, match="no method 'stratifed'; did you mean 'stratified'"):
            refused()


def test_one_file_makes_a_method(tmp_path, monkeypatch, people, bank, sizes, mechanism):
    (tmp_path / "thirds.py").write_text(THIRDS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    bound = epsilon_lower(30, 2, 40, 50, delta=0.01, alpha=0.06, method="thirds:THIRDS")
    low, high = clopper_pearson(30, 40, 0.02)[0], clopper_pearson(2, 50, 0.02)[1]
    assert bound.epsilon == pytest.approx(math.log((low - 0.01) / high))
    assert (bound.method, bound.assumption.split(";")[0]) == ("thirds", "independent trials")
    result = audit(
        people, bank, mechanism, "exact", trials=2000, method="thirds:THIRDS", sizes=sizes, threshold="analytic"
    )
    assert result.headline.method == "thirds"
    assert result.ladder.expected.epsilon <= result.ladder.rule.high
    thirds = find_method("thirds:THIRDS")
    law = RoundLaw.perfect(Mechanism())
    found = calibrated_spread([law], [law], Target(20_000, 1e-5, 0.01, thirds), number=20_000, seed=0)
    assert 0 <= found.lower < found.upper < 3
    assert ceiling(Mechanism(), 10**5, method=thirds).expected == pytest.approx(
        ceiling(Mechanism(), 10**5, method="clopper-pearson", alpha=0.02 / 3).expected
    )


def test_only_what_pools_takes_several_canaries():
    counts = [Counts(30, 2, 40, 40), Counts(20, 3, 40, 40)]
    for name in OWN:
        method = METHODS.find(name)
        if method.pools:
            assert method.bound(counts, delta=0.01, alpha=0.05).canaries == 2
        else:
            with pytest.raises(InputError, match="from the counts of one canary, not of 2"):
                method.bound(counts, delta=0.01, alpha=0.05, q=0.5)
        with pytest.raises(InputError, match="not of 0"):
            method.bound([], delta=0.01, alpha=0.05, q=0.5)


def test_another_pooling_method_makes_the_headline_itself():
    class Halved(type(METHODS.find("pooled"))):
        pass

    halved = Halved("halved", "as pooled", tails=4)
    counts = [Counts(30, 2, 40, 40), Counts(20, 3, 40, 40)]
    stated = attack_bound(counts, Mechanism(), Settings(trials=40, method=halved))
    assert (stated.method, stated.canaries) == ("halved", 2)
    assert stated.epsilon == halved.bound(counts, delta=1e-5, alpha=0.05).epsilon
    assert canary_bound(counts[0], Mechanism(), Settings(trials=40, method=halved), 2).method == "clopper-pearson"


# At q = 1 a rule that spots presence and one that spots absence promise the same, so canaries that each take the better
# branch of their own calibration take different ones, and cancel each other in the pooled counts.
ALWAYS = Mechanism(q=1.0)
EVERY = RoundLaw.perfect(ALWAYS)
TRIALS, CANARIES = 5000, 5
POOL = Settings(trials=TRIALS, method="pooled")


def candidates(aims):
    target = POOL.target(ALWAYS, CANARIES)
    return [
        [calibrated(Projected(EVERY), target, number=TRIALS, seed=9, path=(index,), branch=aim) for aim in aims]
        for index in range(CANARIES)
    ]


def judged(thresholds):
    return [
        count(Projected(EVERY), threshold.value, TRIALS, seed=9, path=("evaluation", index))
        for index, threshold in enumerate(thresholds)
    ]


def test_pooled_canaries_take_one_branch_together():
    each_its_own = attack_bound(judged([row[0] for row in candidates((None,))]), ALWAYS, POOL)
    assert each_its_own.epsilon < 0.03
    together = choose_aim(candidates(POOL.method.aims))
    counts = judged(together)
    single = max(canary_bound(each, ALWAYS, POOL, CANARIES).epsilon for each in counts)
    pooled = attack_bound(counts, ALWAYS, POOL).epsilon
    assert 1.9 < single < pooled < one_round_epsilon(ALWAYS)
    assert len({threshold.value > 0 for threshold in together}) == 1


def test_choosing_an_aim_leaves_the_coverage_as_it_is():
    # The exact law of the pooled bound at the chosen thresholds, which fresh trials are judged by.
    target = POOL.target(ALWAYS, CANARIES)
    fpr, tpr = EVERY.point(np.array([threshold.value for threshold in choose_aim(candidates(POOL.method.aims))]))
    truth = max(replace(target, trials=math.inf).bound(tpr, fpr))
    values, mass = bound_law(target, list(zip(tpr.tolist(), fpr.tolist(), strict=True)))
    assert mass[values > truth].sum() <= POOL.alpha
    assert mass[values > 1.5].sum() > 0.99


def test_the_spread_of_a_pooled_bound_takes_one_branch_too():
    found = calibrated_spread(
        [EVERY] * CANARIES,
        [EVERY] * CANARIES,
        POOL.target(ALWAYS, CANARIES),
        number=TRIALS,
        seed=0,
        replicates=300,
        level=0.9,
    )
    assert 1.5 < found.lower < attack_bound(judged(choose_aim(candidates(POOL.method.aims))), ALWAYS, POOL).epsilon
    assert found.upper < one_round_epsilon(ALWAYS)


def test_an_aim_is_chosen_by_what_it_promises_all_canaries_and_the_first_wins_a_tie():
    def threshold(value, expected):
        return Threshold(value, ThresholdMode.ANALYTIC, expected)

    rows = [[threshold(1, 0.9), threshold(-1, 0.5)], [threshold(2, 0.1), threshold(-2, 0.6)]]
    assert [each.value for each in choose_aim(rows)] == [-1, -2]
    assert [each.value for each in choose_aim([row[:1] for row in rows])] == [1, 2]
    assert choose_aim([[threshold(1, 0.0), threshold(-1, 0.0)]])[0].value == 1


def test_a_threshold_is_aimed_at_one_branch_alone():
    target = Target(TRIALS, 1e-5, 0.05, "pooled", CANARIES)
    forward, reverse = (analytic(EVERY, target, branch) for branch in (Branch.FORWARD, Branch.REVERSE))
    assert forward.value > 0 > reverse.value
    assert forward.expected == pytest.approx(reverse.expected, abs=1e-3)
    grid = np.linspace(-6, 6, 4001)
    fpr, tpr = EVERY.point(grid)
    for found, branch in ((forward, 0), (reverse, 1)):
        assert found.expected >= target.branches(tpr, fpr)[branch].max() - 1e-9
    assert best_threshold(EVERY.point, target)[1] == max(forward.expected, reverse.expected)


@pytest.mark.parametrize("name", OWN)
def test_forward_is_what_every_aim_comes_to_where_canaries_seldom_take_part(name):
    law, target = RoundLaw.perfect(Mechanism()), Target(20_000, 1e-5, 0.01, name, 2, 0.1)
    assert analytic(law, target, Branch.FORWARD) == analytic(law, target)
    aimed = calibrated(Projected(law), target, number=20_000, seed=4, branch=Branch.FORWARD)
    assert aimed == calibrated(Projected(law), target, number=20_000, seed=4)


def test_a_method_of_ends_alone_is_told_from_others():
    assert [name for name in OWN if METHODS.find(name).separate] == ["paper", "clopper-pearson"]
    assert [name for name in OWN if not METHODS.find(name).exact] == ["joint"]
    assert [name for name in OWN if METHODS.find(name).alone] == ["paper", "clopper-pearson", "joint"]
    assert isinstance(METHODS.find("pooled"), Method)


def test_a_method_of_ones_own_cannot_go_by_a_name_of_ours():
    with pytest.raises(ConfigError, match="called 'paper', and so is one of ours"):
        find_method(Method("paper", "a looser rule under the same name", tails=1))
    assert find_method(Method("thirds", "two ends at a third of alpha each", tails=3)).name == "thirds"


class Searched(Method):
    """A bound that is a search, of which the two ends alone are a forecast."""

    def claim(self, *counts, **declared):
        return tuple(float(each) - 0.3 for each in self.branches(*counts, **declared))


def test_a_search_that_is_forecast_by_ends_has_the_spread_of_its_own_bounds():
    law, target = RoundLaw.perfect(Mechanism(q=0.5)), Target(20_000, 1e-5, 0.01, Searched("searched", "none"))
    found = calibrated_spread([law], [law], target, number=20_000, seed=0, replicates=200, level=0.9)
    ends = replace(target, method=Method("ends", "none"))
    plain = calibrated_spread([law], [law], ends, number=20_000, seed=0, replicates=200, level=0.9)
    assert (found.lower, found.upper) == pytest.approx((plain.lower - 0.3, plain.upper - 0.3), abs=0.01)
