from dataclasses import replace

import numpy as np
import pytest
from tests.evolution.conftest import sentence

from canarybank.defend import Vetting
from canarybank.errors import InputError
from canarybank.evolution import EvolutionPlan, Keep, Population, Probes, Published, evolve, top
from canarybank.mechanism import Bank, Mechanism


def first(size: int, positions: tuple[int, ...] = ()) -> Published:
    population = Population.start([f"t{i}" for i in range(size)], np.zeros((size, 2)))
    probes = Probes(positions, np.zeros((len(positions), 2)), tuple("p" for _ in positions)) if positions else None
    return Published.of(population, probes)


def test_by_default_five_percent_of_the_bank_stay_and_the_population_keeps_its_size() -> None:
    plan = EvolutionPlan(Mechanism(), 6)
    assert plan.sizes(8192 - 64, 64) == (409, 8192 - 64 - 409)
    assert plan.sizes(10, 0) == (1, 9)


def test_the_number_of_new_candidates_may_be_stated() -> None:
    assert EvolutionPlan(Mechanism(), 6, new=7).sizes(100, 0) == (5, 7)


def test_keeping_everything_leaves_room_for_nobody() -> None:
    with pytest.raises(InputError, match="10 cannot stay and 0 join"):
        EvolutionPlan(Mechanism(), 1, keep=Keep(1.0)).sizes(10, 0)


def test_a_shrinking_bank_that_loses_a_probes_position_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match=r"probe stands at 18, but the bank of round 1 has"):
        EvolutionPlan(Mechanism(), 2, new=3).check(first(20, (18,)))
    EvolutionPlan(Mechanism(), 2, new=30).check(first(20, (18,)))


@pytest.mark.parametrize("plan", [
    EvolutionPlan(Mechanism(), 3),
    EvolutionPlan(Mechanism(), 3, keep=Keep(0.6), new=40),
    EvolutionPlan(Mechanism(), 3, keep=Keep(0.2), new=900),
    EvolutionPlan(Mechanism(), 3, keep=Keep((0.5, 0.1, 0.9)), new=60, carry=False),
])  # fmt: skip
def test_the_fewest_entries_are_those_of_the_last_position_that_every_bank_has(plan) -> None:
    fewest = plan.fewest_entries(600, 1)
    plan.check(first(599, (fewest - 1,)))
    if fewest < 600:
        with pytest.raises(InputError, match=f"A probe stands at {fewest}, but"):
            plan.check(first(599, (fewest,)))


def test_a_shrinking_bank_that_k_outgrows_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match=r"k is 5, but the bank of round 1 has 2"):
        EvolutionPlan(Mechanism(k=5), 2, new=1).check(first(20))


def test_a_bank_that_becomes_too_small_to_vet_is_refused_before_the_first_release(tmp_path, world) -> None:
    plan = EvolutionPlan(Mechanism(k=3), 2, keep=Keep(0.5), new=5, vetting=Vetting.load())
    with pytest.raises(InputError, match=r"bank of round 1 has 55 entries.*at least 64"):
        plan.check(first(100))
    with pytest.raises(InputError, match=r"bank of round 0 has 150 entries.*at least 199"):
        replace(plan, mechanism=Mechanism(k=100)).check(first(150))
    replace(plan, new=40).check(first(100))
    replace(plan, vetting=None).check(first(100))
    start = tuple(sentence(i) for i in range(100))
    with pytest.raises(InputError, match="bank of round 1 has 55 entries"):
        evolve(world.users, start, *world.arguments[2:], 2, keep=Keep(0.5), new=5, insecure_seed=0, folder=tmp_path,
               vetting=Vetting.load())  # fmt: skip
    assert not (tmp_path / "ledger.log").exists()


def test_vetting_leaves_k_entries_open_whatever_it_names(world) -> None:
    texts = (*(sentence(i) for i in range(98)), "zqxjv kwqzx vjqxz", "qqzzx jjvvk wwqqz")
    bank = Bank(world.encoder.encode(texts), texts, reserved=(4, 99))
    # Thresholds that the loudest fifth of every measure exceeds.
    strict = replace(Vetting.load(), factors=dict.fromkeys(Vetting.load().factors, (1e-9,) * 5))
    verdict = strict.vet(texts, bank.vectors, k=48)
    named, barred = set(strict.barred_by(verdict)), set(strict.barred(bank, k=48))
    assert len(named - set(bank.reserved)) > 98 - 48
    assert len(barred - set(bank.reserved)) == 98 - 48
    assert barred <= named
    assert set(bank.reserved) & named <= barred
    spared = named - barred
    assert max(verdict.scores[list(spared)]) <= min(verdict.scores[list(barred - set(bank.reserved))])


@pytest.mark.parametrize(
    "bad", [{"rounds": 0}, {"rounds": 2.5}, {"new": 0}, {"cap": 0}, {"seed": -1}, {"insecure_seed": -1}]
)
def test_numbers_are_checked(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        EvolutionPlan(Mechanism(), **({"rounds": 1} | bad))


@pytest.mark.parametrize(
    ("keep", "size", "expected"),
    [
        (Keep(), 8192, 409),
        (Keep(), 20, 1),
        (Keep(), 3, 1),
        (Keep(0.29), 100, 29),
        (Keep(1.0), 7, 7),
        (Keep(count=4), 99, 4),
    ],
)
def test_the_kept_share_is_floored_exactly(keep: Keep, size: int, expected: int) -> None:
    assert keep.of(size) == expected


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_a_share_must_lie_above_zero_and_up_to_one(share: float) -> None:
    with pytest.raises(InputError, match="share"):
        Keep(share)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_a_count_must_be_whole_and_positive(count: int) -> None:
    with pytest.raises(InputError, match="count"):
        Keep(count=count)


def test_top_is_the_naive_repeated_maximum() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        votes = rng.integers(-2, 3, size=12).astype(float)
        left = dict(enumerate(votes))
        naive = []
        for _ in range(5):
            best = min(left, key=lambda i: (-left[i], i))
            naive.append(best)
            del left[best]
        assert top(votes, 5).tolist() == naive


@pytest.mark.parametrize("count", [0, 4])
def test_top_refuses_what_is_not_there(count: int) -> None:
    with pytest.raises(InputError, match="cannot stay of 3"):
        top([1.0, 2.0, 3.0], count)
