"""Draw the epsilons of attacks: values of a summary in, a drawing with its alternatives out.

An attack has its ladder; all attacks together have an overview and their canaries. ``evidence_figures`` draws what an
attack saw, ``evolution_figures`` what an evolution did.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from canarybank.report.svg import BELOW, WIDE, Canvas, Drawn, Scale, linear, shortened, text_width
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
_RUNG, _LADDER_TOP = 50.0, 14.0
_LADDER_LEFT = max(text_width(note, "rung-note") for note in _NAMES.values()) + 16.0
_CERTAIN = 2e-3
_ROWS_RIGHT, _ROWS_TOP, _NAME_GAP = 800.0, 42.0, 12.0
_ATTACK, _CANARY, _GAP = 34.0, 15.0, 12.0
_DRAWN = 20
"""Of more canaries an attack only those with the largest bounds are drawn; the table holds all."""
_WIDEST = 1.6
"""The scale runs to this many times the mechanism's epsilon; an interval that is wider ends in an arrow."""
_ENDLESS = 2.0
"""How far the scale runs at least where the mechanism has no finite epsilon."""


def ladder_figure(attack: dict[str, Any]) -> Drawn:
    """Draw an attack's ladder; without an accountant's figure its first two rungs are one.

    Args:
        attack: One attack of a summary.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> drawn = ladder_figure(summarise_run(open_run("runs/demo"))["attacks"][0])
        >>> [row[0] for row in drawn.rows]
        ['accounted', 'mechanism', 'attack', 'rule', 'expected', 'observed']
    """
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
    """Draw rungs, each after the one that it is compared with, and in words what lies between the two."""
    right = WIDE - max(text_width(step, "rung-note") for step in steps) - 18.0
    bottom = _LADDER_TOP + _RUNG * len(pairs)
    canvas = Canvas(key, WIDE, bottom + BELOW, title, words)
    x = linear(0.0, top_of(rung for _, rung in pairs) * 1.04, _LADDER_LEFT, right)
    canvas.axes((_LADDER_LEFT, _LADDER_TOP, right, bottom), x, "epsilon")
    for index, ((above, rung), step) in enumerate(zip(pairs, steps, strict=True)):
        middle = _LADDER_TOP + _RUNG * (index + 0.5)
        _draw_rung(canvas, x, above, rung, middle)
        if math.isfinite(rung["epsilon"]):
            canvas.text((right + 16, middle - 3), rung_text(rung), "value")
            canvas.text((right + 16, middle + 14), step, "rung-note")
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


def _draw_rung(canvas: Canvas, x: Scale, above: dict[str, Any] | None, rung: dict[str, Any], middle: float) -> None:
    name, value, change = rung["name"], rung["epsilon"], change_of(above, rung)
    canvas.text((_LADDER_LEFT - 14, middle - 3), name, "rung-name", anchor="end")
    canvas.text((_LADDER_LEFT - 14, middle + 14), rung.get("note") or _NAMES[name], "rung-note", anchor="end")
    if math.isinf(value):
        canvas.text((_LADDER_LEFT + 8, middle + 5), "unbounded", "value")
        return
    if change is not None and change < 0:
        canvas.rect((x(value), middle - 11), x(value - change) - x(value), 22, "bar-lost")
    canvas.rect((_LADDER_LEFT, middle - 11), x(value) - _LADDER_LEFT, 22, f"bar bar-{rung.get('css', name)}", 2)
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
    """Draw, for each attack, its exact epsilon, that of its frozen rule, the typical bound and the observed one.

    Args:
        attacks: The attacks of a summary.
        mechanism: The exact epsilon of the mechanism.
        accounted: The epsilon that the accountant claims; the exact one where none was given.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> summary = summarise_run(open_run("runs/demo"))
        >>> drawn = overview_figure(summary["attacks"], summary["epsilon"], summary["accounted"])
        >>> [row[0] for row in drawn.rows]
        ['ordinary', 'nonce-norm']
    """
    rows = attack_rows(attacks)
    by_attack = "; ".join(f"{row[0]} exact {row[-1]}, observed {row[1]}" for row in rows)
    words = f"The exact epsilon of the mechanism is {epsilon(mechanism)}. By attack: {by_attack}."
    limits = {"mechanism": ("limit-exact", mechanism)}
    if epsilon(accounted) != epsilon(mechanism):
        limits["claim"] = ("limit-claim", accounted)
    finite = {css: limit for css, limit in limits.values() if math.isfinite(limit)}
    high = max([*finite.values(), *(top_of(attack["rungs"].values()) for attack in attacks)]) * 1.06
    heights = {attack["name"]: _ATTACK for attack in attacks}
    canvas, x = _epsilon_rows("overview", "Every attack's ladder on one scale", words, heights, high, finite)
    for index, attack in enumerate(attacks):
        rungs, y = attack["rungs"], _ROWS_TOP + _ATTACK * (index + 0.5)
        _row_name(canvas, attack["name"], x, y + 4)
        if (expected := rungs.get("expected")) is not None:
            canvas.rect((x(expected["low"]), y - 6), x(expected["high"]) - x(expected["low"]), 12, "range", 3)
        known = {name: rung["epsilon"] for name, rung in rungs.items()}
        _marks(canvas, x, y, known.get("rule"), known.get("attack"), known["observed"], 5.0)
    canvas.keys(
        x(0.0) + 1,
        18,
        [
            ("circle", "mark-observed", "observed bound"),
            ("rect", "range", "expected, 5% to 95%"),
            ("circle", "mark-rule", "frozen rule"),
            ("diamond", "mark-exact", "attack"),
            *(("limit", css, name) for name, (css, _) in limits.items()),
        ],
    )
    return canvas.drawn(
        "A dot is the bound that trials gave, the grey band behind it holds 90% of the bounds that such trials would "
        "give. A diamond is the exact epsilon of the attack, a ring that of its frozen rule; neither needs a trial.",
        *known_columns(ATTACK_COLUMNS, rows),
    )


