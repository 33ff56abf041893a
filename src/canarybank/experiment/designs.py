"""Make the stage of attack designs: route once, design each attack on each canary, freeze its threshold."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import Attack, Canary, Design, Pool, design
from canarybank.audit import Frozen, Prepared, Settings, Threshold, ThresholdMode, freeze
from canarybank.engine import Engine
from canarybank.experiment.stage_cache import StageCache, stage_key
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.progress import SILENT, Progress
from canarybank.score import LinearScore, Moments
from canarybank.store import hash_array, hash_json
from canarybank.users import Cohort, Cohorts

__all__ = ["Case", "Studio", "prepare_cached"]

C = TypeVar("C", bound=Cohort)


@dataclass(frozen=True, slots=True)
class Case:
    """One frozen attack on one canary, at its place among the attack's canaries."""

    attack: Attack
    index: int
    frozen: Frozen

    @property
    def address(self) -> tuple[str | int, ...]:
        """Return where this case's random streams stand under the seed of the trials."""
        return (self.attack.name, self.index)


def prepare_cached(
    cohorts: Cohorts, bank: Bank, mechanism: Mechanism, cache: StageCache, progress: Progress = SILENT
) -> Prepared:
    """Route every cohort over the base of a bank, taking from the cache what was routed before."""
    router = _Router(bank, mechanism.k, cache, progress)
    return Prepared(
        bank=bank,
        mechanism=mechanism,
        auxiliary=router.routed(cohorts.auxiliary),
        calibration=router.routed(cohorts.calibration),
        evaluation=router.routed(cohorts.evaluation),
    )


@dataclass(frozen=True)
class _Router:
    """Where records are routed over the base of one bank; what was routed before comes from the cache."""

    bank: Bank
    k: int
    cache: StageCache
    progress: Progress = SILENT

    @cached_property
    def base(self) -> str:
        """Return the hash of all that routes over the base depend on."""
        bank = self.bank
        return hash_json([hash_array(bank.vectors[bank.base]), bank.size, sorted(bank.reserved)])

    def table(self, vectors: NDArray[np.float32]) -> RouteTable:
        """Route records."""
        key = stage_key("routes", records=hash_array(vectors), base=self.base, k=self.k)

        def make() -> Mapping[str, NDArray[Any]]:
            table = RouteTable.build(vectors, self.bank, self.k, self.progress)
            return {"positions": table.positions, "distances": table.distances}

        kept = self.cache.arrays("routes", key, make)
        return RouteTable(vectors, self.bank, kept["positions"].copy(), kept["distances"].copy())

    def routed(self, cohort: C) -> Routed[C]:
        """Route the records of a cohort."""
        return Routed(cohort, self.table(cohort.users.require_vectors()))


@dataclass(frozen=True)
class Studio:
    """Where attacks are designed and frozen: everything that they may depend on, and nothing else."""

    prepared: Prepared
    settings: Settings
    seed: int
    canaries: int
    cache: StageCache
    engine: Engine | None = None
    progress: Progress = SILENT

    def case(self, attack: Attack, index: int, canary: Canary, pool: Pool | None) -> Case:
        """Design an attack on a canary and freeze its threshold."""
        key = self._design_key(attack, canary, pool)
        table = self._router.table(canary.vectors)
        designed = self._design(key, attack, canary, pool, table)
        return Case(attack, index, Frozen(designed, self._threshold(key, designed, attack.name, index)))

    @cached_property
    def _router(self) -> _Router:
        return _Router(self.prepared.bank, self.prepared.mechanism.k, self.cache)

    def _design_key(self, attack: Attack, canary: Canary, pool: Pool | None) -> str:
        return stage_key(
            "design",
            ties="by position",
            attack=[attack.canary, attack.pool, attack.selection],
            canary=[canary.id, hash_array(canary.vectors)],
            pool=None if pool is None else [hash_array(pool.vectors), pool.sources, pool.texts],
            bank=self.prepared.bank.hash,
            auxiliary=_fingerprint(self.prepared.auxiliary),
            mechanism=asdict(self.prepared.mechanism),
            eligible=self.prepared.eligible,
            seed=self.seed,
        )

    def _design(self, key: str, attack: Attack, canary: Canary, pool: Pool | None, table: RouteTable) -> Design:
        made: list[Design] = []

        def make() -> Mapping[str, NDArray[Any]]:
            prepared = self.prepared
            made.append(
                design(
                    attack,
                    canary,
                    prepared.bank,
                    prepared.auxiliary,
                    prepared.mechanism,
                    eligible=prepared.eligible,
                    pool=pool,
                    table=table,
                    seed=self.seed,
                )
            )
            return _arrays(made[0])

        kept = self.cache.arrays("design", key, make)
        return made[0] if made else _restored(kept, attack, canary, table, self.prepared.bank, pool)

    def _threshold(self, design_key: str, designed: Design, name: str, index: int) -> Threshold:
        declared = asdict(self.settings) | {"method": self.settings.method.name}
        key = stage_key(
            "threshold",
            design=design_key,
            calibration=_fingerprint(self.prepared.calibration),
            settings=declared,
            canaries=self.canaries,
            address=[name, index],
        )

        def make() -> dict[str, Any]:
            frozen = freeze(
                designed,
                self.prepared.calibration,
                self.prepared.mechanism,
                self.settings,
                eligible=self.prepared.eligible,
                canaries=self.canaries,
                address=(name, index),
                engine=self.engine,
                progress=self.progress,
            )
            return asdict(frozen.threshold)

        kept = self.cache.document("threshold", key, make)
        return Threshold(kept["value"], ThresholdMode(kept["mode"]), kept["expected"])


def _fingerprint(routed: Routed[Any]) -> str:
    users = routed.cohort.users
    return hash_json([list(users.ids), hash_array(users.owners), hash_array(users.require_vectors())])


def _arrays(designed: Design) -> dict[str, NDArray[Any]]:
    return {
        "selected": np.array(designed.selected, dtype=np.int64),
        "inspected": designed.inspected,
        "contribution": designed.contribution,
        "mean": designed.score.moments.mean,
        "covariance": designed.score.moments.covariance,
    }


def _restored(
    kept: Mapping[str, NDArray[Any]],
    attack: Attack,
    canary: Canary,
    table: RouteTable,
    bank: Bank,
    pool: Pool | None,
) -> Design:
    selected = tuple(int(j) for j in kept["selected"])
    if pool is not None:
        texts = None if pool.texts is None else [pool.texts[j] for j in selected]
        bank = bank.with_probes(pool.vectors[list(selected)], None if bank.texts is None else texts)
    score = LinearScore(kept["contribution"], Moments(kept["mean"], kept["covariance"]))
    inspected, contribution = kept["inspected"].copy(), kept["contribution"].copy()
    return Design(attack, canary, bank, pool, selected, inspected, contribution, score, table)
