"""Draw ladders: of one attack rung by rung, of all attacks on one scale, and epsilon canary by canary."""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from canarybank.report.svg import Canvas, Drawn, Key, Scale, linear, shortened, text_width
from canarybank.report.tables import ATTACK_COLUMNS, CANARY_COLUMNS, attack_rows, canary_rows, known_columns
from canarybank.report.text import decimal, epsilon, interval_text, rung_text

__all__ = ["CAUSES", "canary_figure", "ladder_figure", "overview_figure", "top_of"]

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
_UNSEEN = "what attack and trials do not show"
_WIDTH, _RIGHT, _TOP, _NAME_GAP = 820.0, 800.0, 42.0, 12.0
_RUNG, _LADDER_TOP = 50.0, 14.0
_LEFT = max(text_width(note, "rung-note") for note in _NAMES.values()) + 16.0
_ATTACK, _CANARY, _GAP = 34.0, 15.0, 12.0
_CERTAIN = 2e-3
_DRAWN = 20
"""Of more canaries an attack only those with the largest bounds are drawn; the table holds all."""
_WIDEST = 1.6
"""The scale runs to this many times the mechanism's epsilon; an interval that is wider ends in an arrow."""
_ENDLESS = 2.0
"""How far the scale runs at least where the mechanism has no finite epsilon."""


def ladder_figure(attack: dict[str, Any]) -> Drawn:
    """Draw an attack's ladder; without an accountant's figure its first two rungs are one."""
    rungs = list(attack["rungs"].values())
    claimed = rungs[0]["epsilon"] != rungs[1]["epsilon"]
    pairs = list(zip([None, *rungs[:-1]], rungs, strict=True))
    steps = [_step(above, rung, claimed=claimed) for above, rung in pairs]
    right = _WIDTH - max(text_width(step, "rung-note") for step in steps) - 18.0
    bottom = _LADDER_TOP + _RUNG * len(rungs)
    canvas = Canvas("ladder", _WIDTH, bottom + 44, f"The gap ladder of {attack['name']}", _ladder_words(rungs))
    x = linear(0.0, top_of(rungs) * 1.04, _LEFT, right)
    canvas.axes((_LEFT, _LADDER_TOP, right, bottom), x, None, "epsilon")
    for index, ((above, rung), step) in enumerate(zip(pairs, steps, strict=True)):
        middle = _LADDER_TOP + _RUNG * (index + 0.5)
        _draw_rung(canvas, x, above, rung, middle)
        if math.isfinite(rung["epsilon"]):
            canvas.text((right + 16, middle - 3), rung_text(rung), "value")
            canvas.text((right + 16, middle + 14), step, "rung-note")
    middle_rungs = (
        "The upper four are computed; the whisker of the fifth holds 90% of the bounds that trials would give; the "
        "last is what they gave."
        if "attack" in attack["rungs"]
        else "Between the mechanism and the bound nothing is computed: the system states no law of its releases."
    )
    return canvas.drawn(
        "Each rung is an epsilon, and the pale part is the step down from the rung above it, with its cause. "
        f"{middle_rungs}",
        ("rung", "epsilon", "low", "high", "step", "where it comes from"),
        [
            (
                rung["name"],
                rung_text(rung),
                epsilon(rung["low"]),
                epsilon(rung["high"]),
                decimal(_drop(above, rung), "+"),
                rung["source"],
            )
            for above, rung in pairs
        ],
    )


def top_of(rungs: Iterable[dict[str, Any]]) -> float:
    """Return the largest finite epsilon among rungs, or 1 where there is none."""
    values = [rung[end] for rung in rungs for end in ("epsilon", "high")]
    return max([value for value in values if math.isfinite(value)] or [1.0]) or 1.0


def _drop(above: dict[str, Any] | None, rung: dict[str, Any]) -> float | None:
    """Return how far a rung lies above the one before it; None where either is infinite, or there is none."""
    if above is None or not math.isfinite(above["epsilon"]) or not math.isfinite(rung["epsilon"]):
        return None
    return float(rung["epsilon"] - above["epsilon"])


