"""Draw the evidence of an attack on one canary: its ROC, its score's densities, its votes, and a map of the bank."""

import math
from typing import Any

import numpy as np

from canarybank.auditing import perfect_rates
from canarybank.mechanism import Mechanism
from canarybank.report.svg import Canvas, Drawn, Key, Scale, linear, log, shortened, text_width
from canarybank.report.text import UNKNOWN, clean, epsilon, percent, rate

__all__ = ["allowed", "density_figure", "map_figure", "roc_figure", "vote_figure"]

_NARROW, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440.0, 420.0, 62.0, 428.0, 34.0, 370.0
_WIDE = 820.0
_LOWEST = 1e-6
_STEPS = 121
LARGEST_EXPONENT = 700.0  # exp of more leaves the range of floating point; one of this already allows everything
_ENTRY, _ENTRY_LEFT, _ENTRY_RIGHT, _WORDS = 34.0, 330.0, 780.0, 42
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
    canvas = Canvas(key, _NARROW, _HEIGHT, f"ROC of {attack['name']}", words)
    top = _TOP - 20
    x, y = log(_LOWEST, 1.0, _LEFT, _RIGHT), log(_LOWEST, 1.0, _BOTTOM, top)
    grid = [float(value) for value in np.geomspace(_LOWEST, 1.0, _STEPS)]
    upper = [(x(value), y(allowed(value, exact, mechanism.delta))) for value in grid]
    canvas.curve([(_LEFT, _BOTTOM), *upper, (_RIGHT, _BOTTOM)], "region", closed=True)
    canvas.curve(upper, "region-edge")
    names = ("false positive rate (canary absent)", "true positive rate (canary eligible)")
    canvas.axes((_LEFT, top, _RIGHT, _BOTTOM), x, y, *names)
    canvas.line((x(_LOWEST), y(_LOWEST)), (x(1.0), y(1.0)), "chance")
    reach = max(8.0, *map(abs, roc["threshold"])) * max(1.0, 1 / mechanism.sigma)
    perfect = perfect_rates(mechanism)(np.linspace(-reach, reach, 4 * _STEPS))
    for css, rates in (("curve-perfect", perfect), ("curve-attack", (roc["fpr"], roc["tpr"]))):
        canvas.curve([(x(f), y(t)) for f, t in zip(*rates, strict=True) if min(f, t) >= _LOWEST], css)
    canvas.circle((x(fpr), y(tpr)), 6.5, "mark-rule", "the frozen threshold")
    _draw_counted(canvas, x, y, **canary["counted"])
    _roc_legend(canvas)
    return canvas.drawn(
        f"Exact rates over all thresholds for canary {canary['id']}. The shaded region is what epsilon "
        f"{epsilon(exact)} allows: a point above it would be a violation. A perfect attack on this mechanism follows "
        "the dashed line.",
        ("threshold", "false positive rate", "true positive rate"),
        _written(roc["threshold"], roc["fpr"], roc["tpr"]),
    )


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


def _roc_legend(canvas: Canvas) -> None:
    keys: list[Key] = [
        ("line", "curve-attack", "this attack"),
        ("line", "curve-perfect", "a perfect attack"),
        ("line", "chance", "guessing"),
        ("rect", "region", "allowed"),
        ("circle", "mark-rule", "frozen threshold"),
        ("circle", "mark-observed", "counted, with ends"),
    ]
    width = 46 + max(text_width(name, "key") for _, _, name in keys)
    left, top = _RIGHT - width + 2, _BOTTOM - 112
    canvas.rect((left - 8, top - 14), width, 118, "legend", 4)
    for row, key in enumerate(keys):
        canvas.key_at((left, top + 4 + 18 * row), key, room=32)


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
    canvas.axes((_LEFT, _TOP, _RIGHT, _BOTTOM), x, y, "score (log-likelihood ratio)", "density")
    for name in ("absent", "participating"):
        points = [(x(score), y(value)) for score, value in zip(scores, dense[name], strict=True)]
        canvas.curve([(_LEFT, _BOTTOM), *points, (_RIGHT, _BOTTOM)], f"area-{name}", closed=True)
        canvas.curve(points, f"curve-{name}")
    at = x(dense["threshold"])
    canvas.line((at, _TOP - 4), (at, _BOTTOM), "limit-rule")
    beside, anchor = (at - 6, "end") if at > (_LEFT + _RIGHT) / 2 else (at + 6, "start")
    canvas.text((beside, _TOP + 8), "frozen threshold", "key", anchor=anchor)
    keys: list[Key] = [("line", f"curve-{name}", f"canary {name}") for name in ("absent", "participating")]
    canvas.keys(_LEFT + 4, 18, keys)
    return canvas.drawn(
        f"Exact densities over the evaluation users. An eligible canary participates with probability {q:g}, so under "
        f"the test's second hypothesis only {100 * q:g}% of the mass comes from the second curve.",
        ("score", "absent", "participating"),
        _written(scores, dense["absent"], dense["participating"]),
    )


