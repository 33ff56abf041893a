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
from canarybank.flow.evolution import _notes, mauve_of, plan_of, spending_mechanism
from canarybank.flow.real_run import require_private
from canarybank.generate import load_prompt
from canarybank.mechanism import Mechanism, epsilon


def config(**flags):
    return resolve(flags={f"evolve.{name}": value for name, value in flags.items()}).config


def test_given_parameters_are_taken_as_they_are():
    assert spending_mechanism(config(), 500) == Mechanism()


def test_q_comes_from_users_per_round_and_sigma_from_epsilon():
    mechanism = spending_mechanism(config(users=50, epsilon=2.0, rounds=3), 500)
    assert mechanism.q == 0.1
    assert 1.99 < epsilon(mechanism, 3) <= 2.0


def test_the_plan_holds_what_was_told():
    chosen = config(rounds=4, share=0.1, new=9, near=0.8, tries=3, budget=2.5, seed=6, insecure_seed=7, high=2, low=0)
    plan = plan_of(chosen.evolve, Mechanism())
    assert (plan.rounds, plan.keep, plan.new, plan.budget) == (4, Keep(0.1), 9, 2.5)
    assert (plan.seed, plan.insecure_seed, plan.cap) == (6, 7, None)
    assert (plan.taking.similarity, plan.taking.tries) == (0.8, 3)
    assert plan.feedback == InContext(2, 0, "continue", "a short message")


@pytest.mark.parametrize(("prompt", "used"), [(None, "paraphrase"), ("continue", "continue")])
def test_paraphrases_are_a_rule_too(prompt, used):
    flags = {"feedback": "paraphrase"} | ({} if prompt is None else {"prompt": prompt})
    assert plan_of(config(**flags).evolve, Mechanism()).feedback == ParaphraseKept(used)


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
def test_the_plan_holds_the_rules_that_keys_name(flags, keeper, feedback):
    plan = plan_of(config(**flags).evolve, Mechanism())
    assert (plan.keeper, plan.feedback) == (keeper, feedback)


def test_fresh_candidates_are_asked_for_as_the_first_bank_was(tmp_path):
    (tmp_path / "public.txt").write_text("One.\nTwo.\n")
    flags = {"evolve.feedback": "fresh", "bank.prompt": "bank-examples", "bank.shots": 1}
    chosen = resolve(flags=flags | {"bank.examples": str(tmp_path / "public.txt")}).config
    rule = plan_of(chosen.evolve, Mechanism(), chosen.bank).feedback
    assert rule == Fresh(load_prompt("bank-examples"), examples=("One.", "Two."), shots=1)


def test_schedules_are_read_from_flags_and_lists():
    plan = plan_of(config(share="0.5,0.25", temperature=[1.2, 0.7], carry="false").evolve, Mechanism())
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


def test_one_prompt_for_two_rules_with_other_fields_is_refused():
    with pytest.raises(ConfigError, match="both in-context and paraphrase"):
        plan_of(config(feedback="in-context,paraphrase", prompt="continue").evolve, Mechanism())


def test_only_a_simulation_is_audited():
    require_private(config(audit="nonce", insecure_seed=0))
    require_private(config())
    with pytest.raises(ConfigError, match="nonce is a simulation"):
        require_private(config(audit="nonce"))


def test_q_comes_from_the_declared_population_before_the_counted_one():
    assert spending_mechanism(config(users=50, population=1000), 500).q == 0.05
    assert spending_mechanism(config(users=50, population=1000)).q == 0.05


def test_mauve_is_left_out_where_it_is_not_wanted_or_not_installed(monkeypatch):
    assert mauve_of(config(mauve=False).evolve) is None
    assert mauve_of(config().evolve).buckets is None
    assert mauve_of(config(buckets=7).evolve).buckets == 7
    monkeypatch.setattr("canarybank.flow.evolution.find_spec", lambda _: None)
    assert mauve_of(config().evolve) is None


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
def test_a_setting_that_no_chosen_rule_takes_is_noted(flags, unused):
    found = _notes(config(**flags).evolve, ("known",), Mechanism())
    assert found[0] == "known"
    assert [note.partition(":")[0] for note in found[1:]] == unused


@pytest.mark.parametrize("share", ["0.5,0.6,2", "2", [0.5, 2.0]])
def test_a_share_out_of_range_is_refused_with_the_range(share):
    with pytest.raises(
        ConfigError, match=r"The value '?2(\.0)?'? of evolve.share .*: input should be less than .* 1\."
    ):
        config(share=share)
