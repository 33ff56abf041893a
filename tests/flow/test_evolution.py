import json
import shutil
import sys

import numpy as np
import pytest

from canarybank.config import resolve
from canarybank.engine import Serial
from canarybank.errors import (
    ConfigError,
    DataError,
    GenerationError,
    IncompleteError,
    InputError,
    MissingError,
)
from canarybank.evolution import Evolution
from canarybank.flow import run_audit, run_evolution
from canarybank.mechanism import Account, Mechanism, epsilon
from canarybank.run import Run
from canarybank.store import StageCache


@pytest.mark.usefixtures("fresh_cache")
def test_an_evolution_leaves_a_population_with_lineage_in_three_formats(evolving, scripted, tmp_path):
    run = run_evolution(resolve(flags=evolving), tmp_path / "run", command="canarybank evolve")
    lines = [json.loads(line) for line in (run.folder / "population.jsonl").read_text().splitlines()]
    assert len(lines) == run.results.evolution.candidates == 60
    assert {line["born"] for line in lines} <= {0, 1, 2}
    assert all(line["parents"] and line["prompt"] for line in lines if line["born"])
    assert {line["insecure_seed"] for line in lines} == {3}
    assert (run.folder / "population.parquet").is_file()
    assert (run.folder / "population.csv").read_text().startswith("id,")
    assert scripted.asked


@pytest.mark.usefixtures("scripted")
def test_every_round_states_what_was_spent(evolving, tmp_path):
    results = run_evolution(resolve(flags=evolving), tmp_path / "run").results
    facts, expected = results.evolution, [pytest.approx(epsilon(results.mechanism, t)) for t in (1, 2)]
    assert [each.epsilon for each in facts.rounds] == expected
    assert (results.rounds, results.epsilon) == (2, expected[-1])
    assert all(each.added_up >= each.epsilon - 1e-6 for each in facts.rounds)
    assert facts.complete
    assert facts.stopped is None
    assert facts.utility is results.setup is results.commitment is None
    assert results.attacks == ()


@pytest.mark.usefixtures("scripted")
def test_sigma_follows_from_epsilon_and_q_from_users(evolving, tmp_path):
    flags = evolving | {"evolve.epsilon": 3.0, "evolve.users": 6}
    results = run_evolution(resolve(flags=flags), tmp_path / "run").results
    assert results.mechanism.q == 6 / results.evolution.voters
    assert 2.99 < results.epsilon <= 3.0


@pytest.mark.usefixtures("scripted")
def test_a_budget_ends_the_run_before_the_release_that_would_pass_it(evolving, tmp_path):
    whole = epsilon(Mechanism(k=3, q=0.5), 1)
    results = run_evolution(resolve(flags=evolving | {"evolve.budget": whole + 0.01}), tmp_path / "run").results
    assert len(results.evolution.rounds) == results.rounds == 1
    assert not results.evolution.complete
    assert "past the declared budget" in results.evolution.stopped
    assert any("affords 1 of 2 rounds" in note for note in results.notes)
    assert len(Evolution.load(tmp_path / "run" / "evolution").rounds) == 1