def _draw_rung(canvas: Canvas, x: Scale, above: dict[str, Any] | None, rung: dict[str, Any], middle: float) -> None:
    name, value = rung["name"], rung["epsilon"]
    canvas.text((_LEFT - 14, middle - 3), name, "rung-name", anchor="end")
    canvas.text((_LEFT - 14, middle + 14), _NAMES[name], "rung-note", anchor="end")
    if math.isinf(value):
        canvas.text((_LEFT + 8, middle + 5), "unbounded", "value")
        return
    drop = _drop(above, rung)
    if drop is not None and drop < 0:
        canvas.rect((x(value), middle - 11), x(value - drop) - x(value), 22, "bar-lost")
    canvas.rect((_LEFT, middle - 11), x(value) - _LEFT, 22, f"bar bar-{name}", 2)
    if name == "expected" and rung["high"] - rung["low"] > _CERTAIN:
        canvas.line((x(rung["low"]), middle), (x(rung["high"]), middle), "whisker")
        for end in ("low", "high"):
            canvas.line((x(rung[end]), middle - 6), (x(rung[end]), middle + 6), "whisker")


def _step(above: dict[str, Any] | None, rung: dict[str, Any], *, claimed: bool) -> str:
    change = _drop(above, rung)
    if above is None or change is None:
        return CAUSES["accounted"] if claimed else "none was given: the exact one"
    if rung["name"] == "mechanism" and not claimed:
        return "no claim to compare with"
    size = f"{abs(change):.3f}"
    sign = "" if float(size) == 0 else "+" if change > 0 else "−"
    return f"{sign}{size}  {_cause(above, rung)}"


def _cause(above: dict[str, Any], rung: dict[str, Any]) -> str:
    return _UNSEEN if (above["name"], rung["name"]) == ("mechanism", "observed") else CAUSES[rung["name"]]


def _ladder_words(rungs: list[dict[str, Any]]) -> str:
    parts = [
        f"{rung['name']} {rung_text(rung)}" + (f" ({interval_text(rung)})" if rung["name"] == "expected" else "")
        for rung in rungs
    ]
    largest, cause = max((-(_drop(above, rung) or 0.0), _cause(above, rung)) for above, rung in pairwise(rungs))
    said = f" The largest step down, {largest:.3f}, is {cause}." if largest > 0 else ""
    return f"Epsilons from claim to measurement: {', '.join(parts)}.{said}"


def overview_figure(attacks: list[dict[str, Any]], mechanism: float, accounted: float) -> Drawn:
    """Draw, for each attack, its exact epsilon, that of its frozen rule, the typical bound and the observed one."""
    rows = attack_rows(attacks)
    by_attack = "; ".join(f"{row[0]} exact {row[-1]}, observed {row[1]}" for row in rows)
    words = f"The exact epsilon of the mechanism is {epsilon(mechanism)}. By attack: {by_attack}."
    left, bottom = _names_width(attack["name"] for attack in attacks), _TOP + _ATTACK * len(attacks)
    canvas = Canvas("overview", _WIDTH, bottom + 44, "Every attack's ladder on one scale", words)
    limits = {"limit-exact": (mechanism, "mechanism")}
    if epsilon(accounted) != epsilon(mechanism):
        limits["limit-claim"] = (accounted, "claim")
    finite = [limit for limit, _ in limits.values() if math.isfinite(limit)]
    high = max([*finite, *(top_of(attack["rungs"].values()) for attack in attacks)]) * 1.06
    x = linear(0.0, high, left, _RIGHT, count=8)
    canvas.axes((left, _TOP, _RIGHT, bottom), x, None, "epsilon")
    for css, (limit, _) in limits.items():
        if math.isfinite(limit):
            canvas.line((x(limit), _TOP - 6), (x(limit), bottom), css)
    for index, attack in enumerate(attacks):
        rungs, y = attack["rungs"], _TOP + _ATTACK * (index + 0.5)
        _name(canvas, attack["name"], left, y + 4)
        if (expected := rungs.get("expected")) is not None:
            canvas.rect((x(expected["low"]), y - 6), x(expected["high"]) - x(expected["low"]), 12, "range", 3)
        known = {name: rung["epsilon"] for name, rung in rungs.items()}
        _marks(canvas, x, y, known.get("rule"), known.get("attack"), known["observed"], 5.0)
    keys: list[Key] = [
        ("circle", "mark-observed", "observed bound"),
        ("rect", "range", "expected, 5% to 95%"),
        ("circle", "mark-rule", "frozen rule"),
        ("diamond", "mark-exact", "attack"),
        *(("limit", css, name) for css, (_, name) in limits.items()),
    ]
    canvas.keys(left + 1, 18, keys)
    return canvas.drawn(
        "A dot is the bound that trials gave, the grey band behind it holds 90% of the bounds that such trials would "
        "give. A diamond is the exact epsilon of the attack, a ring that of its frozen rule; neither needs a trial.",
        *known_columns(ATTACK_COLUMNS, rows),
    )


