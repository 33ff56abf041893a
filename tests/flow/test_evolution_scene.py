import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.evolution import InContext, Keep, ParaphraseKept
from canarybank.flow.evolution import mauve_of, plan_of, spending_mechanism
from canarybank.flow.real_run import require_private
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


def test_only_a_simulation_is_audited():
    require_private(config(audit="nonce", insecure_seed=0))
    require_private(config())
    with pytest.raises(ConfigError, match="nonce is a simulation"):
        require_private(config(audit="nonce"))


def test_q_comes_from_the_declared_population_before_the_counted_one():
    assert spending_mechanism(config(users=50, population=1000), 500).q == 0.05
    assert spending_mechanism(config(users=50, population=1000)).q == 0.05


def test_mauve_is_left_out_where_it_is_not_wanted_or_not_installed(monkeypatch):
    assert mauve_of(config(mauve=False).evolve, 500) is None
    assert mauve_of(config().evolve, 500).buckets == 50
    assert mauve_of(config(buckets=7).evolve, 500).buckets == 7
    monkeypatch.setattr("canarybank.flow.evolution.find_spec", lambda _: None)
    assert mauve_of(config().evolve, 500) is None
