"""The folder of an audited evolution is verified, gated and listed as an audit's is; nothing altered in it passes."""

import json
import shutil
from dataclasses import replace

import pytest

from canarybank.auditing import Counts, attack_bound
from canarybank.config import resolve
from canarybank.errors import StoreError
from canarybank.flow import run_evolution, settings_of
from canarybank.mechanism import attained_epsilon, epsilon
from canarybank.report import Tone, verdict
from canarybank.run import Run, gate, list_runs, verify
from canarybank.store import Log, canonical_json, hash_folder


@pytest.fixture(scope="module")
def told(audited):
    return audited | {
        "evolve.audit": "nonce-norm,ordinary",
        "audit.trials": 40_000,
        "evolve.canaries": 2,
        "cohorts.canaries": 2,
    }


@pytest.fixture(scope="module")
def done(told, answering, tmp_path_factory):
    """Return an evolution of two rounds that two attacks audited, with a bound that is worth gating."""
    with answering():
        return run_evolution(resolve(flags=told), tmp_path_factory.mktemp("evolved") / "run")


@pytest.fixture(scope="module")
def unaudited(evolving, answering, tmp_path_factory):
    with answering():
        return run_evolution(resolve(flags=evolving), tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture
def mine(done, tmp_path):
    """Return a copy that may be altered."""
    return shutil.copytree(done.folder, tmp_path / "run")


@pytest.fixture
def mine_unaudited(unaudited, tmp_path):
    return shutil.copytree(unaudited.folder, tmp_path / "run")


def alter(folder, change, name="results.json"):
    """Change a file and seal it again, as somebody would who wants it to look right; return what is found."""
    value = json.loads((folder / name).read_text())
    change(value)
    (folder / name).write_text(canonical_json(value, indent=2) + "\n")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = hash_folder(folder, skip={"manifest.json"})
    (folder / "manifest.json").write_text(canonical_json(manifest, indent=2) + "\n")
    return verify(folder).findings


def test_it_verifies_under_its_published_hash(done):
    found = verify(done.folder, done.commitment_hash)
    assert (found.ok, found.findings, found.commitment) == (True, (), done.commitment_hash)
    assert [(each.attack, each.rounds) for each in done.commitment.attacks] == [
        *(("nonce-norm", 1), ("nonce-norm", 2)),
        *(("ordinary", 1), ("ordinary", 2)),
    ]


def test_a_claim_is_held_against_all_releases_and_alpha_is_split_over_the_attacks(done):
    results, exact = done.results, epsilon(done.results.mechanism, 2)
    assert gate(done, exact).ok
    outcome = gate(done, exact - 0.01)
    assert {cause.kind for cause in outcome.causes} >= {"mechanism"}
    assert gate(done, epsilon(results.mechanism, 1)).ok is False
    assert {each.attack: each.alpha for each in outcome.attacks} == {"nonce-norm": 0.025, "ordinary": 0.025}
    assert (outcome.rounds, outcome.exact, outcome.commitment) == (2, results.epsilon, done.commitment_hash)
    assert outcome.attained == attained_epsilon(results.mechanism, 2)


def test_what_two_releases_attain_is_their_composed_epsilon_from_below(done):
    mechanism = done.results.mechanism
    for rounds in (1, 2, 5):
        exact = epsilon(mechanism, rounds)
        assert exact * (1 - 1e-5) < attained_epsilon(mechanism, rounds) <= exact


def test_a_claim_below_an_attacks_exact_epsilon_after_any_round_fails(done):
    reached = {each.attack: each.exact for each in gate(done, 100.0).attacks}
    for attack, low in reached.items():
        ends = [each.ladder.attack.low for each in done.results.attacks if each.attack == attack]
        assert low == max(ends)
        failing = {cause.attack for cause in gate(done, low * 0.998).causes if cause.kind == "attack"}
        assert attack in failing
        passing = {cause.attack for cause in gate(done, low).causes if cause.kind == "attack"}
        assert attack not in passing


def test_it_is_listed_with_its_bound_and_its_claim(done):
    (entry,) = [each for each in list_runs(done.folder.parent) if each.run == str(done.folder)]
    assert (entry.state, entry.ok, entry.attacks) == ("finished", True, 2)
    assert entry.claimed == done.results.epsilon
    assert entry.largest.attack.endswith(", 2 rounds")


@pytest.mark.parametrize(
    "name",
    [
        *("results.json", "commitment.json", "trials.log", "population.jsonl"),
        *("evolution/rounds/000/bank.npy", "evolution/rounds/001/release.insecure.npy", "evolution/ledger.log"),
    ],
)
def test_one_changed_byte_in_any_file_is_found_and_nothing_is_gated(mine, name):
    (mine / name).write_bytes((mine / name).read_bytes() + b" ")
    assert any(finding.startswith(f"{name} is altered") for finding in verify(mine).findings)
    with pytest.raises(StoreError, match="does not verify"):
        gate(Run.open(mine), 100.0)
    assert [each.state for each in list_runs(mine.parent)] == ["damaged"]


def test_a_file_slipped_in_among_its_own_is_found(mine):
    (mine / "evolution" / "rounds" / "009").mkdir()
    (mine / "evolution" / "rounds" / "009" / "bank.npy").write_bytes(b"x")
    assert verify(mine).findings == ("evolution/rounds/009/bank.npy was added since the run was sealed.",)


def fewer_rounds(value):
    value["rounds"] = 0


def forgotten_round(value):
    del value["evolution"]["rounds"][-1]


def cheaper_round(value):
    value["evolution"]["rounds"][-1]["epsilon"] /= 2


def another_delta(value):
    value["evolution"]["rounds"][-1]["delta"] = 0.1


def cheaper_run(value):
    value["epsilon"] /= 2


def real_run(value):
    value["evolution"]["insecure_seed"] = None


def other_settings(value):
    value["evolution"]["evolve"]["account"] = "people.log"


def other_bank(value):
    value["evolution"]["rounds"][0]["bank"] = "0" * 64


def other_root(value):
    assert len(value["evolution"]["rounds"][1]["root"]) == 64
    value["evolution"]["rounds"][1]["root"] = "0" * 64


def no_evolution(value):
    value["evolution"] = None


def weaker(value):
    for each in value["attacks"]:
        for canary in each["canaries"]:
            canary["supremum"] = {"lower": 0.0, "upper": 0.0}
            canary["exact"] = 0.0
        each["ladder"]["attack"].update(low=0.0, high=0.0, epsilon=0.0)


def weaker_in_words(value):
    value["attacks"][1]["ladder"]["attack"]["epsilon"] = 0.01


def stronger_point(value):
    value["attacks"][1]["canaries"][0]["exact"] = 9.0


def weaker_rule(value):
    for canary in value["attacks"][1]["canaries"]:
        canary["rule"] = {"lower": 0.0, "upper": 0.0}
    value["attacks"][1]["ladder"]["rule"].update(low=0.0, high=0.0, epsilon=0.0)


def larger_mechanism(value):
    value["attacks"][0]["ladder"]["mechanism"].update(epsilon=9.0, low=9.0, high=9.0)


def about_people(value):
    value["attacks"][0]["on_people"] = True


def plants_nothing(value):
    value["attacks"][0]["plants"] = False


def another_canary(value):
    record = value["attacks"][1]
    bounds = [canary["bound"]["epsilon"] for canary in record["canaries"]]
    assert bounds[0] != bounds[1]
    record["headline_canary"] = bounds.index(min(bounds))


def no_such_canary(value):
    value["attacks"][1]["headline_canary"] = 7


def no_canaries(value):
    value["attacks"][1]["canaries"] = []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (fewer_rounds, "The number of releases of the results is 0, but 2 was committed to"),
        (fewer_rounds, "they do not list as many rounds"),
        (forgotten_round, "they do not list as many rounds"),
        (cheaper_round, "Round 2 states epsilon"),
        (another_delta, "Round 2 states epsilon"),
        (cheaper_run, "their rounds spend"),
        (real_run, "of the seed"),
        (other_settings, "evolve.account of the results is people.log"),
        (other_bank, "The bank of round 1 in evolution is not the one that the results name"),
        (other_root, "The bank of round 2 in evolution is not the one that the results name"),
        (other_bank, "judged on another bank than that of round 1"),
        (no_evolution, "this is an evolution, and results.json is of another kind"),
        (weaker, "do not follow from each other"),
        (weaker_in_words, "A rung of nonce-norm over 2 rounds lies outside"),
        (stronger_point, "do not follow from each other"),
        (weaker_rule, "do not follow from each other"),
        (larger_mechanism, "The exact epsilon of nonce-norm is given as 9"),
        (about_people, "whom it is about"),
        (plants_nothing, "what it plants"),
        (another_canary, "is not the one with the largest bound"),
        (no_such_canary, "A check could not be made"),
        (no_canaries, "nonce-norm over 2 rounds are not those committed to"),
    ],
)
def test_results_altered_and_sealed_again_are_found(mine, change, message):
    assert any(message in finding for finding in alter(mine, change))


