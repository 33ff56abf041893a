"""Set an order's runs up as in the paper, and show them: cells with what sampling alone explains, the setup, and notes.

What you do not set is as in the paper, on your own users.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from canarybank.attack import CanaryKind
from canarybank.auditing import AttackResult, CanaryResult, Case, ThresholdMode
from canarybank.auditing.pipeline import cases_by_attack
from canarybank.auditing.spread import LEVEL, calibrated_spread, frozen_spread
from canarybank.config import PRESETS, Config, Resolved, filled, is_default, varied
from canarybank.errors import ConfigError, StoreError
from canarybank.flow.audit import AuditWork, mechanism_of, one_release, settings_of
from canarybank.flow.bank import bank_labels, bank_prompt, embedded_bank, gather_candidates, read_texts
from canarybank.flow.generators import may_send_records, refuse_sending
from canarybank.flow.inputs import (
    admit_users,
    build_engine,
    chosen_attacks,
    cohort_sizes,
    draw_roles,
    outside_examples,
    users_source,
)
from canarybank.flow.sweeping import Point
from canarybank.generate.bank import bank_plan
from canarybank.paper.piece import DATASETS, THEORY, Cell, Coordinate, PaperValue, Span
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import Run
from canarybank.run.gating import compare
from canarybank.run.results import Results
from canarybank.score import Interval
from canarybank.store import StageCache, canonical_json, read_checked, write_atomic, write_checked
from canarybank.wording import shown_epsilon

__all__ = [
    "BANK",
    "BUILT_IN",
    "PAPER",
    "Order",
    "arm_a",
    "arm_b",
    "attack_cell",
    "bank_note",
    "dataset_of",
    "encoder_note",
    "failing_claims",
    "kept_spreads",
    "paper_notes",
    "preset_values",
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
BANK: Final = 8192
"""The entries of the paper's bank."""
BUILT_IN: Final = "chitchat"
_ORIGIN: Final = "the paper"


def preset_values(preset: str, *sections: str) -> dict[str, Any]:
    """Return what a preset sets in these sections, by dotted key; nothing where there is no such preset."""
    parts = PRESETS.get(preset, {})
    return {f"{section}.{key}": value for section in sections for key, value in parts.get(section, {}).items()}


PAPER: Final[Mapping[str, Any]] = {
    **{
        key: value
        for key, value in preset_values("paper-yelp", "mechanism", "attack", "audit").items()
        if key not in {"attack.names", "audit.accounted"}
    },
    "cohorts.canaries": PRESETS["paper-yelp"]["cohorts"]["canaries"],
}
"""The paper's parameters of one release; cohorts are 500, 500 and 1,000 where the users allow it."""


@dataclass(frozen=True)
class Order:
    """What a user asks for: the configuration so far, and the files and size that replace the paper's own."""

    resolved: Resolved
    folder: Path
    small: bool = False
    """Whether everything that costs time is small, to try the command."""
    data: str | None = None
    bank: str | None = None
    bank_b: str | None = None
    prompt_b: str | None = None
    encoders: tuple[str, ...] = ("minilm", "minilm-l12", "mpnet")
    rounds: int | None = None
    command: str = ""
    progress: Progress = SILENT
    cache: StageCache = field(default_factory=StageCache)

    @property
    def bank_size(self) -> int:
        """Return the most entries of a bank whose size nobody chose."""
        return 1024 if self.small else BANK


def dataset_of(config: Config) -> str | None:
    """Return which of the paper's datasets the users are, or None."""
    name = users_source(config.users).format.name
    return name if name in DATASETS else None


def arm_a(order: Order) -> Resolved:
    """Return the settings of arm A: the label-only bank, generated or from a file."""
    resolved = order.resolved
    if order.data is not None:
        resolved = varied(resolved, {"users.source": order.data}, "flag")
    config = resolved.config
    own = preset_values(f"paper-{users_source(config.users).format.name}", "users", "bank")
    own = {key: value for key, value in own.items() if key not in {"bank.source", "bank.size"}}
    own |= {"encoder.name": "minilm", "encoder.keep_vectors": True, "attack.names": ("paper",)}
    if config.users.source == BUILT_IN:  # these have a light encoder, and bring paraphrases of their own
        own["encoder.name"] = "wordllama"
        if config.generator.kind == "none" or not may_send_records(config):
            own["cohorts.fixed"] = ("embedded",)
    resolved = filled(resolved, own, _ORIGIN)
    if order.small:
        resolved = filled(resolved, {"audit.trials": 50_000, **_small_cohorts(resolved.config, order)}, "small scale")
    resolved = _with_bank(filled(resolved, PAPER, _ORIGIN), order.bank, order)
    mechanism = mechanism_of(resolved.config).to_json()
    is_paper = all(PAPER.get(f"mechanism.{name}") == value for name, value in mechanism.items())
    return filled(resolved, {"audit.accounted": THEORY} if is_paper else {}, _ORIGIN)


