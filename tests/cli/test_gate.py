import json
import xml.etree.ElementTree as ET

import pytest


def test_a_claim_above_the_bound_gives_0_and_the_power(cli, finished):
    outcome = cli("gate", finished, "--claimed-eps", "50")
    assert outcome.code == 0
    assert outcome.out.startswith("No violation detected at this power")


def test_a_claim_below_the_bound_gives_1(cli, finished):
    outcome = cli("gate", finished, "--claimed-eps", "0.01")
    assert outcome.code == 1
    assert outcome.out.startswith("Violation:")


def test_the_table_says_what_it_stands_on(cli, finished, golden, masked):
    words = ("gate", finished, "--claimed-eps", "0.01")
    statement, out = cli(*words, "--json").document["statement"], cli(*words).out
    assert out.startswith(statement)
    golden("gate.txt", masked(out.replace(statement, "STATEMENT"), finished))


def test_the_document_has_a_fixed_form_and_alpha_is_split(cli, finished, golden, shape):
    outcome = cli("gate", finished, "--claimed-eps", "0.01", "--json")
    assert outcome.code == 1
    assert [attack["alpha"] for attack in outcome.document["attacks"]] == [0.025, 0.025]
    golden("gate.json", json.dumps(shape(outcome.document), indent=1) + "\n")


@pytest.mark.parametrize(("claimed", "failures"), [("50", "0"), ("0.01", "1")])
def test_files_for_a_pipeline_are_written(cli, finished, tmp_path, claimed, failures):
    cli("gate", finished, "--claimed-eps", claimed, "--junit", "gate.xml", "--markdown", "gate.md")
    suite = ET.fromstring((tmp_path / "gate.xml").read_text())  # noqa: S314, we wrote it
    assert suite.get("failures") >= failures
    assert (suite.get("failures") == "0") == (failures == "0")
    assert "claimed" in (tmp_path / "gate.md").read_text().lower()


@pytest.mark.parametrize("claimed", ["-1", "nan", "inf"])
def test_a_claim_that_is_none_is_2(cli, finished, claimed):
    assert cli("gate", finished, f"--claimed-eps={claimed}").code == 2


def test_no_run_is_2(cli):
    outcome = cli("gate", "nowhere", "--claimed-eps", "1")
    assert outcome.code == 2
    assert "There is no run in 'nowhere'" in outcome.err


def test_a_run_without_its_manifest_is_4(cli, copied):
    (copied / "manifest.json").unlink()
    outcome = cli("gate", copied, "--claimed-eps", "1")
    assert outcome.code == 4
    assert "it was altered, so restore it" in outcome.err


@pytest.mark.parametrize("name", ["results.json", "trials.log", "commitment.json"])
def test_an_altered_run_is_not_gated(cli, copied, name):
    path = copied / name
    path.write_bytes(path.read_bytes() + b"\n")
    outcome = cli("gate", copied, "--claimed-eps", "9")
    assert outcome.code == 4
    assert f"{name} in {str(copied)!r} is altered since the run was sealed" in outcome.err
    assert outcome.out == ""
