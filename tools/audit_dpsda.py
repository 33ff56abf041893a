"""Audit microsoft/DPSDA, unmodified, from Python and by the two commands: `python tools/audit_dpsda.py`.

The folder that holds `DPSDA/` is $CANARYBANK_PEERS, or ../shared/peers. Install what DPSDA needs by the extra `dpsda`.
Each row of the table is an audit of its own: committed before its first run, with its own seed, runs in random order,
score and thresholds fitted on runs set apart. `--norms` prints instead what one person does to the histograms of the
same code without its noise; no score or threshold knows that.
"""

import argparse
import csv
import json
import logging
import os
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import MagicMock

import numpy as np
from numpy.typing import NDArray

import canarybank
from canarybank.auditing import Settings
from canarybank.encode import load_encoder
from canarybank.mechanism import Claim
from canarybank.score import LinearScore, Moments
from canarybank.systems import dpsda

ALPHA, DELTA, METHOD = 0.001, 1e-5, "clopper-pearson"
SEED = 2026111600
POINTS = {"a": (0.0, 0.0), "b": (1.0, 0.0), "c": (0.0, 1.0), "d": (1.0, 1.0)}
"""The bank of each label, where DPSDA is audited from Python: texts and their vectors."""
TOPICS = {
    "food": "bread soup apples rice cheese tea salad fish",
    "travel": "trains ferries maps hotels borders deserts airports bridges",
    "music": "violins drums choirs records pianos operas flutes guitars",
    "sport": "tennis rowing chess skiing boxing running hockey golf",
    "work": "meetings invoices shifts deadlines offices contracts pay managers",
}
"""What the bank of each label is about, where DPSDA is audited by the commands."""
Encode = Callable[[Sequence[str]], NDArray[Any]]


@dataclass(frozen=True)
class Setting:
    """One way to run DPSDA, and the person whose presence is tested."""

    name: str
    level: str
    labels: int = 1
    iterations: int = 1
    records: int = 1
    """The person's records; the first is in the first label, the second in the second, and so on in turn."""
    first: bool = False
    """Whether the person stands first in the file, or last."""
    clients: int = 6
    """The others; each has one record in each label."""
    index: str = "numbers"
    """What the index of the private data is made of: numbers from 0, numbers from 3, or strings."""
    epsilon: float = 4.0
    judged: int = 80
    apart: int = 40
    """The runs with the person that are judged, and that are set apart; there are as many without."""

    @property
    def topics(self) -> list[str]:
        """Return the labels' names."""
        return list(TOPICS)[: self.labels]

    @property
    def claim(self) -> Claim:
        """Return what DPSDA claims here."""
        return dpsda.claim([1] * (self.iterations + 1), DELTA, epsilon=self.epsilon)

    def run(self, entries: int) -> dict[str, Any]:
        """Return what `PE.run` is called with, for a bank of so many entries a label.

        It takes a noise multiplier in place of the epsilon, and the tests see that DPSDA computes the same one from it:
        that computation is half of a run.
        """
        return {
            "num_samples_schedule": [entries * self.labels] * (self.iterations + 1),
            "delta": DELTA,
            "noise_multiplier": self.claim.mechanism.sigma,  # type: ignore[union-attr]
            "save_checkpoint": False,
            "fraction_per_label_id": [1.0] * self.labels,
        }


TWICE = {"labels": 2, "iterations": 2, "first": True}
MOVED = TWICE | {"clients": 24, "epsilon": 2.0}
SETTINGS = (
    Setting("sample level, one label", "sample"),
    Setting("sample level, two labels, two iterations", "sample", **TWICE),
    Setting("client level, one label, five records", "client", records=5),
    Setting("client level, one label, two iterations", "client", iterations=2, first=True),
    Setting("client level, five labels, records in one", "client", labels=5, judged=120),
    Setting("client level, five labels, records in each", "client", labels=5, records=5, judged=120),
    Setting("client level, two labels, two iterations", "client", **MOVED, judged=150),
    Setting("the same, index of strings", "client", **MOVED, index="strings"),
)

AGAIN = replace(SETTINGS[5], name=f"{SETTINGS[5].name}, again with more runs", judged=300, apart=60)
"""Added when all others were known: of the two audits of this setting one had refuted the claim, and one had not."""


