"""Run Private Evolution in a folder from a configuration, measure and audit it; the same command resumes it.

The folder of an evolution::

    manifest.json    settings and where each came from, versions, the hash of every file
    evolution/       the run itself: ledger, banks, releases, answers (see ``canarybank.evolve.archive``)
    plain/           of an audited run: the same without probes, for what they cost
    population.*     the final population with its lineage, as parquet, JSON lines and CSV
    results.json     what was spent, what the text is worth, what the audit showed
    report.html      the page
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from canarybank.engine import Engine
from canarybank.errors import BudgetError, ConfigError
from canarybank.evolve import Evolution, Population, Probes, ReleaserFactory, Round, Voters
from canarybank.evolve import Run as Rounds
from canarybank.evolve.loop import ACCOUNT
from canarybank.evolve.multiround import evolve_audit
from canarybank.evolve.utility import Utility, audit_cost, utility
from canarybank.experiment.config import Config, MechanismConfig
from canarybank.experiment.evolution_answers import evolution_generator
from canarybank.experiment.evolution_results import (
    AccountRecord,
    EvolutionResults,
    MultiRoundRecord,
    account_record,
    cost_records,
    multiround_record,
    round_records,
    statement_of,
    utility_record,
)
from canarybank.experiment.evolution_scene import Scene, mauve_of, require_declared, require_drawable, set_scene
from canarybank.experiment.origins import Resolved
from canarybank.experiment.plugins import build_engine
from canarybank.experiment.real_run import is_real, require_private
from canarybank.experiment.run_folder import RESULTS, RunFolder
from canarybank.experiment.running import settings_of
from canarybank.experiment.sending import sending_recorded
from canarybank.experiment.stage_cache import StageCache
from canarybank.mechanism import Account
from canarybank.progress import SILENT, Progress
from canarybank.store import read_checked, write_atomic

__all__ = ["EVOLUTION", "PLAIN", "EvolutionRun", "run_evolution"]

EVOLUTION = "evolution"
PLAIN = "plain"
EXAMPLES = 12
Told = Callable[[str], None]


class EvolutionRun(RunFolder):
    """An evolution in its folder. Documents are read when they are asked for, and checked against their schema."""

    kind = noun = "evolution"
    elsewhere = "check the path"
    begun = EVOLUTION
    remedy = "Restore it from a copy: what was released stays released, so it is not made again."

    def is_source(self, name: str) -> bool:
        """Say whether a file is of the evolution itself, its populations included, and not of its report."""
        return name == RESULTS or name.partition("/")[0] in {EVOLUTION, PLAIN} or name.startswith("population.")

    @cached_property
    def results(self) -> EvolutionResults:
        """Return the results, or say that the run is not finished."""
        return self._due(RESULTS, EvolutionResults)

    @property
    def evolution(self) -> Evolution:
        """Return the rounds themselves, as far as they have come."""
        return Evolution.load(self.folder / EVOLUTION)

    def instead(self, changed: list[str]) -> str:  # noqa: ARG002, every difference has the same answer
        """Say that releases cannot be taken back."""
        return (
            ": what was released stays released under its own parameters. Go back to the old settings, or choose "
            "another folder"
        )


def run_evolution(
    resolved: Resolved,
    folder: Path | str,
    *,
    engine: Engine | None = None,
    progress: Progress = SILENT,
    command: str = "",
    told: Told | None = None,
    releaser: ReleaserFactory | None = None,
) -> EvolutionRun:
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
    with EvolutionRun.held(resolved, Path(folder), command, statement=statement_of(config.evolve)) as run:
        if run.is_finished:
            run.refuse_altered()
            _require_same_account(run, config)
            return run
        cache, generator = StageCache(), evolution_generator(config)
        engine = engine or build_engine(config.run)
        # What a real run sends follows from its releases; what it retried is nobody's business.
        with sending_recorded(run, config, generator, counted=not is_real(config)):
            scene = set_scene(config, cache, progress, generator)
            results = _Work(config, scene, run, engine, progress, told, releaser).results()
        run.require_folder()
        write_atomic(run.folder / RESULTS, results.text())
        # What a cache held depends on the users whose texts were in it before.
        run.finish(stages={} if is_real(config) else {"made": dict(cache.made), "found": dict(cache.found)})
    return run


@dataclass(frozen=True)
class _Work:
    """The steps of one evolution, in their order."""

    config: Config
    scene: Scene
    run: EvolutionRun
    engine: Engine
    progress: Progress
    told: Told | None
    releaser: ReleaserFactory | None = None

    def results(self) -> EvolutionResults:
        """Walk from the first bank to the last figure."""
        scene, chosen = self.scene, self.config.evolve
        evolution, stopped = self._rounds(EVOLUTION, *scene.audited_start)
        self.run.require_folder()
        evolution.write(self.run.folder)
        measured = self._measured(evolution)
        plain = self._plain(measured)
        return EvolutionResults(
            statement=statement_of(chosen),
            insecure_seed=chosen.insecure_seed,
            complete=len(evolution.rounds) == chosen.rounds,
            stopped=stopped,
            account=self._account(),
            voters=None if is_real(self.config) else len(scene.voters),
            mechanism=MechanismConfig.model_validate(asdict(evolution.mechanism)),
            evolve=chosen,
            encoder=scene.encoder.name,
            generator=scene.generator.name,
            rounds=round_records(evolution),
            candidates=len(evolution.population),
            examples=_newest(evolution.population),
            utility=None if measured is None else utility_record(measured),
            plain=None if plain is None else utility_record(plain),
            cost=() if measured is None or plain is None else cost_records(audit_cost(measured, plain)),
            audit=self._audited(evolution),
            notes=scene.notes,
        )

    def _rounds(self, name: str, start: Population, probes: Probes | None) -> tuple[Evolution, str | None]:
        """Make all rounds, or as many as the budget affords, and say why no more."""
        scene, folder = self.scene, self.run.folder / name
        self.run.require_folder()
        releaser = None if self.releaser is None else self.releaser(Voters(scene.voters, scene.plan.cap), scene.plan)
        with Rounds(
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

    def _account(self) -> AccountRecord | None:
        path, folder = self.scene.plan.account, self.run.folder / EVOLUTION
        if path is None or not self.scene.plan.is_real:
            return None
        return account_record(Account(path), str(read_checked(folder / ACCOUNT)["run"]))

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

    def _audited(self, evolution: Evolution) -> MultiRoundRecord | None:
        scene = self.scene
        if scene.design is None or scene.cohorts is None or not evolution.rounds:
            return None
        settings = settings_of(self.config)
        found = evolve_audit(
            evolution, scene.design, scene.cohorts, settings=settings, engine=self.engine, progress=self.progress
        )
        return multiround_record(found)


def _require_same_account(run: EvolutionRun, config: Config) -> None:
    """Refuse to take a finished run for one that another account paid for."""
    paid, path = run.results.account, config.evolve.account
    if paid is not None and path is not None and Account(path).opening.hash != paid.opening:
        raise ConfigError(
            f"The evolution in {str(run.folder)!r} was paid for by another budget account than {path!r}. Name that "
            "account, or choose another folder."
        )


def _newest(population: Population) -> tuple[str, ...]:
    last = max(candidate.born for candidate in population.candidates)
    return tuple(each.text for each in population.candidates if each.born == last)[:EXAMPLES]
