"""Hold what a run found, as a typed file: the log is the contract.

The file is readable without the program, holds no time, duration or host, and is the same to the byte however often the
run was interrupted. ``schema_version`` rises when a reader of the old layout could misread the new one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from canarybank import __version__
from canarybank.attack import ATTACKS, Attack, CanaryKind
from canarybank.audit import AuditResult
from canarybank.experiment.commitment import RESULTS_LAYOUT, Commitment, Epsilon, Figure, LedgerRecord, Record
from canarybank.experiment.config import AuditConfig, MechanismConfig
from canarybank.experiment.written import PoolRecord, SimilarityRecord
from canarybank.store import canonical_json

__all__ = [
    "NOT_PRIVATE",
    "AttackRecord",
    "BoundRecord",
    "CanaryRecord",
    "CountsRecord",
    "IntervalRecord",
    "LadderRecord",
    "PoolRecord",
    "Results",
    "RungRecord",
    "SetupRecord",
    "SimilarityRecord",
    "ThresholdRecord",
    "attack_record",
    "headline_canary",
    "schema",
]

NOT_PRIVATE = (
    "This holds statistics of the evaluation users and is not itself differentially private; "
    "keep it as you keep their data."
)
WIDE: Final = 1e-3
"""The width of a certified interval, relative to its lower end or 1, from which on its middle would say too much."""


class IntervalRecord(Record):
    """A number that is known up to certified ends."""

    lower: Figure = Field(description="The truth is at least this.")
    upper: Figure = Field(description="The truth is at most this.")


class CountsRecord(Record):
    """How often the frozen rule said present."""

    tp: int = Field(description="Of the trials with the canary eligible.")
    fp: int = Field(description="Of the trials with the canary absent.")
    n1: int = Field(description="The trials with the canary eligible; surely taking part, for stratified.")
    n0: int = Field(description="The trials with the canary absent.")


class ThresholdRecord(Record):
    """A frozen threshold."""

    value: float = Field(description="The rule says present when the score exceeds this.")
    mode: str = Field(description="How it was frozen.")
    expected: float = Field(
        description="The bound that the calibration cohort's rates would give: a forecast, no claim."
    )


class BoundRecord(Record):
    """A lower bound on epsilon with what it stands on."""

    epsilon: float = Field(description="The bound.")
    method: str = Field(description="How counts became it.")
    assumption: str = Field(description="What it stands on.")
    confidence: float = Field(
        description="Where the assumption holds, it exceeds the truth at most one minus this often."
    )
    delta: float = Field(description="The delta at which epsilon is stated.")
    trials: tuple[int, int] = Field(description="The trials with the canary eligible, and with it absent.")
    counts: tuple[int, int] = Field(description="The true and the false positives.")
    branch: str = Field(description="The direction of the definition that gave it: forward, reverse or none.")
    warning: str | None = Field(default=None, description="What makes it say less than it seems to.")
    canaries: int = Field(default=1, description="The canaries whose counts were summed.")


class RungRecord(Record):
    """One step of the ladder."""

    name: str = Field(description="Which step.")
    epsilon: Figure = Field(description="Its epsilon.")
    low: Figure = Field(description="The lower end of the range it is known to, or falls into.")
    high: Figure = Field(description="The upper end.")
    source: str = Field(description="Where it comes from.")


class LadderRecord(Record):
    """The gap between what was claimed and what was measured, one rung a cause."""

    accounted: RungRecord = Field(description="What the operator's accountant claims.")
    mechanism: RungRecord = Field(description="The exact epsilon of the mechanism.")
    attack: RungRecord = Field(description="The exact epsilon of this attack, over all thresholds.")
    rule: RungRecord = Field(description="The exact epsilon at the frozen threshold.")
    expected: RungRecord = Field(description="The median and 5% to 95% range of the bound at so many trials.")
    observed: RungRecord = Field(description="The bound that the trials gave.")

    def reached(self, name: Literal["attack", "rule"]) -> tuple[float, bool]:
        """Return the exact epsilon of a rung, and whether it is its certified lower end alone.

        No attack exceeds its mechanism. Where a rate underflows, the certified interval has no upper end of its own,
        and what is known is the lower one.
        """
        rung: RungRecord = getattr(self, name)
        most, low, high, point = (
            math.inf if each is None else each for each in (self.mechanism.epsilon, rung.low, rung.high, rung.epsilon)
        )
        if most < math.inf and min(high, most) - low > WIDE * max(1.0, low):
            return low, True
        return min(point, most), False


class CanaryRecord(Record):
    """What one canary's frozen rule showed."""

    canary: str = Field(description="The canary's id.")
    bank_hash: str = Field(description="The sha256 of the bank with this canary's probes in it.")
    inspected: tuple[int, ...] = Field(description="The bank positions that the score reads.")
    selected: tuple[int, ...] = Field(description="The pool indices of the probes, in the order of their positions.")
    mu_eff: float = Field(description="The separation of a participating canary, in deviations of the score.")
    probe_norm: float = Field(description="The L2 norm of the canary's contribution on the inspected positions.")
    threshold: ThresholdRecord = Field(description="The frozen threshold.")
    counts: CountsRecord = Field(description="What the trials counted.")
    bound: BoundRecord = Field(description="The bound from these counts at this canary's share of alpha.")
    supremum: IntervalRecord = Field(description="The exact epsilon of this attack, over all thresholds.")
    rule: IntervalRecord = Field(description="The exact epsilon at the frozen threshold.")
    absent_rate: IntervalRecord = Field(description="The exact false positive rate of the frozen rule.")
    eligible_rate: IntervalRecord = Field(description="The exact true positive rate of the frozen rule.")
    pool: PoolRecord | None = Field(
        default=None, description="The paraphrases that its probes were selected from; null where there were none."
    )


