import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.attack import NONCE_ALPHABET, NONCE_LENGTH, CanaryKind, nonce_canary, nonce_pool, nonces
from canarybank.errors import InputError
from canarybank.seeds import stream


def encode(texts: Sequence[str]) -> NDArray[np.floating]:
    return np.array([[len(text), sum(map(ord, text))] for text in texts], dtype=np.float64)


def test_nonces_carry_190_bits() -> None:
    assert len(set(NONCE_ALPHABET)) == len(NONCE_ALPHABET)
    assert len(NONCE_ALPHABET) ** NONCE_LENGTH > 2**190


def test_nonces_are_uniform_over_the_alphabet() -> None:
    drawn = "".join(nonces(2000, stream(0, "test")))
    assert len(drawn) == 2000 * NONCE_LENGTH
    share = 1 / len(NONCE_ALPHABET)
    bar = 6 * math.sqrt(len(drawn) * share * (1 - share))
    counts = Counter(drawn)
    # Six standard deviations over 62 characters: a false alarm below 2e-7.
    assert set(counts) == set(NONCE_ALPHABET)
    assert all(abs(n - len(drawn) * share) < bar for n in counts.values())


def test_canary_and_pool_share_no_nonce_and_no_stream() -> None:
    canary = nonce_canary(64, encode, seed=1, index=2)
    pool = nonce_pool(encode)(canary, 512, 1)
    assert canary.kind is CanaryKind.NONCE
    assert len(canary) == 64
    assert len(pool) == 512
    assert canary.texts is not None
    assert pool.texts is not None
    assert len(set(canary.texts) | set(pool.texts)) == 64 + 512
    assert np.array_equal(canary.vectors, encode(canary.texts).astype(np.float32))
    assert np.array_equal(pool.vectors, encode(pool.texts).astype(np.float32))


def test_seed_index_and_canary_each_give_other_nonces() -> None:
    first = nonce_canary(4, encode, seed=1, index=0)
    assert first.texts == nonce_canary(4, encode, seed=1, index=0).texts
    others = [nonce_canary(4, encode, seed=1, index=1), nonce_canary(4, encode, seed=2, index=0)]
    assert all(not set(first.texts or ()) & set(other.texts or ()) for other in others)
    assert len({first.id, others[0].id}) == 2
    named = nonce_canary(4, encode, seed=1, index=0, name="nonce-norm")
    assert named.id == "nonce-norm-0"
    assert not set(first.texts or ()) & set(named.texts or ())
    source = nonce_pool(encode)
    assert source(first, 5, 1).texts == source(first, 5, 1).texts
    assert source(first, 5, 1).texts != source(others[0], 5, 1).texts
    assert source(first, 5, 1).texts != source(first, 5, 2).texts
    assert source(first, 5, 1).texts != source(named, 5, 1).texts


def test_an_empty_canary_and_a_broken_encoder_are_refused() -> None:
    with pytest.raises(InputError, match="0 nonces"):
        nonce_canary(0, encode, seed=1)
    with pytest.raises(InputError, match=r"shape \(1, 2\) for 3 nonces"):
        nonce_canary(3, lambda texts: encode(texts)[:1], seed=1)
    with pytest.raises(InputError, match="NaN or infinite"):
        nonce_canary(3, lambda texts: encode(texts) * np.nan, seed=1)
