import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from canarybank.errors import InputError
from canarybank.run import Run, gate, verify
from canarybank.store import Log, canonical_json, hash_folder

FIRST_LAYOUT = Path(__file__).parent / "first_layout"


def alter(folder, name, change):
    """Change a JSON file in its own layout, as somebody would who knows the program."""
    path = folder / name
    value = json.loads(path.read_text())
    change(value)
    path.write_text(canonical_json(value, indent=2) + "\n")


def sealed(folder):
    """Write the hashes of the altered files into the manifest, as somebody would who wants them to look right."""
    files = hash_folder(folder, skip={"manifest.json"})
    alter(folder, "manifest.json", lambda value: value.update(files=files))
    return verify(folder)


def test_a_run_as_it_was_left_has_no_findings(finished):
    found = verify(finished.folder, finished.commitment_hash)
    assert found.ok
    assert found.findings == ()
    assert found.commitment == finished.commitment_hash


def test_without_the_published_hash_the_limit_is_said(finished):
    assert "could have been made anew" in verify(finished.folder).notes[0]


def test_another_published_hash_is_found(finished):
    found = verify(finished.folder, "0" * 64)
    assert not found.ok
    assert "not the published 000" in found.findings[0]


@pytest.mark.parametrize("name", ["results.json", "commitment.json", "trials.log"])
def test_one_changed_byte_in_any_file_is_found(copied, name):
    path = copied / name
    path.write_bytes(path.read_bytes() + b" ")
    assert any(finding.startswith(f"{name} is altered") for finding in verify(copied).findings)


def test_a_missing_file_is_found(copied):
    (copied / "report.html").write_text("x")
    Run.open(copied).seal()
    (copied / "report.html").unlink()
    assert verify(copied).findings == ("report.html is missing since the run was sealed.",)


def test_a_file_of_somebody_else_is_noted(copied):
    (copied / "notes.txt").write_text("x")
    found = verify(copied)
    assert found.ok
    assert any("notes.txt" in note for note in found.notes)


def raise_bound(value):
    value["attacks"][0]["headline"]["epsilon"] += 0.1
    value["attacks"][0]["ladder"]["observed"]["epsilon"] += 0.1


def raise_counts(value):
    value["attacks"][0]["canaries"][0]["counts"]["tp"] += 50


def shift_threshold(value):
    value["attacks"][0]["canaries"][0]["threshold"]["value"] += 1e-9


def fewer_trials(value):
    value["audit"]["trials"] = 100


def another_alpha(value):
    value["audit"]["alpha"] = 0.4


def another_ledger(value):
    value["attacks"][1]["ledger"]["entries"][0][1] = 0.01


def another_claim(value):
    value["audit"]["accounted"] = 9.0


def another_exact(value):
    value["epsilon"] = 0.5


def another_delta(value):
    value["mechanism"]["delta"] = 0.5


def another_delta_of_a_bound(value):
    value["attacks"][0]["canaries"][0]["bound"]["delta"] = 0.5


def weaker_attack(value):
    for canary in value["attacks"][1]["canaries"]:
        canary["supremum"]["lower"] = 0.0


def weaker_ladder(value):
    value["attacks"][1]["ladder"]["attack"]["low"] = 0.0


def other_rates(value):
    for canary in value["attacks"][1]["canaries"]:
        canary["eligible_rate"] = {"lower": 1e-9, "upper": 2e-9}


