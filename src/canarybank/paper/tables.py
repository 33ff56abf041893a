"""Make the paper's tables: eight attacks on one arm or both, and three attacks by encoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canarybank.errors import ConfigError, MissingError
from canarybank.experiment.candidates import bank_prompt
from canarybank.experiment.config import Config
from canarybank.experiment.folder import Run
from canarybank.experiment.gating import failing_claims
from canarybank.experiment.origins import Resolved
from canarybank.experiment.power import shown_epsilon
from canarybank.experiment.results import Results
from canarybank.experiment.running import run_audit
from canarybank.experiment.variants import varied
from canarybank.paper.piece import Cell, Piece, cell
from canarybank.paper.published import PaperValue, encoder_values, table_values
from canarybank.paper.recipe import PAPER, Order, arm_a, arm_b, dataset_of, setup_notes
from canarybank.paper.spreads import run_spreads

__all__ = ["Played", "audited", "encoders_table", "full_table", "main_table", "notes_of", "run_cells", "setup_facts"]

Values = Callable[[str], tuple[PaperValue, ...]]
Audited = tuple[Results, Resolved]
_RULE = "Each bound is the largest over the canaries by the paper's rule, alpha split over them."
_BESIDE = (
    "Beside it stand the exact epsilon of the attack over all thresholds and at the frozen one, the bound to expect "
    "from the exact rates, and where sampling alone puts the bound in 999 cases of 1,000."
)


@dataclass(frozen=True, slots=True)
class Played:
    """A finished run of one arm or setting, and its place in the folder."""

    place: str
    resolved: Resolved
    run: Run

    @property
    def results(self) -> Results:
        """Return what it found."""
        return self.run.results

    @property
    def found(self) -> Audited:
        """Return what it found, and with which settings."""
        return self.results, self.resolved


def audited(order: Order, place: str, resolved: Resolved) -> Played:
    """Run one setting in its place in the order's folder, or go on with it."""
    run = run_audit(resolved, order.folder / place, progress=order.progress, command=order.command)
    return Played(place, resolved, run)


def run_cells(order: Order, played: Played, at: dict[str, str | int | float], paper: Values) -> tuple[Cell, ...]:
    """Return a cell for each attack of a run, with where sampling alone puts its bound."""
    kept = order.folder / "spreads" / f"{played.place.replace('/', '-')}.json"
    spreads = run_spreads(played.run, played.resolved, kept, progress=order.progress)
    return tuple(
        cell(
            record,
            played.results,
            {**at, "attack": record.attack},
            paper=paper(record.attack),
            explained=spreads[record.attack],
        )
        for record in played.results.attacks
    )


def setup_facts(*played: Audited) -> dict[str, str]:
    """Return what runs were audited with, for people: what they have in common; where they differ, nothing."""
    parts = [_parts(results, resolved.config) for results, resolved in played]
    common = {
        fact: tuple(part for part, *others in zip(*(each[fact] for each in parts), strict=True) if {part} >= {*others})
        for fact in parts[0]
    }
    return {fact: ", ".join(stated) for fact, stated in common.items() if stated}


def _parts(results: Results, config: Config) -> dict[str, tuple[str, ...]]:
    setup, mechanism, audit = results.setup, results.mechanism, results.audit
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


def main_table(order: Order) -> Piece:
    """Make the main table: eight attacks on the label-only bank."""
    return _arms(order, "main", "Main table: eight attacks, label-only bank", ("A",))


def full_table(order: Order) -> Piece:
    """Make the full table: eight attacks on both banks."""
    return _arms(
        order, "full", "Full table: eight attacks, label-only bank (A) and bank with public examples (B)", "AB"
    )


def _arms(order: Order, name: str, title: str, arms: tuple[str, ...] | str) -> Piece:
    ways = {"A": arm_a, "B": arm_b}
    settings = {arm: ways[arm](order) for arm in arms}
    played = {arm: audited(order, f"arm-{arm.lower()}", resolved) for arm, resolved in settings.items()}
    cells: list[Cell] = []
    for arm, each in played.items():
        dataset = dataset_of(each.resolved.config)

        def paper(attack: str, arm: str = arm, dataset: str | None = dataset) -> tuple[PaperValue, ...]:
            return table_values(dataset, arm, attack)

        cells += run_cells(order, each, {"arm": arm}, paper)
    return Piece(
        name=name,
        title=title,
        about=_about(next(iter(played.values()))),
        shape="table",
        coordinates=("arm", "attack"),
        cells=tuple(cells),
        setup=_arm_facts(played),
        notes=notes_of(*played.values()),
        runs=tuple(each.place for each in played.values()),
    )


