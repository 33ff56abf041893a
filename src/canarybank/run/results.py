"""Hold what a run found, as a typed file: the log is the contract.

The file is readable without the program, holds no time, duration or host, and is the same to the byte however often the
run was interrupted. ``schema_version`` rises when a reader of the old layout could misread the new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from canarybank import __version__
from canarybank.attack import ATTACKS, CanaryKind, CanaryStyle
from canarybank.auditing import AttackResult
from canarybank.auditing.one_run import Certificate
from canarybank.config.model import AuditConfig, EvolveConfig
from canarybank.errors import StoreError
from canarybank.evolution import AuditCost, Evolution, Utility
from canarybank.mechanism import Account, Mechanism, bank_root
from canarybank.run.clouds import Clouds
from canarybank.run.commitment import RESULTS_LAYOUT, Commitment, Epsilon, Record, finite

__all__ = [
    "NOT_PRIVATE",
    "AccountState",
    "CarriedCanaries",
    "EvolutionFacts",
    "Results",
    "RoundFacts",
    "Setup",
    "account_state",
    "round_facts",
    "schema",
    "statement_of",
]

NOT_PRIVATE = (
    "This holds statistics of the evaluation users and is not itself differentially private; "
    "keep it as you keep their data."
)
PRIVATE = (
    "Releases and populations here are made of noisy histograms and public text. The ledger states the epsilon of all "
    "releases together, for adding or removing one user, by its accountant and on its assumptions."
)
ALONE = "The epsilon covers this run alone: it names no budget account, and other runs over the same people add to it."
ACCOUNTED = (
    "A budget account paid for the releases; its epsilon covers all runs that name it, and no others over the same "
    "people."
)
CANARIES = (
    "Canaries of the auditor voted beside the users. They are synthetic, and their records and coins are public: they "
    "cost no user any privacy, and the epsilon is what it is without them. Their probes stand in the banks in place of "
    "candidates, which costs quality."
)
UNPAID = "A simulation debits no budget account."
SIMULATION = (
    "This run is a simulation: its participation and noise follow from a seed, so nothing of it is differentially "
    "private."
)


class Setup(Record):
    """What was audited with."""

    users: dict[str, Any]
    """The count of all that was read and admitted."""
    auxiliary: int
    """Users who designed."""
    calibration: int
    """Users who calibrated."""
    evaluation: int
    """Eligible users, canary apart."""
    canaries: int
    """The canaries of each attack."""
    records: int
    """The most records of a user."""
    encoder: str
    """The encoder's name."""
    encoder_fingerprint: str
    """The sha256 of all that decides its vectors."""
    dimension: int
    """The dimension of its vectors."""
    bank: int
    """The entries of the bank."""
    bank_hash: str
    """The sha256 of the bank before any probe."""
    bank_counters: dict[str, int] = Field(default_factory=dict)
    """What became of the answers that a generated bank was chosen from: asked for, kept, left over as surplus, rejected
    by which rule; and what was stripped off how many of those kept. Empty where it is unknown."""
    probes: int
    """The positions reserved for probes."""


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """One round of an evolution: its bank, its release, and what all releases so far spend."""

    round: int
    """The round's number, from 1."""
    bank: str
    """The sha256 of the bank that users voted on."""
    entries: int
    """The entries of that bank."""
    probes: int
    """The entries among them that the auditor planted."""
    kept: int
    """The candidates that stayed."""
    born: int
    """The candidates that joined them for the next round."""
    epsilon: float
    """The epsilon of all releases so far, from the privacy loss distribution."""
    added_up: float
    """The epsilon that adding up the rounds one by one proves."""
    delta: float
    """The delta at which both are stated, for ideal noise."""
    slack: float = 0.0
    """What the noise's arithmetic adds to delta; 0 for a simulation."""
    root: str | None = None
    """The root of the bank's texts, as `canarybank prove` states it; null in runs of older versions."""
    barred: int = 0
    """The entries that vetting barred before the vote."""


