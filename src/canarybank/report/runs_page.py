"""Show several runs at once: one page over all runs of a folder, and two runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from canarybank import __version__
from canarybank.errors import StoreError
from canarybank.report.one_run import one_run_parts
from canarybank.report.page import PAGE, page_of
from canarybank.report.summary import summarise_run
from canarybank.report.system import summarise_system
from canarybank.report.text import LONG, NAME, SHORT, UNKNOWN, clean, confidence, counted, epsilon, rung_text
from canarybank.report.verdicts import Tone
from canarybank.run.folder import Run
from canarybank.run.listing import RunEntry
from canarybank.run.verification import refuse_unverified
from canarybank.store import PRIVATE, write_atomic
from canarybank.wording import shown_epsilon

__all__ = ["RUNS_PAGE", "Comparison", "bound_text", "claim_text", "compare_runs", "render_runs", "write_runs_page"]

RUNS_PAGE = "index.html"
TONES = {"stands": Tone.STANDS, "REFUTED": Tone.REFUTED, "not tested": Tone.UNTESTED}
NOT_COMPARABLE = (
    "Exact figures may be compared. Of two bounds from trials, the larger one shows more; it does not say that its "
    "system leaks more."
)


def write_runs_page(folder: Path, entries: Sequence[RunEntry]) -> Path:
    """Write the page over all runs of a folder into it, for its owner alone, and return its path."""
    path = folder / RUNS_PAGE
    write_atomic(path, render_runs(folder, entries), mode=PRIVATE)
    return path


def render_runs(folder: Path, entries: Sequence[RunEntry]) -> str:
    """Return the page over runs that stand in a folder, each with a link to its own page where it has one."""
    rows = [
        {
            "name": clean(Path(entry.run).name, NAME),
            "link": f"{quote(Path(entry.run).name)}/{PAGE}" if (Path(entry.run) / PAGE).is_file() else None,
            "tone": TONES.get(claim_text(entry), "none"),
            "state": entry.state,
            "started": entry.started or UNKNOWN,
            "claimed": UNKNOWN if entry.claimed is None else epsilon(entry.claimed),
            "certified": UNKNOWN if entry.largest is None else epsilon(entry.largest.epsilon),
            "claim": claim_text(entry),
            "detail": clean(" ".join(filter(None, (bound_text(entry), entry.reason))), LONG),
        }
        for entry in entries
    ]
    name = clean(folder.resolve().name, NAME)
    return page_of("runs.html", version=__version__, name=name, runs=rows, number=counted(len(rows), "run"))


def claim_text(entry: RunEntry) -> str:
    """Say in a word or two what became of a run's claim."""
    if entry.ok is None:
        return UNKNOWN if entry.claimed is None else "not judged"
    return "REFUTED" if not entry.ok else "stands" if entry.tested is not False else "not tested"


def bound_text(entry: RunEntry) -> str:
    """Say what a run's largest bound stands on; nothing where it has none."""
    if (largest := entry.largest) is None:
        return ""
    attacks = "" if entry.attacks is None else f"; {counted(entry.attacks, 'attack')}"
    trials = "" if not entry.trials else f", {counted(entry.trials, 'trial')}"
    level = f"{confidence(largest.confidence)} {largest.over}"
    return f"At least {shown_epsilon(largest.epsilon)} by {largest.attack}, {largest.method}, {level}{attacks}{trials}."


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side: what each row is about, and what either run says of it."""

    names: tuple[str, str]
    figures: tuple[tuple[str, str, str], ...]
    """The verdict and its numbers, and every attack's figures."""
    settings: tuple[tuple[str, str, str], ...]
    """The settings that differ."""


def compare_runs(one: Run, other: Run) -> Comparison:
    """Return two finished runs side by side: verdicts, numbers, attacks, and the settings in which they differ."""
    for run in (one, other):
        if not run.is_finished:
            raise StoreError(
                f"The run {str(run.folder)!r} is not finished, so there is nothing to compare; run its command again."
            )
        refuse_unverified(run)
    figures = [_figures(run) for run in (one, other)]
    left, right = (run.manifest.config for run in (one, other))
    settings = [key for key in sorted(left.keys() | right.keys()) if left.get(key) != right.get(key)]
    return Comparison(
        (clean(str(one.folder), SHORT), clean(str(other.folder), SHORT)),
        tuple(
            (name, figures[0].get(name, UNKNOWN), figures[1].get(name, UNKNOWN))
            for name in dict.fromkeys((*figures[0], *figures[1]))
        ),
        tuple((key, _setting(left, key), _setting(right, key)) for key in settings),
    )


def _setting(config: dict[str, Any], key: str) -> str:
    value = config.get(key)
    return UNKNOWN if value is None else clean(str(value), SHORT)


def _figures(run: Run) -> dict[str, str]:
    """Return what a run says of itself, by what it is about."""
    summary = _summary(run)
    verdict = summary["verdict"]
    if verdict is None:
        return {"epsilon spent": epsilon(summary["epsilon"])}
    figures = {"claim": verdict["heading"]} | {each["words"]: each["value"] for each in verdict["numbers"]}
    for attack in summary.get("attacks", ()):
        figures[f"{attack['name']}, exact"] = rung_text(attack["rungs"].get("attack"))
        figures[f"{attack['name']}, observed"] = epsilon(attack["headline"]["epsilon"])
    return figures


def _summary(run: Run) -> dict[str, Any]:
    if run.kind == "system":
        return summarise_system(run)
    certified = one_run_parts(run)
    if run.kind == "one-run":
        assert certified is not None  # noqa: S101, such a run has a certificate, or is not finished
        return certified[0]
    summary = summarise_run(run)
    return summary | {"verdict": certified[0]["verdict"]} if certified and not summary["verdict"] else summary
