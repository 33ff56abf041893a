"""Audit one attack in memory: users' vectors in, a result out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from canarybank.attack import (
    Attack,
    Canary,
    CanaryKind,
    Encode,
    Pool,
    PoolKind,
    PoolSource,
    design,
    find_attack,
    nonce_canary,
    nonce_pool,
    simulated_nonces,
    simulated_paraphrases,
)
from canarybank.audit.methods import Method, find_method
from canarybank.audit.result import AuditResult, CanaryResult
from canarybank.audit.settings import Settings, TrialEngine, one_of
from canarybank.audit.stages import Prepared, evaluation_law, evaluation_trials, freeze, judge, prepare
from canarybank.audit.summary import summarise
from canarybank.audit.threshold import ThresholdMode
from canarybank.audit.trials import count
from canarybank.engine import Engine
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.users import Cohorts, CohortSizes, Users, draw_cohorts

__all__ = ["audit"]

Source = Pool | PoolSource


def audit(
    users: Users | Cohorts | Mapping[str, ArrayLike] | Sequence[ArrayLike],
    bank: Bank | ArrayLike,
    mechanism: Mechanism,
    attack: Attack | str,
    *,
    trials: int = 1_000_000,
    seed: int = 0,
    alpha: float = 0.05,
    method: Method | str = "paper",
    threshold: ThresholdMode | str = ThresholdMode.CALIBRATED,
    trial_engine: TrialEngine | str = TrialEngine.PROJECTED,
    canaries: int | None = None,
    probes: int = 64,
    pool: Source | None = None,
    pool_size: int = 512,
    encode: Encode | None = None,
    sizes: CohortSizes | None = None,
    accounted: float | None = None,
    engine: Engine | None = None,
    progress: Progress = SILENT,
) -> AuditResult:
    """Audit one attack on users' vectors and return what it showed.

    Args:
        users: Users with vectors, arrays of record vectors (one a user), or ready-made disjoint cohorts.
        bank: The bank, or the vectors of its entries. Positions for probes are reserved by seed where none are.
        mechanism: The parameters of the release.
        attack: One of ``ATTACKS``, or its name, or a recipe of your own.
        trials: How many trials of each hypothesis each canary gets.
        seed: The root of all randomness: cohorts, positions, selections, trials.
        alpha: The level of the headline claim.
        method: How counts become a bound; declared here, before any trial.
        threshold: How the threshold is frozen on the calibration cohort.
        trial_engine: Whether trials are played literally or on projected users; the law is the same.
        canaries: How many canaries the attack gets; by default as many as ``sizes`` or the cohorts say, else 5.
        probes: How many bank positions are reserved for probes.
        pool: The candidate probes or their source, where the attack selects from paraphrases or nonces.
        pool_size: How many candidates to ask a source for.
        encode: The encoder of nonces. Without it they are simulated as vectors, and the result says so.
        sizes: The cohorts' sizes; by default the paper's, or as large as the users at hand allow.
        accounted: The epsilon that the operator's accountant claims; by default the mechanism's own.
        engine: Where trials run; by default on a thread for each core.
        progress: Where progress is shown; by default nowhere.
    """
    recipe = _attack(attack)
    settings = Settings(
        trials=trials,
        alpha=alpha,
        method=find_method(method),
        threshold=one_of(ThresholdMode, threshold, "threshold"),
        engine=one_of(TrialEngine, trial_engine, "trial engine"),
        seed=seed,
    )
    _check_accounted(accounted)
    reserved = _reserved(bank, probes if recipe.active else 0, seed)
    number = canaries if canaries is not None else (sizes or CohortSizes()).canaries
    cohorts = _cohorts(users, sizes, number, recipe, seed)
    prepared = prepare(cohorts, reserved, mechanism)
    source, encoder, notes = _sources(recipe, pool, encode, reserved, seed)
    chosen = _canaries(recipe, cohorts, canaries, number, encoder, seed)
    results = [
        _one(recipe, canary, index, len(chosen), prepared, settings, source, pool_size, engine, progress)
        for index, canary in enumerate(chosen)
    ]
    return summarise(
        recipe.name, results, mechanism, settings, eligible=prepared.eligible, accounted=accounted, notes=notes
    )


def _one(
    attack: Attack,
    canary: Canary,
    index: int,
    canaries: int,
    prepared: Prepared,
    settings: Settings,
    pool: Source | None,
    pool_size: int,
    engine: Engine | None,
    progress: Progress,
) -> CanaryResult:
    mechanism, eligible, address = prepared.mechanism, prepared.eligible, (attack.name, index)
    designed = design(
        attack,
        canary,
        prepared.bank,
        prepared.auxiliary,
        mechanism,
        eligible=eligible,
        pool=pool,
        pool_size=pool_size,
        seed=settings.seed,
    )
    frozen = freeze(
        designed,
        prepared.calibration,
        mechanism,
        settings,
        eligible=eligible,
        canaries=canaries,
        address=address,
        engine=engine,
        progress=progress,
    )
    counts = count(
        evaluation_trials(designed, prepared.evaluation, mechanism, settings),
        frozen.threshold.value,
        settings.trials,
        seed=settings.seed,
        path=(*address, "evaluation"),
        engine=engine,
        progress=progress,
    )
    law = evaluation_law(designed, prepared.evaluation, mechanism)
    return judge(frozen, law, counts, mechanism, settings, canaries=canaries)


def _check_accounted(accounted: float | None) -> None:
    if accounted is not None and not 0 <= accounted < math.inf:
        raise InputError(f"The accounted epsilon must be finite and not negative, but is {accounted!r}.")


def _attack(attack: Attack | str) -> Attack:
    if isinstance(attack, Attack):
        return attack
    return find_attack(attack)


def _reserved(bank: Bank | ArrayLike, probes: int, seed: int) -> Bank:
    given = bank if isinstance(bank, Bank) else Bank(np.asarray(bank, dtype=np.float32))
    return given if given.reserved else given.reserve(probes, seed)


def _cohorts(
    users: Users | Cohorts | Mapping[str, ArrayLike] | Sequence[ArrayLike],
    sizes: CohortSizes | None,
    canaries: int,
    attack: Attack,
    seed: int,
) -> Cohorts:
    if isinstance(users, Cohorts):
        return users
    people = Users.from_vectors(users)
    real = [attack.name] if attack.canary is CanaryKind.REAL else []
    fitted = (
        replace(sizes, canaries=canaries) if sizes else CohortSizes.fit(len(people), canaries=canaries, sets=len(real))
    )
    return draw_cohorts(people, fitted, attacks=real, records=int(people.counts.max()), seed=seed)


def _canaries(
    attack: Attack, cohorts: Cohorts, asked: int | None, number: int, encode: Encode | None, seed: int
) -> list[Canary]:
    if attack.canary is CanaryKind.NONCE:
        if encode is None:
            raise InputError("A nonce canary needs an encoder of nonces; give encode=.")
        return [nonce_canary(cohorts.canary_records, encode, seed, index, attack.name) for index in range(number)]
    if attack.name not in cohorts.canaries:
        raise CohortError(
            f"The cohorts hold no canaries for the attack {attack.name!r}; draw them with attacks=[{attack.name!r}]."
        )
    drawn = cohorts.canaries[attack.name]
    if asked is not None and asked > len(drawn):
        raise CohortError(
            f"{asked} canaries were asked for, but the cohorts hold {len(drawn)} for {attack.name!r}; draw more."
        )
    return [Canary.of(drawn, index) for index in range(len(drawn) if asked is None else asked)]


def _sources(
    attack: Attack, pool: Source | None, encode: Encode | None, bank: Bank, seed: int
) -> tuple[Source | None, Encode | None, tuple[str, ...]]:
    """Return the pool's source and the nonces' encoder, and a note where either is simulated."""
    if attack.pool is PoolKind.PARAPHRASES and pool is None:
        return simulated_paraphrases(), encode, ("No paraphrases were given: their vectors are simulated.",)
    if attack.canary is CanaryKind.NONCE and encode is None:
        encode = simulated_nonces(bank.vectors, seed)
        return pool or nonce_pool(encode), encode, ("No encoder was given: the nonces' vectors are simulated.",)
    if attack.pool is PoolKind.NONCES and pool is None and encode is not None:
        return nonce_pool(encode), encode, ()
    return pool, encode, ()
