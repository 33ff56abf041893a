import numpy as np
import pytest

from canarybank.mechanism import Bank, Mechanism
from canarybank.users import CohortSizes, Users

DIMENSION, RECORDS = 24, 12


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture(scope="session")
def mechanism():
    return Mechanism(k=3)


@pytest.fixture(scope="session")
def people():
    """Sixty users with twelve records each, every user around a few topics."""
    rng = np.random.default_rng(42)
    topics = unit(rng.normal(size=(10, DIMENSION)) + 1.5)
    vectors = {
        f"user-{i:02d}": unit(topics[rng.integers(10, size=RECORDS)] + 0.25 * rng.normal(size=(RECORDS, DIMENSION)))
        for i in range(60)
    }
    return Users.from_vectors(vectors)


@pytest.fixture(scope="session")
def bank():
    rng = np.random.default_rng(43)
    return Bank(unit(rng.normal(size=(200, DIMENSION)) + 1.0).astype(np.float32)).reserve(12, seed=1)


@pytest.fixture(scope="session")
def sizes():
    return CohortSizes(auxiliary=15, calibration=15, evaluation=25, canaries=2)
