"""Take a plant from its design to its verdict by commands alone, and look at it on the way."""

import csv
import json
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from canarybank.cli import main

RUNS = 60
FLAGS = ("--system.runs", str(RUNS), "--system.apart", "40", "--mechanism.q", "1", "--mechanism.sigma", "1")


@pytest.fixture(scope="module")
def plant(own, tmp_path_factory):
    """Design a plant; tests take a copy."""
    folder = tmp_path_factory.mktemp("plants") / "plant"
    words = ["design", str(own), "-o", str(folder), *FLAGS, "--system.evidence", "bound,curve,betting", "--quiet"]
    assert main(words) == 0
    return folder


@pytest.fixture
def folder(plant, tmp_path):
    """Return a copy of the plant in a folder of runs; its times stay."""
    return shutil.copytree(plant, tmp_path / "runs" / "plant")


def record(folder, path, *, noise=1.0, restart=False):
    """Write releases as an operator would: the canary's contribution, and noise of some share of the claimed."""
    plant = json.loads((folder / "commitment.json").read_text())
    mechanism, rng = plant["claim"]["mechanism"], np.random.default_rng(8)
    (canary,) = plant["designed"]
    moved = np.array(plant["designed"][canary][0]["canary"])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "position", "value"])
        with (folder / "schedule.csv").open() as schedule:
            for number, row in enumerate(csv.DictReader(schedule)):
                draw = np.random.default_rng(number % 10) if restart else rng
                values = draw.normal(0.0, noise * mechanism["clip"] * mechanism["sigma"], len(moved))
                values += moved * bool(row["plant"])
                places = [place for _, place in plant["positions"]]
                writer.writerows([row["run"], *each] for each in zip(places, values.tolist(), strict=True))
    return path


def test_a_plant_that_is_not_scored_says_so_in_every_command(cli, folder):
    (run,) = cli("runs", "list", "--json").document["runs"]
    assert (run["state"], run["ok"], run["largest"], run["trials"]) == ("waiting", None, None, RUNS)
    assert run["reason"].startswith("Not judged yet: it is designed, and none of its 200 runs is scored")
    assert "not judged" in cli("runs", "list").out
    for words in (("verify", folder), ("report", folder), ("gate", folder, "--claimed-eps", "1")):
        outcome = cli(*words)
        assert outcome.code == 4
        assert "it is designed, and none of its 200 runs is scored; run the schedule, then" in outcome.err
        assert "altered" not in outcome.err
        assert outcome.out == ""


def test_a_plant_that_is_half_played_says_how_far_it_is(cli, folder, tmp_path):
    """The program dies at its second call: the runs set apart are there, the others are not."""
    releases = record(folder, tmp_path / "all.csv")
    program = tmp_path / "system.py"
    program.write_text(
        "import csv, pathlib, sys\n"
        "schedule, out = sys.argv[1:3]\n"
        f"rows = list(csv.DictReader(open({str(releases)!r})))\n"
        "wanted = {row['run'] for row in csv.DictReader(open(schedule))}\n"
        "if '200' in wanted: sys.exit(3)\n"
        "with open(pathlib.Path(out) / 'r.csv', 'w', newline='') as file:\n"
        "    writer = csv.DictWriter(file, ['run', 'position', 'value'])\n"
        "    writer.writeheader()\n"
        "    writer.writerows(row for row in rows if row['run'] in wanted)\n"
    )
    outcome = cli("score", folder, "--run", f"python {program}")
    assert outcome.code not in {0, 1, 5}, outcome.out
    (run,) = cli("runs", "list", "--json").document["runs"]
    assert run["reason"].startswith("Not judged yet: 80 of 200 runs are read; run the same `canarybank score` command")
    refused = cli("verify", folder)
    assert refused.code == 4
    assert "80 of 200 runs are read" in refused.err


@pytest.fixture
def scored(cli, folder, tmp_path):
    """Score a plant whose system has a quarter of the claimed noise."""
    outcome = cli("score", folder, record(folder, tmp_path / "releases.csv", noise=0.25))
    assert outcome.code == 1, outcome.err
    return folder


def test_a_scored_plant_is_reported_listed_verified_and_gated(cli, scored, words):
    assert all((scored / name).is_file() for name in ("report.html", "summary.md", "results.csv", "results.parquet"))
    before = {path.name: path.read_bytes() for path in scored.iterdir() if path.is_file()}
    report = cli("report", scored)
    assert report.code == 0
    assert report.out.startswith("The claim is refuted: ")
    assert {path.name: path.read_bytes() for path in scored.iterdir() if path.is_file()} == before
    assert cli("verify", scored).code == 0
    (run,) = cli("runs", "list", "--json").document["runs"]
    assert (run["state"], run["ok"], run["attacks"], run["trials"]) == ("finished", False, None, RUNS)
    assert run["largest"]["over"] == "over all evidence"
    assert run["reason"].startswith("The claim is refuted: ")
    told = ("gate", scored, "--claimed-eps", "0.5")
    found, out = cli(*told, "--json").document, words(cli(*told).out)
    assert out.startswith(words(found["statement"]))
    for each in found["evidence"]:
        assert f"{each['score']} {each['evidence']} the claim " in out
        assert f"{each['evidence']} assumes {each['assumption']}" in out
    assert "95% confidence over all evidence" in out
    assert f"commitment {found['commitment']}" in out


