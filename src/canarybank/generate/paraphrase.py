"""Make pools of paraphrases: other wordings of records, with their similarity to the source."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank import __version__
from canarybank.errors import InputError
from canarybank.generate.cleaning import Cleaning, Rejection
from canarybank.generate.distinct import Distinct, fold
from canarybank.generate.harvest import Check, HarvestPlan, attempts_each, harvest
from canarybank.generate.prompts import Prompt, load_prompt
from canarybank.generate.protocol import Generator, Request
from canarybank.progress import SILENT, Progress

__all__ = [
    "PARAPHRASE_CLEANING",
    "Paraphrases",
    "Similarity",
    "make_paraphrases",
    "paraphrase_plan",
    "trigram_similarity",
]

Similarity = Callable[[Sequence[str], Sequence[str]], ArrayLike]

# A rewording may be short, and a record need not end in a full stop; drift is the similarity's to judge.
PARAPHRASE_CLEANING = Cleaning(shortest=2, longest=60, sentences=None, common=None)


@dataclass(frozen=True)
class Paraphrases:
    """Paraphrases of records: ``sources[j]`` is the record that text ``j`` rewrites, at ``similarities[j]`` to it."""

    texts: tuple[str, ...]
    sources: tuple[int, ...]
    similarities: NDArray[np.float64]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def counters(self) -> Mapping[str, int]:
        """Return how many answers were asked for, kept, and rejected by which rule."""
        return dict(self.provenance.get("counters", {}))


def make_paraphrases(
    generator: Generator,
    records: Sequence[str],
    size: int,
    *,
    prompt: str | Path | Prompt = "paraphrase",
    seed: int = 0,
    similarity: Similarity | None = None,
    minimum: float = 0.3,
    cleaning: Cleaning | None = None,
    tries: float = 8.0,
    existing: Sequence[str] = (),
    progress: Progress = SILENT,
) -> Paraphrases:
    """Return exactly ``size`` paraphrases, spread over the records as evenly as their answers allow, or fail.

    No text folds to the same as a record, another paraphrase or a text of ``existing``; each has at least the
    ``minimum`` similarity to its source, by ``similarity(sources, texts)`` (an encoder's cosine, say; without
    one, the cosine of character trigrams). On average at most ``tries`` answers are asked for a paraphrase.

    Args:
        generator: Writes the paraphrases.
        records: The texts to rewrite.
        size: How many paraphrases to return.
        prompt: What the generator is told: the name of a prompt, the path of your own TOML file, or a ``Prompt``.
        seed: The root of all that is drawn.
        similarity: Compares sources and texts, pair by pair; left out, ``trigram_similarity``.
        minimum: The similarity that a paraphrase needs to its source.
        cleaning: The rules that a paraphrase must pass; left out, looser ones than those of a bank.
        tries: How many answers may be asked for a paraphrase, on average.
        existing: Texts that no paraphrase may repeat.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.generate import ScriptedGenerator
        >>> script = [
        ...     "The weather is nice in the park today.",
        ...     "Stocks fell sharply.",
        ...     "It is nice weather in the park.",
        ... ]
        >>> made = make_paraphrases(ScriptedGenerator(script), ["The weather in the park is nice."], 2)
        >>> made.texts
        ('The weather is nice in the park today.', 'It is nice weather in the park.')
        >>> made.counters
        {'asked': 3, 'kept': 2, 'surplus': 0, 'dissimilar': 1}
    """
    measure = similarity or trigram_similarity
    plan = paraphrase_plan(
        records, size, prompt=prompt, seed=seed, tries=tries, cleaning=cleaning, check=_check(records, measure, minimum)
    )
    taken, counters = harvest(generator, plan, size, Distinct(1.0, existing), progress)
    provenance = {
        "canarybank": __version__,
        "cleaning": plan.cleaning.to_json(),
        "counters": counters,
        "fingerprint": generator.fingerprint,
        "generator": generator.name,
        "minimum": minimum,
        "prompt": plan.prompt.name,
        "prompt_hash": plan.prompt.hash,
        "seed": seed,
        "similarity": getattr(measure, "__name__", type(measure).__name__),
        "tries": tries,
    }
    return Paraphrases(
        texts=tuple(text.text for text in taken),
        sources=tuple(text.slot for text in taken),
        similarities=np.array([text.value for text in taken]),
        provenance=provenance,
    )


def paraphrase_plan(
    records: Sequence[str],
    size: int,
    *,
    prompt: str | Path | Prompt = "paraphrase",
    seed: int = 0,
    tries: float = 8.0,
    cleaning: Cleaning | None = None,
    check: Check | None = None,
) -> HarvestPlan:
    """Return what ``make_paraphrases`` asks for: a slot a record, each request by record and attempt.

    Args:
        records: The texts to rewrite.
        size: How many paraphrases are wanted.
        prompt: What the generator is told, as in ``make_paraphrases``.
        seed: The root of all that is drawn.
        tries: How many answers may be asked for a paraphrase, on average.
        cleaning: The rules that a paraphrase must pass; left out, looser ones than those of a bank.
        check: Judges cleaned texts against their records; left out, all pass.

    Example:
        >>> plan = paraphrase_plan(["The weather in the park is nice."], 4, tries=2)
        >>> len(plan.requests()), plan.requests()[0].records
        (8, ('The weather in the park is nice.',))
    """
    template = load_prompt(prompt)
    if not records:
        raise InputError("There are no records to paraphrase; give at least one.")
    attempts = attempts_each(tries, size, len(records), "paraphrase")
    if template.fields != {"record"}:
        raise InputError(f"A paraphrase prompt fills {{record}}; {template.name!r} has {sorted(template.fields)}.")

    def request(slot: int, attempt: int) -> Request:
        record = " ".join(records[slot].replace('"', "'").split()) or "..."
        asked = template.request({"record": record}, seed=seed, path=("paraphrase", slot, attempt))
        return replace(asked, records=(records[slot],))

    return HarvestPlan(len(records), attempts, request, template, cleaning or PARAPHRASE_CLEANING, check, "paraphrases")


def trigram_similarity(sources: Sequence[str], texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the cosine of the counts of character trigrams of each folded source and text.

    The formula: the cosine of counts of n-grams, as in Damashek (1995, https://doi.org/10.1126/science.267.5199.843).

    Args:
        sources: The texts that were rewritten.
        texts: What each became, in the same order.

    Example:
        >>> texts = ["a CAT sleeps", "The cats sleep.", "Stocks fell."]
        >>> trigram_similarity(["A cat sleeps."] * 3, texts).round(2).tolist()
        [1.0, 0.43, 0.0]
    """
    return np.array([_cosine(_trigrams(a), _trigrams(b)) for a, b in zip(sources, texts, strict=True)])


def _check(records: Sequence[str], similarity: Similarity, minimum: float) -> Check:
    folded = {fold(record) for record in records}

    def check(slots: Sequence[int], texts: Sequence[str]) -> list[tuple[Rejection | None, float]]:
        values = np.asarray(similarity([records[slot] for slot in slots], texts), dtype=np.float64)
        if values.shape != (len(texts),):
            raise InputError(
                f"The similarity of {len(texts)} pairs has shape {values.shape}; it must give one for each."
            )
        return [(_verdict(text, float(value)), float(value)) for text, value in zip(texts, values, strict=True)]

    def _verdict(text: str, value: float) -> Rejection | None:
        if fold(text) in folded:
            return Rejection.VERBATIM
        return None if value >= minimum else Rejection.DISSIMILAR

    return check


def _trigrams(text: str) -> Counter[str]:
    padded = f"  {fold(text)} "
    return Counter(padded[i : i + 3] for i in range(len(padded) - 2))


def _cosine(a: Counter[str], b: Counter[str]) -> float:
    dot = sum(count * b[gram] for gram, count in a.items())
    return float(dot / math.sqrt(sum(c * c for c in a.values()) * sum(c * c for c in b.values())))
