"""Say before anything runs what a run will take, and what it could typically certify."""

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, random_array

from canarybank.attack import Attack, CanaryKind, PoolKind, nonce_pool, searched_texts
from canarybank.auditing import (
    Literal as LiteralTrials,
)
from canarybank.auditing import (
    Projected,
    Tail,
    ThresholdMode,
    TrialEngine,
    Trials,
    ceiling,
    trials_needed,
)
from canarybank.auditing.settings import tail_cut
from canarybank.auditing.trials import SHARD
from canarybank.config import Config, Resolved
from canarybank.defend import ShareVotes
from canarybank.defend.votes import CHUNK_VALUES
from canarybank.encode import EncoderRecipe, is_cheap
from canarybank.encode.index import INDEX_BYTES
from canarybank.encode.protocol import fast_encoder_of
from canarybank.errors import InputError
from canarybank.flow.audit import mechanism_of, settings_of
from canarybank.flow.bank import GENERATED_SIZE, Candidates, bank_labels, bank_prompt
from canarybank.flow.generators import build_generator, may_send_records, response_file
from canarybank.flow.inputs import Inputs, gather
from canarybank.flow.machines import (
    GPU_TEXTS,
    Machine,
    MachinePlan,
    Work,
    check_machines,
    encode_rate,
    measure_pass,
    plan_machines,
    route_rate,
)
from canarybank.flow.one_run_plan import OneRunPlan, plan_one_run
from canarybank.flow.real_run import is_real
from canarybank.flow.sharding import Roles
from canarybank.generate import Generator, Request, ResponseCache, bank_plan, paraphrase_plan, server_of
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.mechanism.shares import ranks_needed
from canarybank.progress import SILENT, Progress
from canarybank.run.commitment import Epsilon, Record
from canarybank.run.folder import MANIFEST, TRIALS, Run, keep_defaults, refuse_other_settings
from canarybank.run.trials_log import Played
from canarybank.score import LinearScore, Moments, RoundLaw
from canarybank.seeds import stream
from canarybank.store import StageCache
from canarybank.systems import BankSystem, ShareSystem, TorchSystem
from canarybank.users import Cohorts, Users

__all__ = ["GeneratorPlan", "Plan", "StagePlan", "plan", "share_trial_rate", "trial_rate"]

ANSWER_YIELD = 0.75
"""The share of a generator's answers that typically pass."""
CASE_SECONDS, SEARCH_SECONDS = 0.5, 3.0
"""What designing and judging one canary takes, about, and a search beside what it encodes."""
WORKER_MIB, RAY_MIB = 110.0, 300.0
"""What a worker process takes that encodes nothing yet, and what Ray takes beside its workers, about."""
_TRIALS = 1 << 14
"""The trials that a rate is measured on."""
_MANY = 10_000
"""Users among whom an attack may show so little that most trials exceed its threshold."""
_SHARE_TRIALS, _SHARE_USERS = 1 << 10, 4
"""The trials and users that a rate is measured on where users vote within secret shares."""
_DRAWN = (
    "Users vote within secret shares, so a trial draws the sets of everybody who may vote for a probe. The time is for "
    "the case that all eligible users may; probes that are far from them take less."
)


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
    shards: int = 0
    """The shards of users that are read, encoded and routed, those of all passes together; 0 where all users are in
    memory."""
    machines: tuple[MachinePlan, ...] = ()
    """What the run takes on this machine first, then with a GPU and on a cluster, where these would help or are asked
    for."""
    measured: tuple[str, ...] = ()
    """What these times are computed from that was measured here."""
    assumed: tuple[str, ...] = ()
    """What they are computed from that was not."""
    epsilon: Epsilon
    """The exact epsilon of the mechanism; null where it is infinite."""
    ceiling: float
    """The median bound that perfect canaries of one attack would give the verdict with so many trials: alpha is split
    over all attacks of the run."""
    ceiling_range: tuple[float, float]
    """The 5% to 95% range of that bound."""
    trials_for_goal: int | None
    """The trials of each hypothesis of each canary with which a perfect canary is expected to show 90% of the exact
    epsilon in the verdict, at its attack's share of alpha."""
    one_run: OneRunPlan | None = None
    """What an audit by one run would take and could show; null where none is asked for."""
    notes: tuple[str, ...]
    """What a reader should know."""


