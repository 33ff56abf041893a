"""Show the verdict on a bank as one page: what stands out, by which measure, and how often an honest bank is blamed."""

from pathlib import Path
from typing import Any

import numpy as np

from canarybank import __version__
from canarybank.defend import FalseAlarms
from canarybank.flow.vet import VettedBank
from canarybank.report.drawing import BOLD, Drawn, add_dots, add_legend, add_text, in_style, sheet
from canarybank.report.page import page_of
from canarybank.report.text import clean, percent
from canarybank.report.themed import COLOURS
from canarybank.store import write_atomic

__all__ = ["render_vet", "write_vet_page"]

WORST = 50
"""How many entries the page lists."""
_NAME, _TEXT = 80, 400
_ROW, _DRAWN, _HIGHEST = 54.0, 400, 4.0
MEASURE_COLUMNS = ("measure", "looks for entries that are", "largest", "one entry alarms at", "entries beyond")
WORST_COLUMNS = ("score", "flagged", "most by", "entry", "position")
LIMITS = (
    "Nothing found does not mean that nothing is planted: fluent entries that read like the rest of the bank pass.",
    "Flagged entries are not proven to be planted: an honest bank can hold odd entries. Read them.",
    "The false-alarm rate holds for banks like those on which the check was judged; docs/vetting.md lists them.",
    "A bank made of hashes, codes or random strings hides planted ones: entries are compared with their own bank.",
)


def write_vet_page(vetted: VettedBank, path: Path) -> Path:
    """Write the page of a verdict, and return its path."""
    write_atomic(path, render_vet(vetted))
    return path


def render_vet(vetted: VettedBank) -> str:
    """Return the page of a verdict. The same verdict gives the same bytes."""
    verdict = vetted.verdict
    measures = [
        (each["measure"], each["means"], f"{each['largest']:.1f}", _threshold(each["threshold"]), each["entries"])
        for each in vetted.measures()
    ]
    facts = [
        ("bank", clean(vetted.name, _NAME)),
        ("entries", f"{verdict.size:,}"),
        ("flagged", f"{len(verdict.flagged):,}"),
        ("encoder", clean(vetted.encoder, _NAME)),
        ("public text", clean(vetted.public, _NAME) if vetted.public else "none given"),
        ("language model", f"{clean(vetted.model, _NAME)}; it does not decide" if vetted.model else "not asked"),
        ("sha256 of the texts", vetted.hash),
    ]
    return page_of(
        "vet.html",
        version=__version__,
        name=clean(vetted.name, _NAME),
        tone="refuted" if verdict.is_shaped else "stands",
        sentence=_sentence(vetted),
        false_alarms=f"{verdict.reliability} Its thresholds were set on other banks.",
        rate=_rate(verdict.false_alarms),
        facts=facts,
        notes=[clean(note, _TEXT) for note in vetted.notes],
        measures=(MEASURE_COLUMNS, measures),
        worst=(WORST_COLUMNS, [_row(vetted, position) for position in verdict.worst(WORST)]),
        figure=standing_figure(vetted),
        limits=LIMITS,
    )


def _sentence(vetted: VettedBank) -> str:
    verdict = vetted.verdict
    if not verdict.is_shaped:
        return f"Nothing found among {verdict.size:,} entries"
    count = len(verdict.flagged)
    return f"Shaped: {count:,} of {verdict.size:,} entries {'stands' if count == 1 else 'stand'} out"


def _rate(alarms: FalseAlarms | None) -> str:
    if alarms is None:
        return "The rate of false alarms on honest banks is not known with these settings."
    return f"A false alarm on an honest bank comes at a rate of at most {percent(alarms.upper)} (95% confidence)."


def _threshold(value: float | None) -> str:
    return "does not decide" if value is None else f"{value:.1f}"


def _row(vetted: VettedBank, position: int) -> tuple[Any, ...]:
    entry = vetted.entry(position)
    flagged = "yes" if entry["flagged"] else "no"
    return f"{entry['score']:.2f}", flagged, entry["worst_measure"], clean(entry["text"], _TEXT), position


@in_style
def standing_figure(vetted: VettedBank) -> Drawn:
    """Draw how far the entries with the largest values stand out, by measure, against what one entry may reach."""
    verdict, flagged = vetted.verdict, set(vetted.verdict.flagged)
    shares = {}
    for measure in (finding.measure for finding in verdict.findings):
        values = verdict.standard[measure] / vetted.vetting.thresholds(measure, verdict.size)[1]
        order = np.argsort(-values, kind="stable")[:_DRAWN]
        shares[str(measure)] = [(int(i), float(values[i])) for i in order]
    largest = {name: points[0][1] for name, points in shares.items()}
    high = min(_HIGHEST, max(1.2, 1.05 * max(largest.values())))
    said = "; ".join(f"{name} {share:.2f}" for name, share in largest.items())
    labels = ("entry", "flagged entry", "threshold")
    figure, axes = sheet(_ROW * len(shares), labels)
    x_name = "share of what one entry may reach"
    axes.set(xlim=(0.0, high), ylim=(_ROW * len(shares), 0.0), yticks=[], xlabel=x_name)
    axes.axvline(1.0, color=COLOURS["alarm"], lw=1.6, ls=(0, (5, 3)), label=labels[2])
    for row, (name, points) in enumerate(shares.items()):
        add_text(axes, 4.0, _ROW * row + 14, name, **BOLD)
        # A little spread across the row, by position, so that equal values do not hide each other.
        placed = [(i, (min(max(share, 0.0), high), _ROW * row + 35 + i * 7 % 17 - 8)) for i, share in points]
        groups = ("other", 4.0, 0.6, labels[0]), ("canary", 6.5, 1.0, labels[1])
        for (colour, size, alpha, label), is_flagged in zip(groups, (False, True), strict=True):
            dots = [point for i, point in placed if (i in flagged) == is_flagged]
            add_dots(axes, dots, colour, size, alpha, "" if row else label)
    add_legend(figure)
    return Drawn(
        "standing",
        "How far entries stand out",
        "A dot is an entry; the largest values are drawn. One entry beyond the line calls the bank shaped; several "
        "do so before it. Values beyond the right edge are drawn on it.",
        f"The largest entry of each measure, as a share of what calls a bank shaped for one entry: {said}.",
        figure,
        ("measure", "position", "share"),
        [(name, position, f"{share:.3f}") for name, points in shares.items() for position, share in points[:WORST]],
    )
