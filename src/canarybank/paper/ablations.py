"""Make the figure of ablations: sweeps over sigma and over q, and any sweep as a piece."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from canarybank.experiment.config import Config
from canarybank.experiment.gating import failing_claims
from canarybank.experiment.origins import Resolved
from canarybank.experiment.sending import may_send_records, skipped_note
from canarybank.experiment.sweep import Axis, Point, grid, run_sweep
from canarybank.experiment.variants import filled, is_default, varied
from canarybank.paper.piece import Cell, Piece, cell
from canarybank.paper.published import UNPUBLISHED
from canarybank.paper.recipe import BUILT_IN, Order, arm_a
from canarybank.paper.tables import Played, notes_of, run_cells, setup_facts

__all__ = ["GRIDS", "ablations", "sweep_piece"]

GRIDS: Final[Mapping[str, tuple[float, ...]]] = {
    "mechanism.sigma": (0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0),
    "mechanism.q": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
}
"""The paper states no grid; this is ours."""
_SMALL: Final[Mapping[str, tuple[float, ...]]] = {"mechanism.sigma": (0.5, 1.0, 2.0), "mechanism.q": (0.05, 0.1, 0.3)}
TRIALS: Final = 5_000_000
_WRITTEN: Final = "paraphrase-mueff"
ATTACKS: Final = ("ordinary", "exact", _WRITTEN, "nonce-norm")
_PLACE = "ablations"


def ablations(order: Order) -> Piece:
    """Make the figure of ablations: one canary, label-only bank, five million trials, over sigma and over q."""
    grids = _SMALL if order.is_small else GRIDS
    base = _base(order)
    played = list(_played(order, base, grids))
    cells: list[Cell] = []
    for at, each in played:
        cells += run_cells(order, each, at, lambda _: ())
    stated = "; ".join(
        f"{key.partition('.')[2]} {', '.join(f'{value:g}' for value in values)}" for key, values in grids.items()
    )
    return Piece(
        name="ablations",
        title="Ablations: the bound over the noise multiplier and over the sampling rate",
        about=f"The paper's values are {UNPUBLISHED}, nor is its grid stated; ours is {stated}. One canary, and the "
        "bands hold 90% of the bounds that such trials would give at the frozen thresholds.",
        shape="curves",
        coordinates=("axis", "value", "attack"),
        unpublished=True,
        cells=tuple(cells),
        setup=setup_facts(*(each.found for _, each in played)) | {"swept": _swept(base.config, grids)},
        notes=(*notes_of(*(each for _, each in played), trials=TRIALS), *_left_out(order)),
        runs=tuple(dict.fromkeys(each.place for _, each in played)),
    )


def sweep_piece(name: str, points: Sequence[Point], place: str) -> Piece:
    """Return a finished sweep as a piece: a cell for each attack at each point; its runs stand at ``place``."""
    keys = tuple(points[0].at)
    found = [(point, point.require_run().results) for point in points]
    failing = failing_claims({point.place: point.require_run() for point in points})
    return Piece(
        name=name,
        title=f"Sweep over {' and '.join(keys)}",
        about="Bands hold 90% of the bounds that such trials would give at the frozen thresholds.",
        shape="curves",
        coordinates=(*keys, "attack"),
        cells=tuple(
            cell(record, results, {**point.at, "attack": record.attack}).model_copy(
                update={"claim": "fails" if point.place in failing else "stands"}
            )
            for point, results in found
            for record in results.attacks
        ),
        setup=setup_facts(*((results, point.resolved) for point, results in found)) | {"swept": ", ".join(keys)},
        notes=(
            *failing.values(),
            *dict.fromkeys(note for _, results in found for note in results.notes),
        ),
        runs=tuple(f"{place}/{point.place}" for point in points),
    )


def _swept(config: Config, grids: Mapping[str, tuple[float, ...]]) -> str:
    """Say what is swept, and where what is not stays meanwhile."""
    stays = {key: f"{key.partition('.')[2]} {getattr(config.mechanism, key.partition('.')[2]):g}" for key in grids}
    return ", ".join(
        f"{key.partition('.')[2]} at {' and '.join(stays[other] for other in grids if other != key)}" for key in grids
    )


def _played(
    order: Order, base: Resolved, grids: Mapping[str, tuple[float, ...]]
) -> Iterator[tuple[dict[str, Any], Played]]:
    for key, values in grids.items():
        points = grid(base, [Axis(key, values)])
        for point in run_sweep(points, order.folder / _PLACE, progress=order.progress, command=order.command):
            place = f"{_PLACE}/{point.place}"
            yield (
                {"axis": key.partition(".")[2], "value": point.at[key]},
                Played(place, point.resolved, point.require_run()),
            )


def _base(order: Order) -> Resolved:
    """Return arm A with one canary and five million trials; a flag still decides otherwise."""
    attacks = tuple(name for name in ATTACKS if _writes(order) or name != _WRITTEN)
    own: dict[str, Any] = {"cohorts.canaries": 1, "attack.names": attacks}
    if not order.is_small:
        own["audit.trials"] = TRIALS
    base = arm_a(replace(order, resolved=filled(order.resolved, own, _PLACE)))
    return varied(base, {"audit.accounted": None}, _PLACE)


def _writes(order: Order) -> bool:
    """Say whether there are paraphrases: a generator may write them, and the built-in users bring theirs."""
    config = order.resolved.config
    written = config.generator.kind != "none" and may_send_records(config)
    return written or (config.users.source == BUILT_IN and order.data is None)


def _left_out(order: Order) -> tuple[str, ...]:
    if _writes(order) or not is_default(order.resolved, "attack.names"):
        return ()
    return (skipped_note([_WRITTEN], order.resolved.config),)
