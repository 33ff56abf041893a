import json
import shutil
import sys

import pytest

from canarybank.evolution import Evolution
from canarybank.mechanism import Mechanism, epsilon
from canarybank.run import Run
from canarybank.store import hash_folder

WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
SMALL = (
    *("--bank.size", 40, "--generator.kind", "scripted_answers:write", "--evolve.rounds", 2, "--evolve.share", 0.5),
    *("--evolve.near", 1, "--run.workers", 1),
)
HOW = (
    *("--audit.trials", 2000, "--audit.threshold", "analytic", "--cohorts.canaries", 2),
    *("--evolve.reference", 4, "--evolve.mauve=false", "--attack.probes", 6, "--attack.pool", 12),
)
AUDIT = ("--audit", "nonce-norm", *HOW)


@pytest.fixture(autouse=True)
def scripted(writing):
    def script(request):
        return f"I saw the {' '.join(WORDS[(request.seed // 14**i) % 14] for i in range(5))} today."

    writing(script)


def test_a_file_of_users_becomes_synthetic_text(cli, own, tmp_path):
    outcome = cli("evolve", own, *SMALL)
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "runs" / "own"
    names = {path.name for path in folder.iterdir()}
    kinds = {"population.parquet", "population.jsonl", "population.csv"}
    assert {"manifest.json", "results.json", "report.html", "evolution", *kinds} <= names
    assert "INSECURE" not in outcome.out
    assert "2 rounds of Private Evolution" in outcome.out
    said, texts = " ".join(outcome.out.split()), Evolution.load(folder / "evolution").population.texts
    shown = (texts[round(i * (len(texts) - 1) / 4)] for i in range(5))
    listed = " ".join(f"{number} {text}" for number, text in enumerate(shown, 1))
    assert f"5 of the 40 texts of the last population, evenly spaced: {listed} epsilon of all releases" in said


def test_every_round_shows_the_total_epsilon_as_it_goes(cli, own):
    err = cli("evolve", own, *SMALL).err
    assert "round 1 of 2: epsilon" in err
    assert "round 2 of 2: epsilon" in err
    assert err.count("adding up rounds:") >= 2


def test_the_same_command_shows_the_run_again_and_another_is_refused(cli, own):
    assert cli("evolve", own, *SMALL).code == 0
    assert cli("evolve", own, *SMALL, "--quiet").err == ""
    refused = cli("evolve", own, *SMALL, "--mechanism.sigma", 9)
    assert refused.code == 2
    assert "mechanism.sigma: 0.5 -> 9.0" in refused.err


def test_an_audit_without_a_seed_is_refused_with_the_flag_to_add(cli, own):
    outcome = cli("evolve", own, *SMALL, *AUDIT)
    assert outcome.code == 2
    assert "--insecure-seed" in outcome.err


def test_an_audited_run_is_one_document_with_a_stamp(cli, own):
    words = ("evolve", own, *SMALL, *AUDIT, "--insecure-seed", 0)
    outcome = cli(*words, "--json")
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert document["insecure_seed"] == 0
    assert [each["rounds"] for each in document["attacks"]] == [1, 2]
    assert len(document["cost"]) == 3
    out = " ".join(cli(*words).out.split())
    assert "INSECURE" in out
    assert "of independent releases over this run's banks" in out
    listed = cli("runs", "list", "runs", "--json").document["runs"]
    assert listed[0]["largest"]["attack"] == "nonce-norm, 2 rounds"
    assert listed[0]["claimed"] == document["rounds"][-1]["epsilon"]
    assert listed[0]["ok"] is True
    for words in (("report",), ("verify",), ("gate", "--claimed-eps", 1000)):
        assert cli(words[0], "runs/own", *words[1:]).code == 0, words
    assert cli("gate", "runs/own", "--claimed-eps", 1e-4).code == 1


