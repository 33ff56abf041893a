"""Compare the survival that `canarybank tune` predicts with what simulated releases keep, on people it never saw.

    python tools/tune_study.py [--sets chitchat,technical,forms] [--draws 40] [--others 3000 [--stand-ins 300]] [--all]

Every set is cut into two halves of people. The votes of one half, the stand-ins, predict what releases over the other
half keep; then the halves change places. Beside it stands the prediction from the very people who are simulated: what
is left there is the error of the formula alone, and the rest is how much two groups of people differ. With ``--others``
so many ``--stand-ins`` predict for so many other people, whom a set of ``user_sets.py`` can write.

The table is Markdown, a row for each set, or with ``--all`` for each setting. Sets and banks are those of
``user_sets.py`` at seed 0, and the built-in users with the embedded bank. Nothing was fitted to them.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import user_sets
from numpy.typing import NDArray

from canarybank.encode import load_encoder
from canarybank.evolution.advice import StandIns, predict_survival
from canarybank.flow.bank import embedded_bank
from canarybank.measure import selection_fidelity
from canarybank.mechanism import Bank, Mechanism
from canarybank.users import Admission, admit, source

__all__ = ["CLIPS", "KS", "NOISES", "Comparison", "Halves", "compare", "load_halves"]

RECORDS, SHARE = 32, 0.05
KS, CLIPS = (1, 2, 5, 10), (0.5, 1.0)
"""Votes of a record, and the quantile of the stand-ins' norms that is the clip."""
NOISES = ((1.1088, 0.1), (0.5, 0.5), (1.5, 1.0), (4.0, 1.0))
"""Sigma and q."""


@dataclass(frozen=True, eq=False)
class Halves:
    """The records of two groups of people, nobody in both, and a public bank."""

    name: str
    records: tuple[NDArray[np.float32], NDArray[np.float32]]
    bank: Bank

    @property
    def people(self) -> tuple[int, int]:
        """Return how many people each group has."""
        one, other = (len(records) // RECORDS for records in self.records)
        return one, other

    @property
    def turns(self) -> tuple[tuple[int, int], ...]:
        """Return who predicts for whom: groups of one size change places."""
        return ((0, 1), (1, 0)) if self.people[0] == self.people[1] else ((0, 1),)


@dataclass(frozen=True)
class Comparison:
    """One setting: what was predicted from other people and from the same ones, and what releases kept."""

    name: str
    mechanism: Mechanism
    predicted: float
    own: float
    kept: float
    error: float

    @property
    def row(self) -> str:
        """Return the row of the table."""
        m = self.mechanism
        return (
            f"| {self.name} | {m.k} | {m.clip:.3f} | {m.sigma:g} | {m.q:g} | {self.predicted:.3f} | "
            f"{self.kept:.3f} ± {self.error:.3f} | {self.predicted - self.kept:+.3f} | {self.own - self.kept:+.3f} |"
        )


def load_halves(name: str, others: int | None = None, stand_ins: int = 300) -> Halves:
    """Return a set's people in two halves, in the order in which they stand there, or so many and so many others."""
    cut = None if others is None else stand_ins * RECORDS
    if name == "chitchat":
        users = admit(source(name), Admission(minimum=RECORDS, cap=RECORDS, minimum_words=4)).users
        texts: Sequence[str] = users.require_texts()
        entries: Sequence[str] = embedded_bank().texts
    else:
        count = user_sets.USERS if others is None else stand_ins + others
        texts, entries = [text for _, text in user_sets.user_rows(name, count)], user_sets.bank_texts(name)
    cut = len(texts) // RECORDS // 2 * RECORDS if cut is None else cut
    end = 2 * cut if others is None else cut + others * RECORDS
    encode = load_encoder("wordllama").encode
    vectors = encode(list(texts))
    return Halves(name, (vectors[:cut], vectors[cut:end]), Bank(encode(list(entries))))


def compare(
    halves: Halves,
    ks: Sequence[int] = KS,
    clips: Sequence[float] = CLIPS,
    noises: Sequence[tuple[float, float]] = NOISES,
    *,
    draws: int = 40,
) -> Iterator[Comparison]:
    """Yield every setting, one group being predicted from the other."""
    top, owners = int(SHARE * halves.bank.size), [np.repeat(np.arange(people), RECORDS) for people in halves.people]
    for k in ks:
        groups = [
            StandIns.of(records, owner, halves.bank, k) for records, owner in zip(halves.records, owners, strict=True)
        ]
        for public, private in halves.turns:
            for quantile in clips:
                for sigma, q in noises:
                    mechanism = Mechanism(k=k, clip=groups[public].norm_quantile(quantile), sigma=sigma, q=q)
                    predicted, own = (
                        predict_survival(groups[each], mechanism, people=halves.people[private], top=top)
                        for each in (public, private)
                    )
                    drawn = selection_fidelity(
                        halves.records[private],
                        owners[private],
                        halves.bank,
                        mechanism,
                        top=top,
                        draws=draws,
                        reference_clip=1.0,
                    )
                    yield Comparison(halves.name, mechanism, predicted, own, drawn.kept, drawn.error)


def main() -> None:
    """Print the table and what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sets", default="chitchat,technical,forms")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--others", type=int)
    parser.add_argument("--stand-ins", type=int, default=300)
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    if given.all:
        print("| people | k | clip | sigma | q | predicted | simulated | difference | from the same people |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    else:
        print(
            "| people | stand-ins | others | settings | survival | largest difference | mean | above 0.05 | from the "
            "same people, largest |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )
    for name in given.sets.split(","):
        halves = load_halves(name, given.others, given.stand_ins)
        found = list(compare(halves, draws=given.draws))
        if given.all:
            print(*(each.row for each in found), sep="\n")
            continue
        other = np.abs([each.predicted - each.kept for each in found])
        own = np.abs([each.own - each.kept for each in found])
        kept = [each.kept for each in found]
        print(
            f"| {name} | {halves.people[0]} | {halves.people[1]} | {len(found)} | {min(kept):.2f} to {max(kept):.2f} | "
            f"{other.max():.3f} | {other.mean():.3f} | {(other > 0.05).sum()} | {own.max():.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
