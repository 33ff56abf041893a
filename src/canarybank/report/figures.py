"""Draw the epsilons of attacks: values of a summary in, a figure with its alternatives out.

An attack has its ladder; all attacks together have an overview and their canaries. ``evidence_figures`` draws what an
attack saw, ``evolution_figures`` what an evolution did.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from canarybank.report.drawing import (
    BOLD,
    SMALL,
    WIDTH,
    Drawn,
    add_legend,
    add_text,
    in_style,
    is_drawable,
    sheet,
    shortened,
    text_width,
)
from canarybank.report.tables import ATTACK_COLUMNS, CANARY_COLUMNS, attack_rows, canary_rows, known_columns
from canarybank.report.text import decimal, epsilon, interval_text, rung_text
from canarybank.report.themed import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_RUNG, _VALUE, _CERTAIN = 58.0, 62.0, 2e-3
_RUNG_COLOURS = {"accounted": "other", "expected": "canary", "observed": "canary"}
_ATTACK, _NAME, _CANARY, _GAP = 42.0, 20.0, 14.0, 8.0
_DRAWN = 20
"""Of more canaries an attack only those with the largest bounds are drawn; the table holds all."""
_WIDEST = 1.6
"""The scale runs to this many times the mechanism's epsilon; an interval that is wider ends in an arrow."""
_ENDLESS = 2.0
"""How far the scale runs at least where the mechanism has no finite epsilon."""


@in_style
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
    middle_rungs = (
        "The upper four are computed; the whisker of the fifth holds 90% of the bounds that trials would give; the "
        "last is what they gave."
        if "attack" in attack["rungs"]
        else "Between the mechanism and the bound nothing is computed: the system states no law of its releases."
    )
    return Drawn(
        "ladder",
        f"The gap ladder of {attack['name']}",
        "Each rung is an epsilon, and the pale part is the step down from the rung above it, with its cause. "
        f"{middle_rungs}",
        _ladder_words(rungs),
        draw_ladder(pairs, steps),
        ("rung", "epsilon", "low", "high", "step", "where it comes from"),
        tuple(
            (
                rung["name"],
                rung_text(rung),
                epsilon(rung["low"]),
                epsilon(rung["high"]),
                decimal(change_of(above, rung), "+"),
                rung["source"],
            )
            for above, rung in pairs
        ),
    )


@in_style
def draw_ladder(
    pairs: Sequence[tuple[dict[str, Any] | None, dict[str, Any]]],
    steps: Sequence[str],
) -> "Figure":
    """Draw rungs, each after the one that it is compared with, and in words what lies between the two."""
    figure, axes = sheet(_RUNG * len(pairs))
    axes.set(xlim=(0.0, top_of(rung for _, rung in pairs) * 1.02), xlabel="epsilon")
    _rows_of_pixels(axes, _RUNG * len(pairs))
    for index, ((above, rung), step) in enumerate(zip(pairs, steps, strict=True)):
        _draw_rung(axes, above, rung, step, _RUNG * index)
    return figure


def top_of(rungs: Iterable[dict[str, Any]]) -> float:
    """Return the largest finite epsilon among rungs, or 1 where there is none."""
    values = [rung[end] for rung in rungs for end in ("epsilon", "high")]
    return max([value for value in values if math.isfinite(value)] or [1.0]) or 1.0


def change_of(above: dict[str, Any] | None, rung: dict[str, Any]) -> float | None:
    """Return how far a rung lies above the one before it; None where either is infinite, or there is none."""
    if above is None or not math.isfinite(above["epsilon"]) or not math.isfinite(rung["epsilon"]):
        return None
    return float(rung["epsilon"] - above["epsilon"])


def _rows_of_pixels(axes: "Axes", height: float) -> None:
    """Let the axes have rows instead of a vertical scale: heights are pixels from the top."""
    axes.set(ylim=(height, 0.0), yticks=[])
    axes.spines["left"].set_color(COLOURS["faint"])


