"""Hold the zoo's figures to what they say: whole audits, counted right, and measured again to the same numbers."""

import json
import re

import pytest
from scipy.stats import binom

from canarybank import audit_system
from canarybank.auditing import Settings, pairs_to_refute, perfect_roc
from canarybank.engine import Processes, Serial
from canarybank.errors import InputError
from canarybank.flow import ZooCell, ZooTable, audit_zoo_system, measure_zoo, recorded_zoo
from canarybank.systems import ZOO

ANY, INDEPENDENCE = "any", "independence"
KINDS = tuple(kind for kind in recorded_zoo().of("honest")[0].caught if "/" in kind)
EVERYTHING = ("bound", "curve", "betting")
CHEAP = [("q-ignored", 300), ("clip-before-normalising", 300), ("generator-restarted", 100), ("honest", 100)]


class Broken:
    """An engine that must not be asked."""

    def run(self, _function, tasks):
        assert not tasks, "nothing was left to measure"
        return iter(())


@pytest.mark.parametrize("name", ["noise-halved", "honest-3-rounds", "only-nonzero-released", "generator-restarted"])
def test_an_audit_of_the_zoo_is_the_audit_that_any_system_gets(name):
    system = ZOO[name]
    ours = audit_zoo_system(system, 60, 11)
    theirs = audit_system(
        system, system.designed_scores(), system.claim, Settings(trials=60, seed=11), evidence=EVERYTHING
    )
    assert ours == theirs
    assert audit_zoo_system(system, 60, 12) != ours, "another seed draws other runs"


@pytest.mark.parametrize(("name", "runs"), CHEAP)
def test_the_recorded_figures_come_out_again(name, runs):
    recorded = next(cell for cell in recorded_zoo().of(name) if cell.runs == runs)
    again = measure_zoo([name], [runs], recorded.repeats, seed=recorded_zoo().seed).of(name)[0]
    assert again.caught.keys() == recorded.caught.keys()
    # Another machine's linear algebra may round a fitted score to the other side of a threshold, once.
    assert all(abs(again.caught[kind] - recorded.caught[kind]) <= 1 for kind in again.caught)


def test_the_record_covers_the_zoo_and_its_controls_are_silent_enough():
    table = recorded_zoo()
    assert {cell.system for cell in table.cells} == set(ZOO)
    assert {cell.repeats for cell in table.cells} == {20}
    for name, system in ZOO.items():
        cells = table.of(name)
        assert [cell.runs for cell in cells] == sorted({cell.runs for cell in cells})
        assert all(0 <= count <= cell.repeats for cell in cells for count in cell.caught.values())
        assert all({*KINDS, INDEPENDENCE, ANY} <= set(cell.caught) for cell in cells)
        if system.breaks == "nothing":
            for kind in (ANY, INDEPENDENCE, *KINDS):
                alarms = table.false_alarms(name, kind)
                assert alarms.found <= alarms.allowed, (name, kind)
        elif system.breaks == "independence":
            assert table.needed(name, INDEPENDENCE) == 100
        elif not cells[-1].is_settled:
            assert table.most_runs(name) >= 3000, name


@pytest.mark.parametrize(("name", "noise", "q"), [("noise-over-1.25", 1.25, 0.1), ("q-doubled", 1.0, 0.2)])
def test_what_is_said_to_be_computed_is_what_is_computed(name, noise, q):
    claim = ZOO[name].claim
    fpr, tpr = perfect_roc(noise, q)
    share = ZooTable(seed=0).alpha / len(KINDS)
    found = [
        pairs_to_refute(float(t), float(f), claim.epsilon, claim.delta, alpha=share, chances=(0.9,))[0]
        for t, f in zip(tpr[::10], fpr[::10], strict=True)
        if t > 5 * f > 1e-6
    ]
    least = min(pairs for pairs in found if pairs is not None)
    stated = int(re.search(r"about ([\d,]+) pairs", ZOO[name].blind)[1].replace(",", ""))
    assert stated == pytest.approx(least, rel=0.06)


