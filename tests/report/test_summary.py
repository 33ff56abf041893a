import json
from dataclasses import replace

from canarybank.report import summarise_run
from canarybank.store import hash_file


def test_the_same_run_gives_the_same_summary(run, summary):
    assert json.dumps(summarise_run(run)) == json.dumps(summary)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def test_no_text_in_a_summary_is_long_or_hides_anything(summary):
    every = list(strings(summary))
    assert max(map(len, every)) < 2_500
    assert not any("\u202e" in text for text in every)
    assert any("⟨U+202E⟩" in text for text in every)


def test_numbers_are_those_of_the_results(run, summary):
    for record, attack in zip(run.results.attacks, summary["attacks"], strict=True):
        assert attack["headline"]["epsilon"] == record.headline.epsilon
        assert {name: rung["epsilon"] for name, rung in attack["rungs"].items()} == {
            rung.name: rung.epsilon for rung in record.ladder.rungs
        }
        assert [c["counts"]["tp"] for c in attack["canaries"]] == [c.counts.tp for c in record.canaries]


def test_hashes_are_those_on_disk(run, summary):
    hashes = dict(summary["provenance"]["hashes"])
    assert hashes["commitment.json"] == hash_file(run.folder / "commitment.json") == run.results.commitment
    assert hashes["results.json"] == hash_file(run.folder / "results.json")


def test_every_setting_stands_with_its_origin(run, summary):
    rows = {key: origin for key, _, origin in summary["provenance"]["config"]}
    assert rows.keys() == run.manifest.config.keys()
    assert rows["audit.trials"] == "flag"
    assert rows["audit.alpha"] == "default"


def test_an_attack_without_evidence_has_none(changed, run):
    bare = tuple(replace(attack, evidence={}) for attack in run.results.attacks)
    assert all(attack["evidence"] == {} for attack in summarise_run(changed(attacks=bare))["attacks"])


def test_users_in_no_cohort_are_accounted_for(run, summary):
    setup = run.results.setup
    drawn = {each.canary for attack in run.results.attacks if attack.on_people for each in attack.canaries}
    placed = setup.auxiliary + setup.calibration + setup.evaluation + len(drawn)
    said = dict(summary["facts"])["Set aside"]
    assert said.endswith(f"{40 - placed} in no cohort, of 40 admitted users")
    assert f"{len(drawn)} drawn as canaries" in said


def test_small_cohorts_are_warned_about_by_their_sizes(run, changed):
    def warned(**sizes):
        enough = dict.fromkeys(("auxiliary", "calibration", "evaluation"), 20)
        notes = summarise_run(changed(setup=run.results.setup.model_copy(update=enough | sizes)))["notes"]
        return [note for note in notes if note.startswith("Small cohorts")]

    assert warned() == []
    (note,) = warned(evaluation=19, auxiliary=1)
    assert note.startswith("Small cohorts: 19 evaluation users, 1 auxiliary user. With fewer than 20")
