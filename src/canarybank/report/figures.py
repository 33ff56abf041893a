"""Draw the figures of the page: values of a summary in, a drawing with its alternatives out.

An attack has its ladder, and its evidence on one canary: ROC, densities of the score, votes, a map of the bank. All
attacks together have an overview and their canaries; an evolution has epsilon and utility against the round.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from canarybank.auditing import perfect_rates
from canarybank.mechanism import Mechanism
from canarybank.report.svg import Box, Canvas, Drawn, Scale, linear, log, shortened, text_width
from canarybank.report.tables import ATTACK_COLUMNS, CANARY_COLUMNS, attack_rows, canary_rows, known_columns
from canarybank.report.text import UNKNOWN, clean, decimal, epsilon, interval_text, percent, rate, rung_text

__all__ = [
    "CAUSES",
    "RATES_BOX",
    "allowed",
    "canary_figure",
    "change_of",
    "density_figure",
    "draw_ladder",
    "epsilon_figure",
    "ladder_figure",
    "map_figure",
    "overview_figure",
    "rates_canvas",
    "roc_figure",
    "top_of",
    "utility_figure",
    "vote_figure",
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
_UNSEEN = "what attack and trials do not show"
_WIDE, _BELOW = 820.0, 44.0
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
_NARROW, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440.0, 420.0, 62.0, 428.0, 34.0, 370.0
RATES_BOX: Box = (_LEFT, _TOP - 20, _RIGHT, _BOTTOM)
_LOWEST = 1e-6
_STEPS = 121
LARGEST_EXPONENT = 700.0  # exp of more leaves the range of floating point; one of this already allows everything
_ENTRY, _ENTRY_LEFT, _ENTRY_RIGHT, _WORDS = 34.0, 330.0, 780.0, 42
_MAP_HEIGHT, _EDGE, _ROOM = 500.0, 4.0, 0.05
_ROUNDS_LEFT, _ROUNDS_RIGHT, _ROUNDS_TOP, _ROUNDS_BOTTOM = 66.0, 600.0, 16.0, 316.0
_LEAST_GAP = 16.0
Line = tuple[str, tuple[tuple[float, float], ...], str, str]
"""One curve: its name, its points, the class of the curve and that of its points."""


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
    """Draw rungs, each after the one that it is compared with, and in words what lies between the two."""
    right = _WIDE - max(text_width(step, "rung-note") for step in steps) - 18.0
    bottom = _LADDER_TOP + _RUNG * len(pairs)
    canvas = Canvas(key, _WIDE, bottom + _BELOW, title, words)
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
    return _UNSEEN if (above["name"], rung["name"]) == ("mechanism", "observed") else CAUSES[rung["name"]]


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
    """Draw the interval of each canary's rule from its counts, with the exact values in it."""
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
    canvas = Canvas(key, _WIDE, bottom + _BELOW, title, words)
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


def roc_figure(attack: dict[str, Any], mechanism: Mechanism, exact: float, key: str) -> Drawn:
    """Draw an attack's ROC on the canary with the largest bound, with the frozen threshold and its counts."""
    roc, canary = attack["evidence"]["roc"], attack["canaries"][attack["shown"]]
    fpr, tpr, threshold = (roc[name][roc["frozen"]] for name in ("fpr", "tpr", "threshold"))
    words = (
        f"True against false positive rate of the score on canary {canary['id']}. At the frozen threshold "
        f"{threshold:.3f} the false positive rate is {rate(fpr)} and the true positive rate {rate(tpr)}. No point may "
        f"lie above the region that epsilon {epsilon(exact)} at delta {mechanism.delta:g} allows."
    )
    left, top, right, bottom = RATES_BOX
    x, y = log(_LOWEST, 1.0, left, right), log(_LOWEST, 1.0, bottom, top)
    grid = np.geomspace(_LOWEST, 1.0, _STEPS).tolist()
    canvas = rates_canvas(key, f"ROC of {attack['name']}", words, x, y, grid, exact, mechanism.delta)
    reach = max(8.0, *map(abs, roc["threshold"])) * max(1.0, 1 / mechanism.sigma)
    perfect = perfect_rates(mechanism)(np.linspace(-reach, reach, 4 * _STEPS))
    for css, rates in (("curve-perfect", perfect), ("curve-attack", (roc["fpr"], roc["tpr"]))):
        canvas.curve([(x(f), y(t)) for f, t in zip(*rates, strict=True) if min(f, t) >= _LOWEST], css)
    canvas.circle((x(fpr), y(tpr)), 6.5, "mark-rule", "the frozen threshold")
    _draw_counted(canvas, x, y, **canary["counted"])
    canvas.legend(
        (right, bottom),
        [
            ("line", "curve-attack", "this attack"),
            ("line", "curve-perfect", "a perfect attack"),
            ("line", "chance", "guessing"),
            ("rect", "region", "allowed"),
            ("circle", "mark-rule", "frozen threshold"),
            ("circle", "mark-observed", "counted, with ends"),
        ],
    )
    return canvas.drawn(
        f"Exact rates over all thresholds for canary {canary['id']}. The shaded region is what epsilon "
        f"{epsilon(exact)} allows: a point above it would be a violation. A perfect attack on this mechanism follows "
        "the dashed line.",
        ("threshold", "false positive rate", "true positive rate"),
        _digits(roc["threshold"], roc["fpr"], roc["tpr"]),
    )