def find_peers() -> Path:
    """Return the folder that should hold `DPSDA/`."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "peers"
    return Path(os.environ.get("CANARYBANK_PEERS", beside))


@cache
def load_peer(folder: Path) -> Any:
    """Import DPSDA's classes; its image, text and model parts, which need more packages, are passed over."""
    root = folder / "DPSDA"
    if not (root / "pe").is_dir():
        sys.exit(
            f"No DPSDA in {str(folder)!r}. Clone microsoft/DPSDA there, or set CANARYBANK_PEERS to its parent folder."
        )
    sys.path.insert(0, str(root))
    for name in ("torchvision", "torchvision.transforms", "torchvision.datasets"):
        sys.modules.setdefault(name, MagicMock())
    for name in ("api", "embedding"):  # their __init__ files import every optional part
        package = types.ModuleType(f"pe.{name}")
        package.__path__ = [str(root / "pe" / name)]
        sys.modules[f"pe.{name}"] = package
    from pe.api.api import API
    from pe.embedding.embedding import Embedding

    sys.modules["pe.api"].API, sys.modules["pe.embedding"].Embedding = API, Embedding  # type: ignore[attr-defined]
    from pe.data import Data
    from pe.dp import DP
    from pe.histogram import NearestNeighbors
    from pe.population import PEPopulation
    from pe.runner import PE

    return types.SimpleNamespace(
        API=API,
        DP=DP,
        Data=Data,
        Embedding=Embedding,
        NearestNeighbors=NearestNeighbors,
        PE=PE,
        PEPopulation=PEPopulation,
    )


def build(
    setting: Setting,
    banks: Sequence[Sequence[str]],
    others: Sequence[Sequence[str]],
    rows: Sequence[tuple[str, int]],
    encode: Encode,
    dp: Any = None,
) -> Any:
    """Return a fresh `PE` of DPSDA's own histogram, noise and population, over a fixed bank for each label.

    Args:
        setting: The setting.
        banks: The texts of each label's bank; every iteration has the same.
        others: What the others' records say in each label: one half of them the first list, one half the second.
        rows: Text and label of each record of the person.
        encode: What gives texts their vectors.
        dp: A DP object in place of DPSDA's own.
    """
    import pandas as pd

    peer = load_peer(find_peers())

    class Encoded(peer.Embedding):  # type: ignore[misc]
        def compute_embedding(self, data: Any) -> Any:
            todo = self.filter_uncomputed_rows(data)
            if len(todo.data_frame) == 0:
                return data
            vectors = list(encode(list(todo.data_frame["text"])))
            todo.data_frame[self.column_name] = pd.Series(vectors, index=todo.data_frame.index)
            return self.merge_computed_rows(data, todo)

    class Fixed(peer.API):  # type: ignore[misc]
        def random_api(self, label_info: Any, num_samples: int) -> Any:
            bank = banks[setting.topics.index(label_info["name"])]
            return peer.Data(pd.DataFrame({"text": bank[:num_samples]}), {})

        def variation_api(self, syn_data: Any) -> Any:
            labels = syn_data.data_frame["PE.LABEL_ID"].to_numpy()
            frame = pd.DataFrame({"text": banks[labels[0]], "PE.LABEL_ID": labels})
            return peer.Data(frame, syn_data.metadata)

    crowd = [(others[c % 2][label], label, c) for c in range(setting.clients) for label in range(setting.labels)]
    person = [(text, label, 99) for text, label in rows]
    frame = pd.DataFrame(
        person + crowd if setting.first else crowd + person, columns=["text", "PE.LABEL_ID", "PE.CLIENT_ID"]
    )
    if setting.index == "from 3":
        frame.index += 3
    if setting.index == "strings":
        frame.index = [f"record {number}" for number in range(len(frame))]
    private = peer.Data(frame, {"label_info": [{"name": name} for name in setting.topics]})
    histogram = peer.NearestNeighbors(
        Encoded(), mode="l2", lookahead_degree=0, backend="torch", vote_normalization_level=setting.level
    )
    return peer.PE(
        private, peer.PEPopulation(Fixed(), histogram_threshold=0.0, selection_mode="rank"), histogram, dp=dp
    )


def point_vectors(texts: Sequence[str]) -> NDArray[Any]:
    """Return the vectors of `POINTS`."""
    return np.array([POINTS[text] for text in texts])


def person_rows(setting: Setting) -> list[tuple[str, int]]:
    """Return the person's records from Python: all say "b", which nobody else says."""
    return [("b", number % setting.labels) for number in range(setting.records)]


def build_points(setting: Setting, rows: Sequence[tuple[str, int]], dp: Any = None) -> Any:
    """Return a `PE` over `POINTS`."""
    others = (["a"] * setting.labels, ["c"] * setting.labels)
    return build(setting, [list(POINTS)] * setting.labels, others, rows, point_vectors, dp)


