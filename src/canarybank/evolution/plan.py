"""Hold what a run is asked to do, and state it so that a resume can be held to it."""

import math
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.defend import Vetting, smallest_bank
from canarybank.encode import Encoder
from canarybank.errors import ConfigError, InputError
from canarybank.evolution.draw import NOISES, Canaries, find_noise
from canarybank.evolution.feedback import Feedback, InContext, MixedFeedback, apply_feedback
from canarybank.evolution.keeping import Choice, Keeper, KeepTop, Kept, apply_keeper, describe
from canarybank.evolution.ledger import VERSION
from canarybank.evolution.offspring import Taking
from canarybank.evolution.population import Published
from canarybank.evolution.schedules import Schedule, at_round, check_schedule
from canarybank.evolution.voted import Voted
from canarybank.generate import Generator
from canarybank.mechanism import Grid, Mechanism, affordable_rounds, delta_slack, epsilon, slack_refusal
from canarybank.mechanism.mechanism import whole

__all__ = ["EvolutionPlan", "Keep", "choose"]


@dataclass(frozen=True, slots=True)
class Keep:
    """How many candidates stay after a round: ``count``, or else floor(share · bank size), and one at least.

    The share may differ by round. The bank size counts the probes; the candidates that stay never include one.
    """

    share: Schedule = 0.05
    count: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "share", check_schedule("The share of candidates that stay", self.share, 0, 1, above=True)
        )
        if self.count is not None:
            object.__setattr__(self, "count", whole("The count of candidates that stay", self.count))

    def of(self, bank_size: int, round_number: int = 0) -> int:
        """Return how many candidates of a round's bank of this size stay."""
        if self.count is not None:
            return self.count
        # By fractions, for 0.29 · 100 is 28.999999999999996 in floating point.
        return max(1, math.floor(Fraction(str(at_round(self.share, round_number))) * bank_size))


def choose(
    number: int, published: Published, release: NDArray[np.float64], keep: Keep, keeper: Keeper, noise: float, seed: int
) -> Kept:
    """Return who stays after a round, as bank positions: candidates that could be voted for, and never a probe.

    Vetting leaves at least one candidate open.
    """
    bank = published.bank
    is_open = ~np.isin(bank.base, bank.barred)
    places = bank.base[is_open]
    labels = tuple(label for label, may_stay in zip(published.population.labels, is_open, strict=True) if may_stay)
    size = min(keep.of(bank.size, number), len(places))
    kept = apply_keeper(
        keeper, Choice(release[places], published.population.vectors[is_open], labels, noise, size, number, seed)
    )
    return Kept(places[kept.indices], kept.weights)


