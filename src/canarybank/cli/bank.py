"""Make a bank with a generator, or look at one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph
from canarybank.errors import ConfigError

if TYPE_CHECKING:
    from canarybank.generate import CandidateBank

__all__ = ["command"]

SHOWN = 5
LABELS_SHOWN = 8

command = App(name="bank", help="Make a bank with a generator, or look at one.")


@command.default
@command.command(name="make")
@configured(
    shown=("bank.size", "bank.labels", "bank.prompt", "bank.examples", "generator.kind", "generator.model"),
    beside=("make", "show"),
)
def make(
    given: Given,
    *,
    out: Annotated[Path, Parameter(help="The file to write.", metavar="PATH")] = Path("bank.parquet"),
    force: Annotated[bool, Parameter(negative="", show_default=False, help="Replace a file that is there.")] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Generate a bank of candidate texts, label by label, alone or after public examples.

    Answers are kept, so that an interrupted command goes on where it stopped. No users are read: labels
    are those that you declare.
    """
    from canarybank.flow.bank import GENERATED_SIZE, bank_labels, bank_prompt
    from canarybank.flow.generators import build_generator, cached_generator
    from canarybank.generate import make_bank

    if out.suffix.lower() not in {".parquet", ".pq"}:
        raise ConfigError(
            f"A bank is written as Parquet, and bank.source tells a file's format by its name, so {str(out)!r} could "
            f"not be read back; name it '{out.stem or 'bank'}.parquet' by --out, for example."
        )
    if out.exists() and not force:
        raise ConfigError(f"There is already a file {str(out)!r}; name another one by --out, or replace it by --force.")
    config = given.config.bank
    generator = build_generator(given.config)
    if generator is None:
        raise ConfigError("A bank is written by a generator, and none is named; set --generator.kind, such as smollm2.")
    prompt, examples = bank_prompt(config)
    made = make_bank(
        cached_generator(generator),
        config.size or GENERATED_SIZE,
        bank_labels(config, given.config.users),
        prompt=prompt,
        seed=config.seed,
        examples=examples,
        shots=config.shots,
        near=config.near,
        tries=config.tries,
        progress=output.progress,
    )
    made.write(out)
    _show(made, str(out), "bank make", output)


@command.command(name="show")
def show(
    bank: Annotated[
        str,
        Parameter(help="What bank.source takes: embedded, or a file of texts (parquet, csv, jsonl or txt)."),
    ] = "embedded",
    /,
    *,
    text: Annotated[
        str, Parameter(name=["--text", "--bank.text"], help="The column that holds the texts.", metavar="TEXT")
    ] = "text",
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Show what a bank holds: its size, hash, labels, lengths, variety, a sample, and how it came to be."""
    from canarybank.config import BankConfig
    from canarybank.flow.bank import open_bank

    made, notes = open_bank(BankConfig(source=bank, text=text))
    _show(made, bank, "bank show", output, notes)


def _show(bank: "CandidateBank", name: str, command: str, output: Output, notes: Sequence[str] = ()) -> None:
    from canarybank.generate import describe_bank

    labels, found = Counter(label for label in bank.labels if label), describe_bank(bank, sample=SHOWN)
    document: dict[str, Any] = {
        "bank": name,
        "entries": len(bank),
        "hash": bank.hash,
        "labels": dict(labels),
        "provenance": dict(bank.provenance),
        "words": dict(found.words),
        "distinct": [found.distinct_1, found.distinct_2, found.distinct_3],
        "sample": list(found.sample),
        "notes": list(notes),
    }
    listed = ", ".join(f"{label} ({count:,})" for label, count in labels.most_common(LABELS_SHOWN))
    more = f" and {len(labels) - LABELS_SHOWN} more" if len(labels) > LABELS_SHOWN else ""
    lines = {"hash": bank.hash, "labels": f"{listed}{more}" if labels else "none"}
    lines |= _origin(bank.provenance)
    lines["words each"] = ", ".join(f"{count:g} at {share}" for share, count in found.words.items())
    lines["different"] = ", ".join(
        f"{share:.0%} of {kind}"
        for kind, share in zip(("words", "pairs", "triples"), document["distinct"], strict=True)
    )
    lines |= {"notes": " ".join(notes)} if notes else {}
    lines |= {f"sample {number}": text for number, text in enumerate(found.sample, start=1)}
    output.result(command, document, paragraph(f"{name}: {len(bank):,} entries", "bold"), facts(lines))


def _origin(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return who wrote a bank from which prompt, and what became of the answers."""
    from canarybank.flow.bank import counters_of
    from canarybank.generate import outcome_text

    written = provenance.get("generator")
    if not written:
        return {"made by": "not recorded"}
    counters = counters_of(provenance)
    asked = f"prompt {provenance.get('prompt')}, seed {provenance.get('seed')}"
    return {"made by": f"{written}, {asked}", "answers": outcome_text(counters) if counters else "not recorded"}
