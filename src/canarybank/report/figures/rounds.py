"""Draw an evolution: epsilon in theory, exactly and as observed against the round, and what the text is worth."""

import math
from collections.abc import Sequence
from typing import Any

from canarybank.report.svg import Canvas, Drawn, Scale, linear
from canarybank.report.tables import known_columns
from canarybank.report.text import decimal, epsilon

__all__ = ["epsilon_figure", "utility_figure"]

_WIDTH, _LEFT, _RIGHT, _TOP, _HEIGHT = 820.0, 66.0, 600.0, 16.0, 300.0
_LABEL = _RIGHT + 18
_LEAST_GAP = 16.0
Line = tuple[str, tuple[tuple[float, float], ...], str, str]
"""One curve: its name, its points, the class of the curve and that of its points."""


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
    lines = [line for line in lines if line[1]]
    top = max([value for _, points, *_ in lines for _, value in points], default=1.0)
    canvas, x, y = _plot("rounds", "Epsilon against the round", lines, range(1, len(rounds) + 1), 1.06 * top, "epsilon")
    for prefix in prefixes:
        _draw_expected(canvas, x, y, prefix)
    _draw(canvas, x, y, lines)
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
    measured, without = evolution["utility"], evolution["plain"]
    if measured is None:
        return None
    figures = measured["figures"]
    chief, name = ("recall", "recall") if figures[0]["mauve"] is None else ("mauve", "MAUVE")
    lines: list[Line] = [(f"{name}, this run", _points(figures, "after", chief), "curve-attack", "mark-observed")]
    if without is not None:
        lines.append((f"{name}, no probes", _points(without["figures"], "after", chief), "curve-perfect", "mark-rule"))
    if chief == "mauve":
        lines.append(("recall", _points(figures, "after", "recall"), "curve-absent", "bar"))
    lines.append(("precision", _points(figures, "after", "precision"), "chance", "bar-others"))
    canvas, x, y = _plot("utility", "What the text is worth", lines, range(len(figures)), 1.0, "share")
    _draw(canvas, x, y, lines)
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
    return canvas.drawn(
        f"Every population against the records of {measured['reference_users']:,} held-out users, by the run's own "
        "encoder; round 0 is the first population. Figures compare within this run: they depend on the encoder and on "
        "the numbers of texts. They are not differentially private.",
        *known_columns(
            ("after round", "candidates", *columns.values()),
            [(each["after"], f"{each['candidates']:,}", *(decimal(each[key]) for key in columns)) for each in figures],
        ),
    )


def _plot(
    key: str, title: str, lines: Sequence[Line], rounds: range, top: float, y_name: str
) -> tuple[Canvas, Scale, Scale]:
    """Return a canvas with axes; half a step of room on both sides, so that a single round stands in the middle."""
    parts = [f"{name} {', '.join(f'{value:.3f}' for _, value in points)}" for name, points, *_ in lines]
    canvas = Canvas(key, _WIDTH, _TOP + _HEIGHT + 44, title, f"Round by round: {'; '.join(parts)}.")
    place = linear(rounds[0] - 0.5, rounds[-1] + 0.5, _LEFT, _RIGHT).place
    x = Scale(place, tuple((float(number), str(number)) for number in rounds))
    y = linear(0.0, top or 1.0, _TOP + _HEIGHT, _TOP)
    canvas.axes((_LEFT, _TOP, _RIGHT, _TOP + _HEIGHT), x, y, "after round", y_name)
    return canvas, x, y


def _draw(canvas: Canvas, x: Scale, y: Scale, lines: Sequence[Line]) -> None:
    """Draw curves, and name each at its end with a sample of its line, moved apart where two would overlap."""
    for name, points, css, mark in lines:
        canvas.curve([(x(at), y(value)) for at, value in points], css)
        for at, value in points:
            canvas.circle((x(at), y(value)), 4, mark, f"{name}, round {at:g}: {value:.3f}")
    below = -_LEAST_GAP
    for height, name, value, css in sorted(
        (y(points[-1][1]), name, points[-1][1], css) for name, points, css, _ in lines
    ):
        below = max(height, below + _LEAST_GAP, _TOP)
        canvas.key_at((_LABEL, below + 4), ("line", css, f"{name} {value:.3f}"))


def _draw_expected(canvas: Canvas, x: Scale, y: Scale, prefix: dict[str, Any]) -> None:
    """Draw where 90% of the bounds fall after so many rounds; nothing where an end of it is unknown or infinite."""
    ends = [prefix["expected_low"], prefix["expected_high"]]
    if any(end is None or math.isinf(end) for end in ends):
        return
    at, low, high = x(prefix["rounds"]) + 9, *map(y, ends)
    canvas.line((at, low), (at, high), "whisker-observed")
    for tip in (low, high):
        canvas.line((at - 4, tip), (at + 4, tip), "whisker-observed")


def _points(rows: Sequence[dict[str, Any]], x: str, y: str) -> tuple[tuple[float, float], ...]:
    """Return the points of a curve; what is unknown or infinite has none."""
    return tuple((float(row[x]), float(row[y])) for row in rows if row[y] is not None and math.isfinite(row[y]))
