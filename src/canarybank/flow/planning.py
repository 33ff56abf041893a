"""Say before anything runs what a run will take, and what it could typically certify."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, random_array

from canarybank.attack import Attack, CanaryKind, PoolKind, nonce_pool
from canarybank.auditing import (
    Literal as LiteralTrials,
)
from canarybank.auditing import (
    Projected,
    Settings,
    ThresholdMode,
    TrialEngine,
    Trials,
    ceiling,
    trials_needed,
)
from canarybank.config.loading import Resolved
from canarybank.config.model import Config
from canarybank.encode import Encoder
from canarybank.errors import InputError
from canarybank.flow.audit import mechanism_of, settings_of
from canarybank.flow.bank import GENERATED_SIZE, bank_labels, bank_prompt
from canarybank.flow.generators import build_generator, response_file
from canarybank.flow.inputs import Inputs, gather
from canarybank.flow.sending import may_send_records
from canarybank.flow.users import admission, users_key, users_source
from canarybank.generate import Generator, Request, ResponseCache, bank_plan, paraphrase_plan, server_of
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.progress import SILENT, Progress
from canarybank.run.commitment import Epsilon, Record
from canarybank.run.folder import MANIFEST, TRIALS, Run, refuse_other_settings
from canarybank.run.trials_log import read_shards
from canarybank.score import LinearScore, Moments, RoundLaw
from canarybank.seeds import stream
from canarybank.store.stage_cache import StageCache
from canarybank.systems import BankSystem
from canarybank.users import Cohorts, Users

__all__ = ["GeneratorPlan", "Plan", "StagePlan", "encode_rate", "plan", "trial_rate"]

_YIELD = 0.75
"""The share of a generator's answers that typically pass."""
_LETTERS_PER_TOKEN = 4
_SECONDS_PER_CANARY = 0.5
"""Designing and judging one canary takes about this long."""
_BASE_MIB = 210
_ENCODER_MIB = {"wordllama": 80}
"""What an encoder holds beside its vectors, where that was measured."""
_COPIES = 4
"""How often the vectors of all records are held at the peak: encoded, joined, by user and by cohort."""
_TEXT_BYTES = 600
"""What a record takes beside its vectors and routes: its text, its key, its place in several lists."""
_GOAL = 0.9
_TEXTS = 256
_TRIALS = 1 << 14
_USERS_TOUCHED = 0.05


class StagePlan(Record):
    """One stage, and whether its outcome is here already."""

    stage: str
    """The stage's name."""
    cached: bool
    """Whether nothing of it is left to do."""
    detail: str
    """What it makes."""


class GeneratorPlan(Record):
    """What the generator will be asked."""

    calls: int
    """Requests that are not answered yet, at the usual share of usable answers."""
    cached: int
    """Requests that were answered before."""
    tokens: int
    """Prompt and answer tokens of the open requests, about."""
    server: str | None = None
    """The URL that the open requests would be sent to; null where nothing is sent."""
    proxy: str | None = None
    """The proxy of the environment between, where there is one."""
    calls_with_records: int = 0
    """The open requests that would send a user's record."""
    records: int = 0
    """The different records that they would send, at most."""
    owners: int = 0
    """The users whose records these are."""


class Plan(Record):
    """What a run will take, and what it could typically certify."""

    state: Literal["new", "resumes", "finished"]
    """What stands in the folder."""
    stages: tuple[StagePlan, ...]
    """Each stage, cached or new."""
    users: int
    """The admitted users."""
    records: int
    """Their records."""
    texts_to_encode: int
    """Different texts whose vectors are not cached."""
    generator: GeneratorPlan
    """What the generator will be asked."""
    attacks: tuple[str, ...]
    """The attacks that run."""
    eligible: int
    """The eligible users."""
    trials: int
    """All trials that are left to play, those that calibrate included."""
    trials_per_second: float
    """The measured rate of all workers together."""
    workers: int
    """The workers."""
    seconds: float
    """The time that is left, about, without the generator's."""
    memory_mib: float
    """The memory at the peak, about."""
    epsilon: Epsilon
    """The exact epsilon of the mechanism; null where it is infinite."""
    ceiling: float
    """The median bound that perfect canaries would give with so many trials."""
    ceiling_range: tuple[float, float]
    """The 5% to 95% range of that bound."""
    trials_for_goal: int | None
    """The trials of each hypothesis of each canary with which a perfect canary is expected to show 90% of the exact
    epsilon."""
    notes: tuple[str, ...]
    """What a reader should know."""