@dataclass(frozen=True, slots=True)
class AccountState:
    """The budget account that paid for a run, as it stood when the run ended."""

    population: str
    """The people whose budget it is, as the operator named them."""
    opening: str
    """The sha256 of the account's opening."""
    run: str
    """The id by which the account knows this run."""
    budget: float
    """The epsilon that the account was opened with."""
    releases: int
    """The releases paid by all runs."""
    epsilon: float
    """The epsilon of all of them, from the privacy loss distribution."""
    delta: float
    """The delta at which it is stated, for ideal noise."""
    slack: float
    """What the noise's arithmetic adds to delta."""
    left: int
    """The releases that the account can still pay; 1,000 for 1,000 or more."""


class CarriedCanaries(Record):
    """The canaries that an evolution carried, what they cost in quality, and what they could have shown.

    Canary i owns the probes at the i-th positions of the commitment, and its records are these probes' texts.
    """

    canaries: int
    """The canaries: synthetic users, who stand for nobody."""
    eligible: int
    """Those that were in."""
    style: CanaryStyle
    """What their texts look like."""
    probes: int
    """The entries of every bank that hold their probes, and no candidate."""
    entries: int
    """The entries of the first bank."""
    shift: float
    """What taking part adds to a canary's score on average, by design, in deviations of the noise."""
    votes_taken: float | None
    """The share of the users' votes that the probes took, estimated from the noisy releases; null where noise hides
    it."""
    votes_error: float | None
    """Two standard deviations of that estimate."""
    background: str | None = None
    """The sha256 of what everybody would contribute to the probes of each round; null in a real run, which keeps
    nothing of it."""
    power: tuple[str, ...]
    """What so many releases would typically show, by each kind of evidence."""

    @property
    def cost(self) -> str:
        """Say what the canaries cost: in privacy, in slots, and in votes."""
        slots = f"{self.probes:,} of {self.entries:,} entries ({100 * self.probes / self.entries:.1f}%)"
        votes = "noise hides how many of the users' votes"
        if self.votes_taken is not None and self.votes_error is not None:
            most = max(0.0, self.votes_taken + self.votes_error)
            votes = f"at most about {100 * most:.1f}% of the users' votes"
        return f"privacy of users: nothing; quality: probes hold {slots} of every bank, and {votes} went to them"


class EvolutionFacts(Record):
    """What an evolution did, spent and made."""

    insecure_seed: int | None
    """The seed of a simulation; null for a real run."""
    complete: bool
    """Whether all rounds were made."""
    stopped: str | None = None
    """Why the run ended early."""
    account: AccountState | None = None
    """The budget account that paid for the run."""
    voters: int | None = None
    """The users who could take part in a round; null for a real run, which tells no count."""
    evolve: EvolveConfig
    """What the rounds were told."""
    encoder: str
    """The encoder's name."""
    generator: str
    """The generator's name."""
    rounds: tuple[RoundFacts, ...]
    """Every round that was made."""
    candidates: int
    """The candidates of the final population."""
    examples: tuple[str, ...]
    """The first of them that the last round generated."""
    utility: Utility | None = None
    """What the populations are worth."""
    plain: Utility | None = None
    """The same of the run without probes."""
    cost: tuple[AuditCost, ...] = ()
    """What the probes cost, population by population."""
    clouds: Clouds | None = None
    """The populations on a map with held-out records; null in a real run, which has no such records."""
    certificate: Certificate | None = None
    """What the run's own canaries showed of its claim; null where it carried none, or made no release."""
    carried: CarriedCanaries | None = None
    """The canaries that it carried."""

    @property
    def spent(self) -> float:
        """Return the epsilon of all releases, by the ledger."""
        return self.rounds[-1].epsilon if self.rounds else 0.0

    @property
    def slack(self) -> float:
        """Return what the noise's arithmetic adds to delta over all releases."""
        return self.rounds[-1].slack if self.rounds else 0.0


