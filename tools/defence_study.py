"""Measure what each attack still reaches behind each defence, and what the defence costs: attacks by defences.

    python tools/defence_study.py [chitchat] [court --court FILE] [--attacks NAMES] [--defences NAMES]
        [--canaries 5] [--probes 64] [--seed 0] [--json FILE]

Each attack is designed by an attacker who knows the defence, on auxiliary users alone, and measured on evaluation
users. Where everybody votes over the whole bank the figure is exact. Behind a secret share it is the best known
filter's, by simulation, with an interval, of the first canary. ``passing`` is the search, limited to fluent text that
vetting lets through. Fidelity is the share of the noiseless top that the noisy one keeps, with no probes in the bank.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from search_study import settings_of_set

from canarybank.attack import Design, search
from canarybank.attack import design as freeze
from canarybank.config import resolve
from canarybank.defend import Vetting, reach
from canarybank.flow.audit import Designs, mechanism_of
from canarybank.flow.inputs import build_engine, gather
from canarybank.measure import Fidelity, selection_fidelity
from canarybank.mechanism import Bank, Mechanism, epsilon
from canarybank.score import Interval
from canarybank.store import StageCache

__all__ = ["DEFENCES", "Cell", "Defence", "fidelities", "measure", "show"]

PASSING, FLUENT = "passing", ("facts",)
ATTACKS = ("ordinary", "exact", "nonce-mueff", "searched", PASSING)
PARAPHRASES = ("paraphrase-mueff", "paraphrase-exact")
KEPT, NARROW = 0.05, 1e-3
SIMULATED = 1
"""How many canaries of an attack are simulated behind a secret share."""


@dataclass(frozen=True)
class Defence:
    """A defence by name: options of the mechanism, and whether the bank is vetted before anybody votes."""

    name: str
    share: float = 1.0
    cap: float | None = None
    """The most that an entry gets, as a part of the clip."""
    vetted: bool = False

    def on(self, mechanism: Mechanism) -> Mechanism:
        """Return a mechanism with this defence on."""
        return replace(mechanism, share=self.share, entry_cap=None if self.cap is None else self.cap * mechanism.clip)


DEFENCES = (
    Defence("none"),
    Defence("cap C/3", cap=1 / 3),
    Defence("cap C/9", cap=1 / 9),
    Defence("vetting", vetted=True),
    Defence("share 0.5", share=0.5),
    Defence("share 0.25", share=0.25),
    Defence("share 0.1", share=0.1),
    Defence("share 0.25, vetting", share=0.25, vetted=True),
)


@dataclass(frozen=True)
class Cell:
    """What one attack reaches behind one defence, canary by canary."""

    users: str
    defence: str
    attack: str
    epsilons: tuple[Interval, ...]

    @property
    def median(self) -> Interval:
        """Return the ends of the middle canary, by their upper ends."""
        return sorted(self.epsilons, key=lambda each: each.upper)[len(self.epsilons) // 2]

    def __str__(self) -> str:
        low, high = self.median.lower, self.median.upper
        return f"{high:.3f}" if high - low < NARROW else f"{low:.2f} to {high:.2f}"


def measure(
    users: str,
    flags: Mapping[str, object],
    attacks: Sequence[str],
    defences: Sequence[Defence] = DEFENCES,
    *,
    seed: int = 0,
) -> Iterator[Cell]:
    """Yield what each attack reaches behind each defence."""
    for attack in attacks:
        named = "searched" if attack == PASSING else attack
        config = resolve(flags={**flags, "attack.names": (named,)}).config
        with tempfile.TemporaryDirectory() as fresh:
            inputs = gather(config, StageCache(Path(fresh)), None)
            for defence in defences:
                mechanism = defence.on(mechanism_of(config))
                work = Designs(inputs, replace(mechanism, share=1.0), build_engine(config.run))
                limited = attack == PASSING or (named == "searched" and (defence.vetted or defence.share < 1))
                made = _searched(work, mechanism, attack, defence, seed) if limited else _designed(work)
                used = made if defence.share == 1 else islice(made, SIMULATED)
                found = tuple(_reached(work, each, mechanism, defence, seed) for each in used)
                yield Cell(users, defence.name, attack, found)


def _reached(work: Designs, design: Design, mechanism: Mechanism, defence: Defence, seed: int) -> Interval:
    """Return what a frozen attack reaches on evaluation users; only here are they looked at."""
    barred, routes = _barred(design.bank, defence), work.routes
    return reach(design, routes.evaluation, mechanism, barred=barred, auxiliary=routes.auxiliary, seed=seed)


def _barred(bank: Bank, defence: Defence) -> tuple[int, ...]:
    return Vetting.load().barred(bank) if defence.vetted else ()


def _designed(work: Designs) -> Iterator[Design]:
    yield from (case.designs[0] for case in work.cases)


def _searched(work: Designs, mechanism: Mechanism, attack: str, defence: Defence, seed: int) -> Iterator[Design]:
    """Search for each canary: among what passes vetting where that is on, and among fluent text for ``passing``."""
    inputs, routes, fluent = work.inputs, work.routes, attack == PASSING
    eligible, (kind, *_) = len(inputs.cohorts.evaluation), inputs.attacks
    accept = Vetting.load().screen(work.bank).accept if defence.vetted or fluent else None
    for index in range(inputs.config.cohorts.canaries):
        canary, pool = search(
            work.bank,
            routes.auxiliary,
            mechanism,
            eligible=eligible,
            encode=inputs.encoder.encode,
            records=int(inputs.people.users.counts.max()),
            seed=seed,
            index=index,
            vocabulary=() if fluent else inputs.encoder.vocabulary(),
            families=FLUENT if fluent else None,
            accept=accept,
        )
        yield freeze(kind, canary, work.bank, routes.auxiliary, work.mechanism, eligible=eligible, pool=pool, seed=seed)


def fidelities(
    flags: Mapping[str, object], defences: Sequence[Defence] = DEFENCES, *, seed: int = 0
) -> dict[str, Fidelity]:
    """Return, for each defence, how much of the noiseless top of the honest bank evaluation users' releases keep."""
    config = resolve(flags={**flags, "attack.names": ("ordinary",)}).config
    with tempfile.TemporaryDirectory() as fresh:
        inputs = gather(config, StageCache(Path(fresh)), None)
        users, bank, found = inputs.cohorts.evaluation.users, inputs.bank, {}
        for defence in defences:
            found[defence.name] = selection_fidelity(
                users.require_vectors(),
                users.owners,
                bank.bar(_barred(bank, defence)),
                defence.on(mechanism_of(config)),
                top=int(KEPT * bank.size),
                seed=seed,
            )
    return found


