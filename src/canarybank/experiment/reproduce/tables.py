"""Make the paper's tables: eight attacks on one arm or both, and three attacks by encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from canarybank.errors import MissingError
from canarybank.experiment.folder import Run
from canarybank.experiment.origins import Resolved
from canarybank.experiment.reproduce.piece import Cell, Piece, cell
from canarybank.experiment.reproduce.published import PaperValue, encoder_values, table_values
from canarybank.experiment.reproduce.recipe import Order, arm_a, arm_b, dataset_of, setup_notes
from canarybank.experiment.reproduce.spreads import run_spreads
from canarybank.experiment.results import Results
from canarybank.experiment.running import run_audit
from canarybank.experiment.variants import varied

__all__ = ["Played", "audited", "encoders_table", "full_table", "main_table", "notes_of", "run_cells", "setup_facts"]

Values = Callable[[str], tuple[PaperValue, ...]]
_RULE = (
    "Each bound is the largest over the canaries by the paper's rule, alpha split over them. Beside it stand the exact "
    "epsilon of the attack over all thresholds and at the frozen one, the bound to expect from the exact rates, and "
    "where sampling alone puts the bound 99.9 times in 100."
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


def setup_facts(results: Results, resolved: Resolved) -> dict[str, str]:
    """Return what a run was audited with, for people."""
    setup, mechanism, audit = results.setup, results.mechanism, results.audit
    return {
        "users": f"{Path(resolved.config.users.source).name}: {setup.evaluation:,} evaluation (N), "
        f"{setup.calibration:,} calibration, {setup.auxiliary:,} auxiliary, {setup.canaries} canaries an attack, up to "
        f"{setup.records} records each",
        "bank": f"{setup.bank:,} entries, {setup.probes} positions for probes",
        "encoder": f"{setup.encoder}, {setup.dimension} dimensions",
        "generator": Path(resolved.config.generator.model or resolved.config.generator.kind).name,
        "mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}, "
        f"delta {mechanism.delta:g}; exact epsilon {results.epsilon:.4f}",
        "trials": f"{audit.trials:,} of each hypothesis of each canary, method {audit.method}, alpha {audit.alpha:g}, "
        f"threshold {audit.threshold}",
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
    settings = {"A": arm_a, "B": arm_b}
    played = {arm: audited(order, f"arm-{arm.lower()}", settings[arm](order)) for arm in arms}
    cells: list[Cell] = []
    for arm, each in played.items():
        dataset = dataset_of(each.resolved.config)

        def paper(attack: str, arm: str = arm, dataset: str | None = dataset) -> tuple[PaperValue, ...]:
            return table_values(dataset, arm, attack)

        cells += run_cells(order, each, {"arm": arm}, paper)
    first = next(iter(played.values()))
    return Piece(
        name=name,
        title=title,
        about=_RULE,
        shape="table",
        coordinates=("arm", "attack"),
        cells=tuple(cells),
        setup=setup_facts(first.results, first.resolved),
        notes=notes_of(*played.values()),
        runs=tuple(each.place for each in played.values()),
    )


def encoders_table(order: Order) -> Piece:
    """Make the table of encoders: ordinary, exact and nonce by each encoder that is here."""
    base = varied(arm_a(order), {"attack.names": ("ordinary", "exact", "nonce")}, "encoders")
    cells: list[Cell] = []
    played, missing = [], []
    for name in order.encoders:
        resolved = varied(base, {"encoder.name": name}, "encoders")
        short = Path(name).name
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
        about=_RULE,
        shape="table",
        coordinates=("encoder", "attack"),
        cells=tuple(cells),
        setup={
            **setup_facts(played[0].results, base),
            "encoder": ", ".join(each.results.setup.encoder for each in played),
        },
        notes=(*notes_of(*played), *missing),
        runs=tuple(each.place for each in played),
    )


def _published_name(short: str) -> str:
    for part, name in (("mpnet", "mpnet"), ("l12", "minilm-l12"), ("minilm", "minilm")):
        if part in short.lower():
            return name
    return short


def notes_of(*played: Played) -> tuple[str, ...]:
    """Return what a reader should know of these runs, each note once."""
    notes = [note for each in played for note in setup_notes(each.results.setup, each.resolved.config)]
    notes += [note for each in played for note in each.results.notes]
    return tuple(dict.fromkeys(notes))
