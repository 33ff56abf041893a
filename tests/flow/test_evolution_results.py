import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow import run_evolution
from canarybank.mechanism import Account, Mechanism, epsilon


@pytest.fixture
def statement(evolving, scripted, tmp_path):
    """Return a function that gives the statement of an evolution that can pay no release."""
    del scripted  # it answers meanwhile
    real = {key: value for key, value in evolving.items() if key != "evolve.insecure_seed"}

    def state(**flags):
        told = real | {"evolve.budget": 1e-3} | {f"evolve.{key}": value for key, value in flags.items()}
        run = run_evolution(resolve(flags=told), tmp_path / "-".join(["run", *flags]))
        assert run.results.statement == run.manifest.statement
        return run.results.statement

    return state


def test_the_statement_says_what_is_private(statement):
    assert "for adding or removing one user" in statement()
    assert "nothing of it is differentially private" in statement(insecure_seed=0)


def test_the_statement_says_which_runs_the_epsilon_covers(statement, evolving, tmp_path):
    assert "covers this run alone" in statement()
    assert "other runs over the same people add to it" in statement()
    budget = epsilon(Mechanism(q=0.5), 3)
    Account.open(tmp_path / "people.log", "people", budget=budget, q=evolving["mechanism.q"], sigma=1.0)
    account = str(tmp_path / "people.log")
    assert "covers all runs that name it" in statement(account=account)
    assert "debits no budget account" in statement(account=account, insecure_seed=0)


def test_figures_of_utility_without_noise_are_for_a_simulation_alone(statement):
    with pytest.raises(ConfigError, match=r"evolve\.reference cannot be used in a real run"):
        statement(reference=5)
