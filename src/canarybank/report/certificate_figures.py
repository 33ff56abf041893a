"""Draw the figures of one run's certificate: scores in and out with the rule, the family's curve, and the ladder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.curve import perfect_roc
from canarybank.auditing.guessing import guess_scores
from canarybank.auditing.one_run import Certificate, RunDeclaration, RunEvidence, RunScores, RunShown
from canarybank.report.certificate import (
    COMPARED_COLUMNS,
    GUESSED_COLUMNS,
    RUN_EVIDENCE_COLUMNS,
    RUN_POWER_COLUMNS,
    Compared,
    compared_scores,
    least_confidence,
    taking_part,
)
from canarybank.report.drawing import Drawn, add_legend, in_style, sheet
from canarybank.report.evidence_figures import GUESSING, rates_sheet
from canarybank.report.figures import SHORTFALL, change_of, draw_ladder
from canarybank.report.tables import known_columns
from canarybank.report.text import UNKNOWN, decimal, epsilon, interval_text, rate, rung_text
from canarybank.report.themed import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["certificate_ladder", "certificate_parts", "curve_figures", "score_figures"]

_DEEP, _LEFT = 280.0, 58.0
_MOST_BINS, _POINTS, _LOWEST = 48, 201, 1e-6
_NAMED: dict[str, str] = {"between": "between canaries", "within": "within canaries"}
_DASHED, _LONG = (0, (4, 3)), (0, (6, 4))
_LINES: Final[dict[str, dict[str, Any]]] = {
    "out": {"color": COLOURS["exact"], "lw": 1.6},
    "in": {"color": COLOURS["canary"], "lw": 1.8},
    "bound": {"color": COLOURS["ink"], "lw": 1.4, "ls": _DASHED},
    "claim": {"color": COLOURS["alarm"], "lw": 1.6, "ls": _DASHED},
}
_LIMITS = {RunEvidence.ORDER_STATISTICS: "bound", RunEvidence.GUESSING: "out"}
_CURVES: Final[dict[RunEvidence, dict[str, Any]]] = {
    RunEvidence.KNOWN_COINS: {"color": COLOURS["canary"], "lw": 2.2},
    RunEvidence.ORDER_STATISTICS: {"color": COLOURS["exact"], "lw": 2.0},
}
_REGION = "claimed epsilon"
Rates = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A vertical line over a histogram."""

    at: float
    look: str
    name: str


def score_figures(
    declared: RunDeclaration, run: RunScores, found: Certificate, section: dict[str, Any]
) -> tuple[Drawn, ...]:
    """Draw the scores in and out of each comparison with its rule, and the scores that guesses are made by."""
    compared = [
        _draw_compared(each, row)
        for each, row in zip(compared_scores(declared, run, found), section["compared"], strict=True)
        if each.inside.size and each.out.size
    ]
    guessed = [each for each in found.shown if each.guesses]
    return (*compared, *([_draw_guesses(declared, run, guessed, section["guessed"])] if guessed else []))


@in_style
def _draw_compared(each: Compared, row: tuple[str, ...]) -> Drawn:
    found, name = each.found, _NAMED[each.found.way]
    marks = [
        _Mark(0.0, "out", f"mean out, {0:g}"),
        _Mark(found.difference, "in", f"mean in, {found.difference:.2f}"),
        _Mark(each.bound, "bound", f"at least, {each.bound:.2f}"),
    ]
    if math.isfinite(each.allowed):
        marks.append(_Mark(each.allowed, "claim", f"the claim allows, {each.allowed:.2f}"))
    counted = f"{found.included:,} in and {found.left_out:,} out"
    what = "means over the releases" if each.of_means else "scores"
    zero = "each canary's own mean out" if found.way == "within" else "the mean out"
    return Drawn(
        f"scores-{found.way}",
        f"Scores, {name}",
        f"Each {'canary' if each.of_means else 'canary and release'} has one score; {counted}. The rule: the means "
        "differ by what taking part adds. The claim is refuted where the dashed line of the bound lies to the right "
        "of what the claim allows.",
        f"Compared {name}: {what} of {counted}. The means differ by {found.difference:.3f}, and so by at least "
        f"{each.bound:.3f} at this confidence; the claim allows {each.allowed:.3f}.",
        _histogram((each.inside, each.out), marks, zero),
        COMPARED_COLUMNS,
        [row],
    )