def test_a_score_has_a_fixed_form(cli, folder, tmp_path, golden, words, shape, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken
    releases = record(folder, tmp_path / "releases.csv", noise=0.25)
    out = words(cli("score", folder, releases, "--quiet").out)
    document = cli("score", folder, releases, "--json", "--quiet").document
    found = document["found"]
    assert out.startswith(words(found["statement"]))
    for each in found["shown"]:
        outcome = "refuted" if each["refuted"] else "not refuted"
        shown = "-" if each["epsilon"] is None else ""
        assert f"{each['score']} score {each['evidence']} {each['refutes']} {outcome} {shown}" in out
        assert f"power of {each['evidence']} {each['power']}" in out
    assert found["independence"]["statement"] in out
    assert f"commitment {document['commitment']}" in out
    golden("score.json", json.dumps(shape(document), indent=1) + "\n")


def test_the_page_shows_what_was_planted(scored):
    plant = json.loads((scored / "commitment.json").read_text())
    page = (scored / "report.html").read_text()
    assert f"1 canary, with {len(plant['positions'])} probes in the bank" in page
    assert ", ".join(str(place) for _, place in plant["positions"][:5]) in page


def test_the_gate_of_a_system_speaks_of_the_claim_and_of_all_evidence(cli, scored, tmp_path):
    document = cli("gate", scored, "--claimed-eps", "0.5", "--junit", "a.xml", "--markdown", "a.md", "--json").document
    assert document["ok"] is False
    assert document["attacks"] == []
    assert {(each["score"], each["evidence"]) for each in document["evidence"]} == {
        (score, kind) for score in ("designed", "fitted") for kind in ("bound", "curve", "betting")
    }
    assert document["claim"] == "epsilon 0.5 at delta 1e-05 for adding or removing one user, over 1 release"
    assert f"The claim: {document['claim']}." in document["statement"]
    suite = ET.fromstring((tmp_path / "a.xml").read_text())  # noqa: S314, we wrote it
    assert int(suite.get("tests")) == 7
    failed = {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}
    assert failed == {cause["attack"] or "mechanism" for cause in document["causes"]}
    assert len(failed) == int(suite.get("failures"))
    markdown = (tmp_path / "a.md").read_text()
    assert markdown.startswith("### Privacy audit gate: violation detected")
    assert document["claim"] in markdown
    assert document["commitment"] in markdown
    assert "| designed | curve | the claim fails | - |" in markdown


def test_the_gate_of_an_honest_system_gives_0_and_its_power(cli, folder, tmp_path):
    assert cli("score", folder, record(folder, tmp_path / "releases.csv")).code == 0
    outcome = cli("gate", folder, "--claimed-eps", "5", "--json")
    assert outcome.code == 0
    assert outcome.document["statement"].startswith("No violation detected at this power: ")
    assert all(each["power"] in outcome.document["statement"] for each in outcome.document["evidence"])
    assert cli("gate", folder, "--claimed-eps", "3").code == 1, "the claimed mechanism's exact epsilon is 4.377"


def test_runs_that_depend_on_each_other_give_5_in_score_and_gate_and_no_bound(cli, folder, tmp_path):
    scored = cli("score", folder, record(folder, tmp_path / "releases.csv", restart=True))
    assert scored.code == 5
    outcome = cli("gate", folder, "--claimed-eps", "9", "--junit", "a.xml", "--markdown", "a.md")
    assert outcome.code == 5
    assert outcome.out == ""
    assert "not independent" in outcome.err
    assert ET.fromstring((tmp_path / "a.xml").read_text()).get("errors") == "1"  # noqa: S314, we wrote it
    assert "refused" in (tmp_path / "a.md").read_text()
    (run,) = cli("runs", "list", "--json").document["runs"]
    assert (run["ok"], run["largest"]) == (None, None)
    assert "not independent" in run["reason"]
    assert not (folder / "results.csv").exists()


@pytest.mark.parametrize("name", ["results.json", "sealed.json", "schedule.csv", "releases/batch-000001.npz"])
def test_an_altered_plant_is_4_in_gate_and_report_and_listed_as_damaged(cli, scored, name):
    path = scored / name
    path.write_bytes(path.read_bytes() + b"\n")
    for words in (("gate", scored, "--claimed-eps", "50"), ("report", scored)):
        outcome = cli(*words)
        assert outcome.code == 4
        assert path.name in outcome.err
    (run,) = cli("runs", "list", "--json").document["runs"]
    assert run["state"] == "damaged"
