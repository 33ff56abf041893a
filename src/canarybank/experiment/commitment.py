"""Commit: write down everything that decides a claim, before the first evaluation trial.

The hash of a commitment is the sha256 of its file, as ``sha256sum commitment.json`` prints it. Published before the
trials, it shows afterwards that users, canaries, bank, probes, score, threshold, method, claim, number of trials, seed
and level were not chosen in their light. ``docs/commitment.md`` says what it does not show.
"""

import math
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from canarybank import __version__
from canarybank.audit import AlphaLedger, Prepared, Settings
from canarybank.audit.trials import SHARD
from canarybank.experiment.config import Config, MechanismConfig
from canarybank.experiment.designs import Case
from canarybank.experiment.origins import decisive, flatten
from canarybank.mechanism import epsilon
from canarybank.store import canonical_json, hash_array, hash_bytes, hash_json

__all__ = [
    "AttackCommitment",
    "CanaryCommitment",
    "Commitment",
    "Epsilon",
    "Figure",
    "LedgerRecord",
    "Record",
    "commit",
    "finite",
    "score_hash",
]

SCHEMA = 2
RESULTS_LAYOUT = 1
_STREAMS = ("numpy", "scipy")
"""The packages that draw and judge the trials."""


def finite(value: Any) -> Any:
    """Return a value as JSON can hold it: null stands for an infinite number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _infinite(value: Any) -> Any:
    return math.inf if value is None else value


Figure = Annotated[float | None, BeforeValidator(finite)]
"""A number, or null where it is infinite, which JSON cannot hold."""
Epsilon = Annotated[
    float, BeforeValidator(_infinite), PlainSerializer(finite, return_type=float | None, when_used="json")
]
"""An epsilon, which is infinite at delta 0: null in JSON, and a number here."""


class Record(BaseModel):
    """A part of a file that a run leaves behind."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class LedgerRecord(Record):
    """What was declared of alpha, and what each claim was given of it."""

    total: float = Field(description="The declared total.")
    entries: tuple[tuple[str, float], ...] = Field(description="Each claim with its share.")


class CanaryCommitment(Record):
    """The frozen rule of one canary."""

    canary: str = Field(description="The canary's id.")
    bank_hash: str = Field(description="The sha256 of the bank with this canary's probes in it.")
    inspected: tuple[int, ...] = Field(description="The bank positions that the score reads: the probes', if any.")
    score_hash: str = Field(description="The sha256 of the score's weights and offset.")
    threshold: float = Field(description="The rule says present when the score exceeds this.")
    canary_hash: str | None = Field(
        default=None,
        description="The sha256 of the canary's record vectors and of its contribution on the inspected positions; "
        "null in layout 1.",
    )


class AttackCommitment(Record):
    """The frozen rules of one attack, and how its alpha is split."""

    attack: str = Field(description="The attack's name.")
    canaries: tuple[CanaryCommitment, ...] = Field(description="The frozen rules, one a canary.")
    ledger: LedgerRecord = Field(description="How the alpha of this attack's headline is split over its claims.")


