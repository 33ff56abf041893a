"""Draw the gap ladder of one attack: six rungs, each with what the step down to it costs."""

import math
from itertools import pairwise
from typing import Any

from canarybank.report.numbers import epsilon, interval_text, rung_text
from canarybank.report.svg import Canvas, Figure, Frame, linear, text_width

__all__ = ["CAUSES", "ladder_figure", "top_of"]

CAUSES = {
    "accounted": "what the accountant claims",
    "mechanism": "the accountant's slack",
    "attack": "what this attack leaves on the table",
    "rule": "the price of freezing the threshold",
    "expected": "what finitely many trials cost",
    "observed": "the luck of these trials",
}
_NAMES = {
    "accounted": "claimed by the accountant",
    "mechanism": "exact, of the mechanism",
    "attack": "exact, of this attack",
    "rule": "exact, at the frozen threshold",
    "expected": "typical bound at this many trials",
    "observed": "the bound the trials gave",
}
_ROW, _TOP, _WIDTH = 50.0, 14.0, 820.0
_LEFT = max(text_width(note, "rung-note") for note in _NAMES.values()) + 16.0
_CERTAIN = 2e-3


def ladder_figure(attack: dict[str, Any], *, claimed: bool) -> Figure:
    """Draw an attack's ladder; ``claimed`` says whether an accountant's figure was given."""
    rungs = attack["ladder"]
    title = f"The gap ladder of {attack['name']}"
    alternative = _alternative(attack)
    bottom = _TOP + _ROW * len(rungs)
    canvas = Canvas("ladder", _WIDTH, bottom + 44, title, alternative)
    steps = [_step(rung, above, claimed=claimed) for above, rung in pairwise([None, *rungs])]
    right = _WIDTH - max(text_width(step, "rung-note") for step in steps) - 18.0
    x = linear(0.0, top_of(rungs) * 1.04, _LEFT, right)
    Frame(_LEFT, _TOP, right, bottom).axes(canvas, x, None, "epsilon")
    for index, (rung, step) in enumerate(zip(rungs, steps, strict=True)):
        middle = _TOP + _ROW * (index + 0.5)
        _rung(canvas, x, rung, rungs[index - 1] if index else None, middle)
        if rung["epsilon"] is not None:
            canvas.text((right + 16, middle - 3), rung_text(rung), "value")
            canvas.text((right + 16, middle + 14), step, "rung-note")
    return Figure(
        key="ladder",
        title=title,
        caption=(
            "Each rung is an epsilon, and the pale part is the step down from the rung above it, with its cause. The "
            "upper four are computed; the whisker of the fifth holds 90% of the bounds that trials would give; the "
            "last is what they gave."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=("rung", "epsilon", "low", "high", "step", "where it comes from"),
        rows=tuple(_row(rung, above) for rung, above in zip(rungs, [None, *rungs[:-1]], strict=True)),
    )


def top_of(rungs: list[dict[str, Any]]) -> float:
    """Return the largest finite epsilon among rungs, or 1 where there is none."""
    values = [rung[end] for rung in rungs for end in ("epsilon", "high") if rung[end] is not None]
    return max([value for value in values if math.isfinite(value)] or [1.0]) or 1.0


def _rung(canvas: Canvas, x: Any, rung: dict[str, Any], above: dict[str, Any] | None, middle: float) -> None:
    name = rung["name"]
    canvas.text((_LEFT - 14, middle - 3), name, "rung-name", anchor="end")
    canvas.text((_LEFT - 14, middle + 14), _NAMES[name], "rung-note", anchor="end")
    value = rung["epsilon"]
    if value is None:
        canvas.text((_LEFT + 8, middle + 5), "unbounded", "value")
        return
    end = x(value)
    if above is not None and above["epsilon"] is not None and above["epsilon"] > value:
        canvas.rect((end, middle - 11), x(above["epsilon"]) - end, 22, "bar-lost")
    canvas.rect((_LEFT, middle - 11), end - _LEFT, 22, f"bar bar-{name}", 2)
    if name == "expected" and rung["high"] - rung["low"] > _CERTAIN:
        low, high = x(rung["low"]), x(rung["high"])
        canvas.line((low, middle), (high, middle), "whisker")
        for place in (low, high):
            canvas.line((place, middle - 6), (place, middle + 6), "whisker")


def _step(rung: dict[str, Any], above: dict[str, Any] | None, *, claimed: bool) -> str:
    if above is None or above["epsilon"] is None:
        return CAUSES["accounted"] if claimed else "none was given: the exact one"
    if rung["epsilon"] is None:
        return ""
    if rung["name"] == "mechanism" and not claimed:
        return "no claim to compare with"
    return f"{_change(rung['epsilon'] - above['epsilon'])}  {CAUSES[rung['name']]}"


def _change(value: float) -> str:
    shown = f"{abs(value):.3f}"
    return shown if float(shown) == 0 else f"{'+' if value > 0 else '−'}{shown}"


def _row(rung: dict[str, Any], above: dict[str, Any] | None) -> tuple[str | float | int, ...]:
    step = "—"
    if above is not None and above["epsilon"] is not None and rung["epsilon"] is not None:
        step = f"{rung['epsilon'] - above['epsilon']:+.3f}"
    return (rung["name"], rung_text(rung), epsilon(rung["low"]), epsilon(rung["high"]), step, rung["source"])


def _alternative(attack: dict[str, Any]) -> str:
    rungs = attack["ladder"]
    parts = [f"{rung['name']} {_known(rung)}" for rung in rungs]
    drops = [
        (above["epsilon"] - below["epsilon"], below["name"])
        for above, below in pairwise(rungs)
        if above["epsilon"] is not None and below["epsilon"] is not None
    ]
    largest, name = max(drops, default=(0.0, "observed"))
    said = f" The largest step down, {largest:.3f}, is {CAUSES[name]}." if largest > 0 else ""
    return f"Six epsilons from claim to measurement: {', '.join(parts)}.{said}"


def _known(rung: dict[str, Any]) -> str:
    if rung["name"] == "expected":
        return f"{epsilon(rung['epsilon'])} ({interval_text(rung['low'], rung['high'])})"
    return rung_text(rung)
