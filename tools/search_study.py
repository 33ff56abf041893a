"""Measure how far attacks reach on the user sets, the built-in users and court text: exactly, on evaluation users.

    python tools/search_study.py [SET ...] [--attacks nonce,nonce-norm,nonce-mueff,searched] [--court FILE]
        [--bank own|embedded] [--families facts | --without vocabulary] [--users 600] [--seed 0]
        [--folder FOLDER] [--json FILE]

A SET is one of ``user_sets.SETS``, ``chitchat`` (the built-in users), ``court`` (a parquet file, by ``--court``, with
MiniLM) or ``paraphrases`` (the built-in users and canaries whose paraphrases are embedded). Each attack is designed and
its rule frozen as ``canarybank audit`` does it, and no trial is played: the law of its score on evaluation users gives
epsilon exactly. A design is timed with a vector cache that knows users and bank, and nothing that the attack makes.
``--families`` and ``--without`` show what the search finds in some families of texts alone.
"""

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from user_sets import SETS, USERS, write_set

from canarybank.attack import FAMILIES, search
from canarybank.auditing import Case, epsilon_at, supremum
from canarybank.config import resolve
from canarybank.encode import CachedEncoder, VectorCache, load_encoder
from canarybank.flow.audit import AuditWork, Designs, mechanism_of
from canarybank.flow.inputs import build_engine, gather
from canarybank.mechanism import epsilon
from canarybank.store import StageCache
from canarybank.users import Admission, admit

__all__ = [
    "Background",
    "Reached",
    "background_of",
    "measure",
    "settings_of_set",
    "show",
    "show_search",
    "timed_designs",
]

NONCES = ("nonce", "nonce-norm", "nonce-mueff", "searched")
PARAPHRASES = ("paraphrase-mueff", "paraphrase-exact")
ENOUGH = 0.97
COURT_USERS, COURT_RECORDS, COURT_BANK = 600, 32, 2048


@dataclass(frozen=True)
class Background:
    """What stands between one canary and the whole budget, on evaluation users."""

    shift: float
    """The share of the clip that the canary's votes put on the probes; the rest went to entries of the bank."""
    records: int
    """The records of all evaluation users."""
    votes: tuple[int, ...]
    """How many of them vote for each probe, most first."""
    users: int
    """The users with a vote for any probe."""
    variance: float
    """The share of the score's variance, without the canary, that is these users' and not noise."""
    texts: tuple[str, ...] = ()
    """The probes with the most votes."""

    def __str__(self) -> str:
        return (
            f"The probes get {self.shift:.1%} of the canary's clipped votes. {self.users} users vote for a probe; a "
            f"probe gets {statistics.median(self.votes):g} (median) to {self.votes[0]} votes of {self.records:,} "
            f"records; {self.variance:.1%} of the variance is theirs"
        )


@dataclass(frozen=True)
class Reached:
    """What one attack reached on one set."""

    set: str
    attack: str
    encoder: str
    bank: str
    seed: int
    eligible: int
    mechanism: float
    exact: tuple[float, ...]
    """The exact epsilon of each canary's attack, over all thresholds."""
    rule: tuple[float, ...]
    """The same at the threshold frozen for a million trials."""
    seconds: float
    """The time that the designs of all canaries took, encoding included."""
    backgrounds: tuple[Background, ...] = ()
    search: tuple[Mapping[str, Any], ...] = field(default=())
    """What the search itself says of each canary."""

    @property
    def median(self) -> float:
        """Return the median over canaries."""
        return statistics.median(self.exact)

    @property
    def share(self) -> float:
        """Return the median's share of the mechanism's epsilon."""
        return self.median / self.mechanism


def settings_of_set(
    name: str, folder: Path, *, court: Path | None, bank: str, seed: int, users: int = USERS
) -> dict[str, object]:
    """Return the configuration of a set, by dotted key; files that it needs are written to the folder."""
    flags: dict[str, object] = {"cohorts.seed": seed, "run.seed": seed, "audit.threshold": "analytic"}
    if name == "paraphrases":
        return flags | {"cohorts.fixed": ("embedded",)}
    if name == "chitchat":
        return flags
    if name == "court":
        if court is None:
            raise SystemExit("The set court is not part of this project; name its file by --court.")
        flags |= {
            "users.source": str(court),
            "users.minimum": COURT_RECORDS,
            "users.cap": COURT_RECORDS,
            "users.limit": COURT_USERS,
            "encoder.name": "minilm",
        }
        own = folder / "court-bank.jsonl"
        if bank == "own":
            _write_court_bank(court, own, seed)
    elif name in SETS:
        write_set(folder, name, users)
        flags |= {"users.source": str(folder / f"{name}.jsonl")}
        own = folder / f"{name}-bank.jsonl"
    else:
        raise SystemExit(f"There is no set {name!r}; choose among {', '.join((*SETS, 'chitchat', 'court'))}.")
    return flags | ({"bank.source": str(own)} if bank == "own" else {})


