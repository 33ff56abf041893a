import sys

import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.evolution import (
    FillBlanks,
    Fresh,
    InContext,
    Keep,
    KeepAboveNoise,
    KeepClusters,
    KeepTop,
    MixedFeedback,
    ParaphraseKept,
    ParentsByVotes,
    ParentsEvenly,
    ParentsInTurn,
    Vary,
)
from canarybank.flow import run_evolution
from canarybank.generate import load_prompt
from canarybank.mechanism import Mechanism


def config(**flags):
    return resolve(flags={f"evolve.{name}": value for name, value in flags.items()}).config


class SeenError(Exception):
    """Holds the plan of a run that was stopped before its first release."""


@pytest.fixture
def plan_of(evolving, scripted, tmp_path):
    """Return a function that gives the plan of an evolution under some flags of ``evolve``, or of other sections."""
    del scripted  # it answers meanwhile
    assumed = {key: value for key, value in evolving.items() if key not in SHOWN}

    def stop(_voters, plan):
        raise SeenError(plan)

    def plan(**flags):
        told = {name.replace("__", ".") if "__" in name else f"evolve.{name}": each for name, each in flags.items()}
        with pytest.raises(SeenError) as seen:
            run_evolution(resolve(flags=assumed | told), tmp_path / f"run {flags}"[:40], releaser=stop)
        return seen.value.args[0]

    return plan


SHOWN = {"mechanism.k", "mechanism.q", "evolve.rounds", "evolve.share", "evolve.near", "evolve.insecure_seed"}
"""What these tests leave to its default unless they say it."""


def test_given_parameters_are_taken_as_they_are(plan_of):
    assert plan_of().mechanism == Mechanism()


def test_q_comes_from_the_declared_population_before_the_counted_one(plan_of):
    assert plan_of(users=3, population=1000).mechanism.q == 0.003
    assert plan_of(insecure_seed=0, users=3, population=1000).mechanism.q == 0.003


def test_the_plan_holds_what_was_told(plan_of):
    plan = plan_of(rounds=4, share=0.1, new=9, near=0.8, tries=3, budget=2.5, seed=6, insecure_seed=7, high=2, low=0)
    assert (plan.rounds, plan.keep, plan.new, plan.budget) == (4, Keep(0.1), 9, 2.5)
    assert (plan.seed, plan.insecure_seed, plan.cap) == (6, 7, None)
    assert (plan.taking.similarity, plan.taking.tries) == (0.8, 3)
    assert plan.feedback == InContext(2, 0, "continue", "a short message")


def test_paraphrases_are_a_rule_too_by_a_prompt_of_ones_own_if_wanted(plan_of, tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('user = "Say it in other words: {record}"\n')
    assert plan_of(feedback="paraphrase").feedback == ParaphraseKept("paraphrase")
    assert plan_of(prompt=str(own), feedback="paraphrase").feedback == ParaphraseKept(str(own))


@pytest.mark.parametrize(
    ("flags", "keeper", "feedback"),
    [
        ({}, KeepTop(), InContext()),
        (
            {"keeper": "threshold", "threshold": 1.5, "parents": "votes", "feedback": "vary", "distance": "0.2,0.8"},
            KeepAboveNoise(1.5),
            Vary(distance=(0.2, 0.8), parents=ParentsByVotes()),
        ),
        (
            {"keeper": "clusters", "parents": "turns", "feedback": "blanks", "blanks_prompt": "blanks-argument"},
            KeepClusters(2.0),
            FillBlanks("blanks-argument", parents=ParentsInTurn()),
        ),
        (
            {"feedback": "in-context:0.5, vary:0.5", "vary_prompt": "vary-argument", "prompt": "continue-list"},
            KeepTop(),
            MixedFeedback(((InContext(prompt="continue-list"), 0.5), (Vary("vary-argument"), 0.5))),
        ),
        (
            {"feedback": ["paraphrase:2", "fresh:1"], "kind": "a plea"},
            KeepTop(),
            MixedFeedback(
                (
                    (ParaphraseKept(parents=ParentsEvenly()), 2.0),
                    (Fresh(load_prompt("bank-label"), "a plea"), 1.0),
                )
            ),
        ),
    ],
)
def test_the_plan_holds_the_rules_that_keys_name(flags, keeper, feedback, plan_of):
    plan = plan_of(**flags)
    assert (plan.keeper, plan.feedback) == (keeper, feedback)


def test_fresh_candidates_are_asked_for_as_the_first_bank_was(tmp_path, plan_of):
    (tmp_path / "public.txt").write_text("One.\nTwo.\n")
    bank = {"bank__prompt": "bank-examples", "bank__shots": 1, "bank__examples": str(tmp_path / "public.txt")}
    rule = plan_of(feedback="fresh", **bank).feedback
    assert rule == Fresh(load_prompt("bank-examples"), examples=("One.", "Two."), shots=1)


def test_schedules_are_read_from_flags_and_lists(plan_of):
    plan = plan_of(share="0.5,0.25", temperature=[1.2, 0.7], carry="false")
    assert (plan.keep, plan.temperature, plan.carry) == (Keep((0.5, 0.25)), (1.2, 0.7), False)
    assert config(share="0.5").evolve.share == config(share=[0.5]).evolve.share == 0.5


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        ({"feedback": "vary,vary:0.5"}, "each of them once"),
        ({"feedback": "vary:0"}, "positive number"),
        ({"feedback": "vary:-1,fresh"}, "positive number"),
        ({"feedback": "vary:inf,fresh"}, "positive number"),
        ({"feedback": " , "}, "at least one rule"),
        ({"feedback": "in-context:0.5,varied:0.5"}, "did you mean 'vary'"),
        ({"share": "0.5,0"}, "share"),
        ({"share": []}, "share"),
        ({"distance": 1.5}, "distance"),
        ({"temperature": "1,3"}, "temperature"),
        ({"threshold": -1}, "threshold"),
    ],
)
def test_what_no_rule_can_use_is_refused(flags, wrong):
    with pytest.raises(ConfigError, match=wrong):
        config(**flags)


