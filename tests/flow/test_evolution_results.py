from canarybank.config import EvolveConfig
from canarybank.run.results import schema, statement_of


def test_every_field_has_a_line_of_documentation():
    facts = schema()["results"]["$defs"]["EvolutionFacts"]
    for part in (facts,):
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name


def test_the_statement_says_what_is_private():
    assert "for adding or removing one user" in statement_of(EvolveConfig())
    assert "figures of utility" in statement_of(EvolveConfig(reference=5))
    assert "figures of utility" not in statement_of(EvolveConfig())
    assert "simulation" in statement_of(EvolveConfig(insecure_seed=0))


def test_the_statement_says_which_runs_the_epsilon_covers():
    assert "covers this run alone" in statement_of(EvolveConfig())
    assert "other runs over the same people add to it" in statement_of(EvolveConfig())
    assert "covers all runs that name it" in statement_of(EvolveConfig(account="people.log"))
    assert "debits no budget account" in statement_of(EvolveConfig(account="people.log", insecure_seed=0))
