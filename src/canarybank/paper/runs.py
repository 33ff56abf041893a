"""Show finished runs as a piece of the paper: cells with what sampling alone explains, the setup, and notes."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canarybank.attack import CanaryKind
from canarybank.auditing import AttackResult, CanaryResult, Case, ThresholdMode
from canarybank.auditing.spread import LEVEL, Canary, calibrated_spread, frozen_spread
from canarybank.config.loading import Resolved
from canarybank.config.plugins import build_engine
from canarybank.errors import StoreError
from canarybank.flow.audit import AuditWork, frozen_audit, mechanism_of, settings_of
from canarybank.flow.roles import chosen_attacks
from canarybank.paper.piece import Cell, Coordinate, Span
from canarybank.paper.published import PaperValue
from canarybank.paper.settings import BANK, PAPER, Order, dataset_of
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import Run
from canarybank.run.gating import failing_claims
from canarybank.run.power import shown_epsilon
from canarybank.run.results import Results
from canarybank.score import Interval
from canarybank.store import read_checked, write_checked

__all__ = [
    "FinishedRun",
    "attack_cell",
    "bank_note",
    "encoder_note",
    "paper_notes",
    "run_cells",
    "run_notes",
    "run_spreads",
    "setup_facts",
    "trials_note",
    "true_notes",
    "true_rates",
]

Note = tuple[bool, str]
"""A condition, and what to tell a reader where it holds."""
_WAY = 3
"""Counts the ways in which intervals have been computed: one kept from an earlier way is computed again."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run, its settings, and its place in the folder of the piece."""

    place: str
    resolved: Resolved
    run: Run

    @property
    def results(self) -> Results:
        """Return what it found."""
        return self.run.results


def attack_cell(
    record: AttackResult,
    results: Results,
    at: dict[str, Coordinate],
    *,
    paper: tuple[PaperValue, ...] = (),
    explained: Interval | None = None,
) -> Cell:
    """Return the cell of one attack of a finished run; the attack's name is its last coordinate."""
    ladder, audit, expected = record.ladder, results.audit, record.ladder.expected
    return Cell(
        at={**at, "attack": record.attack},
        paper=paper,
        observed=record.headline.epsilon,
        exact=None if (reached := ladder.reached("attack")) is None else reached[0],
        rule=None if (reached := ladder.reached("rule")) is None else reached[0],
        expected=None if expected is None else expected.epsilon,
        likely=Span(low=None, high=None) if expected is None else Span(low=expected.low, high=expected.high),
        explained=None if explained is None else Span(low=explained.lower, high=explained.upper),
        mechanism=ladder.mechanism.epsilon,
        accounted=audit.accounted,
        method=str(record.headline.method),
        confidence=record.headline.confidence,
        trials=audit.trials,
        canaries=len(record.canaries),
        threshold=audit.threshold,
        delta=results.mechanism.delta,
    )


def run_cells(
    order: Order,
    finished: FinishedRun,
    at: dict[str, Coordinate],
    paper: Callable[[str], tuple[PaperValue, ...]] = lambda _: (),
) -> list[Cell]:
    """Return a cell for each attack of a run, with the paper's values and where sampling alone puts its bound."""
    kept = order.folder / "spreads" / f"{finished.place.replace('/', '-')}.json"
    spreads = run_spreads(finished.run, finished.resolved, kept, progress=order.progress)
    return [
        attack_cell(record, finished.results, at, paper=paper(record.attack), explained=spreads[record.attack])
        for record in finished.results.attacks
    ]


def run_spreads(run: Run, resolved: Resolved, kept: Path, *, progress: Progress = SILENT) -> Mapping[str, Interval]:
    """Return each attack's interval, reading it from the file ``kept`` where that is of the same run.

    For thresholds from a law they are the run's own, and the interval is exact. Thresholds by trials would fall
    elsewhere in another calibration, so for these the calibration is part of what is repeated.
    """
    facts = {"commitment": run.results.commitment, "level": LEVEL, "way": _WAY}
    if kept.exists():
        with contextlib.suppress(StoreError, KeyError, TypeError):  # what is not as it was written is computed again
            document = read_checked(kept)
            if all(document.get(name) == value for name, value in facts.items()):
                return {record.attack: Interval(*document["attacks"][record.attack]) for record in run.results.attacks}
    found = _computed(run.results, resolved, progress)
    write_checked(kept, {**facts, "attacks": {name: [each.lower, each.upper] for name, each in found.items()}})
    return found


def true_rates(rule: CanaryResult) -> tuple[float, float]:
    """Return the true and false positive rate of a frozen rule, in the middle of their certified intervals."""
    rates = (rule.eligible_rate, rule.absent_rate)
    tpr, fpr = (0.5 * (rate.lower + rate.upper) if rate is not None else 0.0 for rate in rates)
    return tpr, fpr


def _computed(results: Results, resolved: Resolved, progress: Progress) -> dict[str, Interval]:
    mechanism, settings = mechanism_of(resolved.config), settings_of(resolved.config)
    if settings.threshold is ThresholdMode.ANALYTIC:
        return {
            record.attack: frozen_spread(
                [true_rates(canary) for canary in record.canaries], settings.target(mechanism, len(record.canaries))
            )
            for record in results.attacks
        }
    work = frozen_audit(resolved, progress=progress)
    names = [record.attack for record in results.attacks]
    groups = {name: [case for case in work.cases if case.attack.name == name] for name in names}
    found = {}
    with progress.stage("sampling", total=len(names), unit="attacks") as stage:
        for index, interval in build_engine(resolved.config.run).run(
            lambda name: _calibrated(work, groups[name]), names
        ):
            found[names[index]] = interval
            stage.advance(1, note=names[index])
    return {name: found[name] for name in names}


