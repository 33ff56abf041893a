"""Run audits in a folder: of one release, or of the rounds of an evolution. The same command resumes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from canarybank.attack import Attack, Canary, CanaryKind, Design, Pool, PoolKind, follow
from canarybank.auditing import (
    AttackResult,
    Auditor,
    Case,
    Routes,
    Settings,
    Tally,
    ThresholdMode,
    TrialEngine,
    evidence,
    find_method,
    route_cohort,
    route_cohorts,
    search_canary,
    transcript_scores,
)
from canarybank.auditing.ports import Place, Systems
from canarybank.config import Config, EvolveConfig, Resolved, decisive, flatten
from canarybank.defend import Screen, Vetting
from canarybank.engine import Engine
from canarybank.errors import ConfigError, InputError, MissingError, StoreError
from canarybank.evolution import Evolution, EvolutionPlan, Keep
from canarybank.flow.generators import build_generator, cached_generator, sending_recorded
from canarybank.flow.inputs import Inputs, build_engine, chosen_attacks, connect_engine, gather
from canarybank.flow.sharding import Roles
from canarybank.mechanism import Bank, Mechanism, StreamedCohort, epsilon, prv_epsilon
from canarybank.progress import SILENT, Progress
from canarybank.registry import SYSTEMS
from canarybank.run.commitment import Commitment, commit, finite
from canarybank.run.folder import COMMITMENT, RESULTS, TRIALS, Run, keep_defaults
from canarybank.run.one_run import OneRunPlant
from canarybank.run.plant import Plant
from canarybank.run.results import Results, Setup
from canarybank.run.trials_log import ShardLog
from canarybank.run.verification import refuse_unverified
from canarybank.store import StageCache, canonical_json, differences, hash_json, hash_text, parse_json, write_atomic
from canarybank.systems.mechanism import ReleaseSystem
from canarybank.users import Calibration, Cohorts, Evaluation

__all__ = [
    "AuditWork",
    "Designs",
    "case_notes",
    "hold_to",
    "lost_documents",
    "mechanism_of",
    "one_release",
    "restore",
    "run_audit",
    "settings_of",
]

Told = Callable[[str], None]
Made = TypeVar("Made", Commitment, Plant, OneRunPlant)
_NONCES = "The canaries are made of nonces, not people: this shows what the mechanism allows, not what users risk."
_SEARCHED = "The canaries are texts that a search found, not people: this shows what the mechanism allows."


def run_audit(
    resolved: Resolved,
    folder: Path | str,
    *,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    command: str = "",
    committed: Told | None = None,
    make_work: Callable[[], "AuditWork"] | None = None,
) -> Run:
    """Run an audit in a folder, or go on with the one that stands there; a finished one is returned as it is.

    Args:
        resolved: The configuration with its origins.
        folder: The run's folder; made where there is none. Only one process may work on it.
        engine: Where trials run; by default on a thread for each core, or for each of ``run.workers``.
        progress: Where progress is shown.
        command: The command to name in the manifest.
        committed: Called with the commitment's hash once the commitment is on disk, before the first evaluation trial.
        make_work: Returns the work of this very configuration, where the caller goes on with it; it is called only if
            something is left to do.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "attack.names": "ordinary"}
        >>> small = {"attack.probes": 12, "cohorts.canaries": 1, "audit.trials": 500}
        >>> run = run_audit(resolve_users("my-users.csv", flags | small), "runs/mine")
        >>> [attack.attack for attack in run.results.final]
        ['ordinary']
    """
    if (own := keep_defaults(resolved, folder)) is not resolved:
        resolved, make_work = own, None
    config = resolved.config
    _refuse_search_at_delta_0(config)
    with Run.held(resolved, Path(folder), command, "audit") as run:
        lost = lost_documents(run)
        if run.is_finished and not lost:
            refuse_unverified(run, rewritten=True)
            return run
        work = one_release(config, engine, progress) if make_work is None else make_work()
        with sending_recorded(run, config, work.inputs.generator):
            _ = work.cases
        run.require_folder()
        if lost:
            path, sealed = run.folder / TRIALS, run.manifest.commitment or ""
            restore(run, lost, work.commitment, lambda: work.results(work.commitment, ShardLog(path, sealed)))
            return run
        commitment = hold_to(run, work.commitment, committed)
        results = work.results(commitment, ShardLog(run.folder / TRIALS, commitment.hash, run.require_folder))
        run.write(RESULTS, results)
        cache = work.inputs.cache
        run.finish(commitment=commitment.hash, stages={"made": dict(cache.made), "found": dict(cache.found)})
    return run


def _refuse_search_at_delta_0(config: Config) -> None:
    """Refuse a search for the largest exact epsilon where every one is infinite."""
    if config.mechanism.delta > 0:
        return
    attacks, _ = chosen_attacks(config)
    searching = [attack.name for attack in attacks if attack.pool is PoolKind.SEARCHED]
    if searching:
        others = [attack.name for attack in attacks if attack.name not in searching] or ["ordinary", "exact"]
        raise ConfigError(
            f"mechanism.delta is 0, and at delta 0 the epsilon of Gaussian noise is infinite, so the attack "
            f"{searching[0]} has nothing to search for. Set mechanism.delta, for example 1e-5, or name other attacks: "
            f"--attack.names {','.join(others)}."
        )


def one_release(config: Config, engine: Engine | None = None, progress: Progress = SILENT) -> "AuditWork":
    """Return the audit of one release; each part of it is made when it is first asked for."""
    engine = connect_engine(engine or build_engine(config.run))
    made = build_generator(config, engine)
    inputs = gather(config, StageCache(), None if made is None else cached_generator(made), progress)
    return AuditWork(Designs(inputs, mechanism_of(config), engine))


def mechanism_of(config: Config) -> Mechanism:
    """Return the mechanism that a configuration describes.

    Args:
        config: The configuration; its section ``mechanism`` counts.

    Example:
        >>> from canarybank.config import resolve
        >>> mechanism_of(resolve(flags={"mechanism.sigma": 2}).config).sigma
        2.0
    """
    return Mechanism(**config.mechanism.model_dump())


def room_for_probes(config: EvolveConfig, mechanism: Mechanism, size: int, probes: int) -> int:
    """Return how many entries the smallest bank of an evolution has whose first has ``size``, so many of them probes.

    A probe stands at one position in all of its banks, so it must stand among these.
    """
    keep = Keep(config.share, config.keep)
    plan = EvolutionPlan(mechanism, config.rounds, keep=keep, new=config.new, carry=config.carry)
    return plan.fewest_entries(size, probes)


def settings_of(config: Config) -> Settings:
    """Return the declaration that a configuration makes.

    Args:
        config: The configuration; its section ``audit`` and ``run.seed`` count.

    Example:
        >>> from canarybank.config import resolve
        >>> settings = settings_of(resolve(flags={"audit.trials": 10_000}).config)
        >>> settings.trials, settings.alpha, settings.method.name
        (10000, 0.05, 'paper')
    """
    audit = config.audit
    return Settings(
        trials=audit.trials,
        alpha=audit.alpha,
        method=find_method(audit.method),
        threshold=ThresholdMode(audit.threshold),
        engine=TrialEngine(audit.engine),
        seed=config.run.seed,
    )


@dataclass(frozen=True)
class Designs:
    """The attacks of an audit, designed on the first bank from public things and the auxiliary users alone."""

    inputs: Inputs
    mechanism: Mechanism
    engine: Engine

    @cached_property
    def auditor(self) -> Auditor:
        """Return what the audit is declared with, and its ports."""
        inputs = self.inputs
        return Auditor(
            self.mechanism,
            settings_of(inputs.config),
            len(inputs.roles.evaluation),
            SYSTEMS.find(inputs.config.audit.system),
            memo=inputs.cache,
            engine=self.engine,
            progress=inputs.progress,
        )

    @cached_property
    def canaries(self) -> list[tuple[Attack, int]]:
        """Return every attack and the index of every canary of it, in their order."""
        config = self.inputs.config
        most = config.evolve.canaries if self.inputs.evolving else config.cohorts.canaries
        return [(attack, index) for attack in self.inputs.attacks for index in range(most)]

    @cached_property
    def bank(self) -> Bank:
        """Return the bank with the positions for probes reserved; an evolution's holds the probes of all canaries."""
        config, count, within = self.inputs.config, self.inputs.config.attack.probes, None
        if self.inputs.evolving:
            count *= sum(attack.active for attack, _ in self.canaries)
            size = self.inputs.bank.size
            within = room_for_probes(config.evolve, self.mechanism, size, count) if count < size else None
        return self.inputs.bank.reserve(count, config.cohorts.seed, within)

    @cached_property
    def routes(self) -> Routes:
        """Return the cohorts, routed over the first bank."""
        return self.route(self.bank, self.inputs.progress)

    def route(self, bank: Bank, progress: Progress = SILENT) -> Routes:
        """Return the cohorts, routed over a bank; those that are in shards are routed when they are asked."""
        inputs, k, roles = self.inputs, self.mechanism.k, self.inputs.roles
        if not isinstance(roles, Roles):
            return route_cohorts(inputs.cohorts, bank, k, inputs.cache, progress)
        over = (inputs.recipe, self.engine, inputs.cache, inputs.progress)
        return Routes(
            bank,
            route_cohort(inputs.auxiliary, bank, k, inputs.cache, progress),
            StreamedCohort(Calibration, roles.calibration, *over),
            StreamedCohort(Evaluation, roles.evaluation, *over),
            inputs.cache,
        )

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Return each attack on each canary, its threshold still to be frozen."""
        inputs, config, places, cases = self.inputs, self.inputs.config, self.bank.reserved, []
        with inputs.progress.stage("designing", total=len(self.canaries), unit="canaries") as stage:
            for attack, index in self.canaries:
                routes, probes = self.routes, None
                if inputs.evolving and attack.active:
                    # The banks of an evolution are shared: every canary has positions of its own in them.
                    routes, probes = replace(routes, bank=replace(self.bank, reserved=places)), config.attack.probes
                    places = (*places[probes:], *places[:probes])
                canary, pool = self._canary(attack, index, routes, probes)
                made = self.auditor.design(attack, canary, pool, routes, config.cohorts.seed, probes=probes)
                if config.bank.vet and not inputs.evolving:  # an evolution vets the banks of its rounds
                    made = self._vetted(made)
                cases.append(Case.of(index, made, summed=inputs.evolving))
                stage.advance(1, note=f"{attack.name} canary {index}")
        return tuple(cases)

    def _vetted(self, made: Design) -> Design:
        """Return the design over its bank without what vetting names; its score is frozen again."""
        auditor, bank = self.auditor, made.bank.bar(Vetting.load().barred(made.bank, k=self.mechanism.k))
        return follow(made, bank, self.routes.auxiliary, auditor.mechanism.whole_bank, eligible=auditor.eligible)

    @cached_property
    def _drawn(self) -> dict[str, list[Canary]]:
        """Return the canaries of the attacks that do not search."""
        inputs = self.inputs
        return {each.name: inputs.canaries(each) for each in inputs.attacks if each.pool is not PoolKind.SEARCHED}

    def _canary(self, attack: Attack, index: int, routes: Routes, probes: int | None) -> tuple[Canary, Pool | None]:
        """Return a canary of an attack and the candidate probes for it."""
        inputs = self.inputs
        if attack.pool is not PoolKind.SEARCHED:
            canary = self._drawn[attack.name][index]
            return canary, inputs.pool(attack, canary)
        return search_canary(
            self.auditor,
            attack,
            routes,
            index=index,
            records=inputs.roles.canary_records,
            seed=inputs.config.cohorts.seed,
            encode=inputs.encoder.encode,
            vocabulary=inputs.encoder.vocabulary(),
            encoder=inputs.encoder.fingerprint,
            probes=probes,
            screen=self._screen,
        )

    @cached_property
    def _screen(self) -> Screen | None:
        """Return what planted texts must pass where the bank is vetted: an attacker knows the defence."""
        return Vetting.load().screen(self.bank, k=self.mechanism.k) if self.inputs.config.bank.vet else None

    @cached_property
    def planted(self) -> Bank:
        """Return the first bank with the probes of all canaries in it."""
        designs = [case.designs[0] for case in self.cases if case.attack.active]
        probes = {int(place): each.bank for each in designs for place in each.inspected}
        if not probes:
            return self.bank
        ordered = (*probes, *(place for place in self.bank.reserved if place not in probes))
        vectors = [bank.vectors[place] for place, bank in probes.items()]
        texts = [(bank.texts or ())[place] for place, bank in probes.items()]
        filled = replace(self.bank, reserved=ordered).with_probes(vectors, texts)
        return replace(filled, reserved=self.bank.reserved)


@dataclass(frozen=True)
class AuditWork:
    """An audit from its designs to its results: of one release, or of the banks that an evolution realised."""

    designs: Designs
    evolution: Evolution | None = None

    @property
    def inputs(self) -> Inputs:
        """Return what the audit starts from."""
        return self.designs.inputs

    @property
    def auditor(self) -> Auditor:
        """Return what the audit is declared with, and its ports."""
        return self.designs.auditor

    @property
    def rounds(self) -> int:
        """Return the number of releases."""
        return 1 if self.evolution is None else len(self.evolution.rounds)

    @cached_property
    def routes(self) -> Sequence[Routes]:
        """Return the cohorts, routed over the bank of every round."""
        if self.evolution is None:
            return [self.designs.routes]
        inputs, made = self.inputs, []
        with inputs.progress.stage("routing", total=self.rounds, unit="rounds") as stage:
            for each in self.evolution.rounds:
                made.append(self.designs.route(each.bank))
                stage.advance()
        return made

    @cached_property
    def _designed(self) -> tuple[Case, ...]:
        """Return the cases over the banks of every round, their thresholds still to be frozen."""
        cases = self.designs.cases
        return cases if self.evolution is None else tuple(self._followed(case) for case in cases)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Return the frozen cases, over the banks of every round."""
        system = self.inputs.config.audit.system
        encoded = [] if self.inputs.shards is None else self.inputs.recipe.key
        key = hash_json([self.routes[0].calibration.hash, system, str(SYSTEMS.pin(system)), *encoded])
        return self.auditor.freeze(self._designed, self.calibration, calibration=key)

    @cached_property
    def calibration(self) -> Systems:
        """Return the systems on which thresholds are frozen; those of a case are made once, unless users are many.

        They stand for as many users as are evaluated: of users in shards, memory holds those of one case at a time.
        """
        make, made = self.auditor.calibration(self.routes, self._designed), dict[Place, Sequence[ReleaseSystem]]()
        if self.inputs.shards is not None:
            return make

        def systems(case: Case) -> Sequence[ReleaseSystem]:
            if case.place not in made:
                made[case.place] = make(case)
            return made[case.place]

        return systems

    @cached_property
    def evaluation(self) -> Systems:
        """Return the systems that are judged; those of a case are made once."""
        return self.auditor.evaluation(self.routes, self.cases)

    def _followed(self, case: Case) -> Case:
        """Return a case of the first bank over the banks of every round, which hold its probes."""
        first, auditor = case.designs[0], self.auditor
        over = [
            follow(first, each.bank, each.auxiliary, auditor.mechanism, eligible=auditor.eligible)
            for each in self.routes
        ]
        return Case.of(case.index, *over, summed=True)

    @cached_property
    def commitment(self) -> Commitment:
        """Return the commitment to the frozen rules."""
        config, bank, exact = self.inputs.config, self.designs.bank, epsilon(self.designs.mechanism, self.rounds)
        return commit(
            self.auditor,
            self.cases,
            _digests(self.inputs.roles),
            settings_hash=hash_json(decisive(flatten(config), "evolution" if self.inputs.evolving else "audit")),
            encoder=self.inputs.encoder.fingerprint,
            bank_hash=bank.hash,
            reserved=bank.reserved,
            method=config.audit.method,
            system=config.audit.system,
            exact=finite(exact),
            claimed=finite(exact if config.audit.accounted is None else config.audit.accounted),
        )

    def attacks(self, tally: Tally) -> tuple[AttackResult, ...]:
        """Play the trials that the tally lacks, and judge them."""
        auditor, evaluation = self.auditor, self.evaluation
        auditor.play(self.cases, evaluation, tally)

        def shown(case: Case, law: Any) -> dict[str, Any]:
            found = evidence(case, law, self.routes[-1].auxiliary, self.designs.mechanism, auditor.settings.seed)
            return dict(parse_json(canonical_json(found), "evidence"))

        own = None
        if self.evolution is not None:
            releases = [each.release for each in self.evolution.rounds]
            own = {case.place: transcript_scores(case.designs, releases, auditor.mechanism.q) for case in self.cases}
        return auditor.judge(
            self.cases,
            evaluation,
            tally,
            accounted=self._accounted,
            run_scores=own,
            evidence=shown,
            notes=case_notes,
        )

    def _accounted(self, rounds: int) -> tuple[float, str] | None:
        stated = self.inputs.config.audit.accounted
        if stated is not None and rounds == self.rounds:
            return stated, "the operator's accountant"
        if self.evolution is None:
            return None
        try:
            return prv_epsilon(self.designs.mechanism, rounds), "Opacus's PRV accountant, the upper end of its band"
        except (InputError, MissingError):  # it stands beside the exact figure, for parity alone
            return None

    def results(self, commitment: Commitment, tally: Tally, **facts: Any) -> Results:
        """Play, judge, and return all that was found, with the facts that only the caller knows."""
        inputs, bank, config = self.inputs, self.designs.bank, self.inputs.config
        setup = Setup(
            users=dict(inputs.people.report),
            auxiliary=len(inputs.roles.auxiliary),
            calibration=len(inputs.roles.calibration),
            evaluation=len(inputs.roles.evaluation),
            canaries=config.evolve.canaries if inputs.evolving else config.cohorts.canaries,
            records=int(inputs.people.users.counts.max()),
            encoder=inputs.encoder.name,
            encoder_fingerprint=inputs.encoder.fingerprint,
            dimension=inputs.encoder.dimension,
            bank=bank.size,
            bank_hash=bank.hash,
            bank_counters=dict(inputs.candidates.counters),
            probes=len(bank.reserved),
        )
        return Results(
            commitment=commitment.hash,
            setup=setup,
            mechanism=self.designs.mechanism,
            audit=config.audit,
            seed=self.auditor.settings.seed,
            rounds=self.rounds,
            epsilon=epsilon(self.designs.mechanism, self.rounds),
            attacks=self.attacks(tally),
            **{"notes": inputs.notes, **facts},
        )