def rates_canvas(
    key: str, title: str, words: str, x: Scale, y: Scale, grid: Sequence[float], exact: float, delta: float
) -> Canvas:
    """Return a canvas of TPR against FPR with the region that (exact, delta) allows, and the line of guessing."""
    canvas, (left, _, right, bottom) = Canvas(key, _NARROW, _HEIGHT, title, words), RATES_BOX
    upper = [(x(value), y(allowed(value, exact, delta))) for value in grid]
    canvas.curve([(left, bottom), *upper, (right, bottom)], "region", closed=True)
    canvas.curve(upper, "region-edge")
    canvas.axes(RATES_BOX, x, "false positive rate (canary absent)", y, "true positive rate (canary eligible)")
    canvas.line((x(grid[0]), y(grid[0])), (x(1.0), y(1.0)), "chance")
    return canvas


def allowed(fpr: float, exact: float, delta: float) -> float:
    """Return the largest true positive rate that (exact, delta)-differential privacy allows at a false positive rate.

    Both directions bind: TPR <= e^eps FPR + delta, and 1 - FPR <= e^eps (1 - TPR) + delta.
    """
    forward = math.exp(min(exact, LARGEST_EXPONENT)) * fpr + delta
    reverse = 1.0 - math.exp(-exact) * (1.0 - delta - fpr)
    return max(0.0, min(1.0, forward, reverse))


def _draw_counted(canvas: Canvas, x: Scale, y: Scale, fpr: tuple[float, ...], tpr: tuple[float, ...]) -> None:
    """Draw the counted rates as a cross of their intervals, at the canary's share of alpha."""
    canvas.line((x(fpr[0]), y(tpr[1])), (x(fpr[2]), y(tpr[1])), "whisker-observed")
    canvas.line((x(fpr[1]), y(tpr[0])), (x(fpr[1]), y(tpr[2])), "whisker-observed")
    canvas.circle((x(fpr[1]), y(tpr[1])), 3.2, "mark-observed", f"counted: {rate(fpr[1])}, {rate(tpr[1])}")