def designed_score(setting: Setting) -> list[LinearScore]:
    """Return the score that the claim alone suggests, one an iteration: the votes of the person, of norm 1 in all."""
    votes = np.zeros((setting.labels, len(POINTS)))
    for text, label in person_rows(setting):
        votes[label, list(POINTS).index(text)] += 1.0
    votes /= np.linalg.norm(votes)
    sigma = setting.claim.mechanism.sigma  # type: ignore[union-attr]
    moments = Moments(np.zeros(votes.size), sigma**2 * np.eye(votes.size))
    return [LinearScore(votes.ravel(), moments)] * setting.iterations


def audit_from_python(setting: Setting, folder: Path, seed: int) -> dict[str, Any]:
    """Audit a setting by `audit_system`, in a folder, and return what is on disk then."""
    run = setting.run(len(POINTS))
    canarybank.audit_system(
        dpsda.system(lambda rows: build_points(setting, rows), {"canary": person_rows(setting)}, **run),
        designed_score(setting),
        setting.claim,
        Settings(trials=setting.judged, alpha=ALPHA, method=METHOD, seed=seed),
        apart=setting.apart,
        folder=folder,
        name="DPSDA",
    )
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def topic_bank(topic: str) -> list[str]:
    """Return the bank of a topic, without probes."""
    return [f"I often talk about {word}." for word in TOPICS[topic].split()]


def audit_by_commands(setting: Setting, folder: Path, seed: int) -> dict[str, Any]:
    """Audit a setting by `canarybank design`, DPSDA with what it planted, and `canarybank score`."""
    if (folder / "plant" / "results.json").exists():
        return canarybank_command(folder, "score", "plant", "releases.csv")
    folder.mkdir(parents=True)
    bank = [(text, topic) for topic in setting.topics for text in topic_bank(topic)]
    public = [(f"user {n}", f"We met for {text[20:]}") for n in range(24) for text, _ in bank[: setting.records]]
    for name, heads, lines in (("bank.csv", ("text", "label"), bank), ("users.csv", ("user", "text"), public)):
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([heads, *lines])
    sigma = setting.claim.mechanism.sigma  # type: ignore[union-attr]
    settings = {
        "users": {"source": "users.csv", "cap": setting.records},
        "cohorts": {"seed": seed},
        "bank": {"source": "bank.csv"},
        "encoder": {"name": "wordllama"},
        "attack": {"probes": 4, "pool": 64},
        "mechanism": {"q": 1.0, "k": 1, "clip": 1.0, "sigma": sigma, "delta": DELTA},
        "audit": {"accounted": setting.epsilon, "alpha": ALPHA, "method": METHOD},
        "system": {
            "name": "DPSDA",
            "by_label": True,
            "inspect": "bank",
            "rounds": setting.iterations,
            "runs": setting.judged,
            "apart": setting.apart,
        },
        "run": {"seed": seed},
    }
    text = "".join(
        f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in s.items()) for name, s in settings.items()
    )
    (folder / "audit.toml").write_text(text, encoding="utf-8")
    canarybank_command(folder, "design", "audit.toml", "-o", "plant")
    play_plant(setting, folder / "plant", folder / "releases.csv", seed)
    return canarybank_command(folder, "score", "plant", "releases.csv")


