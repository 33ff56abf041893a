"""Draw what an evolution did, round by round: epsilon, what its text is worth, and where its populations lie."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from canarybank.report.svg import BELOW, NARROW, WIDE, Canvas, Drawn, Scale, key_room, linear
from canarybank.report.tables import known_columns
from canarybank.report.text import decimal, epsilon, percent
from canarybank.report.worth import chance_range

__all__ = ["clouds_figure", "epsilon_figure", "utility_figure"]

_ROUNDS_LEFT, _ROUNDS_RIGHT, _ROUNDS_TOP, _ROUNDS_BOTTOM = 66.0, 600.0, 16.0, 316.0
_LEAST_GAP, _NARROW_LEFT, _KEYS_ABOVE, _MOST_TICKS = 16.0, 52.0, 18.0, 12
_PANEL, _PANEL_TITLE, _LEGEND, _ROOM = 240.0, 26.0, 330.0, 0.05
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
    rounds, compared = range(len(figures)), measured.get("compared")
    found = chance_range(compared, chief)
    bars = [dict(zip(("rounds", "expected_low", "expected_high"), (t, *found), strict=True)) for t in rounds if found]
    whose = "Every population" if compared is None else f"{compared['size']:,} texts of every population"
    bar = f" The bar is what chance alone gives of {name} at this size, without votes." if found else ""
    return _draw_rounds("utility", "What the text is worth", lines, rounds, 1.0, "share", bars).drawn(
        f"{whose} against the records of {measured['reference_users']:,} held-out users, by the run's "
        f"own encoder; round 0 is the first population.{bar} Figures compare within this run: they depend on the "
        "encoder and on the numbers of texts. They are not differentially private.",
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

    A line without points is left out. A narrow drawing has the names above it.
    """
    lines = [line for line in lines if line[1]]
    parts = [f"{name} {', '.join(f'{value:.3f}' for _, value in points)}" for name, points, *_ in lines]
    words = f"Round by round: {'; '.join(parts)}."
    ends = sorted((-points[-1][1], f"{name} {points[-1][1]:.3f}", css) for name, points, css, _ in lines)
    keys = [("line", css, text) for _, text, css in ends]
    made = []
    for width in (WIDE, NARROW):
        is_wide = width == WIDE
        above = 0.0 if is_wide else _KEYS_ABOVE + key_room(keys, NARROW)
        left, right = (_ROUNDS_LEFT, _ROUNDS_RIGHT) if is_wide else (_NARROW_LEFT, NARROW - 12)
        top_edge, bottom = _ROUNDS_TOP + above, _ROUNDS_BOTTOM + above
        canvas = Canvas(key if is_wide else f"{key}-narrow", width, bottom + BELOW, title, words)
        # Half a step of room on both sides, so that a single round stands in the middle.
        place = linear(rounds[0] - 0.5, rounds[-1] + 0.5, left, right).place
        ticks = rounds if is_wide else rounds[:: math.ceil(len(rounds) / _MOST_TICKS)]
        x = Scale(place, tuple((float(number), str(number)) for number in ticks))
        y = linear(0.0, top or 1.0, bottom, top_edge)
        canvas.axes((left, top_edge, right, bottom), x, "after round", y, y_name)
        for prefix in prefixes:
            at, low, high = x(prefix["rounds"]) + 9, prefix["expected_low"], prefix["expected_high"]
            if low is not None and math.isfinite(low) and math.isfinite(high):
                canvas.whisker((at, y(low)), (at, y(high)), (4, 0), "whisker-observed")
        for name, points, css, mark in lines:
            canvas.curve([(x(at), y(value)) for at, value in points], css)
            for at, value in points:
                canvas.circle((x(at), y(value)), 4, mark, f"{name}, round {at:g}: {value:.3f}")
        if is_wide:
            # Names move apart where two would overlap.
            below = -_LEAST_GAP
            for (lowered, *_), named in zip(ends, keys, strict=True):
                below = max(y(-lowered), below + _LEAST_GAP, top_edge)
                canvas.key_at((right + 18, below + 4), named)
        else:
            canvas.keys(0.0, 16, keys)
        made.append(canvas)
    made[0].narrow = made[1]
    return made[0]