@in_style
def _draw_guesses(
    declared: RunDeclaration, run: RunScores, guessed: Sequence[RunShown], rows: list[tuple[str, ...]]
) -> Drawn:
    scores = guess_scores(run.scores, q=declared.claim.q, designed=declared.guessed_by)
    marks, said = [], []
    for each in guessed:
        least, name = least_confidence(declared, run, each.guesses), f"counted, {each.evidence.value}"
        said.append(
            f"{each.evidence.value}: the {each.guesses:,} most confident guesses, from a confidence of {least:.3f}, "
            f"{each.correct:,} of them right"
        )
        marks += [_Mark(at, _LIMITS[each.evidence], name) for at in (-least, least)]
    inside, out = scores[run.eligible], scores[~run.eligible]
    return Drawn(
        "scores-guessed",
        "Scores of guesses",
        'The rule: a canary whose score is above 0 is guessed to be "in", others "out"; the further from 0, the more '
        "confident. Only guesses at or beyond the lines count; their number was fixed before the run.",
        f"Scores of {inside.size:,} canaries in and {out.size:,} out. {'; '.join(said)}.",
        _histogram((inside, out), marks),
        GUESSED_COLUMNS,
        rows,
    )


def _histogram(
    groups: tuple[NDArray[np.float64], NDArray[np.float64]], marks: Sequence[_Mark], zero: str = ""
) -> "Figure":
    """Draw two groups of scores as shares of each in equal bins, and lines over them; a line outside is left out."""
    inside, out = groups
    together = np.concatenate(groups) if inside.size + out.size else np.zeros(1)
    low, high = float(together.min()), float(together.max())
    room = max(0.02 * (high - low), 1e-6)
    if zero:  # a comparison shows its rule, wherever it lies
        low, high = (end(together_end, *(mark.at for mark in marks)) for end, together_end in ((min, low), (max, high)))
    low, high = low - room, high + room
    marks = [mark for mark in marks if low <= mark.at <= high]
    edges = np.linspace(low, high, min(_MOST_BINS, max(8, math.ceil(3 * together.size ** (1 / 3)))) + 1)
    shares = {name: 100 * np.histogram(of, edges)[0] / max(of.size, 1) for name, of in (("out", out), ("in", inside))}
    figure, axes = sheet(_DEEP, [*shares, *dict.fromkeys(mark.name for mark in marks)], left=_LEFT)
    for name, share in shares.items():
        axes.stairs(share, edges, fill=True, color=_LINES[name]["color"], alpha=0.14, label=f"_{name}")
        axes.stairs(share, edges, label=name, **_LINES[name])
    for mark in marks:
        axes.axvline(mark.at, **_LINES[mark.look], label=mark.name)
    top = 1.08 * max(float(share.max()) for share in shares.values()) or 1.0
    x_name = f"score above {zero}" if zero else "score of the guess (log-likelihood ratio)"
    axes.set(xlim=(low, high), ylim=(0.0, top), xlabel=x_name, ylabel="% of scores in, % of scores out")
    axes.locator_params(nbins=6)
    add_legend(figure)
    return figure


@dataclass(frozen=True, slots=True, eq=False)
class _Plot:
    """A plane of true against false positive rates: what is asked, which curves are in it, and what was counted."""

    key: str
    title: str
    caption: str
    names: tuple[str, str]
    claimed: Rates | None
    lower: dict[RunEvidence, Rates]
    counted: Rates | None
    region: tuple[float, float] | None
    lowest: float