def density_figure(attack: dict[str, Any], q: float, key: str) -> Drawn:
    """Draw the exact density of the score with the canary absent and participating, and the frozen threshold."""
    dense, roc = attack["evidence"]["densities"], attack["evidence"]["roc"]
    canary, scores = attack["canaries"][attack["shown"]], dense["score"]
    words = (
        f"Density of the score on canary {canary['id']}, absent and participating, whose separation mu_eff is "
        f"{canary['mu_eff']:.3f}. The frozen threshold {dense['threshold']:.3f} is exceeded with probability "
        f"{rate(roc['fpr'][roc['frozen']])} when the canary is absent."
    )
    canvas = Canvas(key, _NARROW, _HEIGHT, f"Score densities of {attack['name']}", words)
    highest = max(*dense["absent"], *dense["participating"], 1e-12)
    x, y = linear(scores[0], scores[-1], _LEFT, _RIGHT), linear(0.0, highest * 1.08, _BOTTOM, _TOP, count=4)
    canvas.axes((_LEFT, _TOP, _RIGHT, _BOTTOM), x, "score (log-likelihood ratio)", y, "density")
    for name in ("absent", "participating"):
        points = [(x(score), y(value)) for score, value in zip(scores, dense[name], strict=True)]
        canvas.curve([(_LEFT, _BOTTOM), *points, (_RIGHT, _BOTTOM)], f"area-{name}", closed=True)
        canvas.curve(points, f"curve-{name}")
    at = x(dense["threshold"])
    canvas.line((at, _TOP - 4), (at, _BOTTOM), "limit-rule")
    beside, anchor = (at - 6, "end") if at > (_LEFT + _RIGHT) / 2 else (at + 6, None)
    canvas.text((beside, _TOP + 8), "frozen threshold", "key", anchor=anchor)
    canvas.keys(_LEFT + 4, 18, [("line", f"curve-{name}", f"canary {name}") for name in ("absent", "participating")])
    return canvas.drawn(
        f"Exact densities over the evaluation users. An eligible canary participates with probability {q:g}, so under "
        f"the test's second hypothesis only {100 * q:g}% of the mass comes from the second curve.",
        ("score", "absent", "participating"),
        _digits(scores, dense["absent"], dense["participating"]),
    )


def _digits(*columns: list[float]) -> list[tuple[str, ...]]:
    return [tuple(f"{value:.4g}" for value in row) for row in zip(*columns, strict=True)]


def vote_figure(attack: dict[str, Any], key: str) -> Drawn:
    """Draw two bars an entry: the canary's share of votes, and the mean share of the auxiliary users."""
    votes, entries = attack["evidence"]["votes"], attack["evidence"]["votes"]["entries"]
    share, traffic = percent(votes["share"]), percent(votes["traffic"])
    words = (
        f"The canary gives {share} of its votes to the {votes['inspected']} inspected entries, and votes for "
        f"{votes['voted']} of them; the {votes['auxiliary']} auxiliary users give them {traffic} on average. Shown are "
        f"the {len(entries)} entries of {attack['name']} with most of the canary's votes."
    )
    bottom = _TOP + _ENTRY * max(len(entries), 1)
    canvas = Canvas(key, _WIDE, bottom + _BELOW, f"Votes of the canary in {attack['name']}", words)
    highest = max((max(entry["share"], entry["traffic"]) for entry in entries), default=0.0) or 1.0
    x = linear(0.0, 100 * highest * 1.12, _ENTRY_LEFT, _ENTRY_RIGHT)
    canvas.axes((_ENTRY_LEFT, _TOP, _ENTRY_RIGHT, bottom), x, "% of one user's votes")
    for index, entry in enumerate(entries):
        _draw_entry(canvas, x, entry, _TOP + _ENTRY * (index + 0.5))
    keys = [("rect", "bar-canary", "the canary"), ("rect", "bar-others", "auxiliary users, on average")]
    canvas.keys(_ENTRY_LEFT + 4, 17, keys)
    return canvas.drawn(
        f"The {len(entries)} inspected entries with most of the canary's votes, of {votes['inspected']} inspected. All "
        f"inspected entries hold {share} of the canary's votes and on average {traffic} of an auxiliary user's: a "
        "quiet place is what an attacker looks for.",
        ("position", "canary's share", "traffic", "voters", "text"),
        [
            (e["position"], percent(e["share"]), percent(e["traffic"]), percent(e["voters"]), e["text"] or UNKNOWN)
            for e in entries
        ],
    )


def _draw_entry(canvas: Canvas, x: Scale, entry: dict[str, Any], middle: float) -> None:
    text = f"#{entry['position']}" + (f"  {clean(entry['text'], _WORDS)}" if entry["text"] else "")
    room = _ENTRY_LEFT - 12
    canvas.text((room, middle + 4), shortened(text, room, "entry-name"), "entry-name", anchor="end")
    for name, css, y in (("share", "bar-canary", middle - 11), ("traffic", "bar-others", middle + 1)):
        width = max(x(100 * entry[name]) - _ENTRY_LEFT, 0.8)
        canvas.rect((_ENTRY_LEFT, y), width, 10, css)
        canvas.text((_ENTRY_LEFT + width + 6, y + 9), percent(entry[name]), "small")


