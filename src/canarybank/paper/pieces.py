"""Make the paper's tables and figures, one or all, and show any sweep as such a figure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from canarybank.auditing import AttackResult, Target, find_method, frozen_spread
from canarybank.config import PRESETS, CohortsConfig, Resolved, filled, is_default, varied
from canarybank.errors import CohortError, ConfigError, MissingError
from canarybank.flow import Axis, Point, grid, run_audit, run_evolution, run_sweep
from canarybank.flow.audit import one_release
from canarybank.flow.bank import bank_prompt
from canarybank.flow.generators import may_send_records, skipped_note
from canarybank.flow.inputs import admit_users
from canarybank.paper.piece import (
    ROUND_THEORY,
    UNPUBLISHED,
    Cell,
    PaperValue,
    Piece,
    encoder_values,
    read_piece,
    table_values,
    write_piece,
)
from canarybank.paper.runs import (
    BUILT_IN,
    PAPER,
    Order,
    arm_a,
    arm_b,
    attack_cell,
    bank_note,
    dataset_of,
    encoder_note,
    failing_claims,
    preset_values,
    run_cells,
    run_notes,
    run_spreads,
    setup_facts,
    trials_note,
    true_notes,
    true_rates,
)
from canarybank.run.results import EvolutionFacts, Results

__all__ = [
    "GRIDS",
    "PAPER_ROUNDS",
    "PIECES",
    "ablation_settings",
    "cohort_shares",
    "finished_pieces",
    "make_all",
    "make_piece",
    "prefix_cell",
    "published_name",
    "short_names",
    "sweep_piece",
]

_PARAPHRASE_ATTACK: Final = "paraphrase-mueff"
_ABLATION_TRIALS: Final = 5_000_000
GRIDS: Final[Mapping[str, tuple[float, ...]]] = {
    "sigma": (0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0),
    "q": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
}
"""The paper states no grid; this is ours."""
PAPER_ROUNDS: Final[dict[str, Any]] = {
    "mechanism.sigma": PRESETS["paper-rounds"]["mechanism"]["sigma"],
    "cohorts.canaries": PRESETS["paper-rounds"]["cohorts"]["canaries"],
    **preset_values("paper-rounds", "evolve", "audit"),
}
"""The paper's parameters of several releases; it names neither its attack nor its number of canaries."""
_ELIGIBLE: Final[int] = PRESETS["paper-rounds"]["cohorts"]["evaluation"]


def make_piece(name: str, order: Order) -> Piece:
    """Make one table or figure, resuming what was interrupted, and write it into the order's folder.

    Args:
        name: A name in ``PIECES``.
        order: The configuration so far, the folder, and the files and size that replace the paper's own.

    Example:
        >>> from canarybank.config import resolve
        >>> tiny = {
        ...     "encoder.name": "hashing",
        ...     "attack.names": "ordinary",
        ...     "attack.probes": 4,
        ...     "cohorts.canaries": 1,
        ...     "audit.trials": 100,
        ...     "audit.threshold": "analytic",
        ... }
        >>> order = Order(resolve(flags=tiny), Path("main-alone"), small=True, data="my-users.csv", bank="bank.txt")
        >>> piece = make_piece("main", order)
        >>> cell = piece.cells[0]
        >>> cell.at, {each.dataset: each.value for each in cell.paper if each.table == "main table"}
        ({'arm': 'A', 'attack': 'ordinary'}, {'yelp': 0.268, 'sentiment140': 0.252})
    """
    piece = PIECES[name](order)
    write_piece(piece, order.folder)
    return piece


def make_all(order: Order) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """Make every table and figure for which everything is here, and say what is missing for the others.

    Args:
        order: The configuration so far, the folder, and the files and size that replace the paper's own.

    Example:
        >>> from canarybank.config import resolve
        >>> tiny = {
        ...     "encoder.name": "hashing",
        ...     "attack.names": "ordinary",
        ...     "attack.probes": 4,
        ...     "cohorts.canaries": 1,
        ...     "audit.trials": 100,
        ...     "audit.threshold": "analytic",
        ... }
        >>> files = {"data": "my-users.csv", "bank": "bank.txt"}
        >>> order = Order(resolve(flags=tiny), Path("all-tables"), small=True, encoders=(), **files)
        >>> made, missing = make_all(order)
        >>> [piece.name for piece in made]
        ['main', 'ablations']
        >>> missing[0]
        "full was left out: Arm B is a bank whose generator saw public examples, and no generator is named; ..."
    """
    made, left = [], []
    for name in PIECES:
        try:
            made.append(make_piece(name, order))
        except (CohortError, ConfigError, MissingError) as error:
            if not made:
                raise
            left.append(f"{name} was left out: {error}")
    return tuple(made), tuple(left)


