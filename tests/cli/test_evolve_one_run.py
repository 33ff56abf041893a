"""An evolution that carries its own canaries, by the command line: its certificate, and who altered what."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.attack import phrase_facts
from canarybank.auditing import Background, judge_run
from canarybank.config import resolve
from canarybank.evolution import Evolution, EvolutionPlan, FolderArchive, Voters
from canarybank.flow import run_evolution
from canarybank.mechanism import Account, Mechanism, epsilon
from canarybank.run import Run
from canarybank.run.carried import read_scores
from canarybank.score import normal_scores
from canarybank.store import hash_folder, write_json

WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
SMALL = (
    *("--bank.size", 90, "--generator.kind", "scripted_answers:write", "--evolve.rounds", 3, "--evolve.keep", 15),
    *("--evolve.near", 1, "--run.workers", 1, "--mechanism.sigma", 1),
)
CARRY = ("--audit-one-run", "--one_run.canaries", 20)
MADE = {0, 1}  # a correct run is refuted as often as its alpha says, and then exits with 1
SIGMA_1 = Mechanism(k=3, sigma=1.0, q=0.5)


@pytest.fixture(autouse=True)
def scripted(writing):
    def script(request):
        return f"I saw the {' '.join(WORDS[(request.seed // 14**i) % 14] for i in range(5))} today."

    writing(script)


@pytest.fixture
def carried(cli, own, tmp_path):
    """Make a real run that carries twenty canaries, and return its folder with what was said."""
    outcome = cli("evolve", own, *SMALL, *CARRY)
    assert outcome.code in MADE, outcome.err
    return tmp_path / "runs" / "own", outcome


def joined(text):
    return " ".join(text.split())


def test_probes_stand_where_the_smallest_bank_has_room(cli, own, tmp_path):
    shrinking = ("--insecure-seed", 3, "--evolve.no-carry", "--evolve.new", 5)
    outcome = cli(
        "evolve", own, *SMALL, *shrinking, "--audit-one-run", "--one_run.canaries", 8, "--evolve.reference", 0
    )
    assert outcome.code in MADE, outcome.err
    rounds = Evolution.load(tmp_path / "runs" / "own" / "evolution").rounds
    assert [each.bank.size for each in rounds] == [90, 29, 29]
    assert len({each.bank.reserved for each in rounds}) == 1


@pytest.mark.parametrize("seed", [(), ("--insecure-seed", 3)], ids=["real", "simulated"])
def test_a_plan_that_cannot_be_run_is_refused_before_the_commitment(cli, own, tmp_path, seed):
    unfit = ("--evolve.feedback", "vary", "--evolve.vary_prompt", "paraphrase")
    outcome = cli("evolve", own, *SMALL, *CARRY, *seed, *unfit)
    assert outcome.code == 2
    assert "field {record}" in joined(outcome.err)
    assert "publish it now" not in outcome.err
    assert not (tmp_path / "runs" / "own" / "commitment.json").exists()


def test_a_real_run_commits_first_and_ends_with_its_certificate(carried, cli):
    folder, outcome = carried
    said, digest = joined(outcome.err), hash_folder(folder)["commitment.json"]
    assert said.index(f"commitment: sha256 {digest}; publish it now, before the first release") < said.index("round 1")
    results = Run.open(folder).results
    found, canaries = results.evolution.certificate, results.evolution.carried
    assert results.commitment == digest
    assert (found.canaries, found.eligible, found.claim.rounds) == (20, 20, 3)
    assert found.claim.epsilon == results.epsilon == pytest.approx(epsilon(SIGMA_1, 3))
    assert found.took == sum(each.took.sum() for each in Evolution.load(folder / "evolution").rounds)
    out = joined(outcome.out)
    assert joined(found.statement) in out
    assert "20 synthetic users of the auditor, 20 of them in; style nonce; 3 probes each" in out
    assert "privacy of users: nothing; quality: probes hold 60 of 90 entries (66.7%) of every bank" in out
    assert joined(canaries.power[0]) in out
    assert "Poisson-subsampled releases with Gaussian noise" in found.shown[0].family
    for statement in (results.statement, Run.open(folder).manifest.statement):
        assert "Canaries of the auditor voted beside the users" in statement
    assert results.evolution.voters is None
    assert all(each.probes == 60 for each in results.evolution.rounds)
    assert cli("verify", folder, "--commitment", digest).code == 0


def test_the_ledger_is_that_of_a_run_without_canaries(carried, cli, own, tmp_path):
    folder, _ = carried
    assert cli("evolve", own, *SMALL, "--folder", "plain").code == 0
    with_them, without = (Run.open(each).results.evolution for each in (folder, tmp_path / "plain"))
    assert [each.epsilon for each in with_them.rounds] == [each.epsilon for each in without.rounds]
    assert without.certificate is None
    assert without.carried is None


def test_the_document_holds_the_certificate(cli, own):
    document = cli("evolve", own, *SMALL, *CARRY, "--json").document
    assert document["certificate"]["verdict"] in {"stands", "refuted"}
    assert document["certificate"]["shown"][0]["evidence"] == "known-coins"
    assert document["carried"]["probes"] == 60
    assert document["voters"] is None


def test_the_same_command_shows_the_same_run_and_another_is_refused(carried, cli, own):
    folder, outcome = carried
    before = hash_folder(folder)
    again = cli("evolve", own, *SMALL, *CARRY)
    assert again.out == outcome.out
    assert hash_folder(folder) == before
    refused = cli("evolve", own, *SMALL, "--audit-one-run", "--one_run.canaries", 21)
    assert refused.code == 2
    assert "one_run.canaries: 20 -> 21" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--audit", "nonce-norm", "--insecure-seed", 0), "evolve.audit and evolve.audit_one_run are both set"),
        (("--one_run.evidence", "guessing"), "guessing is no evidence here"),
        (("--one_run.coins", "fair", "--one_run.evidence", "known-coins"), "known-coins is no evidence here"),
    ],
)
def test_what_one_run_cannot_be_audited_by_is_refused_before_users_are_read(words, said, cli, own, tmp_path):
    outcome = cli("evolve", own, *SMALL, "--audit-one-run", *words, "--users.source", "no-such-file.csv")
    assert outcome.code == 2
    assert said in joined(outcome.err)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("canaries", "said"), [(30, "Set one_run.canaries to a number from 8 to 29"), (5, "greater than or equal to 8")]
)
def test_a_number_of_canaries_that_cannot_be_is_refused(canaries, said, cli, own):
    outcome = cli("evolve", own, *SMALL, "--audit-one-run", "--one_run.canaries", canaries)
    assert outcome.code == 2
    assert said in joined(outcome.err)


def test_a_start_that_came_to_nothing_leaves_the_folder_free(cli, own, tmp_path):
    account = Account.open(tmp_path / "account", "people", budget=30.0, q=0.5, sigma=2.0).path
    refused = cli("evolve", own, *SMALL, *CARRY, "--evolve.account", account)
    assert refused.code == 2
    assert "sigma" in refused.err
    assert cli("evolve", own, *SMALL, *CARRY).code in MADE


@pytest.mark.parametrize(
    ("coins", "evidence"), [("known", ("known-coins",)), ("fair", ("order-statistics", "guessing"))]
)
@pytest.mark.parametrize("q", [0.5, 1.0])
def test_both_protocols_with_and_without_sampling(coins, evidence, q, cli, world, tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(
        (world / "own.toml").read_text().replace("q = 0.5", f"q = {q}").replace('"users', f'"{world}/users')
    )
    outcome = cli("evolve", file, *SMALL, *CARRY, "--one_run.coins", coins, "--bank.source", world / "bank.txt")
    assert outcome.code in MADE, outcome.err
    run = Run.open(tmp_path / "runs" / "own")
    found, rounds = run.results.evolution.certificate, Evolution.load(run.folder / "evolution").rounds
    assert tuple(each.evidence for each in found.shown) == evidence
    some = coins == "fair" or q == 1.0
    assert (found.eligible < 20) == some  # all of 20 fair coins are heads once in a million runs
    assert found.eligible == sum(run.one_run.eligible)
    for each in rounds:
        assert not (each.took & ~np.array(run.one_run.eligible)).any()
        assert q < 1.0 or each.took.sum() == found.eligible
    assert cli("verify", run.folder).code == 0
    assert cli("gate", run.folder, "--claimed-eps", 1000).code in {0, 1}


def test_a_budget_that_ends_the_run_gives_the_certificate_of_what_was_released(cli, own, tmp_path):
    budget = epsilon(SIGMA_1, 2) + 0.01
    outcome = cli("evolve", own, *SMALL, *CARRY, "--evolve.budget", budget)
    assert outcome.code != 0
    results = Run.open(tmp_path / "runs" / "own").results
    assert results.rounds == 2
    assert results.evolution.certificate.claim.rounds == 2
    assert results.evolution.certificate.claim.epsilon == results.epsilon
    assert cli("verify", "runs/own").code == 0
    stands = cli("gate", "runs/own", "--claimed-eps", 1000, "--json")
    assert stands.document["rounds"] == 2


def test_a_budget_that_affords_no_release_gives_no_certificate(cli, own, tmp_path):
    outcome = cli("evolve", own, *SMALL, *CARRY, "--evolve.budget", 0.01)
    assert outcome.code != 0
    results = Run.open(tmp_path / "runs" / "own").results
    assert results.evolution.certificate is None
    assert results.evolution.carried.power == ()
    assert cli("verify", "runs/own").code == 0
    assert cli("gate", "runs/own", "--claimed-eps", 1000).code == 4


def test_a_simulation_repeats_to_the_byte_and_says_what_probes_cost_in_quality(cli, own, tmp_path):
    words = ("evolve", own, *SMALL, *CARRY, "--insecure-seed", 3, "--evolve.reference", 4, "--evolve.mauve=false")
    for name in ("one", "other"):
        assert cli(*words, "--folder", name).code == 0
    one, other = ((tmp_path / name / "results.json").read_bytes() for name in ("one", "other"))
    assert one == other
    results = Run.open(tmp_path / "one").results
    assert results.evolution.plain is not None
    assert results.evolution.plain.probes == 0
    assert len(results.evolution.cost) == 4
    assert not list((tmp_path / "one" / "plain").rglob("coins.json"))  # the run it is compared with has no canaries
    assert len(list((tmp_path / "one" / "evolution").rglob("coins.json"))) == 3
    assert cli("verify", "one").code == 0


def simulate(cli, own, folder, *words):
    """Simulate a run whose users write as its canaries do, and so vote for their probes."""
    facts = phrase_facts(40, 4, np.random.default_rng(8))
    rows = [f'u{i},"{text}"' for i, texts in enumerate(facts) for text in texts]
    Path("facts.csv").write_text("\n".join(["user,text", *rows]) + "\n")
    given = ("--users.source", "facts.csv", "--one_run.style", "ordinary", "--insecure-seed", 3, "--folder", folder)
    outcome = cli("evolve", own, *SMALL, *CARRY, *given, *words)
    assert outcome.code in MADE, outcome.err
    return outcome


def test_a_real_run_says_that_canaries_are_its_controls_and_keeps_nothing_of_users(carried):
    folder, _ = carried
    run = Run.open(folder)
    assert run.one_run.background is Background.CONTROLS
    assert json.loads((folder / "commitment.json").read_text())["background"] == "control canaries"
    assert "Votes of others for the probes are alike" in run.results.evolution.certificate.shown[0].assumption
    assert run.results.evolution.carried.background is None
    assert not list(folder.rglob("background*"))


@pytest.mark.parametrize("coins", ["known", "fair"])
def test_a_simulation_takes_its_background_off_by_exact_tails_and_says_so(coins, cli, own, tmp_path):
    simulate(cli, own, "one", "--one_run.coins", coins)
    run = Run.open(tmp_path / "one")
    found, rounds = run.results.evolution.certificate, Evolution.load(run.folder / "evolution").rounds
    assert json.loads((run.folder / "commitment.json").read_text())["background"] == "exact tails"
    assert "Background by exact tails" in found.shown[0].assumption
    assert len(list(run.folder.rglob("background.npz"))) == 3
    # The naive way: every canary of every round by itself; known coins take other canaries' votes off.
    reading = run.one_run.reading
    _, scored = read_scores(run)
    for t, each in enumerate(rounds):
        added, x = reading.projected(each.background).toarray(), reading.scores(each.release)
        users, canaries = added[:-20], added[-20:]
        assert (users > 0).any()
        assert (canaries[~np.eye(20, dtype=bool)] > 0).any()
        for i in range(20):
            others = np.delete(np.arange(20), i)
            crossing = canaries[others, i] @ each.took[others] if coins == "known" else 0.0
            z = normal_scores([x[i] - crossing], users[:, [i]], SIGMA_1.q, 1.0)
            assert scored.scores[i, t] == pytest.approx(z[0], abs=1e-9)
    assert found == judge_run(run.one_run.declaration, scored)
    assert cli("verify", "one").code == 0
    assert cli("report", "one").code == 0
    page = joined((run.folder / "report.html").read_text())
    assert "exact tails: the population is known" in page
    assert "A score is standard normal without the canary" in page


def alter_background(folder):
    archive = FolderArchive(folder / "evolution", 3)
    votes = archive.background(1)
    votes.data *= 3.0
    archive.put_background(1, votes)


def drop_users(folder):
    archive = FolderArchive(folder / "evolution", 3)
    archive.put_background(1, archive.background(1)[1:])


ALTERED_BACKGROUND = {
    "larger votes": (alter_background, "The certificate is not what the releases and the coins show"),
    "a user less": (drop_users, "What results.json says of the canaries"),  # one who votes for no probe
    "of another bank": (
        lambda folder: FolderArchive(folder / "evolution", 3).put_background(1, csr_array((40, 9))),
        "The background of round 2 is missing, or is that of another run",
    ),
    "missing": (
        lambda folder: (folder / "evolution" / "rounds" / "001" / "background.npz").unlink(),
        "The background of round 2 is missing",
    ),
    "damaged": (
        lambda folder: (folder / "evolution" / "rounds" / "001" / "background.npz").write_bytes(b"PK"),
        "holds no contributions",
    ),
}


def test_an_altered_background_is_found_though_every_hash_is_put_right(cli, own, tmp_path):
    simulate(cli, own, "one")
    for number, (alter, finding) in enumerate(ALTERED_BACKGROUND.values()):
        folder = shutil.copytree(tmp_path / "one", tmp_path / f"altered-{number}")
        alter(folder)
        reseal(folder)
        outcome = cli("verify", folder)
        assert outcome.code == 4, outcome.out
        assert finding in joined(outcome.out + outcome.err)
    alter_background(tmp_path / "one")
    outcome = cli("verify", "one")
    assert outcome.code == 4
    assert "rounds/001/background.npz is altered since the run was sealed" in joined(outcome.out + outcome.err)


def test_a_real_run_that_claims_exact_tails_is_found(carried, cli):
    folder, _ = carried
    alter_json("commitment.json", lambda value: value.update(background="exact tails"))(folder)
    reseal(folder)
    outcome = cli("verify", folder)
    assert outcome.code == 4
    assert "The knowledge of the population is control canaries, but exact tails was committed to" in joined(
        outcome.out + outcome.err
    )


def test_the_gate_says_with_which_power_and_fails_a_claim_below_the_bound(carried, cli):
    folder, _ = carried
    results = Run.open(folder).results
    bound, refuted = results.evolution.certificate.epsilon, results.evolution.certificate.refuted
    outcome = cli("gate", folder, "--claimed-eps", results.epsilon + 0.01)
    assert outcome.code == int(refuted)
    if not refuted:
        assert "would refute noise divided by" in joined(outcome.out)
        assert "one run with 20 canaries" in joined(outcome.out)
    below = cli("gate", folder, "--claimed-eps", bound / 2, "--json")
    assert below.code == 1
    assert {"trials", "mechanism"} & {each["kind"] for each in below.document["causes"]}
    (entry,) = cli("runs", "list", "runs", "--json").document["runs"]
    assert entry["largest"]["attack"] == "its own canaries"
    assert entry["claimed"] == results.epsilon
    assert entry["ok"] is not refuted
    assert cli("report", folder).code == 0


# --- who alters coins, releases or the certificate is found, though every hash is put right ---------------------------


def reseal(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = hash_folder(folder, skip={"manifest.json"})
    write_json(folder / "manifest.json", manifest)


def alter_coins(folder):
    archive = FolderArchive(folder / "evolution")
    took = archive.coins(1)
    archive.put_coins(1, ~took)


def alter_release(folder):
    path = folder / "evolution" / "rounds" / "001" / "release.npy"
    np.save(path, np.load(path) + 0.5)


def alter_json(name, change):
    def alter(folder):
        document = json.loads((folder / name).read_text())
        change(document)
        write_json(folder / name, document)

    return alter


def shrink(document):
    document["evolution"]["certificate"]["shown"][0]["epsilon"] = 0.123


def acquit(document):
    found = document["evolution"]["certificate"]
    found["verdict"] = "refuted" if found["verdict"] == "stands" else "stands"


ALTERED = {
    "the coins": (alter_coins, "The certificate is not what the releases and the coins show"),
    "a release": (alter_release, "not the one in the ledger"),
    "missing coins": (
        lambda folder: (folder / "evolution" / "rounds" / "001" / "coins.json").unlink(),
        "The coins of round 2 are missing",
    ),
    "the bound": (alter_json("results.json", shrink), "The certificate is not what the releases and the coins show"),
    "the verdict": (alter_json("results.json", acquit), "The certificate is not what the releases and the coins show"),
    "no certificate": (
        alter_json("results.json", lambda value: value["evolution"].update(certificate=None)),
        "lacks the certificate",
    ),
    "the cost": (
        alter_json("results.json", lambda value: value["evolution"]["carried"].update(probes=1)),
        "What results.json says of the canaries",
    ),
    "the weights": (
        alter_json("commitment.json", lambda value: value["weights"][0].__setitem__(0, 9.0)),
        "not the one on disk",
    ),
    "who is in": (
        alter_json("commitment.json", lambda value: value.update(eligible=[False, *value["eligible"][1:]])),
        "not the one on disk",
    ),
    "the settings": (
        alter_json("manifest.json", lambda value: value["config"].update({"one_run.style": "ordinary"})),
        "The settings in manifest.json",
    ),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_was_altered_is_found(what, carried, cli, tmp_path):
    alter, finding = ALTERED[what]
    folder = shutil.copytree(carried[0], tmp_path / "altered")
    alter(folder)
    if what != "the settings":
        reseal(folder)
    outcome = cli("verify", folder)
    assert outcome.code == 4, outcome.out
    assert finding in joined(outcome.out + outcome.err)
    assert cli("gate", folder, "--claimed-eps", 1000).code == 4


def test_an_altered_file_is_found_by_its_seal(carried, cli):
    folder, _ = carried
    alter_coins(folder)
    outcome = cli("verify", folder)
    assert outcome.code == 4
    assert "evolution/rounds/001/coins.json is altered since the run was sealed" in joined(outcome.out + outcome.err)


@dataclass(frozen=True)
class Quiet:
    """Releases with a hundredth of the claimed noise."""

    voters: Voters
    plan: EvolutionPlan

    def release(self, round_number, bank):
        quiet = replace(self.plan.mechanism, sigma=self.plan.mechanism.sigma / 100)
        return self.voters.simulate(bank, quiet, np.random.default_rng(round_number))


def test_a_run_whose_certificate_refutes_its_claim_exits_with_1(cli, own):
    words = [str(word).removeprefix("--") for word in (*SMALL, *CARRY[1:])]
    flags = dict(zip(words[::2], words[1::2], strict=True)) | {"evolve.audit_one_run": True}
    run_evolution(resolve(own, flags=flags), "runs/own", releaser=Quiet)
    outcome = cli("evolve", own, *SMALL, *CARRY)
    assert outcome.code == 1, outcome.err
    assert "The claim is refuted by one run" in outcome.out
    assert cli("verify", "runs/own").code == 0
    assert cli("gate", "runs/own", "--claimed-eps", 1000).code == 1