def test_a_bank_whose_own_hashes_fit_is_not_the_one_that_was_committed_to(mine):
    rounds = mine / "evolution" / "rounds"
    for path in (rounds / "001").glob("bank*"):
        shutil.copy(rounds / "000" / path.name, path)
    alter(mine, lambda value: value.update(round=1), "evolution/rounds/001/bank.json")
    assert any("bank.json' does not fit its checksum" in finding for finding in verify(mine).findings)


def test_counts_altered_in_the_log_are_found(mine):
    records = list(Log(mine / "trials.log").records())
    records[1]["positives"][1] += 1
    Log(mine / "trials.log").rewrite(records)
    assert any("not the sum of its shards" in finding for finding in alter(mine, lambda _: None))


def test_an_audit_cannot_be_taken_out_of_a_run(mine, done):
    def unaudit(value):
        value.update(commitment=None, attacks=[], setup=None)

    for name in ("commitment.json", "trials.log"):
        (mine / name).unlink()
    with pytest.raises(StoreError, match=r"its commitment\.json is missing"):
        alter(mine, unaudit)
    manifest = json.loads((mine / "manifest.json").read_text())
    manifest["config"]["evolve.audit"] = []
    (mine / "manifest.json").write_text(json.dumps(manifest))
    alter(mine, lambda value: value["evolution"]["evolve"].update(audit=[]))
    assert any("none with the published hash" in finding for finding in verify(mine, done.commitment_hash).findings)