def another_observed(value):
    value["attacks"][1]["ladder"]["observed"]["epsilon"] = 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (raise_bound, "The bounds of ordinary are not those that its counts give"),
        (raise_counts, "canary 0, are not the sum of its shards"),
        (shift_threshold, "thresholds of ordinary are not those committed to"),
        (fewer_trials, "The number of trials of the results is 100, but 3000"),
        (another_alpha, "The alpha of the results is 0.4"),
        (another_ledger, "The alpha of nonce-norm is not split"),
        (another_observed, "The observed rung of nonce-norm"),
        (another_claim, "audit.accounted of the results is 9.0, but None was committed to"),
        (another_claim, "The claim of the results is 9.0"),
        (another_exact, "The exact epsilon of the results is 0.5"),
        (another_delta, "mechanism.delta of the results is 0.5, but 1e-05 was committed to"),
        (another_delta_of_a_bound, "The bounds of ordinary are not those that its counts give"),
        (weaker_attack, "The exact epsilon in the ladder of nonce-norm is not that of its best canary (supremum)"),
        (weaker_ladder, "The exact epsilon in the ladder of nonce-norm is not that of its best canary (supremum)"),
        (other_rates, "cannot come from the exact rate"),
    ],
)
def test_results_altered_and_sealed_again_are_found(copied, change, message):
    alter(copied, "results.json", change)
    assert any(message in finding for finding in sealed(copied).findings)


def test_counts_altered_everywhere_are_found_by_the_bounds_or_the_trials(copied):
    records = list(Log(copied / "trials.log").records())
    records[1]["positives"][0] += 1
    Log(copied / "trials.log").rewrite(records)
    assert any("not the sum of its shards" in finding for finding in sealed(copied).findings)


def test_a_commitment_made_afterwards_is_found(copied, finished):
    """Rewrite the commitment and everything that names its hash: only the published hash gives it away."""

    def later(value):
        value["attacks"][0]["canaries"][0]["threshold"] = 0.0

    def match(value):
        value["attacks"][0]["canaries"][0]["threshold"]["value"] = 0.0
        value["commitment"] = Run.open(copied).commitment_hash

    alter(copied, "commitment.json", later)
    assert {"commitment.json is altered since the run was sealed."} < set(verify(copied).findings)
    alter(copied, "results.json", match)
    alter(copied, "manifest.json", lambda value: value.update(commitment=Run.open(copied).commitment_hash))
    records = list(Log(copied / "trials.log").records())
    records[0]["commitment"] = Run.open(copied).commitment_hash
    Log(copied / "trials.log").rewrite(records)
    assert sealed(copied).ok
    assert not verify(copied, finished.commitment_hash).ok


def test_settings_altered_in_the_manifest_are_found(copied):
    alter(copied, "manifest.json", lambda value: value["config"].update({"mechanism.sigma": 9.0}))
    assert any("settings in manifest.json" in finding for finding in verify(copied).findings)
    alter(copied, "manifest.json", lambda value: value["files"].pop("results.json"))
    assert any("does not list results.json" in finding for finding in verify(copied).findings)


def test_counts_that_no_rule_of_this_run_gives_are_found_even_where_log_bounds_and_seal_agree(copied):
    """Rewrite the log of trials, the counts and every bound that follows from them: the exact rates tell."""
    run = Run.open(copied)
    first, second = run.results.attacks
    canary = first.canaries[0]
    counts = replace(canary.counts, tp=2900)
    first = replace(first, canaries=(replace(canary, counts=counts), first.canaries[1]))
    run.__dict__["results"] = run.results.model_copy(update={"attacks": (first, second)})
    assert any("2,900 of 3,000 tp of ordinary, canary 0, cannot come" in text for text in verify(run).findings)


def test_a_run_of_the_first_layout_still_verifies(tmp_path):
    folder = shutil.copytree(FIRST_LAYOUT, tmp_path / "run")
    published = "2a46c5e229f2d8a852e4dd1706fa3ebbee9dbfb7e0f31e2507cd9bff6160ab0e"
    found = verify(folder, published)
    assert found.findings == ()
    assert Run.open(folder).commitment.hash == published
    assert Run.open(folder).commitment.schema_version == 1
    assert gate(Run.open(folder), 1.695, published).ok
    alter(folder, "results.json", raise_counts)
    assert not sealed(folder).ok


def test_what_is_no_run_cannot_be_verified(tmp_path):
    with pytest.raises(InputError):
        verify(tmp_path)