@dataclass(frozen=True)
class EvolutionPlan:
    """What a run does: ``rounds`` releases of ``mechanism``, with selection and feedback after each.

    ``keeper`` decides who stays, at most so many as ``keep`` says; where it keeps fewer, more new candidates are
    generated, so that banks have the sizes of the plan. Without ``carry`` the kept ones are parents only, and the next
    bank holds new candidates alone. ``temperature``, a number or one for each round, stands in place of the prompts'
    own. Every user votes with at most ``cap`` records. ``new`` candidates are generated a round; None keeps the
    population's size. ``budget`` is the epsilon that the run stays within, at the mechanism's delta. ``seed`` draws
    public choices only: examples and prompts. ``insecure_seed`` makes releases repeatable, and worthless for privacy.
    ``noise`` says how a real run draws its noise (``canarybank.evolution.NOISES``), and ``account`` is the file of the
    budget account that pays for its releases; a simulation uses neither: it draws in float64 and debits nothing.
    ``vetting`` bars, in every round before the vote, the entries of the bank that it names.
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
    keeper: Keeper = field(default_factory=KeepTop)
    carry: bool = True
    temperature: Schedule | None = None

    def __post_init__(self) -> None:
        whole("rounds", self.rounds)
        if self.temperature is not None:
            object.__setattr__(self, "temperature", check_schedule("temperature", self.temperature, 0, 2))
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

        A real run that cannot be drawn is refused here, because a package is missing or 64 bits are too few.
        """
        return find_noise(self.noise).variation(Grid.of(self.mechanism), entries) if self.is_real else 0.0

    def sizes(self, candidates: int, probes: int, number: int = 0) -> tuple[int, int]:
        """Return how many candidates of a round's bank may stay, and how many new ones the next bank has then."""
        kept = self.keep.of(candidates + probes, number)
        kept = kept if self.carry else min(kept, candidates)
        new = self.new if self.new is not None else candidates - kept * self.carry
        if kept > candidates or new < 1:
            raise InputError(
                f"Of {candidates} candidates {kept} cannot stay and {new} join them; keep fewer or add some."
            )
        return kept, new

    def size_after(self, candidates: int, probes: int, number: int) -> int:
        """Return how many candidates the bank after a round has."""
        kept, new = self.sizes(candidates, probes, number)
        return kept * self.carry + new

    def fewest_entries(self, entries: int, probes: int) -> int:
        """Return how many entries the smallest bank of a run has whose first bank has so many, so many of them probes.

        The bank after the last round counts too.
        """
        candidates, smallest = entries - probes, entries
        for number in range(self.rounds):
            candidates = self.size_after(candidates, probes, number)
            smallest = min(smallest, candidates + probes)
        return smallest

    def vetted(self, published: Published) -> Published:
        """Return a published bank in which nobody votes for what vetting names."""
        if self.vetting is None:
            return published
        bank = published.bank
        return replace(published, bank=bank.bar(self.vetting.barred(bank, k=self.mechanism.k)))

    def check(self, first: Published) -> None:
        """Refuse, before anything is released, a run with a bank that could not be voted on, vetted, laid out or drawn.

        The bank after the last round is among them, for it is published too. And refuse rules that cannot be used: a
        release is spent before they are.
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
            candidates = self.size_after(candidates, probes, number)
        self._rehearse(first)
        made = self.rounds if self.budget is None else affordable_rounds(self.mechanism, self.budget, self.rounds)
        if self.is_real and made:
            slack = delta_slack(epsilon(self.mechanism, made), sum(map(self.variation, entries[:made])))
            if refusal := slack_refusal(self.mechanism.delta, slack):
                raise ConfigError(f"This run cannot be drawn: {refusal}")

    def _rehearse(self, first: Published) -> None:
        """Let every rule do its part on several kinds of votes over the first bank.

        They are: no votes, votes on both sides of 0, all votes negative, and one vote far above the others.
        """
        size, noise = first.bank.size, self.mechanism.noise
        for votes in (
            np.zeros(size),
            np.sin(np.arange(size)) * noise,
            np.full(size, -noise),
            np.where(np.arange(size) == first.bank.base[-1], 1e3, 0.0),
        ):
            self._rehearse_once(first, votes)

    def _rehearse_once(self, first: Published, votes: NDArray[np.float64]) -> None:
        population = first.population
        kept = choose(0, first, votes, self.keep, self.keeper, self.mechanism.noise, self.seed)
        voted = Voted(
            0,
            population.candidates,
            votes[first.bank.base],
            tuple(int(i) for i in np.searchsorted(first.bank.base, kept.indices)),
            1,
            self.seed,
            kept.weights,
            population.vectors,
            self.mechanism.noise,
            self.carry,
        )
        rules = self.feedback.rules if isinstance(self.feedback, MixedFeedback) else (self.feedback,)
        for rule in rules:
            apply_feedback(rule, voted, 0, 0)

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
            # What stands at its default is left out, so that runs of earlier versions are resumed.
            **({} if self.keeper == KeepTop() else {"keeper": describe(self.keeper)}),
            **({} if self.carry else {"carry": False}),
            **({} if self.temperature is None else {"temperature": self.temperature}),
        }
