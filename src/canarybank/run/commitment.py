"""Commit: write down everything that decides a claim, before the first evaluation trial.

The hash of a commitment is the sha256 of its file, as ``sha256sum commitment.json`` prints it. Published before the
trials, it shows afterwards that users, canaries, banks, probes, scores, thresholds, method, claim, number of trials,
seed and level were not chosen in their light. ``docs/commitment.md`` says what it does not show.
"""

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib import metadata
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, model_validator

from canarybank import __version__
from canarybank.auditing import AlphaLedger, Auditor, Case, claim_names
from canarybank.auditing.pipeline import cases_by_attack
from canarybank.auditing.trials import SHARD
from canarybank.mechanism import Mechanism
from canarybank.store import canonical_json, hash_array, hash_bytes, hash_json

__all__ = [
    "RESULTS_LAYOUT",
    "AttackCommitment",
    "CanaryCommitment",
    "Commitment",
    "Epsilon",
    "Figure",
    "Record",
    "commit",
    "finite",
]

SCHEMA = 3
RESULTS_LAYOUT = 2
_STREAMS = ("numpy", "scipy")
"""The packages that draw and judge the trials."""


def finite(value: Any) -> Any:
    """Return a value, and all within it, as JSON can hold it: null stands for an infinite number."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(finite)]
"""A number, or null where it is infinite, which JSON cannot hold."""
Epsilon = Annotated[
    float,
    BeforeValidator(lambda value: math.inf if value is None else value),
    PlainSerializer(finite, return_type=float | None, when_used="json"),
]
"""An epsilon, which is infinite at delta 0: null in JSON, and a number here."""


class Record(BaseModel):
    """A file that a run leaves behind, or a part of one.

    Dataclasses of the rooms above are parts as they are: what was computed is what is stored. A float of theirs that is
    null in the file is infinite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _with_infinities(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        known = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: restored(known.get(name), each) for name, each in value.items()}

    @classmethod
    def migrated(cls, value: Any) -> Any:
        """Return a document of an earlier layout in this one; a layout that only lacks fields needs no change."""
        return value

    def text(self) -> str:
        """Return the text of the file."""
        return canonical_json(finite(self.model_dump(mode="json")), indent=2) + "\n"

    @property
    def hash(self) -> str:
        """Return the sha256 of the file."""
        return hash_bytes(self.text().encode())


_hints = cache(get_type_hints)


def restored(hint: Any, value: Any) -> Any:
    """Return plain JSON with infinity for each null that stands where a dataclass has a float."""
    if isinstance(value, list):
        inner = [each for each in get_args(hint) if each is not Ellipsis]
        return [restored(inner[0], each) for each in value] if len(inner) == 1 else value
    if isinstance(value, Mapping):
        kinds = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
        for kind in kinds:
            if isinstance(kind, type) and is_dataclass(kind):
                hints = _hints(kind)
                return {name: restored(hints.get(name), each) for name, each in value.items()}
        return value
    return math.inf if value is None and hint is float else value


class CanaryCommitment(Record):
    """The frozen rule of one canary."""

    canary: str
    """The canary's id."""
    bank_hash: str
    """The sha256 of the bank with this canary's probes in it; of the last round's, after several."""
    inspected: tuple[int, ...]
    """The bank positions that the score reads: the probes', if any."""
    score_hash: str
    """The sha256 of the score's weights and offset."""
    threshold: float | None = None
    """The rule says present when the score exceeds this."""
    canary_hash: str | None = None
    """The sha256 of the canary's record vectors and of its contribution on the inspected positions; null in layout
    1."""


class AttackCommitment(Record):
    """The frozen rules of one attack over so many rounds, and how its alpha is split."""

    attack: str
    """The attack's name."""
    canaries: tuple[CanaryCommitment, ...]
    """The frozen rules, one a canary."""
    ledger: AlphaLedger
    """How the alpha of this attack's headline is split over its claims."""
    rounds: int = 1
    """The releases that the rules are about."""