def map_figure(attack: dict[str, Any], key: str) -> Drawn:
    """Draw a sample of the bank, the probes and the canary's records on the bank's two principal axes."""
    plane = attack["evidence"]["map"]
    points = {"canary record": plane["canary"], "probe": plane["probes"], "bank entry": plane["bank"]}
    canary, probes, bank = map(len, points.values())
    first, second = (percent(part) for part in plane["explained"])
    words = (
        f"{bank} entries of the bank, {probes} probes and {canary} records of the canary on the bank's "
        f"two principal axes, which hold {first} and {second} of the variance of the sample shown."
    )
    canvas = Canvas(key, _WIDE, _MAP_HEIGHT, f"Map of bank, probes and canary in {attack['name']}", words)
    width, height = _WIDE - 2 * _EDGE, _MAP_HEIGHT - _TOP - _EDGE
    canvas.rect((_EDGE, _TOP), width, height, "map-frame", 4)
    every = np.array([point for places in points.values() for point in places])
    low, high = every.min(axis=0), every.max(axis=0)
    # One unit for both axes, so that all points are inside and none is moved nearer to another.
    unit = ((high - low) / (width, height)).max() * (1 + 2 * _ROOM) or 1.0
    middle = np.array([_EDGE + width / 2, _TOP + height / 2])
    placed = (middle + (every - (low + high) / 2) / unit * (1, -1)).tolist()
    canvas.dots(placed[canary + probes :], "dot-bank")
    for point in placed[canary : canary + probes]:
        canvas.circle(point, 4.4, "mark-probe")
    canvas.dots(placed[:canary], "dot-canary")
    keys = [("dots", "dot-bank", "bank entry"), ("dots", "dot-canary", "canary record")]
    canvas.keys(_EDGE + 6, 20, [*keys, ("circle", "mark-probe", "probe")] if probes else keys)
    return canvas.drawn(
        f"The axes are the principal ones of {bank} entries of the bank, drawn by seed, and hold {first} and "
        f"{second} of their variance: near in the plane is not always near in the space where records are routed.",
        ("what", "first axis", "second axis"),
        [(what, f"{across:.3f}", f"{up:.3f}") for what, places in points.items() for across, up in places],
    )


def epsilon_figure(summary: dict[str, Any]) -> Drawn:
    """Draw epsilon against the round: what was spent, and what the strongest attack could and did show of it."""
    rounds, prefixes = summary["evolution"]["rounds"], []
    lines: list[Line] = [("theory", _points(rounds, "round", "epsilon"), "curve-perfect", "mark-rule")]
    caption = (
        "Theory is the exact epsilon of all releases so far, from the privacy loss distribution, for adding or "
        f"removing one user at delta {summary['mechanism']['delta']:g}."
    )
    if summary["verdict"]:
        attack, audit = summary["attacks"][summary["strongest"]]["name"], summary["audit"]
        prefixes = [each for each in summary["prefixes"] if each["attack"] == attack]
        lines += [
            ("exact, of the attack", _points(prefixes, "rounds", "exact"), "curve-absent", "bar"),
            ("observed bound", _points(prefixes, "rounds", "observed"), "curve-attack", "mark-observed"),
        ]
        caption += (
            f" Exact is the largest epsilon that the attack {attack} can show on these banks, computed with no trials. "
            f"Observed is a lower bound by the {audit['method']} method from {audit['trials']:,} trials of each "
            "hypothesis; the bar beside it holds 90% of such bounds."
        )
    else:
        lines.append(("added up", _points(rounds, "round", "added_up"), "chance", "bar-others"))
        caption += " Added up is what adding up the rounds one by one proves: an upper end that needs no software."
    top = 1.06 * max([value for _, points, *_ in lines for _, value in points], default=1.0)
    numbers = range(1, len(rounds) + 1)
    canvas = _draw_rounds("rounds", "Epsilon against the round", lines, numbers, top, "epsilon", prefixes)
    shown = {each["rounds"]: each for each in prefixes}
    names = ("exact", "rule", "expected_low", "expected_high", "observed")
    columns = ("after round", "theory", "added up", "exact, attack", "exact, rule", "5%", "95%", "observed bound")
    rows = [
        (
            each["round"],
            epsilon(each["epsilon"]),
            epsilon(each["added_up"]),
            *(epsilon(shown.get(each["round"], {}).get(name)) for name in names),
        )
        for each in rounds
    ]
    return canvas.drawn(caption, *known_columns(columns, rows))


