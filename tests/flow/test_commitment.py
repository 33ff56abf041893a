import hashlib
import json

import pytest

from canarybank.run.commitment import Commitment
from canarybank.experiment.folder import COMMITMENT


def test_its_hash_is_the_sha256_of_its_file(finished):
    data = (finished.folder / COMMITMENT).read_bytes()
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


def test_the_first_layout_has_none_of_it_and_keeps_its_text(finished):
    old = json.loads(finished.commitment.in_layout(1).text())
    assert old["schema_version"] == 1
    assert not {"exact", "claimed", "results_layout", "packages"} & set(old)
    assert "canary_hash" not in old["attacks"][0]["canaries"][0]
    assert Commitment.model_validate(old).text() == finished.commitment.in_layout(1).text()
    assert finished.commitment.in_layout(2) == finished.commitment
