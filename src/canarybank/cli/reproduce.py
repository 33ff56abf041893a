"""Make a table or figure of the paper, beside its own numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output

if TYPE_CHECKING:
    from canarybank.paper import Order

__all__ = ["command"]

_PIECES = {
    "main": "Make the main table: eight attacks on the label-only bank.",
    "full": "Make the full table: eight attacks on both banks.",
    "ablations": "Make the figure of ablations: sweeps over sigma and q.",
    "multiround": "Make the multi-round figure: MAUVE, theory, exact and observed epsilon.",
    "encoders": "Make the table of encoders: three attacks by each of three encoders.",
    "all": "Make every table and figure for which everything is here.",
}
_SHOWN = (
    "users.format",
    "encoder.name",
    "bank.prompt",
    "bank.labels",
    "cohorts.shared",
    "generator.kind",
    "generator.model",
    "audit.trials",
    "audit.threshold",
    "run.workers",
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Asked:
    """What stands in for the paper's own data, banks and generator."""

    data: Annotated[str | None, Parameter(help="The file of users; left out, the built-in ones.", metavar="FILE")] = (
        None
    )
    bank: Annotated[
        str | None,
        Parameter(help="The file of the label-only bank (A); left out, it is generated, or the embedded one."),
    ] = None
    bank_b: Annotated[
        str | None, Parameter(help="The file of the bank with public examples (B); left out, it is generated.")
    ] = None
    prompt_b: Annotated[
        str | None, Parameter(help="The prompt that arm B is generated with; left out, the one for the data.")
    ] = None
    encoders: Annotated[
        str, Parameter(help="The encoders of the table of encoders: names or folders.", metavar="A,B")
    ] = "minilm,minilm-l12,mpnet"
    scale: Annotated[
        Literal["paper", "small"], Parameter(help="As large as the paper, or small enough to try the command.")
    ] = "paper"
    folder: Annotated[
        Path, Parameter(help="Where runs, tables and figures go; pieces in the same folder share runs.", metavar="PATH")
    ] = Path("runs/reproduce")


command = App(name="reproduce", help="Make a table or figure of the paper, beside its own numbers.")


def _add(name: str, about: str) -> None:
    @configured(shown=_SHOWN, short={"generator.kind": "--generator"})
    def piece(
        given: Given,
        *,
        asked: Asked = Asked(),  # noqa: B008, a frozen value
        output: Output = Output(),  # noqa: B008, a frozen value
    ) -> None:
        _make(name, given, asked, output)

    piece.__doc__ = (
        f"{about}\n\nWhat is not given is as in the paper; a smaller file scales the cohorts down and says so. The "
        "same command goes on where it was interrupted, and writes the same bytes from what is finished."
    )
    command.command(piece, name=name)


def _make(name: str, given: Given, asked: Asked, output: Output) -> None:
    from canarybank.cli.pieces import print_pieces
    from canarybank.paper import finished_pieces, make_all, make_piece
    from canarybank.report import write_pieces

    order = _order(given, asked, output)
    made, left = make_all(order) if name == "all" else ((make_piece(name, order),), ())
    page = write_pieces(finished_pieces(order), order.folder)
    print_pieces(f"reproduce {name}", made, page, output, left=left)


def _order(given: Given, asked: Asked, output: Output) -> "Order":
    from canarybank.cli.typed import typed
    from canarybank.paper import Order

    return Order(
        given.resolved,
        asked.folder,
        small=asked.scale == "small",
        data=asked.data,
        bank=asked.bank,
        bank_b=asked.bank_b,
        prompt_b=asked.prompt_b,
        encoders=tuple(name.strip() for name in asked.encoders.split(",") if name.strip()),
        command=typed(),
        progress=output.progress,
    )


for _name, _about in _PIECES.items():
    _add(_name, _about)