@pytest.mark.usefixtures("scripted")
def test_one_prompt_for_two_rules_with_other_fields_is_refused(evolving, tmp_path):
    flags = evolving | {"evolve.feedback": "in-context,paraphrase", "evolve.prompt": "continue"}
    with pytest.raises(ConfigError, match="both in-context and paraphrase"):
        run_evolution(resolve(flags=flags), tmp_path / "run")


@pytest.fixture
def unreleased(evolving, scripted, tmp_path):
    """Return a function that gives the results of an evolution whose budget affords no release."""
    del scripted

    def results(**flags):
        told = {"budget": 1e-3, **flags}
        resolved = resolve(flags=evolving | {f"evolve.{name}": value for name, value in told.items()})
        found = run_evolution(resolved, tmp_path / "-".join(map(str, flags.values()))).results
        assert found.evolution.rounds == ()
        return found

    return results


def test_mauve_is_left_out_where_it_is_not_wanted_or_not_installed(unreleased, monkeypatch):
    pytest.importorskip("mauve")

    def found(**flags):
        results = unreleased(reference=6, **flags)
        return results.evolution.utility.figures[0].mauve, [each for each in results.notes if "MAUVE" in each]

    assert found(mauve=False) == (None, [])
    two, seven = found(buckets=2), found(buckets=7)
    assert two[1] == seven[1] == []
    assert two[0] != seven[0]
    monkeypatch.setitem(sys.modules, "mauve", None)
    figure, (note,) = found()
    assert figure is None
    assert "mauve-text is not installed" in note


@pytest.mark.parametrize(
    ("flags", "unused"),
    [
        ({}, []),
        ({"distance": 0.8}, ["evolve.distance is 0.8, which changes nothing"]),
        ({"distance": "0.8,0.2", "feedback": "in-context:0.5,vary:0.5"}, []),
        ({"threshold": 1.0, "keeper": "votes"}, ["evolve.threshold is 1.0, which changes nothing"]),
        ({"threshold": 1.0, "keeper": "clusters"}, []),
    ],
)
def test_a_setting_that_no_chosen_rule_takes_is_noted(flags, unused, unreleased):
    notes = unreleased(**flags).notes
    assert [note.partition(":")[0] for note in notes if "changes nothing" in note] == unused


@pytest.mark.parametrize("share", ["0.5,0.6,2", "2", [0.5, 2.0]])
def test_a_share_out_of_range_is_refused_with_the_range(share):
    with pytest.raises(
        ConfigError, match=r"The value '?2(\.0)?'? of evolve.share .*: input should be less than .* 1\."
    ):
        config(share=share)
