"""One key, ``bank.vet``, bars what vetting names: in an audit of one release, and in every round of an evolution."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from canarybank.config import resolve
from canarybank.defend import Vetting, reach
from canarybank.encode import HashingEncoder
from canarybank.errors import ConfigError
from canarybank.evolution import FolderArchive, Keep, Voters, evolve
from canarybank.flow import embedded_bank, run_evolution
from canarybank.flow.audit import case_notes, one_release
from canarybank.generate import ScriptedGenerator
from canarybank.mechanism import Bank, Mechanism
from canarybank.users import Users

SETTINGS = {
    "attack.names": "nonce,ordinary",
    "attack.pool": 80,
    "attack.probes": 12,
    "cohorts.canaries": 1,
    "cohorts.auxiliary": 10,
    "cohorts.calibration": 10,
    "cohorts.evaluation": 20,
    "users.cap": 32,
    "bank.size": 400,
    "audit.trials": 500,
    "bank.vet": True,
}


def test_an_audit_bars_what_vetting_names_before_anybody_votes(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    work = one_release(resolve(flags=SETTINGS).config)
    for case in work.designs.cases:
        bank = case.designs[0].bank
        assert bank.barred == Vetting.load().barred(replace(bank, barred=()))
        votes = work.designs.routes.evaluation.contributions(bank, work.auditor.mechanism)
        assert votes.nnz
        assert not votes[:, list(bank.barred)].nnz
    (nonce,) = (case.designs[0] for case in work.designs.cases if case.attack.name == "nonce")
    assert set(nonce.inspected.tolist()) <= set(nonce.bank.barred)
    assert nonce.mu_eff == 0.0
    notes = [case_notes(case)[-1] for case in work.designs.cases]
    assert all(note.startswith("Vetting barred ") for note in notes)
    assert any("12 of 12 probes among them" in note for note in notes)


def test_a_search_behind_vetting_plants_what_passes_and_states_what_it_reaches(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    work = one_release(
        resolve(
            flags=SETTINGS | {"attack.names": "searched", "attack.probes": 6, "bank.size": 150, "users.cap": 8}
        ).config
    )
    (case,) = work.designs.cases
    made, facts = case.designs[0], case.designs[0].pool.search
    assert not set(made.inspected.tolist()) & set(made.bank.barred)
    assert "reach more" not in case_notes(case)[-1]
    mechanism = work.auditor.mechanism
    reached = reach(made, work.designs.routes.evaluation, mechanism, auxiliary=work.designs.routes.auxiliary)
    assert facts.expected.lower - 0.01 <= reached.lower <= facts.expected.upper


WORDS = tuple(
    f"{one}{two}"
    for one in ("river", "stone", "cloud", "paper")
    for two in ("song", "yard", "door", "cup", "coat", "way")
)


def sentence(rng):
    return f"I saw the {' '.join(rng.choice(WORDS, 6))}."


def answer(request):
    return sentence(np.random.default_rng(request.seed))


def test_an_evolution_bars_and_remembers_it_and_a_resume_is_held_to_it(tmp_path):
    rng = np.random.default_rng(0)
    encoder = HashingEncoder(64)
    # Three planted variants of one string of rare letters stand out from two hundred honest entries.
    start = [*embedded_bank().texts[:200], *(f"zqxjv kwqzx vjqxz qqzzx {i}" for i in range(3))]
    users = Users.from_vectors([encoder.encode([sentence(rng) for _ in range(4)]) for _ in range(12)])
    vetting, mechanism = Vetting.load(), Mechanism(k=2, q=1.0)
    run = partial(
        evolve,
        users,
        start,
        mechanism,
        encoder,
        ScriptedGenerator(answer),
        1,
        keep=Keep(count=190),
        new=4,
        insecure_seed=0,
        folder=tmp_path / "run",
    )
    (done,) = run(vetting=vetting).rounds
    assert done.bank.barred == vetting.barred(Bank(encoder.encode(start), tuple(start)), k=2)
    assert {200, 201, 202} <= set(done.bank.barred)
    assert not set(done.kept.tolist()) & set(done.bank.barred)
    clean = Voters(users).histogram(np.arange(12), done.bank, mechanism)
    assert clean.any()
    assert not clean[list(done.bank.barred)].any()
    assert FolderArchive(tmp_path / "run").bank(0).bank == done.bank
    with pytest.raises(ConfigError, match="vetting"):
        run()


@pytest.mark.parametrize(
    ("defence", "reason"),
    [({"bank.vet": True}, "vetting would bar the probes"), ({"mechanism.share": 0.5}, "mechanism.share is 0.5")],
)
def test_one_run_refuses_defences_before_anything_is_made(defence, reason, tmp_path):
    flags = {"evolve.audit_one_run": True, "evolve.insecure_seed": 0, "users.source": str(tmp_path / "absent.csv")}
    with pytest.raises(ConfigError, match=reason):
        run_evolution(resolve(flags=flags | defence), tmp_path / "run")
    assert not (tmp_path / "run").exists()
