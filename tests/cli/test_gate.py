import json
import xml.etree.ElementTree as ET

import pytest

from canarybank.store import canonical_json, hash_folder


def test_a_claim_above_the_bound_gives_0_and_the_power(cli, finished):
    outcome = cli("gate", finished, "--claimed-eps", "50")
    assert outcome.code == 0
    assert outcome.out.startswith("No violation detected at this power")


def test_a_claim_below_the_bound_gives_1(cli, finished):
    outcome = cli("gate", finished, "--claimed-eps", "0.01")
    assert outcome.code == 1
    assert outcome.out.startswith("Violation:")


def test_the_table_says_what_it_stands_on(cli, finished, words):
    told = ("gate", finished, "--claimed-eps", "0.01")
    found, out = cli(*told, "--json").document, words(cli(*told).out)
    assert out.startswith(words(found["statement"]))
    for attack in found["attacks"]:
        assert f"{attack['attack']} {attack['bound']['epsilon']:.3f} {attack['alpha']:g} " in out
        assert attack["bound"]["assumption"] in out
    assert f"claim {found['claim']} method {found['method']}, 95% confidence over all attacks, delta 1e-05" in out
    assert f"{found['trials']:,} of each hypothesis of each canary" in out
    assert "of the mechanism, computed without trials" in out
    assert f"commitment {found['commitment']}" in out


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
    assert f"{name} is altered since the run was sealed" in outcome.err
    assert outcome.out == ""


GRID = ["0", "0.5", "1", "3", "6", "8", "8.9", "8.98", "8.981", "8.982", "9", "50"]


@pytest.mark.parametrize("claimed", GRID)
def test_every_surface_is_red_where_one_of_them_is(cli, finished, tmp_path, claimed):
    """The exact epsilon of this mechanism is 8.981: no claim below it may look green anywhere."""
    words = ("gate", finished, "--claimed-eps", claimed, "--junit", "gate.xml", "--markdown", "gate.md", "--json")
    outcome = cli(*words)
    document = outcome.document
    suite = ET.fromstring((tmp_path / "gate.xml").read_text()).find("testsuite")  # noqa: S314, we wrote it
    title = (tmp_path / "gate.md").read_text().splitlines()[0]
    reached = [each["exact"] for each in document["attacks"]]
    bounds = [each["bound"]["epsilon"] for each in document["attacks"]]
    stands = float(claimed) >= 8.981
    assert stands == (float(claimed) >= max([8.9809, *bounds, *(end - 5e-4 for end in reached)]))
    assert outcome.code == (0 if stands else 1)
    assert document["ok"] is stands
    assert (document["causes"] == []) is stands
    assert (suite.get("failures") == "0") is stands
    assert title.endswith("no violation detected at this power") is stands
    assert document["statement"].startswith("No violation detected") is stands


def test_a_claim_below_the_exact_epsilon_names_what_it_was(cli, finished, tmp_path):
    outcome = cli("gate", finished, "--claimed-eps", "8", "--junit", "gate.xml", "--markdown", "gate.md", "--json")
    assert outcome.code == 1
    causes = outcome.document["causes"]
    assert (causes[0]["kind"], causes[0]["attack"]) == ("mechanism", None)
    assert causes[0]["epsilon"] == pytest.approx(8.9809, abs=1e-3)
    assert [cause["kind"] for cause in causes[1:]] == ["attack"] * (len(causes) - 1)
    assert "The claim is too small: this mechanism's exact epsilon" in outcome.document["statement"]
    assert (tmp_path / "gate.md").read_text().startswith("### Privacy audit gate: the claim is too small")
    suite = ET.fromstring((tmp_path / "gate.xml").read_text()).find("testsuite")  # noqa: S314, we wrote it
    failed = {
        case.get("name"): case.find("failure").get("type")
        for case in suite.findall("testcase")
        if len(case) and case.find("failure") is not None
    }
    assert failed["mechanism"] == "claim"
    assert "ordinary" not in failed


def rehashed(folder):
    """Write the hashes of all files into the manifest, as somebody would who wants them to look right."""
    files = hash_folder(folder, skip={"manifest.json"})
    altered(folder, "manifest.json", lambda value: value["files"].update(files))


