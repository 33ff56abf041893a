"""Compare rules of Private Evolution: same users, first bank, generator, encoder, epsilon and size of sample.

    python tools/evolution_study.py prepare FOLDER --users FILE --model MODEL [--held-out 631] [--size 3072]
    python tools/evolution_study.py run FOLDER --rules paper,aug-pe,dpsda --seeds 1,2,3,4,5 [--part 0/4]
    python tools/evolution_study.py measure FOLDER [--part 0/4]
    python tools/evolution_study.py table FOLDER [--best answers-blanks] [--against paper,aug-pe,dpsda] [--seeds 1,2]

``prepare`` encodes the users' records, holds out a reference and writes the first bank, whose hash all runs share; it
may run in several processes (``--part``). ``run`` runs rules by seeds, one folder each: what is finished is left alone,
and a run that was killed goes on where it stopped. ``measure`` measures the runs that are finished, beside those that
are not, if you like. ``table`` prints means over seeds, and differences between rules, paired by seed, with their 95%
intervals (Student's); ``--after`` compares fewer rounds, and so fewer tokens, of the best rule. Tokens are those of all
answers, rejected ones too: a rule that keeps more asks for fewer. Runs whose generator found too few texts are named as
failed. A seed decides participation, noise and every public choice. It needs torch, transformers and
sentence-transformers, and mauve-text to measure.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from canarybank.encode import load_encoder
from canarybank.errors import GenerationError
from canarybank.evolution import (
    Evolution,
    Feedback,
    FillBlanks,
    InContext,
    Keep,
    KeepAboveNoise,
    KeepByVotes,
    MixedFeedback,
    ParentsByVotes,
    ParentsInTurn,
    Population,
    Taking,
    Vary,
    evolve,
    hold_out,
    sample,
)
from canarybank.generate import Cleaning, Generator, HFGenerator, ResponseCache, make_bank
from canarybank.measure import Balls, Mauve, frechet_distance, precision_recall, variety
from canarybank.mechanism import Mechanism
from canarybank.store import hash_file, hash_json, write_atomic, write_json
from canarybank.users import Admission, Users, admit

__all__ = ["MECHANISM", "RULES", "Rule", "interval", "main"]

MECHANISM = Mechanism(k=5, clip=0.1, sigma=1.1088, q=0.1, delta=1e-5)
LABELS = ("1950s", "1960s", "1970s", "1980s", "1990s", "2000s", "2010s", "2020s")
RECORDS = 32
ROUNDS = 5
TAKING = Taking(cleaning=Cleaning(longest=60, sentences=4), similarity=0.9, tries=40)
"""Which answers become candidates: records have 27 words in the mean, and a rule that varies little is not to fail."""


@dataclass(frozen=True)
class Rule:
    """What differs between the runs that are compared; ``ends`` says which texts a run ends with.

    ``population`` is the last population. ``all`` is a sample of the same size from all rounds, each text once, by the
    noisy votes of eight neighbours.
    """

    about: str
    plan: Mapping[str, Any]
    ends: str = "population"


VOTES = ParentsByVotes()
ANSWERS = Vary("answer-argument", parents=VOTES)
BLANKS = FillBlanks("blanks-argument", 0.5, parents=VOTES)
EXAMPLES = InContext(prompt="continue-argument", parents=VOTES)
VARIED = Vary("vary-argument", 0.5, parents=VOTES)


def _mixed(*parts: tuple[Feedback, float]) -> MixedFeedback:
    return MixedFeedback(parts)


RULES: Mapping[str, Rule] = {
    "paper": Rule(
        "keep the top 5%, ask by examples drawn evenly among them",
        {"keep": Keep(0.05), "feedback": InContext(prompt="continue-argument")},
    ),
    "aug-pe": Rule(
        "keep the top quarter, fill in blanks of each in turn, from 60% of the words on and fewer by round",
        {
            "keep": Keep(0.25),
            "feedback": FillBlanks("blanks-argument", (0.6, 0.5, 0.4, 0.3, 0.2), parents=ParentsInTurn()),
        },
    ),
    "dpsda": Rule(
        "draw parents with replacement by votes above the noise, every new text varies one, nothing stays",
        {"keep": Keep(1.0), "keeper": KeepAboveNoise(1.0), "carry": False, "feedback": BLANKS},
    ),
    "half": Rule(
        "keep the top quarter, parents by votes, half varied and half by examples",
        {"keep": Keep(0.25), "feedback": _mixed((EXAMPLES, 0.5), (VARIED, 0.5))},
    ),
    "answers": Rule(
        "keep the top quarter, parents by votes, each is asked on; ends by all votes",
        {"keep": Keep(0.25), "feedback": ANSWERS},
        "all",
    ),
    "answers-half": Rule("as answers, but the top half stays", {"keep": Keep(0.5), "feedback": ANSWERS}, "all"),
    "answers-drawn": Rule(
        "as answers, but who stays is drawn by votes",
        {"keep": Keep(0.25), "keeper": KeepByVotes(), "feedback": ANSWERS},
        "all",
    ),
    "answers-blanks": Rule(
        "as answers, but half of the new texts have blanks filled in",
        {"keep": Keep(0.25), "feedback": _mixed((ANSWERS, 0.5), (BLANKS, 0.5))},
        "all",
    ),
    "answers-three": Rule(
        "as answers, but a quarter of the new texts has blanks filled in and a quarter follows examples",
        {"keep": Keep(0.25), "feedback": _mixed((ANSWERS, 0.5), (BLANKS, 0.25), (EXAMPLES, 0.25))},
        "all",
    ),
}


def main(arguments: Sequence[str] | None = None, load_model: Callable[[str], Generator] = HFGenerator) -> None:
    """Do one step of the study; ``load_model`` makes a generator from ``--model``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    for name, step in (("prepare", _prepare), ("run", _run), ("measure", _measure), ("table", _table)):
        one = steps.add_parser(name)
        one.set_defaults(do=step)
        one.add_argument("folder", type=Path)
        one.add_argument("--part", default="0/1", help="which part of the work, of how many: 0/4 is the first of four")
        if name == "prepare":
            one.add_argument("--users", required=True)
            one.add_argument("--model", required=True)
            one.add_argument("--encoder", default="minilm")
            one.add_argument("--held-out", type=int, default=631)
            one.add_argument("--size", type=int, default=3072)
            one.add_argument("--records", type=int, default=RECORDS)
            one.add_argument("--rounds", type=int, default=ROUNDS)
        if name == "run":
            one.add_argument("--rules", default="paper,aug-pe,dpsda,answers-blanks")
            one.add_argument("--seeds", default="1,2,3,4,5")
            one.add_argument("--seconds", type=float, default=math.inf, help="begin no run after so many seconds")
        if name == "table":
            one.add_argument("--against", default="paper,aug-pe,dpsda")
            one.add_argument("--best", default=None)
            one.add_argument(
                "--after", type=int, default=None, help="take the best rule's population after so many rounds"
            )
            one.add_argument("--seeds", default=None, help="only these, such as those that chose no rule: 1,2,3,4,5")
    parser.set_defaults(load_model=load_model)
    chosen = parser.parse_args(arguments)
    chosen.do(chosen)