class Commitment(Record):
    """Everything that decides a claim, fixed before the evaluation."""

    schema_version: int = Field(default=SCHEMA, description="The version of this file's layout.")
    canarybank: str = Field(default=__version__, description="The version of canarybank.")
    settings_hash: str = Field(description="The sha256 of all settings that decide results.")
    mechanism: MechanismConfig = Field(description="The mechanism that is audited.")
    encoder: str = Field(description="The fingerprint of the encoder.")
    bank_hash: str = Field(description="The sha256 of the bank before any probe, reserved positions included.")
    reserved: tuple[int, ...] = Field(description="The positions reserved for probes, in the order they are filled.")
    cohorts: dict[str, str] = Field(description="The sha256 of each cohort's users and vectors.")
    eligible: int = Field(description="The number of eligible users other than the canary.")
    method: str = Field(description="How counts become the headline bound.")
    trials: int = Field(description="The trials of each hypothesis of each canary; no bound before all are done.")
    shard: int = Field(default=SHARD, description="The trials of one shard, whose stream is its own.")
    engine: str = Field(description="How trials are played.")
    seed: int = Field(description="The seed of the trials.")
    alpha: float = Field(description="The level of each attack's headline.")
    attacks: tuple[AttackCommitment, ...] = Field(description="The frozen rules, one entry an attack.")
    gate: LedgerRecord = Field(description="How a gate splits alpha over the attacks it reads.")
    exact: Figure = Field(
        default=None,
        description="The mechanism's exact epsilon, as the results will state it; null where it is infinite, and in "
        "layout 1.",
    )
    claimed: Figure = Field(
        default=None,
        description="The epsilon that the verdict is held against: the accountant's, or the exact one; null where it "
        "is infinite, and in layout 1.",
    )
    results_layout: int | None = Field(
        default=None, description="The version of the layout that the results will have; null in layout 1."
    )
    packages: dict[str, str] | None = Field(
        default=None, description="The versions of the packages that draw and judge the trials; null in layout 1."
    )

    def text(self) -> str:
        """Return the text of the commitment's file; what its layout does not have is left out."""
        return canonical_json(self.model_dump(mode="json", exclude_none=True), indent=2) + "\n"

    def in_layout(self, version: int) -> "Commitment":
        """Return the same commitment as an older layout has it, to compare it with one of that layout."""
        if version >= SCHEMA:
            return self
        canaries = {
            each.attack: tuple(canary.model_copy(update={"canary_hash": None}) for canary in each.canaries)
            for each in self.attacks
        }
        later = dict.fromkeys(("exact", "claimed", "results_layout", "packages"))
        attacks = tuple(each.model_copy(update={"canaries": canaries[each.attack]}) for each in self.attacks)
        return self.model_copy(update={**later, "schema_version": version, "attacks": attacks})

    @property
    def hash(self) -> str:
        """Return the sha256 of the commitment's file, to be published."""
        return hash_bytes(self.text().encode())


def commit(
    config: Config, encoder: str, prepared: Prepared, settings: Settings, cases: Mapping[str, Sequence[Case]]
) -> Commitment:
    """Return the commitment to frozen cases, given by attack."""
    bank, exact = prepared.bank, epsilon(prepared.mechanism)
    return Commitment(
        settings_hash=hash_json(decisive(flatten(config))),
        mechanism=config.mechanism,
        encoder=encoder,
        bank_hash=bank.hash,
        reserved=bank.reserved,
        cohorts={
            "auxiliary": prepared.auxiliary.cohort.users.hash,
            "calibration": prepared.calibration.cohort.users.hash,
            "evaluation": prepared.evaluation.cohort.users.hash,
        },
        eligible=prepared.eligible,
        method=config.audit.method,
        trials=settings.trials,
        engine=settings.engine,
        seed=settings.seed,
        alpha=settings.alpha,
        attacks=tuple(_attack(name, each, settings) for name, each in cases.items()),
        gate=_ledger(AlphaLedger.split(settings.alpha, cases)),
        exact=exact,
        claimed=exact if config.audit.accounted is None else config.audit.accounted,
        results_layout=RESULTS_LAYOUT,
        packages={name: metadata.version(name) for name in _STREAMS},
    )


def score_hash(case: Case) -> str:
    """Return the sha256 of a case's score: its weights and offset."""
    score = case.frozen.design.score
    return hash_json([hash_array(score.weights), float(score.offset)])


def _attack(name: str, cases: Sequence[Case], settings: Settings) -> AttackCommitment:
    ids = [case.frozen.design.canary.id for case in cases]
    claims = [f"{name}/{claim}" for claim in (["pooled"] if settings.method.pools else ids)]
    return AttackCommitment(
        attack=name,
        canaries=tuple(_canary(case) for case in cases),
        ledger=_ledger(AlphaLedger.split(settings.alpha, claims)),
    )


def _canary(case: Case) -> CanaryCommitment:
    design = case.frozen.design
    return CanaryCommitment(
        canary=design.canary.id,
        bank_hash=design.bank.hash,
        inspected=tuple(int(position) for position in design.inspected),
        score_hash=score_hash(case),
        threshold=case.frozen.threshold.value,
        canary_hash=hash_json([hash_array(design.canary.vectors), hash_array(design.contribution)]),
    )


def _ledger(ledger: AlphaLedger) -> LedgerRecord:
    return LedgerRecord(total=ledger.total, entries=ledger.entries)


def differing_keys(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the dotted keys at which two JSON values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other})
        return [
            found for key in keys for found in differing_keys(one.get(key), other.get(key), f"{path}.{key}".strip("."))
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, (a, b) in pairs for found in differing_keys(a, b, f"{path}.{i}".strip("."))]
    return [] if one == other else [path]
