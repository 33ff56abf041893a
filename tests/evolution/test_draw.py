import math

import numpy as np
import pytest
from scipy import stats

from canarybank.errors import InputError
from canarybank.evolution import DrawnReleases, EvolutionPlan, Voters
from canarybank.mechanism import Bank, Grid, Mechanism, contributions, route
from canarybank.seeds import stream
from canarybank.users import Users


def unit(rng: np.random.Generator, count: int, dimension: int = 6) -> np.ndarray:
    rows = rng.normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def make(count: int = 20, records: int = 4, entries: int = 15) -> tuple[Users, Bank]:
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(count), records)
    users = Users(tuple(f"u{i}" for i in range(count)), owners, vectors=unit(rng, len(owners)))
    return users, Bank(unit(rng, entries))


class Quiet:
    """Randomness without any: everyone takes part where q is above one half, and the noise is nothing."""

    def random(self, size: int) -> np.ndarray:
        return np.full(size, 0.5)

    def standard_normal(self, size: int) -> np.ndarray:
        return np.zeros(size)


def test_without_noise_the_release_is_the_sum_of_the_contributions_on_the_grid() -> None:
    users, bank = make()
    mechanism = Mechanism(k=3, q=0.9)
    release = Voters(users).simulate(bank, mechanism, Quiet()).histogram
    table = contributions(route(users.vectors, bank, 3), users.owners, 20, 15, 0.1)
    assert np.allclose(release, table.sum(axis=0), rtol=0, atol=mechanism.noise / 4096)


def test_nobody_taking_part_is_a_release_like_any_other() -> None:
    users, bank = make()
    assert np.array_equal(Voters(users).simulate(bank, Mechanism(q=0.1), Quiet()).histogram, np.zeros(15))


def test_the_cap_takes_each_users_first_records() -> None:
    users, bank = make(records=5)
    first = np.concatenate([np.arange(5 * i, 5 * i + 2) for i in range(20)])
    cut = Users(users.ids, users.owners[first], vectors=users.vectors[first])
    mechanism = Mechanism(k=2, q=0.9)
    capped = Voters(users, cap=2).simulate(bank, mechanism, Quiet()).histogram
    assert np.array_equal(capped, Voters(cut).simulate(bank, mechanism, Quiet()).histogram)
    assert not np.array_equal(capped, Voters(users).simulate(bank, mechanism, Quiet()).histogram)
    assert np.array_equal(Voters(users, cap=9).users.vectors, users.vectors)


def test_participation_and_noise_have_the_mechanisms_law() -> None:
    # One user of one record, k = 1 and clip = 1: coordinate 0 is Bernoulli(q) + noise, the others noise.
    users = Users(("u",), np.zeros(1, dtype=np.int64), vectors=np.array([[1.0, 0.0]], dtype=np.float32))
    bank = Bank(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]]))
    mechanism = Mechanism(k=1, clip=1.0, sigma=0.05, q=0.3)
    rng = np.random.default_rng(11)
    voters = Voters(users)
    drawn = np.array([voters.simulate(bank, mechanism, rng).histogram for _ in range(3000)])
    # False alarm below 1e-4 each: two-sided binomial, Kolmogorov-Smirnov.
    assert stats.binomtest(int((drawn[:, 0] > 0.5).sum()), 3000, 0.3).pvalue > 1e-4
    assert stats.kstest(drawn[:, 1:].ravel() / 0.05, "norm").pvalue > 1e-4


@pytest.mark.parametrize("noise", ["discrete", "float"])
def test_a_real_release_has_the_mechanisms_law(noise: str) -> None:
    # As above. Nothing here can be seeded: the false alarm is below 1e-6 for each of the two.
    users = Users(("u",), np.zeros(1, dtype=np.int64), vectors=np.array([[1.0, 0.0]], dtype=np.float32))
    bank = Bank(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]]))
    mechanism = Mechanism(k=1, clip=1.0, sigma=0.05, q=0.3)
    voters = Voters(users)
    drawn = np.array([voters.release(bank, mechanism, noise).histogram for _ in range(2000)])
    assert stats.binomtest(int((drawn[:, 0] > 0.5).sum()), 2000, 0.3).pvalue > 1e-6
    assert stats.kstest(drawn[:, 1:].ravel() / 0.05, "norm").pvalue > 1e-6


