"""Draw the figures of one run's certificate: scores in and out with the rule, the family's curve, and the ladder."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from canarybank.report.evidence_figures import allowed
from canarybank.report.figures import SHORTFALL, change_of, draw_ladder
from canarybank.report.svg import Canvas, Drawn, Key, Scale, key_lines, linear, log, text_width
from canarybank.report.tables import known_columns
from canarybank.report.text import UNKNOWN, decimal, epsilon, interval_text, rate, rung_text

__all__ = ["certificate_ladder", "certificate_parts", "curve_figures", "score_figures"]

_WIDTH, _LEFT, _RIGHT, _DEEP, _BELOW = 440.0, 62.0, 428.0, 300.0, 50.0
_LINE, _KEY, _HEIGHT = 18.0, 18.0, 356.0
_MOST_BINS, _POINTS, _LOWEST = 48, 201, 1e-6
_NAMED: dict[str, str] = {"between": "between canaries", "within": "within canaries"}
_LIMITS = {RunEvidence.ORDER_STATISTICS: "limit-rule", RunEvidence.GUESSING: "limit-exact"}
_CURVES = {RunEvidence.KNOWN_COINS: "curve-attack", RunEvidence.ORDER_STATISTICS: "curve-absent"}
Rates = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A vertical line over a histogram."""

    at: float
    css: str
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


def _draw_compared(each: Compared, row: tuple[str, ...]) -> Drawn:
    found, name = each.found, _NAMED[each.found.way]
    marks = [
        _Mark(0.0, "limit-exact", f"mean out, {0:g}"),
        _Mark(found.difference, "whisker-observed", f"mean in, {found.difference:.2f}"),
        _Mark(each.bound, "limit-rule", f"at least, {each.bound:.2f}"),
    ]
    if math.isfinite(each.allowed):
        marks.append(_Mark(each.allowed, "limit-claim", f"the claim allows, {each.allowed:.2f}"))
    counted = f"{found.included:,} in and {found.left_out:,} out"
    what = "means over the releases" if each.of_means else "scores"
    words = (
        f"Compared {name}: {what} of {counted}. The means differ by {found.difference:.3f}, and so by at least "
        f"{each.bound:.3f} at this confidence; the claim allows {each.allowed:.3f}."
    )
    zero = "each canary's own mean out" if found.way == "within" else "the mean out"
    canvas = _histogram(f"scores-{found.way}", f"Scores, {name}", words, (each.inside, each.out), marks, zero)
    return canvas.drawn(
        f"Each {'canary' if each.of_means else 'canary and release'} has one score; {counted}. The rule: the means "
        "differ by what taking part adds. The claim is refuted where the dashed line of the bound lies to the right "
        "of what the claim allows.",
        COMPARED_COLUMNS,
        [row],
    )


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
    words = (
        f"Scores of {int(run.eligible.sum()):,} canaries in and {int((~run.eligible).sum()):,} out. {'; '.join(said)}."
    )
    inside, out = scores[run.eligible], scores[~run.eligible]
    canvas = _histogram("scores-guessed", "Scores of guesses", words, (inside, out), marks)
    return canvas.drawn(
        'The rule: a canary whose score is above 0 is guessed to be "in", others "out"; the further from 0, the more '
        "confident. Only guesses at or beyond the lines count; their number was fixed before the run.",
        GUESSED_COLUMNS,
        rows,
    )


def _histogram(
    key: str,
    title: str,
    words: str,
    groups: tuple[NDArray[np.float64], NDArray[np.float64]],
    marks: Sequence[_Mark],
    zero: str = "",
) -> Canvas:
    """Draw two groups of scores as shares of each in equal bins, and lines over them; a line outside is left out."""
    inside, out = groups
    together = np.concatenate(groups) if inside.size + out.size else np.zeros(1)
    low, high = float(together.min()), float(together.max())
    room = max(0.02 * (high - low), 1e-6)
    if zero:  # a comparison shows its rule, wherever it lies
        low, high = (end(together_end, *(mark.at for mark in marks)) for end, together_end in ((min, low), (max, high)))
    low, high = low - room, high + room
    marks = [mark for mark in marks if low <= mark.at <= high]
    bins = min(_MOST_BINS, max(8, math.ceil(3 * together.size ** (1 / 3))))
    edges = np.linspace(low, high, bins + 1)
    shares = [np.histogram(group, edges)[0] / max(group.size, 1) for group in (out, inside)]
    keys: list[Key] = [("line", "curve-participating", "in"), ("line", "curve-absent", "out")]
    keys += dict.fromkeys(("limit", mark.css, mark.name) for mark in marks)
    lines = key_lines(keys, _WIDTH - 8)
    top = 12 + _LINE * len(lines)
    canvas = Canvas(key, _WIDTH, top + _DEEP + _BELOW, title, words)
    x = linear(low, high, _LEFT, _RIGHT)
    y = linear(0.0, 108 * max(float(share.max()) for share in shares) or 1.0, top + _DEEP, top, count=4)
    x_name = f"score above {zero}" if zero else "score of the guess (log-likelihood ratio)"
    canvas.axes((_LEFT, top, _RIGHT, top + _DEEP), x, x_name, y, "% of scores in, % of scores out")
    for share, name in zip(shares, ("absent", "participating"), strict=True):
        steps = [(x(at), y(100 * value)) for i, value in enumerate(share.tolist()) for at in edges[i : i + 2].tolist()]
        canvas.curve([(_LEFT, top + _DEEP), *steps, (_RIGHT, top + _DEEP)], f"area-{name}", closed=True)
        canvas.curve(steps, f"curve-{name}")
    for mark in marks:
        canvas.line((x(mark.at), top), (x(mark.at), top + _DEEP), mark.css)
    for row, line in enumerate(lines):
        canvas.keys(4.0, 14 + _LINE * row, line)
    return canvas


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
    x: Scale
    y: Scale
    lowest: float