def show(cells: Sequence[Cell], kept: Mapping[str, Fidelity]) -> Iterator[str]:
    """Yield the lines of the table: a row for each defence, a column for each attack, and what is kept."""
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    yield f"| defence | {' | '.join(attacks)} | kept of the top | votes kept |"
    yield "|---" * (len(attacks) + 3) + "|"
    by_place = {(cell.defence, cell.attack): cell for cell in cells}
    for name in dict.fromkeys(cell.defence for cell in cells):
        row = (str(by_place.get((name, attack), "-")) for attack in attacks)
        cost = f"{kept[name].kept:.1%} | {kept[name].votes:.1%}" if name in kept else "- | -"
        yield f"| {name} | {' | '.join(row)} | {cost} |"


def main() -> None:
    """Print a table for each group of users, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("users", nargs="*", default=["chitchat"])
    parser.add_argument("--attacks")
    parser.add_argument("--court", type=Path)
    parser.add_argument("--canaries", type=int, default=5)
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--defences", help="names of defences, separated by semicolons; left out, all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given, documents = parser.parse_args(), list[object]()
    names = given.defences.split(";") if given.defences else [defence.name for defence in DEFENCES]
    defences = [defence for defence in DEFENCES if defence.name in names]
    for users in given.users:
        with tempfile.TemporaryDirectory() as folder:
            # Paraphrases come with the package for its own canaries, among the built-in users.
            own = "paraphrases" if users == "chitchat" else users
            flags = settings_of_set(own, Path(folder), court=given.court, bank="own", seed=given.seed)
            flags |= {"cohorts.canaries": given.canaries, "attack.probes": given.probes}
            usual = (*ATTACKS[:2], *PARAPHRASES, *ATTACKS[2:]) if users == "chitchat" else ATTACKS
            cells = []
            attacks = given.attacks.split(",") if given.attacks else usual
            for cell in measure(users, flags, attacks, defences, seed=given.seed):
                cells.append(cell)
                print(f"{users}, {cell.defence}, {cell.attack}: {cell}", flush=True)
            kept = fidelities(flags, defences, seed=given.seed)
            limit = epsilon(mechanism_of(resolve(flags=flags).config))
        print("\n".join(("", f"{users}, mechanism {limit:.4f}:", *show(cells, kept), "")), flush=True)
        documents += [asdict(cell) for cell in cells] + [
            {"users": users, "kept": {n: asdict(f) for n, f in kept.items()}}
        ]
        if given.json:
            given.json.write_text(json.dumps(documents, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
