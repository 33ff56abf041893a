import json

import pytest


def test_an_untouched_run_gives_0(cli, finished, golden, masked):
    outcome = cli("verify", finished)
    assert outcome.code == 0
    golden("verify.txt", masked(outcome.out, finished))


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
