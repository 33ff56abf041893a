"""Run audits in a folder: of one release, or of the rounds of an evolution. The same command resumes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from canarybank.attack import Attack, Canary, CanaryKind
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
    follow,
    route_cohorts,
    transcript_scores,
)
from canarybank.config.loading import Resolved, decisive, flatten
from canarybank.config.model import Config
from canarybank.config.plugins import build_engine
from canarybank.engine import Engine
from canarybank.errors import InputError, MissingError, StoreError
from canarybank.evolution import Evolution
from canarybank.flow.generators import build_generator, cached_generator
from canarybank.flow.inputs import Inputs, gather
from canarybank.flow.sending import sending_recorded
from canarybank.mechanism import Bank, Mechanism, epsilon, prv_epsilon
from canarybank.progress import SILENT, Progress
from canarybank.registry import SYSTEMS
from canarybank.run.commitment import Commitment, commit, finite
from canarybank.run.folder import COMMITMENT, RESULTS, TRIALS, Run
from canarybank.run.results import Results, Setup
from canarybank.run.trials_log import ShardLog
from canarybank.run.verification import refuse_unverified
from canarybank.store import StageCache, canonical_json, differences, hash_json, hash_text, parse_json, write_atomic
from canarybank.systems import SystemFactory  # noqa: TC001, cached properties say their types

__all__ = [
    "CONDITIONAL",
    "AuditWork",
    "frozen_audit",
    "hold_to",
    "lost_documents",
    "mechanism_of",
    "restore",
    "run_audit",
    "settings_of",
]

Told = Callable[[str], None]
CONDITIONAL = (
    "The claim is conditional on the banks that this run realised: a trial makes one independent release over each of "
    "these banks, held fixed, and does not evolve. Each round's score is built on the bank that the run's own releases "
    "before it led to. So the claim does not cover what a user's presence does to later banks; another run would have "
    "other banks and figures."
)
_SHARED = ("auditor", "canaries", "bank", "first_routes", "designed", "planted")
_NONCES = "The canaries are made of nonces, not people: this shows what the mechanism allows, not what users risk."


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
    config = resolved.config
    with Run.held(resolved, Path(folder), command, "audit") as run:
        lost = lost_documents(run)
        if run.is_finished and not lost:
            refuse_unverified(run, rewritten=True)
            return run
        work = _one_release(config, engine, progress)
        with sending_recorded(run, config, work.inputs.generator):
            _ = work.cases
        run.require_folder()
        if lost:
            log = partial(ShardLog, run.folder / TRIALS, run.manifest.commitment or "")
            restore(run, lost, work.commitment, lambda: work.results(work.commitment, log()))
            return run
        commitment = hold_to(run, work.commitment, committed)
        results = work.results(commitment, ShardLog(run.folder / TRIALS, commitment.hash, run.require_folder))
        run.write(RESULTS, results)
        cache = work.inputs.cache
        run.finish(commitment=commitment.hash, stages={"made": dict(cache.made), "found": dict(cache.found)})
    return run


def frozen_audit(resolved: Resolved, *, engine: Engine | None = None, progress: Progress = SILENT) -> "AuditWork":
    """Return an audit of one release with everything that stands before its trials frozen."""
    work = _one_release(resolved.config, engine, progress)
    _ = work.cases
    return work


def _one_release(config: Config, engine: Engine | None, progress: Progress) -> "AuditWork":
    made = build_generator(config)
    inputs = gather(config, StageCache(), None if made is None else cached_generator(made), progress)
    return AuditWork(inputs, mechanism_of(config), engine or build_engine(config.run))


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


@dataclass(frozen=True)
class AuditWork:
    """An audit from its inputs to its results: of one release, or of the banks that an evolution realised."""

    inputs: Inputs
    mechanism: Mechanism
    engine: Engine
    evolution: Evolution | None = None

    def over(self, evolution: Evolution) -> "AuditWork":
        """Return the audit of the banks that an evolution realised, from what was designed on its first one."""
        made = replace(self, evolution=evolution)
        made.__dict__.update({name: self.__dict__[name] for name in _SHARED if name in self.__dict__})
        return made

    @property
    def config(self) -> Config:
        """Return the configuration."""
        return self.inputs.config

    @cached_property
    def auditor(self) -> Auditor:
        """Return what the audit is declared with, and its ports."""
        system: SystemFactory = SYSTEMS.find(self.config.audit.system)
        return Auditor(
            self.mechanism,
            settings_of(self.config),
            len(self.inputs.roles.evaluation) if self.inputs.roles is not None else 0,
            system,
            memo=self.inputs.cache,
            engine=self.engine,
            progress=self.inputs.progress,
        )

    @cached_property
    def canaries(self) -> list[tuple[Attack, int, Canary]]:
        """Return every attack on every canary of it, in their order."""
        inputs, most = self.inputs, self.config.evolve.canaries if self.inputs.evolving else None
        return [
            (attack, index, canary)
            for attack in inputs.attacks
            for index, canary in enumerate(inputs.canaries(attack)[:most])
        ]

    @cached_property
    def bank(self) -> Bank:
        """Return the bank with the positions for probes reserved; an evolution's hold the probes of all canaries."""
        count = self.config.attack.probes
        if self.inputs.evolving:
            count *= sum(attack.active for attack, _, _ in self.canaries)
        return self.inputs.bank.reserve(count, self.config.cohorts.seed)

    @cached_property
    def first_routes(self) -> Routes:
        """Return the cohorts, routed over the first bank."""
        inputs = self.inputs
        return route_cohorts(inputs.cohorts, self.bank, self.mechanism.k, inputs.cache, inputs.progress)

    @cached_property
    def designed(self) -> tuple[Case, ...]:
        """Return the cases on the first bank, their thresholds still to be frozen."""
        inputs, seed, cases = self.inputs, self.config.cohorts.seed, []
        with inputs.progress.stage("designing", total=len(self.canaries), unit="canaries") as stage:
            planted = 0
            for attack, index, canary in self.canaries:
                routes, probes = self.first_routes, None
                if inputs.evolving and attack.active:
                    # Every canary has positions of its own in the banks that all of them share.
                    probes, places = self.config.attack.probes, self.bank.reserved
                    turned = (*places[planted:], *places[:planted])
                    routes, planted = replace(routes, bank=replace(self.bank, reserved=turned)), planted + probes
                pool = inputs.pool(attack, canary)
                made = self.auditor.design(attack, canary, pool, routes, seed, probes=probes)
                cases.append(Case.of(index, made, summed=inputs.evolving))
                stage.advance(1, note=f"{attack.name} canary {index}")
        return tuple(cases)

    @cached_property
    def planted(self) -> Bank:
        """Return the first bank with the probes of all canaries in it."""
        bank = self.bank
        if not bank.reserved:
            return bank
        entries = {
            int(p): case.designs[0].bank
            for case in self.designed
            for p in case.designs[0].inspected
            if case.attack.active
        }
        order = [place for place in bank.reserved if place in entries]
        shuffled = replace(bank, reserved=(*order, *(p for p in bank.reserved if p not in entries)))
        texts = [(entries[p].texts or ())[p] for p in order]
        filled = shuffled.with_probes([entries[p].vectors[p] for p in order], texts)
        return replace(filled, reserved=bank.reserved)

    @cached_property
    def routes(self) -> Sequence[Routes]:
        """Return the cohorts, routed over the bank of every round."""
        if self.evolution is None:
            return [self.first_routes]
        cohorts, k, made = self.inputs.cohorts, self.mechanism.k, []
        with self.inputs.progress.stage("routing", total=len(self.evolution.rounds), unit="rounds") as stage:
            for each in self.evolution.rounds:
                made.append(route_cohorts(cohorts, each.bank, k, self.inputs.cache))
                stage.advance()
        return made

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Return the frozen cases, over the banks of every round."""
        cases, routes = self.designed, self.routes
        if self.evolution is not None:
            if self.evolution.rounds[0].bank.hash != self.planted.hash:
                raise InputError(
                    f"The run started from {self.evolution.rounds[0].bank!r}, and the attacks were designed on "
                    f"{self.planted!r}; audit a run that starts from the designs' own bank."
                )
            eligible = self.auditor.eligible
            cases = tuple(
                Case.of(
                    case.index,
                    *(
                        follow(case.designs[0], over.bank, over.auxiliary, self.mechanism, eligible=eligible)
                        for over in routes
                    ),
                    summed=True,
                )
                for case in cases
            )
        key = self.inputs.cohorts.calibration.users.hash
        banks = [over.bank.hash for over in routes]
        return self.auditor.freeze(cases, self.auditor.calibration(routes), calibration=hash_json([key, banks]))

    @property
    def rounds(self) -> int:
        """Return the number of releases."""
        return 1 if self.evolution is None else len(self.evolution.rounds)

    @cached_property
    def commitment(self) -> Commitment:
        """Return the commitment to the frozen rules."""
        config, exact = self.config, epsilon(self.mechanism, self.rounds)
        values = decisive(flatten(config), evolving=self.inputs.evolving)
        return commit(
            self.auditor,
            self.cases,
            self.inputs.cohorts,
            settings_hash=hash_json(values),
            encoder=self.inputs.encoder.fingerprint,
            bank_hash=self.bank.hash,
            reserved=self.bank.reserved,
            method=config.audit.method,
            system=config.audit.system,
            exact=finite(exact),
            claimed=finite(exact if config.audit.accounted is None else config.audit.accounted),
        )

    def attacks(self, tally: Tally) -> tuple[AttackResult, ...]:
        """Play the trials that the tally lacks, and judge them."""
        auditor, evaluation = self.auditor, self.auditor.evaluation(self.routes)
        auditor.play(self.cases, evaluation, tally)
        seed = auditor.settings.seed

        def shown(case: Case, law: Any) -> dict[str, Any]:
            data = evidence(case, law, self.routes[-1].auxiliary, self.mechanism, seed)
            plain: dict[str, Any] = parse_json(canonical_json(data), "evidence")
            return plain

        own = None
        if self.evolution is not None:
            releases = [each.release for each in self.evolution.rounds]
            own = {case.place: transcript_scores(case.designs, releases, self.mechanism.q) for case in self.cases}
        return auditor.judge(
            self.cases,
            evaluation,
            tally,
            accounted=self._accounted,
            run_scores=own,
            evidence=shown,
            notes=lambda case: (_NONCES,) if case.attack.canary is CanaryKind.NONCE else (),
        )

    def _accounted(self, rounds: int) -> tuple[float, str] | None:
        stated = self.config.audit.accounted
        if stated is not None and rounds == self.rounds:
            return stated, "the operator's accountant"
        if self.evolution is None:
            return None
        try:
            return prv_epsilon(self.mechanism, rounds), "Opacus's PRV accountant, the upper end of its band"
        except (InputError, MissingError):  # it stands beside the exact figure, for parity alone
            return None

    def results(self, commitment: Commitment, tally: Tally, **facts: Any) -> Results:
        """Play, judge, and return all that was found, with the facts that only the caller knows."""
        inputs, bank = self.inputs, self.bank
        setup = Setup(
            users=dict(inputs.people.report),
            auxiliary=len(inputs.cohorts.auxiliary),
            calibration=len(inputs.cohorts.calibration),
            evaluation=len(inputs.cohorts.evaluation),
            canaries=self.config.evolve.canaries if inputs.evolving else self.config.cohorts.canaries,
            records=int(inputs.people.users.counts.max()),
            encoder=inputs.encoder.name,
            encoder_fingerprint=inputs.encoder.fingerprint,
            dimension=inputs.encoder.dimension,
            bank=bank.size,
            bank_hash=bank.hash,
            bank_counters=dict(inputs.candidates.counters),
            probes=len(bank.reserved),
        )
        given: dict[str, Any] = {"notes": inputs.notes} | facts
        return Results(
            commitment=commitment.hash,
            setup=setup,
            mechanism=self.mechanism,
            audit=self.config.audit,
            seed=self.auditor.settings.seed,
            rounds=self.rounds,
            epsilon=epsilon(self.mechanism, self.rounds),
            attacks=self.attacks(tally),
            **given,
        )


def hold_to(run: Run, made: Commitment, committed: Told | None = None) -> Commitment:
    """Put the commitment on disk, or hold the run to the one that is there."""
    path = run.folder / COMMITMENT
    if not path.exists():
        run.write(COMMITMENT, made)
    elif (kept := run.commitment) != made:
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
