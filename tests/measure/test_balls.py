import doctest
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.measure import Balls, expected_coverage, precision_recall


def naive(generated: NDArray[np.float64], real: NDArray[np.float64], k: int) -> tuple[float, float]:
    """Return density and coverage by their definition, ball by ball."""
    balls = []
    for i, centre in enumerate(real):
        others = sorted(float(np.linalg.norm(centre - other)) for j, other in enumerate(real) if j != i)
        balls.append((centre, others[k - 1] + 1e-9))
    held = [[float(np.linalg.norm(point - centre)) <= radius for point in generated] for centre, radius in balls]
    return sum(map(sum, held)) / (k * len(generated)), sum(map(any, held)) / len(real)


@pytest.mark.parametrize(("k", "dimension", "shift"), [(1, 3, 0.4), (3, 5, 0.8), (5, 2, 1.5)])
def test_density_and_coverage_are_their_naive_twins(k: int, dimension: int, shift: float) -> None:
    rng = np.random.default_rng(k)
    real = rng.normal(size=(70, dimension))
    generated = 0.7 * rng.normal(size=(55, dimension)) + shift
    generated[:5], generated[7] = real[:5], generated[6]  # copies of real ones, and of one another
    found = precision_recall(generated, real, neighbours=k)
    assert (found.density, found.coverage) == pytest.approx(naive(generated, real, k))
    assert 0 < found.coverage < 1


def test_outliers_raise_recall_and_never_coverage() -> None:
    # All that is generated stands at one place; then four points far out give balls that hold nearly everything.
    rng = np.random.default_rng(0)
    real, narrow = rng.normal(size=(300, 4)), 0.05 * rng.normal(size=(296, 4))
    outliers = 40.0 * np.eye(4)
    honest, gamed = precision_recall(narrow, real), precision_recall(np.concatenate([narrow, outliers]), real)
    assert honest.recall < 0.1
    assert gamed.recall > 0.8
    assert gamed.coverage == honest.coverage
    assert gamed.density < honest.density


def test_alike_clouds_have_the_expected_coverage_and_a_density_of_one() -> None:
    # Means over 200 independent pairs, within five of their standard errors: fails by chance about once in 10^6.
    rng = np.random.default_rng(1)
    found = [precision_recall(rng.normal(size=(60, 3)), rng.normal(size=(90, 3))) for _ in range(200)]
    for name, truth in (("coverage", expected_coverage(60, 90)), ("density", 1.0)):
        values = np.array([getattr(each, name) for each in found])
        assert values.mean() == pytest.approx(truth, abs=5 * values.std() / 200**0.5)
        assert values.std() / 200**0.5 < 0.02


def test_expected_coverage_is_a_share_of_orders() -> None:
    # Five others, two of them generated: the nearest is real with 3/5, the second then with 2/4.
    assert expected_coverage(2, 4, neighbours=1) == pytest.approx(2 / 5)
    assert expected_coverage(2, 4, neighbours=2) == pytest.approx(1 - 3 / 5 * 2 / 4)
    assert not doctest.testmod(sys.modules["canarybank.measure.balls"]).failed
    assert doctest.testmod(sys.modules["canarybank.measure.balls"]).failed == 0
    for wrong in ((0, 5, 3), (5, 3, 3), (5, 5, 0)):
        with pytest.raises(InputError, match="undefined"):
            expected_coverage(*wrong[:2], neighbours=wrong[2])


def test_balls_serve_many_clouds() -> None:
    rng = np.random.default_rng(2)
    real, made = rng.normal(size=(80, 3)), rng.normal(size=(50, 3)) + 0.5
    assert precision_recall(made, Balls.around(real)) == precision_recall(made, real)
    with pytest.raises(InputError, match="neighbour 3, not 5"):
        precision_recall(made, Balls.around(real), neighbours=5)
