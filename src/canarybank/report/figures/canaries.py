"""Draw epsilon for each canary of each attack, with the interval that its counts give."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from canarybank.report.numbers import epsilon, interval_text, rate
from canarybank.report.svg import Canvas, Figure, Frame, linear, shortened, text_width

__all__ = ["CANARY_COLUMNS", "NAME_GAP", "canary_figure", "canary_rows", "names_width"]

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
_ROW, _GAP, _TOP, _RIGHT, _WIDTH = 15.0, 12.0, 42.0, 800.0, 820.0
NAME_GAP = 12.0
_DRAWN = 20
"""Of more canaries an attack only those with the largest bounds are drawn; the table holds all."""
_WIDEST = 1.6
"""The scale runs to this many times the mechanism's epsilon; an interval that is wider ends in an arrow."""
_ENDLESS = 2.0
"""How far the scale runs at least where the mechanism has no finite epsilon."""


def canary_figure(attacks: list[dict[str, Any]], mechanism: float) -> Figure:
    """Draw the interval of each canary's rule from its counts, with the exact values in it."""
    title = "Epsilon of each canary"
    alternative = _alternative(attacks)
    drawn = {attack["name"]: _drawn(attack["canaries"]) for attack in attacks}
    left = names_width(drawn)
    bottom = _TOP + sum(_ROW * len(canaries) + _GAP for canaries in drawn.values())
    canvas = Canvas("canaries", _WIDTH, bottom + 44, title, alternative)
    limits = [mechanism * _WIDEST] if math.isfinite(mechanism) else [_ENDLESS]
    high = max([*limits, *(c["bound"]["epsilon"] * 1.1 for a in attacks for c in a["canaries"])])
    x = linear(0.0, high, left, _RIGHT, count=8)
    Frame(left, _TOP, _RIGHT, bottom).axes(canvas, x, None, "epsilon")
    if math.isfinite(mechanism):
        canvas.line((x(mechanism), _TOP - 6), (x(mechanism), bottom), "limit-exact")
    y = _TOP + _GAP / 2
    for name, canaries in drawn.items():
        shown = shortened(name, left - NAME_GAP, "row-name")
        canvas.text((left - NAME_GAP, y + _ROW * len(canaries) / 2 + 4), shown, "row-name", anchor="end")
        for canary in canaries:
            _canary(canvas, x, canary, y + _ROW / 2, high)
            y += _ROW
        y += _GAP
    _legend(canvas, left)
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


def names_width(names: Iterable[str]) -> float:
    """Return the room that the names of attacks take at the left of a drawing, within reason."""
    return min(max(150.0, *(text_width(name, "row-name") + NAME_GAP for name in names)), 330.0)


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
            *(_exact(canary, name, interval_text) for name in ("rule", "supremum")),
            f"{canary['counts']['tp']:,}",
            f"{canary['counts']['fp']:,}",
            f"{canary['counts']['n1']:,}",
            *(_exact(canary, name, lambda low, high: rate(0.5 * (low + high))) for name in ("tpr", "fpr")),
            f"{canary['mu_eff']:.3f}",
        )
        for canary in attack["canaries"]
    ]


def _exact(canary: dict[str, Any], name: str, text: Callable[[Any, Any], str]) -> str:
    """Return an exact figure of a canary as text; a dash where the system has no law and nothing is computed."""
    return "—" if canary["tpr"]["lower"] is None else text(canary[name]["lower"], canary[name]["upper"])


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


def _legend(canvas: Canvas, left: float) -> None:
    def interval(at: float) -> None:
        canvas.line((at, 14), (at + 34, 14), "whisker-observed")
        canvas.circle((at, 14), 4, "mark-observed")

    canvas.keys(
        left + 6,
        18,
        [
            (34, interval, "bound to upper end"),
            (8, lambda at: canvas.circle((at + 4, 14), 4, "mark-rule"), "exact, frozen rule"),
            (10, lambda at: canvas.diamond((at + 5, 14), 5, "mark-exact"), "exact, attack"),
            (2, lambda at: canvas.line((at + 1, 7), (at + 1, 21), "limit-exact"), "exact, mechanism"),
        ],
    )


def _alternative(attacks: list[dict[str, Any]]) -> str:
    parts = []
    for attack in attacks:
        bounds = [canary["bound"]["epsilon"] for canary in attack["canaries"]]
        parts.append(f"{attack['name']} from {epsilon(min(bounds))} to {epsilon(max(bounds))}")
    return f"Lower bounds on epsilon over the canaries of each attack: {'; '.join(parts)}."
