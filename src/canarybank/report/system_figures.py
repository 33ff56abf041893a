"""Draw the two figures of a system's audit: what its rules counted against what the claim allows, and the ladder."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from canarybank.auditing.curve import Curve, claimed_curve
from canarybank.auditing.declaration import Evidence
from canarybank.errors import InputError
from canarybank.mechanism import Claim
from canarybank.report.evidence_figures import RATES_BOX, rates_canvas
from canarybank.report.figures import change_of, draw_ladder
from canarybank.report.svg import Canvas, Drawn, Key, Scale, linear, log
from canarybank.report.system import RULE_COLUMNS, CountedRule
from canarybank.report.text import decimal, epsilon, label, rate, rung_text

__all__ = ["rates_figures", "system_ladder"]

_STEPS, _DRAWN = 201, 24
"""The points of a curve; and of more rules only those furthest from guessing are drawn: the table holds all."""
_MARKS = {Evidence.BOUND: "circle", Evidence.CURVE: "diamond", Evidence.BETTING: "circle"}


def rates_figures(rules: Sequence[CountedRule], claim: Claim, rows: Sequence[tuple[str, ...]]) -> tuple[Drawn, Drawn]:
    """Draw each rule's rates as a box of its intervals, against what the claim allows: plain, and in logarithms."""
    runs = max(max(each.counts.n0, each.counts.n1) for each in rules)
    lowest = 10.0 ** math.floor(math.log10(0.5 / runs))
    return _draw_rates("rates", 0.0, rules, claim, rows), _draw_rates("small", lowest, rules, claim, rows)


def _draw_rates(
    key: str, lowest: float, rules: Sequence[CountedRule], claim: Claim, rows: Sequence[tuple[str, ...]]
) -> Drawn:
    """Draw rates from the lowest on, in logarithms unless that is 0."""
    (left, top, right, bottom), curve = RATES_BOX, _curve(claim)
    drawn = sorted(rules, key=lambda each: each.fpr[2] - each.tpr[0])[:_DRAWN]
    scale = partial(log, lowest, 1.0) if lowest else partial(linear, 0.0, 1.0)
    x, y, against = scale(left, right), scale(bottom, top), f"epsilon {epsilon(claim.epsilon)} at delta {claim.delta:g}"
    counted = "; ".join(f"{_name(each)}: FPR {rate(each.fpr[1])}, TPR {rate(each.tpr[1])}" for each in drawn)
    words = f"Counted rates, against what {'the claimed mechanism' if curve else against} allows. {counted}."
    title = f"TPR against FPR of each rule{', in logarithms' if lowest else ''}"
    grid = np.geomspace(lowest, 1.0, _STEPS) if lowest else np.linspace(0.0, 1.0, _STEPS)
    canvas = rates_canvas(key, title, words, x, y, grid.tolist(), claim.epsilon, claim.delta)
    if curve is not None:
        most = np.asarray(curve.allowed(grid)).tolist()
        canvas.curve([(x(f), y(t)) for f, t in zip(grid.tolist(), most, strict=True)], "curve-claim")
    for each in drawn:
        _draw_rule(canvas, x, y, each)
    _legend(canvas, drawn, curve)
    caption = "The same, so that small rates can be told apart." if lowest else _caption(curve, against)
    left_out = f" Of {len(rules)} rules {len(drawn)} are drawn; the table holds all." if len(drawn) < len(rules) else ""
    return canvas.drawn(caption + left_out, RULE_COLUMNS, rows)


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


def _draw_rule(canvas: Canvas, x: Scale, y: Scale, each: CountedRule) -> None:
    score, evidence = each.shown.score, each.shown.evidence
    left, top = x(each.fpr[0]), y(each.tpr[2])
    canvas.rect((left, top), x(each.fpr[2]) - left, y(each.tpr[0]) - top, f"box box-{score}")
    at, css = (x(each.fpr[1]), y(each.tpr[1])), f"mark-{evidence} mark-{score}"
    if _MARKS[evidence] == "diamond":
        canvas.diamond(at, 5.0, css)
    else:
        canvas.circle(at, 4.0, css, f"{_name(each)}: {rate(each.fpr[1])}, {rate(each.tpr[1])}")


def _legend(canvas: Canvas, rules: Sequence[CountedRule], curve: Curve | None) -> None:
    """Write the legend where no rule lies: a colour for each score, a mark for each kind of evidence."""
    scores, kinds = (dict.fromkeys(getattr(each.shown, of) for each in rules) for of in ("score", "evidence"))
    keys: list[Key] = [
        ("rect", "region", "claimed epsilon"),
        *([("line", "curve-claim", "claimed curve")] if curve is not None else []),
        ("line", "chance", "guessing"),
        *(("rect", f"box box-{score}", f"{score} score") for score in scores),
        *((_MARKS[kind], f"mark-{kind} mark-any", str(kind)) for kind in kinds),
    ]
    canvas.legend(RATES_BOX[2:], keys)


def system_ladder(rungs: list[dict[str, Any]], system: str) -> Drawn:
    """Draw the ladder from the claim to what the runs showed; every bound is compared with the claim."""
    claimed = rungs[0]
    pairs = [(None if rung is claimed else claimed, rung) for rung in rungs]
    steps = [_step(above, rung) for above, rung in pairs]
    named = ", ".join(f"{each['name']} {rung_text(each)}" for each in rungs)
    words = f"Epsilons from claim to measurement: {named}."
    unstated = "" if len(rungs) > 1 else " Nothing here bounds epsilon from below: no such evidence was stated."
    return draw_ladder(f"The gap ladder of {system}", words, pairs, steps).drawn(
        "Each rung is an epsilon; the pale part is what is missing up to the claim. The exact epsilon is that of the "
        "claimed mechanism, computed without runs; each bound is a lower bound on the system's own, at its share of "
        f"alpha.{unstated}",
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
