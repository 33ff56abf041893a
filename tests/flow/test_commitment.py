import hashlib
import json
from pathlib import Path

import pytest

from canarybank.run import Commitment


def test_its_hash_is_the_sha256_of_its_file(finished):
    data = (finished.folder / "commitment.json").read_bytes()
    assert finished.commitment.hash == finished.commitment_hash == hashlib.sha256(data).hexdigest()


def test_it_holds_what_decides_a_claim(finished):
    commitment = finished.commitment
    assert [attack.attack for attack in commitment.attacks] == ["ordinary", "nonce-norm"]
    assert (commitment.trials, commitment.method, commitment.alpha, commitment.seed) == (3000, "paper", 0.05, 0)
    nonce = commitment.attacks[1]
    assert all(canary.inspected == commitment.reserved for canary in nonce.canaries)
    assert len({canary.bank_hash for canary in nonce.canaries}) == 2
    assert {canary.bank_hash for canary in commitment.attacks[0].canaries} == {commitment.bank_hash}
    assert len({canary.score_hash for attack in commitment.attacks for canary in attack.canaries}) == 4
    assert nonce.ledger.entries == (("nonce-norm/nonce-norm-0", 0.025), ("nonce-norm/nonce-norm-1", 0.025))
    assert commitment.gate.entries == (("ordinary", 0.025), ("nonce-norm", 0.025))


@pytest.mark.parametrize("change", [{"trials": 3001}, {"alpha": 0.06}, {"method": "joint"}, {"seed": 1}])
def test_every_change_shows_in_its_hash(finished, change):
    assert finished.commitment.model_copy(update=change).hash != finished.commitment.hash


def test_it_reads_back_as_it_was(finished):
    assert Commitment.model_validate(json.loads(finished.commitment.text())) == finished.commitment


def test_it_covers_canaries_claim_layout_and_versions(finished):
    commitment = finished.commitment
    hashes = [canary.canary_hash for attack in commitment.attacks for canary in attack.canaries]
    assert len(set(hashes)) == 4
    assert commitment.claimed == commitment.exact == finished.results.epsilon
    assert commitment.results_layout == finished.results.schema_version
    assert set(commitment.packages) == {"numpy", "scipy"}


FIRST_LAYOUT = Path(__file__).parent / "first_layout" / "commitment.json"
SECOND_LAYOUT = Path(__file__).parents[1] / "recorded" / "folders" / "audit" / "commitment.json"


@pytest.mark.parametrize("path", [FIRST_LAYOUT, SECOND_LAYOUT], ids=["1", "2"])
def test_an_earlier_layout_keeps_its_hash_and_what_it_does_not_have_is_left_out(path):
    """The published hash of an old commitment is that of its file, so reading it must change no byte of its text."""
    old = json.loads(path.read_text())
    read = Commitment.model_validate(old)
    assert read.schema_version == old["schema_version"] < Commitment.model_fields["schema_version"].default
    later = {"exact", "claimed", "results_layout", "packages"}
    assert later & set(old) == (later if read.schema_version == 2 else set())
    assert "rounds" not in old["attacks"][0]
