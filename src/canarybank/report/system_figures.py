"""Draw the two figures of a system's audit: what its rules counted against what the claim allows, and the ladder."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from canarybank.auditing.curve import Curve, claimed_curve
from canarybank.auditing.declaration import Evidence
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.report.drawing import Drawn, add_legend, in_style
from canarybank.report.evidence_figures import GUESSING, rates_sheet
from canarybank.report.figures import change_of, draw_ladder
from canarybank.report.system import RULE_COLUMNS, CountedRule
from canarybank.report.text import decimal, epsilon, label, rate, rung_text
from canarybank.report.themed import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["rates_figures", "system_ladder"]

_STEPS, _DRAWN = 201, 24
"""The points of a curve; and of more rules only those furthest from guessing are drawn: the table holds all."""
_MARKS: Final[dict[Evidence, dict[str, Any]]] = {
    Evidence.BOUND: {"marker": "o"},
    Evidence.CURVE: {"marker": "D"},
    Evidence.BETTING: {"marker": "o", "mfc": COLOURS["paper"], "mew": 1.8},
}
_SCORES = {"designed": "exact", "fitted": "canary", "length": "ink"}
_REGION, _CURVE = "claimed epsilon", "claimed curve"


def rates_figures(rules: Sequence[CountedRule], claim: Claim, rows: Sequence[tuple[str, ...]]) -> tuple[Drawn, Drawn]:
    """Draw each rule's rates as a box of its intervals, against what the claim allows: plain, and in logarithms."""
    runs = max(max(each.counts.n0, each.counts.n1) for each in rules)
    lowest = 10.0 ** math.floor(math.log10(0.5 / runs))
    return _draw_rates("rates", 0.0, rules, claim, rows), _draw_rates("small", lowest, rules, claim, rows)


@in_style
def _draw_rates(
    key: str, lowest: float, rules: Sequence[CountedRule], claim: Claim, rows: Sequence[tuple[str, ...]]
) -> Drawn:
    """Draw rates from the lowest on, in logarithms unless that is 0."""
    curve, against = _curve(claim), f"epsilon {epsilon(claim.epsilon)} at delta {claim.delta:g}"
    drawn = sorted(rules, key=lambda each: each.fpr[2] - each.tpr[0])[:_DRAWN]
    scores, kinds = (dict.fromkeys(getattr(each.shown, of) for each in drawn) for of in ("score", "evidence"))
    labels = (_REGION, *([] if curve is None else [_CURVE]), GUESSING, *(f"{score} score" for score in scores), *kinds)
    figure, axes = rates_sheet([str(name) for name in labels], lowest, (claim.epsilon, claim.delta), _REGION)
    grid = np.geomspace(lowest, 1.0, _STEPS) if lowest else np.linspace(0.0, 1.0, _STEPS)
    if curve is not None:
        look: dict[str, Any] = {"color": COLOURS["alarm"], "lw": 1.6, "ls": (0, (6, 4))}
        axes.plot(grid, np.asarray(curve.allowed(grid)), **look, label=_CURVE)
    for each in drawn:
        _draw_rule(axes, each, lowest)
    for kind in kinds:
        axes.plot([], [], ls="", color=COLOURS["ink"], ms=7, **_MARKS[kind], label=str(kind))
    add_legend(figure)
    counted = "; ".join(f"{_name(each)}: FPR {rate(each.fpr[1])}, TPR {rate(each.tpr[1])}" for each in drawn)
    caption = "The same, so that small rates can be told apart." if lowest else _caption(curve, against)
    left_out = f" Of {len(rules)} rules {len(drawn)} are drawn; the table holds all." if len(drawn) < len(rules) else ""
    return Drawn(
        key,
        f"TPR against FPR of each rule{', in logarithms' if lowest else ''}",
        caption + left_out,
        f"Counted rates, against what {'the claimed mechanism' if curve else against} allows. {counted}.",
        figure,
        RULE_COLUMNS,
        rows,
    )


def _curve(claim: Claim) -> Curve | None:
    """Return the claimed curve, where the claim names a mechanism that has one."""
    try:
        return claimed_curve(claim)
    except InputError:
        return None


def _name(each: CountedRule) -> str:
    return f"{each.shown.score} score, {each.shown.evidence}, {label(each.rule.canary)}"


def _caption(curve: Curve | None, against: str) -> str:
    test = (
        "The dashed line is the claimed curve, which no rule of the claimed mechanism exceeds: the curve test refutes "
        "it where the lower right corner of a box lies above the line. "
        if curve is not None
        else ""
    )
    return (
        "A box is a frozen rule on one canary: its counted rates, between one-sided Clopper–Pearson ends, each at half "
        f"of its share of alpha over the canaries. {test}The shaded region is what {against} allows."
    )


def _draw_rule(axes: "Axes", each: CountedRule, lowest: float) -> None:
    """Draw a rule's rates as a mark in the box of their intervals, in the colour of its score."""
    from matplotlib.patches import Rectangle

    colour = COLOURS[_SCORES[each.shown.score]]
    (left, across, right), (bottom, up, top) = (np.maximum(rates, lowest) for rates in (each.fpr, each.tpr))
    box = Rectangle((left, bottom), right - left, top - bottom, lw=1.2, label=f"{each.shown.score} score")
    box.set(facecolor=(colour, 0.1), edgecolor=colour)
    axes.add_patch(box)
    mark = _MARKS[each.shown.evidence]
    axes.plot([across], [up], ls="", color=colour, ms=7, label=f"_{each.shown.evidence}", clip_on=False, **mark)


def system_ladder(rungs: list[dict[str, Any]], system: str) -> Drawn:
    """Draw the ladder from the claim to what the runs showed; every bound is compared with the claim."""
    claimed = rungs[0]
    pairs = [(None if rung is claimed else claimed, rung) for rung in rungs]
    steps = [_step(above, rung) for above, rung in pairs]
    named = ", ".join(f"{each['name']} {rung_text(each)}" for each in rungs)
    unstated = "" if len(rungs) > 1 else " Nothing here bounds epsilon from below: no such evidence was stated."
    return Drawn(
        "ladder",
        f"The gap ladder of {system}",
        "Each rung is an epsilon; the pale part is what is missing up to the claim. The exact epsilon is that of the "
        "claimed mechanism, computed without runs; each bound is a lower bound on the system's own, at its share of "
        f"alpha.{unstated}",
        f"Epsilons from claim to measurement: {named}.",
        draw_ladder(pairs, steps),
        ("rung", "epsilon", "above the claim by", "where it comes from"),
        [
            (rung["name"], rung_text(rung), decimal(change_of(above, rung), "+"), rung["source"])
            for above, rung in pairs
        ],
    )


def _step(above: dict[str, Any] | None, rung: dict[str, Any]) -> str:
    change = change_of(above, rung)
    if above is None:
        return "the claim"
    if change is None:
        return str(rung["note"])
    if rung["css"] == "mechanism":
        cause = "above its own claim" if change > 0 else "what the claim leaves free"
    else:
        cause = "above the claim: refuted" if change > 0 else "what the runs do not show"
    size = f"{abs(change):.3f}"
    if float(size) == 0:
        return "the same as the claim"
    return f"{'+' if change > 0 else '−'}{size}  {cause}"