def test_the_commitment_is_told_after_the_rounds_and_the_results_stand_under_it(cli, own, tmp_path):
    outcome = cli("evolve", own, *SMALL, *AUDIT, "--insecure-seed", 0)
    said = " ".join(outcome.err.split())
    digest = json.loads((tmp_path / "runs" / "own" / "results.json").read_text())["commitment"]
    assert hash_folder(tmp_path / "runs" / "own")["commitment.json"] == digest
    assert said.index("round 2 of 2") < said.index(f"commitment: sha256 {digest}; publish it now")
    assert cli("verify", "runs/own", "--commitment", digest).code == 0


def test_several_attacks_and_canaries_share_the_banks_and_each_reads_its_own_probes(cli, own, tmp_path):
    several = ("--audit", "nonce-norm,ordinary", "--evolve.canaries", 2)
    outcome = cli("evolve", own, *SMALL, *HOW, *several, "--insecure-seed", 0)
    assert outcome.code == 0, outcome.err
    run = Run.open(tmp_path / "runs" / "own")
    results, rounds = run.results, Evolution.load(run.folder / "evolution").rounds
    assert [(each.attack, each.rounds) for each in results.attacks] == [
        ("nonce-norm", 1),
        ("nonce-norm", 2),
        ("ordinary", 1),
        ("ordinary", 2),
    ]
    assert all(len(each.canaries) == 2 for each in results.attacks)
    first, second = (set(canary.inspected) for canary in results.attack("nonce-norm").canaries)
    assert len(first) == len(second) == 6
    assert not first & second
    assert results.require_setup().probes == results.evolution.rounds[0].probes == 12
    for each in rounds:
        assert set(each.bank.reserved) == first | second
        probes = sorted(first | second)
        assert [each.bank.texts[place] for place in probes] == [rounds[0].bank.texts[place] for place in probes]
    assert results.attacks[0].ledger.total == results.audit.alpha
    assert any("draw votes from each other" in note for note in results.notes)
    assert cli("verify", "runs/own").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--audit", "nonce-norm,nonce-norm"), "Two of the attacks in evolve.audit are called 'nonce-norm'"),
        (("--audit", "nonce-norm", "--evolve.canaries", 3), "Set cohorts.canaries to 3 or more"),
        (("--audit", "nonce-norm", "--audit.method", "stratified"), "Set audit.method to another one"),
        (("--audit", "nonce-nrom"), "did you mean"),
    ],
)
def test_an_audit_that_cannot_be_is_refused_before_users_are_read(cli, own, tmp_path, words, said):
    unread = ("--users.source", "no-such-file.csv", "--insecure-seed", 0)
    outcome = cli("evolve", own, *SMALL, *HOW, *words, *unread)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
    assert not (tmp_path / "runs").exists()


