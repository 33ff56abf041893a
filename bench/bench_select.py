"""Select 64 probes of a pool of 512, against the literal algorithm that routes again for every trial set."""

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import select_probes
from harness import Result, measure, ratio

RECORDS, BANK, POOL, COUNT, K, DIMENSION = 64, 8192, 512, 64, 5, 384
SAMPLE = 8
TARGET = 1000
Floats = NDArray[np.float32]


def run() -> list[Result]:
    """Time both objectives; the baseline is a sample of trial sets, extrapolated to all of them."""
    canary, base, pool, covariance = _problem()
    size = f"M={POOL}, r={COUNT}, m={RECORDS}, k={K}, bank {BANK:,}, {DIMENSION}-d"
    results = []
    for objective in ("norm", "mueff"):
        options = {"count": COUNT, "k": K, "objective": objective, "covariance": covariance}
        chosen = select_probes(canary, base, pool, **options)
        ours = measure(lambda options=options: select_probes(canary, base, pool, **options))
        baseline = _baseline(canary, base, pool, chosen, None if objective == "norm" else covariance)
        note = f"baseline from {SAMPLE} of {_trial_sets():,} trial sets"
        results.append(ratio(f"select_probes, {objective}", size, baseline, ours, TARGET, note))
    return results


def _problem() -> tuple[Floats, Floats, Floats, NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    canary, base = (_unit(rng.standard_normal((n, DIMENSION))) for n in (RECORDS, BANK))
    pool = _unit(canary[np.arange(POOL) % RECORDS] + 0.05 * rng.standard_normal((POOL, DIMENSION)))
    factor = rng.standard_normal((POOL, 20)) * rng.exponential(0.01, POOL)[:, None]
    return canary, base, pool, factor @ factor.T + 0.01 * np.eye(POOL)


def _unit(vectors: NDArray[np.float64]) -> Floats:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _trial_sets() -> int:
    return sum(POOL - t for t in range(COUNT))


def _baseline(
    canary: Floats, base: Floats, pool: Floats, chosen: list[int], covariance: NDArray[np.float64] | None
) -> float:
    """Return the seconds for all trial sets, from sets at the ends and the middle of the selection."""
    rng = np.random.default_rng(1)
    rounds = np.linspace(0, COUNT - 1, SAMPLE).astype(int)
    free = [j for j in range(POOL) if j not in chosen]
    trials = [[*chosen[:t], int(rng.choice(free))] for t in rounds]
    seconds = measure(lambda: [_score(canary, base, pool, trial, covariance) for trial in trials])
    return seconds / SAMPLE * _trial_sets()


def _score(
    canary: Floats, base: Floats, pool: Floats, trial: list[int], covariance: NDArray[np.float64] | None
) -> float:
    """Route every record over the base and a trial set by GEMM and partition, count its votes, and score them."""
    bank = np.concatenate([base, pool[trial]])
    distances = (bank**2).sum(axis=1) - 2 * canary @ bank.T
    routes = np.argpartition(distances, K, axis=1)[:, :K]
    votes = np.bincount(routes[routes >= len(base)] - len(base), minlength=len(trial)) / (RECORDS * K)
    if covariance is None:
        return float(votes @ votes)
    return float(votes @ np.linalg.solve(covariance[np.ix_(trial, trial)], votes))
