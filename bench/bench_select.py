"""Select 64 probes of a pool of 512, against the literal algorithm that routes again for every trial set."""

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import select_probes
from harness import Result, measure, ratio

RECORDS, BANK, POOL, COUNT, K, DIMENSION = 64, 8192, 512, 64, 5, 384
SAMPLE = 8
TARGET = 1000
Floats = NDArray[np.float32]
Covariance = NDArray[np.float64] | None


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


def _baseline(canary: Floats, base: Floats, pool: Floats, chosen: list[int], covariance: Covariance) -> float:
    """Return the seconds for all trial sets, from rivals of the winner in rounds from the first to the last."""
    literal = _Literal(canary, base, pool, covariance)
    rng = np.random.default_rng(1)
    free = [j for j in range(POOL) if j not in chosen]
    rounds = [int(t) for t in np.linspace(0, COUNT - 1, SAMPLE)]
    trials = [[*chosen[:t], int(rng.choice(free))] for t in rounds]
    for t, trial in zip(rounds, trials, strict=True):
        assert literal.score(chosen[: t + 1]) >= literal.score(trial) * (1 - 1e-9)
    return measure(lambda: [literal.score(trial) for trial in trials]) / SAMPLE * _trial_sets()


class _Literal:
    """Score a trial set after routing every record over all of the bank; only the base's norms and room are kept."""

    def __init__(self, canary: Floats, base: Floats, pool: Floats, covariance: Covariance) -> None:
        self.canary, self.pool, self.covariance, self.size = canary, pool, covariance, len(base)
        self.room = np.concatenate([base, np.empty((COUNT, DIMENSION), dtype=np.float32)])
        self.squares = np.concatenate([(base**2).sum(axis=1), np.empty(COUNT, dtype=np.float32)])

    def score(self, trial: list[int]) -> float:
        """Route by GEMM and partition, count the votes on the probes, and score them."""
        end = self.size + len(trial)
        self.room[self.size : end] = self.pool[trial]
        self.squares[self.size : end] = (self.pool[trial] ** 2).sum(axis=1)
        distances = self.squares[:end] - 2 * (self.canary @ self.room[:end].T)
        routes = np.argpartition(distances, K - 1, axis=1)[:, :K]
        votes = np.bincount(routes[routes >= self.size] - self.size, minlength=len(trial)) / (RECORDS * K)
        if self.covariance is None:
            return float(votes @ votes)
        return float(votes @ np.linalg.solve(self.covariance[np.ix_(trial, trial)], votes))