def plan(resolved: Resolved, folder: Path | str, *, progress: Progress = SILENT) -> Plan:
    """Say what a run in a folder will take.

    Users are read and admitted, which the run then finds done; rates are measured on small pieces of the work.
    """
    config, cache = resolved.config, StageCache()
    state, done = _state(resolved, Path(folder))
    mechanism, settings = mechanism_of(config), settings_of(config)
    admitted_before = cache.has("users", users_key(users_source(config.users), admission(config.users, config.cohorts)))
    generator = build_generator(config)
    inputs = gather(config, cache, generator, progress)
    attacks, people, cohorts, encoder = inputs.attacks, inputs.people, inputs.roles, inputs.encoder
    # What a generator would write is not there yet, and nothing is asked of it here.
    candidates = None if config.bank.source == "generate" else inputs.candidates
    bank_texts = () if candidates is None else candidates.texts
    notes = (*people.notes, *(() if candidates is None else candidates.notes), *inputs.left_out)
    asked = _asked(config, cohorts, attacks, None if state == "finished" else generator)
    known = [*cohorts.texts, *bank_texts, *_nonces(inputs)]
    missing = encoder.missing(known) + round(_YIELD * asked.calls)
    workers, eligible = config.run.workers or _cores(), len(cohorts.evaluation)
    rate = workers * trial_rate(mechanism, eligible, config.attack.probes, settings.engine)
    canaries, passes = config.cohorts.canaries, 2 if settings.threshold is ThresholdMode.CALIBRATED else 1
    cases, share = len(attacks) * canaries, settings.share(canaries)
    left = 0 if state == "finished" else passes * 2 * settings.trials * cases - done
    most = ceiling(mechanism, settings.trials, method=settings.method, alpha=share, canaries=canaries)
    seconds = left / rate + (0.0 if state == "finished" else cases * _SECONDS_PER_CANARY)
    if missing:
        seconds += missing / encode_rate(encoder.encoder, known)
    return Plan(
        state=state,
        stages=_stages(config, state, missing, asked, left, admitted=admitted_before),
        users=len(people.users),
        records=len(people.users.owners),
        texts_to_encode=missing,
        generator=asked,
        attacks=tuple(attack.name for attack in attacks),
        eligible=eligible,
        trials=left,
        trials_per_second=rate,
        workers=workers,
        seconds=seconds,
        memory_mib=_memory(config, len(cohorts.texts), len(bank_texts) or GENERATED_SIZE, encoder.dimension, cases),
        epsilon=most.exact,
        ceiling=most.median,
        ceiling_range=(most.q05, most.q95),
        trials_for_goal=_goal(mechanism, settings, canaries),
        notes=notes,
    )


def _state(resolved: Resolved, folder: Path) -> tuple[Literal["new", "resumes", "finished"], int]:
    """Return what stands in a folder, and how many trials of its evaluation are done."""
    if not (folder / MANIFEST).is_file():
        return "new", 0
    run = Run.open(folder)
    refuse_other_settings(run, resolved)
    done = sum(shard.size for _, shard in read_shards(folder / TRIALS).shards)
    return ("finished" if run.is_finished else "resumes"), done


def _nonces(inputs: Inputs) -> list[str]:
    """Return the nonces that canaries and pools will be made of, by catching them on their way to the encoder."""
    caught: list[str] = []
    config, dimension = inputs.config, inputs.encoder.dimension

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        caught.extend(texts)
        return np.ones((len(texts), dimension), dtype=np.float32)

    for attack in inputs.attacks:
        if attack.canary is CanaryKind.NONCE:
            for canary in inputs.canaries(attack, encode):
                nonce_pool(encode)(canary, config.attack.pool, config.cohorts.seed)
    return caught


