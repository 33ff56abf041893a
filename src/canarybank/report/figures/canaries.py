"""Draw epsilon for each canary of each attack, with the interval that its counts give."""

import math
from typing import Any

from canarybank.report.numbers import epsilon, interval_text, rate
from canarybank.report.svg import Canvas, Figure, Frame, linear

__all__ = ["CANARY_COLUMNS", "canary_figure", "canary_rows"]

CANARY_COLUMNS = (
    "attack",
    "canary",
    "bound",
    "upper end",
    "exact, rule",
    "exact, attack",
    "true positives",
    "false positives",
    "trials",
    "exact TPR",
    "exact FPR",
    "mu_eff",
)
_ROW, _GAP, _TOP, _LEFT, _RIGHT, _WIDTH = 15.0, 12.0, 42.0, 150.0, 800.0, 820.0
_DRAWN = 20
"""Of more canaries an attack only those with the largest bounds are drawn; the table holds all."""
_WIDEST = 1.6
"""The scale runs to this many times the mechanism's epsilon; an interval that is wider ends in an arrow."""


def canary_figure(attacks: list[dict[str, Any]], mechanism: float) -> Figure:
    """Draw the interval of each canary's rule from its counts, with the exact values in it."""
    title = "Epsilon of each canary"
    alternative = _alternative(attacks)
    drawn = {attack["name"]: _drawn(attack["canaries"]) for attack in attacks}
    bottom = _TOP + sum(_ROW * len(canaries) + _GAP for canaries in drawn.values())
    canvas = Canvas("canaries", _WIDTH, bottom + 44, title, alternative)
    high = max([mechanism * _WIDEST, *(c["bound"]["epsilon"] * 1.1 for a in attacks for c in a["canaries"])])
    x = linear(0.0, high, _LEFT, _RIGHT, count=8)
    Frame(_LEFT, _TOP, _RIGHT, bottom).axes(canvas, x, None, "epsilon")
    canvas.line((x(mechanism), _TOP - 6), (x(mechanism), bottom), "limit-exact")
    y = _TOP + _GAP / 2
    for name, canaries in drawn.items():
        canvas.text((_LEFT - 12, y + _ROW * len(canaries) / 2 + 4), name, "row-name", anchor="end")
        for canary in canaries:
            _canary(canvas, x, canary, y + _ROW / 2, high)
            y += _ROW
        y += _GAP
    _legend(canvas)
    return Figure(
        key="canaries",
        title=title,
        caption=(
            "One line a canary: from the lower bound that its trials gave (the dot) to the upper end for the same "
            "frozen rule, each end at that canary's share of alpha. The ring is the rule's exact epsilon, which the "
            "line should hold; the diamond is that of the attack at its best threshold. An arrow leaves the scale."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=CANARY_COLUMNS,
        rows=tuple(row for attack in attacks for row in canary_rows(attack)),
    )


def _drawn(canaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ranks = sorted(range(len(canaries)), key=lambda index: -canaries[index]["bound"]["epsilon"])[:_DRAWN]
    return [canaries[index] for index in sorted(ranks)]


def canary_rows(attack: dict[str, Any]) -> list[tuple[str | float | int, ...]]:
    """Return the rows of an attack's canaries, as shown."""
    return [
        (
            attack["name"],
            canary["id"],
            epsilon(canary["bound"]["epsilon"]),
            epsilon(canary["upper"]),
            interval_text(canary["rule"]["lower"], canary["rule"]["upper"]),
            interval_text(canary["supremum"]["lower"], canary["supremum"]["upper"]),
            f"{canary['counts']['tp']:,}",
            f"{canary['counts']['fp']:,}",
            f"{canary['counts']['n1']:,}",
            rate(0.5 * (canary["tpr"]["lower"] + canary["tpr"]["upper"])),
            rate(0.5 * (canary["fpr"]["lower"] + canary["fpr"]["upper"])),
            f"{canary['mu_eff']:.3f}",
        )
        for canary in attack["canaries"]
    ]


def _canary(canvas: Canvas, x: Any, canary: dict[str, Any], y: float, high: float) -> None:
    low, upper = canary["bound"]["epsilon"], canary["upper"]
    end = x(min(upper, high))
    canvas.line((x(low), y), (end, y), "whisker-observed")
    if upper > high:
        canvas.curve([(end - 5, y - 3.5), (end, y), (end - 5, y + 3.5)], "arrow")
    for name, draw in (("rule", "ring"), ("supremum", "diamond")):
        value = canary[name]["lower"]
        if value is None or math.isinf(value):
            continue
        if draw == "ring":
            canvas.circle((x(value), y), 3.6, "mark-rule", f"exact, rule {epsilon(value)}")
        else:
            canvas.diamond((x(value), y), 4.2, "mark-exact")
    canvas.circle((x(low), y), 3.6, "mark-observed", f"{canary['id']}: {epsilon(low)}")


def _legend(canvas: Canvas) -> None:
    canvas.line((_LEFT + 6, 14), (_LEFT + 40, 14), "whisker-observed")
    canvas.circle((_LEFT + 6, 14), 4, "mark-observed")
    canvas.text((_LEFT + 48, 18), "bound to upper end", "key")
    canvas.circle((_LEFT + 189, 14), 4, "mark-rule")
    canvas.text((_LEFT + 200, 18), "exact, frozen rule", "key")
    canvas.diamond((_LEFT + 334, 14), 5, "mark-exact")
    canvas.text((_LEFT + 346, 18), "exact, attack", "key")
    canvas.line((_LEFT + 450, 7), (_LEFT + 450, 21), "limit-exact")
    canvas.text((_LEFT + 459, 18), "exact, mechanism", "key")


def _alternative(attacks: list[dict[str, Any]]) -> str:
    parts = []
    for attack in attacks:
        bounds = [canary["bound"]["epsilon"] for canary in attack["canaries"]]
        parts.append(f"{attack['name']} from {epsilon(min(bounds))} to {epsilon(max(bounds))}")
    return f"Lower bounds on epsilon over the canaries of each attack: {'; '.join(parts)}."
