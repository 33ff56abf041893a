"""Draw an attack's evidence on one canary: ROC, densities of the score, votes, a map of the bank."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from canarybank.auditing import perfect_rates
from canarybank.mechanism import Mechanism
from canarybank.report.svg import BELOW, NARROW, WIDE, Box, Canvas, Drawn, Scale, linear, log, shortened
from canarybank.report.text import UNKNOWN, clean, epsilon, percent, rate

__all__ = ["RATES_BOX", "allowed", "density_figure", "map_figure", "rates_canvas", "roc_figure", "vote_figure"]

_HALF, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440.0, 420.0, 62.0, 428.0, 34.0, 370.0
RATES_BOX: Box = (_LEFT, _TOP - 20, _RIGHT, _BOTTOM)
_LOWEST = 1e-6
_STEPS = 121
LARGEST_EXPONENT = 700.0  # exp of more leaves the range of floating point; one of this already allows everything
_ENTRY, _ENTRY_LEFT, _ENTRY_RIGHT, _WORDS, _ENTRY_ABOVE = 34.0, 330.0, 780.0, 42, 16.0
_MAP_HEIGHT, _EDGE, _ROOM = 500.0, 4.0, 0.05


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
    canvas, (left, _, right, bottom) = Canvas(key, _HALF, _HEIGHT, title, words), RATES_BOX
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
    canvas = Canvas(key, _HALF, _HEIGHT, f"Score densities of {attack['name']}", words)
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
    title = f"Votes of the canary in {attack['name']}"
    canvas = _draw_votes(Canvas(key, WIDE, _votes_height(entries, 0.0), title, words), entries)
    narrow = Canvas(f"{key}-narrow", NARROW, _votes_height(entries, _ENTRY_ABOVE), title, words)
    canvas.narrow = _draw_votes(narrow, entries)
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


def _votes_height(entries: Sequence[dict[str, Any]], above: float) -> float:
    return _TOP + (_ENTRY + above) * max(len(entries), 1) + BELOW


def _draw_votes(canvas: Canvas, entries: Sequence[dict[str, Any]]) -> Canvas:
    """Draw two bars an entry; its text stands on the left, and above the bars of a narrow drawing."""
    is_wide = canvas.width == WIDE
    left, right, above = (_ENTRY_LEFT, _ENTRY_RIGHT, 0.0) if is_wide else (8.0, NARROW - 44, _ENTRY_ABOVE)
    highest = max((max(entry["share"], entry["traffic"]) for entry in entries), default=0.0) or 1.0
    x = linear(0.0, 100 * highest * 1.12, left, right)
    canvas.axes((left, _TOP, right, canvas.height - BELOW), x, "% of one user's votes")
    for index, entry in enumerate(entries):
        middle = _TOP + (_ENTRY + above) * (index + 0.5) + above / 2
        text = f"#{entry['position']}" + (f"  {clean(entry['text'], _WORDS)}" if entry["text"] else "")
        if is_wide:
            canvas.text((left - 12, middle + 4), shortened(text, left - 12, "entry-name"), "entry-name", anchor="end")
        else:
            canvas.text((left, middle - 15), shortened(text, NARROW - 2 * left, "entry-name"), "entry-name")
        for name, css, y in (("share", "bar-canary", middle - 11), ("traffic", "bar-others", middle + 1)):
            width = max(x(100 * entry[name]) - left, 0.8)
            canvas.rect((left, y), width, 10, css)
            canvas.text((left + width + 6, y + 9), percent(entry[name]), "small")
    keys = [("rect", "bar-canary", "the canary"), ("rect", "bar-others", "auxiliary users, on average")]
    canvas.keys(left + 4, 17, keys)
    return canvas


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
    title = f"Map of bank, probes and canary in {attack['name']}"
    canvas = _draw_map(Canvas(key, WIDE, _MAP_HEIGHT, title, words), points)
    canvas.narrow = _draw_map(Canvas(f"{key}-narrow", NARROW, NARROW + _TOP, title, words), points)
    return canvas.drawn(
        f"The axes are the principal ones of {bank} entries of the bank, drawn by seed, and hold {first} and "
        f"{second} of their variance: near in the plane is not always near in the space where records are routed.",
        ("what", "first axis", "second axis"),
        [(what, f"{across:.3f}", f"{up:.3f}") for what, places in points.items() for across, up in places],
    )


def _draw_map(canvas: Canvas, points: Mapping[str, Sequence[Sequence[float]]]) -> Canvas:
    """Draw the canary's records over the probes over the bank, with one unit for both axes."""
    canary, probes, _ = map(len, points.values())
    width, height = canvas.width - 2 * _EDGE, canvas.height - _TOP - _EDGE
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
    return canvas
