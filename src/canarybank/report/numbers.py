"""Write numbers as people read them, and the intervals that counts give."""

import math
from typing import Any

from canarybank.auditing import CanaryResult, clopper_pearson, own_method
from canarybank.mechanism import Mechanism
from canarybank.run.power import shown_epsilon

__all__ = [
    "confidence",
    "counts_included",
    "epsilon",
    "interval_text",
    "percent",
    "rate",
    "reach_text",
    "rule_upper",
    "rung_text",
    "setting_text",
]

_LARGE = 0.01


def epsilon(value: float | None) -> str:
    """Return an epsilon as ``shown_epsilon`` does; None stands for infinity, which JSON cannot hold."""
    return "∞" if value is None or math.isinf(value) else shown_epsilon(value)


def reach_text(reached: tuple[float | None, bool]) -> str:
    """Return an exact epsilon, or where the second value says so, that it is at least this."""
    value, is_least = reached
    return f"{'at least ' if is_least else ''}{epsilon(value)}"


def rung_text(rung: dict[str, Any]) -> str:
    """Return the epsilon of a rung of a summary; a dash where nobody computed it."""
    if not rung.get("is_known", True):
        return "—"
    return reach_text((rung["epsilon"], rung.get("is_least", False)))


def interval_text(low: float | None, high: float | None) -> str:
    """Return an interval of epsilons, or one number where its ends are shown alike."""
    ends = epsilon(low), epsilon(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def setting_text(value: str | float) -> str:
    """Return the value of a setting as people write it."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def rate(value: float) -> str:
    """Return a rate to three significant digits."""
    return "0" if value == 0 else f"{value:.3f}" if value >= _LARGE else f"{value:.2e}"


def percent(value: float) -> str:
    """Return a share in percent, to a decimal, or where it is below one percent to two significant digits."""
    shown = f"{100 * value:.1f}" if value >= _LARGE else f"{100 * value:.2g}"
    return f"{shown.removesuffix('.0')}%"


def confidence(level: float) -> str:
    """Return a confidence in percent with no more digits than it has."""
    return f"{100 * level:.6g}%"


def rule_upper(canary: CanaryResult, mechanism: Mechanism) -> float:
    """Return an upper end for the exact epsilon of a canary's frozen rule, from its counts alone.

    The four one-sided ends are taken at a quarter of the canary's share of alpha each, so the truth exceeds the upper
    end with probability at most that share. It is no bound on the mechanism's epsilon, which other rules may show.
    """
    counts, gamma = canary.counts, (1 - canary.bound.confidence) / 4
    tpr_low, tpr_high = (float(end) for end in clopper_pearson(counts.tp, counts.n1, gamma))
    fpr_low, fpr_high = (float(end) for end in clopper_pearson(counts.fp, counts.n0, gamma))
    if counts_included(canary.bound.method):
        tpr_low = (1 - mechanism.q) * fpr_low + mechanism.q * tpr_low
        tpr_high = (1 - mechanism.q) * fpr_high + mechanism.q * tpr_high
    forward = _log_ratio(tpr_high - mechanism.delta, fpr_low)
    reverse = _log_ratio(1 - fpr_low - mechanism.delta, 1 - tpr_high)
    return max(0.0, forward, reverse)


def counts_included(method: str) -> bool:
    """Say whether a bound counts trials in which the canary surely takes part; of a plug-in's it is not known."""
    own = own_method(method)
    return own is not None and own.included


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return -math.inf
    return math.inf if below <= 0 else math.log(above / below)
