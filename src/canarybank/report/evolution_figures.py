"""Draw what an evolution did, round by round: epsilon, what its text is worth, and where its populations lie."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from canarybank.report.drawing import BOLD, WIDTH, Drawn, add_dots, add_legend, in_style, is_drawable, sheet
from canarybank.report.evidence_figures import equal_limits
from canarybank.report.tables import known_columns
from canarybank.report.text import decimal, epsilon, percent
from canarybank.report.themed import COLOURS
from canarybank.report.worth import chance_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["clouds_figure", "epsilon_figure", "utility_figure"]

_PLOT, _LEFT, _ASIDE = 250.0, 58.0, 0.08
_COLUMNS, _PANEL, _PANEL_TITLE, _BETWEEN = 3, 119.0, 22.0, 9.0
_LOOKS: Final[dict[str, dict[str, Any]]] = {
    "theory": {"color": COLOURS["ink"], "ls": (0, (6, 4)), "lw": 1.3, "mfc": COLOURS["paper"], "mew": 1.6},
    "exact": {"color": COLOURS["exact"], "lw": 2.0},
    "observed": {"color": COLOURS["canary"], "lw": 2.2},
    "other": {"color": COLOURS["other"], "ls": (0, (2, 3)), "lw": 1.0},
}
Line = tuple[str, tuple[tuple[float, float], ...], str]
"""One curve: its name, its points, and how it looks."""


@in_style
def epsilon_figure(summary: dict[str, Any]) -> Drawn:
    """Draw epsilon against the round: what was spent, and what the strongest attack could and did show of it.

    Args:
        summary: The summary of an evolution.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> drawn = epsilon_figure(summarise_run(open_run("runs/evolved")))
        >>> drawn.columns, len(drawn.rows)
        (('after round', 'theory', 'added up'), 1)
    """
    rounds, prefixes = summary["evolution"]["rounds"], []
    lines: list[Line] = [("theory", _points(rounds, "round", "epsilon"), "theory")]
    caption = (
        "Theory is the exact epsilon of all releases so far, from the privacy loss distribution, for adding or "
        f"removing one user at delta {summary['mechanism']['delta']:g}."
    )
    if summary["verdict"]:
        attack, audit = summary["attacks"][summary["strongest"]]["name"], summary["audit"]
        prefixes = [each for each in summary["prefixes"] if each["attack"] == attack]
        lines += [
            ("exact, of the attack", _points(prefixes, "rounds", "exact"), "exact"),
            ("observed bound", _points(prefixes, "rounds", "observed"), "observed"),
        ]
        caption += (
            f" Exact is the largest epsilon that the attack {attack} can show on these banks, computed with no trials. "
            f"Observed is a lower bound by the {audit['method']} method from {audit['trials']:,} trials of each "
            "hypothesis; the bar beside it holds 90% of such bounds."
        )
    else:
        lines.append(("added up", _points(rounds, "round", "added_up"), "other"))
        caption += " Added up is what adding up the rounds one by one proves: an upper end that needs no software."
    top = 1.06 * max([value for _, points, *_ in lines for _, value in points], default=1.0)
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
    return Drawn(
        "rounds",
        "Epsilon against the round",
        caption,
        _round_words(lines),
        _draw_rounds(lines, range(1, len(rounds) + 1), top, "epsilon", prefixes),
        *known_columns(columns, rows),
    )


@in_style
def utility_figure(evolution: dict[str, Any]) -> Drawn | None:
    """Draw what every population is worth, with probes and without; None where nothing was measured.

    Args:
        evolution: What the summary of an evolution holds under ``evolution``.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> drawn = utility_figure(summarise_run(open_run("runs/evolved"))["evolution"])
        >>> [row[0] for row in drawn.rows]  # the first population, and that after the one round
        [0, 1]
    """
    measured = evolution["utility"]
    if measured is None:
        return None
    figures, plain = measured["figures"], (evolution["plain"] or {"figures": ()})["figures"]
    chief, name = ("recall", "recall") if figures[0]["mauve"] is None else ("mauve", "MAUVE")
    lines: list[Line] = [
        (f"{name}, this run", _points(figures, "after", chief), "observed"),
        (f"{name}, no probes", _points(plain, "after", chief), "theory"),
        ("recall", _points(figures if chief == "mauve" else (), "after", "recall"), "exact"),
        ("precision", _points(figures, "after", "precision"), "other"),
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
    return Drawn(
        "utility",
        "What the text is worth",
        f"{whose} against the records of {measured['reference_users']:,} held-out users, by the run's "
        f"own encoder; round 0 is the first population.{bar} Figures compare within this run: they depend on the "
        "encoder and on the numbers of texts. They are not differentially private.",
        _round_words(lines),
        _draw_rounds(lines, rounds, 1.0, "share", bars),
        *known_columns(
            ("after round", "candidates", *columns.values()),
            [(each["after"], f"{each['candidates']:,}", *(decimal(each[key]) for key in columns)) for each in figures],
        ),
    )


def _round_words(lines: Sequence[Line]) -> str:
    parts = [f"{name} {', '.join(f'{value:.3f}' for _, value in points)}" for name, points, _ in lines if points]
    return f"Round by round: {'; '.join(parts)}."


def _draw_rounds(
    lines: Sequence[Line], rounds: range, top: float, y_name: str, prefixes: Sequence[dict[str, Any]]
) -> "Figure":
    """Draw curves over rounds, with where 90% of the bounds of each prefix fall; the legend has each curve's end.

    A line without points is left out.
    """
    named = {f"{name} {points[-1][1]:.3f}": (points, look) for name, points, look in lines if points}
    figure, axes = sheet(_PLOT, list(named), left=_LEFT)
    # Half a step of room on both sides, so that a single round stands in the middle.
    axes.set(xlim=(rounds[0] - 0.5, rounds[-1] + 0.5), ylim=(0.0, top or 1.0), xlabel="after round", ylabel=y_name)
    axes.locator_params("y", nbins=6)
    axes.set_xticks(rounds[:: -(-len(rounds) // 12)])
    known = [each for each in prefixes if is_drawable(each["expected_low"]) and is_drawable(each["expected_high"])]
    if known:
        places, low, high = zip(
            *((each["rounds"] + _ASIDE, each["expected_low"], each["expected_high"]) for each in known), strict=True
        )
        middle = [(one + other) / 2 for one, other in zip(low, high, strict=True)]
        half = [(other - one) / 2 for one, other in zip(low, high, strict=True)]
        axes.errorbar(places, middle, yerr=half, fmt="none", color=COLOURS["canary"], elinewidth=1.8, capsize=4)
    for label, (points, look) in named.items():
        axes.plot(*zip(*points, strict=True), marker="o", ms=7, label=label, clip_on=False, **_LOOKS[look])
    add_legend(figure)
    return figure


def _points(rows: Sequence[dict[str, Any]], x: str, y: str) -> tuple[tuple[float, float], ...]:
    """Return the points of a curve; what is unknown or infinite has none."""
    return tuple((float(row[x]), float(row[y])) for row in rows if row[y] is not None and math.isfinite(row[y]))


@in_style
def clouds_figure(clouds: dict[str, Any]) -> Drawn:
    """Draw a small map for each population, all of one scale; with held-out records where a simulation placed them.

    Args:
        clouds: What the summary of an evolution holds under ``clouds`` in ``evolution``.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> drawn = clouds_figure(summarise_run(open_run("runs/evolved"))["evolution"]["clouds"])
        >>> [row[0] for row in drawn.rows]
        ['first population', 'after round 1']
    """
    panels, real = clouds["clouds"], clouds["real"]
    first, second = (percent(part) for part in clouds["explained"])
    kept = "" if len(panels) == clouds["populations"] else f"Shown are {len(panels)} of {clouds['populations']}. "
    drawn = max(len(each["older"]) + len(each["new"]) for each in panels)
    held = (
        f" Blue are {len(real)} of {clouds['records']:,} records of held-out users, as they are: this simulation's map "
        "is not private."
        if real
        else ""
    )
    return Drawn(
        "clouds",
        "Where the populations lie",
        f"A map for each population, all of one scale; at most {drawn} candidates of each are drawn, evenly spaced. "
        f"{kept}The axes are the principal ones of all candidates and hold {first} and {second} of their variance: "
        f"near on the map is not always near in the space where records are routed.{held}",
        f"Maps of {len(panels)} populations on two axes, which hold {first} and {second} of the candidates' variance. "
        + " ".join(f"{_population(each['after']).capitalize()}: {_cloud_words(clouds, each)}." for each in panels),
        _draw_clouds(panels, real),
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


def _draw_clouds(panels: Sequence[dict[str, Any]], real: Sequence[Sequence[float]]) -> "Figure":
    """Draw the maps in rows. One unit holds for both axes and all maps, so that distances compare."""
    labels = ("there before", "new", *(["held-out, real"] if real else []))
    height = -(-len(panels) // _COLUMNS) * (_PANEL + _PANEL_TITLE)
    figure, whole = sheet(height, labels, top=0.0, axis=8.0)
    whole.remove()
    total = figure.get_figheight() * 72
    places = [*real, *(point for each in panels for kind in ("older", "new") for point in each[kind])]
    for index, each in enumerate(panels):
        row, column = divmod(index, _COLUMNS)
        left, bottom = 14.0 + column * (_PANEL + _BETWEEN), (row + 1) * (_PANEL + _PANEL_TITLE)
        axes = figure.add_axes((left / WIDTH, 1 - bottom / total, _PANEL / WIDTH, _PANEL / total))
        axes.set(**equal_limits(places), xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=COLOURS["faint"])
        axes.set_title(_population(each["after"]), loc="left", pad=5, size=10.5, **BOLD)
        groups = ((real, "exact", 0.5), (each["older"], "other", 0.75), (each["new"], "canary", 0.75))
        for (points, colour, alpha), label in zip(groups, ("held-out, real", *labels[:2]), strict=True):
            add_dots(axes, points, colour, 3.0, alpha, label if label in labels else "")
    add_legend(figure)
    return figure


def _population(after: int) -> str:
    return f"after round {after}" if after else "first population"


def _distance(clouds: dict[str, Any], cloud: dict[str, Any]) -> float | None:
    """Return how far the centre of a population is from that of the real records, on the map."""
    return None if clouds["real_centre"] is None else math.dist(clouds["real_centre"], cloud["centre"])


def _cloud_words(clouds: dict[str, Any], cloud: dict[str, Any]) -> str:
    distance = _distance(clouds, cloud)
    apart = "" if distance is None else f", {distance:.3f} from the centre of the real records"
    return f"{cloud['candidates']:,} candidates, spread {cloud['spread']:.3f}{apart}"
