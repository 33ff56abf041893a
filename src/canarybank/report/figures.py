"""Draw the epsilons of attacks: values of a summary in, a drawing with its alternatives out.

An attack has its ladder; all attacks together have an overview and their canaries. ``evidence_figures`` draws what an
attack saw, ``evolution_figures`` what an evolution did.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from canarybank.report.svg import (
    BELOW,
    NARROW,
    WIDE,
    Canvas,
    Drawn,
    Key,
    Scale,
    key_room,
    linear,
    shortened,
    text_width,
)
from canarybank.report.tables import ATTACK_COLUMNS, CANARY_COLUMNS, attack_rows, canary_rows, known_columns
from canarybank.report.text import decimal, epsilon, interval_text, rung_text

__all__ = [
    "CAUSES",
    "SHORTFALL",
    "canary_figure",
    "change_of",
    "draw_ladder",
    "ladder_figure",
    "overview_figure",
    "top_of",
]

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
SHORTFALL = "the claim's shortfall"
"""The cause of a step up from the claim to the mechanism: the claim is too small."""
_UNSEEN = "what attack and trials do not show"
_RUNG, _LADDER_TOP, _NARROW_RUNG = 50.0, 14.0, 84.0
_LADDER_LEFT = max(text_width(note, "rung-note") for note in _NAMES.values()) + 16.0
_CERTAIN = 2e-3
_ROWS_RIGHT, _ROWS_TOP, _NAME_GAP, _NAME_ABOVE = 800.0, 42.0, 12.0, 18.0
_ATTACK, _CANARY, _GAP = 34.0, 15.0, 12.0
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
    canvas = draw_ladder(f"The gap ladder of {attack['name']}", _ladder_words(rungs), pairs, steps)
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
                decimal(change_of(above, rung), "+"),
                rung["source"],
            )
            for above, rung in pairs
        ],
    )


def draw_ladder(
    title: str,
    words: str,
    pairs: Sequence[tuple[dict[str, Any] | None, dict[str, Any]]],
    steps: Sequence[str],
    key: str = "ladder",
) -> Canvas:
    """Draw rungs, each after the one that it is compared with, and in words what lies between the two.

    A wide ladder has names on the left and steps on the right of its bars, a narrow one above and below them.
    """
    right = WIDE - max(text_width(step, "rung-note") for step in steps) - 18.0
    bottom = _LADDER_TOP + _RUNG * len(pairs)
    canvas = Canvas(key, WIDE, bottom + BELOW, title, words)
    x = linear(0.0, top_of(rung for _, rung in pairs) * 1.04, _LADDER_LEFT, right)
    canvas.axes((_LADDER_LEFT, _LADDER_TOP, right, bottom), x, "epsilon")
    for index, ((above, rung), step) in enumerate(zip(pairs, steps, strict=True)):
        middle = _LADDER_TOP + _RUNG * (index + 0.5)
        canvas.text((_LADDER_LEFT - 14, middle - 3), rung["name"], "rung-name", anchor="end")
        canvas.text((_LADDER_LEFT - 14, middle + 14), _rung_note(rung), "rung-note", anchor="end")
        _draw_bar(canvas, x, above, rung, middle)
        if math.isfinite(rung["epsilon"]):
            canvas.text((right + 16, middle - 3), rung_text(rung), "value")
            canvas.text((right + 16, middle + 14), step, "rung-note")
    canvas.narrow = _narrow_ladder(f"{key}-narrow", title, words, pairs, steps)
    return canvas


def _narrow_ladder(
    key: str,
    title: str,
    words: str,
    pairs: Sequence[tuple[dict[str, Any] | None, dict[str, Any]]],
    steps: Sequence[str],
) -> Canvas:
    bottom = _NARROW_RUNG * len(pairs)
    canvas = Canvas(key, NARROW, bottom + BELOW, title, words)
    x = linear(0.0, top_of(rung for _, rung in pairs) * 1.04, 8.0, NARROW - 8)
    canvas.axes((8.0, 0.0, NARROW - 8, bottom), x, "epsilon")
    for index, ((above, rung), step) in enumerate(zip(pairs, steps, strict=True)):
        top = _NARROW_RUNG * index
        canvas.text((8.0, top + 18), rung["name"], "rung-name")
        canvas.text((8.0, top + 33), shortened(_rung_note(rung), NARROW - 16, "rung-note"), "rung-note")
        _draw_bar(canvas, x, above, rung, top + 50)
        if math.isfinite(rung["epsilon"]):
            canvas.text((NARROW - 8, top + 18), rung_text(rung), "value", anchor="end")
            canvas.text((8.0, top + 75), shortened(step, NARROW - 16, "rung-note"), "rung-note")
    return canvas


def top_of(rungs: Iterable[dict[str, Any]]) -> float:
    """Return the largest finite epsilon among rungs, or 1 where there is none."""
    values = [rung[end] for rung in rungs for end in ("epsilon", "high")]
    return max([value for value in values if math.isfinite(value)] or [1.0]) or 1.0


def change_of(above: dict[str, Any] | None, rung: dict[str, Any]) -> float | None:
    """Return how far a rung lies above the one before it; None where either is infinite, or there is none."""
    if above is None or not math.isfinite(above["epsilon"]) or not math.isfinite(rung["epsilon"]):
        return None
    return float(rung["epsilon"] - above["epsilon"])


def _rung_note(rung: dict[str, Any]) -> str:
    return str(rung.get("note") or _NAMES[rung["name"]])


def _draw_bar(canvas: Canvas, x: Scale, above: dict[str, Any] | None, rung: dict[str, Any], middle: float) -> None:
    """Draw the bar of a rung, what it lost to the one before it, and where 90% of its bounds fall."""
    name, value, change = rung["name"], rung["epsilon"], change_of(above, rung)
    if math.isinf(value):
        canvas.text((x(0.0) + 8, middle + 5), "unbounded", "value")
        return
    if change is not None and change < 0:
        canvas.rect((x(value), middle - 11), x(value - change) - x(value), 22, "bar-lost")
    canvas.rect((x(0.0), middle - 11), x(value) - x(0.0), 22, f"bar bar-{rung.get('css', name)}", 2)
    if name == "expected" and rung["high"] - rung["low"] > _CERTAIN:
        canvas.whisker((x(rung["low"]), middle), (x(rung["high"]), middle), (0, 6), "whisker")


def _step(above: dict[str, Any] | None, rung: dict[str, Any], *, claimed: bool) -> str:
    change = change_of(above, rung)
    if above is None or change is None:
        return CAUSES["accounted"] if claimed else "none was given: the exact one"
    if rung["name"] == "mechanism" and not claimed:
        return "no claim to compare with"
    size = f"{abs(change):.3f}"
    sign = "" if float(size) == 0 else "+" if change > 0 else "−"
    return f"{sign}{size}  {_cause(above, rung)}"


def _cause(above: dict[str, Any], rung: dict[str, Any]) -> str:
    if (above["name"], rung["name"]) == ("mechanism", "observed"):
        return _UNSEEN
    return SHORTFALL if rung["name"] == "mechanism" and (change_of(above, rung) or 0.0) > 0 else CAUSES[rung["name"]]


def _ladder_words(rungs: list[dict[str, Any]]) -> str:
    parts = [
        f"{rung['name']} {rung_text(rung)}" + (f" ({interval_text(rung)})" if rung["name"] == "expected" else "")
        for rung in rungs
    ]
    largest, cause = max((-(change_of(above, rung) or 0.0), _cause(above, rung)) for above, rung in pairwise(rungs))
    said = f" The largest step down, {largest:.3f}, is {cause}." if largest > 0 else ""
    return f"Epsilons from claim to measurement: {', '.join(parts)}.{said}"


def overview_figure(attacks: list[dict[str, Any]], mechanism: float, accounted: float) -> Drawn:
    """Draw, for each attack, its exact epsilon, that of its frozen rule, the typical bound and the observed one."""
    rows = attack_rows(attacks)
    by_attack = "; ".join(f"{row[0]} exact {row[-1]}, observed {row[1]}" for row in rows)
    words = f"The exact epsilon of the mechanism is {epsilon(mechanism)}. By attack: {by_attack}."
    limits = {"mechanism": ("limit-exact", mechanism)}
    if epsilon(accounted) != epsilon(mechanism):
        limits["claim"] = ("limit-claim", accounted)
    finite = {css: limit for css, limit in limits.values() if math.isfinite(limit)}
    high = max([*finite.values(), *(top_of(attack["rungs"].values()) for attack in attacks)]) * 1.06
    heights = {attack["name"]: _ATTACK for attack in attacks}
    keys = [
        ("circle", "mark-observed", "observed bound"),
        ("rect", "range", "expected, 5% to 95%"),
        ("circle", "mark-rule", "frozen rule"),
        ("diamond", "mark-exact", "attack"),
        *(("limit", css, name) for name, (css, _) in limits.items()),
    ]

    def draw_row(canvas: Canvas, x: Scale, index: int, top: float) -> None:
        rungs, y = attacks[index]["rungs"], top + _ATTACK / 2
        if (expected := rungs.get("expected")) is not None:
            canvas.rect((x(expected["low"]), y - 6), x(expected["high"]) - x(expected["low"]), 12, "range", 3)
        known = {name: rung["epsilon"] for name, rung in rungs.items()}
        _marks(canvas, x, y, known.get("rule"), known.get("attack"), known["observed"], 5.0)

    title = "Every attack's ladder on one scale"
    canvas = _epsilon_rows("overview", title, words, heights, high, finite, keys, draw_row)
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
    heights = {name: _CANARY * len(canaries) + _GAP for name, canaries in drawn.items()}
    limits = {"limit-exact": mechanism} if math.isfinite(mechanism) else {}
    high = max([mechanism * _WIDEST if limits else _ENDLESS, *(1.1 * bound for of in bounds.values() for bound in of)])
    keys = [
        ("interval", "whisker-observed", "bound to upper end"),
        ("circle", "mark-rule", "exact, frozen rule"),
        ("diamond", "mark-exact", "exact, attack"),
        ("limit", "limit-exact", "exact, mechanism"),
    ]

    def draw_row(canvas: Canvas, x: Scale, index: int, top: float) -> None:
        for place, canary in enumerate(list(drawn.values())[index]):
            _draw_canary(canvas, x, canary, top + _GAP / 2 + _CANARY * (place + 0.5), high)

    canvas = _epsilon_rows("canaries", "Epsilon of each canary", words, heights, high, limits, keys, draw_row)
    return canvas.drawn(
        "One line a canary: from the lower bound that its trials gave (the dot) to the upper end for the same frozen "
        "rule, each end at that canary's share of alpha. The ring is the rule's exact epsilon, which the line should "
        "hold; the diamond is that of the attack at its best threshold. An arrow leaves the scale.",
        *known_columns(CANARY_COLUMNS, canary_rows(attacks)),
    )


def _epsilon_rows(
    key: str,
    title: str,
    words: str,
    heights: Mapping[str, float],
    high: float,
    limits: Mapping[str, float],
    keys: Sequence[Key],
    draw_row: Callable[[Canvas, Scale, int, float], None],
) -> Canvas:
    """Draw named rows of these heights over one axis, that of epsilon, with the limits on it.

    A wide drawing has the names on the left of the rows, a narrow one above them.
    """
    left = min(max(150.0, *(text_width(name, "row-name") + _NAME_GAP for name in heights)), 330.0)
    frames = {WIDE: (left, _ROWS_RIGHT, 0.0), NARROW: (8.0, NARROW - 12, _NAME_ABOVE)}
    made = []
    for width, (start, end, above) in frames.items():
        top = _ROWS_TOP + key_room(keys, width)
        bottom = top + sum(height + above for height in heights.values())
        canvas = Canvas(key if width == WIDE else f"{key}-narrow", width, bottom + BELOW, title, words)
        x = linear(0.0, high, start, end, count=8 if width == WIDE else 5)
        canvas.axes((start, top, end, bottom), x, "epsilon")
        for css, limit in limits.items():
            canvas.line((x(limit), top - 6), (x(limit), bottom), css)
        for index, (name, height) in enumerate(heights.items()):
            if width == WIDE:
                place, anchor, room = (start - _NAME_GAP, top + height / 2 + 4), "end", start - _NAME_GAP
            else:
                place, anchor, room = (start, top + above), None, end - start
            canvas.text(place, shortened(name, room, "row-name"), "row-name", anchor=anchor)
            draw_row(canvas, x, index, top + above)
            top += height + above
        canvas.keys(start + 4, 18, keys)
        made.append(canvas)
    made[0].narrow = made[1]
    return made[0]


def _largest(canaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the canaries that are drawn, in their order."""
    ranks = sorted(range(len(canaries)), key=lambda index: -canaries[index]["bound"]["epsilon"])[:_DRAWN]
    return [canaries[index] for index in sorted(ranks)]


def _draw_canary(canvas: Canvas, x: Scale, canary: dict[str, Any], y: float, high: float) -> None:
    low, end = canary["bound"]["epsilon"], x(min(canary["upper"], high))
    canvas.line((x(low), y), (end, y), "whisker-observed")
    if canary["upper"] > high:
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
