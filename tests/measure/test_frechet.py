import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm

from canarybank.errors import InputError
from canarybank.measure import frechet_distance

RNG = np.random.default_rng(0)


def exact(mean: NDArray[np.float64], covariance: NDArray[np.float64], size: int = 60) -> NDArray[np.float64]:
    """Return vectors whose mean and unbiased covariance are exactly these."""
    plain = RNG.normal(size=(size, len(mean)))
    plain -= plain.mean(axis=0)
    whitened = plain @ np.linalg.inv(np.linalg.cholesky(np.cov(plain.T))).T
    return whitened @ np.linalg.cholesky(covariance).T + mean


def test_it_is_the_closed_form_of_gaussians_with_common_axes() -> None:
    # |m1 - m2|^2 + sum (s1 - s2)^2
    made, real = (
        exact(np.array([1.0, 0.0, 2.0]), np.diag([4.0, 1.0, 9.0])),
        exact(np.zeros(3), np.diag([1.0, 1.0, 4.0])),
    )
    assert frechet_distance(made, real) == pytest.approx(5.0 + (1.0 + 0.0 + 1.0))


def test_it_is_the_naive_twin_by_a_matrix_root_of_the_product() -> None:
    roots = RNG.normal(size=(2, 4, 4))
    first, second = (root @ root.T + 0.1 * np.eye(4) for root in roots)
    naive = np.trace(first + second - 2 * sqrtm(first @ second).real) + 0.25 * 4
    assert frechet_distance(exact(np.full(4, 0.5), first), exact(np.zeros(4), second)) == pytest.approx(naive)


def test_it_is_symmetric_and_zero_for_equal_clouds_even_with_fewer_vectors_than_dimensions() -> None:
    made, real = RNG.normal(size=(20, 50)), RNG.normal(size=(30, 50)) + 0.1
    assert frechet_distance(made, real) == pytest.approx(frechet_distance(real, made))
    assert frechet_distance(made, made) == pytest.approx(0.0, abs=1e-6)
    assert frechet_distance(made, made + 2.0) == pytest.approx(4.0 * 50)


def test_two_samples_of_one_distribution_are_apart_the_more_the_fewer_they_are() -> None:
    few, many = (frechet_distance(*RNG.normal(size=(2, size, 20))) for size in (25, 2500))
    assert few > 5
    assert many < 0.5


def test_what_has_no_covariance_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2 vectors"):
        frechet_distance(np.ones((1, 3)), np.ones((4, 3)))
    with pytest.raises(InputError, match="dimension"):
        frechet_distance(np.ones((4, 3)), np.ones((4, 2)))