def finished_pieces(order: Order) -> tuple[Piece, ...]:
    """Return every piece that is finished in the order's folder, in the paper's order.

    Args:
        order: The order; only its folder counts.

    Example:
        >>> from canarybank.config import resolve
        >>> order = Order(resolve(), Path("my-tables"))
        >>> table = Piece(name="full", title="Full table", about="", shape="table", coordinates=(), cells=(), setup={})
        >>> _ = write_piece(table, order.folder)
        >>> [piece.name for piece in finished_pieces(order)]
        ['full']
    """
    paths = [order.folder / f"{name}.json" for name in PIECES]
    return tuple(read_piece(path) for path in paths if path.is_file())


def _arms(order: Order, name: str, title: str, arms: Mapping[str, Callable[[Order], Resolved]]) -> Piece:
    settings = {arm: settings_of(order) for arm, settings_of in arms.items()}
    runs = {arm: _audited(order, f"arm-{arm.lower()}", resolved) for arm, resolved in settings.items()}
    banks = {arm: _bank_fact(each) for arm, each in runs.items()}
    facts = setup_facts(runs.values())
    if len(set(banks.values())) > 1:
        facts["bank"] = "; ".join(f"arm {arm}: {bank}" for arm, bank in banks.items())
    paper = {arm: partial(table_values, dataset_of(each.resolved.config), arm) for arm, each in runs.items()}
    return _table(order, "arm", runs, paper, name=name, title=title, setup=facts, notes=run_notes(*runs.values()))


def _bank_fact(finished: Point) -> str:
    bank = finished.resolved.config.bank
    generated = bank.source == "generate"
    origin = f"generated by {bank_prompt(bank)[0].name}" if generated else f"from {Path(bank.source).name}"
    return f"{setup_facts([finished])['bank']}, {origin}"


def _encoders(order: Order) -> Piece:
    if not order.encoders:
        raise ConfigError("The table of encoders needs at least one, and --encoders names none; name some, as minilm.")
    # Before the cohorts are sized, for they leave room for the canaries of these attacks.
    chosen = varied(order.resolved, {"attack.names": ("ordinary", "exact", "nonce")}, "encoders")
    base = arm_a(replace(order, resolved=chosen))
    dataset = dataset_of(base.config)
    runs, missing = {}, []
    for short, name in short_names(order.encoders).items():
        try:
            runs[short] = _audited(order, f"encoders/{short}", varied(base, {"encoder.name": name}, "encoders"))
        except MissingError as error:
            missing.append(f"The encoder {short} is not here, so its column is left out. {error}")
    if not runs:
        raise MissingError(" ".join(missing))
    encoders = ", ".join(each.results.require_setup().encoder for each in runs.values())
    return _table(
        order,
        "encoder",
        runs,
        {short: partial(encoder_values, dataset, published_name(short)) for short in runs},
        name="encoders",
        title="Table of encoders: three attacks by each encoder",
        setup={**setup_facts(runs.values()), "encoder": encoders},
        notes=(*run_notes(*runs.values(), by_encoder=True), *missing),
    )


def short_names(encoders: Sequence[str]) -> dict[str, str]:
    """Return encoders by a short name: the last part of their path, numbered where an earlier one has that name."""
    short: dict[str, str] = {}
    for name in dict.fromkeys(encoders):
        last = Path(name).name
        free = (each for each in chain([last], (f"{last}-{number}" for number in count(2))) if each not in short)
        short[next(free)] = name
    return short


def published_name(short: str) -> str:
    """Return the paper's name of an encoder, or its own where the paper has none such."""
    names = {"mpnet": "mpnet", "l12": "minilm-l12", "minilm": "minilm"}
    return next((name for part, name in names.items() if part in short.lower()), short)


