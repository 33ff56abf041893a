import numpy as np
import pytest

from canarybank.attack import Canary, nonce_canary, nonce_pool, simulated_nonces, simulated_paraphrases
from canarybank.errors import InputError
from canarybank.mechanism import route


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_nonce_canary_votes_for_nonces_and_natural_records_hardly_do(scale: float) -> None:
    rng = np.random.default_rng(0)
    natural = rng.standard_normal((1200, 128))
    natural *= scale / np.linalg.norm(natural, axis=1, keepdims=True)
    bank, records = natural[:1000], natural[1000:]
    encode = simulated_nonces(bank, seed=1)
    canary = nonce_canary(16, encode, seed=2)
    full = np.concatenate([bank, nonce_pool(encode)(canary, 64, 2).vectors])
    assert (route(canary.vectors, full, 5) >= 1000).all()
    assert (route(records, full, 5) >= 1000).mean() < 0.02


def test_nonces_have_the_stated_geometry() -> None:
    bank = np.random.default_rng(1).standard_normal((50, 2000)) + 1.0
    vectors = simulated_nonces(bank, seed=1, spread=0.5)([str(i) for i in range(40)])
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(norms, np.median(np.linalg.norm(bank, axis=1)), rtol=1e-6)
    cosines = (vectors / norms[:, None]) @ (vectors / norms[:, None]).T
    np.testing.assert_allclose(cosines[np.triu_indices(40, 1)], 1 / 1.25, atol=0.1)
    mean = bank.mean(axis=0) / np.linalg.norm(bank.mean(axis=0))
    assert abs((vectors.mean(axis=0) / norms[0]) @ mean) < 0.05


def test_the_same_text_gets_the_same_vector() -> None:
    encode = simulated_nonces(np.eye(5), seed=1)
    assert np.array_equal(encode(["a", "b"])[1], encode(["b"])[0])
    assert not np.array_equal(encode(["a"]), simulated_nonces(np.eye(5), seed=2)(["a"]))


def test_paraphrases_are_turned_records_of_the_same_norm() -> None:
    rng = np.random.default_rng(2)
    canary = Canary(rng.standard_normal((6, 300)) * rng.uniform(1, 5, (6, 1)))
    pool = simulated_paraphrases()(canary, 15, 3)
    assert pool.sources == tuple(i % 6 for i in range(15))
    norms = np.linalg.norm(canary.vectors, axis=1)[list(pool.sources)]
    np.testing.assert_allclose(np.linalg.norm(pool.vectors, axis=1), norms, rtol=1e-5)
    cosines = (pool.vectors * canary.vectors[list(pool.sources)]).sum(axis=1) / norms**2
    assert (cosines > 0.9).all()
    assert (cosines < 0.999).all()
    assert np.array_equal(pool.vectors, simulated_paraphrases()(canary, 15, 3).vectors)


def test_a_line_and_a_bad_spread_are_refused() -> None:
    with pytest.raises(InputError, match="dimension 2 or more"):
        simulated_nonces(np.ones((3, 1)), seed=0)
    for spread in (0.0, -1.0, np.nan):
        with pytest.raises(InputError, match="spread must be positive"):
            simulated_paraphrases(spread)
        with pytest.raises(InputError, match="spread must be positive"):
            simulated_nonces(np.ones((3, 2)), seed=0, spread=spread)