def plan(
    resolved: Resolved,
    folder: Path | str,
    *,
    nodes: int | None = None,
    price: float | None = None,
    progress: Progress = SILENT,
) -> Plan:
    """Say what a run in a folder will take.

    Users are read and admitted, which the run then finds done; rates are measured on small pieces of the work.

    Args:
        resolved: The configuration with its origins.
        folder: The run's folder.
        nodes: Plan a cluster of so many nodes too.
        price: What one node costs an hour.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "attack.names": "ordinary,exact"}
        >>> small = {"attack.probes": 12, "cohorts.canaries": 1, "audit.trials": 500}
        >>> found = plan(resolve_users("my-users.csv", flags | small), "runs/planned")
        >>> found.state, found.users, found.trials  # 500 for each attack and hypothesis, to calibrate and to judge
        ('new', 24, 4000)
    """
    check_machines(nodes, price)
    resolved, cache = keep_defaults(resolved, folder), StageCache()
    config, (state, done) = resolved.config, _state(resolved, Path(folder))
    finished = state == "finished"
    mechanism, settings = mechanism_of(config), settings_of(config)
    generator = build_generator(config)
    inputs = gather(config, cache, generator, progress)
    admitted = inputs.is_admitted
    attacks, people, cohorts, encoder = inputs.attacks, inputs.people, inputs.roles, inputs.encoder
    # What a generator would write is not there yet, and nothing is asked of it here.
    bank = Candidates(()) if config.bank.source == "generate" else inputs.candidates
    asked = _asked(config, cohorts, attacks, None if finished else generator)
    held = cohorts.texts
    known = [*held, *bank.texts, *_nonces(inputs)]
    streamed = cohorts.streamed_records if isinstance(cohorts, Roles) and not finished else 0
    missing = streamed + encoder.missing(known) + round(ANSWER_YIELD * asked.calls)
    searches = 0 if finished else config.cohorts.canaries * sum(each.pool is PoolKind.SEARCHED for each in attacks)
    missing += searches * searched_texts(mechanism.k, with_vocabulary=bool(encoder.vocabulary()))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers, eligible = config.run.workers or cores, len(cohorts.evaluation)
    entries = len(bank.texts) or GENERATED_SIZE
    if mechanism.share < 1:
        each = math.ceil(int(people.users.counts.sum()) / len(people.users))
        rate = workers * share_trial_rate(mechanism, eligible, config.attack.probes, each, entries)
    else:
        rate = workers * trial_rate(mechanism, eligible, config.attack.probes, settings.engine, settings.trials)
    canaries, passes = config.cohorts.canaries, 2 if settings.threshold is ThresholdMode.CALIBRATED else 1
    cases = len(attacks) * canaries
    left = 0 if finished else passes * 2 * settings.trials * cases - done
    routing = 0.0 if finished else len(held) / route_rate(mechanism, entries, encoder.dimension)
    once = routing + (0.0 if finished else CASE_SECONDS * cases) + SEARCH_SECONDS * searches
    encoding = encode_rate(encoder.encoder.encode, known) if missing else 1.0
    work = Work(once=once, texts=missing - streamed, encode_rate=encoding, trials=left, trial_rate=rate / workers)
    in_memory = _memory(config, len(held), entries, encoder.dimension, cases)
    if isinstance(cohorts, Roles):
        in_memory += _pass_memory(config, cohorts, inputs.recipe, cases, workers)
        work = _with_passes(work, inputs, cohorts, mechanism, entries, 0 if finished else cases, workers)
    else:
        in_memory += _share_memory(mechanism, len(held), entries, workers)
    gpu = missing > 0 and getattr(encoder.encoder, "device", "") == "cpu"
    machines = plan_machines(
        work,
        Machine("this machine", 1, workers),
        in_memory + _process_memory(config, config.run.engine, workers),
        node_mib=in_memory + _process_memory(config, "ray", workers),
        nodes=nodes,
        price=price,
        gpu=gpu,
    )
    # The verdict is about all attacks at once: each has its share of alpha, and of that each canary its share.
    aim: dict[str, Any] = {
        "method": settings.method,
        "alpha": replace(settings, alpha=settings.alpha / len(attacks)).share(canaries),
        "canaries": canaries,
    }
    most, goal = ceiling(mechanism, settings.trials, **aim), None
    with suppress(InputError):
        goal = trials_needed(mechanism, 0.9 * one_round_epsilon(mechanism), **aim)
    one_run = None
    if config.evolve.audit_one_run or config.system.one_run:
        voting = None if is_real(config) else len(people.users) - config.evolve.reference
        one_run = plan_one_run(config, bank, encoder, voting)
    stages = (
        ("users", admitted, f"admitted from {config.users.source}"),
        ("vectors", missing == 0, f"{missing:,} texts to encode by {config.encoder.name}"),
        ("bank", asked.calls == 0, f"{config.bank.source}; {asked.calls:,} requests to the generator, pools included"),
        ("designs", finished, "probes, score and threshold of each canary"),
        ("commitment", finished, "written before the first evaluation trial"),
        ("evaluation", left == 0, f"{left:,} trials left, those that calibrate included"),
    )
    return Plan(
        state=state,
        stages=tuple(StagePlan(stage=name, cached=cached, detail=detail) for name, cached, detail in stages),
        users=len(people.users),
        records=int(people.users.counts.sum()),
        texts_to_encode=missing,
        generator=asked,
        attacks=tuple(attack.name for attack in attacks),
        eligible=eligible,
        trials=left,
        trials_per_second=rate,
        workers=workers,
        seconds=machines[0].seconds,
        memory_mib=machines[0].memory_mib,
        shards=sum(work.passes),
        machines=machines,
        measured=_measured(work),
        assumed=_assumed(
            work,
            gpu=gpu,
            nodes=nodes,
            price=price,
            searches=searches,
            far_out=settings.engine is TrialEngine.TAIL and eligible > _MANY and mechanism.share == 1,
        ),
        epsilon=most.exact,
        ceiling=most.median,
        ceiling_range=(most.q05, most.q95),
        trials_for_goal=goal,
        one_run=one_run,
        notes=(
            *people.notes,
            *inputs.memory_notes,
            *bank.notes,
            *inputs.left_out,
            *((_DRAWN,) if mechanism.share < 1 else ()),
            *(_shard_notes(inputs.recipe, cohorts) if isinstance(cohorts, Roles) and not finished else ()),
        ),
    )


