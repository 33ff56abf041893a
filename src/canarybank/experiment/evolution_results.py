"""Hold what an evolution found, as a typed file: what was spent, what the text is worth, what an audit showed.

The file holds no time, duration or host. ``schema_version`` rises when a reader of the old layout could misread the new
one.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from canarybank import __version__
from canarybank.attack import ATTACKS
from canarybank.evolve import Evolution
from canarybank.evolve.multiround import MultiRound
from canarybank.evolve.prefixes import Prefix
from canarybank.evolve.utility import AuditCost, Figures, Utility
from canarybank.experiment.commitment import Figure, Record
from canarybank.experiment.config import EvolveConfig, MechanismConfig
from canarybank.experiment.results import BoundRecord, CountsRecord, IntervalRecord, ThresholdRecord
from canarybank.mechanism import Account
from canarybank.store import canonical_json

__all__ = [
    "AccountRecord",
    "CostRecord",
    "EvolutionResults",
    "FiguresRecord",
    "MultiRoundRecord",
    "PrefixRecord",
    "RoundRecord",
    "UtilityRecord",
    "account_record",
    "cost_records",
    "evolution_schema",
    "multiround_record",
    "round_records",
    "statement_of",
    "utility_record",
]

SCHEMA = 1
PRIVATE = (
    "Releases and populations here are made of noisy histograms and public text. The ledger states the epsilon of all "
    "releases together, for adding or removing one user, by its accountant and on its assumptions."
)
ALONE = "The epsilon covers this run alone: it names no budget account, and other runs over the same people add to it."
ACCOUNTED = (
    "A budget account paid for the releases; its epsilon covers all runs that name it, and no others over the same "
    "people."
)
UNPAID = "A simulation debits no budget account."
REFERENCE = (
    "The figures of utility are computed from held-out users' records without noise: they are not differentially "
    "private."
)
SIMULATION = (
    "This run is a simulation: its participation and noise follow from a seed, so nothing of it is differentially "
    "private."
)


class RoundRecord(Record):
    """One round: its bank, its release, and what all releases so far spend."""

    round: int = Field(description="The round's number, from 1.")
    bank: str = Field(description="The sha256 of the bank that users voted on.")
    entries: int = Field(description="The entries of that bank.")
    probes: int = Field(description="The entries among them that the auditor planted.")
    kept: int = Field(description="The candidates that stayed.")
    born: int = Field(description="The candidates that joined them for the next round.")
    epsilon: Figure = Field(description="The epsilon of all releases so far, from the privacy loss distribution.")
    added_up: Figure = Field(description="The epsilon that adding up the rounds one by one proves.")
    delta: float = Field(description="The delta at which both are stated, for ideal noise.")
    slack: float = Field(default=0.0, description="What the noise's arithmetic adds to delta; 0 for a simulation.")


class AccountRecord(Record):
    """The budget account that paid for a run, as it stood when the run ended."""

    population: str = Field(description="The people whose budget it is, as the operator named them.")
    opening: str = Field(description="The sha256 of the account's opening.")
    run: str = Field(description="The id by which the account knows this run.")
    budget: float = Field(description="The epsilon that the account was opened with.")
    releases: int = Field(description="The releases paid by all runs.")
    epsilon: float = Field(description="The epsilon of all of them, from the privacy loss distribution.")
    delta: float = Field(description="The delta at which it is stated, for ideal noise.")
    slack: float = Field(description="What the noise's arithmetic adds to delta.")
    left: int = Field(description="The releases that the account can still pay; 1,000 for 1,000 or more.")


class FiguresRecord(Record):
    """What one population is worth, computed without noise."""

    after: int = Field(description="The rounds behind it: 0 for the first population.")
    candidates: int = Field(description="Its candidates; probes are never among them.")
    mauve: float | None = Field(description="MAUVE against the reference's records, or null where it was left out.")
    precision: float = Field(description="The share of candidates that lie where real text lies.")
    recall: float = Field(description="The share of real text that lies where candidates lie.")
    distinct_1: float = Field(description="Different words as a share of all words.")
    distinct_2: float = Field(description="Different pairs of words as a share of all pairs.")
    distinct_3: float = Field(description="Different triples of words as a share of all triples.")
    duplicates: float = Field(description="The share of candidates that repeat an earlier one.")
    near_duplicates: float = Field(description="The share of candidates that resemble an earlier one.")
    kept_share: float | None = Field(default=None, description="The share of the noisy votes that the kept ones took.")
    effective: float | None = Field(default=None, description="How many candidates with equal votes would be as even.")
    probe_share: float | None = Field(default=None, description="The share of the noisy votes that the probes took.")


class UtilityRecord(Record):
    """What a run's populations are worth, against held-out users."""

    statement: str = Field(description="What these figures may not be taken for.")
    reference_users: int = Field(description="The held-out users.")
    reference_records: int = Field(description="Their records.")
    neighbours: int = Field(description="The neighbours of precision and recall.")
    probes: int = Field(description="The probes in every bank of that run.")
    figures: tuple[FiguresRecord, ...] = Field(description="The figures of every population, the first one first.")


