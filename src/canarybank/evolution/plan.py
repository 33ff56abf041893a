"""Hold what a run is asked to do, and state it so that a resume can be held to it."""

import math
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.defend import Vetting, smallest_bank
from canarybank.encode import Encoder
from canarybank.errors import ConfigError, InputError
from canarybank.evolution.draw import NOISES, Canaries, find_noise
from canarybank.evolution.feedback import Feedback, InContext, Taking, describe
from canarybank.evolution.ledger import VERSION
from canarybank.evolution.population import Published
from canarybank.generate import Generator
from canarybank.mechanism import Grid, Mechanism, affordable_rounds, delta_slack, epsilon, slack_refusal
from canarybank.mechanism.mechanism import whole

__all__ = ["EvolutionPlan", "Keep", "top"]


@dataclass(frozen=True, slots=True)
class Keep:
    """How many candidates stay after a round: ``count``, or else floor(share · bank size), and one at least.

    The bank size counts the probes; the candidates that stay never include one.
    """

    share: float = 0.05
    count: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"The share of candidates that stay must lie in (0, 1], not be {self.share!r}.")
        if self.count is not None:
            object.__setattr__(self, "count", whole("The count of candidates that stay", self.count))

    def of(self, bank_size: int) -> int:
        """Return how many candidates of a bank of this size stay."""
        if self.count is not None:
            return self.count
        # By fractions, for 0.29 · 100 is 28.999999999999996 in floating point.
        return max(1, math.floor(Fraction(str(self.share)) * bank_size))


def top(votes: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return the indices of the ``count`` largest votes, largest first, ties to the lowest index."""
    values = np.asarray(votes, dtype=np.float64)
    if not 1 <= count <= len(values):
        raise InputError(f"{count} candidates cannot stay of {len(values)}; keep at least one and at most all.")
    return np.argsort(-values, kind="stable")[:count].astype(np.int64)


@dataclass(frozen=True)
class EvolutionPlan:
    """What a run does: ``rounds`` releases of ``mechanism``, with selection and feedback after each.

    Every user votes with at most ``cap`` records. ``new`` candidates are generated a round; None keeps the population's
    size. ``budget`` is the epsilon that the run stays within, at the mechanism's delta. ``seed`` draws public choices
    only: examples and prompts. ``insecure_seed`` makes releases repeatable, and worthless for privacy. ``noise`` says
    how a real run draws its noise (``canarybank.evolution.NOISES``), and ``account`` is the file of the budget account
    that pays for its releases; a simulation uses neither: it draws in float64 and debits nothing. ``vetting`` bars, in
    every round before the vote, the entries of the bank that it names.
    """

    mechanism: Mechanism
    rounds: int
    keep: Keep = field(default_factory=Keep)
    new: int | None = None
    feedback: Feedback = field(default_factory=InContext)
    taking: Taking = field(default_factory=Taking)
    cap: int | None = 64
    budget: float | None = None
    seed: int = 0
    insecure_seed: int | None = None
    noise: str = "discrete"
    account: Path | str | None = None
    vetting: Vetting | None = None

    def __post_init__(self) -> None:
        whole("rounds", self.rounds)
        for name in ("new", "cap"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.noise not in NOISES:
            raise InputError(f"There is no noise {self.noise!r}; choose one of {', '.join(NOISES)}.")
        for name in ("seed", "insecure_seed"):
            if getattr(self, name) is not None and getattr(self, name) < 0:
                raise InputError(f"A seed must be a whole number of at least 0, but {name} is {getattr(self, name)}.")

    @property
    def is_real(self) -> bool:
        """Say whether releases are drawn from secret randomness, and must be paid for."""
        return self.insecure_seed is None

    @property
    def sampler(self) -> str:
        """Return the name of what draws the noise: ``noise``, or ``simulated`` where the run is a simulation."""
        return self.noise if self.is_real else "simulated"

    def variation(self, entries: int) -> float:
        """Return the total variation between a release over so many entries and an ideal one.

        A real run that cannot be drawn is refused here, for want of a package or of room in 64 bits.
        """
        return find_noise(self.noise).variation(Grid.of(self.mechanism), entries) if self.is_real else 0.0

    def sizes(self, candidates: int, probes: int) -> tuple[int, int]:
        """Return how many of a bank's candidates stay, and how many new ones join them."""
        kept = self.keep.of(candidates + probes)
        new = self.new if self.new is not None else candidates - kept
        if kept > candidates or new < 1:
            raise InputError(
                f"Of {candidates} candidates {kept} cannot stay and {new} join them; keep fewer or add some."
            )
        return kept, new

    def vetted(self, published: Published) -> Published:
        """Return a published bank in which nobody votes for what vetting names."""
        if self.vetting is None:
            return published
        bank = published.bank
        return replace(published, bank=bank.bar(self.vetting.barred(bank, k=self.mechanism.k)))

    def check(self, first: Published) -> None:
        """Refuse, before anything is released, a run with a bank that could not be voted on, vetted, laid out or drawn.

        The bank after the last round is among them, for it is published too.
        """
        candidates, probes, last = len(first.population), len(first.probes or ()), max(first.bank.reserved, default=-1)
        entries = []
        for number in range(self.rounds + 1):
            size = candidates + probes
            if last >= size:
                raise InputError(f"A probe stands at {last}, but the bank of round {number} has {size} entries only.")
            if self.mechanism.k > size:
                raise InputError(f"k is {self.mechanism.k}, but the bank of round {number} has {size} entries only.")
            if self.vetting is not None and size < smallest_bank(self.mechanism.k):
                raise InputError(
                    f"The bank of round {number} has {size} entries, and a bank is vetted that has at least "
                    f"{smallest_bank(self.mechanism.k)}: an entry is compared with the others. Keep or add more "
                    "candidates in each round, or leave out vetting."
                )
            entries.append(size)
            candidates = sum(self.sizes(candidates, probes))
        made = self.rounds if self.budget is None else affordable_rounds(self.mechanism, self.budget, self.rounds)
        if self.is_real and made:
            slack = delta_slack(epsilon(self.mechanism, made), sum(map(self.variation, entries[:made])))
            if refusal := slack_refusal(self.mechanism.delta, slack):
                raise ConfigError(f"This run cannot be drawn: {refusal}")

    def declaration(
        self,
        first: Published,
        encoder: Encoder,
        generator: Generator,
        account: str | None = None,
        canaries: Canaries | None = None,
    ) -> dict[str, Any]:
        """Return everything that decides what the run does, as plain JSON values; tries may change in a resume.

        ``account`` is the hash of the account's opening, where the run has one.
        """
        return {
            "version": VERSION,
            "mechanism": self.mechanism.to_json(),
            "rounds": self.rounds,
            "new": self.new,
            "cap": self.cap,
            "budget": self.budget,
            "seed": self.seed,
            "insecure_seed": self.insecure_seed,
            "keep": asdict(self.keep),
            "feedback": describe(self.feedback),
            "taking": {
                **{name: value for name, value in asdict(self.taking).items() if name != "tries"},
                "cleaning": self.taking.cleaning.to_json(),
            },
            "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint},
            "generator": {"name": generator.name, "fingerprint": generator.fingerprint},
            "first_bank": first.bank.hash,
            "noise": self.sampler,
            "account": account,
            **({} if canaries is None else {"canaries": canaries.hash}),
            **({} if self.vetting is None else {"vetting": self.vetting.hash}),
        }
