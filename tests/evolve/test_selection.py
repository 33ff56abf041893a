import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolve import Keep, top


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