def _audited(order: Order, place: str, resolved: Resolved) -> Point:
    """Run one setting in its place in the order's folder, or resume it, and put its intervals beside it."""
    make_work = cache(partial(one_release, resolved.config, progress=order.progress))
    run = run_audit(resolved, order.folder / place, progress=order.progress, command=order.command, make_work=make_work)
    point = Point(place, resolved, run=run)
    run_spreads(order, point, make_work)  # while what the audit has made is in memory
    return point


def _table(
    order: Order,
    coordinate: str,
    runs: Mapping[str, Point],
    paper: Mapping[str, Callable[[str], tuple[PaperValue, ...]]],
    **stated: Any,
) -> Piece:
    """Return a table with a group of rows for each run, by one coordinate, beside the paper's values for it."""
    method = next(iter(runs.values())).results.audit.method
    rule = "Each bound is the largest over the canaries by the paper's rule, alpha split over them."
    if method != PAPER["audit.method"]:
        rule = f"Each bound is by the method {method}, not the paper's rule."
    return Piece(
        about=f"{rule} Beside it stand the exact epsilon of the attack over all thresholds and at the frozen one, the "
        "bound to expect from the exact rates, and where sampling alone puts the bound in 999 cases of 1,000.",
        shape="table",
        coordinates=(coordinate, "attack"),
        cells=tuple(
            cell for key, each in runs.items() for cell in run_cells(order, each, {coordinate: key}, paper[key])
        ),
        runs=tuple(each.place for each in runs.values()),
        **stated,
    )


def ablation_settings(order: Order) -> tuple[Resolved, tuple[str, ...]]:
    """Return arm A with one canary and five million trials, where no flag says otherwise, and what it has to skip.

    There are paraphrases where a generator may write them, and the built-in users bring theirs.
    """
    config = order.resolved.config
    is_written = config.generator.kind != "none" and may_send_records(config)
    is_written = is_written or (config.users.source == BUILT_IN and order.data is None)
    attacks = ("ordinary", "exact", *((_PARAPHRASE_ATTACK,) if is_written else ()), "nonce-norm")
    own = {
        "cohorts.canaries": 1,
        "attack.names": attacks,
        **({} if order.small else {"audit.trials": _ABLATION_TRIALS}),
    }
    base = arm_a(replace(order, resolved=filled(order.resolved, own, "ablations")))
    is_skipped = not is_written and is_default(order.resolved, "attack.names")
    skipped = (skipped_note([_PARAPHRASE_ATTACK], config),) if is_skipped else ()
    return varied(base, {"audit.accounted": None}, "ablations"), skipped


def _ablations(order: Order) -> Piece:
    """Make the figure of ablations: one canary, label-only bank, five million trials, over sigma and over q."""
    grids = {"sigma": (0.5, 1.0, 2.0), "q": (0.05, 0.1, 0.3)} if order.small else GRIDS
    base, skipped = ablation_settings(order)
    points = [
        replace(point, place=f"ablations/{point.place}")
        for axis, values in grids.items()
        for point in run_sweep(
            grid(base, [Axis(f"mechanism.{axis}", values)]),
            order.folder / "ablations",
            progress=order.progress,
            command=order.command,
        )
    ]
    stated = "; ".join(f"{axis} {', '.join(f'{value:g}' for value in values)}" for axis, values in grids.items())
    mechanism = base.config.mechanism
    return Piece(
        name="ablations",
        title="Ablations: the bound over the noise multiplier and over the sampling rate",
        about=f"The paper's values are {UNPUBLISHED}, nor is its grid stated; ours is {stated}. One canary, and the "
        "bands hold 90% of the bounds that such trials would give at the frozen thresholds.",
        shape="curves",
        coordinates=("axis", "value", "attack"),
        unpublished=True,
        cells=tuple(
            cell
            for point in points
            for key, value in point.at.items()
            for cell in run_cells(order, point, {"axis": key.removeprefix("mechanism."), "value": value})
        ),
        setup=setup_facts(points) | {"swept": f"sigma at q {mechanism.q:g}, q at sigma {mechanism.sigma:g}"},
        notes=(*run_notes(*points, trials=_ABLATION_TRIALS), *skipped),
        runs=tuple(dict.fromkeys(point.place for point in points)),
    )