def _write_court_bank(court: Path, path: Path, seed: int) -> None:
    """Write one turn each of so many advocates who play no role."""
    playing = admit(court, Admission(COURT_RECORDS, None, COURT_RECORDS, users=COURT_USERS, seed=seed)).users.ids
    others = admit(court, Admission(COURT_RECORDS, None, 1, seed=seed)).users
    rest = [
        (hashlib.sha256(f"{seed}/{name}".encode()).digest(), text)
        for name, text in zip(others.ids, others.require_texts(), strict=True)
        if name not in set(playing)
    ]
    texts = dict.fromkeys(text for _, text in sorted(rest))
    lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in list(texts)[:COURT_BANK])
    path.write_text("".join(lines), encoding="utf-8")


def measure(
    name: str,
    attacks: Sequence[str],
    flags: Mapping[str, object],
    *,
    bank: str = "own",
    seed: int = 0,
    families: Sequence[str] | None = None,
) -> Iterator[Reached]:
    """Design each attack on its canaries, freeze its rules, and yield what they reach on evaluation users."""
    for attack in attacks:
        with tempfile.TemporaryDirectory() as fresh:
            work, seconds = timed_designs({**flags, "attack.names": (attack,)}, Path(fresh), families)
            yield _reached(name, attack, work, seconds, bank, seed)


def timed_designs(
    flags: Mapping[str, object], fresh: Path, families: Sequence[str] | None = None
) -> tuple[AuditWork, float]:
    """Return an audit whose attacks are designed, and the seconds that this took; the folder remembers nothing yet.

    With families, its only attack is ``searched``, and the search is limited to them.
    """
    config = resolve(flags=flags).config
    inputs = gather(config, StageCache(fresh / "stages"), None)
    work = AuditWork(Designs(inputs, mechanism_of(config), build_engine(config.run)))
    _ = work.designs.routes  # everybody is encoded and routed before the clock starts
    new = CachedEncoder(load_encoder(config.encoder.name), VectorCache(fresh / "vectors"))
    object.__setattr__(inputs, "encoder", new)  # what the attack makes is encoded while the clock runs
    start = time.perf_counter()
    if families is not None:
        object.__setattr__(work.designs, "cases", _limited(work.designs, families))
    _ = work.designs.cases
    return work, time.perf_counter() - start