class CostRecord(Record):
    """What auditing cost in quality: each figure without probes less the one with them."""

    after: int = Field(description="The rounds behind the populations that are compared.")
    mauve: float | None = Field(description="The difference of MAUVE.")
    precision: float = Field(description="The difference of precision.")
    recall: float = Field(description="The difference of recall.")
    distinct_2: float = Field(description="The difference of distinct pairs of words.")


class PrefixRecord(Record):
    """What the first rounds allow, could show and did show."""

    rounds: int = Field(description="The rounds of this prefix.")
    theory: float = Field(description="The exact epsilon of so many releases of the mechanism.")
    accounted: float | None = Field(description="What Opacus's PRV accountant states, or null where it is not here.")
    exact: Figure = Field(description="The exact epsilon of this attack, over all thresholds: its point value.")
    exact_interval: IntervalRecord = Field(description="The certified ends of it.")
    threshold: ThresholdRecord = Field(description="The frozen threshold on the summed score.")
    rule: IntervalRecord = Field(description="The exact epsilon at the frozen threshold.")
    absent_rate: IntervalRecord = Field(description="The exact false positive rate of the frozen rule.")
    eligible_rate: IntervalRecord = Field(description="The exact true positive rate of the frozen rule.")
    expected: Figure = Field(description="The median of the bound that these rates give with so many trials.")
    expected_low: Figure = Field(description="The 5% quantile of that bound.")
    expected_high: Figure = Field(description="The 95% quantile of that bound.")
    counts: CountsRecord = Field(description="What the trials counted.")
    bound: BoundRecord = Field(description="The bound that the trials gave.")


class MultiRoundRecord(Record):
    """What one canary's attack showed over the rounds, for every prefix of them."""

    attack: str = Field(description="The attack's name.")
    description: str = Field(description="What the attacker does.")
    canary: str = Field(description="The canary's id.")
    eligible: int = Field(description="The eligible users, canary apart: the voters of the run.")
    trials: int = Field(description="The trials of each hypothesis.")
    alpha: float = Field(description="The level of each prefix's claim.")
    method: str = Field(description="How counts became bounds.")
    seed: int = Field(description="The seed of the trials.")
    mu_eff: tuple[float, ...] = Field(description="The canary's separation in each round, in deviations of the score.")
    run_scores: tuple[float, ...] = Field(description="The summed score of the run's own releases after each round.")
    prefixes: tuple[PrefixRecord, ...] = Field(description="Every prefix of the rounds.")
    notes: tuple[str, ...] = Field(description="What the claims are conditional on, and what they cover.")


class EvolutionResults(Record):
    """What an evolution found."""

    schema_version: int = Field(default=SCHEMA, description="The version of this file's layout.")
    canarybank: str = Field(default=__version__, description="The version of canarybank.")
    statement: str = Field(description="What of this carries noise, and what does not.")
    insecure_seed: int | None = Field(description="The seed of a simulation; null for a real run.")
    complete: bool = Field(description="Whether all rounds were made.")
    stopped: str | None = Field(default=None, description="Why the run ended early.")
    account: AccountRecord | None = Field(default=None, description="The budget account that paid for the run.")
    voters: int | None = Field(
        default=None, description="The users who could take part in a round; null for a real run, which tells no count."
    )
    mechanism: MechanismConfig = Field(description="The mechanism of every round, as it was used.")
    evolve: EvolveConfig = Field(description="What the rounds were told.")
    encoder: str = Field(description="The encoder's name.")
    generator: str = Field(description="The generator's name.")
    rounds: tuple[RoundRecord, ...] = Field(description="Every round that was made.")
    candidates: int = Field(description="The candidates of the final population.")
    examples: tuple[str, ...] = Field(description="The first of them that the last round generated.")
    utility: UtilityRecord | None = Field(default=None, description="What the populations are worth.")
    plain: UtilityRecord | None = Field(default=None, description="The same of the run without probes.")
    cost: tuple[CostRecord, ...] = Field(default=(), description="What the probes cost, population by population.")
    audit: MultiRoundRecord | None = Field(default=None, description="What the audit showed.")
    notes: tuple[str, ...] = Field(default=(), description="What a reader should know of the run.")

    def text(self) -> str:
        """Return the text of the file."""
        return canonical_json(self.model_dump(mode="json"), indent=2) + "\n"


