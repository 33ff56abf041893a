"""The map of the populations: its axes are those of public candidates alone, and a real run places nobody on it."""

import math

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolution import Candidate, Population, Reference
from canarybank.run import Cloud, Clouds, map_clouds
from canarybank.users import Users

DIMENSION = 7


def grown(rounds=2, size=20, seed=5):
    """Return populations of which each keeps half of the one before."""
    rng = np.random.default_rng(seed)
    shape = np.diag(np.arange(DIMENSION, 0, -1.0))
    made = [Population.start([f"text {i}" for i in range(size)], rng.normal(size=(size, DIMENSION)) @ shape)]
    for number in range(1, rounds + 1):
        new = [Candidate(f"r{number}-{i:05d}", f"text {number} {i}", born=number) for i in range(size - size // 2)]
        made.append(made[-1].followed_by(range(size // 2), new, rng.normal(size=(len(new), DIMENSION)) @ shape))
    return made


def held_out(records=30, shift=50.0):
    vectors = np.random.default_rng(8).normal(size=(records, DIMENSION)).astype(np.float32) + np.float32(shift)
    return Reference(Users(("a", "b"), np.arange(records) * 2 // records, texts=["real"] * records, vectors=vectors))


@pytest.fixture(scope="module")
def populations():
    return grown()


def naive(populations):
    """Return the centre and the first two axes of all candidates, each once, by a singular value decomposition."""
    distinct = {}
    for population in populations:
        for candidate, vector in zip(population.candidates, population.vectors, strict=True):
            distinct[candidate.id] = vector
    table = np.array(list(distinct.values()), dtype=np.float64)
    centre = table.mean(axis=0)
    _, strength, axes = np.linalg.svd(table - centre)
    signs = [1 if axis[np.argmax(np.abs(axis))] > 0 else -1 for axis in axes[:2]]
    return centre, axes[:2] * np.array(signs)[:, None], strength[:2] ** 2 / (strength**2).sum()


def test_points_lie_where_a_naive_projection_puts_them(populations):
    clouds, (centre, axes, explained) = map_clouds(populations), naive(populations)
    np.testing.assert_allclose(clouds.explained, explained, rtol=1e-4)
    for after, (population, cloud) in enumerate(zip(populations, clouds.clouds, strict=True)):
        placed = [axes @ (vector - centre) for vector in population.vectors.astype(np.float64)]
        older = [p for p, each in zip(placed, population.candidates, strict=True) if after == 0 or each.born < after]
        new = [p for p, each in zip(placed, population.candidates, strict=True) if after and each.born == after]
        np.testing.assert_allclose(cloud.older, older, atol=1e-4)
        np.testing.assert_allclose(np.reshape(cloud.new, (-1, 2)), np.reshape(new, (-1, 2)), atol=1e-4)
        mean = sum(placed) / len(placed)
        np.testing.assert_allclose(cloud.centre, mean, atol=1e-4)
        far = [math.dist(point, mean) ** 2 for point in placed]
        assert cloud.spread == pytest.approx(math.sqrt(sum(far) / len(far)), rel=1e-4)
        assert (cloud.after, cloud.candidates, cloud.born) == (after, len(population), len(new))


def test_real_records_are_placed_and_move_nothing(populations):
    reference = held_out()
    without, clouds = map_clouds(populations), map_clouds(populations, reference, insecure_seed=0)
    assert (clouds.explained, clouds.clouds) == (without.explained, without.clouds)
    centre, axes, _ = naive(populations)
    real = [axes @ (vector - centre) for vector in reference.users.vectors.astype(np.float64)]
    np.testing.assert_allclose(clouds.real, real, atol=1e-3)
    np.testing.assert_allclose(clouds.real_centre, sum(real) / len(real), atol=1e-3)
    assert (without.real, without.real_centre, without.records) == ((), None, 0)


def test_a_real_run_places_no_real_record(populations):
    with pytest.raises(InputError, match="cannot be placed on the map of a real run"):
        map_clouds(populations, held_out(), insecure_seed=None)


def is_even(places, size):
    """Say whether some of so many places are in order, as far apart as each other, and hold both ends."""
    steps = np.diff(places)
    return (places[0], places[-1]) == (0, size - 1) and steps.min() > 0 and steps.max() - steps.min() <= 1


@pytest.mark.parametrize("rounds", [1, 2, 7, 8, 9, 20])
def test_a_map_has_a_few_populations_as_evenly_as_they_come_with_the_first_and_the_last(rounds):
    clouds = map_clouds(grown(rounds, size=4))
    after = [each.after for each in clouds.clouds]
    assert clouds.populations == rounds + 1
    assert is_even(after, rounds + 1)
    assert len(after) == min(rounds + 1, len(map_clouds(grown(rounds=30, size=4)).clouds))


def test_a_map_stays_small_and_says_of_how_many():
    small, large = (map_clouds(grown(1, size), held_out(5 * size), insecure_seed=0) for size in (300, 500))
    points = [{len(each.older) + len(each.new) for each in clouds.clouds} for clouds in (small, large)]
    assert points[0] == points[1]
    assert max(points[0]) < 300
    assert len(small.real) == len(large.real) < 1500
    assert (small.records, large.records) == (1500, 2500)
    assert [each.candidates for each in large.clouds] == [500, 500]
    centre, axes, _ = naive(grown(1, 300))
    placed = [axes @ (vector - centre) for vector in held_out(1500).users.vectors.astype(np.float64)]
    drawn = [int(np.argmin([math.dist(point, each) for each in placed])) for point in small.real]
    assert is_even(drawn, 1500)


def test_a_map_of_one_text_is_a_point():
    assert map_clouds([Population.start(["alone"], np.ones((1, DIMENSION)))]).clouds[0].older == ((0.0, 0.0),)


POINT = Cloud(0, 1, 0, (0.0, 0.0), 1.0, ((0.0, 1.0),), ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"clouds": ()},
        {"clouds": (Cloud(0, 1, 0, (0.0, 0.0), 1.0, (), ()),)},
        {"clouds": (Cloud(0, 1, 0, (0.0, math.inf), 1.0, ((0.0, 1.0),), ()),)},
        {"clouds": (Cloud(0, 1, 0, (0.0, 0.0), math.nan, ((0.0, 1.0),), ()),)},
        {"real": ((math.inf, 0.0),)},
        {"real_centre": (math.nan, 0.0)},
    ],
)
def test_a_map_that_cannot_be_drawn_is_refused(wrong):
    Clouds((0.5, 0.5), 1, (POINT,))
    with pytest.raises(InputError, match="finite numbers"):
        Clouds(**{"explained": (0.5, 0.5), "populations": 1, "clouds": (POINT,)} | wrong)