def _about(played: Played) -> str:
    method = played.results.audit.method
    rule = _RULE if method == PAPER["audit.method"] else f"Each bound is by the method {method}, not the paper's rule."
    return f"{rule} {_BESIDE}"


def _arm_facts(played: dict[str, Played]) -> dict[str, str]:
    """Return what the arms were audited with, the bank of each where they differ."""
    facts = setup_facts(*(each.found for each in played.values()))
    banks = {arm: f"{setup_facts(each.found)['bank']}, {_origin(each)}" for arm, each in played.items()}
    if len(set(banks.values())) == 1:
        return facts
    return facts | {"bank": "; ".join(f"arm {arm}: {bank}" for arm, bank in banks.items())}


def _origin(played: Played) -> str:
    bank = played.resolved.config.bank
    if bank.source != "generate":
        return f"from {Path(bank.source).name}"
    return f"generated by {bank_prompt(bank)[0].name}"


def encoders_table(order: Order) -> Piece:
    """Make the table of encoders: ordinary, exact and nonce by each encoder that is here."""
    if not order.encoders:
        raise ConfigError("The table of encoders needs at least one, and --encoders names none; name some, as minilm.")
    # Before the cohorts are sized, for they leave room for the canaries of these attacks.
    chosen = varied(order.resolved, {"attack.names": ("ordinary", "exact", "nonce")}, "encoders")
    base = arm_a(replace(order, resolved=chosen))
    cells: list[Cell] = []
    played, missing = [], []
    for name, short in _short_names(order.encoders).items():
        resolved = varied(base, {"encoder.name": name}, "encoders")
        try:
            each = audited(order, f"encoders/{short}", resolved)
        except MissingError as error:
            missing.append(f"The encoder {short} is not here, so its column is left out. {error}")
            continue
        dataset = dataset_of(resolved.config)

        def paper(
            attack: str, key: str = _published_name(short), dataset: str | None = dataset
        ) -> tuple[PaperValue, ...]:
            return encoder_values(dataset, key, attack)

        cells += run_cells(order, each, {"encoder": short}, paper)
        played.append(each)
    if not played:
        raise MissingError(" ".join(missing))
    return Piece(
        name="encoders",
        title="Table of encoders: three attacks by each encoder",
        about=_about(played[0]),
        shape="table",
        coordinates=("encoder", "attack"),
        cells=tuple(cells),
        setup={
            **setup_facts(*(each.found for each in played)),
            "encoder": ", ".join(each.results.setup.encoder for each in played),
        },
        notes=(*notes_of(*played, by_encoder=True), *missing),
        runs=tuple(each.place for each in played),
    )


def _short_names(encoders: Sequence[str]) -> dict[str, str]:
    """Return a short name for each encoder: the last part of its path, numbered where an earlier one ends so too."""
    short: dict[str, str] = {}
    for name in dict.fromkeys(encoders):
        last = Path(name).name
        earlier = sum(Path(other).name == last for other in short)
        short[name] = f"{last}-{earlier + 1}" if earlier else last
    return short


def _published_name(short: str) -> str:
    for part, name in (("mpnet", "mpnet"), ("l12", "minilm-l12"), ("minilm", "minilm")):
        if part in short.lower():
            return name
    return short


def notes_of(*played: Played, trials: int = PAPER["audit.trials"], by_encoder: bool = False) -> tuple[str, ...]:
    """Return what a reader should know of these runs, each note once; ``trials`` are the paper's."""
    stated = [
        setup_notes(each.results.setup, each.resolved.config, trials=trials, by_encoder=by_encoder) for each in played
    ]
    notes = [*failing_claims({each.place: each.run for each in played}).values()]
    notes += [note for each in stated for note in each]
    notes += [note for each in played for note in each.results.notes]
    return tuple(dict.fromkeys(notes))