def altered(folder, name, change):
    value = json.loads((folder / name).read_text())
    change(value)
    (folder / name).write_text(canonical_json(value, indent=2) + "\n")


def fewer_counts(folder):
    altered(folder, "results.json", lambda v: v["attacks"][1]["canaries"][0]["counts"].update(tp=0))
    rehashed(folder)


def no_files(folder):
    altered(folder, "manifest.json", lambda value: value.update(files={}))


def results_unlisted(folder):
    altered(folder, "manifest.json", lambda value: value["files"].pop("results.json"))
    altered(folder, "results.json", lambda v: v["attacks"][1]["canaries"][0]["counts"].update(tp=0))


def large_delta(folder):
    altered(folder, "results.json", lambda value: value["mechanism"].update(delta=0.5))
    rehashed(folder)


def other_commitment(folder):
    altered(folder, "commitment.json", lambda value: value.update(seed=5))
    rehashed(folder)


def weaker_attack(folder):
    altered(folder, "results.json", lambda v: v["attacks"][1]["canaries"][0]["supremum"].update(lower=0.0, upper=0.1))
    altered(folder, "results.json", lambda v: v["attacks"][1]["canaries"][1]["supremum"].update(lower=0.0, upper=0.1))
    rehashed(folder)


def longer_summary(folder):
    path = folder / "summary.md"
    path.write_text(path.read_text() + "All is well.\n")


def strange_name(folder):
    altered(folder, "manifest.json", lambda value: value["files"].update({"\x1b[31mEVIL": "00"}))


def unfinished_by_its_manifest(folder):
    altered(folder, "manifest.json", lambda value: value.update(state="started"))


@pytest.mark.parametrize("change", [longer_summary, strange_name, unfinished_by_its_manifest])
def test_whatever_verify_finds_the_gate_refuses_and_the_audits_command_mends(cli, copied, own, change):
    change(copied)
    assert cli("verify", copied).code == 4
    outcome = cli("gate", copied, "--claimed-eps", "50")
    assert outcome.code == 4
    assert "does not verify" in outcome.err
    assert "\x1b" not in outcome.err
    (entry,) = cli("runs", "list", copied.parent, "--json").document["runs"]
    assert entry["state"] != "finished"
    assert entry["reason"]
    assert cli("audit", own, "--folder", copied).code == 0
    assert cli("verify", copied).code == 0
    assert cli("gate", copied, "--claimed-eps", "50").code == 0


def test_a_run_that_its_manifest_calls_unfinished_is_not_said_to_lack_results(cli, copied):
    unfinished_by_its_manifest(copied)
    said = cli("report", copied).err
    assert "has no results.json yet" not in said
    assert "manifest.json says that the run is not finished" in said


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("RUN", "--claimed-eps", "50", "--commitment", "0" * 64), 4),
        (("RUN", "--claimed-eps=-1"), 2),
        (("nowhere", "--claimed-eps", "50"), 2),
    ],
)
def test_a_refused_gate_leaves_no_old_outcome_behind(cli, finished, tmp_path, words, code):
    files = ("--junit", "gate.xml", "--markdown", "gate.md")
    assert cli("gate", finished, "--claimed-eps", "50", *files).code == 0
    outcome = cli("gate", *(finished if word == "RUN" else word for word in words), *files)
    assert outcome.code == code
    suite = ET.fromstring((tmp_path / "gate.xml").read_text()).find("testsuite")  # noqa: S314, we wrote it
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert suite.find("testcase/error").get("message") in " ".join(outcome.err.split())
    text = (tmp_path / "gate.md").read_text()
    assert text.startswith("### Privacy audit gate: refused")
    assert "no violation" not in text.lower()


def test_a_gate_that_breaks_leaves_an_error_behind(cli, finished, tmp_path, monkeypatch):
    files = ("--junit", "gate.xml", "--markdown", "gate.md")
    assert cli("gate", finished, "--claimed-eps", "50", *files).code == 0
    monkeypatch.setattr("canarybank.run.gating.fresh_power", lambda *_: 1 / 0)
    assert cli("gate", finished, "--claimed-eps", "50", *files).code == 70
    assert 'errors="1"' in (tmp_path / "gate.xml").read_text()
    assert "refused" in (tmp_path / "gate.md").read_text().splitlines()[0]