def _digests(roles: Cohorts | Roles) -> dict[str, str]:
    """Return the digest of each cohort's users and records."""
    if isinstance(roles, Roles):
        return {name: getattr(roles, name).digest for name in ("auxiliary", "calibration", "evaluation")}
    return {name: getattr(roles, name).users.digest for name in ("auxiliary", "calibration", "evaluation")}


def case_notes(case: Case) -> tuple[str, ...]:
    """Return what a reader should know of an attack's canaries, and of the bank that they vote on."""
    said = list[str]()
    if case.attack.canary is CanaryKind.NONCE:
        said.append(_SEARCHED if case.attack.pool is PoolKind.SEARCHED else _NONCES)
    bank = case.designs[-1].bank if case.designs else None
    if bank is not None and bank.barred:
        probes = len(set(bank.barred) & set(bank.reserved))
        said.append(
            f"Vetting barred {len(bank.barred):,} of {bank.size:,} entries of the first canary's bank before the vote, "
            f"{probes} of {len(bank.reserved)} probes among them."
            + ("" if case.attack.pool is PoolKind.SEARCHED else " Texts that pass vetting reach more.")
        )
    return tuple(said)


def hold_to(run: Run, made: Made, committed: Told | None = None) -> Made:
    """Put the commitment on disk, or hold the run to the one that is there."""
    path = run.folder / COMMITMENT
    if not path.exists():
        run.write(COMMITMENT, made)
    elif (kept := run.committed) != made:
        keys = list(differences(kept.model_dump(mode="json"), made.model_dump(mode="json")))
        raise StoreError(
            f"What this command would commit to is not what {str(path)!r} says; it differs at {', '.join(keys[:5])}. "
            "The users, the bank, a model or canarybank itself changed since the run began; bring them back, or start "
            "another run."
        )
    if committed is not None:
        committed(made.hash)
    return made


def lost_documents(run: Run) -> list[str]:
    """Return the documents that a finished run has lost and that can be made again, the same to the byte."""
    return [name for name in (COMMITMENT, RESULTS) if run.is_finished and not (run.folder / name).exists()]


def restore(run: Run, lost: Sequence[str], made: Commitment, results: Callable[[], Results]) -> None:
    """Make the lost documents of a finished run again, and put them back if they are what was sealed."""
    texts = {COMMITMENT: made.text()}
    if RESULTS in lost and (run.folder / TRIALS).exists():
        texts[RESULTS] = results().text()
    for name in lost:
        if hash_text(texts.get(name, "")) != run.manifest.files.get(name):
            raise StoreError(
                f"{name} is missing from the finished run in {str(run.folder)!r}, and what is made again is another "
                "one: the users, the bank, a model, the trials or canarybank itself changed since. Restore it from a "
                "copy, or run the audit in another folder."
            )
        write_atomic(run.folder / name, texts[name])
    refuse_unverified(run, rewritten=True)
