"""Users who lie in shards vote as users in memory do: the same bits, whatever the shards, the engine and the order."""

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.encode import EncoderRecipe, HashingEncoder
from canarybank.engine import Serial, Threads
from canarybank.evolution import (
    Ballot,
    Canaries,
    HeldUsers,
    Keep,
    SeededShares,
    StreamedUsers,
    SystemEntropy,
    Taking,
    Voters,
    evolve,
    snapped,
)
from canarybank.evolution.streamed import CountVotes, encode_all
from canarybank.generate import Request, ScriptedGenerator
from canarybank.mechanism import Bank, Grid, Mechanism, contributions, route
from canarybank.store import StageCache
from canarybank.users import Admission, Members, Source, Users, admit, shard_users, source

ENCODER = HashingEncoder()
RECIPE = EncoderRecipe("hashing", ENCODER.fingerprint)
WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sun",
    "rain",
    "soup",
    "bread",
    "walk",
    "run",
    "blue",
    "green",
    "tall",
    "sad",
    "river",
]


@dataclass(frozen=True)
class Backwards:
    """Run the last task first, and everything as it comes out of a pickle, as on other processes."""

    def run(self, function: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for index in reversed(range(len(tasks))):
            sent, task = pickle.loads(pickle.dumps((function, tasks[index])))  # noqa: S301, our own
            yield index, pickle.loads(pickle.dumps(sent(task)))  # noqa: S301


@dataclass(frozen=True)
class Lain:
    """The same users in memory, with vectors, and in shards."""

    given: Source
    users: Users
    folder: Path

    def streamed(self, number: int, **choices: Any) -> StreamedUsers:
        shards = shard_users(self.given, Admission(), number, self.folder, key="these users")
        # As a cohort they stand in an order of their own.
        members = Members(shards, np.random.default_rng(0).permutation(len(shards)))
        return StreamedUsers(members, RECIPE, **choices)


@pytest.fixture(scope="module")
def lain(tmp_path_factory: pytest.TempPathFactory) -> Lain:
    folder, rng = tmp_path_factory.mktemp("lain"), np.random.default_rng(0)
    rows = [(f"u{i:02}", " ".join(rng.choice(WORDS, size=5))) for i in range(40) for _ in range(rng.integers(1, 7))]
    path = folder / "users.jsonl"
    path.write_text("".join(json.dumps({"user": user, "text": text}) + "\n" for user, text in rows))
    given = source(path)
    users = admit(given, Admission()).users.take(np.random.default_rng(0).permutation(40))
    return Lain(given, users.with_vectors(ENCODER.encode(users.require_texts())), folder / "cache")


@pytest.fixture(scope="module")
def users(lain: Lain) -> Users:
    return lain.users


@pytest.fixture(scope="module")
def bank() -> Bank:
    rng = np.random.default_rng(1)
    return Bank(ENCODER.encode([" ".join(rng.choice(WORDS, size=5)) for _ in range(30)])).reserve(6, 0)


MECHANISMS = {
    "plain": Mechanism(k=3, q=0.5),
    "capped entries": Mechanism(k=2, q=0.7, entry_cap=0.3),
    "secret shares": Mechanism(k=3, q=0.6, share=0.4),
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("number", [1, 3, 24])
def test_a_seeded_release_is_the_same_bytes_with_any_shards_in_any_order(
    lain: Lain, users: Users, bank: Bank, mechanism: Mechanism, number: int
) -> None:
    canaries = Canaries(users.take([3, 8, 9]), np.array([True, False, True]))
    held = Voters(users, 4, canaries)
    drawn = held.simulate(bank, mechanism, np.random.default_rng(5))
    for engine in (Serial(), Backwards(), Threads(3)):
        beside = Voters(lain.streamed(number, engine=engine), 4, canaries)
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


@pytest.mark.parametrize("drift", [1e-6, 1e-2])
@pytest.mark.parametrize("k", [3, 30])
def test_votes_in_low_precision_first_are_those_of_full_precision(
    lain: Lain, users: Users, bank: Bank, drift: float, k: int, drifting: Any
) -> None:
    recipe, exact, fast = drifting(drift)
    streamed = replace(lain.streamed(3, engine=Backwards()), encoder=recipe)
    for barred in (bank, bank.bar([3, 7])):
        mechanism = Mechanism(k=min(k, len(barred.open)), q=0.5)
        drawn = Voters(users).simulate(barred, mechanism, np.random.default_rng(5))
        found = Voters(streamed).simulate(barred, mechanism, np.random.default_rng(5))
        assert found.histogram.tobytes() == drawn.histogram.tobytes()
    assert fast.asked > exact.asked


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


def without_some(users: Users, encoder: EncoderRecipe) -> Users:
    """Encode as where some users have no record that can be encoded."""
    kept = [row for row, owner in enumerate(users.owners) if users.ids[owner] not in {"u03", "u07"}]
    left = users.keep_records(kept)
    return left.with_vectors(encoder.encode(left.require_texts()))


def test_whoever_has_no_record_that_can_be_encoded_adds_nothing(lain: Lain, users: Users, bank: Bank) -> None:
    for mechanism in (MECHANISMS["plain"], MECHANISMS["secret shares"]):
        voters, drawn = Voters(lain.streamed(3, encode=without_some)), np.random.default_rng(0).random((40, 30)) < 0.4

        def shares(_: float, chosen: NDArray[np.int64], __: int, drawn: Any = drawn) -> NDArray[np.bool_]:
            return np.asarray(drawn[chosen])

        others = [i for i in range(40) if users.ids[i] not in {"u03", "u07"}]
        assert len(voters) == len(users)
        counted = voters.histogram(np.arange(40), bank, mechanism, shares)
        assert np.array_equal(counted, Voters(users).histogram(others, bank, mechanism, shares))


def test_nobody_in_shards_can_be_released_over(lain: Lain, bank: Bank) -> None:
    shards = lain.streamed(2).members.shards
    nobody = StreamedUsers(Members(shards, np.zeros(0, dtype=np.int64)), RECIPE)
    assert not Voters(nobody).histogram([], bank, Mechanism()).any()
    assert Voters(nobody).release(bank, Mechanism()).histogram.std() > 0


@dataclass(frozen=True)
class Counting:
    """Remember the shards that tasks are run for, and stop before a given number of them."""

    seen: list[str]
    most: int = 10**9

    def run(self, function: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            if len(self.seen) == self.most:
                raise KeyboardInterrupt
            self.seen.append(task.content)
            yield index, function(task)


def test_what_was_counted_before_a_stop_is_not_counted_again(
    lain: Lain, users: Users, bank: Bank, tmp_path: Path
) -> None:
    mechanism = MECHANISMS["plain"]
    expected = Voters(users).simulate(bank, mechanism, np.random.default_rng(4)).histogram
    people = lain.streamed(5, cache=StageCache(tmp_path))
    first, second, third = Counting([], 3), Counting([]), Counting([])
    with pytest.raises(KeyboardInterrupt):
        Voters(replace(people, engine=first)).simulate(bank, mechanism, np.random.default_rng(4))
    for engine in (second, third):
        drawn = Voters(replace(people, engine=engine)).simulate(bank, mechanism, np.random.default_rng(4))
        assert drawn.histogram.tobytes() == expected.tobytes()
    assert sorted(first.seen + second.seen) == sorted(people.members.shards.contents)
    assert third.seen == []
    # Other users, another bank or another mechanism is another count.
    for given in ({"bank": bank.bar([2])}, {"mechanism": replace(mechanism, clip=0.13)}, {"seed": 6}, {"cap": 2}):
        voters = Voters(replace(people, engine=Counting([])), given.get("cap"))
        held = Voters(users, given.get("cap"))
        args = (given.get("bank", bank), given.get("mechanism", mechanism))
        one, other = (each.simulate(*args, np.random.default_rng(given.get("seed", 4))) for each in (voters, held))
        assert one.histogram.tobytes() == other.histogram.tobytes()


@pytest.mark.parametrize("cheap", [True, False])
def test_a_count_without_keeping_vectors_serves_no_run_that_keeps_them_unless_none_ever_does(
    bank: Bank, cheap: bool
) -> None:
    class Own(HashingEncoder):
        pass

    Own.cheap = cheap
    keys = set()
    for keep in (False, True, None):
        recipe = replace(RECIPE, name=f"own, cheap: {cheap}", keep=keep)
        recipe.provide(Own())
        keys.add(CountVotes(Ballot(bank, MECHANISMS["plain"], SystemEntropy().shares), recipe, encode_all).key)
    assert len(keys) == (1 if cheap else 3)


def test_shards_in_which_nobody_takes_part_are_not_read(lain: Lain, bank: Bank) -> None:
    engine = Counting([])
    people = lain.streamed(8, engine=engine)
    Voters(people).histogram([2, 11], bank, MECHANISMS["plain"])
    shards = people.members.shards
    assert sorted(engine.seen) == sorted({shards.contents[i] for i in shards.homes[people.members.places[[2, 11]]]})


@pytest.mark.parametrize("is_real", [True, False])
def test_a_count_is_what_the_users_count_alone_together(users: Users, bank: Bank, is_real: bool) -> None:
    mechanism = Mechanism(k=3, clip=0.0731)
    ballot = Ballot(bank, mechanism, SystemEntropy().shares, Grid.of(mechanism) if is_real else None)
    held = HeldUsers(users)
    alone = [held.count_votes(ballot, np.array([i])) for i in range(40)]
    together = held.count_votes(ballot, np.arange(40))
    assert together.dtype == np.int64
    assert np.array_equal(together, np.sum(alone, axis=0))
    rest = held.count_votes(ballot, np.arange(5, 40)) + held.count_votes(ballot, np.arange(5))
    assert ballot.sum(rest).tobytes() == ballot.sum(together).tobytes()


def test_an_evolution_from_python_over_shards_is_the_one_over_users_in_memory(lain: Lain, users: Users) -> None:
    def answer(request: Request) -> str:
        return " ".join(np.random.default_rng(request.seed).choice(WORDS, size=6))

    rng = np.random.default_rng(2)
    start = tuple(dict.fromkeys(" ".join(rng.choice(WORDS, size=5)) for _ in range(30)))
    held, streamed = (
        evolve(
            people,
            start,
            Mechanism(k=3, q=0.5),
            ENCODER,
            ScriptedGenerator(answer),
            2,
            keep=Keep(0.5),
            taking=Taking(similarity=1.0),
            cap=4,
            insecure_seed=1,
        )
        for people in (users, lain.streamed(3))
    )
    assert [each.release.tobytes() for each in streamed.rounds] == [each.release.tobytes() for each in held.rounds]
    assert streamed.population.texts == held.population.texts
