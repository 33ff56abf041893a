"""Search within commands: an audit that resumes, an audited evolution, and the plant of a foreign system."""

import csv
import json

import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.evolution import Evolution
from canarybank.flow import design_plant, gather, plan, run_audit, run_evolution
from canarybank.store import StageCache


@pytest.fixture(scope="module")
def searching(flags):
    return flags | {"attack.names": "searched", "cohorts.canaries": 1, "attack.probes": 6}


@pytest.fixture(scope="module")
def audited(searching, tmp_path_factory):
    return run_audit(resolve(flags=searching), tmp_path_factory.mktemp("searched") / "run")


def test_an_audit_writes_what_its_search_found(audited):
    (attack,) = audited.results.attacks
    (canary,) = attack.canaries
    assert canary.search.users == audited.results.require_setup().auxiliary // 2
    stored = json.loads((audited.folder / "results.json").read_text())["attacks"][0]
    assert stored["canaries"][0]["search"]["family"] == canary.search.family
    assert stored["canaries"][0]["search"]["expected"]["lower"] == canary.search.expected.lower
    assert "a search found, not people" in stored["notes"][0]
    assert len(canary.inspected) == canary.search.probes + canary.search.decoys <= 6


def test_the_same_audit_elsewhere_finds_the_search_done(audited, searching, tmp_path):
    again = run_audit(resolve(flags=searching), tmp_path / "run")
    assert audited.manifest.stages["made"]["search"] == again.manifest.stages["found"]["search"] == 1
    assert "search" not in again.manifest.stages["made"]
    assert again.results.attacks == audited.results.attacks


@pytest.mark.usefixtures("scripted")
def test_an_audited_evolution_gives_every_searched_canary_positions_of_its_own(searching, evolving, tmp_path):
    flags = evolving | searching | {
        "evolve.audit": "searched,nonce-norm", "evolve.canaries": 2, "cohorts.canaries": 2, "evolve.rounds": 1,
        "audit.threshold": "analytic",
    }  # fmt: skip
    run = run_evolution(resolve(flags=flags), tmp_path / "run")
    found = {(attack.attack, i): each for attack in run.results.attacks for i, each in enumerate(attack.canaries)}
    assert list(found) == [(name, index) for name in ("searched", "nonce-norm") for index in range(2)]
    places = [set(each.inspected) for each in found.values()]
    assert len(set.union(*places)) == sum(map(len, places))
    (made,) = Evolution.load(run.folder / "evolution").rounds
    assert set(made.bank.reserved) == set.union(*places)


def test_a_plant_holds_the_canaries_and_probes_that_were_found(searching, tmp_path):
    flags = {key: value for key, value in searching.items() if key != "attack.names"}
    flags |= {"system.attack": "searched", "system.canaries": 2, "system.runs": 20}
    run = design_plant(resolve(flags=flags), tmp_path / "plant")
    rows = list(csv.DictReader((run.folder / "probes.csv").read_text().splitlines()))
    texts = [{row["text"] for row in rows if row["canary"] == f"canary-{index}"} for index in (1, 2)]
    assert all(3 <= len(each) <= 6 for each in texts)
    assert not texts[0] & texts[1]
    assert len({row["position"] for row in rows}) == len(rows)


def test_a_plan_counts_what_a_search_encodes(searching, audited, tmp_path):
    one, other = (
        plan(resolve(flags=searching | {"attack.names": name}), tmp_path / "new") for name in ("searched", "nonce")
    )
    assert one.texts_to_encode > other.texts_to_encode + 1000
    assert one.seconds > other.seconds
    assert plan(resolve(flags=searching), audited.folder).texts_to_encode == 0


def test_a_search_with_too_few_probes_is_refused_before_users_are_read_by_the_name_of_the_key(searching, tmp_path):
    few = searching | {"attack.probes": 2, "users.source": str(tmp_path / "absent.csv")}
    for run in (plan, run_audit):
        with pytest.raises(ConfigError, match=r"attack.probes is 2, and a search plants at least mechanism.k = 3"):
            run(resolve(flags=few), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"attack.probes is 2"):
        run_evolution(resolve(flags=few | {"evolve.audit": "searched", "evolve.insecure_seed": 0}), tmp_path / "run")
    found = [
        gather(resolve(flags=few | {"attack.names": "available", "attack.probes": probes}).config, StageCache(), None)
        for probes in (2, 3)
    ]
    assert ["searched" in [attack.name for attack in each.attacks] for each in found] == [False, True]
    assert any(note.startswith("Left out: searched, for attack.probes is 2") for note in found[0].left_out)
