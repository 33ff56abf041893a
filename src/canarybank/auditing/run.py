"""Audit in memory: users' vectors in, a result out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

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
    find_attack,
    nonce_canary,
    nonce_pool,
    simulated_nonces,
    simulated_paraphrases,
)
from canarybank.auditing.methods import Method, find_method
from canarybank.auditing.pipeline import Auditor
from canarybank.auditing.ports import Case, MemoryTally, route_cohorts
from canarybank.auditing.result import AttackResult, AuditResult
from canarybank.auditing.searching import search_canary
from canarybank.auditing.settings import Settings, ThresholdMode, TrialEngine, one_of
from canarybank.engine import Engine, Threads
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism
from canarybank.progress import SILENT, Progress
from canarybank.registry import ENGINES, SYSTEMS
from canarybank.systems.mechanism import BankSystem, SystemFactory
from canarybank.users import Cohorts, CohortSizes, Users, draw_cohorts

__all__ = ["audit"]

Source = Pool | PoolSource


def audit(
    users: Users | Cohorts | Mapping[str, ArrayLike] | Sequence[ArrayLike],
    bank: Bank | ArrayLike,
    mechanism: Mechanism,
    attack: Attack | str | Sequence[Attack | str],
    *,
    trials: int = 1_000_000,
    seed: int = 0,
    alpha: float = 0.05,
    method: Method | str = "paper",
    threshold: ThresholdMode | str = ThresholdMode.CALIBRATED,
    trial_engine: TrialEngine | str = TrialEngine.TAIL,
    canaries: int | None = None,
    probes: int = 64,
    pool: Source | None = None,
    pool_size: int = 512,
    encode: Encode | None = None,
    vocabulary: Sequence[str] = (),
    sizes: CohortSizes | None = None,
    accounted: float | None = None,
    system: SystemFactory | str = BankSystem,
    engine: Engine | str | None = None,
    progress: Progress = SILENT,
) -> AuditResult:
    """Audit one attack, or several, on users' vectors and return what they showed.

    Each attack is a claim of its own at level alpha, as if it were audited alone.

    Args:
        users: Users with vectors, arrays of record vectors (one a user), or ready-made disjoint cohorts.
        bank: The bank, or the vectors of its entries. Positions for probes are reserved by seed where none are.
        mechanism: The parameters of the release.
        attack: One of ``ATTACKS``, or its name, or a recipe of your own; or several of them.
        trials: How many trials of each hypothesis each canary gets.
        seed: The root of all randomness: cohorts, positions, selections, trials.
        alpha: The level of each attack's headline claim.
        method: How counts become a bound; declared here, before any trial.
        threshold: How the threshold is frozen on the calibration cohort.
        trial_engine: How trials are played, such as "tail", "projected" or "literal"; the law is the same.
        canaries: How many canaries each attack gets; by default as many as ``sizes`` or the cohorts say, else 5.
        probes: How many bank positions are reserved for probes.
        pool: The candidate probes or their source, where an attack selects from paraphrases or nonces.
        pool_size: How many candidates to ask a source for.
        encode: The encoder of nonces and of what is searched. Without it their vectors are simulated, and the result
            says so.
        vocabulary: The encoder's own tokens, as texts: one more family for ``searched`` to look through.
        sizes: The cohorts' sizes; by default the paper's, or as large as the users at hand allow.
        accounted: The epsilon that the operator's accountant claims; by default the mechanism's own.
        system: What releases, made from contributions, the canary's, and the mechanism, or its registered name; by
            default our own mechanism.
        engine: Where trials run, or its registered name; by default on a thread for each core.
        progress: Where progress is shown; by default nowhere.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> people = [rng.normal(size=(6, 8)) for _ in range(40)]
        >>> found = audit(people, rng.normal(size=(60, 8)), Mechanism(), ["ordinary", "exact"], trials=1_000,
        ...               canaries=1, probes=6)
        >>> found.names
        ('ordinary', 'exact')
    """
    listed = [attack] if isinstance(attack, Attack | str) else attack
    recipes = [find_attack(each) if isinstance(each, str) else each for each in listed]
    if len({recipe.name for recipe in recipes}) != len(recipes) or not recipes:
        raise InputError(f"Name at least one attack, and each once, not {[recipe.name for recipe in recipes]}.")
    settings = Settings(
        trials=trials,
        alpha=alpha,
        method=find_method(method),
        threshold=one_of(ThresholdMode, threshold, "threshold"),
        engine=one_of(TrialEngine, trial_engine, "trial engine"),
        seed=seed,
    )
    if accounted is not None and not 0 <= accounted < math.inf:
        raise InputError(f"The accounted epsilon must be finite and not negative, but is {accounted!r}.")
    number = canaries if canaries is not None else (sizes or CohortSizes()).canaries
    cohorts = _cohorts(users, sizes, number, recipes, seed)
    eligible, stated = len(cohorts.evaluation), None if accounted is None else (accounted, "the operator's accountant")
    auditor = Auditor(
        mechanism,
        settings,
        eligible,
        SYSTEMS.find(system) if isinstance(system, str) else system,
        engine=ENGINES.find(engine)() if isinstance(engine, str) else engine or Threads(),
        progress=progress,
    )
    routed = {
        active: route_cohorts(cohorts, _reserved(bank, probes if active else 0, seed), mechanism.k)
        for active in {each.active for each in recipes}
    }
    found: list[AttackResult] = []
    notes: dict[str, None] = {}
    for recipe in recipes:
        routes = routed[recipe.active]
        source, encoder, said = _sources(recipe, pool, encode, routes.bank, seed)
        if recipe.pool is PoolKind.SEARCHED and encoder is not None:
            find = partial(search_canary, auditor, recipe, routes, seed=seed, encode=encoder, vocabulary=vocabulary)
            pairs: list[tuple[Canary, Source | None]] = [
                find(index=index, records=cohorts.canary_records) for index in range(number)
            ]
        else:
            drawn = _canaries(recipe, cohorts, canaries, number, encoder, seed)
            pairs = [(canary, source) for canary in drawn]
        cases = [
            Case.of(index, auditor.design(recipe, canary, candidates, routes, seed, pool_size=pool_size))
            for index, (canary, candidates) in enumerate(pairs)
        ]
        frozen = auditor.freeze(cases, auditor.calibration([routes]))
        evaluation, tally = auditor.evaluation([routes]), MemoryTally()
        auditor.play(frozen, evaluation, tally)
        found += auditor.judge(frozen, evaluation, tally, accounted=lambda _: stated)
        notes |= dict.fromkeys(said)
    return AuditResult(tuple(found), mechanism, eligible, settings.trials, seed, tuple(notes))


def _reserved(bank: Bank | ArrayLike, probes: int, seed: int) -> Bank:
    given = bank if isinstance(bank, Bank) else Bank(np.asarray(bank, dtype=np.float32))
    return given if given.reserved else given.reserve(probes, seed)


def _cohorts(
    users: Users | Cohorts | Mapping[str, ArrayLike] | Sequence[ArrayLike],
    sizes: CohortSizes | None,
    canaries: int,
    attacks: Sequence[Attack],
    seed: int,
) -> Cohorts:
    if isinstance(users, Cohorts):
        return users
    people = Users.from_vectors(users)
    real = [attack.name for attack in attacks if attack.canary is CanaryKind.REAL]
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
        return (
            pool or nonce_pool(encode),
            encode,
            ("No encoder was given: the vectors of made-up texts are simulated.",),
        )
    if attack.pool is PoolKind.NONCES and pool is None and encode is not None:
        return nonce_pool(encode), encode, ()
    return pool, encode, ()
