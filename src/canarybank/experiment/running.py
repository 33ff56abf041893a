"""Run the whole audit: users, vectors, bank, designs, commitment, evaluation, results. The same command resumes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from canarybank.attack import Attack, CanaryKind
from canarybank.audit import (
    AuditResult,
    Prepared,
    Settings,
    ThresholdMode,
    TrialEngine,
    evaluation_law,
    evaluation_trials,
    find_method,
    judge,
    summarise,
)
from canarybank.encode import CachedEncoder, VectorCache, load_encoder
from canarybank.engine import Engine
from canarybank.errors import StoreError
from canarybank.experiment.admitted import People, admit_users
from canarybank.experiment.candidates import bank_labels, gather_candidates
from canarybank.experiment.commitment import Commitment, commit, differing_keys
from canarybank.experiment.config import Config, EncoderConfig
from canarybank.experiment.designs import Case, Studio, prepare_cached
from canarybank.experiment.folder import COMMITMENT, RESULTS, TRIALS, Run, opened_run
from canarybank.experiment.origins import Resolved
from canarybank.experiment.plugins import build_engine
from canarybank.experiment.pools import Pools
from canarybank.experiment.results import Results, SetupRecord, attack_record, headline_canary
from canarybank.experiment.roles import canaries_of, chosen_attacks, draw_roles
from canarybank.experiment.sending import may_send_records, sending_recorded
from canarybank.experiment.shards import ShardLog, play
from canarybank.experiment.stage_cache import StageCache
from canarybank.experiment.verification import refuse_unverified
from canarybank.experiment.writers import build_generator, cached_generator
from canarybank.experiment.written import pool_record
from canarybank.generate import Generator
from canarybank.mechanism import Bank, Mechanism, epsilon
from canarybank.progress import SILENT, Progress
from canarybank.store import canonical_json, hash_text, parse_json, write_atomic

__all__ = ["Ready", "cached_encoder", "frozen_audit", "mechanism_of", "run_audit", "settings_of"]

Told = Callable[[str], None]


def run_audit(
    resolved: Resolved,
    folder: Path | str,
    *,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    command: str = "",
    committed: Told | None = None,
) -> Run:
    """Run an audit in a folder, or go on with the one that stands there; a finished one is returned as it is.

    Args:
        resolved: The configuration with its origins.
        folder: The run's folder; made where there is none. Only one process may work on it.
        engine: Where trials run; by default on a thread for each core, or for each of ``run.workers``.
        progress: Where progress is shown.
        command: The command to name in the manifest.
        committed: Called with the commitment's hash once the commitment is on disk, before the first evaluation trial.
    """
    with opened_run(resolved, Path(folder), command) as run:
        lost = _lost(run)
        if run.is_finished and not lost:
            refuse_unverified(run, rewritten=True)
            return run
        work = _work(resolved, engine, progress)
        with sending_recorded(run, work.config, work.generator):
            ready = work.freeze()
        run.require_folder()
        if lost:
            _restore(run, lost, work, ready)
            return run
        commitment = _committed(run, work.commitment(ready))
        if committed is not None:
            committed(commitment.hash)
        log = ShardLog(run.folder / TRIALS, commitment.hash, run.require_folder)
        results = work.evaluate(ready, commitment.hash, log)
        run.require_folder()
        run.write_results(results)
        stages = {"made": dict(work.cache.made), "found": dict(work.cache.found)}
        run.finish(commitment=commitment.hash, stages=stages)
    return run


def _lost(run: Run) -> list[str]:
    """Return which documents a finished run has lost, of those that can be made again the same to the byte."""
    return [name for name in (COMMITMENT, RESULTS) if run.is_finished and not (run.folder / name).exists()]


def _restore(run: Run, lost: Sequence[str], work: "_Work", ready: "Ready") -> None:
    """Make the lost documents of a finished run again, and put them back if they are what was sealed."""
    digest = run.manifest.commitment or ""
    texts = {COMMITMENT: work.commitment(ready).text()}
    if RESULTS in lost and (run.folder / TRIALS).exists():
        texts[RESULTS] = work.evaluate(ready, digest, ShardLog(run.folder / TRIALS, digest)).text()
    for name in lost:
        if hash_text(texts.get(name, "")) != run.manifest.files.get(name):
            raise StoreError(
                f"{name} is missing from the finished run in {str(run.folder)!r}, and what is made again is another "
                "one: the users, the bank, a model, the trials or canarybank itself changed since. Restore it from a "
                "copy, or run the audit in another folder."
            )
        write_atomic(run.folder / name, texts[name])
    refuse_unverified(run, rewritten=True)


def frozen_audit(resolved: Resolved, *, engine: Engine | None = None, progress: Progress = SILENT) -> "Ready":
    """Return everything that stands before the evaluation; what a run made before is taken from the caches."""
    return _work(resolved, engine, progress).freeze()


def mechanism_of(config: Config) -> Mechanism:
    """Return the mechanism that a configuration describes."""
    return Mechanism(**config.mechanism.model_dump())


def settings_of(config: Config) -> Settings:
    """Return the declaration that a configuration makes."""
    audit = config.audit
    return Settings(
        trials=audit.trials,
        alpha=audit.alpha,
        method=find_method(audit.method),
        threshold=ThresholdMode(audit.threshold),
        engine=TrialEngine(audit.engine),
        seed=config.run.seed,
    )


def cached_encoder(config: EncoderConfig, progress: Progress = SILENT, *, isolated: bool = False) -> CachedEncoder:
    """Return the encoder that a configuration names, behind the vector cache.

    With ``isolated`` a vector depends on its own text alone, to the bit, as a release from real users needs it.
    """
    encoder = load_encoder(
        config.name,
        device=config.device,
        batch_size=config.batch_size,
        precision=config.precision,
        isolated=isolated,
    )
    return CachedEncoder(encoder, VectorCache(), progress=progress)


@dataclass(frozen=True)
class Ready:
    """Everything that stands before the evaluation."""

    people: People
    encoder: CachedEncoder
    prepared: Prepared
    cases: Mapping[str, Sequence[Case]]
    notes: tuple[str, ...]
    bank_counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Work:
    """The stages of one audit, in their order."""

    config: Config
    engine: Engine
    progress: Progress
    cache: StageCache
    generator: Generator | None

    def freeze(self) -> Ready:
        """Walk from users to frozen rules."""
        config, progress, generator = self.config, self.progress, self.generator
        attacks, left_out = chosen_attacks(config)
        if config.bank.source == "generate":
            bank_labels(config.bank, config.users)  # before users are read: what is not declared cannot be generated
        people = admit_users(config.users, config.cohorts, self.cache, progress)
        encoder = cached_encoder(config.encoder, progress)
        cohorts = draw_roles(config.cohorts, people.users, attacks).encoded(encoder.encode)
        candidates = gather_candidates(config.bank, config.users, generator, self.cache, progress=progress)
        vectors = encoder.encode(candidates.texts)
        bank = Bank(vectors, candidates.texts).reserve(config.attack.probes, config.cohorts.seed)
        prepared = prepare_cached(cohorts, bank, mechanism_of(config), self.cache, progress)
        writer = generator if may_send_records(config) else None
        pools = Pools.of(config.attack, encoder, writer, self.cache, progress)
        chosen = {attack: canaries_of(attack, cohorts, config.cohorts, encoder.encode) for attack in attacks}
        cases = self._cases(prepared, chosen, pools)
        notes = (*people.notes, *candidates.notes, *left_out)
        return Ready(people, encoder, prepared, cases, notes, candidates.counters)

    def commitment(self, ready: Ready) -> Commitment:
        """Return the commitment to the frozen rules."""
        return commit(self.config, ready.encoder.fingerprint, ready.prepared, settings_of(self.config), ready.cases)

    def evaluate(self, ready: Ready, commitment: str, log: ShardLog) -> Results:
        """Play the trials and judge them."""
        settings, prepared = settings_of(self.config), ready.prepared

        def source(case: Case) -> Any:
            return evaluation_trials(case.frozen.design, prepared.evaluation, prepared.mechanism, settings)

        cases = [case for group in ready.cases.values() for case in group]
        play(
            cases,
            source,
            log,
            trials=settings.trials,
            seed=settings.seed,
            engine=self.engine,
            progress=self.progress,
        )
        with self.progress.stage("judging", total=len(cases), unit="canaries") as stage:
            records = []
            for name, group in ready.cases.items():
                records.append(self._judged(name, group, ready, log))
                stage.advance(len(group))
        return Results(
            commitment=commitment,
            setup=self._setup(ready),
            mechanism=self.config.mechanism,
            audit=self.config.audit,
            seed=settings.seed,
            epsilon=epsilon(prepared.mechanism),
            attacks=tuple(records),
            notes=ready.notes,
        )

    def _cases(
        self, prepared: Prepared, chosen: Mapping[Attack, Sequence[Any]], pools: Pools
    ) -> Mapping[str, Sequence[Case]]:
        config = self.config
        settings, seed, canaries = settings_of(config), config.cohorts.seed, config.cohorts.canaries
        studio = Studio(prepared, settings, seed, canaries, self.cache, self.engine)
        cases: dict[str, list[Case]] = {attack.name: [] for attack in chosen}
        with self.progress.stage("designing", total=canaries * len(chosen), unit="canaries") as stage:
            for attack, group in chosen.items():
                for index, canary in enumerate(group):
                    pool = pools.make(attack, canary, config.attack.pool, seed)
                    cases[attack.name].append(studio.case(attack, index, canary, pool))
                    stage.advance(1, note=f"{attack.name} canary {index}")
        return cases

    def _judged(self, name: str, cases: Sequence[Case], ready: Ready, log: ShardLog) -> Any:
        from canarybank.experiment.evidence import evidence

        prepared, settings = ready.prepared, settings_of(self.config)
        mechanism = prepared.mechanism
        laws = [evaluation_law(case.frozen.design, prepared.evaluation, mechanism) for case in cases]
        counts = [log.counts((name, case.index)) for case in cases]
        found = [
            judge(case.frozen, law, each, mechanism, settings, canaries=len(cases))
            for case, law, each in zip(cases, laws, counts, strict=True)
        ]
        accounted, eligible = self.config.audit.accounted, prepared.eligible
        result: AuditResult = summarise(
            name, found, mechanism, settings, eligible=eligible, accounted=accounted, notes=_notes(cases)
        )
        best = headline_canary(result)
        shown = evidence(cases[best].frozen, laws[best], prepared.auxiliary, mechanism, settings.seed)
        pools = [pool_record(case.frozen.design.pool) for case in cases]
        return attack_record(cases[0].attack, result, parse_json(canonical_json(shown), "evidence"), pools)

    def _setup(self, ready: Ready) -> SetupRecord:
        prepared = ready.prepared
        return SetupRecord(
            users=dict(ready.people.report),
            auxiliary=len(prepared.auxiliary),
            calibration=len(prepared.calibration),
            evaluation=len(prepared.evaluation),
            canaries=self.config.cohorts.canaries,
            records=int(ready.people.users.counts.max()),
            encoder=ready.encoder.name,
            encoder_fingerprint=ready.encoder.fingerprint,
            dimension=ready.encoder.dimension,
            bank=prepared.bank.size,
            bank_hash=prepared.bank.hash,
            bank_counters=dict(ready.bank_counters),
            probes=len(prepared.bank.reserved),
        )


def _work(resolved: Resolved, engine: Engine | None, progress: Progress) -> _Work:
    config = resolved.config
    made = build_generator(config)
    generator = None if made is None else cached_generator(made)
    return _Work(config, engine or build_engine(config.run), progress, StageCache(), generator)


def _notes(cases: Sequence[Case]) -> tuple[str, ...]:
    if cases[0].attack.canary is CanaryKind.NONCE:
        return (
            "The canaries are made of nonces, not people: this shows what the mechanism allows, not what users risk.",
        )
    return ()


def _committed(run: Run, made: Commitment) -> Commitment:
    """Put the commitment on disk, or hold the run to the one that is there."""
    path = run.folder / COMMITMENT
    if not path.exists():
        run.write_commitment(made)
        return made
    kept = run.commitment
    made = made.in_layout(kept.schema_version)
    if kept != made:
        keys = differing_keys(kept.model_dump(mode="json"), made.model_dump(mode="json"))
        raise StoreError(
            f"What this command would commit to is not what {str(path)!r} says; it differs at {', '.join(keys[:5])}. "
            "The users, the "
            "bank, a model or canarybank itself changed since the run began; bring them back, or start another run."
        )
    return kept
