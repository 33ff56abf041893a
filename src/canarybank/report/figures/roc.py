"""Draw the exact ROC of a frozen score in log-log, inside the region that differential privacy allows."""

import math
from typing import Any

import numpy as np

from canarybank.auditing import clopper_pearson, perfect_rates
from canarybank.mechanism import Mechanism
from canarybank.report.numbers import counts_included, epsilon, rate
from canarybank.report.svg import Canvas, Figure, Frame, Scale, log, text_width

__all__ = ["allowed", "roc_figure"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440.0, 420.0, 62.0, 428.0, 14.0, 370.0
_LOWEST = 1e-6
_STEPS = 121
LARGEST_EXPONENT = 700.0  # exp of more leaves the range of floating point; one of this already allows everything


def roc_figure(attack: dict[str, Any], mechanism: Mechanism, exact: float, key: str) -> Figure:
    """Draw an attack's ROC on the canary with the largest bound, with the frozen threshold and its counts."""
    roc, canary = attack["evidence"]["roc"], attack["canaries"][attack["shown"]]
    at = roc["frozen"]
    frozen = (roc["fpr"][at], roc["tpr"][at])
    title = f"ROC of {attack['name']}"
    alternative = (
        f"True against false positive rate of the score on canary {canary['id']}. At the frozen threshold "
        f"{roc['threshold'][at]:.3f} the false positive rate is {rate(frozen[0])} and the true positive rate "
        f"{rate(frozen[1])}. No point may lie above the region that epsilon {epsilon(exact)} at delta "
        f"{mechanism.delta:g} allows."
    )
    canvas = Canvas(key, _WIDTH, _HEIGHT, title, alternative)
    x, y = log(_LOWEST, 1.0, _LEFT, _RIGHT), log(_LOWEST, 1.0, _BOTTOM, _TOP)
    _region(canvas, x, y, exact, mechanism.delta)
    Frame(_LEFT, _TOP, _RIGHT, _BOTTOM).axes(
        canvas, x, y, "false positive rate (canary absent)", "true positive rate (canary eligible)"
    )
    _curves(canvas, x, y, roc, mechanism)
    canvas.circle((x(frozen[0]), y(frozen[1])), 6.5, "mark-rule", "the frozen threshold")
    _counted(canvas, x, y, canary, mechanism)
    _legend(canvas)
    return Figure(
        key=key,
        title=title,
        caption=(
            f"Exact rates over all thresholds for canary {canary['id']}. The shaded region is what epsilon "
            f"{epsilon(exact)} allows: a point above it would be a violation. A perfect attack on this mechanism "
            "follows the dashed line."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=("threshold", "false positive rate", "true positive rate"),
        rows=tuple(
            (f"{t:.4g}", f"{f:.4g}", f"{p:.4g}")
            for t, f, p in zip(roc["threshold"], roc["fpr"], roc["tpr"], strict=True)
        ),
    )


def allowed(fpr: float, exact: float, delta: float) -> float:
    """Return the largest true positive rate that (exact, delta)-differential privacy allows at a false positive rate.

    Both directions bind: TPR <= e^eps FPR + delta, and 1 - FPR <= e^eps (1 - TPR) + delta.
    """
    forward = math.exp(min(exact, LARGEST_EXPONENT)) * fpr + delta
    reverse = 1.0 - math.exp(-exact) * (1.0 - delta - fpr)
    return max(0.0, min(1.0, forward, reverse))


def _region(canvas: Canvas, x: Scale, y: Scale, exact: float, delta: float) -> None:
    grid = [float(value) for value in np.geomspace(_LOWEST, 1.0, _STEPS)]
    upper = [(x(fpr), y(allowed(fpr, exact, delta))) for fpr in grid]
    canvas.curve([(_LEFT, _BOTTOM), *upper, (_RIGHT, _BOTTOM)], "region", closed=True)
    canvas.curve(upper, "region-edge")


def _curves(canvas: Canvas, x: Scale, y: Scale, roc: dict[str, Any], mechanism: Mechanism) -> None:
    canvas.line((x(_LOWEST), y(_LOWEST)), (x(1.0), y(1.0)), "chance")
    low, high = min(roc["threshold"]), max(roc["threshold"])
    reach = max(8.0, abs(low), abs(high)) * max(1.0, 1 / mechanism.sigma)
    fpr, tpr = perfect_rates(mechanism)(np.linspace(-reach, reach, 4 * _STEPS))
    for name, xs, ys in (("curve-perfect", fpr, tpr), ("curve-attack", roc["fpr"], roc["tpr"])):
        inside = [(x(f), y(t)) for f, t in zip(xs, ys, strict=True) if f >= _LOWEST and t >= _LOWEST]
        canvas.curve(inside, name)


def _counted(canvas: Canvas, x: Scale, y: Scale, canary: dict[str, Any], mechanism: Mechanism) -> None:
    """Draw the counted rates as a cross of their intervals, at the canary's share of alpha."""
    counts, gamma = canary["counts"], (1 - canary["bound"]["confidence"]) / 4
    fpr, tpr = counts["fp"] / counts["n0"], counts["tp"] / counts["n1"]
    tpr_ends = [float(end) for end in clopper_pearson(counts["tp"], counts["n1"], gamma)]
    fpr_ends = [float(end) for end in clopper_pearson(counts["fp"], counts["n0"], gamma)]
    if counts_included(canary["bound"]["method"]):
        tpr, tpr_ends = _blended(fpr, tpr, tpr_ends, mechanism.q)
    canvas.line((x(fpr_ends[0]), y(tpr)), (x(fpr_ends[1]), y(tpr)), "whisker-observed")
    canvas.line((x(fpr), y(tpr_ends[0])), (x(fpr), y(tpr_ends[1])), "whisker-observed")
    canvas.circle((x(fpr), y(tpr)), 3.2, "mark-observed", f"counted: {rate(fpr)}, {rate(tpr)}")


def _blended(fpr: float, included: float, ends: list[float], q: float) -> tuple[float, list[float]]:
    """Turn rates of a canary that surely takes part into those of an eligible one."""
    return (1 - q) * fpr + q * included, [(1 - q) * fpr + q * end for end in ends]


def _legend(canvas: Canvas) -> None:
    lines = (("curve-attack", "this attack"), ("curve-perfect", "a perfect attack"), ("chance", "guessing"))
    names = (*(name for _, name in lines), "allowed", "frozen threshold", "counted, with ends")
    width = 46 + max(text_width(name, "key") for name in names)
    left, top = _RIGHT - width + 2, _BOTTOM - 112
    canvas.rect((left - 8, top - 14), width, 118, "legend", 4)
    for row, name in enumerate(names):
        canvas.text((left + 32, top + 4 + 18 * row), name, "key")
    for row, (css, _) in enumerate(lines):
        canvas.line((left, top + 18 * row), (left + 24, top + 18 * row), css)
    canvas.rect((left, top + 48), 24, 12, "region")
    canvas.circle((left + 12, top + 72), 5, "mark-rule")
    canvas.line((left + 2, top + 90), (left + 22, top + 90), "whisker-observed")
    canvas.circle((left + 12, top + 90), 3.2, "mark-observed")
