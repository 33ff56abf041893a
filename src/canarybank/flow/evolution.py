"""Run Private Evolution in a folder from a configuration, measure and audit it; the same command resumes it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from canarybank.auditing import Claims
from canarybank.config.loading import Resolved
from canarybank.config.model import Config
from canarybank.config.plugins import build_engine
from canarybank.engine import Engine
from canarybank.errors import BudgetError, ConfigError
from canarybank.evolution import (
    ACCOUNT,
    Evolution,
    EvolutionLoop,
    Population,
    Probes,
    ReleaserFactory,
    Round,
    Utility,
    Voters,
    audit_cost,
    utility,
)
from canarybank.flow.audit import CONDITIONAL, AuditWork, hold_to
from canarybank.flow.evolution_setup import Scene, mauve_of, require_declared, require_drawable, set_scene
from canarybank.flow.generators import evolution_generator
from canarybank.flow.real_run import is_real, require_private
from canarybank.flow.sending import sending_recorded
from canarybank.mechanism import Account
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import EVOLUTION, PLAIN, RESULTS, TRIALS, Run
from canarybank.run.results import (
    AccountState,
    EvolutionFacts,
    Results,
    account_state,
    round_facts,
    statement_of,
)
from canarybank.run.trials_log import ShardLog
from canarybank.run.verification import refuse_unverified
from canarybank.store import StageCache, read_checked

__all__ = ["run_evolution"]

EXAMPLES = 12
_TOGETHER = (
    "The probes of all canaries stand in the same banks and draw votes from each other: each bound holds, and may be "
    "smaller than that of a run with this canary alone."
)
Told = Callable[[str], None]


def run_evolution(
    resolved: Resolved,
    folder: Path | str,
    *,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    command: str = "",
    told: Told | None = None,
    releaser: ReleaserFactory | None = None,
) -> Run:
    """Run an evolution in a folder, or go on with the one that stands there; a finished one is returned as it is.

    A release that was made is never made again, whatever ended the process that made it. Where the next release would
    pass the budget, the run ends there, and ``results.stopped`` says so.

    Args:
        resolved: The configuration with its origins.
        folder: The run's folder; made where there is none. Only one process may work on it.
        engine: Where the audit's trials run; by default on a thread for each core, or for each of ``run.workers``.
        progress: Where progress is shown.
        command: The command to name in the manifest.
        told: Called after each round with a sentence on what all releases so far spend.
        releaser: Makes, from voters and plan, where the noisy histograms come from; left out, they are drawn from the
            users' votes. A test puts its own releases in here.
    """
    config = resolved.config
    require_private(config)
    require_drawable(config.evolve)
    require_declared(config)
    with Run.held(resolved, Path(folder), command, "evolution", statement=statement_of(config.evolve)) as run:
        if run.is_finished:
            refuse_unverified(run, rewritten=True)
            _require_same_account(run, config)
            return run
        cache, generator = StageCache(), evolution_generator(config)
        engine = engine or build_engine(config.run)
        # What a real run sends follows from its releases; what it retried is nobody's business.
        with sending_recorded(run, config, generator, counted=not is_real(config)):
            scene = set_scene(config, cache, progress, generator, engine)
            results = _Work(config, scene, run, progress, told, releaser).results()
        run.write(RESULTS, results)
        # What a cache held depends on the users whose texts were in it before.
        made = {} if is_real(config) else {"made": dict(cache.made), "found": dict(cache.found)}
        run.finish(commitment=results.commitment, stages=made)
    return run


@dataclass(frozen=True)
class _Work:
    """The steps of one evolution, in their order."""

    config: Config
    scene: Scene
    run: Run
    progress: Progress
    told: Told | None
    releaser: ReleaserFactory | None = None

    def results(self) -> Results:
        """Walk from the first bank to the last figure."""
        scene, config = self.scene, self.config
        evolution, stopped = self._rounds(EVOLUTION, *scene.audited_start)
        self.run.require_folder()
        evolution.write(self.run.folder)
        measured = self._measured(evolution)
        plain = self._plain(measured)
        facts = EvolutionFacts(
            insecure_seed=config.evolve.insecure_seed,
            complete=len(evolution.rounds) == config.evolve.rounds,
            stopped=stopped,
            account=self._account(),
            voters=None if is_real(config) else len(scene.voters),
            evolve=config.evolve,
            encoder=scene.encoder.name,
            generator=scene.generator.name,
            rounds=round_facts(evolution),
            candidates=len(evolution.population),
            examples=_newest(evolution.population),
            utility=measured,
            plain=plain,
            cost=() if measured is None or plain is None else audit_cost(measured, plain),
        )
        said = statement_of(config.evolve)
        if scene.audit is None or not evolution.rounds:
            return Results(
                statement=said,
                mechanism=evolution.mechanism,
                audit=config.audit,
                seed=config.run.seed,
                rounds=len(evolution.rounds),
                epsilon=evolution.spent.epsilon,
                attacks=(),
                notes=scene.notes,
                evolution=facts,
            )
        work = AuditWork(scene.audit, evolution)
        commitment = hold_to(self.run, work.commitment, self._committed)
        log = ShardLog(self.run.folder / TRIALS, commitment.hash, self.run.require_folder)
        together = [_TOGETHER] if sum(case.attack.active for case in work.cases) > 1 else []
        notes = (CONDITIONAL, Claims.EACH.statement, *together, _about(evolution), *scene.notes)
        return work.results(commitment, log, statement=said, evolution=facts, notes=notes)

    def _committed(self, digest: str) -> None:
        if self.told is not None:
            self.told(f"commitment: sha256 {digest}; publish it now, before the results are known")

    def _rounds(self, name: str, start: Population, probes: Probes | None) -> tuple[Evolution, str | None]:
        """Make all rounds, or as many as the budget affords, and say why no more."""
        scene, folder = self.scene, self.run.folder / name
        self.run.require_folder()
        releaser = None if self.releaser is None else self.releaser(Voters(scene.voters, scene.plan.cap), scene.plan)
        with EvolutionLoop(
            scene.voters,
            start,
            scene.plan,
            scene.encoder,
            scene.generator,
            probes=probes,
            folder=folder,
            progress=self.progress,
            releaser=releaser,
        ) as rounds:
            try:
                while rounds.done < scene.plan.rounds:
                    self.run.require_folder()
                    self._tell(name, rounds.advance())
            except BudgetError as error:
                return rounds.conclude(), str(error)
            return rounds.conclude(), None

    def _account(self) -> AccountState | None:
        path, folder = self.scene.plan.account, self.run.folder / EVOLUTION
        if path is None or not self.scene.plan.is_real:
            return None
        return account_state(Account(path), str(read_checked(folder / ACCOUNT)["run"]))

    def _tell(self, name: str, done: Round) -> None:
        if self.told is not None:
            where = f"round {done.number + 1} of {self.scene.plan.rounds}"
            self.told(f"{where}{' without probes' if name == PLAIN else ''}: {done.spent}")

    def _measured(self, evolution: Evolution) -> Utility | None:
        scene, chosen = self.scene, self.config.evolve
        if scene.reference is None:
            return None
        mauve = mauve_of(chosen, len(scene.audited_start[0]))
        return utility(evolution, scene.reference, mauve=mauve, similarity=chosen.near, progress=self.progress)

    def _plain(self, audited: Utility | None) -> Utility | None:
        """Make the same rounds without probes where their cost is wanted, and measure them alike."""
        if audited is None or not audited.probes or not self.config.evolve.compare:
            return None
        return self._measured(self._rounds(PLAIN, self.scene.start, None)[0])


def _require_same_account(run: Run, config: Config) -> None:
    """Refuse to take a finished run for one that another account paid for."""
    evolution, path = run.results.evolution, config.evolve.account
    paid = None if evolution is None else evolution.account
    if paid is not None and path is not None and Account(path).opening.hash != paid.opening:
        raise ConfigError(
            f"The evolution in {str(run.folder)!r} was paid for by another budget account than {path!r}. Name that "
            "account, or choose another folder."
        )


def _newest(population: Population) -> tuple[str, ...]:
    last = max(candidate.born for candidate in population.candidates)
    return tuple(each.text for each in population.candidates if each.born == last)[:EXAMPLES]


def _about(run: Evolution) -> str:
    drawn = (
        "The run drew its releases from the operating system's entropy"
        if run.insecure_seed is None
        else f"The run is a simulation, its releases seeded with {run.insecure_seed}"
    )
    return (
        f"{drawn}. Exact figures and counts are computed from evaluation users' records: they are not differentially "
        "private."
    )