@pytest.mark.usefixtures("scripted")
def test_a_finished_run_is_returned_as_it_is(evolving, tmp_path):
    first = run_evolution(resolve(flags=evolving), tmp_path / "run")
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    run_evolution(resolve(flags=evolving), tmp_path / "run")
    assert {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("scripted")
def test_changed_privacy_parameters_are_refused_with_what_differs(evolving, tmp_path):
    run_evolution(resolve(flags=evolving), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"mechanism.sigma: 1.0 -> 2.0\n  evolve.budget: left out -> 9.0"):
        run_evolution(resolve(flags=evolving | {"mechanism.sigma": 2.0, "evolve.budget": 9.0}), tmp_path / "run")


@pytest.mark.usefixtures("scripted")
def test_a_start_that_came_to_nothing_does_not_hold_the_folder(evolving, tmp_path):
    with pytest.raises(DataError):
        run_evolution(resolve(flags=evolving | {"users.source": "no-such-file.csv"}), tmp_path / "run")
    assert run_evolution(resolve(flags=evolving), tmp_path / "run").is_finished


@pytest.mark.usefixtures("fresh_cache", "scripted")
def test_a_generator_that_fails_leaves_the_release_and_the_same_call_goes_on(evolving, answering, tmp_path):
    with answering(["I saw the cat and the dog today."]), pytest.raises(GenerationError):
        run_evolution(resolve(flags=evolving), tmp_path / "run")
    release = (tmp_path / "run" / "evolution" / "rounds" / "000" / "release.insecure.npy").read_bytes()
    with pytest.raises(IncompleteError, match="same command"):
        _ = Run.open(tmp_path / "run").results
    run = run_evolution(resolve(flags=evolving), tmp_path / "run")
    assert (tmp_path / "run" / "evolution" / "rounds" / "000" / "release.insecure.npy").read_bytes() == release
    assert run.results.rounds == 2


@pytest.mark.usefixtures("scripted")
def test_the_same_seed_gives_the_same_results(evolving, tmp_path):
    results = [run_evolution(resolve(flags=evolving), tmp_path / name).results.text() for name in ("one", "two")]
    assert results[0] == results[1]


@pytest.mark.usefixtures("scripted")
def test_a_real_run_bears_no_stamp_and_is_never_the_same(evolving, tmp_path):
    flags = {key: value for key, value in evolving.items() if key != "evolve.insecure_seed"}
    runs = [run_evolution(resolve(flags=flags), tmp_path / name) for name in ("one", "two")]
    releases = [Evolution.load(run.folder / "evolution").rounds[0].release for run in runs]
    assert not np.array_equal(*releases)
    assert runs[0].results.evolution.insecure_seed is None
    assert "The ledger states the epsilon" in runs[0].results.statement
    assert "insecure" not in (runs[0].folder / "population.csv").read_text()


@pytest.mark.usefixtures("scripted")
def test_an_audit_needs_a_seed_and_says_so(audited, tmp_path):
    flags = {key: value for key, value in audited.items() if key != "evolve.insecure_seed"}
    with pytest.raises(ConfigError, match="--insecure-seed"):
        run_evolution(resolve(flags=flags), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def audited_run(audited, answering, tmp_path_factory):
    """Run a small audited evolution once."""
    with answering():
        return run_evolution(resolve(flags=audited), tmp_path_factory.mktemp("audited") / "run")


@pytest.mark.usefixtures("scripted")
def test_an_audited_evolution_over_shards_is_the_same_bytes(audited, audited_run, tmp_path):
    streamed = run_evolution(resolve(flags=audited | {"run.shards": 5}), tmp_path / "run")
    assert streamed.manifest.stages["made"]["pass"] > 5
    for path in audited_run.folder.rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            assert (streamed.folder / path.relative_to(audited_run.folder)).read_bytes() == path.read_bytes(), path


def test_an_audited_run_shows_every_prefix_and_what_it_cost(audited_run):
    results = audited_run.results
    facts = results.evolution
    assert [each.rounds for each in results.attacks] == [1, 2]
    for prefix, done in zip(results.attacks, facts.rounds, strict=True):
        (canary,), theory = prefix.canaries, prefix.ladder.mechanism.epsilon
        assert theory == pytest.approx(done.epsilon)
        assert canary.supremum.lower <= canary.exact + 1e-9
        assert canary.exact <= theory + 1e-4
        assert canary.bound.trials == (4000, 4000)
    assert results.final == results.attacks[1:]
    assert any("conditional on the banks" in note for note in results.notes)
    assert [each.round for each in facts.cost] == [0, 1, 2]
    assert facts.utility.probes == 8
    assert facts.plain.probes == 0
    assert facts.rounds[0].probes == 8
    assert "simulation" in results.statement


def test_roots_are_told_before_the_vote_and_the_commitment_is_on_disk_and_told_before_the_first_trial(
    audited, answering, audited_run, tmp_path
):
    told, played, released, folder = [], [], {}, tmp_path / "run"

    def tell(text):
        told.append(text)
        if "the root of its bank" in text:
            released[text] = len(Evolution.load(folder / "evolution").rounds)

    class Watching:
        def run(self, function, tasks):
            # The thresholds are cached by the run before, so only the evaluation comes here.
            (said,) = [text for text in told if text.startswith("commitment: ")]
            assert Run.open(folder).commitment_hash in said
            played.extend(tasks)
            return Serial().run(function, tasks)

    with answering():
        run = run_evolution(resolve(flags=audited), folder, engine=Watching(), told=tell)
    assert played
    # Each root is told once, while the release over its bank is not made yet.
    roots = [each.root for each in run.results.evolution.rounds]
    assert [text.split(" is ")[1].split(";")[0] for text in released] == roots
    assert list(released.values()) == [0, 1]
    assert run.results == audited_run.results


def test_probes_keep_their_places_and_never_enter_the_population(audited_run):
    evolution = Evolution.load(audited_run.folder / "evolution")
    banks = [each.bank for each in evolution.rounds]
    assert banks[0].reserved == banks[1].reserved
    places = list(banks[0].reserved)
    assert np.array_equal(banks[0].vectors[places], banks[1].vectors[places])
    probes = {banks[0].texts[place] for place in places}
    assert not probes & set(evolution.population.texts)
    plain = Evolution.load(audited_run.folder / "plain")
    assert plain.rounds[0].bank.reserved == ()


def test_voters_reference_and_canaries_are_apart(audited_run):
    results = audited_run.results
    facts = results.evolution
    assert results.setup.evaluation == facts.voters
    assert facts.utility.reference_users == 6
    assert facts.voters + facts.utility.reference_users < 30


def test_a_folder_of_the_other_kind_is_refused(resolved, audited_run, finished, evolving, tmp_path):
    with pytest.raises(InputError, match="is of the kind audit, not evolution"):
        run_evolution(resolve(flags=evolving), shutil.copytree(finished.folder, tmp_path / "other"))
    with pytest.raises(InputError, match="is of the kind evolution, not audit"):
        run_audit(resolved, audited_run.folder)


def test_the_evolve_section_decides_nothing_in_an_audit(flags, copied):
    run = run_audit(resolve(flags=flags | {"evolve.rounds": 9}), copied)
    assert run.is_finished


@pytest.fixture
def real(evolving):
    """Return the settings of a real run."""
    return {key: value for key, value in evolving.items() if key != "evolve.insecure_seed"}


@pytest.mark.usefixtures("scripted", "fresh_cache")
@pytest.mark.parametrize("shards", [0, 2])
def test_every_run_says_what_is_wrong_with_an_engine_before_it_reads_users(real, evolving, flags, shards, tmp_path):
    class Unreachable(Serial):
        def connect(self):
            raise ConfigError("There is no cluster at 10.0.0.1.")

    for start, told in ((run_evolution, real), (run_evolution, evolving), (run_audit, flags)):
        with pytest.raises(ConfigError, match="no cluster at"):
            start(resolve(flags=told | {"run.shards": shards}), tmp_path / "run", engine=Unreachable())
        assert not (tmp_path / "run").exists()
    assert not StageCache().usage()


@pytest.fixture
def account(tmp_path):
    """Open an account that pays three releases."""
    budget = epsilon(Mechanism(q=0.5), 3) + 1e-6
    return Account.open(tmp_path / "people.log", "patients of 2026", budget=budget, q=0.5, sigma=1.0)


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize("noise", ["discrete", "float"])
def test_a_real_run_states_what_its_noise_adds_to_delta(real, tmp_path, noise):
    results = run_evolution(resolve(flags=real | {"evolve.noise": noise}), tmp_path / "run").results
    first, last = results.evolution.rounds
    assert 0 < first.slack < last.slack < 1e-6
    assert last.delta == 1e-5
    assert "covers this run alone" in results.statement
    assert results.evolution.account is None


@pytest.mark.usefixtures("scripted")
def test_an_account_pays_for_the_runs_that_name_it_and_then_no_more(real, account, tmp_path):
    flags = real | {"evolve.account": str(account.path)}
    first = run_evolution(resolve(flags=flags), tmp_path / "one").results.evolution
    assert first.complete
    assert (first.account.population, first.account.releases, first.account.left) == ("patients of 2026", 2, 1)
    assert first.account.epsilon == pytest.approx(first.rounds[-1].epsilon)
    assert "A budget account paid" in Run.open(tmp_path / "one").results.statement
    second = run_evolution(resolve(flags=flags), tmp_path / "two").results.evolution
    assert len(second.rounds) == 1
    assert "cannot pay another release" in second.stopped
    assert (second.account.releases, second.account.left) == (3, 0)
    assert second.account.run != first.account.run


@pytest.mark.usefixtures("scripted")
def test_a_simulation_pays_nothing_and_says_so(evolving, account, tmp_path):
    before = account.path.read_bytes()
    run = run_evolution(resolve(flags=evolving | {"evolve.account": str(account.path)}), tmp_path / "run")
    assert account.path.read_bytes() == before
    assert "debits no budget account" in run.results.statement
    assert run.results.evolution.slack == 0.0


@pytest.mark.usefixtures("scripted")
def test_q_and_sigma_must_be_those_of_the_account(real, account, tmp_path):
    flags = real | {"evolve.account": str(account.path), "mechanism.sigma": 2.0}
    with pytest.raises(ConfigError, match=r"sigma is 1\.0 there and 2\.0 here"):
        run_evolution(resolve(flags=flags), tmp_path / "run")
    assert account.debits == Account(account.path).debits == ()


def test_a_missing_sampler_or_account_is_said_before_anything_is_read(real, tmp_path, monkeypatch):
    unread = real | {"users.source": "no-such-file.csv"}
    with pytest.raises(ConfigError, match="no budget account"):
        run_evolution(resolve(flags=unread | {"evolve.account": str(tmp_path / "nothing")}), tmp_path / "run")
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingError, match=r"canarybank\[opendp\]"):
        run_evolution(resolve(flags=unread), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("scripted")
def test_the_releases_of_a_run_can_be_put_in(real, tmp_path):
    asked = []

    class Fixed:
        def __init__(self, voters, plan):
            asked.append((len(voters.users), plan.rounds))

        def release(self, round_number, bank):
            asked.append(round_number)
            return np.arange(bank.size, dtype=np.float64)

    run = run_evolution(resolve(flags=real), tmp_path / "run", releaser=Fixed)
    assert run.results.evolution.voters is None
    assert asked == [(30, 2), 0, 1]
    rounds = Evolution.load(run.folder / "evolution").rounds
    assert all(np.array_equal(done.release, np.arange(done.bank.size)) for done in rounds)


def test_an_account_beside_the_configuration_file_is_found(tmp_path, account):
    (tmp_path / "own.toml").write_text('[evolve]\naccount = "people.log"\n')
    assert resolve(tmp_path / "own.toml").config.evolve.account == str(account.path)
