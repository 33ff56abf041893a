"""A streamed cohort answers with the bytes of one in memory, whatever the number of shards, the engine or the order."""

import json
import pickle
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.encode import EncoderRecipe, HashingEncoder
from canarybank.engine import Engine, Serial, Threads
from canarybank.errors import InputError
from canarybank.mechanism import Ask, Bank, Mechanism, Routed, StreamedCohort
from canarybank.mechanism.streamed import ShardVotes
from canarybank.store import StageCache
from canarybank.users import Admission, AdmissionReport, Evaluation, Members, Names, Shards, admit, shard_users, source

MECHANISM = Mechanism(k=3, clip=0.2, entry_cap=0.25)
ENCODER = HashingEncoder()
RECIPE = EncoderRecipe("hashing", ENCODER.fingerprint)
WORDS = ("cat", "dog", "runs", "sleeps", "over", "house", "river", "stone", "bird", "sings", "night")


class Backwards:
    """An engine that sends function and tasks as bytes, and gives its results in the opposite order."""

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for index in reversed(range(len(tasks))):
            call, task = pickle.loads(pickle.dumps((function, tasks[index])))  # noqa: S301, our own bytes
            yield index, pickle.loads(pickle.dumps(call(task)))  # noqa: S301


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "caches"))
    rng, path = np.random.default_rng(1), tmp_path / "users.jsonl"
    rows = [
        {"user": f"u{user}", "text": " ".join(rng.choice(WORDS, size=rng.integers(1, 6)))}
        for user in range(40)
        for _ in range(rng.integers(1, 9))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def shards_of(path: Path, number: int) -> Shards:
    return shard_users(source(path), Admission(), number, path.parent / "stages", key=f"{number:064x}")


@pytest.fixture
def members() -> NDArray[np.int64]:
    return np.random.default_rng(2).permutation(40)[:31]


@pytest.fixture
def asks() -> list[Ask]:
    rng = np.random.default_rng(3)
    vectors = ENCODER.encode([" ".join(rng.choice(WORDS, size=4)) for _ in range(60)])
    bank = Bank(vectors).reserve(6, 5)
    probes = ENCODER.encode(["cat", "dog sleeps", "river stone", "bird bird"])
    planted = bank.with_probes(probes)
    return [
        Ask(planted, np.array(bank.reserved)),
        Ask(bank, np.arange(60)),
        Ask(planted.bar([bank.reserved[0], 3, 7]), np.array([9, 2, *bank.reserved])),
        Ask.beyond(bank, probes),
        Ask(Bank(vectors[::-1].copy()), np.array([4, 0])),
    ]


def in_memory(path: Path, members: NDArray[np.int64], asks: list[Ask]) -> list[csr_array]:
    users = admit(source(path), Admission()).users.take(members)
    cohort = Evaluation(users.with_vectors(ENCODER.encode(users.require_texts())))
    return [Routed.build(cohort, ask.bank, 3).restricted([ask], MECHANISM)[0] for ask in asks]


def streamed(shards: Shards, members: NDArray[np.int64], engine: Engine, **more: Any) -> StreamedCohort[Evaluation]:
    return StreamedCohort(Evaluation, Members(shards, members), RECIPE, engine, **more)


def same(found: list[csr_array], expected: list[csr_array]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        for name in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("number", [1, 4, 32])
@pytest.mark.parametrize("engine", [Serial(), Threads(2), Backwards()], ids=["serial", "threads", "backwards"])
def test_one_pass_gives_the_bytes_of_the_cohort_in_memory(
    path: Path, members: NDArray[np.int64], asks: list[Ask], number: int, engine: Engine
) -> None:
    cohort = streamed(shards_of(path, number), members, engine)
    assert len(cohort) == len(members)
    same(cohort.restricted(asks, MECHANISM), in_memory(path, members, asks))
    assert cohort.restricted([], MECHANISM) == []


@pytest.mark.parametrize("drift", [1e-6, 1e-2, 0.2])
@pytest.mark.parametrize("engine", [Serial(), Threads(2), Backwards()], ids=["serial", "threads", "backwards"])
def test_low_precision_first_gives_the_bytes_of_full_precision(
    path: Path, members: NDArray[np.int64], asks: list[Ask], engine: Engine, drift: float, drifting: Any
) -> None:
    recipe, exact, fast = drifting(drift)
    expected = in_memory(path, members, asks)
    shards = shards_of(path, 4)
    cohort = StreamedCohort(Evaluation, Members(shards, members), recipe, engine)
    same(cohort.restricted(asks, MECHANISM), expected)
    few = [Ask(Bank(bank.vectors[:4], None, (0,)), np.arange(4)) for bank in (asks[1].bank, asks[4].bank)]
    few.append(Ask(Bank(asks[1].bank.vectors[:6], None, (0,), barred=(2, 4)), np.arange(6)))
    same(cohort.restricted(few, MECHANISM), in_memory(path, members, few))  # the base is no longer than a route
    records = shards.everybody.counts[members].sum()
    assert fast.asked == 2 * records
    assert records <= exact.asked <= 2 * records
    if drift == 1e-6:
        assert exact.asked < 1.7 * records
    else:
        alone = replace(recipe, name="fast alone")
        alone.provide(fast)
        plain = replace(cohort, encoder=alone).restricted(asks, MECHANISM)
        assert any((one != other).nnz for one, other in zip(plain, expected, strict=True)), "the drift must matter"


def unit(values: Any) -> NDArray[np.float32]:
    return np.asarray(values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30), np.float32)


@pytest.mark.parametrize("seed", range(30))
def test_no_move_within_the_drift_changes_what_any_ask_settles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dimension, size, k = (int(rng.integers(*each)) for each in ((2, 8), (8, 30), (1, 5)))
    drift = float(10 ** rng.uniform(-4, -1))
    entries, records = unit(rng.normal(size=(size, dimension))), unit(rng.normal(size=(60, dimension)))
    entries[size // 2 : size // 2 + int(rng.integers(3))] = entries[0]  # copies, and ties with them
    bank = Bank(entries).reserve(3, seed)
    bank = bank.bar([int(bank.base[0])]) if seed % 2 else bank
    # Probes beside records displace base entries from their routes.
    probes = unit(records[:3] + 0.05 * rng.normal(size=(3, dimension)))
    other = entries.copy()
    other[bank.base[1]] = unit(rng.normal(size=(1, dimension)))
    asks = [
        Ask(bank, np.arange(3)),
        Ask(bank.with_probes(probes), np.arange(3)),
        Ask.beyond(bank, probes),
        Ask(Bank(other, None, bank.reserved, bank.barred), np.arange(3)),
    ]
    votes = ShardVotes.of(asks, Mechanism(k=k), RECIPE)
    expected, settled, moved_at_all = [np.sort(table, axis=1) for table, _ in votes.routes(records, 0.0)], 0, 0
    targets = np.concatenate([entries, probes])
    for sign in (-1, 1):  # straight towards an entry or a probe, or away from it
        way = unit(targets[rng.integers(len(targets), size=len(records))] - records)
        moved = np.asarray(records + sign * 0.9999 * drift * way, np.float32)
        for (routes, sure), own in zip(votes.routes(moved, drift), expected, strict=True):
            changed = (np.sort(routes, axis=1) != own).any(axis=1)
            assert not (changed & sure).any()
            settled, moved_at_all = settled + sure.sum(), moved_at_all + changed.sum()
    assert settled
    assert moved_at_all or drift < 0.03


@pytest.mark.parametrize("cheap", [True, False])
def test_what_a_pass_gave_without_keeping_vectors_serves_no_pass_that_keeps_them_unless_none_ever_does(
    path: Path, members: NDArray[np.int64], asks: list[Ask], cheap: bool
) -> None:
    class Own(HashingEncoder):
        pass

    Own.cheap = cheap
    cache, shards = StageCache(path.parent / "stages"), shards_of(path, 4)
    for keep in (False, True, None):
        recipe = replace(RECIPE, name=f"own, cheap: {cheap}", keep=keep)
        recipe.provide(Own())
        cohort = replace(streamed(shards, members, Serial(), cache=cache), encoder=recipe)
        same(cohort.restricted(asks, MECHANISM), in_memory(path, members, asks))
    assert cache.made["pass"] == 4 * (1 if cheap else 3)


def test_what_a_pass_gave_is_kept_by_shard_and_by_what_was_asked(
    path: Path, members: NDArray[np.int64], asks: list[Ask]
) -> None:
    cache, shards = StageCache(path.parent / "stages"), shards_of(path, 8)
    first = streamed(shards, members, Serial(), cache=cache).restricted(asks, MECHANISM)
    made = cache.made["pass"]
    again = streamed(shards, members, Serial(), cache=cache).restricted(asks, MECHANISM)
    same(again, first)
    assert cache.made["pass"] == made == cache.found["pass"]
    fewer = streamed(shards, members[:-1], Serial(), cache=cache).restricted(asks, MECHANISM)
    same(fewer, [table[:-1] for table in first])
    assert cache.made["pass"] == made + 1  # the shard that lost a member
    for changed in (asks[:2], asks[::-1]):
        streamed(shards, members, Serial(), cache=cache).restricted(changed, MECHANISM)
    others = [Ask(asks[0].bank.with_probes(ENCODER.encode(["night", "bird"])), asks[0].columns), *asks[1:]]
    same(
        streamed(shards, members, Serial(), cache=cache).restricted(others, MECHANISM), in_memory(path, members, others)
    )
    looking = [Ask(asks[0].bank, asks[0].columns[::-1]), *asks[1:]]
    same(
        streamed(shards, members, Serial(), cache=cache).restricted(looking, MECHANISM),
        in_memory(path, members, looking),
    )
    streamed(shards, members, Serial(), cache=cache).restricted(asks, Mechanism(k=2, clip=0.2))
    assert cache.made["pass"] == 6 * made + 1


def test_vectors_are_never_all_in_memory(tmp_path: Path) -> None:
    encoder, users, records = HashingEncoder(512), 800, 8
    recipe = EncoderRecipe("hashing", encoder.fingerprint)
    recipe.provide(encoder)
    path = tmp_path / "users.jsonl"
    rows = ({"user": f"u{i}", "text": f"{WORDS[i % 11]} {WORDS[j]}"} for i in range(users) for j in range(records))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bank = Bank(encoder.encode([f"{one} {two}" for one in WORDS for two in WORDS])).reserve(4, 1)
    asks = [Ask(bank, np.array(bank.reserved))]

    def peak(number: int) -> int:
        shards = shards_of(path, number)
        cohort = StreamedCohort(Evaluation, Members(shards, np.arange(users)), recipe, Serial())
        tracemalloc.start()
        cohort.restricted(asks, MECHANISM)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    everything = 4 * 512 * users * records
    assert peak(128) < 0.5 * everything < everything < peak(1)


class Quiet:
    """An engine that says of every shard at once what a worker says of users who vote for nothing that is asked."""

    def __init__(self, asks: int) -> None:
        self.asks = asks

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        del function
        for index, part in enumerate(tasks):
            empty = csr_array((len(part), 6))
            kept = {
                "data": empty.data,
                "indices": empty.indices.astype(np.int64),
                "indptr": empty.indptr.astype(np.int64),
            }
            yield index, {f"{name}{ask}": each.copy() for ask in range(self.asks) for name, each in kept.items()}


def test_a_user_who_votes_for_nothing_asked_takes_few_bytes_in_a_pass(asks: list[Ask], tmp_path: Path) -> None:
    per_shard, number = 250, 10
    planted = [asks[0]] * number

    def peak(users: int) -> int:
        homes = np.arange(users, dtype=np.int32) // per_shard
        shards = Shards(
            tmp_path,
            tuple(f"{home:064x}" for home in range(users // per_shard)),
            Names.of(f"u{user:06d}" for user in range(users)),
            np.ones(users, dtype=np.int64),
            homes,
            np.arange(users, dtype=np.int32) % per_shard,
            AdmissionReport(users, {}, {}, users, users, {}, users, 0, 0, users),
        )
        members = np.random.default_rng(0).permutation(users)
        tracemalloc.start()
        tables = streamed(shards, members, Quiet(number)).restricted(planted, MECHANISM)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [table.shape for table in tables] == [(users, 6)] * number
        assert {table.indptr.dtype for table in tables} == {np.dtype(np.int32)}
        return most

    # A count for each table, and the place among the members and in a shard: 72. Where tables were stacked, it was 219.
    assert (peak(60_000) - peak(20_000)) / 40_000 < 4 * number + 40


def test_the_function_of_a_pass_holds_each_base_once(asks: list[Ask]) -> None:
    from canarybank.mechanism.streamed import ShardVotes

    bank = Bank(np.random.default_rng(1).normal(size=(4000, 16))).reserve(8, 1)
    planted = [
        Ask(bank.with_probes(np.full((8, 16), each, dtype=np.float32)), np.array(bank.reserved)) for each in range(20)
    ]
    function = ShardVotes.of(planted, MECHANISM, RECIPE)
    assert len(function.bases) == 1
    assert len(pickle.dumps(function)) < 1.2 * bank.vectors.nbytes
    assert len(ShardVotes.of(asks, MECHANISM, RECIPE).bases) == 3


def test_a_worker_with_another_encoder_is_refused() -> None:
    recipe = EncoderRecipe("hashing", "another")
    with pytest.raises(InputError, match="is not that of the run"):
        recipe.encode(["a text"])