def canary_figure(attacks: list[dict[str, Any]], mechanism: float) -> Drawn:
    """Draw the interval of each canary's rule from its counts, with the exact values in it."""
    bounds = {attack["name"]: [canary["bound"]["epsilon"] for canary in attack["canaries"]] for attack in attacks}
    ranges = "; ".join(f"{name} from {epsilon(min(of))} to {epsilon(max(of))}" for name, of in bounds.items())
    words = f"Lower bounds on epsilon over the canaries of each attack: {ranges}."
    drawn = {attack["name"]: _largest(attack["canaries"]) for attack in attacks}
    left = _names_width(drawn)
    bottom = _TOP + sum(_CANARY * len(canaries) + _GAP for canaries in drawn.values())
    canvas = Canvas("canaries", _WIDTH, bottom + 44, "Epsilon of each canary", words)
    limit = mechanism * _WIDEST if math.isfinite(mechanism) else _ENDLESS
    high = max([limit, *(1.1 * bound for of in bounds.values() for bound in of)])
    x = linear(0.0, high, left, _RIGHT, count=8)
    canvas.axes((left, _TOP, _RIGHT, bottom), x, None, "epsilon")
    if math.isfinite(mechanism):
        canvas.line((x(mechanism), _TOP - 6), (x(mechanism), bottom), "limit-exact")
    y = _TOP + _GAP / 2
    for name, canaries in drawn.items():
        _name(canvas, name, left, y + _CANARY * len(canaries) / 2 + 4)
        for canary in canaries:
            _draw_canary(canvas, x, canary, y + _CANARY / 2, high)
            y += _CANARY
        y += _GAP
    keys: list[Key] = [
        ("interval", "whisker-observed", "bound to upper end"),
        ("circle", "mark-rule", "exact, frozen rule"),
        ("diamond", "mark-exact", "exact, attack"),
        ("limit", "limit-exact", "exact, mechanism"),
    ]
    canvas.keys(left + 6, 18, keys)
    return canvas.drawn(
        "One line a canary: from the lower bound that its trials gave (the dot) to the upper end for the same frozen "
        "rule, each end at that canary's share of alpha. The ring is the rule's exact epsilon, which the line should "
        "hold; the diamond is that of the attack at its best threshold. An arrow leaves the scale.",
        *known_columns(CANARY_COLUMNS, canary_rows(attacks)),
    )


def _largest(canaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ranks = sorted(range(len(canaries)), key=lambda index: -canaries[index]["bound"]["epsilon"])[:_DRAWN]
    return [canaries[index] for index in sorted(ranks)]


def _draw_canary(canvas: Canvas, x: Scale, canary: dict[str, Any], y: float, high: float) -> None:
    low, upper = canary["bound"]["epsilon"], canary["upper"]
    end = x(min(upper, high))
    canvas.line((x(low), y), (end, y), "whisker-observed")
    if upper > high:
        canvas.curve([(end - 5, y - 3.5), (end, y), (end - 5, y + 3.5)], "arrow")
    rule, attack = (None if canary[of] is None else canary[of]["lower"] for of in ("rule", "supremum"))
    _marks(canvas, x, y, rule, attack, low, 3.6, canary["id"])


def _marks(
    canvas: Canvas,
    x: Scale,
    y: float,
    rule: float | None,
    attack: float | None,
    observed: float,
    radius: float,
    name: str = "observed",
) -> None:
    """Draw a ring, a diamond and a dot: exact at the frozen rule, exact of the attack, and what trials showed."""
    if rule is not None and math.isfinite(rule):
        canvas.circle((x(rule), y), radius, "mark-rule", f"exact, rule {epsilon(rule)}")
    if attack is not None and math.isfinite(attack):
        canvas.diamond((x(attack), y), 1.2 * radius, "mark-exact")
    canvas.circle((x(observed), y), radius, "mark-observed", f"{name}: {epsilon(observed)}")


def _names_width(names: Iterable[str]) -> float:
    """Return the room that the names of attacks take at the left of a drawing, within reason."""
    return min(max(150.0, *(text_width(name, "row-name") + _NAME_GAP for name in names)), 330.0)


def _name(canvas: Canvas, name: str, left: float, y: float) -> None:
    room = left - _NAME_GAP
    canvas.text((room, y), shortened(name, room, "row-name"), "row-name", anchor="end")
