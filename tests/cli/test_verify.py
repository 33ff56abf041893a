import json

import pytest

from canarybank.store import hash_folder


def test_an_untouched_run_gives_0(cli, finished, words):
    outcome = cli("verify", finished)
    found, out = cli("verify", finished, "--json").document, words(outcome.out)
    assert outcome.code == 0
    assert out.startswith(f"Nothing differs from the commitment. commitment {found['commitment']}")
    assert found["notes"]
    assert all(words(note) in out for note in found["notes"])


def test_the_published_hash_is_compared(cli, finished):
    digest = cli("verify", finished, "--json").document["commitment"]
    assert cli("verify", finished, "--commitment", digest).code == 0
    other = cli("verify", finished, "--commitment", "0" * 64)
    assert other.code == 4
    assert other.out.startswith("1 difference found.\n")


@pytest.mark.parametrize("name", ["commitment.json", "results.json", "report.html", "trials.log"])
def test_an_altered_file_is_found(cli, copied, name):
    path = copied / name
    path.write_bytes(path.read_bytes().replace(b"3000", b"3001") + b" ")
    outcome = cli("verify", copied)
    assert outcome.code == 4
    assert name in outcome.out + outcome.err


def test_the_document_has_a_fixed_form(cli, finished, golden, shape):
    golden("verify.json", json.dumps(shape(cli("verify", finished, "--json").document), indent=1) + "\n")


def test_no_run_is_2_and_one_without_its_manifest_is_4(cli, copied):
    outcome = cli("verify", "nowhere")
    assert outcome.code == 2
    assert "There is no run in 'nowhere'" in outcome.err
    (copied / "manifest.json").unlink()
    assert cli("verify", copied).code == 4


@pytest.mark.parametrize("lost", [["commitment.json"], ["results.json"], ["commitment.json", "results.json"]])
def test_a_finished_run_that_lost_a_document_says_what_to_do_and_that_works(cli, copied, own, lost):
    before = hash_folder(copied)
    for name in lost:
        (copied / name).unlink()
    for words in (("verify", copied), ("gate", copied, "--claimed-eps", "50"), ("report", copied)):
        outcome = cli(*words)
        assert outcome.code == 4
        assert "is finished, but its" in outcome.err
        assert "Run the same `canarybank audit` command again" in outcome.err
    assert cli("audit", own, "--folder", copied).code == 0
    assert {name: hash_folder(copied)[name] for name in before} == before
    assert cli("verify", copied).code == 0


def test_a_document_that_cannot_be_made_again_is_not_put_back(cli, copied, own, monkeypatch):
    (copied / "commitment.json").unlink()
    monkeypatch.setattr("canarybank.run.commitment._STREAMS", ("numpy",))
    outcome = cli("audit", own, "--folder", copied)
    assert outcome.code == 4
    assert "what is made again is another one" in outcome.err
    assert not (copied / "commitment.json").exists()


def test_a_lost_log_of_trials_must_be_restored(cli, copied, own):
    (copied / "trials.log").unlink()
    for words in (("verify", copied), ("audit", own, "--folder", copied)):
        outcome = cli(*words)
        assert outcome.code == 4
        assert "trials.log is missing since the run was sealed" in outcome.out + outcome.err


def test_a_pooled_run_verifies(cli, own):
    assert cli("audit", own, "--folder", "pooled", "--audit.method", "pooled", "--audit.trials", "200").code == 0
    assert cli("verify", "pooled").code == 0
