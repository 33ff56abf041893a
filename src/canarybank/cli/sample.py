"""Draw a sample of an evolution's texts."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from canarybank.cli.output import Output, facts, paragraph
from canarybank.cli.whole_numbers import whole_number

__all__ = ["command"]


def command(
    run: Annotated[Path, Parameter(help="The folder of an evolution.")],
    /,
    *,
    size: Annotated[
        int,
        Parameter(
            converter=whole_number, help="How many texts to draw.", metavar="N", validator=validators.Number(gte=1)
        ),
    ],
    rounds: Annotated[
        Literal["last", "all"], Parameter(help="Whose votes count: those of the last round, or of all rounds alike.")
    ] = "last",
    seed: Annotated[
        int,
        Parameter(
            converter=whole_number, help="The public seed of the draw.", metavar="N", validator=validators.Number(gte=0)
        ),
    ] = 0,
    distinct: Annotated[bool, Parameter(negative="", show_default=False, help="Draw no text twice.")] = False,
    neighbours: Annotated[
        int,
        Parameter(
            converter=whole_number,
            help="Draw a text by the mean votes of so many nearest texts, so that noise averages out; 0 draws it by "
            "its own.",
            metavar="N",
            validator=validators.Number(gte=0),
        ),
    ] = 0,
    focus: Annotated[
        float,
        Parameter(help="The power of the votes; above 1 prefers texts with many.", validator=validators.Number(gt=0)),
    ] = 1.0,
    out: Annotated[
        Path | None, Parameter(help="Write it into another folder, and leave the run untouched.", metavar="PATH")
    ] = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Draw a data set of any size from the texts of an evolution, in proportion to their noisy votes.

    It is written as sample.parquet, .jsonl and .csv, in place of an earlier sample in that folder. It is made of the
    releases alone, so it spends no privacy budget however often you draw. A text with many votes may stand in it more
    than once, unless you say --distinct. Candidates of the final population that nobody has voted on yet are in it only
    with --neighbours.
    """
    from canarybank.flow.sample import sample_run

    made = sample_run(
        run, size, rounds=rounds, seed=seed, distinct=distinct, neighbours=neighbours, focus=focus, out=out
    )
    document = {
        "size": len(made.candidates),
        "distinct": made.distinct,
        "rounds": rounds,
        "seed": seed,
        "insecure_seed": made.insecure_seed,
        "files": [str(path) for path in made.paths],
        "replaced": [str(path) for path in made.replaced],
    }
    lines: dict[str, object] = {
        "different texts": f"{made.distinct:,}",
        "drawn by": "the noisy votes of the last round" if rounds == "last" else "the noisy votes of all rounds",
        "files": ", ".join(map(str, made.paths)),
    }
    if made.replaced:
        lines["replaced"] = "an earlier sample in these files; --out writes into another folder"
    output.result("sample", document, paragraph(f"{len(made.candidates):,} texts", "bold"), facts(lines))
