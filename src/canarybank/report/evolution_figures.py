"""Draw an evolution: epsilon in theory, exactly and as observed against the round, and what the text is worth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from canarybank.report.numbers import epsilon
from canarybank.report.svg import Canvas, Figure, Frame, Scale, linear

__all__ = ["epsilon_figure", "utility_figure"]

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 820.0, 66.0, 600.0, 16.0, 300.0
_LABEL = _RIGHT + 18
_LEAST_GAP = 16.0


@dataclass(frozen=True, slots=True)
class _Line:
    """One curve: a name, its points, and how they are drawn."""

    name: str
    points: tuple[tuple[float, float], ...]
    css: str
    mark: str = "bar"


def epsilon_figure(summary: dict[str, Any]) -> Figure:
    """Draw epsilon against the round: what was spent, and what the audit could and did show of it."""
    rounds, audit = summary["rounds"], summary["audit"]
    lines = [_Line("theory", _pairs(rounds, "round", "epsilon"), "curve-perfect", "mark-rule")]
    if audit is not None:
        prefixes = audit["prefixes"]
        lines += [
            _Line("exact, of the attack", _pairs(prefixes, "rounds", "exact"), "curve-absent"),
            _Line("observed bound", _pairs(prefixes, "rounds", "observed"), "curve-attack", "mark-observed"),
        ]
    else:
        lines.append(_Line("added up", _pairs(rounds, "round", "added_up"), "chance", "bar-others"))
    top = max([value for line in lines for _, value in line.points], default=1.0)
    title = "Epsilon against the round"
    canvas = Canvas("epsilon", _WIDTH, _TOP + _HEIGHT + 44, title, _said(lines))
    x, y = _axes(canvas, len(rounds), 1, top * 1.06, "after round", "epsilon")
    for prefix in audit["prefixes"] if audit is not None else ():
        _whisker(canvas, x, y, prefix)
    _draw(canvas, x, y, lines)
    return Figure(
        key="epsilon",
        title=title,
        caption=_epsilon_caption(summary),
        alternative=_said(lines),
        svg=canvas.markup(),
        columns=_EPSILON_COLUMNS if audit is not None else _EPSILON_COLUMNS[:3],
        rows=tuple(_epsilon_row(each, audit) for each in rounds),
    )


def utility_figure(summary: dict[str, Any]) -> Figure | None:
    """Draw what every population is worth, with probes and without; None where nothing was measured."""
    measured, plain = summary["utility"], summary["plain"]
    if measured is None:
        return None
    has_mauve = measured["figures"][0]["mauve"] is not None
    chief = "mauve" if has_mauve else "recall"
    name = "MAUVE" if has_mauve else "recall"
    lines = [_Line(f"{name}, this run", _pairs(measured["figures"], "after", chief), "curve-attack", "mark-observed")]
    if plain is not None:
        lines.append(_Line(f"{name}, no probes", _pairs(plain["figures"], "after", chief), "curve-perfect"))
    if has_mauve:
        lines.append(_Line("recall", _pairs(measured["figures"], "after", "recall"), "curve-absent"))
    lines.append(_Line("precision", _pairs(measured["figures"], "after", "precision"), "chance", "bar-others"))
    title = "What the text is worth"
    canvas = Canvas("utility", _WIDTH, _TOP + _HEIGHT + 44, title, _said(lines))
    x, y = _axes(canvas, len(measured["figures"]) - 1, 0, 1.0, "after round", "share")
    _draw(canvas, x, y, lines)
    return Figure(
        key="utility",
        title=title,
        caption=(
            f"Every population against the records of {measured['reference_users']:,} held-out users, by the run's own "
            "encoder; round 0 is the first population. Figures compare within this run: they depend on the encoder and "
            "on the numbers of texts. They are not differentially private."
        ),
        alternative=_said(lines),
        svg=canvas.markup(),
        columns=_UTILITY_COLUMNS,
        rows=tuple(_utility_row(each) for each in measured["figures"]),
    )


_EPSILON_COLUMNS = ("after round", "theory", "added up", "exact, attack", "exact, rule", "expected", "observed bound")
_UTILITY_COLUMNS = (
    "after round",
    "candidates",
    "MAUVE",
    "precision",
    "recall",
    "distinct pairs",
    "duplicates",
    "near duplicates",
    "votes on the kept",
    "votes on probes",
)


def _epsilon_row(each: dict[str, Any], audit: dict[str, Any] | None) -> tuple[str | float | int, ...]:
    row = (each["round"], epsilon(each["epsilon"]), epsilon(each["added_up"]))
    if audit is None:
        return row
    prefix = audit["prefixes"][each["round"] - 1]
    expected = f"{epsilon(prefix['expected_low'])} to {epsilon(prefix['expected_high'])}"
    return (*row, epsilon(prefix["exact"]), epsilon(prefix["rule"]), expected, epsilon(prefix["observed"]))


def _utility_row(each: dict[str, Any]) -> tuple[str | float | int, ...]:
    names = ("mauve", "precision", "recall", "distinct_2", "duplicates", "near_duplicates", "kept_share", "probe_share")
    return (each["after"], f"{each['candidates']:,}", *(_share(each[name]) for name in names))


def _epsilon_caption(summary: dict[str, Any]) -> str:
    delta, audit = summary["mechanism"]["delta"], summary["audit"]
    theory = (
        "Theory is the exact epsilon of all releases so far, from the privacy loss distribution, for adding or "
        f"removing one user at delta {delta:g}."
    )
    if audit is None:
        return f"{theory} Added up is what adding up the rounds one by one proves: an upper end that needs no software."
    return (
        f"{theory} Exact is the largest epsilon that the attack {audit['attack']} can show on these banks, computed "
        f"with no trials. Observed is a lower bound by the {audit['method']} method from {audit['trials']:,} trials of "
        "each hypothesis; the bar beside it holds 90% of such bounds."
    )


def _axes(canvas: Canvas, last: int, first: int, top: float, x_name: str, y_name: str) -> tuple[Scale, Scale]:
    bottom = _TOP + _HEIGHT
    # Half a step of room on both sides, so that a single round stands in the middle.
    place = linear(first - 0.5, max(last, first) + 0.5, _LEFT, _RIGHT).place
    x = Scale(place, tuple((float(number), str(number)) for number in range(first, max(last, first) + 1)))
    y = linear(0.0, top or 1.0, bottom, _TOP)
    Frame(_LEFT, _TOP, _RIGHT, bottom).axes(canvas, x, y, x_name, y_name)
    return x, y


def _draw(canvas: Canvas, x: Scale, y: Scale, lines: Sequence[_Line]) -> None:
    """Draw curves, and name each at its end with a sample of its line, moved apart where two would overlap."""
    ends = []
    for line in lines:
        places = [(x(at), y(value)) for at, value in line.points]
        canvas.curve(places, line.css)
        for place, (at, value) in zip(places, line.points, strict=True):
            canvas.circle(place, 4, line.mark, f"{line.name}, round {at:g}: {value:.3f}")
        if places:
            ends.append((places[-1][1], line, line.points[-1][1]))
    below = -_LEAST_GAP
    for height, line, value in sorted(ends, key=lambda end: end[0]):
        below = max(height, below + _LEAST_GAP, _TOP)
        canvas.line((_LABEL, below), (_LABEL + 22, below), line.css)
        canvas.text((_LABEL + 30, below + 4), f"{line.name} {value:.3f}", "key")


def _whisker(canvas: Canvas, x: Scale, y: Scale, prefix: dict[str, Any]) -> None:
    """Draw where 90% of the bounds fall after so many rounds; nothing where an end of it is infinite."""
    if not all(map(_is_finite, (prefix["expected_low"], prefix["expected_high"]))):
        return
    at, low, high = x(prefix["rounds"]) + 9, y(prefix["expected_low"]), y(prefix["expected_high"])
    for start, end in (((at, low), (at, high)), *(((at - 4, tip), (at + 4, tip)) for tip in (low, high))):
        canvas.line(start, end, "whisker-observed")


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _pairs(rows: Sequence[dict[str, Any]], x: str, y: str) -> tuple[tuple[float, float], ...]:
    """Return the points of a curve; what is unknown or infinite has none."""
    return tuple((float(row[x]), float(row[y])) for row in rows if _is_finite(row[y]))


def _said(lines: Sequence[_Line]) -> str:
    parts = [f"{line.name} {', '.join(f'{value:.3f}' for _, value in line.points)}" for line in lines]
    return f"Round by round: {'; '.join(parts)}."


def _share(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"
