"""Say what texts are worth against real text."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.whole_numbers import whole_number

__all__ = ["command"]


def command(
    *texts: Annotated[
        str,
        Parameter(help="Files of texts, with a column label where they have some; folders of evolutions; or embedded."),
    ],
    users: Annotated[
        str | None,
        Parameter(help="The real users: a file, or chitchat. Take users who shaped none of the texts.", metavar="PATH"),
    ] = None,
    user: Annotated[str | None, Parameter(help="The users' column with the user's id.", metavar="NAME")] = None,
    text: Annotated[str | None, Parameter(help="The users' column with the text.", metavar="NAME")] = None,
    label: Annotated[
        str | None,
        Parameter(help="The users' column with the label, for label agreement and the task.", metavar="NAME"),
    ] = None,
    config: Annotated[
        Path | None, Parameter(help="A TOML file whose users and encoder are taken.", metavar="PATH")
    ] = None,
    encoder: Annotated[
        str | None, Parameter(help="The encoder; left out, that of the file, or wordllama.", metavar="NAME")
    ] = None,
    column: Annotated[
        str, Parameter(name=["--column", "--bank.text"], help="The column with the texts of the files.", metavar="NAME")
    ] = "text",
    rounds: Annotated[
        Literal["last", "all"], Parameter(help="Of an evolution's folder: its last population, or all.")
    ] = "last",
    neighbours: Annotated[
        int,
        Parameter(
            converter=whole_number,
            help="The neighbour that balls reach to.",
            metavar="N",
            validator=validators.Number(gte=1),
        ),
    ] = 3,
    buckets: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            help="The clusters of MAUVE; left out, one for 20 texts of a set.",
            metavar="N",
            validator=validators.Number(gte=2),
        ),
    ] = None,
    seed: Annotated[
        int,
        Parameter(
            converter=whole_number,
            help="Decides the halves of the users.",
            metavar="N",
            validator=validators.Number(gte=0),
        ),
    ] = 0,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Measure texts, ours or anybody's, against the records of real users, with real text measured beside them.

    MAUVE, precision, recall, density, coverage, Fréchet distance and variety need texts alone. Label agreement and the
    accuracy of a classifier that learns from the texts need labels on both sides. The users are split in two halves:
    every set meets one half, and so does the other half, which says what real text scores. All are cut to one size.
    """
    from canarybank.config import resolve
    from canarybank.errors import ConfigError
    from canarybank.flow.measuring import measure_texts
    from canarybank.report.utility import compared_by_measure, compared_notes

    if users is None and config is None:
        raise ConfigError("Say what real text is: name a file of users by --users, or a configuration by --config.")
    given = {
        "users.source": users,
        "users.user": user,
        "users.text": text,
        "users.label": label,
        "encoder.name": encoder,
    }
    resolved = resolve(config, {key: value for key, value in given.items() if value is not None})
    found = measure_texts(
        texts,
        resolved.config,
        column=column,
        rounds=rounds,
        neighbours=neighbours,
        buckets=buckets,
        seed=seed,
        progress=output.progress,
    )
    document = found.document()
    compared = document["compared"]
    headline = (
        f"{compared['size']:,} texts of each set, against as many records of users of {found.users}, by {found.encoder}"
    )
    lines = {"read": " ".join(compared_notes(compared)), "notes": " ".join(found.notes), "private": found.statement}
    output.result(
        "measure",
        document,
        paragraph(headline, "bold"),
        table(*compared_by_measure(compared, found.names)),
        facts({name: line for name, line in lines.items() if line}),
    )
