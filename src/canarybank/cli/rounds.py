"""Name the round of an evolution whose bank a command reads."""

from typing import Annotated

from cyclopts import Parameter, validators

from canarybank.cli.whole_numbers import whole_number

__all__ = ["RoundNumber"]

RoundNumber = Annotated[
    int | None,
    Parameter(
        converter=whole_number,
        name="--round",
        help="Of an evolution: the round whose bank is meant, from 1; left out, the first.",
        metavar="N",
        validator=validators.Number(gte=1),
    ),
]
