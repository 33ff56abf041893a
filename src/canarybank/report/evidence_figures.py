"""Draw an attack's evidence on one canary: ROC, densities of the score, votes, a map of the bank."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from canarybank.auditing import perfect_rates
from canarybank.mechanism import Mechanism
from canarybank.report.drawing import (
    SMALL,
    WIDTH,
    Drawn,
    add_dots,
    add_legend,
    add_text,
    in_style,
    set_log_scale,
    sheet,
    shortened,
)
from canarybank.report.text import UNKNOWN, clean, epsilon, percent, rate
from canarybank.report.themed import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["allowed", "density_figure", "equal_limits", "map_figure", "rates_sheet", "roc_figure", "vote_figure"]

_LOWEST, _STEPS = 1e-6, 121
_PLOT, _LEFT = 320.0, 58.0
_ENTRY, _WORDS = 46.0, 60
_ROOM = 0.05
LARGEST_EXPONENT = 700.0  # exp of more leaves the range of floating point; one of this already allows everything
GUESSING = "guessing"


@in_style
def roc_figure(attack: dict[str, Any], mechanism: Mechanism, exact: float, key: str) -> Drawn:
    """Draw an attack's ROC on the canary with the largest bound, with the frozen threshold and its counts.

    The region that differential privacy allows is that of Kairouz, Oh and Viswanath (2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        attack: One attack of a summary.
        mechanism: The mechanism, for its delta and for the curve of a perfect attack.
        exact: The exact epsilon of the mechanism.
        key: The figure's name, of which a page may hold one.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> summary = summarise_run(open_run("runs/demo"))
        >>> drawn = roc_figure(summary["attacks"][0], Mechanism(**summary["mechanism"]), summary["epsilon"], "roc")
        >>> drawn.title, drawn.columns
        ('ROC of ordinary', ('threshold', 'false positive rate', 'true positive rate'))
    """
    roc, canary = attack["evidence"]["roc"], attack["canaries"][attack["shown"]]
    fpr, tpr, threshold = (roc[name][roc["frozen"]] for name in ("fpr", "tpr", "threshold"))
    labels = ("allowed", GUESSING, "a perfect attack", "this attack", "frozen threshold", "counted, with ends")
    figure, axes = rates_sheet(labels, _LOWEST, (exact, mechanism.delta), labels[0])
    reach = max(8.0, *map(abs, roc["threshold"])) * max(1.0, 1 / mechanism.sigma)
    perfect = perfect_rates(mechanism)(np.linspace(-reach, reach, 4 * _STEPS))
    axes.plot(*_above(perfect), color=COLOURS["ink"], lw=1.3, ls=(0, (6, 4)), label=labels[2])
    axes.plot(*_above((roc["fpr"], roc["tpr"])), color=COLOURS["canary"], lw=2.2, label=labels[3])
    ring: dict[str, Any] = {"marker": "o", "ms": 11, "mfc": COLOURS["paper"], "mec": COLOURS["ink"], "mew": 1.6}
    axes.plot([max(fpr, _LOWEST)], [max(tpr, _LOWEST)], ls="", **ring, label=labels[4], clip_on=False)
    low, middle, high = np.maximum(np.transpose([canary["counted"]["fpr"], canary["counted"]["tpr"]]), _LOWEST)
    axes.errorbar(
        [middle[0]],
        [middle[1]],
        xerr=[[(middle - low)[0]], [(high - middle)[0]]],
        yerr=[[(middle - low)[1]], [(high - middle)[1]]],
        fmt="o",
        ms=5,
        color=COLOURS["canary"],
        label=labels[5],
        zorder=4,
    )
    add_legend(figure)
    return Drawn(
        key,
        f"ROC of {attack['name']}",
        f"Exact rates over all thresholds for canary {canary['id']}. The shaded region is what epsilon "
        f"{epsilon(exact)} allows: a point above it would be a violation. A perfect attack on this mechanism follows "
        "the dashed line.",
        f"True against false positive rate of the score on canary {canary['id']}. At the frozen threshold "
        f"{threshold:.3f} the false positive rate is {rate(fpr)} and the true positive rate {rate(tpr)}. No point may "
        f"lie above the region that epsilon {epsilon(exact)} at delta {mechanism.delta:g} allows.",
        figure,
        ("threshold", "false positive rate", "true positive rate"),
        _digits(roc["threshold"], roc["fpr"], roc["tpr"]),
    )


def _above(rates: tuple[ArrayLike, ArrayLike]) -> np.ndarray:
    """Return the points of a curve that the scale reaches."""
    points = np.array(rates)
    return points[:, points.min(axis=0) >= _LOWEST]


def rates_sheet(
    labels: Sequence[str],
    lowest: float,
    region: tuple[float, float] | None,
    name: str,
    axis_names: tuple[str, str] = ("false positive rate (canary absent)", "true positive rate (canary eligible)"),
) -> tuple["Figure", "Axes"]:
    """Return a figure of TPR against FPR with the region that (epsilon, delta) allows, and the line of guessing.

    Rates run from the lowest on in logarithms, unless that is 0.
    """
    figure, axes = sheet(_PLOT, labels, left=_LEFT)
    if lowest:
        set_log_scale(axes, lowest)
    else:
        axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    axes.set(xlabel=axis_names[0], ylabel=axis_names[1])
    grid = np.geomspace(lowest, 1.0, _STEPS) if lowest else np.linspace(0.0, 1.0, 201)
    if region is not None:
        upper = [allowed(float(value), *region) for value in grid]
        axes.fill_between(grid, lowest, upper, color=COLOURS["exact-soft"], lw=0, label=name, zorder=0.5)
        axes.plot(grid, upper, color=COLOURS["exact"], lw=1, alpha=0.6, label="_edge")
    axes.plot([lowest, 1.0], [lowest, 1.0], color=COLOURS["other"], lw=1, ls=(0, (2, 3)), label=GUESSING)
    return figure, axes


def allowed(fpr: float, exact: float, delta: float) -> float:
    """Return the largest true positive rate that (exact, delta)-differential privacy allows at a false positive rate.

    Both directions bind: TPR <= e^eps FPR + delta, and 1 - FPR <= e^eps (1 - TPR) + delta.
    """
    forward = math.exp(min(exact, LARGEST_EXPONENT)) * fpr + delta
    reverse = 1.0 - math.exp(-exact) * (1.0 - delta - fpr)
    return max(0.0, min(1.0, forward, reverse))


@in_style
def density_figure(attack: dict[str, Any], q: float, key: str) -> Drawn:
    """Draw the exact density of the score with the canary absent and participating, and the frozen threshold.

    Args:
        attack: One attack of a summary.
        q: The rate at which users take part.
        key: The figure's name, of which a page may hold one.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> summary = summarise_run(open_run("runs/demo"))
        >>> density_figure(summary["attacks"][0], summary["mechanism"]["q"], "density").columns
        ('score', 'absent', 'participating')
    """
    dense, roc = attack["evidence"]["densities"], attack["evidence"]["roc"]
    canary, scores = attack["canaries"][attack["shown"]], dense["score"]
    labels = {"absent": "canary absent", "participating": "canary participating"}
    figure, axes = sheet(_PLOT, (*labels.values(), "frozen threshold"), left=_LEFT)
    for (name, label), colour in zip(labels.items(), (COLOURS["exact"], COLOURS["canary"]), strict=True):
        axes.fill_between(scores, 0.0, dense[name], color=colour, alpha=0.14, lw=0)
        axes.plot(scores, dense[name], color=colour, lw=2, label=label)
    axes.axvline(dense["threshold"], color=COLOURS["ink"], lw=1.4, ls=(0, (4, 3)), label="frozen threshold")
    top = 1.08 * max(*dense["absent"], *dense["participating"], 1e-12)
    axes.set(xlim=(scores[0], scores[-1]), ylim=(0.0, top), xlabel="score (log-likelihood ratio)", ylabel="density")
    axes.locator_params(nbins=6)
    add_legend(figure)
    return Drawn(
        key,
        f"Score densities of {attack['name']}",
        f"Exact densities over the evaluation users. An eligible canary participates with probability {q:g}, so under "
        f"the test's second hypothesis only {100 * q:g}% of the mass comes from the second curve.",
        f"Density of the score on canary {canary['id']}, absent and participating, whose separation mu_eff is "
        f"{canary['mu_eff']:.3f}. The frozen threshold {dense['threshold']:.3f} is exceeded with probability "
        f"{rate(roc['fpr'][roc['frozen']])} when the canary is absent.",
        figure,
        ("score", "absent", "participating"),
        _digits(scores, dense["absent"], dense["participating"]),
    )


def _digits(*columns: list[float]) -> list[tuple[str, ...]]:
    return [tuple(f"{value:.4g}" for value in row) for row in zip(*columns, strict=True)]


@in_style
def vote_figure(attack: dict[str, Any], key: str) -> Drawn:
    """Draw two bars an entry: the canary's share of votes, and the mean share of the auxiliary users.

    Args:
        attack: One attack of a summary.
        key: The figure's name, of which a page may hold one.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> drawn = vote_figure(summarise_run(open_run("runs/demo"))["attacks"][0], "votes")
        >>> drawn.columns
        ('position', "canary's share", 'traffic', 'voters', 'text')
    """
    votes, entries = attack["evidence"]["votes"], attack["evidence"]["votes"]["entries"]
    share, traffic = percent(votes["share"]), percent(votes["traffic"])
    labels = {"share": "the canary", "traffic": "auxiliary users, on average"}
    height = _ENTRY * max(len(entries), 1)
    figure, axes = sheet(height, tuple(labels.values()))
    highest = max((max(entry["share"], entry["traffic"]) for entry in entries), default=0.0) or 1.0
    axes.set(xlim=(0.0, 100 * highest * 1.18), ylim=(height, 0.0), yticks=[], xlabel="% of one user's votes")
    for index, entry in enumerate(entries):
        text = f"#{entry['position']}" + (f"  {clean(entry['text'], _WORDS)}" if entry["text"] else "")
        add_text(axes, 0.0, _ENTRY * index + 13, shortened(text, WIDTH - 28, SMALL), size=SMALL)
    for (name, label), colour, down in zip(labels.items(), ("canary", "other"), (23.0, 34.0), strict=True):
        values = [100 * entry[name] for entry in entries]
        places = [_ENTRY * index + down for index in range(len(entries))]
        bars = axes.barh(places, values, 9.0, color=COLOURS[colour], label=label)
        axes.bar_label(bars, [percent(entry[name]) for entry in entries], padding=4, size=9.5)
    add_legend(figure)
    return Drawn(
        key,
        f"Votes of the canary in {attack['name']}",
        f"The {len(entries)} inspected entries with most of the canary's votes, of {votes['inspected']} inspected. All "
        f"inspected entries hold {share} of the canary's votes and on average {traffic} of an auxiliary user's: a "
        "quiet place is what an attacker looks for.",
        f"The canary gives {share} of its votes to the {votes['inspected']} inspected entries, and votes for "
        f"{votes['voted']} of them; the {votes['auxiliary']} auxiliary users give them {traffic} on average. Shown are "
        f"the {len(entries)} entries of {attack['name']} with most of the canary's votes.",
        figure,
        ("position", "canary's share", "traffic", "voters", "text"),
        [
            (e["position"], percent(e["share"]), percent(e["traffic"]), percent(e["voters"]), e["text"] or UNKNOWN)
            for e in entries
        ],
    )


@in_style
def map_figure(attack: dict[str, Any], key: str) -> Drawn:
    """Draw a sample of the bank, the probes and the canary's records on the bank's two principal axes.

    Args:
        attack: One attack of a summary.
        key: The figure's name, of which a page may hold one.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> drawn = map_figure(summarise_run(open_run("runs/demo"))["attacks"][1], "map")
        >>> sorted({row[0] for row in drawn.rows})
        ['bank entry', 'canary record', 'probe']
    """
    plane = attack["evidence"]["map"]
    points = {"canary record": plane["canary"], "probe": plane["probes"], "bank entry": plane["bank"]}
    canary, probes, bank = map(len, points.values())
    first, second = (percent(part) for part in plane["explained"])
    size = WIDTH - 24.0
    figure, axes = sheet(size, [name for name, places in points.items() if places], axis=8.0)
    axes.set(**equal_limits([point for places in points.values() for point in places]), xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=COLOURS["faint"])
    add_dots(axes, plane["bank"], "other", 4.0, alpha=0.6, label="bank entry")
    if probes:
        ring: dict[str, Any] = {"marker": "o", "ms": 9, "mfc": "none", "mec": COLOURS["exact"], "mew": 1.7, "ls": ""}
        axes.plot(*zip(*plane["probes"], strict=True), **ring, label="probe")
    add_dots(axes, plane["canary"], "canary", 6.5, label="canary record")
    add_legend(figure)
    return Drawn(
        key,
        f"Map of bank, probes and canary in {attack['name']}",
        f"The axes are the principal ones of {bank} entries of the bank, drawn by seed, and hold {first} and "
        f"{second} of their variance: near in the plane is not always near in the space where records are routed.",
        f"{bank} entries of the bank, {probes} probes and {canary} records of the canary on the bank's "
        f"two principal axes, which hold {first} and {second} of the variance of the sample shown.",
        figure,
        ("what", "first axis", "second axis"),
        [(what, f"{across:.3f}", f"{up:.3f}") for what, places in points.items() for across, up in places],
    )


def equal_limits(points: Sequence[Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Return limits of square axes that hold all points, with one unit for both, so that distances compare."""
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    reach = (1 + 2 * _ROOM) * max(float((high - low).max()), 1e-9) / 2
    return {
        name: (float(middle - reach), float(middle + reach))
        for name, middle in zip(("xlim", "ylim"), (low + high) / 2, strict=True)
    }
