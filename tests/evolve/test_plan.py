import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolve import Keep, Plan, Population, Probes, Published
from canarybank.mechanism import Mechanism


def first(size: int, positions: tuple[int, ...] = ()) -> Published:
    population = Population.start([f"t{i}" for i in range(size)], np.zeros((size, 2)))
    probes = Probes(positions, np.zeros((len(positions), 2)), tuple("p" for _ in positions)) if positions else None
    return Published.of(population, probes)


def test_by_default_five_percent_of_the_bank_stay_and_the_population_keeps_its_size() -> None:
    plan = Plan(Mechanism(), 6)
    assert plan.sizes(8192 - 64, 64) == (409, 8192 - 64 - 409)
    assert plan.sizes(10, 0) == (1, 9)


def test_the_number_of_new_candidates_may_be_stated() -> None:
    assert Plan(Mechanism(), 6, new=7).sizes(100, 0) == (5, 7)


def test_keeping_everything_leaves_room_for_nobody() -> None:
    with pytest.raises(InputError, match="10 cannot stay and 0 join"):
        Plan(Mechanism(), 1, keep=Keep(1.0)).sizes(10, 0)


def test_a_shrinking_bank_that_loses_a_probes_position_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match=r"probe stands at 18, but the bank of round 1 has"):
        Plan(Mechanism(), 2, new=3).check(first(20, (18,)))
    Plan(Mechanism(), 2, new=30).check(first(20, (18,)))


def test_a_shrinking_bank_that_k_outgrows_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match=r"k is 5, but the bank of round 1 has 2"):
        Plan(Mechanism(k=5), 2, new=1).check(first(20))


@pytest.mark.parametrize(
    "bad", [{"rounds": 0}, {"rounds": 2.5}, {"new": 0}, {"cap": 0}, {"seed": -1}, {"insecure_seed": -1}]
)
def test_numbers_are_checked(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Plan(Mechanism(), **({"rounds": 1} | bad))
