"""Make a bank's candidate texts, and keep them in a file."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canarybank import __version__
from canarybank.errors import DataError, InputError
from canarybank.generate.cleaning import Cleaning
from canarybank.generate.distinct import Distinct
from canarybank.generate.harvest import HarvestPlan, attempts_each, harvest
from canarybank.generate.prompts import Prompt, load_prompt
from canarybank.generate.protocol import Generator, Request
from canarybank.generate.table import label_column, read_table, text_column
from canarybank.progress import SILENT, Progress
from canarybank.seeds import stream
from canarybank.store import BY_UMASK, canonical_json, hash_json, parse_json, write_atomic

__all__ = ["CandidateBank", "bank_plan", "make_bank"]

Examples = Mapping[str, Sequence[str]] | Sequence[str]
_METADATA = "canarybank"


@dataclass(frozen=True)
class CandidateBank:
    """The candidate texts of a bank with their labels, and how they came to be.

    ``parents[i]`` holds the indices of the examples that were shown for candidate ``i``, into those of its label.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.texts) or len(self.parents or self.texts) != len(self.texts):
            raise InputError(
                f"There are {len(self.texts)} texts but {len(self.labels)} labels; there must be one for each."
            )
        if len(set(self.texts)) != len(self.texts):
            twice = Counter(self.texts).most_common(1)[0][0]
            raise InputError(f"A bank's candidates must be unique, but this one stands in it twice: {twice!r}.")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def hash(self) -> str:
        """Return the hash of the texts and labels, in their order."""
        return hash_json([list(self.texts), list(self.labels)])

    def write(self, path: Path | str) -> None:
        """Write the bank as parquet, its provenance in the file's metadata; the umask says who may read it."""
        import polars as pl

        frame = pl.DataFrame({"text": self.texts, "label": self.labels}, schema={"text": pl.String, "label": pl.String})
        buffer = io.BytesIO()
        frame.write_parquet(buffer, metadata={_METADATA: canonical_json(dict(self.provenance))})
        write_atomic(path, buffer.getvalue(), mode=BY_UMASK)

    @classmethod
    def read(cls, path: Path | str) -> "CandidateBank":
        """Read a bank from parquet: a column text, and label where there is one."""
        frame, metadata = read_table(path)
        texts, labels = text_column(frame, "text", path), label_column(frame, path)
        provenance = parse_json(metadata.get(_METADATA, "{}"), path, given=True)
        if not isinstance(provenance, dict):
            raise DataError(
                f"The metadata {_METADATA!r} of {str(path)!r} is {provenance!r:.60}, not a JSON object that tells how "
                "the bank came to be; write it as one, or leave it out."
            )
        try:
            return cls(tuple(texts), tuple(labels), provenance=provenance)
        except InputError as error:
            raise DataError(f"{str(path)!r} is no bank: {error} Keep one of them.") from None


def make_bank(
    generator: Generator,
    size: int,
    labels: Sequence[str],
    *,
    prompt: str | Path | Prompt = "bank-label",
    seed: int = 0,
    examples: Examples | None = None,
    negatives: Examples | None = None,
    shots: int = 3,
    cleaning: Cleaning | None = None,
    near: float = 0.7,
    tries: float = 8.0,
    existing: Sequence[str] = (),
    progress: Progress = SILENT,
) -> CandidateBank:
    """Make a bank of exactly ``size`` unique candidates, spread evenly over the labels, or say why it cannot be.

    With examples (public ones, or the voted candidates of an earlier round) the prompt shows ``shots`` of
    them, drawn anew for each request; ``negatives`` likewise. No candidate repeats, or comes near (``near``, see
    ``Distinct``), another one, an example, a negative, or a text of ``existing``. On average at most ``tries``
    answers are asked for a candidate.

    Args:
        generator: Writes the candidates.
        size: How many candidates the bank holds.
        labels: The labels or topics to write for.
        prompt: What the generator is told: the name of a prompt, the path of your own TOML file, or a ``Prompt``.
        seed: The root of all that is drawn: phrases, examples, and the seed of each request.
        examples: Public texts to show, for all labels or by label.
        negatives: Texts to show as not wanted, for all labels or by label.
        shots: How many examples each request shows.
        cleaning: The rules that a candidate must pass; left out, the usual ones.
        near: The similarity from which two texts are near duplicates.
        tries: How many answers may be asked for a candidate, on average.
        existing: Texts that no candidate may repeat.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.generate import ScriptedGenerator
        >>> script = [
        ...     "The soup at the corner place was warm and rich.",
        ...     "We missed the last train home on Friday night.",
        ...     "Sure! Here is one: We had a fine lunch of bread and cheese.",
        ...     "We missed the last train home on Friday night!",
        ... ]
        >>> bank = make_bank(ScriptedGenerator(script), 3, ["food", "travel"])
        >>> bank.texts[2], bank.labels
        ('We had a fine lunch of bread and cheese.', ('food', 'travel', 'food'))
        >>> bank.provenance["counters"]
        {'asked': 4, 'kept': 3, 'surplus': 0, 'duplicate': 1, 'stripped-preamble': 1}
    """
    plan = bank_plan(
        size,
        labels,
        prompt=prompt,
        seed=seed,
        examples=examples,
        negatives=negatives,
        shots=shots,
        cleaning=cleaning,
        tries=tries,
    )
    known = [*existing, *_all(examples), *_all(negatives)]
    taken, counters = harvest(generator, plan, size, Distinct(near, known), progress)
    provenance = {
        "canarybank": __version__,
        "cleaning": plan.cleaning.to_json(),
        "counters": counters,
        "examples": hash_json(_all(examples)) if examples else None,
        "existing": hash_json(list(existing)) if existing else None,
        "fingerprint": generator.fingerprint,
        "generator": generator.name,
        "labels": list(labels),
        "near": near,
        "negatives": hash_json(_all(negatives)) if negatives else None,
        "prompt": plan.prompt.name,
        "prompt_hash": plan.prompt.hash,
        "seed": seed,
        "shots": shots if examples else 0,
        "tries": tries,
    }
    return CandidateBank(
        texts=tuple(text.text for text in taken),
        labels=tuple(labels[text.slot] for text in taken),
        parents=tuple(_drawn(examples, labels[t.slot], shots, seed, t.slot, t.attempt) for t in taken),
        provenance=provenance,
    )


