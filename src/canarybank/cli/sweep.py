"""Run an audit at every point of a grid."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from canarybank.cli.audit import COMMON_KEYS, note_assumed
from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output

__all__ = ["command"]

POINTS = "points"


@configured(shown=COMMON_KEYS, sweeping=True, users=True)
def command(
    given: Given,
    *,
    over: Annotated[
        tuple[str, ...],
        Parameter(
            name="--over",
            negative="",
            help="A key and its values, such as mechanism.sigma=0.5,1,2; give it again for a grid. It replaces the "
            "values of this key in the file's section [sweep].",
            metavar="KEY=A,B",
        ),
    ] = (),
    folder: Annotated[
        Path | None,
        Parameter(
            help="The sweep's folder; left out, runs/sweep- and the file's name. Runs of an earlier sweep there stay, "
            "its tables are replaced.",
            metavar="PATH",
        ),
    ] = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Run an audit for every combination of values, and draw them as one table and one figure.

    The values are lists in the file's section [sweep], such as mechanism.sigma = [0.5, 1, 2], or given by --over.
    Each point is a run of its own with its own commitment. Users, vectors, banks and routes are made once: a sweep over
    sigma, q, clip or trials encodes and routes nothing again. The same command goes on where it was interrupted.
    """
    from canarybank.cli.pieces import print_pieces
    from canarybank.cli.typed import typed
    from canarybank.flow import Axis, grid, read_axis, run_sweep
    from canarybank.paper import sweep_piece, write_piece
    from canarybank.report import write_pieces

    note_assumed(given, output)
    place = folder or Path("runs") / f"sweep-{given.file.stem if given.file is not None else 'audit'}"
    typed_axes = [read_axis(text) for text in over]
    swept = {axis.key for axis in typed_axes}
    filed = [Axis(key, values) for key, values in given.resolved.sweep.items() if key not in swept]
    points = grid(given.resolved, [*filed, *typed_axes])
    done = run_sweep(points, place / POINTS, progress=output.progress, command=typed())
    piece = sweep_piece("sweep", done, POINTS)
    write_piece(piece, place)
    print_pieces("sweep", (piece,), write_pieces((piece,), place, title="a sweep"), output)