def test_an_evolution_whose_audit_exceeds_what_was_claimed_is_red_in_the_list(cli, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert cli("evolve", own, *SMALL, *AUDIT, "--insecure-seed", 0, "--audit.accounted", 1e-4).code == 0
    (entry,) = cli("runs", "list", "--json").document["runs"]
    assert (entry["claimed"], entry["ok"]) == (1e-4, False)
    assert entry["reason"].startswith("Violation: the bound")
    assert "0.0001000  REFUTED" in cli("runs", "list").out


def test_a_budget_stops_the_run_prints_what_was_done_and_fails(cli, own):
    outcome = cli("evolve", own, *SMALL, "--evolve.budget", 9)
    assert outcome.code == 2
    assert "past the declared budget of 9" in outcome.err
    assert "of 2 rounds" in outcome.out


@pytest.mark.parametrize("paid_by", ["budget", "account"])
def test_a_run_that_cannot_pay_its_first_release_writes_its_results(cli, own, tmp_path, paid_by):
    committed = ("--epsilon", 1, "--q", 0.5, "--sigma", 0.5)
    assert cli("budget", "open", "people.log", "--population", "mice", *committed).code == 0
    words = ("--evolve.budget", 1) if paid_by == "budget" else ("--evolve.account", "people.log")
    first = cli("evolve", own, *SMALL, *words)
    assert first.code == 2, first.err
    assert "0 of 2 rounds" in first.out
    assert {"budget": "past the declared budget of 1", "account": "cannot pay another release"}[paid_by] in first.err
    results = json.loads((tmp_path / "runs" / "own" / "results.json").read_text())
    facts = results["evolution"]
    assert (results["rounds"], facts["rounds"], facts["complete"], facts["candidates"]) == (0, [], False, 40)
    assert facts["stopped"] in " ".join(first.err.split())
    page = (tmp_path / "runs" / "own" / "report.html").read_text()
    assert "0 of 2" in page
    again = cli("evolve", own, *SMALL, *words)
    assert (again.code, again.out) == (2, first.out)
    assert cli("report", "runs/own").code == 0
    assert (tmp_path / "runs" / "own" / "report.html").read_text() == page
    assert cli("runs", "list", "runs").code == 0


def test_a_simulation_that_cannot_pay_its_first_release_is_measured_all_the_same(cli, own, tmp_path):
    outcome = cli("evolve", own, *SMALL, *AUDIT, "--insecure-seed", 0, "--evolve.budget", 1)
    assert outcome.code == 2, outcome.err
    results = json.loads((tmp_path / "runs" / "own" / "results.json").read_text())
    assert (results["rounds"], results["attacks"], results["commitment"]) == (0, [], None)
    assert [each["round"] for each in results["evolution"]["utility"]["figures"]] == [0]
    assert cli("report", "runs/own").code == 0


def test_float_noise_that_would_more_than_double_delta_is_refused_before_users_are_read(cli, own, tmp_path):
    words = ("evolve", own, *SMALL, "--evolve.noise", "float", "--users.source", "no-such-file.csv")
    refused = cli(*words)
    assert refused.code == 2
    assert 'evolve.noise = "discrete"' in " ".join(refused.err.split())
    assert not (tmp_path / "runs" / "own" / "evolution").exists()


def test_an_account_may_be_spelled_otherwise_on_a_resume(cli, own, tmp_path):
    committed = ("--epsilon", 99, "--q", 0.5, "--sigma", 0.5)
    for name in ("people.log", "other.log"):
        assert cli("budget", "open", name, "--population", "mice", *committed).code == 0
    assert cli("evolve", own, *SMALL, "--evolve.account", "people.log").code == 0
    assert cli("evolve", own, *SMALL, "--evolve.account", tmp_path / "people.log").code == 0
    refused = cli("evolve", own, *SMALL, "--evolve.account", "other.log")
    assert refused.code == 2
    assert "paid for by another budget account" in " ".join(refused.err.split())
    without = cli("evolve", own, *SMALL)
    assert without.code == 2
    assert "evolve.account: 'people.log' -> left out" in " ".join(without.err.split())


def test_no_generator_is_an_error_that_names_one(cli, own):
    outcome = cli("evolve", own)
    assert outcome.code == 2
    assert "generator.kind" in outcome.err


def test_a_seed_is_stamped_on_every_line(cli, own, tmp_path):
    cli("evolve", own, *SMALL, "--insecure-seed", 4)
    lines = (tmp_path / "runs" / "own" / "population.jsonl").read_text().splitlines()
    assert {json.loads(line)["insecure_seed"] for line in lines} == {4}


@pytest.fixture
def evolved(cli, own, tmp_path):
    assert cli("evolve", own, *SMALL).code == 0
    return tmp_path / "runs" / "own"


@pytest.mark.parametrize(
    "name",
    [
        "results.json",
        "population.csv",
        "population.jsonl",
        "population.parquet",
        "evolution/ledger.log",
        "evolution/evolution.json",
        "evolution/rounds/000/bank.jsonl",
    ],
)
def test_an_altered_evolution_is_not_sealed_again(cli, own, evolved, name):
    path = evolved / name
    path.write_bytes(path.read_bytes() + b"\n")
    before = hash_folder(evolved)
    for words in (("evolve", own, *SMALL), ("report", evolved), ("report", evolved, "--out", "elsewhere")):
        outcome = cli(*words)
        assert outcome.code == 4, words
        assert f"{name} is altered" in outcome.err
        assert "Restore the run from a copy" in outcome.err
    assert hash_folder(evolved) == before
    (entry,) = cli("runs", "list", evolved.parent, "--json").document["runs"]
    assert entry["state"] == "damaged"


def test_an_evolution_whose_seal_was_taken_off_or_that_grew_is_not_sealed_again(cli, own, evolved):
    (evolved / "evolution" / "more.json").write_text("{}")
    assert "evolution/more.json was added" in cli("report", evolved).err
    (evolved / "evolution" / "more.json").unlink()
    assert cli("report", evolved).code == 0
    manifest = json.loads((evolved / "manifest.json").read_text())
    (evolved / "manifest.json").write_text(json.dumps(manifest | {"files": {}}))
    for words in (("evolve", own, *SMALL), ("report", evolved)):
        outcome = cli(*words)
        assert outcome.code == 4
        assert "does not verify" in outcome.err
    found = json.loads(cli("verify", evolved, "--json").out)["findings"]
    assert any("manifest.json does not list results.json" in each for each in found)


def test_a_page_of_an_evolution_may_be_made_again(cli, evolved):
    (evolved / "report.html").write_text("<p>")
    assert cli("report", evolved).code == 0
    assert len((evolved / "report.html").read_text()) > 1000


def test_an_evolution_that_was_not_audited_verifies_and_is_not_gated(cli, evolved):
    verified = cli("verify", evolved)
    assert verified.code == 0
    assert "not audited" in verified.out
    refused = cli("gate", evolved, "--claimed-eps", "9")
    assert refused.code in {2, 4}
    assert "was not audited" in refused.err


def test_a_folder_removed_while_its_evolution_goes_on_ends_it(cli, own, tmp_path, writing):
    folder, asked = tmp_path / "runs" / "own", []

    def script(request):
        asked.append(request)
        if len(asked) == 3:
            shutil.rmtree(folder)
        return f"I saw the {' '.join(WORDS[(request.seed // 14**i) % 14] for i in range(5))} today."

    writing(script)
    outcome = cli("evolve", own, *SMALL)
    assert outcome.code == 4
    assert "was removed while its evolution went on" in outcome.err
    again = cli("evolve", own, *SMALL)
    if again.code:
        assert again.code == 2
        assert "remove the folder, or choose another one" in again.err
        shutil.rmtree(folder)
        assert cli("evolve", own, *SMALL).code == 0


def test_what_an_audited_evolution_claims_is_said_to_be_about_fixed_banks(cli, own, tmp_path):
    words = ("evolve", own, *SMALL, *AUDIT, "--insecure-seed", 0)
    outcome = cli(*words)
    assert "of independent releases over this run's banks, held fixed" in " ".join(outcome.out.split())
    page = (tmp_path / "runs" / "own" / "report.html").read_text()
    assert "one independent release over each of these banks, held fixed" in page


def test_an_account_is_shown_and_what_it_cannot_pay_fails(cli, own, tmp_path):
    budget = epsilon(Mechanism(sigma=0.5, q=0.5)) + 1e-6
    committed = ("--epsilon", budget, "--q", 0.5, "--sigma", 0.5)
    assert cli("budget", "open", "people.log", "--population", "mice", *committed).code == 0
    outcome = cli("evolve", own, *SMALL, "--evolve.account", "people.log")
    assert outcome.code == 2
    assert "cannot pay another release" in outcome.err
    assert "1 of 2 rounds" in outcome.out
    assert "mice" in outcome.out
    page = (tmp_path / "runs" / "own" / "report.html").read_text()
    assert "A budget account paid for the releases" in page
    assert "mice" in page
    document = cli("budget", "people.log", "--json").document
    assert (document["left"], document["releases"]) == (0, 1)


def test_the_slack_and_what_the_epsilon_covers_are_printed(cli, own, tmp_path):
    outcome = cli("evolve", own, *SMALL)
    assert "at delta 1e-05 + " in outcome.out
    assert "at delta 1e-05 + " in outcome.err
    assert "this run alone" in outcome.out
    page = (tmp_path / "runs" / "own" / "report.html").read_text()
    assert "covers this run alone" in page
    assert "discrete Gaussian, exact, by OpenDP" in page


def test_missing_opendp_is_exit_code_3(cli, own, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    outcome = cli("evolve", own, *SMALL)
    assert outcome.code == 3
    assert "pip install 'canarybank[opendp]'" in outcome.err
