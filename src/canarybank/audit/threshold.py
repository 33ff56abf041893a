"""Freeze the threshold before anything is evaluated, from the calibration cohort alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank import seeds
from canarybank.audit.bounds import Branch
from canarybank.audit.target import Target, best_threshold
from canarybank.audit.trials import Trials, draw
from canarybank.engine import Engine
from canarybank.errors import CohortError
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.progress import SILENT, Progress
from canarybank.score import RoundLaw
from canarybank.users import Calibration

__all__ = ["Threshold", "ThresholdMode", "analytic", "calibrated", "choose_aim", "stand_in"]

_CANDIDATES = 4096


class ThresholdMode(StrEnum):
    """How the threshold is frozen."""

    CALIBRATED = "calibrated"
    ANALYTIC = "analytic"


@dataclass(frozen=True, slots=True)
class Threshold:
    """A frozen threshold: the rule says "present" when the score exceeds ``value``."""

    value: float
    mode: ThresholdMode
    expected: float
    """The bound that the calibration cohort's own rates would give; a forecast, not a claim."""


def stand_in(routed: Routed[Calibration], bank: Bank, mechanism: Mechanism, *, eligible: int, seed: int) -> csr_array:
    """Return contributions of ``eligible`` users, made by repeating the calibration cohort's users.

    Each user appears floor(eligible / cohort size) times, and the remainder is chosen by seed; every copy will
    toss a participation coin of its own.
    """
    if not isinstance(routed.cohort, Calibration):
        raise CohortError(f"A threshold is frozen on the calibration cohort, not on {type(routed.cohort).__name__}.")
    copies, rest = divmod(eligible, len(routed))
    extra = seeds.stream(seed, "calibration", "remainder").choice(len(routed), size=rest, replace=False)
    rows = np.concatenate([np.repeat(np.arange(len(routed)), copies), np.sort(extra)])
    return routed.contributions(bank, mechanism)[rows]


def choose_aim(candidates: Sequence[Sequence[Threshold]]) -> list[Threshold]:
    """Return each canary's threshold under the one aim that promises an attack's canaries most together.

    ``candidates[c][a]`` is the threshold of canary c under aim a of ``Method.aims``; the first of equal aims wins.
    """
    promised = [sum(threshold.expected for threshold in aim) for aim in zip(*candidates, strict=True)]
    best = promised.index(max(promised))
    return [thresholds[best] for thresholds in candidates]


def analytic(law: RoundLaw, target: Target, branch: Branch | None = None) -> Threshold:
    """Freeze the threshold at which the law's exact rates promise the best bound, or the best of one branch."""
    value, expected = best_threshold(law.point, target, branch)
    return Threshold(value, ThresholdMode.ANALYTIC, expected)


def calibrated(
    trials: Trials,
    target: Target,
    *,
    number: int,
    seed: int,
    path: tuple[str | int, ...] = (),
    branch: Branch | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> Threshold:
    """Freeze the threshold at which trials on the calibration cohort, or through a system, gave the best bound.

    With ``branch`` it is the best for that branch of the bound alone.
    The candidates are the scores at log-spaced ranks of both hypotheses together, from both ends.
    """
    absent, eligible = (
        np.sort(scores)
        for scores in draw(trials, number, seed=seed, path=(*path, "calibration"), engine=engine, progress=progress)
    )
    candidates = _candidates(absent, eligible)
    false_positives = len(absent) - np.searchsorted(absent, candidates, side="right")
    true_positives = len(eligible) - np.searchsorted(eligible, candidates, side="right")
    bounds = target.bound(true_positives / len(eligible), false_positives / len(absent), branch)
    best = int(np.argmax(bounds))
    return Threshold(float(candidates[best]), ThresholdMode.CALIBRATED, max(0.0, float(bounds[best])))


def _candidates(absent: NDArray[np.float64], eligible: NDArray[np.float64]) -> NDArray[np.float64]:
    picks = []
    for scores in (absent, eligible):
        ranks = np.unique(np.geomspace(1, len(scores), _CANDIDATES // 4).astype(np.int64)) - 1
        picks += [scores[ranks], scores[len(scores) - 1 - ranks]]
    return np.unique(np.concatenate(picks))