def utility_figure(evolution: dict[str, Any]) -> Drawn | None:
    """Draw what every population is worth, with probes and without; None where nothing was measured."""
    measured = evolution["utility"]
    if measured is None:
        return None
    figures, plain = measured["figures"], (evolution["plain"] or {"figures": ()})["figures"]
    chief, name = ("recall", "recall") if figures[0]["mauve"] is None else ("mauve", "MAUVE")
    lines: list[Line] = [
        (f"{name}, this run", _points(figures, "after", chief), "curve-attack", "mark-observed"),
        (f"{name}, no probes", _points(plain, "after", chief), "curve-perfect", "mark-rule"),
        ("recall", _points(figures if chief == "mauve" else (), "after", "recall"), "curve-absent", "bar"),
        ("precision", _points(figures, "after", "precision"), "chance", "bar-others"),
    ]
    columns = {
        "mauve": "MAUVE",
        "precision": "precision",
        "recall": "recall",
        "distinct_2": "distinct pairs",
        "duplicates": "duplicates",
        "near_duplicates": "near duplicates",
        "kept_share": "votes on the kept",
        "probe_share": "votes on probes",
    }
    return _draw_rounds("utility", "What the text is worth", lines, range(len(figures)), 1.0, "share").drawn(
        f"Every population against the records of {measured['reference_users']:,} held-out users, by the run's own "
        "encoder; round 0 is the first population. Figures compare within this run: they depend on the encoder and on "
        "the numbers of texts. They are not differentially private.",
        *known_columns(
            ("after round", "candidates", *columns.values()),
            [(each["after"], f"{each['candidates']:,}", *(decimal(each[key]) for key in columns)) for each in figures],
        ),
    )


def _draw_rounds(
    key: str,
    title: str,
    lines: Sequence[Line],
    rounds: range,
    top: float,
    y_name: str,
    prefixes: Sequence[dict[str, Any]] = (),
) -> Canvas:
    """Draw curves over rounds, with where 90% of the bounds of each prefix fall, and name each curve at its end.

    A line without points is left out.
    """
    lines = [line for line in lines if line[1]]
    parts = [f"{name} {', '.join(f'{value:.3f}' for _, value in points)}" for name, points, *_ in lines]
    canvas = Canvas(key, _WIDE, _ROUNDS_BOTTOM + _BELOW, title, f"Round by round: {'; '.join(parts)}.")
    # Half a step of room on both sides, so that a single round stands in the middle.
    place = linear(rounds[0] - 0.5, rounds[-1] + 0.5, _ROUNDS_LEFT, _ROUNDS_RIGHT).place
    x = Scale(place, tuple((float(number), str(number)) for number in rounds))
    y = linear(0.0, top or 1.0, _ROUNDS_BOTTOM, _ROUNDS_TOP)
    canvas.axes((_ROUNDS_LEFT, _ROUNDS_TOP, _ROUNDS_RIGHT, _ROUNDS_BOTTOM), x, "after round", y, y_name)
    for prefix in prefixes:
        at, low, high = x(prefix["rounds"]) + 9, prefix["expected_low"], prefix["expected_high"]
        if low is not None and math.isfinite(low) and math.isfinite(high):
            canvas.whisker((at, y(low)), (at, y(high)), (4, 0), "whisker-observed")
    for name, points, css, mark in lines:
        canvas.curve([(x(at), y(value)) for at, value in points], css)
        for at, value in points:
            canvas.circle((x(at), y(value)), 4, mark, f"{name}, round {at:g}: {value:.3f}")
    # Names move apart where two would overlap.
    below = -_LEAST_GAP
    for height, text, css in sorted(
        (y(points[-1][1]), f"{name} {points[-1][1]:.3f}", css) for name, points, css, _ in lines
    ):
        below = max(height, below + _LEAST_GAP, _ROUNDS_TOP)
        canvas.key_at((_ROUNDS_RIGHT + 18, below + 4), ("line", css, text))
    return canvas


def _points(rows: Sequence[dict[str, Any]], x: str, y: str) -> tuple[tuple[float, float], ...]:
    """Return the points of a curve; what is unknown or infinite has none."""
    return tuple((float(row[x]), float(row[y])) for row in rows if row[y] is not None and math.isfinite(row[y]))
