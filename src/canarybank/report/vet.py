"""Show the verdict on a bank as one page: what stands out, by which measure, and how often an honest bank is blamed."""

from pathlib import Path
from typing import Any

import numpy as np

from canarybank import __version__
from canarybank.defend import FalseAlarms
from canarybank.flow.vet import VettedBank
from canarybank.report.page import page_of
from canarybank.report.svg import NARROW, WIDE, Canvas, Drawn, Key, key_room, linear, text_width
from canarybank.report.text import clean, percent
from canarybank.store import write_atomic

__all__ = ["render_vet", "write_vet_page"]

WORST = 50
"""How many entries the page lists."""
_NAME, _TEXT = 80, 400
_TOP, _ROW, _BELOW, _GAP, _NAME_ABOVE = 42.0, 46.0, 44.0, 12.0, 16.0
_KEYS: tuple[Key, ...] = (
    ("dots", "dot-bank", "entry"),
    ("dots", "dot-canary", "flagged entry"),
    ("limit", "limit-claim", "threshold"),
)
_DRAWN, _HIGHEST = 400, 4.0
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


def standing_figure(vetted: VettedBank) -> Drawn:
    """Draw how far the entries with the largest values stand out, by measure, against what one entry may reach."""
    verdict, flagged = vetted.verdict, set(vetted.verdict.flagged)
    shares = {}
    for measure in (finding.measure for finding in verdict.findings):
        values = verdict.standard[measure] / vetted.vetting.thresholds(measure, verdict.size)[1]
        order = np.argsort(-values, kind="stable")[:_DRAWN]
        shares[str(measure)] = [(int(i), float(values[i])) for i in order]
    largest = {name: points[0][1] for name, points in shares.items()}
    said = "; ".join(f"{name} {share:.2f}" for name, share in largest.items())
    words = f"The largest entry of each measure, as a share of what calls a bank shaped for one entry: {said}."
    high = min(_HIGHEST, max(1.2, 1.05 * max(largest.values())))
    canvas = _draw_standing("standing", WIDE, words, shares, high, flagged)
    canvas.narrow = _draw_standing("standing-narrow", NARROW, words, shares, high, flagged)
    rows = [(name, position, f"{share:.3f}") for name, points in shares.items() for position, share in points[:WORST]]
    return canvas.drawn(
        "A dot is an entry; the largest values are drawn. One entry beyond the line calls the bank shaped; several "
        "do so before it. Values beyond the right edge are drawn on it.",
        ("measure", "position", "share"),
        rows,
    )


def _draw_standing(
    key: str, width: float, words: str, shares: dict[str, list[tuple[int, float]]], high: float, flagged: set[int]
) -> Canvas:
    """Draw a row of dots for each measure; its name stands on the left, and above the dots of a narrow drawing."""
    above = 0.0 if width == WIDE else _NAME_ABOVE
    left = _GAP if above else max(text_width(name, "row-name") for name in shares) + 2 * _GAP
    top, right = _TOP + key_room(_KEYS, width), width - 20
    bottom = top + (_ROW + above) * len(shares)
    canvas = Canvas(key, width, bottom + _BELOW, "How far entries stand out", words)
    x = linear(0.0, high, left, right, count=5 if above else 8)
    canvas.axes((left, top, right, bottom), x, "share of what one entry may reach")
    canvas.line((x(1.0), top - 6), (x(1.0), bottom), "limit-claim")
    for row, (name, points) in enumerate(shares.items()):
        middle = top + (_ROW + above) * (row + 0.5) + above / 2
        if above:
            canvas.text((left, middle - _ROW / 2), name, "row-name")
        else:
            canvas.text((left - _GAP, middle + 4), name, "row-name", anchor="end")
        # A little spread across the row, by position, so that equal values do not hide each other.
        placed = [(i, (x(min(max(share, 0.0), high)), middle + (i * 7 % 17 - 8) * 1.6)) for i, share in points]
        canvas.dots([point for i, point in placed if i not in flagged], "dot-bank")
        canvas.dots([point for i, point in placed if i in flagged], "dot-canary")
    canvas.keys(left, 18, _KEYS)
    return canvas