def test_an_evolution_that_was_not_audited_says_so(unaudited):
    found = verify(unaudited.folder)
    assert found.ok
    assert "not audited" in found.notes[-1]
    with pytest.raises(StoreError, match="was not audited, so no claim can be held against it"):
        gate(unaudited, 1.0)
    (entry,) = list_runs(unaudited.folder.parent)
    assert (entry.state, entry.trials, entry.largest) == ("finished", 0, None)
    assert not verify(unaudited.folder, "0" * 64).ok


@pytest.mark.parametrize("change", [forgotten_round, cheaper_round, cheaper_run, real_run, other_bank, no_evolution])
def test_an_unaudited_evolution_altered_and_sealed_again_is_found(mine_unaudited, change):
    assert alter(mine_unaudited, change)


def with_first(results, counts=None, low=None):
    """Return results whose first attack shows other counts, or reaches another exact epsilon, in its first round."""
    first, *others = results.attacks
    if counts is not None:
        first = replace(first, canaries=tuple(replace(each, counts=counts) for each in first.canaries))
    if low is not None:
        first = replace(first, ladder=replace(first.ladder, attack=replace(first.ladder.attack, low=low)))
    return results.model_copy(update={"attacks": (first, *others)})


def verdict_on(done, results):
    """Return the verdict on a run that would have these results."""
    copy = Run(done.folder, "evolution")
    copy.__dict__["results"] = results
    return verdict(copy)


def test_a_ledger_is_exceeded_by_what_all_of_alpha_is_split_over(done, told):
    assert verdict_on(done, done.results).tone is not Tone.REFUTED
    stated = done.results.evolution.rounds[0].epsilon
    found = verdict_on(done, with_first(done.results, Counts(40_000, 0, 40_000, 40_000)))
    assert found.tone is Tone.REFUTED
    assert found.sentence.startswith("Violation detected: after 1 round the trials of nonce-norm show at least")
    assert "95% confidence over all attacks and rounds" in found.sentence
    # Between what the counts show with all of alpha and what they show with a quarter of it nothing is claimed.
    mechanism, settings, fp = done.results.mechanism, settings_of(resolve(flags=told).config), 0
    while attack_bound([(counts := Counts(9_000, fp, 40_000, 40_000))] * 2, mechanism, settings).epsilon > stated:
        fp += 1
    counts = Counts(9_000, fp - 1, 40_000, 40_000)
    assert attack_bound([counts] * 2, mechanism, settings).epsilon > stated
    assert verdict_on(done, with_first(done.results, counts)).tone is not Tone.REFUTED
    computed = verdict_on(done, with_first(done.results, low=stated + 0.5))
    assert computed.tone is Tone.REFUTED
    assert computed.sentence.startswith("The ledger is too small:")


def test_a_folder_serves_where_a_run_does(done):
    assert gate(done.folder, 9.0) == gate(done, 9.0)
    assert verify(done) == verify(done.folder)