class Commitment(Record):
    """Everything that decides a claim, fixed before the evaluation."""

    schema_version: int = SCHEMA
    """The version of this file's layout."""
    canarybank: str = __version__
    """The version of canarybank."""
    settings_hash: str
    """The sha256 of all settings that decide results."""
    mechanism: Mechanism
    """The mechanism that is audited."""
    encoder: str
    """The fingerprint of the encoder."""
    bank_hash: str
    """The sha256 of the bank before any probe, reserved positions included."""
    reserved: tuple[int, ...]
    """The positions reserved for probes, in the order they are filled."""
    cohorts: dict[str, str]
    """The digest of each cohort's users and their texts; with the encoder's fingerprint, it fixes their vectors."""
    eligible: int
    """The number of eligible users other than the canary."""
    method: str
    """How counts become the headline bound."""
    trials: int
    """The trials of each hypothesis of each canary; no bound before all are done."""
    shard: int = SHARD
    """The trials of one shard, whose stream is its own."""
    engine: str
    """How trials are played."""
    system: str = "mechanism"
    """What releases."""
    seed: int
    """The seed of the trials."""
    alpha: float
    """The level of each attack's headline."""
    attacks: tuple[AttackCommitment, ...]
    """The frozen rules, one entry for each attack and number of rounds."""
    gate: AlphaLedger
    """How a gate splits alpha over the attacks it reads."""
    exact: Figure = None
    """The exact epsilon of all releases, as the results will state it; null where it is infinite, and in layout 1."""
    claimed: Figure = None
    """The epsilon that the verdict is held against: the accountant's, or the exact one; null where it is infinite, and
    in layout 1."""
    results_layout: int | None = None
    """The version of the layout that the results will have; null in layout 1."""
    packages: dict[str, str] | None = None
    """The versions of the packages that draw and judge the trials; null in layout 1."""

    def text(self) -> str:
        """Return the text of the commitment's file; what its layout does not have is left out."""
        # A commitment that is read has the hash that was published, so it gets no field that its layout lacks.
        later: Any = {"system": True, "attacks": {"__all__": {"rounds"}}} if self.schema_version < SCHEMA else None
        return canonical_json(self.model_dump(mode="json", exclude_none=True, exclude=later), indent=2) + "\n"


def commit(auditor: Auditor, cases: Sequence[Case], cohorts: Mapping[str, str], **facts: Any) -> Commitment:
    """Return the commitment to cases and to cohorts by their digests, with the facts that only the caller knows."""
    settings = auditor.settings
    groups = {group[0].attack.name: group for group in cases_by_attack(cases)}
    return Commitment(
        mechanism=auditor.mechanism,
        cohorts=dict(cohorts),
        eligible=auditor.eligible,
        trials=settings.trials,
        engine=settings.engine,
        seed=settings.seed,
        alpha=settings.alpha,
        attacks=tuple(
            AttackCommitment(
                attack=name,
                canaries=tuple(_canary(case, rounds) for case in group),
                ledger=AlphaLedger.split(settings.alpha, claim_names(name, [case.canary for case in group], settings)),
                rounds=rounds,
            )
            for name, group in groups.items()
            for rounds in range(1, len(group[0].scores) + 1)
        ),
        gate=AlphaLedger.split(settings.alpha, groups),
        results_layout=RESULTS_LAYOUT,
        packages={name: metadata.version(name) for name in _STREAMS},
        **facts,
    )


def _canary(case: Case, rounds: int) -> CanaryCommitment:
    score, design = case.scores[rounds - 1], case.designs[rounds - 1] if case.designs else None
    own = [] if design is None else [hash_array(design.canary.vectors)]
    return CanaryCommitment(
        canary=case.canary,
        bank_hash="" if design is None else design.bank.hash,
        inspected=() if design is None else tuple(int(position) for position in design.inspected),
        score_hash=hash_json([hash_array(score.weights), float(score.offset)]),
        threshold=case.thresholds[rounds - 1].value if case.thresholds else None,
        canary_hash=hash_json([*own, hash_array(score.canary)]),
    )
