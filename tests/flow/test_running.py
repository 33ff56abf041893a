import errno
import json
import math
import os
import shutil

import pytest

from canarybank.attack import nonce_pool
from canarybank.auditing import audit
from canarybank.config import resolve
from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.engine import Serial, Threads
from canarybank.errors import ConfigError, StoreError
from canarybank.flow import gather, mechanism_of, run_audit
from canarybank.mechanism import Bank
from canarybank.report import write_report
from canarybank.run import Run, gate, verify
from canarybank.store import StageCache


def results(folder):
    return (folder / "results.json").read_bytes()


def test_an_own_csv_with_user_and_text_alone_runs_from_end_to_end(finished):
    found = finished.results
    assert finished.is_finished
    assert found.setup.users["admitted"] == 30
    assert (found.setup.auxiliary, found.setup.calibration, found.setup.evaluation) == (7, 7, 14)
    assert [record.attack for record in found.attacks] == ["ordinary", "nonce-norm"]
    for record in found.attacks:
        assert record.headline.confidence == pytest.approx(0.95)
        assert all(canary.counts.n1 == canary.counts.n0 == 3000 for canary in record.canaries)


def test_a_run_finds_what_the_audit_in_memory_finds(finished, resolved, tmp_path):
    config, encoder = resolved.config, HashingEncoder()
    inputs = gather(config, StageCache(tmp_path), None)
    texts, cohorts = inputs.candidates.texts, inputs.roles.encoded(encoder.encode)
    bank = Bank(encoder.encode(texts), texts).reserve(12, 0)
    for record in finished.results.attacks:
        expected = audit(
            cohorts,
            bank,
            mechanism_of(config),
            record.attack,
            trials=3000,
            canaries=2,
            encode=encoder.encode,
            pool=nonce_pool(encoder.encode),
            pool_size=40,
            engine=Serial(),
        )
        assert record.headline.epsilon == expected.headline.epsilon
        for told, found in zip(expected.canaries, record.canaries, strict=True):
            assert (found.counts, found.supremum, found.bound) == (told.counts, told.supremum, told.bound)


def test_the_commitment_is_on_disk_and_told_before_the_first_evaluation_trial(resolved, finished, tmp_path):
    told, played, folder = [], [], tmp_path / "run"

    class Watching:
        def run(self, function, tasks):
            # The thresholds are cached by the finished run, so only the evaluation comes here.
            assert told == [Run.open(folder).commitment_hash]
            played.extend(tasks)
            return Serial().run(function, tasks)

    run = run_audit(resolved, folder, engine=Watching(), committed=told.append)
    assert played
    assert told == [run.results.commitment] == [finished.results.commitment]


@pytest.mark.usefixtures("fresh_cache")
def test_results_depend_neither_on_workers_nor_on_the_cache(flags, finished, tmp_path):
    run = run_audit(resolve(flags={**flags, "run.workers": 3}), tmp_path / "run", engine=Threads(3))
    assert results(run.folder) == results(finished.folder)


def test_another_trial_seed_moves_the_counts_and_not_the_designs(flags, tmp_path):
    told = {**flags, "audit.threshold": "analytic", "audit.trials": 100_000}
    other = run_audit(resolve(flags={**told, "run.seed": 1}), tmp_path / "a")
    again = run_audit(resolve(flags={**told, "run.seed": 2}), tmp_path / "b")
    for one, two in zip(other.results.attacks, again.results.attacks, strict=True):
        assert [c.bank_hash for c in one.canaries] == [c.bank_hash for c in two.canaries]
        assert [c.threshold for c in one.canaries] == [c.threshold for c in two.canaries]
        assert [c.counts for c in one.canaries] != [c.counts for c in two.canaries]
    assert other.commitment.hash != again.commitment.hash


