from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from canarybank.encode import HashingEncoder
from canarybank.errors import InputError
from canarybank.evolution import Candidate, Population, Probes, evolve, lay_out, split
from canarybank.mechanism import Bank


def test_a_first_population_is_born_in_round_zero_of_no_parents() -> None:
    start = Population.start(["a", "b"], np.eye(2), labels=["x", ""])
    assert [c.id for c in start.candidates] == ["r0-00000", "r0-00001"]
    assert start.labels == ("x", "")
    assert {(c.born, c.parents, c.prompt) for c in start.candidates} == {(0, (), "")}


def test_the_next_population_is_the_kept_then_the_new_each_with_its_vector() -> None:
    start = Population.start(["a", "b", "c"], np.eye(3))
    child = Candidate("r1-00000", "d", born=1, parents=("r0-00002",), prompt="paraphrase")
    after = start.followed_by([2, 0], [child], np.full((1, 3), 0.5))
    assert after.texts == ("c", "a", "d")
    assert np.array_equal(after.vectors, np.array([[0, 0, 1], [1, 0, 0], [0.5, 0.5, 0.5]]))


def test_vectors_are_read_only_and_the_callers_array_is_not() -> None:
    mine = np.eye(2, dtype=np.float32)
    start = Population.start(["a", "b"], mine)
    assert not start.vectors.flags.writeable
    assert mine.flags.writeable


@pytest.mark.parametrize("vectors", [np.eye(3), np.zeros(2)])
def test_each_candidate_needs_a_vector(vectors: np.ndarray) -> None:
    with pytest.raises(InputError, match="as many vectors"):
        Population.start(["a", "b"], vectors)


def test_an_empty_population_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        Population((), np.zeros((0, 2), dtype=np.float32))


def test_two_candidates_of_one_id_are_refused() -> None:
    start = Population.start(["a", "b"], np.eye(2))
    with pytest.raises(InputError, match="'r0-00000'"):
        replace(start, candidates=(start.candidates[0], start.candidates[0]))


def test_labels_must_be_as_many_as_texts() -> None:
    with pytest.raises(InputError, match="as many labels"):
        Population.start(["a", "b"], np.eye(2), labels=["x"])


def test_an_encoder_that_returns_too_little_is_refused(world: Any) -> None:
    class Lazy(HashingEncoder):
        def encode(self, texts, /):
            return HashingEncoder(self.dimension).encode(texts[1:])

    with pytest.raises(InputError, match=r"shape \(23, 32\) for 24 texts"):
        evolve(world.users, world.start, world.mechanism, Lazy(32), world.generator, 1)


def some_population(size: int, dimension: int = 4) -> Population:
    vectors = np.random.default_rng(size).normal(size=(size, dimension)).astype(np.float32)
    return Population.start([f"text {i}" for i in range(size)], vectors)


def some_probes(positions: tuple[int, ...], dimension: int = 4) -> Probes:
    vectors = np.random.default_rng(99).normal(size=(len(positions), dimension)).astype(np.float32)
    return Probes(positions, vectors, tuple(f"probe {t}" for t in range(len(positions))))


def test_without_probes_the_bank_is_the_population() -> None:
    bank = lay_out(some_population(5))
    assert bank.texts == tuple(f"text {i}" for i in range(5))
    assert bank.reserved == ()


@pytest.mark.parametrize("size", [3, 6, 20])
def test_probes_stand_at_their_positions_whatever_the_population(size: int) -> None:
    planted = some_probes((4, 0, 2))
    bank = lay_out(some_population(size), planted)
    assert bank.texts is not None
    assert [bank.texts[i] for i in (4, 0, 2)] == ["probe 0", "probe 1", "probe 2"]
    assert np.array_equal(bank.vectors[[4, 0, 2]], planted.vectors)
    assert bank.reserved == (4, 0, 2)
    assert [bank.texts[i] for i in bank.base] == [f"text {i}" for i in range(size)]
    assert np.array_equal(bank.vectors[bank.base], some_population(size).vectors)


def test_splitting_and_laying_out_gives_the_bank_back() -> None:
    vectors = np.random.default_rng(5).normal(size=(12, 4))
    bank = Bank(vectors, tuple(f"entry {i}" for i in range(12))).reserve(3, seed=1)
    bank = bank.with_probes(np.eye(4)[:3], ("p0", "p1", "p2"))
    base, planted = split(bank)
    assert planted is not None
    assert not {"p0", "p1", "p2"} & set(base.texts)
    assert lay_out(base, planted).hash == bank.hash


def test_a_bank_without_reserved_positions_has_no_probes() -> None:
    assert split(Bank(np.eye(3), ("a", "b", "c")))[1] is None


def test_labels_are_those_of_the_candidates_alone() -> None:
    bank = Bank(np.eye(4), ("a", "b", "c", "d"), reserved=(1,))
    base, _ = split(bank, labels=["x", "y", "z"])
    assert base.labels == ("x", "y", "z")


def test_a_bank_without_texts_is_refused() -> None:
    with pytest.raises(InputError, match="has no texts"):
        split(Bank(np.eye(3)))


def test_a_position_beyond_the_bank_is_refused() -> None:
    with pytest.raises(InputError, match="position 9"):
        lay_out(some_population(5), some_probes((9, 0)))


def test_probes_of_another_dimension_are_refused() -> None:
    with pytest.raises(InputError, match="dimension 4 and probes 3"):
        lay_out(some_population(5), some_probes((0,), dimension=3))


def test_probes_need_a_position_a_vector_and_a_text_each() -> None:
    with pytest.raises(InputError, match="each"):
        Probes((0, 1), np.eye(2), ("only one",))