def arm_b(order: Order) -> Resolved:
    """Return the settings of arm B: a bank whose generator saw three public examples, or from a file of its own.

    A bank that cannot be read or generated is refused here, before anything runs.
    """
    given, resolved = order.bank_b, arm_a(order)
    resolved = _with_examples(resolved, order) if given is None else _with_bank(resolved, given, order)
    bank, users = resolved.config.bank, resolved.config.users
    if bank.source == "generate":
        prompt, examples = bank_prompt(bank)
        bank_plan(bank.size or BANK, bank_labels(bank, users), prompt=prompt, examples=examples)
    else:
        gather_candidates(bank, users, None, order.cache)
    return resolved


def _small_cohorts(config: Config, order: Order) -> dict[str, Any]:
    """Return the small cohorts where the users would fill larger ones; fewer users are shared out as ever."""
    people = admit_users(config.users, config.cohorts, order.cache, order.progress)
    small = {"auxiliary": 60, "calibration": 60, "evaluation": 120}
    sizes = cohort_sizes(config.cohorts, len(people.users), chosen_attacks(config)[0])
    return {f"cohorts.{name}": most for name, most in small.items() if getattr(sizes, name) > most}


def _with_bank(resolved: Resolved, given: str | None, order: Order) -> Resolved:
    """Name the bank: a file, else one to generate where there is a generator, else the embedded one."""
    if given is not None:
        resolved = varied(resolved, {"bank.source": given}, "flag")
    elif is_default(resolved, "bank.source") and resolved.config.generator.kind != "none":
        resolved = varied(resolved, {"bank.source": "generate"}, _ORIGIN)
    if not is_default(order.resolved, "bank.size"):  # somebody chose the size, which then holds for both arms
        return resolved
    bank, size = resolved.config.bank, order.bank_size
    if bank.source != "generate":
        texts = embedded_bank().texts if bank.source == "embedded" else read_texts(Path(bank.source), bank.text)
        size = min(size, len(set(texts)))
    return varied(resolved, {"bank.size": size}, _ORIGIN)


def _with_examples(resolved: Resolved, order: Order) -> Resolved:
    """Let a generator write the bank from public examples: one text each of users who are in no cohort."""
    config, dataset = resolved.config, dataset_of(resolved.config)
    if config.generator.kind == "none":
        raise ConfigError(
            "Arm B is a bank whose generator saw public examples, and no generator is named; set --generator.kind, or "
            "give the bank's file by --bank-b."
        )
    refuse_sending(
        config,
        "Arm B shows the generator records of users outside all cohorts as public examples. It",
        "give the bank's file by --bank-b",
    )
    users = admit_users(config.users, config.cohorts, order.cache, order.progress).users
    cohorts = draw_roles(config.cohorts, users, chosen_attacks(config)[0])
    left = len(users) - sum(len(each.users) for each in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation))
    left -= len({name for drawn in cohorts.canaries.values() for name in drawn.ids})
    texts = outside_examples(users, cohorts, count=max(1, min(300, left)), seed=config.cohorts.seed)
    path = order.folder / "examples.jsonl"
    write_atomic(path, "".join(canonical_json({"text": text}) + "\n" for text in texts))
    bank = {
        "bank.source": "generate",
        "bank.size": order.bank_size if is_default(order.resolved, "bank.size") else config.bank.size,
        # The labels of the paper's datasets are codes, which their own prompts put into words.
        "bank.prompt": order.prompt_b or (None if dataset is None else f"bank-{dataset}-examples"),
        "bank.examples": str(path),
    }
    return varied(resolved, bank, "arm B")


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
    finished: Point,
    at: dict[str, Coordinate],
    paper: Callable[[str], tuple[PaperValue, ...]] = lambda _: (),
) -> list[Cell]:
    """Return a cell for each attack of a run, with the paper's values and where sampling alone puts its bound."""
    spreads = run_spreads(order, finished)
    return [
        attack_cell(record, finished.results, at, paper=paper(record.attack), explained=spreads[record.attack])
        for record in finished.results.attacks
    ]


def run_spreads(
    order: Order, finished: Point, make_work: Callable[[], AuditWork] | None = None
) -> Mapping[str, Interval]:
    """Return where sampling alone puts the bound of each attack of a run; it is computed once, and kept in a file.

    ``make_work`` returns the work of the run's configuration, where it is in memory.
    """
    kept = order.folder / "spreads" / f"{finished.place.replace('/', '-')}.json"
    return kept_spreads(finished.require_run(), finished.resolved, kept, progress=order.progress, make_work=make_work)