@pytest.mark.usefixtures("fresh_cache")
def test_a_rerun_makes_only_what_changed(flags, tmp_path):
    first = run_audit(resolve(flags=flags), tmp_path / "one")
    made = first.manifest.stages["made"]
    assert made == {"users": 2, "routes": 3 + 4, "design": 4, "threshold": 4}
    second = run_audit(resolve(flags={**flags, "audit.trials": 2000}), tmp_path / "two").manifest.stages
    assert second == {"made": {"threshold": 4}, "found": {"users": 2, "routes": 3 + 4, "design": 4}}
    third = run_audit(resolve(flags={**flags, "attack.pool": 41}), tmp_path / "three")
    banks = [{each.bank_hash for each in run.results.attack("nonce-norm").canaries} for run in (first, third)]
    # A canary whose probes are the same again has the same threshold.
    assert third.manifest.stages["made"] == {"design": 2, "threshold": len(banks[1] - banks[0])}


SETTINGS = {
    "generator.kind": "scripted_answers:write",
    "bank.source": "generate",
    "bank.size": 60,
    "bank.labels": ("cats", "dogs"),
}


def answer(request):
    """Paraphrase a record by more words around it, and write candidates by number; some in quotes, some too short."""
    record = request.prompt.partition('"')[2].rpartition('"')[0]
    text = f"well {record} {request.seed}" if record else f"I saw the old train number {request.seed} on the hill."
    return "No." if request.seed % 7 == 0 else f"1. {text}" if request.seed % 3 else text


@pytest.mark.usefixtures("fresh_cache")
def test_results_tell_how_bank_and_paraphrases_came_to_be_and_older_stages_ask_for_nothing(
    flags, fresh_cache, tmp_path, writing
):
    script = writing(answer)
    told = {**flags, **SETTINGS, "bank.near": 1.0, "attack.names": ("paraphrase", "exact")}
    first = run_audit(resolve(flags=told), tmp_path / "one")
    asked, found = len(script.asked), first.results
    pools = [canary.pool for canary in found.attack("paraphrase").canaries]
    assert [canary.pool for canary in found.attack("exact").canaries] == [None, None]
    assert sum(each["asked"] for each in (found.setup.bank_counters, *(pool.counters for pool in pools))) == asked
    assert found.setup.bank_counters["kept"] == 60
    for counters in (found.setup.bank_counters, *(pool.counters for pool in pools)):
        assert counters["too-short"] > 0
        assert 0 < counters["stripped-numbering"] < counters["kept"]
    for pool in pools:
        seen = pool.similarity
        assert pool.size == 40
        assert 0.3 <= seen.smallest <= seen.low <= seen.median <= seen.high <= seen.largest <= 1
        assert seen.measure == "hashing cosine"
    for stage in ("bank", "paraphrases"):
        shutil.rmtree(fresh_cache / "stages" / stage)
    again = run_audit(resolve(flags=told), tmp_path / "two")
    assert len(script.asked) == asked
    assert again.manifest.stages["made"] == {"bank": 1, "paraphrases": 2}
    assert results(again.folder) == results(first.folder)


def test_a_finished_run_is_returned_as_it_is(resolved, copied):
    before = {path.name: path.stat().st_mtime_ns for path in copied.iterdir() if path.name != ".lock"}
    assert run_audit(resolved, copied).results
    assert {path.name: path.stat().st_mtime_ns for path in copied.iterdir() if path.name != ".lock"} == before


def test_a_full_disk_is_named_and_what_was_done_stays(resolved, finished, tmp_path, monkeypatch):
    folder, write, shards = tmp_path / "run", os.write, []

    def full(descriptor, data):
        if b'"positives"' in bytes(data):
            shards.append(data)
            if len(shards) == 4:
                raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("canarybank.store.log.os.write", full)
    with pytest.raises(StoreError, match="the disk is full"):
        run_audit(resolved, folder)
    done = (folder / "trials.log").read_text().count('"positives"')
    assert done == 3
    monkeypatch.undo()
    assert results(run_audit(resolved, folder).folder) == results(finished.folder)


def test_an_interrupted_run_goes_on(resolved, finished, tmp_path):
    class Interrupted:
        def run(self, function, tasks):
            # The thresholds are cached by the finished run, so only the evaluation comes here.
            for index, task in enumerate(tasks[:3]):
                yield index, function(task)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_audit(resolved, tmp_path / "run", engine=Interrupted())
    assert not Run.open(tmp_path / "run").is_finished
    assert results(run_audit(resolved, tmp_path / "run").folder) == results(finished.folder)