def _asked(config: Config, cohorts: Cohorts, attacks: Sequence[Attack], generator: Generator | None) -> GeneratorPlan:
    if generator is None:
        return GeneratorPlan(calls=0, cached=0, tokens=0)
    known = ResponseCache(response_file(generator))
    people = _paraphrased(config, cohorts, attacks)
    requests = list(_requests(config, people))
    still_open = [request for request in requests if request.key(generator.fingerprint) not in known]
    asked = GeneratorPlan(
        calls=len(still_open),
        cached=len(requests) - len(still_open),
        tokens=sum(len(request.prompt) // _LETTERS_PER_TOKEN + request.tokens for request in still_open),
    )
    server = server_of(generator)
    if server is None:
        return asked
    sent: dict[str, str | int | None] = {"server": server.url, "proxy": server.proxy}
    if calls := sum(bool(request.records) for request in still_open):
        # Every record of these users, for an answer that fails its checks is asked for again, of another record too.
        records = {text for person in people for text in person.require_texts()}
        sent |= {"calls_with_records": calls, "records": len(records), "owners": len(people)}
    return asked.model_copy(update=sent)


def _paraphrased(config: Config, cohorts: Cohorts, attacks: Sequence[Attack]) -> list[Users]:
    """Return the canaries whose records the generator will paraphrase, each once."""
    if not may_send_records(config):
        return []
    people: dict[str, Users] = {}
    for attack in attacks:
        if attack.pool is PoolKind.PARAPHRASES:
            group = cohorts.canaries[attack.name]
            people |= {name: group.take([index]) for index, name in enumerate(group.ids)}
    return list(people.values())


def _requests(config: Config, people: Sequence[Users]) -> Iterator[Request]:
    """Yield the requests that a bank, and the paraphrases of these people's records, will typically take."""
    bank = config.bank
    if bank.source == "generate":
        size = bank.size or GENERATED_SIZE
        prompt, examples = bank_prompt(bank)
        made = bank_plan(
            size,
            bank_labels(bank, config.users),
            prompt=prompt,
            seed=bank.seed,
            examples=examples,
            shots=bank.shots,
            tries=bank.tries,
        )
        yield from made.requests()[: math.ceil(size / _YIELD)]
    for person in people:
        made = paraphrase_plan(
            person.require_texts(),
            config.attack.pool,
            prompt=config.attack.paraphrase_prompt,
            seed=config.cohorts.seed,
            tries=config.attack.tries,
        )
        yield from made.requests()[: math.ceil(config.attack.pool / _YIELD)]


def _goal(mechanism: Mechanism, settings: Settings, canaries: int) -> int | None:
    try:
        return trials_needed(
            mechanism,
            _GOAL * one_round_epsilon(mechanism),
            method=settings.method,
            alpha=settings.share(canaries),
            canaries=canaries,
        )
    except InputError:
        return None


def _stages(
    config: Config, state: str, missing: int, asked: GeneratorPlan, left: int, *, admitted: bool
) -> tuple[StagePlan, ...]:
    finished = state == "finished"
    facts = (
        ("users", admitted, f"admitted from {config.users.source}"),
        ("vectors", missing == 0, f"{missing:,} texts to encode by {config.encoder.name}"),
        ("bank", asked.calls == 0, f"{config.bank.source}; {asked.calls:,} requests to the generator, pools included"),
        ("designs", finished, "probes, score and threshold of each canary"),
        ("commitment", finished, "written before the first evaluation trial"),
        ("evaluation", left == 0, f"{left:,} trials left, those that calibrate included"),
    )
    return tuple(StagePlan(stage=stage, cached=cached, detail=detail) for stage, cached, detail in facts)


def _memory(config: Config, texts: int, bank: int, dimension: int, cases: int) -> float:
    """Return the memory of a run in MiB, about: its records, a bank for each canary, and trials in flight."""
    vectors = 4 * dimension
    records = texts * (_COPIES * vectors + 16 * config.mechanism.k + _TEXT_BYTES)
    banks = bank * vectors * (1 + cases)
    calibration = 3 * 8 * config.audit.trials if config.audit.threshold == "calibrated" else 0
    return _BASE_MIB + _ENCODER_MIB.get(config.encoder.name, 0) + (records + banks + calibration) / 2**20


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def trial_rate(mechanism: Mechanism, eligible: int, coordinates: int, engine: TrialEngine) -> float:
    """Return the trials a second of one worker, with so many eligible users who all touch the inspected coordinates."""
    trials = _sample(mechanism, eligible, coordinates, engine)
    rng = stream(0, "plan", "rate")
    trials.scores(False, _TRIALS // 8, rng)  # noqa: FBT003, as the protocol has it
    began = time.perf_counter()
    trials.scores(False, _TRIALS, rng)  # noqa: FBT003, as the protocol has it
    return _TRIALS / max(time.perf_counter() - began, 1e-9)


def encode_rate(encoder: Encoder, texts: Sequence[str]) -> float:
    """Return the texts a second of an encoder, on the first few of these texts."""
    sample = list(texts[:_TEXTS])
    encoder.encode(sample[:8])
    began = time.perf_counter()
    encoder.encode(sample)
    return len(sample) / max(time.perf_counter() - began, 1e-9)


def _sample(mechanism: Mechanism, eligible: int, coordinates: int, engine: TrialEngine) -> Trials:
    rng = stream(0, "plan", "sample")
    if engine is TrialEngine.PROJECTED:
        return Projected(RoundLaw(rng.normal(0.0, 0.05, eligible), 1.0, 1.0, 0.5, mechanism.q))
    canary = np.full(coordinates, mechanism.clip / coordinates**0.5)
    users = csr_array(random_array((eligible, coordinates), density=_USERS_TOUCHED, rng=rng))
    users.data *= mechanism.clip
    score = LinearScore(canary, Moments(np.zeros(coordinates), mechanism.noise**2 * np.eye(coordinates)))
    return LiteralTrials(BankSystem(users, canary, mechanism), score)
