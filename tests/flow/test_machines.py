"""What a run takes here, with a GPU and on a cluster follows from what was measured by rules that can be counted."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from canarybank.config import resolve
from canarybank.encode import HashingEncoder, VectorCache
from canarybank.errors import InputError
from canarybank.flow import machines, plan, planning, run_audit
from canarybank.flow.machines import GPU_TEXTS, Machine, PassPiece, Work, plan_machines

HERE = Machine("this machine", 1, 2)
PIECE = PassPiece(per_shard=0.25, per_record=0.01, encoding=0.006)
WORK = Work(once=7.0, texts=0, encode_rate=100.0, records=3200, passes=(8, 24), piece=PIECE)


def test_passes_grow_with_users_and_what_is_done_once_does_not():
    for times in (2, 10, 50):
        larger = replace(WORK, records=times * WORK.records, passes=tuple(times * each for each in WORK.passes))
        assert larger.seconds(HERE) - 7.0 == pytest.approx(times * (WORK.seconds(HERE) - 7.0))
    assert WORK.seconds(HERE) == pytest.approx(
        7.0 + 16 * (0.25 + 100 * 0.01)
    )  # 32 shards of 100 records, two at a time


def test_a_pass_has_no_more_workers_than_shards():
    by_workers = [WORK.seconds(Machine("", nodes, 2)) for nodes in (1, 2, 4, 6, 12, 24, 1000)]
    assert by_workers == sorted(by_workers, reverse=True)
    assert by_workers[-1] == by_workers[-3] == pytest.approx(7.0 + 2 * 1.25)  # two passes, one shard a worker
    assert WORK.seconds(Machine("", 1, 5)) == pytest.approx(7.0 + (2 + 5) * 1.25)  # the last shards wait for nobody


def test_trials_are_spread_over_all_workers():
    work = Work(once=1.0, texts=50, encode_rate=100.0, trials=8_000_000, trial_rate=1e6)
    assert [work.seconds(Machine("", nodes, 2)) for nodes in (1, 4)] == pytest.approx([5.5, 2.5])


def test_a_card_speeds_up_encoding_alone_and_the_workers_of_a_node_share_it():
    card = replace(HERE, texts_per_second=GPU_TEXTS)
    assert WORK.seconds(card) == pytest.approx(7.0 + 16 * (0.25 + 100 * (0.01 - 0.006 + 2 / GPU_TEXTS)))
    in_memory = Work(once=1.0, texts=GPU_TEXTS, encode_rate=100.0)
    assert (in_memory.seconds(card), in_memory.seconds(HERE)) == pytest.approx((2.0, 1.0 + GPU_TEXTS / 100))


def test_money_is_nodes_by_hours_by_price():
    found = plan_machines(WORK, HERE, 300.0, nodes=4, price=2.5, gpu=True)
    assert [each.nodes for each in found] == [1, 1, 4, 4]
    assert [each.workers for each in found] == [2, 2, 8, 8]
    for each in found:
        assert each.cost == pytest.approx(2.5 * each.nodes * each.seconds / 3600)
        assert each.memory_mib == 300.0
    (alone,) = plan_machines(WORK, HERE, 300.0)
    assert (alone.machine, alone.seconds, alone.cost) == ("this machine", WORK.seconds(HERE), None)


@pytest.mark.usefixtures("fresh_cache")
def test_a_run_in_shards_passes_over_as_many_shards_as_were_planned(flags, tmp_path):
    told = resolve(flags={**flags, "run.shards": 4})
    found = plan(told, tmp_path / "run", nodes=3, price=1.0)
    run = run_audit(told, tmp_path / "run")
    assert run.manifest.stages["made"]["pass"] == found.shards > 4
    assert [each.nodes for each in found.machines] == [1, 3]
    assert found.machines[1].seconds < found.machines[0].seconds == found.seconds
    assert any("records a second on one worker of a pass" in each for each in found.measured)
    assert any("run.engine = ray" in each for each in found.assumed)
    after = plan(told, tmp_path / "run", nodes=3, price=1.0)
    assert (after.state, after.shards, after.seconds, after.machines[1].cost) == ("finished", 0, 0.0, 0.0)
    assert found.texts_to_encode > after.texts_to_encode == 0
    assert [each.stages[0].cached for each in (found, after)] == [False, True]
    assert not any("users are in memory" in each for each in after.assumed)


@pytest.mark.usefixtures("fresh_cache")
def test_a_pass_takes_at_least_its_encoding_on_a_machine_too_busy_to_measure(flags, tmp_path, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(machines.time, "perf_counter", lambda: float(next(ticks)))  # everything takes as long
    found = plan(resolve(flags={**flags, "run.shards": 4}), tmp_path / "run")
    (said,) = [each for each in found.measured if "of a pass" in each]
    assert float(said.split()[0].replace(",", "")) < 10_000


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize("keep", [None, True, False])
def test_a_plan_encodes_a_sample_and_keeps_none_of_it(flags, tmp_path, keep):
    told = flags | {"encoder.name": "odd_encoders:Tempting", "encoder.keep_vectors": keep, "run.shards": 4}
    if keep is True:
        plan(resolve(flags=told), tmp_path / "run")
    else:  # the sample is encoded as the run would
        with pytest.raises(AssertionError, match="The fast encoder was asked for vectors"):
            plan(resolve(flags=told), tmp_path / "run")
    assert not any(shelf.vectors for shelf in VectorCache().usage())


def test_more_nodes_do_not_help_users_in_memory_and_the_plan_says_so(flags, tmp_path):
    found = plan(resolve(flags=flags), tmp_path / "run", nodes=2)
    assert any("run.shards spreads them too" in each for each in found.assumed)
    assert found.shards == 0


@pytest.mark.parametrize(("given", "said"), [({"nodes": 0}, "at least one node"), ({"price": -1.0}, "at least 0")])
def test_a_cluster_that_cannot_be_is_refused_before_users_are_read(flags, tmp_path, given, said):
    with pytest.raises(InputError, match=said):
        plan(resolve(flags={**flags, "users.source": "nowhere.csv"}), tmp_path / "run", **given)


def test_memory_counts_what_finds_vectors_once_in_each_process_whatever_the_records(flags, tmp_path, monkeypatch):

    def memory(engine):
        told = {**flags, "run.shards": 2, "run.engine": engine, "run.workers": 3}
        return plan(resolve(flags=told), tmp_path / "run").memory_mib

    engines = ("threads", "processes")
    nothing = [memory(engine) for engine in engines]  # the encoder is cheap, so that nothing is kept
    monkeypatch.setattr(planning, "is_cheap", lambda _: False)
    one, three = (memory(engine) - less for engine, less in zip(engines, nothing, strict=True))
    assert one == planning.INDEX_BYTES / 2**20
    assert three == pytest.approx(3 * one)


def test_worker_processes_take_memory_each_and_ray_beside_them(flags, tmp_path):

    def memory(engine, workers, nodes=None):
        found = plan(
            resolve(flags={**flags, "run.engine": engine, "run.workers": workers}), tmp_path / "run", nodes=nodes
        )
        return [each.memory_mib for each in found.machines]

    (threads,) = memory("threads", 3)
    assert memory("processes", 3) == [pytest.approx(threads + 3 * planning.WORKER_MIB)]
    ray = threads + 3 * planning.WORKER_MIB + planning.RAY_MIB
    assert memory("ray", 3) == [pytest.approx(ray)]
    assert memory("threads", 3, nodes=4) == [threads, pytest.approx(ray)]  # a cluster needs Ray


def test_an_encoder_that_fills_batches_is_timed_on_enough_texts(monkeypatch):
    seconds, asked = [0.0], []
    monkeypatch.setattr(machines.time, "perf_counter", lambda: seconds[0])

    def encode(texts):  # a batch of 1,000 takes a tenth of a second, however few texts it holds
        asked.append(len(texts))
        seconds[0] += 0.1 * -(-len(texts) // 1000)

    assert machines.encode_rate(encode, ["text"] * 100_000) == pytest.approx(4_096 / 0.5)
    assert asked == [8, 256, 1024, 4096]
    assert machines.encode_rate(encode, ["text"] * 300) == pytest.approx(300 / 0.1)


def test_what_an_encoder_does_once_is_not_taken_for_its_rate(monkeypatch):
    seconds, recorded = [0.0], set()
    monkeypatch.setattr(machines.time, "perf_counter", lambda: seconds[0])

    def encode(texts):  # a size that comes for the first time takes two seconds more
        seconds[0] += 0.001 * len(texts) + 2.0 * (len(texts) not in recorded)
        recorded.add(len(texts))

    assert machines.encode_rate(encode, ["text"] * 100_000) == pytest.approx(1000)


@pytest.mark.usefixtures("fresh_cache")
def test_a_plan_counts_on_texts_that_overflow_in_low_precision(flags, tmp_path, monkeypatch):
    monkeypatch.setattr(Overflowing, "fast_encoder", Overflowing(), raising=False)
    told = flags | {"encoder.name": f"{__name__}:Overflowing", "run.shards": 4}
    assert plan(resolve(flags=told), tmp_path / "run").shards > 4


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize(("least", "keep", "said"), [(100, None, True), (100, True, False), (10**6, None, False)])
def test_a_plan_says_which_shards_are_large_enough_for_low_precision(flags, tmp_path, monkeypatch, least, keep, said):
    fast = Overflowing()
    monkeypatch.setattr(Overflowing, "fast_encoder", fast, raising=False)
    monkeypatch.setattr(Overflowing, "least_texts", least)
    told = flags | {"encoder.name": f"{__name__}:Overflowing", "encoder.keep_vectors": keep, "run.shards": 64}
    found = plan(resolve(flags=told), tmp_path / "run")
    assert any("With run.shards = " in each for each in found.notes) == said


class Overflowing(HashingEncoder):
    """A fast encoder for which every other text is too large."""

    cheap, least_texts, drift = False, 0, 1e-4

    def encode(self, texts, /):
        vectors = super().encode(texts).copy()
        if self is getattr(type(self), "fast_encoder", None):
            vectors[::2] = np.nan
        return vectors