def test_a_resume_on_changed_users_is_refused(flags, world, tmp_path):
    class Stop:
        def run(self, *_):
            raise KeyboardInterrupt

    source = tmp_path / "users.csv"
    shutil.copy(world / "users.csv", source)
    told = resolve(flags={**flags, "users.source": str(source), "audit.threshold": "analytic"})
    with pytest.raises(KeyboardInterrupt):
        run_audit(told, tmp_path / "run", engine=Stop())
    source.write_text(source.read_text() + "u00,one more text\n")
    with pytest.raises(StoreError, match=r"differs at .*changed since the run began"):
        run_audit(told, tmp_path / "run")


@pytest.mark.parametrize("method", ["clopper-pearson", "joint", "pooled", "stratified"])
def test_every_method_and_the_literal_engine_run(flags, tmp_path, method):
    told = {**flags, "audit.method": method, "audit.trials": 200, "audit.engine": "literal", "attack.names": "nonce"}
    run = run_audit(resolve(flags=told), tmp_path / "run")
    record = run.results.attacks[0]
    assert record.headline.method == method
    assert (record.pooled is None) == (method == "stratified")


def test_the_other_attacks_run(flags, tmp_path):
    told = {**flags, "attack.names": "exact,nonce-mueff", "audit.threshold": "analytic"}
    assert len(run_audit(resolve(flags=told), tmp_path / "run").results.attacks) == 2


def test_users_without_a_role_are_never_encoded(flags, fresh_cache):
    small = {"cohorts.auxiliary": 3, "cohorts.calibration": 3, "cohorts.evaluation": 4, "audit.trials": 200}
    few = resolve(flags=flags | small)
    inputs = gather(few.config, StageCache(fresh_cache), None)
    people, cohorts = inputs.people.users, inputs.roles
    run_audit(few, fresh_cache / "run", engine=Serial())
    encoder = CachedEncoder(HashingEncoder(), VectorCache())
    assert encoder.missing(cohorts.texts) == 0
    outside = set(people.texts) - set(cohorts.texts)
    assert outside
    assert encoder.missing(sorted(outside)) == len(outside)


@pytest.mark.parametrize("names", ["available", "searched", "ordinary,searched"])
def test_a_search_at_delta_0_is_refused_before_any_work(flags, tmp_path, names):
    asked = resolve(flags={**flags, "mechanism.delta": 0, "attack.names": names})
    with pytest.raises(ConfigError, match="at delta 0 the epsilon of Gaussian noise is infinite") as error:
        run_audit(asked, tmp_path / "run")
    assert "Set mechanism.delta, for example 1e-5, or name other attacks: --attack.names ordinary" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_run_at_delta_0_is_audited_verified_and_gated(flags, tmp_path):
    run = run_audit(resolve(flags={**flags, "mechanism.delta": 0}), tmp_path / "run")
    assert run.results.epsilon == math.inf
    assert json.loads((run.folder / "results.json").read_text())["epsilon"] is None
    assert all(math.isfinite(record.headline.epsilon) for record in run.results.attacks)
    assert verify(run.folder).ok
    outcome = gate(run, 100.0)
    assert [cause.kind for cause in outcome.causes] == ["mechanism"]
    assert "∞" in write_report(run)[0].read_text()


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize(("encoder", "shared"), [("odd_encoders:Costly", False), ("hashing", True)])
def test_a_run_that_keeps_vectors_takes_nothing_of_one_that_did_not_unless_none_ever_does(
    flags, tmp_path, encoder, shared
):
    told = {**flags, "run.shards": 2, "encoder.name": encoder}
    first, second = (
        run_audit(resolve(flags={**told, "encoder.keep_vectors": keep}), tmp_path / str(keep)) for keep in (False, True)
    )
    assert second.results.attacks == first.results.attacks
    for stage in ("pass", "threshold"):
        assert (stage in second.manifest.stages["found"]) is shared
        assert (stage in second.manifest.stages["made"]) is not shared