def _calibrated(work: AuditWork, cases: Sequence[Case]) -> Interval:
    auditor = work.auditor
    calibration, evaluation = auditor.calibration(work.routes), auditor.evaluation(work.routes)
    canaries = []
    for case in cases:
        laws = [auditor.law(case, systems(case)) for systems in (calibration, evaluation)]
        canaries.append(Canary(*(law for law in laws if law is not None)))
    target = auditor.settings.target(auditor.mechanism, len(cases))
    return calibrated_spread(canaries, target, number=auditor.settings.trials, seed=auditor.settings.seed)


def setup_facts(runs: Iterable[FinishedRun]) -> dict[str, str]:
    """Return what runs were audited with, for people: what they have in common; where they differ, nothing."""
    setups = [_setup(each) for each in runs]
    facts = {}
    for name in setups[0]:
        common = [part for part, *others in zip(*(each[name] for each in setups), strict=True) if {part} >= {*others}]
        if common:
            facts[name] = ", ".join(common)
    return facts


def _setup(finished: FinishedRun) -> dict[str, tuple[str, ...]]:
    config, results = finished.resolved.config, finished.results
    setup, mechanism, audit = results.require_setup(), results.mechanism, results.audit
    return {
        "users": (
            f"{Path(config.users.source).name}: {setup.evaluation:,} evaluation (N)",
            f"{setup.calibration:,} calibration",
            f"{setup.auxiliary:,} auxiliary",
            f"{setup.canaries} canaries an attack",
            f"up to {setup.records} records each",
        ),
        "bank": (f"{setup.bank:,} entries", f"{setup.probes} positions for probes"),
        "encoder": (setup.encoder, f"{setup.dimension} dimensions"),
        "generator": (Path(config.generator.model or config.generator.kind).name,),
        "mechanism": (
            f"k {mechanism.k}",
            f"clip {mechanism.clip:g}",
            f"sigma {mechanism.sigma:g}",
            f"q {mechanism.q:g}",
            f"delta {mechanism.delta:g}",
            f"exact epsilon {shown_epsilon(results.epsilon, 4)}",
        ),
        "trials": (
            f"{audit.trials:,} of each hypothesis of each canary",
            f"method {audit.method}",
            f"alpha {audit.alpha:g}",
            f"threshold {audit.threshold}",
        ),
    }


def run_notes(*runs: FinishedRun, trials: int = PAPER["audit.trials"], by_encoder: bool = False) -> tuple[str, ...]:
    """Return what a reader should know of these runs, each note once.

    ``trials`` are the paper's own for the piece; a piece that goes by encoder names them all itself.
    """
    notes = [*failing_claims({each.place: each.run for each in runs}).values()]
    for each in runs:
        notes += paper_notes(each, trials=trials, by_encoder=by_encoder)
    notes += [note for each in runs for note in each.results.notes]
    return tuple(dict.fromkeys(notes))


def paper_notes(finished: FinishedRun, *, trials: int, by_encoder: bool) -> list[str]:
    """Say where the users, the bank, the trials or the encoder of a run are less or other than the paper's."""
    setup, config = finished.results.require_setup(), finished.resolved.config
    source, cohorts = Path(config.users.source).name, (setup.auxiliary, setup.calibration, setup.evaluation)
    here = "{:,} auxiliary, {:,} calibration and {:,} evaluation users".format(*cohorts)
    nonces = sum(attack.canary is CanaryKind.NONCE for attack in chosen_attacks(config)[0])
    return true_notes(
        (
            dataset_of(config) is None,
            f"The users are those of {source}, not the paper's; its numbers for both datasets stand beside.",
        ),
        (
            cohorts != (500, 500, 1000),
            f"Cohorts are scaled down: {here}; the paper has 500, 500 and 1,000.",
        ),
        (
            setup.records != 64,  # noqa: PLR2004, the paper's cap
            f"Users have at most {setup.records} records, and canaries as many; the paper has 64.",
        ),
        bank_note(setup.bank),
        trials_note(config.audit.trials, trials),
        *(() if by_encoder else (encoder_note(setup.encoder),)),
        (
            bool(config.cohorts.shared or config.cohorts.fixed),
            "All attacks on real users have the same canaries.",
        ),
        (nonces > 1, "The nonce attacks have the same nonce canaries; the paper has others for each."),
    )


def true_notes(*notes: Note) -> list[str]:
    """Return the notes whose condition holds."""
    return [text for holds, text in notes if holds]


def bank_note(entries: int) -> Note:
    """Say how many entries the bank has, where they are not as many as the paper's."""
    return entries != BANK, f"The bank has {entries:,} entries; the paper's has {BANK:,}."


def trials_note(trials: int, paper: int) -> Note:
    """Say how many trials there are, where they are not as many as the paper's."""
    return trials != paper, f"Trials are {trials:,} of each hypothesis of each canary; the paper has {paper:,}."


def encoder_note(encoder: str) -> Note:
    """Say which encoder there is, by name or folder, where it is not the paper's."""
    name = Path(encoder).name
    is_paper = name == "minilm" or "minilm-l6" in name.lower()
    return not is_paper, f"The encoder is {name}; the paper's is MiniLM-L6."