def curve_figures(declared: RunDeclaration, run: RunScores, found: Certificate) -> tuple[Drawn, ...]:
    """Draw the claimed curve, the one at each lower bound, and counted rates: where scores live, and for the whole run.

    Where coins are known, scores are counted release by release, given who took part.
    """
    claim, took = found.claim, taking_part(declared, run)
    by_release = took is not None and claim.q < 1
    plain = linear(0.0, 1.0, _LEFT, _RIGHT), linear(0.0, 1.0, _HEIGHT, 14.0)
    small = log(_LOWEST, 1.0, _LEFT, _RIGHT), log(_LOWEST, 1.0, _HEIGHT, 14.0)
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
        _Plot("seen", first[0], about, first[1], *seen, counted, None if by_release else region, *plain, 0.0),
        _Plot(
            "family",
            f"All of the run, {over}, in logarithms",
            "What a rule may do at most, for a user who is in against one who is not, over the whole run.",
            in_or_out,
            *whole,
            None if by_release else counted,
            region,
            *small,
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


def _draw_plot(plot: _Plot, found: Certificate) -> Drawn:
    x, y, claim = plot.x, plot.y, found.claim
    grid = np.geomspace(_LOWEST, 1.0, _POINTS)
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
    words = f"{plot.title}: true against false positive rate. For example, {example}."
    canvas = Canvas(plot.key, _WIDTH, _HEIGHT + _BELOW, plot.title, words)
    keys: list[Key] = []
    if plot.region is not None:
        upper = [(x(at), y(allowed(at, *plot.region))) for at in (plot.lowest, *grid.tolist())]
        canvas.curve([(_LEFT, _HEIGHT), *upper, (_RIGHT, _HEIGHT)], "region", closed=True)
        canvas.curve(upper, "region-edge")
        keys.append(("rect", "region", "claimed epsilon"))
    canvas.axes((_LEFT, 14.0, _RIGHT, _HEIGHT), x, plot.names[0], y, plot.names[1])
    canvas.line((x(plot.lowest), y(plot.lowest)), (x(1.0), y(1.0)), "chance")
    drawn: list[tuple[Rates | None, str, str]] = [
        (plot.claimed, "curve-claim", "claimed curve"),
        *((curve, _CURVES[kind], f"at the bound, {kind.value}") for kind, curve in plot.lower.items()),
        (plot.counted, "curve-counted", "counted"),
    ]
    for curve, css, name in drawn:
        if curve is not None:
            points = [(x(f), y(t)) for f, t in zip(*(each.tolist() for each in curve), strict=True)]
            inside = [point for point, f, t in zip(points, *curve, strict=True) if min(f, t) >= plot.lowest]
            canvas.curve(inside, css)
            keys.append(("line", css, name))
    keys.append(("line", "chance", "guessing"))
    _legend(canvas, keys)
    said = [f"The shaded region is what the claim allows: {claim}."]
    if plot.claimed is not None:
        said = [f"The dashed line is what the claimed mechanism allows ({claim})."]
    if plot.lower:
        said.append("The system is shown to be at or above the line at the bound.")
    return canvas.drawn(" ".join([*said, plot.caption]), columns, rows)


def _at(curve: Rates | None, fpr: float) -> str:
    """Return the true positive rate of a curve at a false positive rate; a dash where there is no curve."""
    if curve is None:
        return UNKNOWN
    fpr_of, tpr_of = (np.maximum.accumulate(each) for each in curve)
    return rate(float(np.interp(fpr, fpr_of, tpr_of)))


def _legend(canvas: Canvas, keys: Sequence[Key]) -> None:
    width = 46 + max(text_width(name, "key") for _, _, name in keys)
    left, top = _RIGHT - width + 2, _HEIGHT - _KEY * len(keys) - 8
    canvas.rect((left - 8, top - 4), width, _KEY * len(keys) + 8, "legend", 4)
    for row, key in enumerate(keys):
        canvas.key_at((left, top + 12 + _KEY * row), key, room=32)


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
    words = f"Epsilons from claim to measurement: {named}."
    return draw_ladder("The gap ladder of one run", words, pairs, steps, "run-ladder").drawn(
        "Each rung is an epsilon of all releases together, and the pale part is the step down from the rung that it "
        "is compared with, with its cause. A whisker holds 90% of the bounds that such runs would give; observed is "
        "what this run gave, at that evidence's share of alpha.",
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