def _written(*columns: list[float]) -> list[tuple[str, ...]]:
    return [tuple(f"{value:.4g}" for value in row) for row in zip(*columns, strict=True)]


def vote_figure(attack: dict[str, Any], key: str) -> Drawn:
    """Draw two bars an entry: the canary's share of votes, and the mean share of the auxiliary users."""
    votes = attack["evidence"]["votes"]
    entries = votes["entries"]
    share, traffic = percent(votes["share"]), percent(votes["traffic"])
    words = (
        f"The canary gives {share} of its votes to the {votes['inspected']} inspected entries, and votes for "
        f"{votes['voted']} of them; the {votes['auxiliary']} auxiliary users give them {traffic} on average. Shown are "
        f"the {len(entries)} entries of {attack['name']} with most of the canary's votes."
    )
    bottom = _TOP + _ENTRY * max(len(entries), 1)
    canvas = Canvas(key, _WIDE, bottom + 44, f"Votes of the canary in {attack['name']}", words)
    highest = max((max(entry["share"], entry["traffic"]) for entry in entries), default=0.0) or 1.0
    x = linear(0.0, 100 * highest * 1.12, _ENTRY_LEFT, _ENTRY_RIGHT)
    canvas.axes((_ENTRY_LEFT, _TOP, _ENTRY_RIGHT, bottom), x, None, "% of one user's votes")
    for index, entry in enumerate(entries):
        _draw_entry(canvas, x, entry, _TOP + _ENTRY * (index + 0.5))
    keys: list[Key] = [("rect", "bar-canary", "the canary"), ("rect", "bar-others", "auxiliary users, on average")]
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
    bank, probes, canary = plane["bank"], plane["probes"], plane["canary"]
    first, second = (percent(part) for part in plane["explained"])
    words = (
        f"{len(bank)} entries of the bank, {len(probes)} probes and {len(canary)} records of the canary on the bank's "
        f"two principal axes, which hold {first} and {second} of the variance of the sample shown."
    )
    canvas = Canvas(key, _WIDE, _MAP_HEIGHT, f"Map of bank, probes and canary in {attack['name']}", words)
    canvas.rect((_EDGE, _TOP), _WIDE - 2 * _EDGE, _MAP_HEIGHT - _TOP - _EDGE, "map-frame", 4)
    place = _places([*bank, *probes, *canary])
    canvas.dots([place(point) for point in bank], "dot-bank")
    for point in probes:
        canvas.circle(place(point), 4.4, "mark-probe")
    canvas.dots([place(point) for point in canary], "dot-canary")
    keys: list[Key] = [("dots", "dot-bank", "bank entry"), ("dots", "dot-canary", "canary record")]
    canvas.keys(_EDGE + 6, 20, [*keys, ("circle", "mark-probe", "probe")] if probes else keys)
    return canvas.drawn(
        f"The axes are the principal ones of {len(bank)} entries of the bank, drawn by seed, and hold {first} and "
        f"{second} of their variance: near in the plane is not always near in the space where records are routed.",
        ("what", "first axis", "second axis"),
        [
            (what, f"{point[0]:.3f}", f"{point[1]:.3f}")
            for what, points in (("canary record", canary), ("probe", probes), ("bank entry", bank))
            for point in points
        ],
    )


def _places(points: list[list[float]]) -> Any:
    """Return the map from the plane to the canvas, the same scale on both axes, all points inside."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    width, height = _WIDE - 2 * _EDGE, _MAP_HEIGHT - _TOP - _EDGE
    unit = max((max(xs) - min(xs)) / width, (max(ys) - min(ys)) / height) * (1 + 2 * _ROOM) or 1.0
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    across = linear(-width / 2, width / 2, _EDGE, _WIDE - _EDGE)
    down = linear(-height / 2, height / 2, _MAP_HEIGHT - _EDGE, _TOP)
    return lambda point: (across((point[0] - middle[0]) / unit), down((point[1] - middle[1]) / unit))