def _prepare(given: argparse.Namespace) -> None:
    """Encode this part of the users' records; the first part also writes the first bank and what the study is."""
    folder, (part, parts) = given.folder, _part(given.part)
    folder.mkdir(parents=True, exist_ok=True)
    everybody = admit(given.users, Admission(minimum=given.records, cap=given.records)).users
    texts = everybody.require_texts()
    encoder = load_encoder(given.encoder)
    mine = encoder.encode(texts[part * len(texts) // parts : (part + 1) * len(texts) // parts])
    write_atomic(folder / f"vectors-{part}.bin", mine.tobytes())
    _say(f"encoded {len(mine):,} of {len(texts):,} records")
    if part:
        return
    facts = _facts(vars(given))
    known = folder / "study.json"
    if known.exists() and (before := _facts(json.loads(known.read_text()))) != facts:
        raise SystemExit(f"This study was prepared with {before}, not with {facts}; choose another folder.")
    generator = given.load_model(given.model)
    if not (folder / "first.jsonl").exists():
        made = make_bank(generator, given.size, prompt="bank-argument", labels=LABELS)
        rows = [{"text": text, "label": label} for text, label in zip(made.texts, made.labels, strict=True)]
        write_atomic(folder / "first.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    first = hash_file(folder / "first.jsonl")
    write_json(folder / "study.json", {**facts, "first": first, "generator": generator.name, "parts": parts})
    _say(f"first bank {first}")


def _facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides a study, beside the first bank."""
    names = ("users", "model", "encoder", "held_out", "records", "rounds", "size")
    return {name: values[name] for name in names}


@dataclass(frozen=True)
class _Study:
    """A study's folder, and what its preparation wrote down."""

    folder: Path
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path) -> "_Study":
        return cls(folder, json.loads((folder / "study.json").read_text()))

    @cached_property
    def users(self) -> tuple[Users, Users]:
        """Return who votes, and who is held out, with vectors."""
        facts = self.facts
        everybody = admit(facts["users"], Admission(minimum=facts["records"], cap=facts["records"])).users
        files = [self.folder / f"vectors-{part}.bin" for part in range(facts["parts"])]
        vectors = np.concatenate([np.frombuffer(file.read_bytes(), dtype=np.float32) for file in files])
        known = replace(everybody, vectors=vectors.reshape(len(everybody.require_texts()), -1))
        voters, reference = hold_out(known, facts["held_out"], seed=0)
        return voters, reference.users

    @property
    def bank(self) -> tuple[list[str], list[str]]:
        """Return the texts of the first bank, and their labels."""
        if hash_file(self.folder / "first.jsonl") != self.facts["first"]:
            raise SystemExit("first.jsonl is not the bank that the study was prepared with; restore it.")
        rows = [json.loads(line) for line in (self.folder / "first.jsonl").read_text().splitlines()]
        return [row["text"] for row in rows], [row["label"] for row in rows]

    def place(self, rule: str, seed: int) -> Path:
        """Return the folder of one run."""
        return self.folder / "runs" / rule / str(seed)

    def measured(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return what is known of every run that was measured."""
        found = sorted((self.folder / "runs").glob("*/*/measured.json"))
        return {(path.parts[-3], int(path.parts[-2])): json.loads(path.read_text()) for path in found}


def _run(given: argparse.Namespace) -> None:
    """Run this part of the grid."""
    begun, (part, parts) = time.monotonic(), _part(given.part)
    study = _Study.open(given.folder)
    encoder, model = load_encoder(study.facts["encoder"]), given.load_model(study.facts["model"])
    texts, labels = study.bank
    start = Population.start(texts, encoder.encode(texts), labels)
    grid = [(rule, seed) for seed in map(int, given.seeds.split(",")) for rule in given.rules.split(",")]
    for rule, seed in grid[part::parts]:
        place, before = study.place(rule, seed), time.monotonic()
        if (place / "asked.json").exists():
            continue
        (place / "failed.json").unlink(missing_ok=True)
        if before - begun > given.seconds:
            _say(f"{rule} {seed}: no time is left; run the same command again")
            continue
        try:
            evolve(
                study.users[0],
                start,
                MECHANISM,
                encoder,
                model,
                study.facts["rounds"],
                taking=TAKING,
                cap=None,
                seed=seed,
                insecure_seed=seed,
                folder=place,
                **RULES[rule].plan,
            )
        except GenerationError as error:
            write_json(place / "failed.json", {"why": str(error)})
            _say(f"{rule} {seed}: {error}")
            continue
        answers = ResponseCache(place / "responses.log").values()
        tokens = sum(answer.completion_tokens for answer in answers)
        write_json(place / "asked.json", {"tokens": tokens, "answers": len(answers)})
        _say(f"{rule} {seed}: {time.monotonic() - before:.0f} s, {tokens:,} tokens")


def _measure(given: argparse.Namespace) -> None:
    """Measure this part of the runs that are finished and not measured yet."""
    study, (part, parts) = _Study.open(given.folder), _part(given.part)
    finished = sorted((given.folder / "runs").glob("*/*/asked.json"))
    for place in [path.parent for path in finished if not (path.parent / "measured.json").exists()][part::parts]:
        rule, seed = place.parts[-2:]
        found = json.loads((place / "asked.json").read_text())
        found |= _worth(study, Evolution.load(place), RULES[rule], int(seed))
        write_json(place / "measured.json", found)
        _say(f"{rule} {seed}: { {name: round(value, 4) for name, value in found['end'].items()} }")


def _worth(study: _Study, evolution: Evolution, rule: Rule, seed: int) -> dict[str, Any]:
    """Return the figures of every population, of the sample by all votes, and of what the rule ends with."""
    size = len(evolution.population)
    real, _ = _cut(study.users[1], size)
    balls = Balls.around(real)
    populations = [each.population for each in evolution.rounds] + [evolution.population]
    vectors = {
        candidate.id: vector
        for population in populations
        for candidate, vector in zip(population.candidates, population.vectors, strict=True)
    }
    drawn = sample(evolution, size, rounds="all", seed=seed, distinct=True, neighbours=8, focus=2)
    texts = {"population": evolution.population.candidates, "all": drawn}
    figures = {
        name: _figures(np.array([vectors[each.id] for each in chosen]), [each.text for each in chosen], real, balls)
        for name, chosen in texts.items()
    }
    return {
        "populations": [_figures(each.vectors, each.texts, real, balls) for each in populations[:-1]]
        + [figures["population"]],
        "all": figures["all"],
        "end": figures[rule.ends],
        "real": _figures(*_cut(study.users[0], size), real, balls),
        "examples": [each.text for each in texts[rule.ends][:: max(1, size // 24)]],
    }


def _figures(made: Any, texts: Sequence[str], real: Any, balls: Balls) -> dict[str, float]:
    covered = precision_recall(made, balls)
    return {
        "mauve": Mauve()(made, real),
        "precision": covered.precision,
        "recall": covered.recall,
        "density": covered.density,
        "coverage": covered.coverage,
        "frechet": frechet_distance(made, real),
        "distinct_2": variety(texts).distinct_2,
    }


def _cut(users: Users, size: int) -> tuple[Any, list[str]]:
    """Return the vectors and texts of as many records, chosen by hash."""
    texts = users.require_texts()
    order = sorted(range(len(texts)), key=lambda i: hash_json([users.ids[users.owners[i]], texts[i], i]))[:size]
    return users.require_vectors()[order], [texts[i] for i in order]


def interval(differences: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return Student's interval for the mean of paired differences."""
    mean, count = statistics.mean(differences), len(differences)
    half = float(student.ppf((1 + confidence) / 2, count - 1)) * statistics.stdev(differences) / math.sqrt(count)
    return mean - half, mean + half


def _table(given: argparse.Namespace) -> None:
    """Print what every rule ends with, and the differences to others, paired by seed."""
    study = _Study.open(given.folder)
    runs = study.measured()
    if given.seeds is not None:
        runs = {place: runs[place] for place in runs if str(place[1]) in given.seeds.split(",")}
    rules = [rule for rule in RULES if any(name == rule for name, _ in runs)]
    if unknown := {*given.against.split(","), *([] if given.best is None else [given.best])} - set(RULES):
        raise SystemExit(f"There are no rules {sorted(unknown)}; there are {', '.join(RULES)}.")
    print(f"first bank {study.facts['first']}\n")
    columns = ("mauve", "precision", "recall", "density", "coverage", "frechet", "distinct_2")
    print(f"| rule | seeds | tokens | {' | '.join(columns)} | MAUVE by round | by all votes: MAUVE, recall |")
    print("|---" * (len(columns) + 5) + "|")
    if runs:
        found = next(iter(runs.values()))
        for name, figures in (("real text of voters", found["real"]), ("first bank", found["populations"][0])):
            print(f"| {name} | | | {' | '.join(f'{figures[column]:.3f}' for column in columns)} | | |")
    for rule in rules:
        mine = [found for (name, _), found in runs.items() if name == rule]
        means = " | ".join(f"{statistics.mean(found['end'][name] for found in mine):.3f}" for name in columns)
        rounds = zip(*([each["mauve"] for each in found["populations"]] for found in mine), strict=True)
        by_round = " ".join(f"{statistics.mean(each):.3f}" for each in rounds)
        every = ", ".join(
            f"{statistics.mean(found['all'][name] for found in mine):.3f}" for name in ("mauve", "recall")
        )
        tokens = statistics.mean(found["tokens"] for found in mine)
        print(f"| {rule} | {len(mine)} | {tokens:,.0f} | {means} | {by_round} | {every} |")
    if failed := sorted("/".join(path.parts[-3:-1]) for path in (study.folder / "runs").glob("*/*/failed.json")):
        print(f"\nFailed, for the generator found too few texts: {', '.join(failed)}. Means leave them out.")
    if given.best is None:
        return
    print("\n| difference in MAUVE, paired by seed | seeds | mean | 95% interval | ratio of means |")
    print("|---|---|---|---|---|")
    named = given.best if given.after is None else f"{given.best} after {given.after} rounds"
    best = {
        seed: (found["end"] if given.after is None else found["populations"][given.after])["mauve"]
        for (name, seed), found in runs.items()
        if name == given.best
    }
    for rule in given.against.split(","):
        other = {seed: found["end"]["mauve"] for (name, seed), found in runs.items() if name == rule}
        both = sorted(best.keys() & other.keys())
        if len(both) > 1:
            low, high = interval([best[seed] - other[seed] for seed in both])
            mean = statistics.mean(best[seed] - other[seed] for seed in both)
            ratio = sum(best[seed] for seed in both) / sum(other[seed] for seed in both)
            print(f"| {named} less {rule} | {len(both)} | {mean:.3f} | {low:.3f} to {high:.3f} | {ratio:.2f} |")


def _part(text: str) -> tuple[int, int]:
    part, parts = map(int, text.split("/"))
    return part, parts


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