def test_a_small_epsilon_is_no_zero(cli, own):
    told = ("--mechanism.sigma", "1000", "--mechanism.q", "0.1", "--mechanism.delta", "1e-7", "--audit.trials", "50")
    assert cli("audit", own, "--folder", "small", *told).code == 0
    exact = cli("gate", "small", "--claimed-eps", "9", "--json").document["exact"]
    assert 2e-4 < exact < 3e-4
    for claimed, code in (("0", 1), ("0.0002", 1), (f"{0.999 * exact:.9f}", 1), (f"{exact:#.4g}", 0), ("0.0003", 0)):
        outcome = cli("gate", "small", f"--claimed-eps={claimed}")
        assert outcome.code == code, claimed
        assert f"{exact:#.4g}" in outcome.out


@pytest.mark.parametrize(
    "change", [fewer_counts, no_files, results_unlisted, large_delta, other_commitment, weaker_attack]
)
def test_what_verify_refuses_neither_gate_nor_report_nor_audit_nor_a_listing_takes(cli, copied, own, change):
    change(copied)
    before = hash_folder(copied)
    assert cli("verify", copied).code == 4
    for words in (
        ("gate", copied, "--claimed-eps", "50"),
        ("report", copied),
        ("report", copied, "--out", "elsewhere"),
        ("audit", own, "--folder", copied),
    ):
        outcome = cli(*words)
        assert outcome.code == 4, words
        assert outcome.out == ""
        assert "does not verify" in outcome.err
    assert hash_folder(copied) == before
    (entry,) = cli("runs", "list", copied.parent, "--json").document["runs"]
    assert (entry["state"], entry["largest"]) == ("damaged", None)


def test_the_published_hash_is_compared_before_anything_is_gated(cli, finished):
    digest = cli("verify", finished, "--json").document["commitment"]
    assert cli("gate", finished, "--claimed-eps", "50", "--commitment", digest).code == 0
    other = cli("gate", finished, "--claimed-eps", "50", "--commitment", "0" * 64)
    assert other.code == 4
    assert "not the published 000" in other.err


def test_a_claim_that_the_run_itself_makes_and_that_is_too_small_is_red_in_every_command(cli, own, tmp_path):
    """The accountant says 2, the mechanism's exact epsilon is 8.981."""
    words = ("audit", own, "--folder", "runs/own", "--audit.accounted", "2", "--audit.trials", "200")
    document = cli(*words, "--json").document
    assert document["verdict"].startswith(("The claim is too small", "Violation detected"))
    summary = (tmp_path / "runs/own/summary.md").read_text()
    page = (tmp_path / "runs/own/report.html").read_text()
    for text in (summary, page.partition('id="glossary"')[0]):
        assert "No violation detected" not in text
    assert 'class="verdict tone-refuted"' in page
    (entry,) = cli("runs", "list", "--json").document["runs"]
    assert (entry["claimed"], entry["ok"]) == (2.0, False)
    assert "REFUTED" in cli("runs", "list").out
    swept = cli(
        "sweep", own, "--over", "mechanism.sigma=0.5,4", "--audit.accounted", "2", "--audit.trials", "200", "--json"
    ).document
    piece = swept["pieces"][0]
    claims = [(cell["at"]["mechanism.sigma"], cell["claim"]) for cell in piece["cells"]]
    assert claims == [(0.5, "fails"), (0.5, "fails"), (4.0, "stands"), (4.0, "stands")]
    table = (tmp_path / "runs/sweep-own/index.html").read_text()
    assert table.count("FAILS") >= 2
    notes = piece["notes"]
    assert [note.partition(":")[0] for note in notes if "claim is too small" in note] == ["sigma-0.5"]


def test_a_gate_says_the_first_three_findings_and_how_many_more_there_are(cli, copied):
    altered(copied, "results.json", lambda value: value["mechanism"].update(delta=0.5))
    found = cli("verify", copied, "--json").document["findings"]
    outcome = cli("gate", copied, "--claimed-eps", 5)
    assert outcome.code == 4
    assert len(found) > 3
    said = f"{' '.join(found[:3])} And {len(found) - 3} more; `canarybank verify {copied}` lists them."
    assert said in outcome.err
    assert found[3] not in outcome.err
