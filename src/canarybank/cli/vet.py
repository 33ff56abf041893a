"""Say whether a bank looks shaped."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.rounds import RoundNumber
from canarybank.cli.whole_numbers import whole_number

__all__ = ["command"]

SHAPED = 1
WIDTH = 72
Flag = Parameter(negative="", show_default=False)


def command(
    bank: Annotated[
        str, Parameter(help="A file of texts, such as `canarybank bank` writes, an evolution's folder, or embedded.")
    ] = "embedded",
    /,
    *,
    public: Annotated[
        Path | None, Parameter(help="A file of public texts of the kind that users write.", metavar="PATH")
    ] = None,
    perplexity: Annotated[
        bool, Flag, Parameter(help="Show how unlikely a small language model finds each entry.")
    ] = False,
    model: Annotated[
        str, Parameter(help="With --perplexity: smollm2, a GGUF file, or a Hugging Face model.", metavar="MODEL")
    ] = "smollm2",
    encoder: Annotated[
        str, Parameter(help="The encoder; thresholds were judged with wordllama.", metavar="NAME")
    ] = "wordllama",
    round_number: RoundNumber = None,
    k: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            help="How many entries each record votes for; left out, as in the evolution, or 5.",
            metavar="N",
            validator=validators.Number(gte=2),
        ),
    ] = None,
    worst: Annotated[
        int,
        Parameter(
            converter=whole_number,
            help="How many of the worst entries to show.",
            metavar="N",
            validator=validators.Number(gte=0),
        ),
    ] = 10,
    page: Annotated[Path | None, Parameter(help="Write a page with the worst entries.", metavar="PATH")] = None,
    show: Annotated[bool, Flag, Parameter(name="--open", help="With --page: open it.")] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> int:
    """Look for entries of a bank that were planted to make a user visible, before anybody votes.

    Entries are compared with the rest of their bank, and with public text if you give some. The exit code is 1 where
    the bank is called shaped, with the entries that stand out, and 0 where nothing is found. Planted entries that read
    like the rest are not found. Every verdict states its false-alarm rate on honest banks, or that it is not known.
    """
    from canarybank.flow.vet import vet_bank
    from canarybank.report.text import clean

    found = vet_bank(
        bank,
        public=public,
        model=model if perplexity else None,
        encoder=encoder,
        round_number=round_number,
        k=k,
        progress=output.progress,
    )
    document, written = found.document(worst), dict[str, str]()
    if page is not None:
        from canarybank.cli.runner import open_page
        from canarybank.report.vet import write_vet_page

        written = {"page": str(write_vet_page(found, page))}
        if show:
            open_page(page)
    rows = [
        [each["measure"], each["means"], f"{each['largest']:.1f}", _threshold(each["threshold"]), each["entries"]]
        for each in document["measures"]
    ]
    listed = [
        [clean(each["text"], WIDTH), each["worst_measure"], f"{each['score']:.2f}", each["position"]]
        for each in document["worst"]
    ]
    output.result(
        "vet",
        document | written,
        paragraph(found.verdict.statement, "bold"),
        table(["measure", "looks for entries that are", "largest", "one alarms at", "entries"], rows, text=2),
        table(["worst entries", "most by", "score", "position"], listed, text=2),
        facts({**({"notes": " ".join(found.notes)} if found.notes else {}), **written}),
    )
    return SHAPED if found.verdict.is_shaped else 0


def _threshold(value: float | None) -> str:
    return "does not decide" if value is None else f"{value:.1f}"