def kept_spreads(
    run: Run,
    resolved: Resolved,
    kept: Path,
    *,
    progress: Progress = SILENT,
    make_work: Callable[[], AuditWork] | None = None,
) -> Mapping[str, Interval]:
    """Return each attack's interval, reading it from the file ``kept`` where that is of the same run.

    For thresholds from a law they are the run's own, and the interval is exact. Thresholds by trials would fall
    elsewhere in another calibration, so for these the calibration is part of what is repeated.
    """
    # The way counts how intervals have been computed so far: one kept from an earlier way is computed again.
    facts = {"commitment": run.results.commitment, "level": LEVEL, "way": 4}
    if kept.exists():
        with contextlib.suppress(StoreError, KeyError, TypeError):  # what is not as it was written is computed again
            document = read_checked(kept)
            if all(document.get(name) == value for name, value in facts.items()):
                return {record.attack: Interval(*document["attacks"][record.attack]) for record in run.results.attacks}
    found = _computed(
        run.results, resolved, progress, make_work or partial(one_release, resolved.config, progress=progress)
    )
    write_checked(kept, {**facts, "attacks": {name: [each.lower, each.upper] for name, each in found.items()}})
    return found


def true_rates(rule: CanaryResult) -> tuple[float, float]:
    """Return the true and false positive rate of a frozen rule, in the middle of their certified intervals."""
    tpr, fpr = (
        0.0 if rate is None else 0.5 * (rate.lower + rate.upper) for rate in (rule.eligible_rate, rule.absent_rate)
    )
    return tpr, fpr


def _computed(
    results: Results, resolved: Resolved, progress: Progress, make_work: Callable[[], AuditWork]
) -> dict[str, Interval]:
    mechanism, settings = mechanism_of(resolved.config), settings_of(resolved.config)
    if settings.threshold is ThresholdMode.ANALYTIC:
        return {
            record.attack: frozen_spread(
                [true_rates(canary) for canary in record.canaries], settings.target(mechanism, len(record.canaries))
            )
            for record in results.attacks
        }
    work, found = make_work(), {}
    groups = cases_by_attack(work.cases)
    with progress.stage("sampling", total=len(groups), unit="attacks") as stage:
        for index, interval in build_engine(resolved.config.run).run(partial(_calibrated, work), groups):
            name = groups[index][0].attack.name
            found[name] = interval
            stage.advance(1, note=name)
    return {record.attack: found[record.attack] for record in results.attacks}


def _calibrated(work: AuditWork, cases: Sequence[Case]) -> Interval:
    auditor, settings = work.auditor, work.auditor.settings
    calibration, evaluation = (
        [law for case in cases if (law := auditor.law(case, systems(case))) is not None]
        for systems in (work.calibration, work.evaluation)
    )
    target = settings.target(auditor.mechanism, len(cases))
    return calibrated_spread(calibration, evaluation, target, number=settings.trials, seed=settings.seed)


def setup_facts(runs: Iterable[Point]) -> dict[str, str]:
    """Return what runs were audited with, for people: what they have in common; where they differ, nothing."""
    setups = [_setup(each) for each in runs]
    common = {
        name: [part for part, *others in zip(*(each[name] for each in setups), strict=True) if {part} >= {*others}]
        for name in setups[0]
    }
    return {name: ", ".join(parts) for name, parts in common.items() if parts}


def _setup(finished: Point) -> dict[str, tuple[str, ...]]:
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


def run_notes(*runs: Point, trials: int = PAPER["audit.trials"], by_encoder: bool = False) -> tuple[str, ...]:
    """Return what a reader should know of these runs, each note once.

    ``trials`` are the paper's own for the piece; a piece that goes by encoder names them all itself.
    """
    notes = [
        *failing_claims({each.place: each.require_run() for each in runs}).values(),
        *(note for each in runs for note in paper_notes(each, trials=trials, by_encoder=by_encoder)),
        *(note for each in runs for note in each.results.notes),
    ]
    return tuple(dict.fromkeys(notes))


def paper_notes(finished: Point, *, trials: int, by_encoder: bool) -> list[str]:
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


def failing_claims(runs: Mapping[str, Run]) -> dict[str, str]:
    """Return a sentence for each run, by its name, whose own claim is below what is computed or measured."""
    outcomes = {name: compare(run, run.results.claim) for name, run in runs.items()}
    return {name: f"{name}: {outcome.statement}" for name, outcome in outcomes.items() if not outcome.ok}