class Results(Record):
    """What a run found: an audit's attacks, an evolution's rounds and text, or both."""

    schema_version: int = RESULTS_LAYOUT
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    commitment: str | None = None
    """The sha256 of the commitment under which the trials were played; null where nothing was audited."""
    statement: str = NOT_PRIVATE
    """What this file may not be taken for."""
    setup: Setup | None = None
    """What was audited with; null where nothing was audited."""
    mechanism: Mechanism
    """The mechanism of every release, as it was used."""
    audit: AuditConfig
    """What was declared before the evaluation."""
    seed: int
    """The seed of the trials."""
    rounds: int = 1
    """The releases."""
    epsilon: Epsilon
    """The exact epsilon of all releases, for adding or removing one user; null where it is infinite."""
    attacks: tuple[AttackResult, ...]
    """What each attack showed, in the first release, and where there are more in the first two, three and so on."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the whole run."""
    evolution: EvolutionFacts | None = None
    """What an evolution did, spent and made; null for an audit of one release."""

    @property
    def final(self) -> tuple[AttackResult, ...]:
        """Return what each attack showed over all releases."""
        return tuple({each.attack: each for each in self.attacks}.values())

    @property
    def claim(self) -> float:
        """Return the claim that results are held against: the accountant's, or the exact one."""
        return self.epsilon if self.audit.accounted is None else self.audit.accounted

    def require_setup(self) -> Setup:
        """Return what was audited with, which every audit states."""
        if self.setup is None:
            raise StoreError("These results are of a run that was not audited, so they state no setup.")
        return self.setup

    def attack(self, name: str) -> AttackResult:
        """Return what the attack of that name showed over all releases."""
        return next(each for each in self.final if each.attack == name)

    def plain(self) -> dict[str, Any]:
        """Return all but the versions as plain values for JSON."""
        found: dict[str, Any] = finite(self.model_dump(mode="json", exclude={"schema_version", "canarybank"}))
        return found

    @classmethod
    def migrated(cls, value: Any) -> Any:
        """Return results of layout 1 in this one: an attack's canaries and probes are those of the eight it had."""
        if not isinstance(value, Mapping) or value.get("schema_version") != 1:
            return value
        if "evolve" in value:
            raise StoreError(
                "This evolution's results.json has layout 1, and this version of canarybank reads layout 2, in which "
                "an audited evolution has a commitment. Show it with canarybank 0.1; its population, banks and "
                "releases are files of their own, and stay as they are."
            )
        attacks = [
            {
                **each,
                "plants": ATTACKS[each["attack"]].active,
                "on_people": ATTACKS[each["attack"]].canary is CanaryKind.REAL,
            }
            if isinstance(each, Mapping) and each.get("attack") in ATTACKS
            else each
            for each in value.get("attacks", ())
        ]
        return {**value, "attacks": attacks}


def statement_of(config: EvolveConfig) -> str:
    """Say what of an evolution carries noise, what does not, and which runs its epsilon covers."""
    canaries = [CANARIES] if config.audit_one_run else []
    if config.insecure_seed is not None:
        return " ".join([SIMULATION, *([] if config.account is None else [UNPAID]), *canaries])
    covers = ALONE if config.account is None else ACCOUNTED
    return " ".join([PRIVATE, covers, *canaries])


def account_state(account: Account, run: str) -> AccountState:
    """Return the state of a budget account, beside the run's id in it."""
    opening = account.opening
    return AccountState(
        population=opening.population,
        opening=opening.hash,
        run=run,
        budget=opening.epsilon,
        releases=len(account.debits),
        epsilon=account.spent,
        delta=opening.delta,
        slack=account.slack,
        left=account.releases_left,
    )


def round_facts(evolution: Evolution) -> tuple[RoundFacts, ...]:
    """Return what each round of an evolution did and spent."""
    populations = [*(each.population for each in evolution.rounds), evolution.population]
    return tuple(
        RoundFacts(
            round=each.number + 1,
            bank=each.bank.hash,
            entries=each.bank.size,
            probes=len(each.bank.reserved),
            kept=len(each.kept),
            born=sum(candidate.born == each.number + 1 for candidate in after.candidates),
            epsilon=each.spent.epsilon,
            added_up=each.spent.bound,
            delta=each.spent.delta,
            slack=each.spent.slack,
            root=None if each.bank.texts is None else bank_root(each.bank.texts),
            barred=len(each.bank.barred),
        )
        for each, after in zip(evolution.rounds, populations[1:], strict=True)
    )


def schema() -> dict[str, Any]:
    """Return the JSON schema of results, commitment and their parts."""
    from canarybank.run.schema import described_schema

    return {"results": described_schema(Results), "commitment": described_schema(Commitment)}