def curve_figures(declared: RunDeclaration, run: RunScores, found: Certificate) -> tuple[Drawn, ...]:
    """Draw the claimed curve, the one at each lower bound, and counted rates: where scores live, and for the whole run.

    Where coins are known, scores are counted release by release, given who took part.
    """
    claim, took = found.claim, taking_part(declared, run)
    by_release = took is not None and claim.q < 1
    whole = _curves(declared, found, by_release=False)
    in_or_out = ("false positive rate (canary out)", "true positive rate (canary in)")
    over = f"{claim.rounds} release{'s' * (claim.rounds > 1)}"
    if by_release:
        assert took is not None  # noqa: S101, by_release says so
        counted, seen = _counted(run.scores.ravel(), took.ravel()), _curves(declared, found, by_release=True)
        first = "One release, given who took part", ("false positive rate (not in it)", "true positive rate (in it)")
        about = "Counted are the scores of all canaries in all releases, in against out, over all thresholds."
    else:
        scores = guess_scores(run.scores, q=claim.q, designed=declared.guessed_by)
        counted, seen = _counted(scores, run.eligible), whole
        first = f"All of the run, {over}", in_or_out
        about = "Counted are the canaries in against those out, over all thresholds of their scores."
    region = (claim.epsilon, claim.delta)
    plots = [
        _Plot("seen", first[0], about, first[1], *seen, counted, None if by_release else region, 0.0),
        _Plot(
            "family",
            f"All of the run, {over}, in logarithms",
            "What a rule may do at most, for a user who is in against one who is not, over the whole run.",
            in_or_out,
            *whole,
            None if by_release else counted,
            region,
            _LOWEST,
        ),
    ]
    return tuple(_draw_plot(plot, found) for plot in plots)


def _curves(
    declared: RunDeclaration, found: Certificate, *, by_release: bool
) -> tuple[Rates | None, dict[RunEvidence, Rates]]:
    """Return the claimed curve and those at the lower bounds: of one release given the coins, or of the whole run."""
    claim = found.claim
    if claim.mechanism is None:
        return None, {}
    given = (1.0, 1) if by_release else (claim.q, claim.rounds)
    lower = {}
    for each in found.shown:
        q = 1.0 if by_release else claim.q if each.rate is None else each.rate
        if each.shift and q > 0:
            lower[each.evidence] = perfect_roc(each.shift, q, given[1])
    return perfect_roc(declared.limit, *given), lower


