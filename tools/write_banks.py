"""Write honest banks with a language model: the recipes of ``write_banks.toml``, one JSON line a bank.

    python tools/write_banks.py MODEL OUT.jsonl --role set|judged

MODEL is a GGUF file, a folder or a hub name, as ``HFGenerator`` takes it; the banks of the study were written by
SmolLM2-135M-Instruct on a GPU, where another one draws other texts from the same seeds. A bank of a later round takes
every twentieth entry of another bank as liked: the rest is written in their manner, or rewords them.
"""

import argparse
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from canarybank.generate import Cleaning, Distinct, Generator, Prompt, Rejection, load_prompt, make_bank
from canarybank.generate.hf import HFGenerator

__all__ = ["LOOSE", "write_banks"]

RECIPES = Path(__file__).with_suffix(".toml")
LOOSE = Cleaning(shortest=1, longest=220, sentences=None, whole=False, latin=None, common=None)
"""What an operator lets pass who hardly cleans: any length and language, and sentences without an end."""
TRIES, LATER_SEED, LIKED, ASKED = 10.0, 300, 20, 1536


def write_banks(generator: Generator, recipes: Mapping[str, Any], role: str) -> Iterator[dict[str, Any]]:
    """Yield the banks of a role, each with its recipe."""
    made: dict[str, tuple[tuple[str, ...], list[str]]] = {}
    number = 0
    for recipe in recipes["banks"]:
        if recipe["role"] != role:
            continue
        if "of" in recipe:
            texts = _later(generator, *made[recipe["of"]], recipe, LATER_SEED + number)
            number += 1
        else:
            texts = _first(generator, recipe, recipes["prompts"])
            made[recipe["name"]] = (texts, recipe["labels"])
        yield {"name": recipe["name"], "texts": list(texts), "recipe": recipe}


def _first(generator: Generator, recipe: Mapping[str, Any], prompts: Mapping[str, Any]) -> tuple[str, ...]:
    """Write a bank from labels alone."""
    own = prompts.get(recipe["prompt"])
    prompt = load_prompt(recipe["prompt"]) if own is None else _prompt(recipe["prompt"], own)
    return make_bank(
        generator,
        recipe["size"],
        recipe["labels"],
        prompt=replace(prompt, temperatures=tuple(recipe["temperatures"])),
        seed=recipe["seed"],
        cleaning=LOOSE if recipe["loose"] else None,
        near=recipe["near"],
        tries=TRIES,
    ).texts


def _prompt(name: str, written: Mapping[str, Any]) -> Prompt:
    vary = {field: tuple(phrases) for field, phrases in written["vary"].items()}
    return Prompt(name, written["user"], written["system"], vary=vary, tokens=written["tokens"])


def _later(
    generator: Generator, texts: tuple[str, ...], labels: list[str], recipe: Mapping[str, Any], seed: int
) -> tuple[str, ...]:
    """Write a bank of a later round, from every twentieth entry of an earlier one."""
    liked, size = list(texts[::LIKED]), recipe["size"]
    if recipe["how"] == "continue-list":
        others = list(texts[7::LIKED])
        chosen = {"examples": liked, "negatives": others, "cleaning": LOOSE, "tries": TRIES, "seed": seed}
        return make_bank(generator, size, labels, prompt="continue-list", **chosen).texts
    prompt, seen, taken = load_prompt("paraphrase"), Distinct(0.7, liked), list(liked)
    records = [" ".join(text.replace('"', "'").split()) for text in liked]
    asked = [
        prompt.request({"record": records[number % len(records)]}, seed=seed, path=("later", number))
        for number in range(ASKED)
    ]
    for index, answer in generator.generate(asked):
        text = LOOSE.clean(prompt.answer(asked[index], answer).text, finished=answer.finished)
        if not isinstance(text, Rejection) and not seen.duplicates(text) and not seen.resembles(text):
            seen.add(text)
            taken.append(text)
    return tuple(taken[:size])


def main() -> None:
    """Write the banks of a role to a file, each as soon as it is done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--role", choices=("set", "judged"), default="set")
    given = parser.parse_args()
    recipes = tomllib.loads(RECIPES.read_text(encoding="utf-8"))
    with given.out.open("w", encoding="utf-8") as file:
        for bank in write_banks(HFGenerator(given.model), recipes, given.role):
            file.write(json.dumps(bank, ensure_ascii=False) + "\n")
            file.flush()
            print(bank["name"], len(bank["texts"]), flush=True)


if __name__ == "__main__":
    main()
