import numpy as np
import pytest

from canarybank.evolve import Keep, Published, Round, Spent, split
from canarybank.evolve.concentration import concentration
from canarybank.mechanism import Bank


def voted(release: list[float] | np.ndarray, reserved: tuple[int, ...] = (), count: int = 2) -> Round:
    size = len(release)
    bank = Bank(np.eye(size), tuple(f"text {i}" for i in range(size)), reserved)
    published = Published.of(*split(bank))
    return Round.of(0, published, np.asarray(release, dtype=float), Keep(count=count), Spent(1, 1.0, 1.0, 1e-5))


def test_without_noise_it_counts_equal_votes() -> None:
    found = concentration(voted([3.0, 3.0, 3.0, 0.0, 0.0, 0.0]), noise=0.0)
    assert found.effective == pytest.approx(3.0)
    assert found.kept_share == pytest.approx(2 / 3)
    assert found.probe_share is None


def test_probes_are_left_out_and_their_part_is_told() -> None:
    found = concentration(voted([3.0, 6.0, 3.0, 0.0], reserved=(1,)), noise=0.0)
    assert found.effective == pytest.approx(2.0)
    assert found.kept_share == pytest.approx(1.0)
    assert found.probe_share == pytest.approx(0.5)


def test_noise_is_taken_off_in_expectation() -> None:
    # 20 equal votes of 5 among 400, noise 1: by the delta method the figure has a standard deviation below 3.
    votes = np.zeros(400)
    votes[:20] = 5.0
    noisy = votes + np.random.default_rng(1).normal(size=400)
    assert concentration(voted(noisy), noise=1.0).effective == pytest.approx(20, abs=15)
    assert concentration(voted(noisy), noise=0.0).effective < 15


def test_drowned_votes_have_no_figure() -> None:
    found = concentration(voted([-1.0, 0.1, -0.2, -3.0], reserved=(0,)), noise=2.0)
    assert found.effective is None
    assert found.probe_share is None
    assert concentration(voted([-1.0, -2.0, -3.0]), noise=1.0).kept_share == 0.0


def test_only_the_release_is_read() -> None:
    first, second = voted([1.0, 2.0, 3.0, 4.0]), voted([1.0, 2.0, 3.0, 4.0])
    assert concentration(first, 0.1) == concentration(second, 0.1)
    assert 1.0 <= concentration(first, 0.1).effective <= 4.0
