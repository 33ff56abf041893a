"""Hold what a run is asked to do: state it so that a resume can be held to it, and draw its releases."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.encode import Encoder
from canarybank.errors import ConfigError, InputError
from canarybank.evolution.archive import Published
from canarybank.evolution.draw import NOISES, Voters, find_noise
from canarybank.evolution.feedback import Feedback, InContext, Taking, describe
from canarybank.generate import Generator
from canarybank.mechanism import Bank, Grid, Mechanism, affordable_rounds, delta_slack, epsilon, slack_refusal
from canarybank.mechanism.mechanism import whole
from canarybank.seeds import stream

__all__ = ["DrawnReleases", "EvolutionPlan", "Keep", "Releaser", "ReleaserFactory", "top"]

VERSION = 2


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
    that pays for its releases; a simulation uses neither: it draws in float64 and debits nothing.
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

    def check(self, first: Published) -> None:
        """Refuse, before anything is released, a run with a round that could not be voted on, laid out or drawn."""
        candidates, probes, last = len(first.population), len(first.probes or ()), max(first.bank.reserved, default=-1)
        entries = []
        for number in range(self.rounds + 1):
            size = candidates + probes
            if last >= size:
                raise InputError(f"A probe stands at {last}, but the bank of round {number} has {size} entries only.")
            if self.mechanism.k > size:
                raise InputError(f"k is {self.mechanism.k}, but the bank of round {number} has {size} entries only.")
            entries.append(size)
            candidates = sum(self.sizes(candidates, probes))
        made = self.rounds if self.budget is None else affordable_rounds(self.mechanism, self.budget, self.rounds)
        if self.is_real and made:
            slack = delta_slack(epsilon(self.mechanism, made), sum(map(self.variation, entries[:made])))
            if refusal := slack_refusal(self.mechanism.delta, slack):
                raise ConfigError(f"This run cannot be drawn: {refusal}")

    def declaration(
        self, first: Published, encoder: Encoder, generator: Generator, account: str | None = None
    ) -> dict[str, Any]:
        """Return everything that decides what the run does, as plain JSON values; tries may change in a resume.

        ``account`` is the hash of the account's opening, where the run has one.
        """
        taking = asdict(self.taking) | {"cleaning": self.taking.cleaning.to_json()}
        del taking["tries"]
        names = ("rounds", "new", "cap", "budget", "seed", "insecure_seed")
        return {
            "version": VERSION,
            "mechanism": asdict(self.mechanism),
            **{name: getattr(self, name) for name in names},
            "keep": asdict(self.keep),
            "feedback": describe(self.feedback),
            "taking": taking,
            "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint},
            "generator": {"name": generator.name, "fingerprint": generator.fingerprint},
            "first_bank": first.bank.hash,
            "noise": self.sampler,
            "account": account,
        }


class Releaser(Protocol):
    """Where an evolution's noisy histograms come from.

    A run draws them from its voters. A test may put in releases of its own, to see what else depends on users.
    """

    def release(self, round_number: int, bank: Bank) -> NDArray[np.float64]:
        """Return the noisy histogram of a round over its bank, one value an entry."""


@dataclass(frozen=True, eq=False)
class DrawnReleases:
    """Draw a run's releases from its voters: real ones, or those of a simulation with an insecure seed."""

    voters: Voters
    plan: EvolutionPlan

    def release(self, round_number: int, bank: Bank) -> NDArray[np.float64]:
        """Draw a round's release over its bank."""
        plan = self.plan
        if plan.insecure_seed is None:
            return self.voters.release(bank, plan.mechanism, plan.noise)
        return self.voters.simulate(bank, plan.mechanism, stream(plan.insecure_seed, "evolve", "release", round_number))


ReleaserFactory = Callable[[Voters, EvolutionPlan], Releaser]