def _draw_rung(axes: "Axes", above: dict[str, Any] | None, rung: dict[str, Any], step: str, top: float) -> None:
    name, value, change = rung["name"], rung["epsilon"], change_of(above, rung)
    note, after = rung.get("note") or _NAMES[name], text_width(name, bold=True) + 8.0
    bar: dict[str, Any] = {"height": 14.0}
    add_text(axes, 0.0, top + 14, name, **BOLD)
    add_text(
        axes, after, top + 14, shortened(note, WIDTH - after - _VALUE - 26, SMALL), size=SMALL, color=COLOURS["soft"]
    )
    add_text(axes, -1.0, top + 14, rung_text(rung) if math.isfinite(value) else "unbounded", **BOLD)
    if not math.isfinite(value):
        return
    add_text(axes, 0.0, top + 48, step, size=SMALL, color=COLOURS["soft"])
    if change is not None and change < 0:
        axes.barh(top + 27, -change, left=value, color=COLOURS["lost"], label="_lost", **bar)
    kind = rung.get("css", name)
    colour = COLOURS[_RUNG_COLOURS.get(kind, "exact")]
    axes.barh(top + 27, value, color=colour, alpha=0.55 if kind == "expected" else 1.0, label=f"_{kind}", **bar)
    if name == "expected" and rung["high"] - rung["low"] > _CERTAIN:
        ends = [[value - rung["low"]], [rung["high"] - value]]
        axes.errorbar([value], [top + 27], xerr=ends, fmt="none", color=COLOURS["ink"], elinewidth=1.5, capsize=5)


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


@in_style
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
    limits = {"exact, mechanism": mechanism}
    if epsilon(accounted) != epsilon(mechanism):
        limits["claim"] = accounted
    finite = {name: limit for name, limit in limits.items() if math.isfinite(limit)}
    high = max([*finite.values(), *(top_of(attack["rungs"].values()) for attack in attacks)]) * 1.06
    labels = ("observed bound", "expected, 5% to 95%", "exact, frozen rule", "exact, attack", *finite)
    figure, axes = _epsilon_rows(_ATTACK * len(attacks), high, labels, finite)
    for index, attack in enumerate(attacks):
        _row_name(axes, attack["name"], _ATTACK * index)
        if (expected := attack["rungs"].get("expected")) is not None and math.isfinite(expected["high"]):
            width, y = expected["high"] - expected["low"], _mark_height(index)
            axes.barh(y, width, 11.0, expected["low"], color=COLOURS["line"], label=labels[1], zorder=2)
    known = [{name: rung["epsilon"] for name, rung in attack["rungs"].items()} for attack in attacks]
    heights = [_mark_height(index) for index in range(len(attacks))]
    _marks(axes, heights, [{key: each.get(key) for key in ("rule", "attack", "observed")} for each in known], 7.0)
    add_legend(figure)
    return Drawn(
        "overview",
        "Every attack's ladder on one scale",
        "A dot is the bound that trials gave, the grey band behind it holds 90% of the bounds that such trials would "
        "give. A diamond is the exact epsilon of the attack, a ring that of its frozen rule; neither needs a trial.",
        f"The exact epsilon of the mechanism is {epsilon(mechanism)}. By attack: {by_attack}.",
        figure,
        *known_columns(ATTACK_COLUMNS, rows),
    )


def _mark_height(index: int) -> float:
    return _ATTACK * index + _NAME + 9