def test_what_is_said_of_a_system_is_what_was_counted():
    def cell(runs, **caught):
        named = {kind.replace("_", "/"): count for kind, count in caught.items()}
        return ZooCell(system="q-doubled", runs=runs, repeats=20, caught={**dict.fromkeys(KINDS, 0), **named})

    table = ZooTable(
        seed=0, cells=(cell(1000, designed_curve=18, fitted_curve=17), cell(300, designed_curve=17), cell(100))
    )
    assert table.needed("q-doubled", "designed/curve") == 1000
    assert table.needed("q-doubled", "fitted/curve") is None
    assert table.caught_by("q-doubled") == {"designed/curve": 1000}
    assert table.missed_by("q-doubled")["fitted/curve"] == (1000, 17)
    assert "designed/curve" not in table.missed_by("q-doubled")
    assert not any(kind.startswith("length/") for kind in table.kinds("q-doubled"))


def test_false_alarms_are_held_to_a_binomial_bound_that_can_be_exceeded():
    def table(found):
        caught = {**dict.fromkeys(KINDS, 0), INDEPENDENCE: 0, ANY: found}
        return ZooTable(seed=0, cells=(ZooCell(system="honest", runs=100, repeats=100, caught=caught),))

    alarms = table(5).false_alarms("honest")
    assert (alarms.found, alarms.audits) == (5, 100)
    assert binom.sf(alarms.allowed, 100, alarms.rate) <= 1e-3 < binom.sf(alarms.allowed - 1, 100, alarms.rate)
    assert table(20).false_alarms("honest").found > alarms.allowed
    assert table(0).false_alarms("honest", "designed/curve").allowed < alarms.allowed


def test_a_record_is_gone_on_with_and_holds_one_measurement(tmp_path):
    file = tmp_path / "zoo.json"
    first = measure_zoo(["honest"], [20], 2, seed=3, record=file)
    both = measure_zoo(["honest", "q-ignored"], [20], 2, seed=3, record=file)
    assert both.of("honest") == first.of("honest")
    assert [cell.system for cell in both.cells] == ["honest", "q-ignored"]
    assert ZooTable.model_validate(json.loads(file.read_text())) == both
    assert measure_zoo(["q-ignored"], [20], 2, seed=3, record=file, engine=Broken()).of("q-ignored") == both.cells[1:]
    for other in ({"repeats": 2, "seed": 4}, {"repeats": 3, "seed": 3}):
        with pytest.raises(InputError, match="another seed or number of repeats"):
            measure_zoo(["honest"], [20], record=file, **other)


def test_no_more_runs_are_spent_on_what_is_settled():
    table = measure_zoo(["generator-restarted", "honest"], [60, 20, 60], 2)
    assert [cell.runs for cell in table.of("generator-restarted")] == [20]
    assert [cell.runs for cell in table.of("honest")] == [20, 60]


def test_processes_measure_what_one_process_measures():
    chosen = (["noise-halved", "only-nonzero-released"], [30, 40], 3)
    assert measure_zoo(*chosen, seed=8, engine=Processes(2)) == measure_zoo(*chosen, seed=8, engine=Serial())


def test_a_cell_does_not_depend_on_what_else_is_measured():
    alone = measure_zoo(["clip-per-record"], [60], 4, seed=5)
    beside = measure_zoo(["honest", "clip-per-record"], [20, 60], 4, seed=5)
    assert alone.cells[0] in beside.cells


@pytest.mark.parametrize(
    ("systems", "runs", "repeats", "said"),
    [
        (["unicorn"], [100], 1, "The zoo has no 'unicorn'"),
        ([], [100], 1, "Name at least one system"),
        (["honest"], [], 1, "Name at least one system"),
        (["honest"], [7], 1, "at least 8"),
        (["honest"], [100], 0, "at least one audit"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_words(systems, runs, repeats, said):
    with pytest.raises(InputError, match=said):
        measure_zoo(systems, runs, repeats)