def bank_plan(
    size: int,
    labels: Sequence[str],
    *,
    prompt: str | Path | Prompt = "bank-label",
    seed: int = 0,
    examples: Examples | None = None,
    negatives: Examples | None = None,
    shots: int = 3,
    cleaning: Cleaning | None = None,
    tries: float = 8.0,
) -> HarvestPlan:
    """Return what ``make_bank`` asks for: a slot a label, each request by its slot and attempt under the seed.

    Args:
        size: How many candidates the bank holds.
        labels: The labels or topics to write for.
        prompt: What the generator is told, as in ``make_bank``.
        seed: The root of all that is drawn.
        examples: Public texts to show, for all labels or by label.
        negatives: Texts to show as not wanted, for all labels or by label.
        shots: How many examples each request shows.
        cleaning: The rules that a candidate must pass; left out, the usual ones.
        tries: How many answers may be asked for a candidate, on average.

    Example:
        >>> plan = bank_plan(10, ["food", "travel"], tries=2)
        >>> len(plan.requests()), plan.requests()[0].label, "food" in plan.requests()[0].prompt
        (20, 'food', True)
    """
    template = load_prompt(prompt)
    if not labels or len(set(labels)) != len(labels):
        raise InputError(f"A bank needs one or more different labels, not {list(labels)}.")
    attempts = attempts_each(tries, size, len(labels), "candidate")
    _require(template, examples, negatives)

    def request(slot: int, attempt: int) -> Request:
        label = labels[slot]
        shown = _listed(examples, label, _drawn(examples, label, shots, seed, slot, attempt))
        values = {"label": label, "examples": shown, "positive": shown}
        values["negative"] = _listed(negatives, label, _drawn(negatives, label, shots, seed, slot, attempt, "negative"))
        return template.request(values, seed=seed, path=("bank", slot, attempt), label=label)

    return HarvestPlan(len(labels), attempts, request, template, cleaning or Cleaning())


def _require(prompt: Prompt, examples: Examples | None, negatives: Examples | None) -> None:
    unknown = prompt.fields - {"label", "examples", "positive", "negative"}
    if unknown:
        raise InputError(f"The prompt {prompt.name!r} has fields {sorted(unknown)} that a bank cannot fill.")
    if prompt.fields & {"examples", "positive"} and not _all(examples):
        raise InputError(f"The prompt {prompt.name!r} shows examples, and none are given.")
    if "negative" in prompt.fields and not _all(negatives):
        raise InputError(f"The prompt {prompt.name!r} shows texts that were not liked, and none are given.")
    if examples and not prompt.fields & {"examples", "positive"}:
        raise InputError(f"The prompt {prompt.name!r} shows no examples, but some are given; use 'bank-examples'.")


def _of(examples: Examples | None, label: str) -> Sequence[str]:
    if isinstance(examples, Mapping):
        return examples.get(label, ())
    return examples or ()


def _all(examples: Examples | None) -> list[str]:
    if isinstance(examples, Mapping):
        return [text for label in sorted(examples) for text in examples[label]]
    return list(examples or ())


def _drawn(
    examples: Examples | None, label: str, shots: int, seed: int, slot: int, attempt: int, kind: str = "positive"
) -> tuple[int, ...]:
    known = _of(examples, label)
    rng = stream(seed, "examples", kind, slot, attempt)
    return tuple(int(i) for i in rng.permutation(len(known))[:shots]) if known else ()


def _listed(examples: Examples | None, label: str, chosen: Sequence[int]) -> str:
    known = _of(examples, label)
    return "\n".join(f"- {' '.join(known[i].split())}" for i in chosen)