@in_style
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
    drawn = {attack["name"]: _largest(attack["canaries"]) for attack in attacks}
    tops, heights, y = dict[str, float](), list[float](), 0.0
    for name, canaries in drawn.items():
        tops[name] = y
        heights += [y + _NAME + _CANARY * (index + 0.5) for index in range(len(canaries))]
        y += _NAME + _CANARY * len(canaries) + _GAP
    limits = {"exact, mechanism": mechanism} if math.isfinite(mechanism) else {}
    high = (
        max([mechanism * _WIDEST if limits else _ENDLESS, *(1.1 * bound for of in bounds.values() for bound in of)])
        or 1.0
    )
    labels = ("bound to upper end", "lower bound", "exact, frozen rule", "exact, attack", *limits)
    figure, axes = _epsilon_rows(y, high, labels, limits)
    for name, top in tops.items():
        _row_name(axes, name, top)
    every = [canary for canaries in drawn.values() for canary in canaries]
    lows, uppers = ([canary["bound"]["epsilon"] for canary in every], [canary["upper"] for canary in every])
    ends = [min(upper, high) for upper in uppers]
    axes.hlines(heights, lows, ends, color=COLOURS["canary"], lw=1.8, label=labels[0])
    leaving = [height for height, upper in zip(heights, uppers, strict=True) if upper > high]
    axes.plot([high] * len(leaving), leaving, ">", color=COLOURS["canary"], clip_on=False, label="_leaving")
    values = [
        {
            "rule": None if canary["rule"] is None else canary["rule"]["lower"],
            "attack": None if canary["supremum"] is None else canary["supremum"]["lower"],
            "observed": canary["bound"]["epsilon"],
        }
        for canary in every
    ]
    _marks(axes, heights, values, 5.0, observed=labels[1])
    add_legend(figure)
    return Drawn(
        "canaries",
        "Epsilon of each canary",
        "One line a canary: from the lower bound that its trials gave (the dot) to the upper end for the same frozen "
        "rule, each end at that canary's share of alpha. The ring is the rule's exact epsilon, which the line should "
        "hold; the diamond is that of the attack at its best threshold. An arrow leaves the scale.",
        f"Lower bounds on epsilon over the canaries of each attack: {ranges}.",
        figure,
        *known_columns(CANARY_COLUMNS, canary_rows(attacks)),
    )


def _epsilon_rows(
    height: float, high: float, labels: Sequence[str], limits: dict[str, float]
) -> tuple["Figure", "Axes"]:
    """Return a figure of rows over one axis, that of epsilon, with the limits on it."""
    figure, axes = sheet(height, labels)
    axes.set(xlim=(0.0, high), xlabel="epsilon")
    _rows_of_pixels(axes, height)
    for name, limit in limits.items():
        colour, dashes = ("alarm", (0, (5, 3))) if name == "claim" else ("exact", "-")
        axes.axvline(limit, color=COLOURS[colour], ls=dashes, lw=1.6, label=name)
    return figure, axes


def _row_name(axes: "Axes", name: str, top: float) -> None:
    add_text(axes, 4.0, top + 15, shortened(name, WIDTH - 34, bold=True), **BOLD)


def _largest(canaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the canaries that are drawn, in their order."""
    ranks = sorted(range(len(canaries)), key=lambda index: -canaries[index]["bound"]["epsilon"])[:_DRAWN]
    return [canaries[index] for index in sorted(ranks)]


def _marks(
    axes: "Axes",
    heights: Sequence[float],
    values: Sequence[dict[str, float | None]],
    size: float,
    observed: str = "observed bound",
) -> None:
    """Draw rings, diamonds and dots: exact at the frozen rule, exact of the attack, and what trials showed."""
    looks: dict[str, tuple[str, dict[str, Any]]] = {
        "rule": ("exact, frozen rule", {"marker": "o", "mfc": COLOURS["paper"], "mec": COLOURS["ink"], "mew": 1.5}),
        "attack": ("exact, attack", {"marker": "D", "color": COLOURS["exact"], "ms": 0.85 * size}),
        "observed": (observed, {"marker": "o", "color": COLOURS["canary"]}),
    }
    for kind, (label, look) in looks.items():
        known = [(of[kind], y) for of, y in zip(values, heights, strict=True) if is_drawable(of[kind])]
        places = list(zip(*known, strict=True)) or [(), ()]
        axes.plot(*places, ls="", **({"ms": size} | look), label=label, clip_on=False, zorder=4)
