import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolve import Population, Probes, lay_out, split
from canarybank.mechanism import Bank


def population(size: int, dimension: int = 4) -> Population:
    vectors = np.random.default_rng(size).normal(size=(size, dimension)).astype(np.float32)
    return Population.start([f"text {i}" for i in range(size)], vectors)


def probes(positions: tuple[int, ...], dimension: int = 4) -> Probes:
    vectors = np.random.default_rng(99).normal(size=(len(positions), dimension)).astype(np.float32)
    return Probes(positions, vectors, tuple(f"probe {t}" for t in range(len(positions))))


def test_without_probes_the_bank_is_the_population() -> None:
    bank = lay_out(population(5))
    assert bank.texts == tuple(f"text {i}" for i in range(5))
    assert bank.reserved == ()


@pytest.mark.parametrize("size", [3, 6, 20])
def test_probes_stand_at_their_positions_whatever_the_population(size: int) -> None:
    planted = probes((4, 0, 2))
    bank = lay_out(population(size), planted)
    assert bank.texts is not None
    assert [bank.texts[i] for i in (4, 0, 2)] == ["probe 0", "probe 1", "probe 2"]
    assert np.array_equal(bank.vectors[[4, 0, 2]], planted.vectors)
    assert bank.reserved == (4, 0, 2)
    assert [bank.texts[i] for i in bank.base] == [f"text {i}" for i in range(size)]
    assert np.array_equal(bank.vectors[bank.base], population(size).vectors)


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
        lay_out(population(5), probes((9, 0)))


def test_probes_of_another_dimension_are_refused() -> None:
    with pytest.raises(InputError, match="dimension 4 and probes 3"):
        lay_out(population(5), probes((0,), dimension=3))


def test_probes_need_a_position_a_vector_and_a_text_each() -> None:
    with pytest.raises(InputError, match="each"):
        Probes((0, 1), np.eye(2), ("only one",))
