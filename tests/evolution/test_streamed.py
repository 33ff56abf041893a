"""Users who lie in shards vote as users in memory do: the same bits, whatever the shards, the engine and the order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.engine import Processes, Serial, Threads
from canarybank.evolution import Ballot, Canaries, HeldUsers, SeededShares, StreamedUsers, Voters, snapped
from canarybank.mechanism import Bank, Grid, Mechanism, contributions, route
from canarybank.store import StageCache, hash_json
from canarybank.users import Users

DIMENSION = 6


@dataclass(frozen=True)
class Reading:
    """Users in shards, with the vectors they would be encoded to; ``mute`` ones have no record that can be."""

    shards: tuple[Users, ...]
    mute: frozenset[str] = frozenset()

    def key(self, shard: int) -> str:
        return hash_json([self.shards[shard].hash, sorted(self.mute)])

    def read(self, shard: int, places: NDArray[np.int64]) -> tuple[Users, NDArray[np.int64]]:
        ids = self.shards[shard].ids
        present = np.array([i for i, place in enumerate(places) if ids[place] not in self.mute], dtype=np.int64)
        if not len(present):
            return Users((), [], vectors=np.zeros((0, DIMENSION), dtype=np.float32)), present
        return self.shards[shard].take(places[present]), present


@dataclass(frozen=True)
class Backwards:
    """Run the last task first."""

    def run(self, function: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for index in reversed(range(len(tasks))):
            yield index, function(tasks[index])


@pytest.fixture(scope="module")
def users() -> Users:
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(40), rng.integers(1, 7, size=40))
    return Users(tuple(f"u{i:02}" for i in range(40)), owners, vectors=rng.normal(size=(len(owners), DIMENSION)))


@pytest.fixture(scope="module")
def bank() -> Bank:
    return Bank(np.random.default_rng(1).normal(size=(30, DIMENSION))).reserve(6, 0)


def streamed(users: Users, number: int, **given: Any) -> StreamedUsers:
    """Deal the users out to shards, each in an order of its own; one more shard is empty."""
    rng = np.random.default_rng(number)
    shards = rng.integers(number, size=len(users))
    held, places = [], np.zeros(len(users), dtype=np.int64)
    for shard in range(number):
        members = rng.permutation(np.flatnonzero(shards == shard))
        places[members] = np.arange(len(members))
        held.append(users.take(members) if len(members) else Users((), []))
    mute = given.pop("mute", frozenset())
    return StreamedUsers(users.ids, DIMENSION, shards, places, Reading(tuple(held), mute), **given)


MECHANISMS = {
    "plain": Mechanism(k=3, q=0.5),
    "capped entries": Mechanism(k=2, q=0.7, entry_cap=0.3),
    "secret shares": Mechanism(k=3, q=0.6, share=0.4),
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("number", [1, 3, 200])
def test_a_seeded_release_is_the_same_bytes_with_any_shards_in_any_order(
    users: Users, bank: Bank, mechanism: Mechanism, number: int
) -> None:
    canaries = Canaries(users.take([3, 8, 9]), np.array([True, False, True]))
    held = Voters(users, 4, canaries)
    drawn = held.simulate(bank, mechanism, np.random.default_rng(5))
    for engine in (Serial(), Backwards(), Threads(3)):
        beside = Voters(streamed(users, number, engine=engine), 4, canaries)
        found = beside.simulate(bank, mechanism, np.random.default_rng(5))
        assert found.histogram.tobytes() == drawn.histogram.tobytes()
        assert found.took.tolist() == drawn.took.tolist()
        assert np.array_equal(
            beside.histogram([7, 0, 41], bank, MECHANISMS["plain"]),
            held.histogram([0, 7, 41], bank, MECHANISMS["plain"]),
        )
    far, near = beside.background(bank, mechanism), held.background(bank, mechanism)
    assert [getattr(far, name).tobytes() for name in ("data", "indices", "indptr")] == [
        getattr(near, name).tobytes() for name in ("data", "indices", "indptr")
    ]


def test_shards_are_counted_on_other_processes(users: Users, bank: Bank) -> None:
    mechanism = MECHANISMS["secret shares"]
    held = Voters(users).simulate(bank, mechanism, np.random.default_rng(2))
    apart = Voters(streamed(users, 2, engine=Processes(1))).simulate(bank, mechanism, np.random.default_rng(2))
    assert apart.histogram.tobytes() == held.histogram.tobytes()


def test_a_simulated_release_is_what_adding_in_float64_gives(users: Users, bank: Bank) -> None:
    mechanism = Mechanism(k=3, clip=0.0731, q=0.5)
    voters = Voters(users)
    table = contributions(route(users.vectors, bank, 3), users.owners, len(users), bank.size, mechanism.clip)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        chosen = np.flatnonzero(rng.random(len(users)) < mechanism.q)
        noisy = table[chosen].sum(axis=0) + mechanism.noise * rng.standard_normal(bank.size)
        drawn = voters.simulate(bank, mechanism, np.random.default_rng(seed))
        assert drawn.histogram.tobytes() == snapped(noisy, mechanism.noise).tobytes()
    everybody = Ballot(bank, mechanism, None)
    found = everybody.sum(everybody.count(users, np.arange(len(users))))
    assert np.abs(found - table.sum(axis=0)).max() < 1e-15


def test_secret_sets_are_those_of_one_stream_whoever_is_asked_for_first() -> None:
    chosen = np.array([1, 4, 5, 9])
    rng = np.random.default_rng(3)
    expected, after = rng.random((4, 50)) < 0.3, rng.random()
    rng = np.random.default_rng(3)
    sets = SeededShares.draw(rng, chosen, 50)
    assert rng.random() == after
    assert np.array_equal(sets(0.3, chosen, 50), expected)
    assert np.array_equal(sets(0.3, np.array([9, 4]), 50), expected[[3, 1]])


def test_whoever_has_no_record_that_can_be_encoded_adds_nothing(users: Users, bank: Bank) -> None:
    mechanism, mute = MECHANISMS["plain"], frozenset({"u03", "u07"})
    voters, others = Voters(streamed(users, 3, mute=mute)), [i for i in range(40) if users.ids[i] not in mute]
    assert len(voters) == len(users)
    counted = voters.histogram(np.arange(40), bank, mechanism)
    assert np.array_equal(counted, Voters(users).histogram(others, bank, mechanism))
    background = voters.background(bank, mechanism)
    assert background.shape == (40, bank.size)
    assert not background[[3, 7]].nnz
    assert np.array_equal(background[others].toarray(), Voters(users).background(bank, mechanism)[others].toarray())


def test_nobody_in_shards_can_be_released_over(bank: Bank) -> None:
    nobody = StreamedUsers((), DIMENSION, np.zeros(0, int), np.zeros(0, int), Reading(()))
    assert not Voters(nobody).histogram([], bank, Mechanism()).any()
    assert Voters(nobody).release(bank, Mechanism()).histogram.std() > 0
    assert Voters(nobody).background(bank, Mechanism()).shape == (0, bank.size)


@dataclass(frozen=True)
class Counting:
    """Remember the shards that tasks are run for, and stop before a given number of them."""

    seen: list[int]
    most: int = 10**9

    def run(self, function: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            if len(self.seen) == self.most:
                raise KeyboardInterrupt
            self.seen.append(task.shard)
            yield index, function(task)


def test_what_was_counted_before_a_stop_is_not_counted_again(users: Users, bank: Bank, tmp_path: Any) -> None:
    mechanism = MECHANISMS["plain"]
    expected = Voters(users).simulate(bank, mechanism, np.random.default_rng(4)).histogram
    people = streamed(users, 5, memo=StageCache(tmp_path))
    first, second, third = Counting([], 3), Counting([]), Counting([])
    with pytest.raises(KeyboardInterrupt):
        Voters(replace(people, engine=first)).simulate(bank, mechanism, np.random.default_rng(4))
    for engine in (second, third):
        drawn = Voters(replace(people, engine=engine)).simulate(bank, mechanism, np.random.default_rng(4))
        assert drawn.histogram.tobytes() == expected.tobytes()
    assert sorted(first.seen + second.seen) == list(range(5))
    assert third.seen == []
    # Other users, another bank or another mechanism is another count.
    for given in ({"bank": bank.bar([2])}, {"mechanism": replace(mechanism, clip=0.2)}, {"seed": 6}, {"cap": 2}):
        voters = Voters(replace(people, engine=Counting([])), given.get("cap"))
        held = Voters(users, given.get("cap"))
        args = (given.get("bank", bank), given.get("mechanism", mechanism))
        one, other = (each.simulate(*args, np.random.default_rng(given.get("seed", 4))) for each in (voters, held))
        assert one.histogram.tobytes() == other.histogram.tobytes()


def test_shards_in_which_nobody_takes_part_are_not_read(users: Users, bank: Bank) -> None:
    engine = Counting([])
    people = streamed(users, 8, engine=engine)
    Voters(people).histogram([2, 11], bank, MECHANISMS["plain"])
    assert sorted(engine.seen) == sorted(set(people.shards[[2, 11]].tolist()))


def test_a_count_in_whole_steps_is_what_the_users_count_alone_together(users: Users, bank: Bank) -> None:
    mechanism = MECHANISMS["plain"]
    ballot = Ballot(bank, mechanism, None, Grid.of(mechanism))
    held = HeldUsers(users)
    alone = [held.count_votes(ballot, np.array([i])) for i in range(40)]
    assert np.array_equal(held.count_votes(ballot, np.arange(40)), np.sum(alone, axis=0))