def _with_passes(
    work: Work, inputs: Inputs, roles: Roles, mechanism: Mechanism, entries: int, cases: int, workers: int
) -> Work:
    """Return the work with its passes over users in shards, a piece of them measured; none where no case is left."""
    config = inputs.config
    if not cases:
        return work
    piece = measure_pass(
        roles.evaluation,
        inputs.recipe,
        mechanism,
        entries=entries,
        probes=config.attack.probes,
        asks=cases,
        workers=workers,
        threads=config.run.engine == "threads",
    )
    shards = tuple(len(each.parts()) for each in (roles.calibration, roles.evaluation))
    return replace(work, records=roles.streamed_records, passes=shards, piece=piece)


def _shard_notes(recipe: EncoderRecipe, roles: Roles) -> tuple[str, ...]:
    """Say which number of shards a GPU would encode faster with, where shards are too small for low precision first."""
    fast, records, shards = fast_encoder_of(recipe.load()), int(roles.evaluation.counts.sum()), roles.evaluation.shards
    few = 0 if fast is None else records // max(1, fast.least_texts)
    if recipe.keep is not None or few < 1 or recipe.fast_for(records // shards.number) is not None:
        return ()
    note = (
        f"A shard holds about {records // shards.number:,} records of evaluation users, too few to encode in low "
        f"precision first. With run.shards = {few} or fewer a GPU encodes them faster, and a shard takes more memory."
    )
    return (note,)


def _measured(work: Work) -> tuple[str, ...]:
    """Say what was measured for a plan's times."""
    found = [f"{work.trial_rate:,.0f} trials a second on one worker"]
    if work.texts or work.records:
        found.append(f"{work.encode_rate:,.0f} texts encoded a second")
    if work.piece is not None:
        found.append(
            f"{1 / max(work.piece.per_record, 1e-12):,.0f} records a second on one worker of a pass: read, encoded, "
            "routed and counted"
        )
    return tuple(found)


def _assumed(
    work: Work, *, gpu: bool, nodes: int | None, price: float | None, searches: int, far_out: bool
) -> tuple[str, ...]:
    """Say what else a plan's times rest on."""
    found = [f"{CASE_SECONDS:g} s to design and judge a canary"]
    if far_out:
        found.append(
            "thresholds are exceeded by few trials; an attack that shows next to nothing, as natural ones may among "
            "many users, takes several times as long"
        )
    if searches:
        found.append(f"{SEARCH_SECONDS:g} s for a search, beside what it encodes")
    if gpu:
        found.append(
            f"an H200 encodes {GPU_TEXTS:,} short texts a second, as it does with MiniLM-L6; a larger model is slower"
        )
        if price is not None:
            found.append("a node costs the same with an H200; give that node's price to see what it costs")
    if nodes is not None and nodes > 1:
        found.append("nodes are like this machine, read users from one folder, and have run.engine = ray")
        if work.piece is None and work.trials:
            found.append("only trials are spread over nodes, for users are in memory; run.shards spreads them too")
    return tuple(found)


def _state(resolved: Resolved, folder: Path) -> tuple[Literal["new", "resumes", "finished"], int]:
    """Return what stands in a folder, and how many trials of its evaluation are done."""
    if not (folder / MANIFEST).is_file():
        return "new", 0
    run = Run.open(folder)
    refuse_other_settings(run, resolved)
    done = sum(shard.size for _, shard in Played(folder / TRIALS).done)
    return ("finished" if run.is_finished else "resumes"), done


def _nonces(inputs: Inputs) -> list[str]:
    """Return the nonces that canaries and pools will be made of, by catching them on their way to the encoder."""
    caught: list[str] = []
    config, dimension = inputs.config, inputs.encoder.dimension

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        caught.extend(texts)
        return np.ones((len(texts), dimension), dtype=np.float32)

    for attack in inputs.attacks:
        if attack.canary is CanaryKind.NONCE and attack.pool is not PoolKind.SEARCHED:
            for canary in inputs.canaries(attack, encode):
                nonce_pool(encode)(canary, config.attack.pool, config.cohorts.seed)
    return caught


def _asked(
    config: Config, cohorts: Cohorts | Roles, attacks: Sequence[Attack], generator: Generator | None
) -> GeneratorPlan:
    if generator is None:
        return GeneratorPlan(calls=0, cached=0, tokens=0)
    known, server, people = ResponseCache(response_file(generator)), server_of(generator), dict[str, Users]()
    if may_send_records(config):
        groups = [cohorts.canaries[attack.name] for attack in attacks if attack.pool is PoolKind.PARAPHRASES]
        people = {name: group.take([index]) for group in groups for index, name in enumerate(group.ids)}
    requests = list(_requests(config, people.values()))
    still_open = [request for request in requests if request.key(generator.fingerprint) not in known]
    with_records = 0 if server is None else sum(bool(request.records) for request in still_open)
    # Every record of these users, for an answer that fails its checks is asked for again, of another record too.
    senders = people.values() if with_records else ()
    return GeneratorPlan(
        calls=len(still_open),
        cached=len(requests) - len(still_open),
        # A token is about four letters.
        tokens=sum(len(request.prompt) // 4 + request.tokens for request in still_open),
        server=None if server is None else server.url,
        proxy=None if server is None else server.proxy,
        calls_with_records=with_records,
        records=len({text for person in senders for text in person.require_texts()}),
        owners=len(senders),
    )


def _requests(config: Config, people: Iterable[Users]) -> Iterator[Request]:
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
        yield from made.requests()[: math.ceil(size / ANSWER_YIELD)]
    for person in people:
        made = paraphrase_plan(
            person.require_texts(),
            config.attack.pool,
            prompt=config.attack.paraphrase_prompt,
            seed=config.cohorts.seed,
            tries=config.attack.tries,
        )
        yield from made.requests()[: math.ceil(config.attack.pool / ANSWER_YIELD)]


def _memory(config: Config, texts: int, bank: int, dimension: int, cases: int) -> float:
    """Return the memory of a run in MiB, about: its records, a bank for each canary, and trials in flight."""
    vectors = 4 * dimension
    # At the peak the vectors of all records are held four times: encoded, joined, by user and by cohort. A record takes
    # 600 bytes beside its vectors and routes: its text, its key, its place in several lists.
    records = texts * (4 * vectors + 16 * config.mechanism.k + 600)
    banks = bank * vectors * (1 + cases)
    calibration = 3 * 8 * config.audit.trials if config.audit.threshold == "calibrated" else 0
    # Python and its packages take 210 MiB.
    return 210 + _encoder_memory(config) + (records + banks + calibration) / 2**20


def _encoder_memory(config: Config) -> float:
    """Return what an encoder's weights take in MiB, of the encoder for which that was measured."""
    return 80.0 if config.encoder.name == "wordllama" else 0.0


def _process_memory(config: Config, engine: str, workers: int) -> float:
    """Return what worker processes add in MiB: Python, packages and an encoder in each, and what Ray takes itself."""
    if engine == "threads":
        return 0.0
    return workers * (WORKER_MIB + _encoder_memory(config)) + (RAY_MIB if engine == "ray" else 0.0)


def _pass_memory(config: Config, roles: Roles, recipe: EncoderRecipe, cases: int, workers: int) -> float:
    """Return what users in shards add in MiB: a shard in each worker, and of everybody an id and a few numbers.

    Where vectors are kept, each process needs a little to find them; where they are encoded in low precision first, it
    holds the routes of all cases at once.
    """
    shards, encoder = roles.evaluation.shards, recipe.load()
    largest = float(np.bincount(shards.homes, weights=shards.counts).max())
    # Bytes of a record: as above, with one cohort's vectors.
    each = 3 * 4 * encoder.dimension + 16 * config.mechanism.k + 600
    processes = 1 if config.run.engine == "threads" else workers
    index = 0 if is_cheap(encoder) else INDEX_BYTES * processes
    if recipe.fast_for(int(largest)) is not None:
        each, index = each + 4 * config.mechanism.k * cases, 0
    return (workers * largest * each + 400 * len(shards) + index) / 2**20


def trial_rate(mechanism: Mechanism, eligible: int, coordinates: int, engine: TrialEngine, number: int) -> float:
    """Return the trials a second of one worker, with so many eligible users who all touch the inspected coordinates.

    ``number`` is how many trials there will be of each hypothesis: the more, the farther out lies the threshold, and
    the fewer of them ``tail`` draws.
    """
    trials, rng = _sample(mechanism, eligible, coordinates, engine), stream(0, "plan", "rate")
    size, play = _TRIALS, trials.scores
    if isinstance(trials, Tail):
        size, play = SHARD, partial(trials.above, tail_cut(trials.law, number))
    play(True, size // 8, rng)  # noqa: FBT003, as the protocol has it
    began = time.perf_counter()
    play(True, size, rng)  # noqa: FBT003, as the protocol has it
    return size / max(time.perf_counter() - began, 1e-9)


def share_trial_rate(mechanism: Mechanism, eligible: int, coordinates: int, records: int, entries: int) -> float:
    """Return the trials a second of one worker under a secret share, measured on a few users.

    All eligible users are taken to have so many records each that are near inspected entries and rank others at random.
    """
    rng, users = stream(0, "plan", "shares"), min(_SHARE_USERS, eligible)
    depth, inspected = min(entries, ranks_needed(mechanism.k, mechanism.share)), np.arange(min(coordinates, entries))

    def voters(count: int) -> ShareVotes:
        ranked = [np.argsort(rng.random((records, entries)), axis=1)[:, :depth] for _ in range(count)]
        for rows in ranked:
            rows[0, 0] = 0  # an inspected entry, so that everybody's sets are drawn
        return ShareVotes(mechanism, inspected, tuple(ranked), (np.ones(records, dtype=np.int64),) * count)

    system = ShareSystem(voters(1), voters(users), np.ones(users, dtype=np.int64), mechanism)
    system.release(True, _SHARE_TRIALS // 8, rng)  # noqa: FBT003, as the protocol has it
    began = time.perf_counter()
    system.release(False, _SHARE_TRIALS, rng)  # noqa: FBT003, as the protocol has it
    return _SHARE_TRIALS / max((time.perf_counter() - began) * eligible / users, 1e-9)


def _share_memory(mechanism: Mechanism, texts: int, entries: int, workers: int) -> float:
    """Return what secret shares add in MiB: every record's ranking with what adds its votes up, and draws in flight."""
    if mechanism.share == 1:
        return 0.0
    depth = min(entries, ranks_needed(mechanism.k, mechanism.share))
    # A rank takes 8 bytes and up to twice 12 in the tables that add up; a draw in flight has about 32 bytes a value.
    return (32 * depth * texts + 32 * CHUNK_VALUES * workers) / 2**20


def _sample(mechanism: Mechanism, eligible: int, coordinates: int, engine: TrialEngine) -> Trials:
    rng = stream(0, "plan", "sample")
    if engine in {TrialEngine.TAIL, TrialEngine.PROJECTED}:
        law = RoundLaw(rng.normal(0.0, 0.05, eligible), 1.0, 1.0, 0.5, mechanism.q)
        return Tail(law) if engine is TrialEngine.TAIL else Projected(law)
    canary = np.full(coordinates, mechanism.clip / coordinates**0.5)
    users = csr_array(random_array((eligible, coordinates), density=0.05, rng=rng))
    users.data *= mechanism.clip
    score = LinearScore(canary, Moments(np.zeros(coordinates), mechanism.noise**2 * np.eye(coordinates)))
    system = BankSystem(users, canary, mechanism.whole_bank)
    return LiteralTrials(TorchSystem.of(system) if engine is TrialEngine.LITERAL_TORCH else system, score)