def canarybank_command(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a command of canarybank in a folder, and return its JSON."""
    done = subprocess.run(  # noqa: S603, our own command
        [sys.executable, "-m", "canarybank", *arguments, "--json"], cwd=folder, capture_output=True, check=False
    )
    if done.returncode not in {0, 1, 5}:
        sys.exit(done.stderr.decode())
    return json.loads(done.stdout)


def play_plant(setting: Setting, plant: Path, releases: Path, seed: int) -> None:
    """Do what the README of a plant asks of DPSDA's operator."""
    probes, encoder = dpsda.read_probes(plant), load_encoder("wordllama")
    banks = [
        [probes.get(topic, {}).get(place, text) for place, text in enumerate(topic_bank(topic))]
        for topic in setting.topics
    ]

    others = [[topic_bank(topic)[place] for topic in setting.topics] for place in (-2, -1)]

    @cache
    def vector(text: str) -> NDArray[Any]:
        return encoder.encode([text])[0]

    def make_pe(rows: Sequence[Any]) -> Any:
        person = [(row["text"], setting.topics.index(row["label"])) for row in rows]
        return build(setting, banks, others, person, lambda texts: np.array([vector(text) for text in texts]))

    dpsda.record(make_pe, plant, releases, seed=seed, **setting.run(len(banks[0])))


WAYS = {"Python": audit_from_python, "commands": audit_by_commands}


def audit(way: str, setting: Setting, folder: Path, seed: int) -> tuple[str, str]:
    """Audit one setting in one way, and return its line of the table, and the hash of its commitment."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    results = WAYS[way](setting, folder, seed)
    found = results["found"]
    cells = [setting.name, way, str(seed), f"`{results['commitment'][:12]}`", str(found["runs"])]
    for score in ("designed", "fitted"):
        shown = {each["evidence"]: each for each in found["shown"] if each["score"] == score}
        for evidence in ("curve", "bound"):
            each = shown.get(evidence)
            if each is None:
                cells.append("-")
                continue
            (counts,) = each["counts"]
            counted = f"{counts['tp']}:{counts['fp']} of {found['judged']}"
            word = f"ε ≥ {each['epsilon']:.2f}" if evidence == "bound" else ""
            cells.append(" ".join(filter(None, [counted, word, "**refuted**" if each["refuted"] else ""])))
    return " | ".join(["", *cells, found["verdict"], ""]).strip(), results["commitment"]


def bare_releases(setting: Setting) -> list[NDArray[np.float64]]:
    """Return the histograms without and with the person, from a DP object that adds nothing."""

    class Silent(load_peer(find_peers()).DP):  # type: ignore[misc]
        def set_epsilon_and_delta(self, **_: Any) -> None:
            pass

        def add_noise(self, syn_data: Any) -> Any:
            syn_data.data_frame["PE.DP_HISTOGRAM"] = syn_data.data_frame["PE.CLEAN_HISTOGRAM"]
            return syn_data

    released = []
    for rows in ([], person_rows(setting)):
        pe = build_points(setting, rows, Silent())
        tapped = dpsda.tap(pe)
        pe.run(**setting.run(len(POINTS)))
        released.append(np.concatenate(tapped.observation()))
    return released


def attained_norm(setting: Setting) -> float:
    """Return the norm of what the person does to all histograms of a run without noise."""
    absent, there = bare_releases(setting)
    return float(np.linalg.norm(there - absent))


def print_norms() -> None:
    """Print what one person does to the histograms without noise, in every setting and with more others."""
    print("| setting | others | norm accounted for | attained |\n|---|---|---|---|")
    shown = list(SETTINGS)
    for number in (6, 7):
        shown += [replace(SETTINGS[number], clients=clients) for clients in (6, 12, 48)]
    shown.append(replace(SETTINGS[6], name=f"{SETTINGS[6].name}, last in the file", first=False))
    shifted = replace(SETTINGS[3], name=f"{SETTINGS[3].name}, last in the file", first=False, clients=24)
    shown += [shifted, replace(shifted, name=f"{shifted.name}, index from 3", index="from 3")]
    for setting in shown:
        allowed = setting.iterations**0.5
        print(f"| {setting.name} | {setting.clients} | {allowed:.3f} | {attained_norm(setting):.3f} |", flush=True)


def main() -> None:
    """Print the table of all audits, or that of the norms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--norms", action="store_true", help="print what one person does without noise, and stop")
    parser.add_argument("--only", default="", help="audit settings whose name holds this")
    parser.add_argument("--way", choices=list(WAYS), help="audit in one way")
    parser.add_argument(
        "--folder", type=Path, help="keep audits here, for `canarybank verify`; finished ones are not run again"
    )
    parser.add_argument("--jobs", type=int, default=1, help="audits at once")
    parser.add_argument("--seed", type=int, default=SEED, help="the seed of the first row; each row has the next one")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    load_peer(find_peers())
    if given.norms:
        print_norms()
        return
    rows = [*((way, each) for way in WAYS for each in SETTINGS), ("Python", AGAIN)]
    chosen = [
        (way, setting, given.seed + number)
        for number, (way, setting) in enumerate(rows)
        if given.only in setting.name and given.way in {None, way}
    ]
    heads = ["setting", "by", "seed", "commitment", "runs"]
    heads += ["designed, curve", "designed, bound", "fitted, curve", "fitted, bound", "claim"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    with TemporaryDirectory() as scratch, ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        at = given.folder or Path(scratch)
        longest = sorted(chosen, key=lambda row: -row[1].judged)
        waiting = {row[2]: pool.submit(audit, row[0], row[1], at / str(row[2]), row[2]) for row in longest}
        for *_, seed in chosen:
            print(waiting[seed].result()[0], flush=True)
        print("\n" + "\n".join(f"{seed} {waiting[seed].result()[1]}" for *_, seed in chosen))


if __name__ == "__main__":
    main()
