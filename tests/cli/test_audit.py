import json

import pytest
from watched import Watched

from canarybank.config import resolve
from canarybank.flow import run_audit


def test_a_file_of_users_becomes_a_run_with_a_page(cli, own, tmp_path):
    outcome = cli("audit", own)
    assert outcome.code == 0
    folder = tmp_path / "runs" / "own"
    assert {"manifest.json", "commitment.json", "results.json", "results.parquet", "report.html", "summary.md"} <= {
        path.name for path in folder.iterdir()
    }
    assert cli("verify", folder).code == 0


def test_the_table_says_what_every_figure_stands_on(cli, own, finished, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken
    told = ("audit", own, "--folder", finished)
    found, lines = cli(*told, "--json").document, [words(line) for line in cli(*told).out.splitlines()]
    out = "\n".join(lines)
    assert all(sentence in out for sentence in (found["verdict"], *found["beside"], *found["next"], *found["notes"]))
    for number in found["numbers"]:
        assert f"{number['value']} {number['words']} {number['note']}" in lines
    shown = {line.split()[0]: line.split() for line in lines if line.startswith(("ordinary", "nonce-norm"))}
    for attack in found["attacks"]:
        row, ladder = shown[attack["attack"]], attack["ladder"]
        rungs = [ladder[name]["epsilon"] for name in ("attack", "rule")]
        rungs += [ladder["expected"]["low"], ladder["expected"]["high"], ladder["observed"]["epsilon"]]
        figures = [float(row[index]) for index in (1, 2, 3, 5, 6)]
        assert figures == pytest.approx(rungs, rel=1e-3, abs=1e-3)
    bound = found["attacks"][0]["headline"]
    assert f"lower bound by the {bound['method']} method, 95% confidence each attack, 3,000 trials" in out
    assert f"computed with no trials, at delta {found['epsilon']['delta']:g}, add or remove one user" in out
    assert f"commitment {found['commitment']}" in lines
    assert f"page {finished / 'report.html'}" in lines


def test_the_document_has_a_fixed_form(cli, own, finished, golden, shape):
    document = cli("audit", own, "--folder", finished, "--json").document
    assert [attack["attack"] for attack in document["attacks"]] == ["ordinary", "nonce-norm"]
    golden("audit.json", json.dumps(shape(document), indent=1) + "\n")


def test_results_go_to_standard_output_and_progress_to_standard_error(cli, own, tmp_path):
    outcome = cli("audit", own, "--folder", tmp_path / "run", "--json")
    assert outcome.document["command"] == "audit"
    assert f"commitment: sha256 {outcome.document['commitment']}; publish it now, before the results are known\n" in (
        outcome.err
    )


def test_the_commitment_is_announced_before_the_trials(own, tmp_path):
    watched = Watched()
    run_audit(resolve(own), tmp_path / "run", progress=watched, committed=watched.stages.append)
    (digest,) = (stage for stage in watched.stages if len(stage) == 64)
    assert watched.stages.index(digest) < watched.stages.index("trials")


def test_quiet_prints_the_result_alone(cli, own, tmp_path):
    outcome = cli("audit", own, "--folder", tmp_path / "run", "--quiet")
    assert outcome.err == ""
    assert "nonce-norm" in outcome.out


def test_a_finished_run_is_shown_again_and_stays_the_same_to_the_byte(cli, own, copied):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    assert cli("audit", own, "--folder", copied).code == 0
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_other_settings_on_a_run_are_refused_with_what_differs(cli, own, copied):
    outcome = cli("audit", own, "--folder", copied, "--mechanism.sigma", "2", "--audit.trials", "5000")
    assert outcome.code == 2
    assert "mechanism.sigma: 0.5 -> 2.0" in outcome.err
    assert "audit.trials: 3000 -> 5000" in outcome.err


def test_a_folder_with_other_things_in_it_is_refused(cli, own, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "photo.jpg").write_text("")
    outcome = cli("audit", own, "--folder", tmp_path / "mine")
    assert outcome.code == 2
    assert "photo.jpg" in outcome.err


def test_an_altered_run_gets_no_new_report_and_no_new_seal(cli, own, copied):
    path = copied / "results.json"
    path.write_text(path.read_text().replace('"tp": ', '"tp": 1', 1))
    sealed = (copied / "manifest.json").read_bytes()
    outcome = cli("audit", own, "--folder", copied)
    assert outcome.code == 4
    assert "results.json" in outcome.err
    assert (copied / "manifest.json").read_bytes() == sealed


def test_the_manifest_names_the_command(own, finished):
    command = json.loads((finished / "manifest.json").read_text())["command"]
    assert command == f"canarybank audit {own} --folder {finished}"


def test_a_run_without_a_file_is_named_after_its_command(cli, world, tmp_path):
    files = ("--users.source", world / "users.csv", "--bank.source", world / "bank.txt", "--encoder.name", "hashing")
    few = ("--attack.names", "ordinary", "--cohorts.canaries", 1, "--audit.trials", 50, "--audit.threshold", "analytic")
    assert cli("audit", *files, *few, "--mechanism.k", 3, "--quiet").code == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["audit"]


def test_the_page_is_opened_when_asked_for(cli, own, finished, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    cli("audit", own, "--folder", finished, "--open")
    assert opened == [(finished / "report.html").as_uri()]