def _multiround(order: Order) -> Piece:
    """Make the multi-round figure by one evolution, simulated and audited on the banks that it realises."""
    if order.resolved.config.generator.kind == "none":
        raise ConfigError(
            "The multi-round figure needs a generator, for every round asks it for new candidates; set "
            "--generator.kind, such as smollm2."
        )
    own = PAPER_ROUNDS | ({} if order.rounds is None else {"evolve.rounds": order.rounds})
    if order.small:
        own |= {"evolve.rounds": 2, "audit.trials": 50_000}
    resolved = arm_a(replace(order, resolved=filled(order.resolved, own, "multiround")))
    config = resolved.config
    users = len(admit_users(config.users, config.cohorts, order.cache, order.progress).users)
    resolved = filled(resolved, cohort_shares(config.cohorts, users), "multiround")
    run = run_evolution(resolved, order.folder / "multiround", progress=order.progress, command=order.command)
    results, evolution = run.results, run.results.evolution
    if evolution is None or not results.attacks:
        raise ConfigError("The multi-round figure needs an audit; leave evolve.audit as it is, or name an attack.")
    return Piece(
        name="multiround",
        title="Multi-round figure: utility and privacy against the number of releases",
        about="Mixture scores are summed over independent releases, one over each bank of this run, held fixed. The "
        "paper's theory stands "
        f"beside the exact one; its MAUVE and audit values are {UNPUBLISHED}. Bands hold 90% of the bounds that such "
        "trials would give.",
        shape="rounds",
        coordinates=("rounds",),
        unpublished=True,
        cells=tuple(prefix_cell(each, results) for each in results.attacks if each.attack == results.attacks[0].attack),
        setup=_round_facts(results, evolution, resolved),
        notes=(*_round_notes(results, evolution), *results.notes),
        runs=("multiround",),
    )


