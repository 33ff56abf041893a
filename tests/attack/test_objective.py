"""Hold the scores of a round to one solved system for each trial set."""

import numpy as np
import pytest

from canarybank.attack import Mueff, Norm, Objective, select_probes
from canarybank.errors import InputError


@pytest.mark.parametrize("size", [3, 40, 700])
def test_mueff_solves_every_bordered_system(size: int) -> None:
    rng = np.random.default_rng(size)
    factor = rng.standard_normal((size, 5)) * 3
    covariance = factor @ factor.T + np.eye(size)
    score = Mueff(covariance, size)
    order = [int(j) for j in rng.permutation(size)]
    # At 700 the whitening of 600 selected probes is wider than one narrow block, and is split.
    checked = {0, 1, size // 2, 600, size - 1}
    for t, candidate in enumerate(order):
        if t in checked:
            own = rng.integers(0, 9, size).astype(np.float64)
            kept = rng.integers(0, 9, (t, size)).astype(np.float64)
            found = score.scores(own, kept)
            for j in order[t : t + 3]:
                trial, votes = [*order[:t], j], np.append(kept[:, j], own[j])
                expected = votes @ np.linalg.solve(covariance[np.ix_(trial, trial)], votes)
                assert found[j] == pytest.approx(expected, rel=1e-11)
        score.add(candidate)


def test_norm_compares_integers_exactly() -> None:
    scores = Norm().scores(np.array([3.0, 0.0, 4.0]), np.array([[4.0, 5.0, 3.0]]))
    assert list(scores) == [25, 25, 25]
    assert Norm().winner(scores, np.array([False, True, True])) == 1
    assert Norm().winner(scores + np.array([0, 0, 1]), np.array([True, True, True])) == 2


def test_mueff_takes_the_lowest_index_within_the_tie() -> None:
    score, free = Mueff(np.eye(3), 3), np.ones(3, dtype=bool)
    assert score.winner(np.array([1 - 2e-10, 1 - 0.5e-10, 1.0]), free) == 1
    assert score.winner(np.array([1 - 0.5e-10, 1.0, 1.0]), np.array([False, True, True])) == 1
    assert score.winner(np.zeros(3), np.array([False, True, True])) == 1


def test_a_matrix_singular_among_the_selected_is_refused() -> None:
    almost = np.ones((2, 2)) + 4e-16 * np.eye(2)
    with pytest.raises(InputError, match="singular to rounding"):
        Mueff(almost, 2).add(0)


def test_objectives_are_named_by_text_or_value() -> None:
    rng = np.random.default_rng(4)
    canary, base, pool = rng.normal(size=(6, 3)), rng.normal(size=(9, 3)), rng.normal(size=(12, 3))
    for objective in Objective:
        told = {"count": 4, "k": 2, "covariance": np.diag(rng.uniform(1, 9, 12))}
        named = select_probes(canary, base, pool, objective=objective.value, **told)
        assert named == select_probes(canary, base, pool, objective=objective, **told)
    with pytest.raises(InputError, match="choose 'norm' or 'mueff'"):
        select_probes(canary, base, pool, count=4, k=2, objective="NORM")
