"""Draw the ladders of all attacks on one scale."""

import math
from collections.abc import Callable
from typing import Any

from canarybank.report.figures.canaries import NAME_GAP, names_width
from canarybank.report.figures.ladder import top_of
from canarybank.report.numbers import epsilon, rung_text
from canarybank.report.svg import Canvas, Figure, Frame, linear, shortened

__all__ = ["overview_figure"]

_ROW, _TOP, _RIGHT, _WIDTH = 34.0, 42.0, 800.0, 820.0


def overview_figure(attacks: list[dict[str, Any]], mechanism: float, accounted: float) -> Figure:
    """Draw, for each attack, its exact epsilon, that of its frozen rule, the typical bound and the observed one."""
    title = "Every attack's ladder on one scale"
    alternative = _alternative(attacks, mechanism)
    left = names_width(attack["name"] for attack in attacks)
    bottom = _TOP + _ROW * len(attacks)
    canvas = Canvas("overview", _WIDTH, bottom + 44, title, alternative)
    limits = [limit for limit in (accounted, mechanism) if math.isfinite(limit)]
    high = max([*limits, *(top_of(attack["ladder"]) for attack in attacks)]) * 1.06
    x = linear(0.0, high, left, _RIGHT, count=8)
    Frame(left, _TOP, _RIGHT, bottom).axes(canvas, x, None, "epsilon")
    _limits(canvas, x, mechanism, accounted, bottom)
    for index, attack in enumerate(attacks):
        _attack(canvas, x, attack, _TOP + _ROW * (index + 0.5))
    _legend(canvas, left, claim=_differs(mechanism, accounted))
    return Figure(
        key="overview",
        title=title,
        caption=(
            "A dot is the bound that trials gave, the grey band behind it holds 90% of the bounds that such trials "
            "would give. A diamond is the exact epsilon of the attack, a ring that of its frozen rule; neither needs "
            "a trial."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=("attack", "exact", "rule", "expected", "5%", "95%", "observed", "pooled"),
        rows=tuple(_row(attack) for attack in attacks),
    )


def _limits(canvas: Canvas, x: Any, mechanism: float, accounted: float, bottom: float) -> None:
    if math.isfinite(mechanism):
        canvas.line((x(mechanism), _TOP - 6), (x(mechanism), bottom), "limit-exact")
    if _differs(mechanism, accounted) and math.isfinite(accounted):
        canvas.line((x(accounted), _TOP - 6), (x(accounted), bottom), "limit-claim")


def _attack(canvas: Canvas, x: Any, attack: dict[str, Any], y: float) -> None:
    rungs = {rung["name"]: rung for rung in attack["ladder"]}
    room = x(0.0) - NAME_GAP
    canvas.text((room, y + 4), shortened(attack["name"], room, "row-name"), "row-name", anchor="end")
    expected = rungs["expected"]
    if expected["low"] is not None:
        canvas.rect((x(expected["low"]), y - 6), x(expected["high"]) - x(expected["low"]), 12, "range", 3)
    if rungs["rule"]["epsilon"] is not None:
        canvas.circle((x(rungs["rule"]["epsilon"]), y), 5, "mark-rule", f"rule {epsilon(rungs['rule']['epsilon'])}")
    if rungs["attack"]["epsilon"] is not None:
        canvas.diamond((x(rungs["attack"]["epsilon"]), y), 6, "mark-exact")
    observed = rungs["observed"]["epsilon"]
    canvas.circle((x(observed), y), 5, "mark-observed", f"observed {epsilon(observed)}")


def _differs(mechanism: float, accounted: float) -> bool:
    return epsilon(accounted) != epsilon(mechanism)


def _legend(canvas: Canvas, left: float, *, claim: bool) -> None:
    def limit(css: str) -> Callable[[float], None]:
        return lambda at: canvas.line((at + 1, 7), (at + 1, 21), css)

    keys = [
        (10.0, lambda at: canvas.circle((at + 5, 14), 5, "mark-observed"), "observed bound"),
        (26.0, lambda at: canvas.rect((at, 8), 26, 12, "range", 3), "expected, 5% to 95%"),
        (10.0, lambda at: canvas.circle((at + 5, 14), 5, "mark-rule"), "frozen rule"),
        (12.0, lambda at: canvas.diamond((at + 6, 14), 6, "mark-exact"), "attack"),
        (2.0, limit("limit-exact"), "mechanism"),
    ]
    canvas.keys(left + 1, 18, [*keys, (2.0, limit("limit-claim"), "claim")] if claim else keys)


def _row(attack: dict[str, Any]) -> tuple[str | float | int, ...]:
    rungs = {rung["name"]: rung for rung in attack["ladder"]}
    exact = [rung_text(rungs[name]) for name in ("attack", "rule", "expected")]
    known = rungs["expected"]["is_known"]
    ends = [epsilon(rungs["expected"][end]) if known else "—" for end in ("low", "high")]
    pooled = "—" if attack["pooled"] is None else epsilon(attack["pooled"]["epsilon"])
    return (attack["name"], *exact, *ends, epsilon(attack["headline"]["epsilon"]), pooled)


def _alternative(attacks: list[dict[str, Any]], mechanism: float) -> str:
    parts = [
        f"{name} exact {exact}, observed {observed}"
        for name, exact, *_, observed, _ in (_row(attack) for attack in attacks)
    ]
    return f"The exact epsilon of the mechanism is {epsilon(mechanism)}. By attack: {'; '.join(parts)}."