def cohort_shares(config: CohortsConfig, users: int) -> dict[str, int]:
    """Share so many users out: a reference for utility, the paper's cohorts, and up to 8,000 eligible ones."""
    given = (config.canaries, config.auxiliary, config.calibration, config.evaluation)
    reference = max(0, min(500, users // 10, users - sum(size or 0 for size in given)))
    left = users - reference - config.canaries
    cohort = config.auxiliary or min(500, left // 4)
    return {
        "evolve.reference": reference,
        "cohorts.auxiliary": cohort,
        "cohorts.calibration": cohort,
        "cohorts.evaluation": min(_ELIGIBLE, left - 2 * cohort),
    }


def prefix_cell(shown: AttackResult, results: Results) -> Cell:
    """Return the cell of the first releases of an audited evolution."""
    mechanism, ladder, rounds = results.mechanism, shown.ladder, shown.rounds
    canary = shown.canaries[shown.headline_canary]
    utility = None if results.evolution is None else results.evolution.utility
    worth = {} if utility is None else {each.round: each.mauve for each in utility.figures if each.mauve is not None}
    more = {"theory": ladder.mechanism.epsilon, **({"mauve": worth[rounds]} if rounds in worth else {})}
    is_paper = (mechanism.sigma, mechanism.q, mechanism.delta) == (PAPER_ROUNDS["mechanism.sigma"], 0.1, 1e-5)
    if is_paper and rounds <= len(ROUND_THEORY):
        more["paper theory"] = ROUND_THEORY[rounds - 1]
    level = 1 - canary.bound.confidence
    target = Target(results.audit.trials, mechanism.delta, level, find_method(results.audit.method), 1, mechanism.q)
    interval = frozen_spread([true_rates(each) for each in shown.canaries], target)
    own = {
        "at": {"rounds": rounds},
        "exact": canary.exact,
        "rule": None if ladder.rule is None else ladder.rule.low,
        "accounted": more.get("paper theory", ladder.accounted.epsilon),
        "more": more,
    }
    return attack_cell(shown, results, {}, explained=interval).model_copy(update=own)


def _round_facts(results: Results, evolution: EvolutionFacts, resolved: Resolved) -> dict[str, str]:
    mechanism, audit, setup, first = results.mechanism, results.audit, results.require_setup(), evolution.rounds[0]
    canaries = "one canary" if setup.canaries == 1 else f"{setup.canaries} canaries"
    return {
        "users": f"{setup.evaluation:,} eligible (N), {resolved.config.cohorts.auxiliary or 0:,} auxiliary",
        "bank": f"{first.entries:,} entries, {first.probes} probes, {first.kept:,} kept after each round",
        "attack": f"{results.attacks[0].attack}, {canaries}, method {audit.method}, alpha {audit.alpha:g} for each "
        "prefix",
        "encoder": evolution.encoder,
        "generator": evolution.generator,
        "mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}, "
        f"delta {mechanism.delta:g}",
        "trials": f"{audit.trials:,} of each hypothesis",
    }


def _round_notes(results: Results, evolution: EvolutionFacts) -> list[str]:
    """Say what differs from the paper, where utility began, and where precision and recall went."""
    releases, paper, eligible = len(evolution.rounds), len(ROUND_THEORY), results.require_setup().evaluation
    notes = true_notes(
        (eligible != _ELIGIBLE, f"N is {eligible:,} eligible users; the paper has {_ELIGIBLE:,}."),
        bank_note(evolution.rounds[0].entries),
        (releases != paper, f"There are {releases} releases; the paper has {paper}."),
        trials_note(results.audit.trials, PAPER_ROUNDS["audit.trials"]),
        encoder_note(evolution.encoder),
    )
    if evolution.utility is not None:
        first, *_, last = evolution.utility.figures
        start = "" if first.mauve is None else f"MAUVE was {first.mauve:.3f} before any release. "
        notes.append(
            f"{start}From the first population to the last, precision (candidates that lie among held-out texts) went "
            f"from {first.precision:.3f} to {last.precision:.3f}, and recall (held-out texts that lie among "
            f"candidates) from {first.recall:.3f} to {last.recall:.3f}."
        )
    return notes


def sweep_piece(name: str, points: Sequence[Point], place: str) -> Piece:
    """Return a finished sweep as a piece: a cell for each attack at each point; its runs stand at ``place``.

    Args:
        name: The name of the piece and of its file.
        points: The points of the sweep, each with its run.
        place: The folder of the runs, as a reader of the piece finds it.

    Example:
        >>> from canarybank import open_run
        >>> from canarybank.config import resolve_users
        >>> from canarybank.flow import Point
        >>> point = Point("demo", resolve_users("my-users.csv"), {"mechanism.sigma": 1.0}, open_run("runs/demo"))
        >>> piece = sweep_piece("noise", [point], "runs")
        >>> piece.title, [cell.at["attack"] for cell in piece.cells], piece.runs
        ('Sweep over mechanism.sigma', ['ordinary', 'nonce-norm'], ('runs/demo',))
    """
    keys = tuple(points[0].at)
    failing = failing_claims({point.place: point.require_run() for point in points})
    return Piece(
        name=name,
        title=f"Sweep over {' and '.join(keys)}",
        about="Bands hold 90% of the bounds that such trials would give at the frozen thresholds.",
        shape="curves",
        coordinates=(*keys, "attack"),
        cells=tuple(
            attack_cell(record, point.results, dict(point.at)).model_copy(
                update={"claim": "fails" if point.place in failing else "stands"}
            )
            for point in points
            for record in point.results.attacks
        ),
        setup=setup_facts(points) | {"swept": ", ".join(keys)},
        notes=(*failing.values(), *dict.fromkeys(note for point in points for note in point.results.notes)),
        runs=tuple(f"{place}/{point.place}" for point in points),
    )


PIECES: Final[Mapping[str, Callable[[Order], Piece]]] = MappingProxyType(
    {
        "main": partial(_arms, name="main", title="Main table: eight attacks, label-only bank", arms={"A": arm_a}),
        "full": partial(
            _arms,
            name="full",
            title="Full table: eight attacks, label-only bank (A) and bank with public examples (B)",
            arms={"A": arm_a, "B": arm_b},
        ),
        "ablations": _ablations,
        "multiround": _multiround,
        "encoders": _encoders,
    }
)
"""The tables and figures of the paper by name, in its order."""
