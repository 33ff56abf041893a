import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolve import neighbours as module
from canarybank.evolve.neighbours import precision_recall


def naive(generated: np.ndarray, real: np.ndarray, k: int) -> tuple[float, float]:
    """Point by point, with distances of differences."""

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.sqrt(((a.astype(np.float64) - b.astype(np.float64)) ** 2).sum()))

    def covered(points: np.ndarray, centres: np.ndarray) -> float:
        radii = [
            sorted(distance(c, other) for j, other in enumerate(centres) if j != i)[k - 1]
            for i, c in enumerate(centres)
        ]
        hits = [any(distance(p, c) <= r + 1e-9 for c, r in zip(centres, radii, strict=True)) for p in points]
        return sum(hits) / len(points)

    return covered(generated, real), covered(real, generated)


@pytest.mark.parametrize(("k", "dimension", "shift"), [(1, 3, 0.4), (3, 5, 0.8), (5, 2, 1.5)])
def test_it_is_the_naive_twin(k: int, dimension: int, shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(k)
    real = rng.normal(size=(70, dimension)).astype(np.float32)
    generated = (0.7 * rng.normal(size=(55, dimension)) + shift).astype(np.float32)
    generated[:5], generated[7] = real[:5], generated[6]  # copies of real ones, and of one another
    monkeypatch.setattr(module, "CHUNK_VALUES", 500)
    found = precision_recall(generated, real, neighbours=k)
    assert (found.precision, found.recall) == naive(generated, real, k)
    assert 0 < found.recall < 1


def test_alike_clouds_cover_each_other_and_far_ones_do_not() -> None:
    cloud = np.random.default_rng(0).normal(size=(300, 4))
    same = precision_recall(cloud, cloud)
    assert (same.precision, same.recall, same.neighbours) == (1.0, 1.0, 3)
    apart = precision_recall(cloud + 100, cloud)
    assert (apart.precision, apart.recall) == (0.0, 0.0)


def test_a_narrow_cloud_is_precise_and_has_little_recall() -> None:
    rng = np.random.default_rng(1)
    found = precision_recall(0.1 * rng.normal(size=(300, 4)), rng.normal(size=(300, 4)))
    assert found.precision > 0.95
    assert found.recall < 0.1


def test_copies_are_inside_even_where_every_ball_is_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each real point stands four times, so its third neighbour is at no distance; rounding, which differs between
    # products of different shapes, must not push a copy out.
    monkeypatch.setattr(module, "CHUNK_VALUES", 1400)
    points = np.random.default_rng(2).normal(size=(50, 384))
    real = np.repeat(points / np.linalg.norm(points, axis=1, keepdims=True), 4, axis=0).astype(np.float32)
    found = precision_recall(real[::4][:47], real)
    assert (found.precision, found.recall) == (1.0, 1.0)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="3-th nearest neighbour needs more than 3"):
        precision_recall(np.eye(3), np.eye(3))
    with pytest.raises(InputError, match="dimension"):
        precision_recall(np.eye(5), np.eye(6))
    with pytest.raises(InputError, match="neighbours"):
        precision_recall(np.eye(5), np.eye(5), neighbours=0)