@pytest.mark.parametrize("noise", ["discrete", "float"])
def test_no_two_real_releases_are_alike_and_all_lie_on_the_grid(noise: str) -> None:
    users, bank = make()
    first, second = (Voters(users).release(bank, Mechanism(), noise).histogram for _ in range(2))
    assert first.shape == (15,)
    assert not np.array_equal(first, second)
    steps = first / Grid.of(Mechanism()).step
    assert np.array_equal(steps, np.rint(steps))


def test_releases_of_a_seed_repeat_each_round_and_separate_rounds() -> None:
    users, bank = make()
    drawn = {
        (seed, number): DrawnReleases(Voters(users), EvolutionPlan(Mechanism(), 2, insecure_seed=seed))
        .release(number, bank)
        .histogram
        for seed in (5, 6)
        for number in (0, 1)
    }
    assert len({release.tobytes() for release in drawn.values()}) == 4
    again = Voters(users).simulate(bank, Mechanism(), stream(5, "evolve", "release", 1)).histogram
    assert np.array_equal(drawn[5, 1], again)


@pytest.mark.parametrize("labels", [2, 4, 9])
def test_one_joint_histogram_keeps_a_user_within_clip_where_one_per_label_does_not(labels: int) -> None:
    # A user has one record for each label, near one candidate of that label.
    clip = 0.1
    spread = np.eye(labels, dtype=np.float32)
    users = Users(("u",), np.zeros(labels, dtype=np.int64), labels=tuple(map(str, range(labels))), vectors=spread)
    release = Voters(users).simulate(Bank(spread), Mechanism(k=1, clip=clip, sigma=1e-9, q=1.0), Quiet()).histogram
    assert np.linalg.norm(release) <= clip * (1 + 1e-9)
    # The under-count: normalise and clip each label's histogram by itself, release all of them.
    per_label = np.zeros(labels)
    for label in range(labels):
        histogram = np.zeros(labels)
        histogram[label] = 1.0
        per_label += histogram * min(1, clip / np.linalg.norm(histogram))
    assert np.linalg.norm(per_label) == pytest.approx(math.sqrt(labels) * clip)


def test_records_and_bank_must_share_a_dimension() -> None:
    users, _ = make()
    with pytest.raises(InputError, match="dimension 6 and the bank 3"):
        Voters(users).check(Bank(np.eye(3)))


def test_users_without_vectors_are_refused() -> None:
    with pytest.raises(InputError, match="no vectors"):
        Voters(Users(("u",), np.zeros(1, dtype=np.int64), texts=("a",)))


def test_a_cap_must_be_positive() -> None:
    with pytest.raises(InputError, match="cap"):
        Voters(make()[0], cap=0)


@pytest.mark.parametrize("records", [1, 4, 30])
def test_each_participant_adds_at_most_the_radius_whoever_else_takes_part(records: int) -> None:
    users, bank = make(count=12, records=records)
    voters, mechanism = Voters(users), Mechanism(k=3)
    radius = Grid.of(mechanism).radius
    alone = [voters.histogram([u], bank, mechanism) for u in range(12)]
    assert all(each.dtype == np.int64 for each in alone)
    assert all(sum(int(n) ** 2 for n in each) <= radius**2 for each in alone)
    for others in ([], [0], [3, 4, 5], list(range(11))):
        with_one, without = (voters.histogram(chosen, bank, mechanism) for chosen in ([*others, 11], others))
        assert np.array_equal(with_one - without, alone[11])


def test_the_histogram_lies_one_step_an_entry_and_participant_below_the_contributions() -> None:
    users, bank = make()
    mechanism = Mechanism(k=3, sigma=0.7)
    grid = Grid.of(mechanism)
    table = contributions(route(users.vectors, bank, 3), users.owners, 20, 15, mechanism.clip)
    lost = table.sum(axis=0) / grid.step - Voters(users).histogram(range(20), bank, mechanism)
    assert lost.min() >= -1e-6
    assert lost.max() <= 2 * 20


def test_nobody_at_all_can_be_released_over() -> None:
    _, bank = make()
    nobody = Users((), [], vectors=np.zeros((0, 6), dtype=np.float32))
    voters = Voters(nobody, cap=3)
    assert np.array_equal(voters.histogram([], bank, Mechanism()), np.zeros(15))
    assert voters.release(bank, Mechanism()).histogram.std() > 0
    assert voters.simulate(bank, Mechanism(), np.random.default_rng(0)).histogram.std() > 0