def _points(rows: Sequence[dict[str, Any]], x: str, y: str) -> tuple[tuple[float, float], ...]:
    """Return the points of a curve; what is unknown or infinite has none."""
    return tuple((float(row[x]), float(row[y])) for row in rows if row[y] is not None and math.isfinite(row[y]))


def clouds_figure(clouds: dict[str, Any]) -> Drawn:
    """Draw a small map for each population, all of one scale; with held-out records where a simulation placed them."""
    panels, real = clouds["clouds"], clouds["real"]
    first, second = (percent(part) for part in clouds["explained"])
    keys = [("dots", "dot-older", "there before"), ("dots", "dot-new", "new")]
    legend = Canvas(
        "clouds",
        _LEGEND,
        _PANEL_TITLE,
        "Where the populations lie",
        f"Maps of {len(panels)} populations on two axes, which hold {first} and {second} of the candidates' variance. "
        + " ".join(f"{_population(each['after']).capitalize()}: {_cloud_words(clouds, each)}." for each in panels),
    )
    legend.keys(2, 16, [*keys, ("dots", "dot-real", "held-out, real")] if real else keys)
    places = np.array([*real, *(point for each in panels for kind in ("older", "new") for point in each[kind])])
    low, high = places.min(axis=0), places.max(axis=0)
    # One unit for both axes and all maps, so that distances compare.
    unit = ((high - low) / (_PANEL, _PANEL)).max() * (1 + 2 * _ROOM) or 1.0
    middle = np.array([_PANEL / 2, _PANEL_TITLE + _PANEL / 2])
    maps = []
    for each in panels:
        name = _population(each["after"])
        canvas = Canvas(
            f"clouds-{each['after']}", _PANEL, _PANEL_TITLE + _PANEL, f"Map: {name}", _cloud_words(clouds, each)
        )
        canvas.text((2, _PANEL_TITLE - 8), name, "row-name")
        canvas.rect((1, _PANEL_TITLE), _PANEL - 2, _PANEL - 2, "map-frame", 4)
        for points, css in ((real, "dot-real"), (each["older"], "dot-older"), (each["new"], "dot-new")):
            if points:
                canvas.dots((middle + (np.array(points) - (low + high) / 2) / unit * (1, -1)).tolist(), css)
        maps.append(canvas)
    kept = "" if len(panels) == clouds["populations"] else f"Shown are {len(panels)} of {clouds['populations']}. "
    drawn = max(len(each["older"]) + len(each["new"]) for each in panels)
    held = (
        f" Blue are {len(real)} of {clouds['records']:,} records of held-out users, as they are: this simulation's map "
        "is not private."
        if real
        else ""
    )
    figure = legend.drawn(
        f"A map for each population, all of one scale; at most {drawn} candidates of each are drawn, evenly spaced. "
        f"{kept}The axes are the principal ones of all candidates and hold {first} and {second} of their variance: "
        f"near on the map is not always near in the space where records are routed.{held}",
        *known_columns(
            ("population", "candidates", "written", "centre, first axis", "second axis", "spread", "to real centre"),
            [
                (
                    _population(each["after"]),
                    f"{each['candidates']:,}",
                    f"{each['born']:,}",
                    *(decimal(value) for value in each["centre"]),
                    decimal(each["spread"]),
                    decimal(_distance(clouds, each)),
                )
                for each in panels
            ],
        ),
    )
    return replace(figure, svg=figure.svg + "".join(canvas.markup for canvas in maps))


def _population(after: int) -> str:
    return f"after round {after}" if after else "first population"


def _distance(clouds: dict[str, Any], cloud: dict[str, Any]) -> float | None:
    """Return how far the centre of a population is from that of the real records, on the map."""
    return None if clouds["real_centre"] is None else math.dist(clouds["real_centre"], cloud["centre"])


def _cloud_words(clouds: dict[str, Any], cloud: dict[str, Any]) -> str:
    distance = _distance(clouds, cloud)
    apart = "" if distance is None else f", {distance:.3f} from the centre of the real records"
    return f"{cloud['candidates']:,} candidates, spread {cloud['spread']:.3f}{apart}"