def canary_figure(attacks: list[dict[str, Any]], mechanism: float) -> Drawn:
    """Draw the interval of each canary's rule from its counts, with the exact values in it.

    Args:
        attacks: The attacks of a summary.
        mechanism: The exact epsilon of the mechanism.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> summary = summarise_run(open_run("runs/demo"))
        >>> drawn = canary_figure(summary["attacks"], summary["epsilon"])
        >>> drawn.columns[:3], len(drawn.rows)
        (('attack', 'canary', 'bound'), 4)
    """
    bounds = {attack["name"]: [canary["bound"]["epsilon"] for canary in attack["canaries"]] for attack in attacks}
    ranges = "; ".join(f"{name} from {epsilon(min(of))} to {epsilon(max(of))}" for name, of in bounds.items())
    words = f"Lower bounds on epsilon over the canaries of each attack: {ranges}."
    drawn = {attack["name"]: _largest(attack["canaries"]) for attack in attacks}
    heights = {name: _CANARY * len(canaries) + _GAP for name, canaries in drawn.items()}
    limits = {"limit-exact": mechanism} if math.isfinite(mechanism) else {}
    high = max([mechanism * _WIDEST if limits else _ENDLESS, *(1.1 * bound for of in bounds.values() for bound in of)])
    canvas, x = _epsilon_rows("canaries", "Epsilon of each canary", words, heights, high, limits)
    y = _ROWS_TOP + _GAP / 2
    for name, canaries in drawn.items():
        _row_name(canvas, name, x, y + _CANARY * len(canaries) / 2 + 4)
        for index, canary in enumerate(canaries):
            _draw_canary(canvas, x, canary, y + _CANARY * (index + 0.5), high)
        y += heights[name]
    canvas.keys(
        x(0.0) + 6,
        18,
        [
            ("interval", "whisker-observed", "bound to upper end"),
            ("circle", "mark-rule", "exact, frozen rule"),
            ("diamond", "mark-exact", "exact, attack"),
            ("limit", "limit-exact", "exact, mechanism"),
        ],
    )
    return canvas.drawn(
        "One line a canary: from the lower bound that its trials gave (the dot) to the upper end for the same frozen "
        "rule, each end at that canary's share of alpha. The ring is the rule's exact epsilon, which the line should "
        "hold; the diamond is that of the attack at its best threshold. An arrow leaves the scale.",
        *known_columns(CANARY_COLUMNS, canary_rows(attacks)),
    )


def _epsilon_rows(
    key: str, title: str, words: str, heights: Mapping[str, float], high: float, limits: Mapping[str, float]
) -> tuple[Canvas, Scale]:
    """Return a canvas for named rows of these heights, with the limits on its one axis, that of epsilon."""
    left = min(max(150.0, *(text_width(name, "row-name") + _NAME_GAP for name in heights)), 330.0)
    bottom = _ROWS_TOP + sum(heights.values())
    canvas = Canvas(key, WIDE, bottom + BELOW, title, words)
    x = linear(0.0, high, left, _ROWS_RIGHT, count=8)
    canvas.axes((left, _ROWS_TOP, _ROWS_RIGHT, bottom), x, "epsilon")
    for css, limit in limits.items():
        canvas.line((x(limit), _ROWS_TOP - 6), (x(limit), bottom), css)
    return canvas, x


def _row_name(canvas: Canvas, name: str, x: Scale, y: float) -> None:
    room = x(0.0) - _NAME_GAP
    canvas.text((room, y), shortened(name, room, "row-name"), "row-name", anchor="end")


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