def statement_of(config: EvolveConfig) -> str:
    """Say what of a run carries noise, what does not, and which runs its epsilon covers."""
    if config.insecure_seed is not None:
        return SIMULATION if config.account is None else f"{SIMULATION} {UNPAID}"
    covers = ALONE if config.account is None else ACCOUNTED
    return " ".join([PRIVATE, covers, *([REFERENCE] if config.reference else [])])


def account_record(account: Account, run: str) -> AccountRecord:
    """Return the state of a budget account as a record, beside the run's id in it."""
    opening = account.opening
    return AccountRecord(
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


def round_records(evolution: Evolution) -> tuple[RoundRecord, ...]:
    """Return the records of a run's rounds."""
    populations = [*(each.population for each in evolution.rounds), evolution.population]
    return tuple(
        RoundRecord(
            round=each.number + 1,
            bank=each.bank.hash,
            entries=each.bank.size,
            probes=len(each.bank.reserved),
            kept=len(each.kept),
            born=max(0, len(after) - len(each.kept)),
            epsilon=each.spent.epsilon,
            added_up=each.spent.bound,
            delta=each.spent.delta,
            slack=each.spent.slack,
        )
        for each, after in zip(evolution.rounds, populations[1:], strict=True)
    )


def utility_record(measured: Utility) -> UtilityRecord:
    """Return what a run's populations are worth as a record."""
    names = ("statement", "reference_users", "reference_records", "neighbours", "probes")
    plain: dict[str, Any] = {name: getattr(measured, name) for name in names}
    return UtilityRecord(**plain, figures=tuple(map(_figures, measured.figures)))


def cost_records(cost: Sequence[AuditCost]) -> tuple[CostRecord, ...]:
    """Return what auditing cost as records."""
    names = ("mauve", "precision", "recall", "distinct_2")
    return tuple(CostRecord(after=each.round, **{name: getattr(each, name) for name in names}) for each in cost)


def multiround_record(found: MultiRound) -> MultiRoundRecord:
    """Return what an audit showed as a record."""
    first = found.prefixes[0].bound
    return MultiRoundRecord(
        attack=found.attack,
        description=ATTACKS[found.attack].description if found.attack in ATTACKS else "",
        canary=found.canary,
        eligible=found.eligible,
        trials=found.trials,
        alpha=round(1 - first.confidence, 12),
        method=first.method,
        seed=found.seed,
        mu_eff=found.mu_eff,
        run_scores=found.run_scores,
        prefixes=tuple(map(_prefix, found.prefixes)),
        notes=found.notes,
    )


def evolution_schema() -> dict[str, Any]:
    """Return the JSON schema of the file."""
    return EvolutionResults.model_json_schema()


def _figures(of: Figures) -> FiguresRecord:
    variety = {name: getattr(of.variety, name) for name in ("distinct_1", "distinct_2", "distinct_3")}
    repeats = {name: getattr(of.variety, name) for name in ("duplicates", "near_duplicates")}
    spread = of.concentration
    names = ("kept_share", "effective", "probe_share")
    votes = {} if spread is None else {name: getattr(spread, name) for name in names}
    covered = {name: getattr(of, name) for name in ("candidates", "mauve", "precision", "recall")}
    return FiguresRecord(after=of.round, **covered, **variety, **repeats, **votes)


def _prefix(of: Prefix) -> PrefixRecord:
    return PrefixRecord(
        rounds=of.rounds,
        theory=of.theory,
        accounted=of.accounted,
        exact=of.exact.point,
        exact_interval=IntervalRecord.model_validate(of.exact.interval),
        threshold=ThresholdRecord.model_validate(of.threshold),
        rule=IntervalRecord.model_validate(of.rule),
        absent_rate=IntervalRecord.model_validate(of.fpr),
        eligible_rate=IntervalRecord.model_validate(of.tpr),
        expected=of.expected.median,
        expected_low=of.expected.q05,
        expected_high=of.expected.q95,
        counts=CountsRecord.model_validate(of.counts),
        bound=BoundRecord.model_validate(of.bound),
    )