def _counted(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> Rates | None:
    """Return the rates of all thresholds, from high to low; None where a group is empty."""
    if labels.all() or not labels.any():
        return None
    ranked = labels[np.argsort(-scores, kind="stable")]
    fpr, tpr = (np.concatenate([[0.0], np.cumsum(of) / of.sum()]) for of in (~ranked, ranked))
    kept = np.unique(np.linspace(0, len(fpr) - 1, 2 * _POINTS).astype(int))
    return fpr[kept], tpr[kept]


@in_style
def _draw_plot(plot: _Plot, found: Certificate) -> Drawn:
    claim = found.claim
    rows = [
        (rate(float(at)), *(_at(curve, float(at)) for curve in (plot.claimed, *plot.lower.values(), plot.counted)))
        for at in (1e-4, 1e-3, 0.01, 0.05, 0.1, 0.25, 0.5)
    ]
    columns = (
        "false positive rate",
        "the claim allows",
        *(f"at the bound, {kind.value}" for kind in plot.lower),
        "counted",
    )
    example = "; ".join(f"{name} {value}" for name, value in zip(columns, rows[4], strict=True))
    drawn: dict[str, tuple[Rates | None, dict[str, Any]]] = {
        "claimed curve": (plot.claimed, {"color": COLOURS["alarm"], "lw": 1.6, "ls": _LONG}),
        **{f"at the bound, {kind.value}": (curve, _CURVES[kind]) for kind, curve in plot.lower.items()},
        "counted": (plot.counted, {"color": COLOURS["ink"], "lw": 1.4}),
    }
    known = {name: (curve, look) for name, (curve, look) in drawn.items() if curve is not None}
    labels = [*([] if plot.region is None else [_REGION]), GUESSING, *known]
    figure, axes = rates_sheet(labels, plot.lowest, plot.region, _REGION, plot.names)
    for name, (curve, look) in known.items():
        points = np.array(curve)
        axes.plot(*points[:, points.min(axis=0) >= plot.lowest], **look, label=name)
    add_legend(figure)
    said = [f"The shaded region is what the claim allows: {claim}."]
    if plot.claimed is not None:
        said = [f"The dashed line is what the claimed mechanism allows ({claim})."]
    if plot.lower:
        said.append("The system is shown to be at or above the line at the bound.")
    words = f"{plot.title}: true against false positive rate. For example, {example}."
    return Drawn(plot.key, plot.title, " ".join([*said, plot.caption]), words, figure, columns, rows)


def _at(curve: Rates | None, fpr: float) -> str:
    """Return the true positive rate of a curve at a false positive rate; a dash where there is no curve."""
    if curve is None:
        return UNKNOWN
    fpr_of, tpr_of = (np.maximum.accumulate(each) for each in curve)
    return rate(float(np.interp(fpr, fpr_of, tpr_of)))


def certificate_ladder(rungs: list[dict[str, Any]]) -> Drawn:
    """Draw the ladder from the claim to what one run showed; each expected bound is compared with the attack."""
    known: dict[str, dict[str, Any]] = {}
    pairs: list[tuple[dict[str, Any] | None, dict[str, Any]]] = []
    for rung in rungs:
        above = {"accounted": (), "mechanism": ("accounted",), "attack": ("mechanism",), "observed": ("expected",)}
        names = above.get(rung["name"], ("attack", "accounted"))
        pairs.append((next((known[name] for name in names if name in known), None), rung))
        known[rung["name"]] = rung
    steps = [_step(above, rung) for above, rung in pairs]
    named = ", ".join(
        f"{rung['name']} {rung['note']} {rung_text(rung)}"
        + (f" ({interval_text(rung)})" if rung["name"] == "expected" else "")
        for rung in rungs
    )
    return Drawn(
        "run-ladder",
        "The gap ladder of one run",
        "Each rung is an epsilon of all releases together, and the pale part is the step down from the rung that it "
        "is compared with, with its cause. A whisker holds 90% of the bounds that such runs would give; observed is "
        "what this run gave, at that evidence's share of alpha.",
        f"Epsilons from claim to measurement: {named}.",
        draw_ladder(pairs, steps),
        ("rung", "of", "epsilon", "low", "high", "step", "where it comes from"),
        [
            (
                rung["name"],
                rung["note"],
                rung_text(rung),
                epsilon(rung["low"]),
                epsilon(rung["high"]),
                decimal(change_of(above, rung), "+"),
                rung["source"],
            )
            for above, rung in pairs
        ],
    )


_STEPS = {
    "mechanism": "the accountant's slack",
    "attack": "what these canaries leave",
    "expected": "what one run costs",
    "observed": "the luck of this run",
}


def _step(above: dict[str, Any] | None, rung: dict[str, Any]) -> str:
    change = change_of(above, rung)
    if above is None or change is None:
        return str(rung["note"])
    size = f"{abs(change):.3f}"
    cause = "the claim is refuted" if rung.get("refuted") else _STEPS[rung["name"]]
    if rung["name"] == "mechanism" and change > 0:
        cause = SHORTFALL
    return f"{'' if float(size) == 0 else '+' if change > 0 else '−'}{size}  {cause}"


def certificate_parts(
    declared: RunDeclaration, run: RunScores, found: Certificate, section: dict[str, Any]
) -> dict[str, Any]:
    """Return the tables and figures of a certificate, as its template takes them."""
    return {
        "evidence": known_columns(RUN_EVIDENCE_COLUMNS, section["evidence"]),
        "powers": (RUN_POWER_COLUMNS, section["powers"]),
        "scores": score_figures(declared, run, found, section),
        "curves": curve_figures(declared, run, found),
        "ladder": certificate_ladder(section["rungs"]),
    }
