import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score import Moments

MECHANISM = Mechanism(clip=0.2, sigma=1.3, q=0.25)


def naive(rows: np.ndarray, mechanism: Mechanism, eligible: int) -> tuple[np.ndarray, np.ndarray]:
    """The paper's estimators, entry by entry."""
    n, r = rows.shape
    mean, covariance = np.zeros(r), np.zeros((r, r))
    for i in range(r):
        mean[i] = mechanism.q * eligible * sum(row[i] for row in rows) / n
        for j in range(r):
            second = sum(row[i] * row[j] for row in rows) / n
            shrunk = 0.9 * second + (0.1 * second if i == j else 0.0)
            covariance[i, j] = mechanism.q * (1 - mechanism.q) * eligible * shrunk
        covariance[i, i] += (mechanism.sigma * mechanism.clip) ** 2 + 1e-9
    return mean, covariance


@pytest.mark.parametrize("seed", range(5))
def test_the_estimate_is_the_papers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((17, 4)) * (rng.random((17, 4)) < 0.5)
    mean, covariance = naive(rows, MECHANISM, 40)
    for table in (rows, csr_array(rows), rows.astype(np.float32).astype(np.float64).tolist()):
        moments = Moments.estimate(table, MECHANISM, 40)
        tolerance = 1e-12 if not isinstance(table, list) else 1e-6
        assert np.allclose(moments.mean, mean, rtol=tolerance, atol=0)
        assert np.allclose(moments.covariance, covariance, rtol=tolerance, atol=1e-18)


def test_the_moments_of_everybody_are_those_of_the_release() -> None:
    # With the whole population as auxiliary users and no shrinkage left to do (one coordinate), they are exact.
    rows = np.array([[0.1], [0.0], [0.2]])
    moments = Moments.estimate(rows, MECHANISM, 3)
    assert moments.mean[0] == pytest.approx(0.25 * 0.3)
    assert moments.covariance[0, 0] == pytest.approx(0.25 * 0.75 * 0.05 + 0.26**2 + 1e-9, rel=1e-13)


def test_moments_cannot_be_written() -> None:
    moments = Moments.estimate(np.ones((2, 2)), MECHANISM, 3)
    with pytest.raises(ValueError, match="read-only"):
        moments.mean[0] = 1.0


@pytest.mark.parametrize(
    ("table", "eligible", "message"),
    [
        (np.empty((0, 3)), 5, "at least one user"),
        (np.empty((3, 0)), 5, "at least one user"),
        (np.ones(3), 5, "table"),
        (np.array([[np.nan]]), 5, "NaN"),
        (csr_array(np.array([[np.inf]])), 5, "NaN"),
        (np.ones((2, 2)), 0, "at least one user, not 0"),
    ],
)
def test_bad_tables_are_refused(table: np.ndarray, eligible: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Moments.estimate(table, MECHANISM, eligible)


@pytest.mark.parametrize(
    ("mean", "covariance", "message"),
    [
        (np.zeros(2), np.eye(3), "do not belong together"),
        (np.zeros(0), np.eye(0), "at least one"),
        (np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        (np.zeros(2), np.full((2, 2), np.nan), "NaN"),
    ],
)
def test_bad_moments_are_refused(mean: np.ndarray, covariance: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Moments(mean, covariance)