class AttackRecord(Record):
    """What one attack showed over its canaries."""

    attack: str = Field(description="The attack's name.")
    description: str = Field(description="What the attacker does.")
    canary_kind: Literal["real", "nonce"] | None = Field(
        default=None, description="What its canaries are: users, or made of nonces; null in older results."
    )
    plants: bool | None = Field(default=None, description="Whether it plants probes; null in older results.")
    headline: BoundRecord = Field(description="The one claim declared beforehand, at level alpha.")
    pooled: BoundRecord | None = Field(description="The pooled bound: a claim of its own, not to be combined.")
    headline_canary: int = Field(description="The index of the canary with the largest bound, which figures show.")
    canaries: tuple[CanaryRecord, ...] = Field(description="Each canary's own results.")
    ladder: LadderRecord = Field(description="Where the gap to the claim comes from.")
    ledger: LedgerRecord = Field(description="How alpha was split.")
    notes: tuple[str, ...] = Field(default=(), description="What a reader should know of this attack.")
    evidence: dict[str, Any] = Field(default_factory=dict, description="The data behind the figures of the page.")

    @property
    def is_on_nonces(self) -> bool:
        """Return whether its canaries are made of nonces; older results have only the eight attacks, known by name."""
        known = ATTACKS.get(self.attack)
        return (self.canary_kind or (known.canary if known else None)) == CanaryKind.NONCE

    @property
    def is_active(self) -> bool:
        """Return whether it plants probes; older results have only the eight attacks, known by name."""
        known = ATTACKS.get(self.attack)
        return (known is None or known.active) if self.plants is None else self.plants


class SetupRecord(Record):
    """What was audited with."""

    users: dict[str, Any] = Field(description="The count of all that was read and admitted.")
    auxiliary: int = Field(description="Users who designed.")
    calibration: int = Field(description="Users who calibrated.")
    evaluation: int = Field(description="Eligible users, canary apart.")
    canaries: int = Field(description="The canaries of each attack.")
    records: int = Field(description="The most records of a user.")
    encoder: str = Field(description="The encoder's name.")
    encoder_fingerprint: str = Field(description="The sha256 of all that decides its vectors.")
    dimension: int = Field(description="The dimension of its vectors.")
    bank: int = Field(description="The entries of the bank.")
    bank_hash: str = Field(description="The sha256 of the bank before any probe.")
    bank_counters: dict[str, int] = Field(
        default_factory=dict,
        description="What became of the answers that a generated bank was chosen from: asked for, kept, left over as "
        "surplus, rejected by which rule; and what was stripped off how many of those kept. Empty where it is unknown.",
    )
    probes: int = Field(description="The positions reserved for probes.")


class Results(Record):
    """What a run found."""

    schema_version: int = Field(default=RESULTS_LAYOUT, description="The version of this file's layout.")
    canarybank: str = Field(default=__version__, description="The version of canarybank.")
    commitment: str = Field(description="The sha256 of the commitment under which the trials were played.")
    statement: str = Field(default=NOT_PRIVATE, description="What this file may not be taken for.")
    setup: SetupRecord = Field(description="What was audited with.")
    mechanism: MechanismConfig = Field(description="The mechanism that was audited.")
    audit: AuditConfig = Field(description="What was declared before the evaluation.")
    seed: int = Field(description="The seed of the trials.")
    epsilon: Epsilon = Field(
        description="The exact epsilon of one release, for adding or removing one user; null where it is infinite."
    )
    attacks: tuple[AttackRecord, ...] = Field(description="What each attack showed.")
    notes: tuple[str, ...] = Field(default=(), description="What a reader should know of the whole run.")

    def attack(self, name: str) -> AttackRecord:
        """Return what the attack of that name showed."""
        return next(record for record in self.attacks if record.attack == name)

    def text(self) -> str:
        """Return the text of the results' file."""
        return canonical_json(self.model_dump(mode="json"), indent=2) + "\n"


def attack_record(
    attack: Attack, result: AuditResult, evidence: Mapping[str, Any], pools: Sequence[PoolRecord | None]
) -> AttackRecord:
    """Return an attack's result as a record, with the data behind its figures and the pool of each canary."""
    canaries = [CanaryRecord.model_validate(canary) for canary in result.canaries]
    return AttackRecord(
        attack=result.attack,
        description=attack.description,
        canary_kind=attack.canary.value,
        plants=attack.active,
        headline=BoundRecord.model_validate(result.headline),
        pooled=None if result.pooled is None else BoundRecord.model_validate(result.pooled),
        headline_canary=headline_canary(result),
        canaries=tuple(c.model_copy(update={"pool": pool}) for c, pool in zip(canaries, pools, strict=True)),
        ladder=LadderRecord.model_validate(result.ladder),
        ledger=LedgerRecord.model_validate(result.ledger),
        notes=result.notes,
        evidence=dict(evidence),
    )


def headline_canary(result: AuditResult) -> int:
    """Return the index of the canary with the largest bound, or among equals with the largest exact epsilon."""
    ranks: Sequence[tuple[float, float]] = [(c.bound.epsilon, c.supremum.lower) for c in result.canaries]
    return max(range(len(ranks)), key=lambda index: ranks[index])


def schema() -> dict[str, Any]:
    """Return the JSON schema of results, commitment and their parts."""
    return {"results": Results.model_json_schema(), "commitment": Commitment.model_json_schema()}
