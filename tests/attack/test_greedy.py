"""Hold the fast selection to the literal algorithm: every trial set routed and every system solved anew."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from canarybank.attack import Objective, select_probes
from canarybank.errors import InputError

Table = NDArray[Any]
OBJECTIVES = ("norm", "mueff")


def literal_votes(canary: Table, base: Table, pool: Table, probes: list[int], k: int) -> NDArray[np.int64]:
    """Route every record over the base and the probes, base first and probes as selected, and count probe votes."""
    bank = np.concatenate([base, pool[probes]]).astype(np.float64)
    counts = np.zeros(len(bank), dtype=np.int64)
    for record in np.asarray(canary, dtype=np.float64):
        distances = ((bank - record) ** 2).sum(axis=1)
        counts[np.argsort(distances, kind="stable")[:k]] += 1
    return counts[len(base) :]


def literal(
    canary: Table, base: Table, pool: Table, *, count: int, k: int, objective: str, covariance: Table
) -> list[int]:
    selected: list[int] = []
    for _ in range(count):
        scores: dict[int, float] = {}
        for j in range(len(pool)):
            if j in selected:
                continue
            trial = [*selected, j]
            votes = literal_votes(canary, base, pool, trial, k)
            if objective == "norm":
                scores[j] = int((votes**2).sum())
            else:
                w = votes / (len(canary) * k)
                scores[j] = float(w @ np.linalg.solve(covariance[np.ix_(trial, trial)], w))
        best = max(scores.values())
        bar = best if objective == "norm" else best * (1 - 1e-10)
        selected.append(min(j for j, score in scores.items() if score >= bar))
    return selected


def covariance_of(size: int, rng: np.random.Generator, *, scale: float = 1.0) -> Table:
    """A background like an estimate: correlated variation plus the noise of a release."""
    factor = rng.standard_normal((size, max(1, size // 2))) * rng.exponential(1, size)[:, None] * scale
    return factor @ factor.T / size + np.eye(size)


def agree(canary: Table, base: Table, pool: Table, *, count: int, k: int, covariance: Table) -> None:
    for objective in OBJECTIVES:
        options = {"count": count, "k": k, "objective": objective, "covariance": covariance}
        assert select_probes(canary, base, pool, **options) == literal(canary, base, pool, **options)


def sizes(rng: np.random.Generator) -> tuple[int, int, int, int, int]:
    m, b, M = (int(rng.integers(low, high)) for low, high in ((1, 9), (1, 12), (1, 13)))
    return m, b, M, int(rng.integers(1, M + 1)), int(rng.integers(1, b + 1))


@pytest.mark.parametrize("case", range(60))
def test_random_vectors_give_the_literal_sequence(case: int) -> None:
    rng = np.random.default_rng([1, case])
    m, b, M, count, k = sizes(rng)
    d = int(rng.integers(1, 6))
    dtype = (np.float32, np.float64)[case % 2]
    canary, base, pool = (rng.standard_normal((n, d)).astype(dtype) for n in (m, b, M))
    agree(canary, base, pool, count=count, k=k, covariance=covariance_of(M, rng))


@pytest.mark.parametrize("case", range(120))
def test_a_lattice_full_of_ties_gives_the_literal_sequence(case: int) -> None:
    rng = np.random.default_rng([2, case])
    m, b, M, count, k = sizes(rng)
    canary, base, pool = (rng.integers(-1, 2, (n, 2)).astype(np.float64) for n in (m, b, M))
    covariance = (np.eye(M), np.diag(rng.choice([0.5, 1.0, 2.0], M)), covariance_of(M, rng))[case % 3]
    agree(canary, base, pool, count=count, k=k, covariance=covariance)


@pytest.mark.parametrize("case", range(40))
def test_duplicates_of_records_base_and_pool_give_the_literal_sequence(case: int) -> None:
    rng = np.random.default_rng([3, case])
    stock = rng.standard_normal((4, 3)).astype(np.float32)
    m, b, M, count, k = sizes(rng)
    canary, base, pool = (stock[rng.integers(4, size=n)] for n in (m, b, M))
    agree(canary, base, pool, count=count, k=k, covariance=covariance_of(M, rng))


def test_identical_records_give_the_literal_sequence() -> None:
    rng = np.random.default_rng(4)
    canary = np.repeat(rng.standard_normal((1, 3)), 6, axis=0)
    base, pool = rng.standard_normal((8, 3)), rng.standard_normal((14, 3))
    agree(canary, base, pool, count=14, k=3, covariance=covariance_of(14, rng))


@pytest.mark.parametrize("case", range(15))
def test_an_ill_scaled_covariance_gives_the_literal_sequence(case: int) -> None:
    rng = np.random.default_rng([5, case])
    canary, base, pool = (rng.standard_normal((n, 2)) for n in (10, 6, 12))
    scale = 10.0 ** rng.uniform(-5, 5, 12)
    agree(canary, base, pool, count=9, k=4, covariance=covariance_of(12, rng) * np.outer(scale, scale))


@pytest.mark.parametrize("case", range(6))
def test_a_strongly_correlated_background_gives_the_literal_sequence(case: int) -> None:
    rng = np.random.default_rng([6, case])
    canary, base, pool = (rng.standard_normal((n, 3)) for n in (12, 6, 12))
    agree(canary, base, pool, count=8, k=5, covariance=covariance_of(12, rng, scale=100.0))


def test_crowded_probes_that_rob_each_other_give_the_literal_sequence() -> None:
    rng = np.random.default_rng(7)
    canary = rng.standard_normal((20, 4))
    pool = np.concatenate([canary + 0.3 * rng.standard_normal(canary.shape) for _ in range(2)])
    base = 3 * rng.standard_normal((30, 4))
    agree(canary, base, pool, count=25, k=3, covariance=covariance_of(40, rng))


@pytest.mark.parametrize("noise", [1e-9, 1e-2, 1.0, 7.3e4])
@pytest.mark.parametrize("lattice", [False, True])
def test_an_isotropic_covariance_selects_as_norm_does(noise: float, lattice: bool) -> None:
    rng = np.random.default_rng(8)
    draw = (lambda n: rng.integers(-2, 3, (n, 2))) if lattice else (lambda n: rng.standard_normal((n, 4)))
    canary, base, pool = draw(30), draw(40), draw(50)
    options = {"count": 50, "k": 5}
    norm = select_probes(canary, base, pool, objective="norm", **options)
    assert select_probes(canary, base, pool, objective="mueff", covariance=noise * np.eye(50), **options) == norm


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_small_integers_give_the_literal_sequence(data: st.DataObject) -> None:
    d = data.draw(st.integers(1, 2))
    vectors = st.lists(st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=1, max_size=6)
    canary, base, pool = (np.array(data.draw(vectors), dtype=np.float64) for _ in range(3))
    count, k = data.draw(st.integers(0, len(pool))), data.draw(st.integers(1, len(base)))
    factor = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=len(pool), max_size=len(pool))), dtype=np.float64)
    agree(canary, base, pool, count=count, k=k, covariance=np.outer(factor, factor) + np.eye(len(pool)))


def test_base_entries_win_ties_against_probes() -> None:
    assert select_probes([[0.0]], [[1.0]], [[-1.0], [2.0], [0.5]], count=1, k=1, objective="norm") == [2]
    # Nobody votes for a candidate as far away as the base entry: all scores are zero and the lowest index is taken.
    assert select_probes([[0.0]], [[1.0]], [[-1.0], [2.0]], count=2, k=1, objective="norm") == [0, 1]
    options = {"count": 2, "k": 1, "objective": "mueff", "covariance": np.eye(2)}
    assert select_probes([[0.0]], [[1.0]], [[-1.0], [2.0]], **options) == [0, 1]


def test_a_background_is_avoided_by_mueff_alone() -> None:
    canary, base = np.zeros((4, 2)), np.ones((3, 2))
    pool = np.array([[0.1, 0.0], [0.0, 0.2]])
    assert select_probes(canary, base, pool, count=1, k=1, objective=Objective.NORM) == [0]
    covariance = np.diag([2.0, 1.0])
    assert select_probes(canary, base, pool, count=1, k=1, objective=Objective.MUEFF, covariance=covariance) == [1]


def test_inputs_are_left_as_they_were() -> None:
    rng = np.random.default_rng(9)
    arrays = [rng.standard_normal((n, 3)) for n in (5, 6, 7)]
    covariance = covariance_of(7, rng)
    copies = [array.copy() for array in (*arrays, covariance)]
    select_probes(*arrays, count=7, k=2, objective="mueff", covariance=covariance)
    assert all(np.array_equal(a, b) for a, b in zip((*arrays, covariance), copies, strict=True))


GOOD: dict[str, Any] = {
    "canary": np.zeros((2, 3)),
    "base": np.ones((4, 3)),
    "pool": np.full((5, 3), 0.5),
    "count": 2,
    "k": 2,
    "objective": "mueff",
    "covariance": np.eye(5),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 6}, "6 probes cannot be selected from a pool of 5"),
        ({"count": -1}, "-1 probes cannot be selected"),
        ({"k": 5}, r"k\b.*5"),
        ({"k": 0}, r"k\b.*0"),
        ({"canary": np.full((2, 3), np.nan)}, "canary record 0 is NaN or infinite"),
        ({"base": np.full((4, 3), np.inf)}, "base entry 0 is NaN or infinite"),
        ({"pool": np.full((5, 3), np.nan)}, "pool entry 0 is NaN or infinite"),
        ({"canary": np.zeros((2, 4))}, "dimension"),
        ({"base": np.zeros((4, 2))}, "dimension"),
        ({"pool": np.zeros((5, 2))}, "dimension"),
        ({"canary": np.zeros((0, 3))}, "non-empty"),
        ({"objective": "mu"}, "no objective 'mu'"),
        ({"covariance": None}, "needs the covariance"),
        ({"covariance": np.eye(4)}, r"shape \(4, 4\), but the pool has 5"),
        ({"covariance": np.full((5, 5), np.nan)}, "NaN or infinite"),
        ({"covariance": np.eye(5) + np.triu(np.ones((5, 5)), 1)}, "not symmetric"),
        ({"covariance": -np.eye(5)}, "not positive definite"),
        ({"covariance": np.ones((5, 5))}, "not positive definite"),
        ({"covariance": np.ones((5, 5)) + 3e-15 * np.diag(range(5))}, "not positive definite"),
    ],
)
def test_unusable_input_is_refused(change: dict[str, Any], message: str) -> None:
    options = GOOD | change
    with pytest.raises(InputError, match=message):
        select_probes(options.pop("canary"), options.pop("base"), options.pop("pool"), **options)