def _limited(designs: Designs, families: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases of a search that is limited to some families."""
    inputs, routes = designs.inputs, designs.routes
    (attack,), seed, cases = inputs.attacks, inputs.config.cohorts.seed, []
    for index in range(inputs.config.cohorts.canaries):
        canary, pool = search(
            routes.bank,
            routes.auxiliary,
            designs.mechanism,
            eligible=designs.auditor.eligible,
            encode=inputs.encoder.encode,
            records=inputs.cohorts.canary_records,
            seed=seed,
            index=index,
            vocabulary=inputs.encoder.vocabulary(),
            families=families,
        )
        cases.append(Case.of(index, designs.auditor.design(attack, canary, pool, routes, seed)))
    return tuple(cases)


def _reached(name: str, attack: str, work: AuditWork, seconds: float, bank: str, seed: int) -> Reached:
    auditor, routes, delta = work.auditor, work.routes, work.designs.mechanism.delta
    systems = auditor.evaluation(routes)
    exact, rule = [], []
    for case in work.cases:
        law = auditor.law(case, systems(case))
        if law is None:
            raise SystemExit(f"The system of {attack} has no law; nothing can be computed exactly.")
        exact.append(supremum(law, delta).point)
        rule.append(epsilon_at(law, case.thresholds[0].value, delta).lower)
    return Reached(
        name,
        attack,
        work.inputs.encoder.name,
        bank,
        seed,
        auditor.eligible,
        epsilon(work.designs.mechanism),
        tuple(exact),
        tuple(rule),
        seconds,
        tuple(background_of(work, case) for case in work.cases),
        tuple(_search_facts(case) for case in work.cases),
    )


def background_of(work: AuditWork, case: Case) -> Background:
    """Return what evaluation users add to a score; only after all rules are frozen is this looked at."""
    (design,), mechanism = case.designs, work.designs.mechanism
    evaluation = work.routes[0].evaluation
    facts = getattr(design.pool, "search", None)
    probes = design.inspected if facts is None else design.inspected[: facts.probes]  # behind them stand decoys
    routed = evaluation.table.swap(design.bank)[:, : mechanism.k]
    votes = np.array([int((routed == place).sum()) for place in probes])
    voting = np.isin(routed, probes).any(axis=1)
    table = design.restrict(evaluation.contributions(design.bank, mechanism))
    weights = design.score.weights
    added = np.asarray(table @ weights)
    theirs = mechanism.q * (1 - mechanism.q) * float(added @ added)
    noise = (mechanism.sigma * mechanism.clip) ** 2 * float(weights @ weights)
    order = np.argsort(-votes, kind="stable")
    texts = design.bank.texts or ()
    return Background(
        shift=float(np.linalg.norm(design.contribution)) / mechanism.clip,
        records=len(evaluation.cohort.users.owners),
        votes=tuple(int(each) for each in votes[order]),
        users=len(np.unique(evaluation.cohort.users.owners[voting])),
        variance=theirs / (theirs + noise),
        texts=tuple(texts[probes[place]] for place in order[:3]) if texts else (),
    )


def _search_facts(case: Case) -> Mapping[str, Any]:
    found = getattr(case.designs[0].pool, "search", None)
    return {} if found is None else asdict(found)


def show(rows: Sequence[Reached]) -> Iterator[str]:
    """Yield the lines of the table; a time is set against that of the paper's rule, which selects by mu_eff."""
    usual = {row.set: row.seconds for row in rows if row.attack.endswith("-mueff")}
    yield "| set | attack | median | minimum | share | at the frozen rule | seconds | times mueff |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        times = f"{row.seconds / usual[row.set]:.1f}" if row.set in usual else "-"
        yield (
            f"| {row.set} | {row.attack} | {row.median:.4f} | {min(row.exact):.4f} | {row.share:.1%} | "
            f"{statistics.median(row.rule):.4f} | {row.seconds:.2f} | {times} |"
        )


def show_search(rows: Sequence[Reached]) -> Iterator[str]:
    """Yield a line for each canary that was searched for: what the search said, and what evaluation users showed."""
    yield "| set | canary | family | held out | stated interval | evaluation | inside | texts tried |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        for place, (found, exact) in enumerate(zip(row.search, row.exact, strict=True)):
            if found:
                low, high = found["expected"]["lower"], found["expected"]["upper"]
                yield (
                    f"| {row.set} | {place} | {found['family']} | {found['epsilon']:.4f} | {low:.4f} to {high:.4f} | "
                    f"{exact:.4f} | {'yes' if low <= exact <= high else 'no'} | {found['candidates']:,} |"
                )


def short_of(row: Reached) -> Iterator[str]:
    """Yield a sentence for each canary that falls short of 97% of the mechanism's epsilon."""
    for place, (value, background) in enumerate(zip(row.exact, row.backgrounds, strict=True)):
        if value < ENOUGH * row.mechanism:
            yield f"{row.set}, {row.attack}, canary {place}: {value:.4f} of {row.mechanism:.4f}. {background}."


def main() -> None:
    """Print the table and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sets", nargs="*", default=[*SETS, "chitchat"])
    parser.add_argument("--attacks")
    parser.add_argument("--court", type=Path)
    parser.add_argument("--bank", choices=("own", "embedded"), default="own")
    parser.add_argument("--families", help="the only families that a search goes through")
    parser.add_argument("--without", help="families that a search leaves out")
    parser.add_argument("--users", type=int, default=USERS, help="more of a set's people than its hash is about")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    families = given.families.split(",") if given.families else None
    if given.without:
        families = [name for name in FAMILIES if name not in given.without.split(",")]
    rows: list[Reached] = []
    for name in given.sets:
        flags = settings_of_set(name, folder, court=given.court, bank=given.bank, seed=given.seed, users=given.users)
        usual = PARAPHRASES if name == "paraphrases" else NONCES
        attacks = given.attacks.split(",") if given.attacks else usual
        for row in measure(name, attacks, flags, bank=given.bank, seed=given.seed, families=families):
            rows.append(row)
            for line in (list(show([row]))[-1], *list(show_search([row]))[2:], *short_of(row)):
                print(line, flush=True)
            if given.json:
                given.json.write_text(json.dumps([asdict(each) for each in rows], indent=1, ensure_ascii=False) + "\n")
    print("\n".join(("", *show(rows), "", *show_search(rows))))


if __name__ == "__main__":
    main()
