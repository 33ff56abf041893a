"""Audit a system's runs in a folder: commit, play or read them, seal what was fitted, judge.

``canarybank design`` and ``audit_system`` commit; ``canarybank score`` reads the releases that an operator recorded, or
has a program make them; all of them end in ``finish``. The same call goes on with an audit that was stopped.
"""

from dataclasses import dataclass
from functools import cached_property

from canarybank import seeds
from canarybank.auditing.declaration import Declaration, Evidence
from canarybank.auditing.rules import fit_rules, refuse_other_shapes
from canarybank.auditing.system import is_refuted_by_betting, judge_runs
from canarybank.errors import IncompleteError, InputError, StoreError
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import RESULTS, SEALED, Run, read_document
from canarybank.run.plant import Plant, SealedRules, SystemResults, read_batches, write_batch
from canarybank.store import hash_bytes
from canarybank.systems.command import CommandSystem
from canarybank.systems.recorded import RecordedSystem
from canarybank.systems.trials import Releases, Split, System, Trial

__all__ = ["SystemWork"]


@dataclass(frozen=True)
class SystemWork:
    """The audit of a system from its commitment on, in the folder of its run."""

    run: Run
    plant: Plant
    progress: Progress = SILENT

    @cached_property
    def declared(self) -> Declaration:
        """Return what was declared."""
        return self.plant.declaration

    @cached_property
    def batches(self) -> tuple[tuple[Trial, ...], ...]:
        """Return the schedule in batches."""
        return self.declared.batches

    def play(self, system: System, *, stop_when_refuted: bool = False) -> None:
        """Play the batches that are not on disk yet; where asked, end as soon as the bets refute the claim."""
        if stop_when_refuted and Evidence.BETTING not in self.declared.evidence:
            raise InputError(
                "Only betting may stop an audit early, and it is not among the declared evidence; declare it before "
                "the first run."
            )
        kept, _ = read_batches(self.run.folder, self.batches)
        played = list(zip(kept.trials, kept.observations, strict=True))
        total = sum(map(len, self.batches))
        with self.progress.stage("runs", total=total, unit="runs") as stage:
            stage.advance(len(played))
            for number, batch in enumerate(self.batches):
                if len(played) >= sum(map(len, self.batches[: number + 1])):
                    continue
                if batch[0].split is Split.JUDGE:
                    self.sealed()
                    if stop_when_refuted and self._is_refuted():
                        return
                found = list(system.play(batch, seeds.stream(self.plant.seed, "system", number)))
                if len(found) != len(batch):
                    raise InputError(
                        f"The system returned {len(found)} runs where {len(batch)} were asked for; it returns one for "
                        "each, and None for one that was lost."
                    )
                sizes = system.sizes if isinstance(system, RecordedSystem | CommandSystem) else None
                observed = Releases.of(batch, found, sizes=sizes)
                refuse_other_shapes(self.declared, observed, self.plant.scores_designed)
                self.run.require_folder()
                write_batch(self.run.folder, number, observed)
                played += zip(observed.trials, observed.observations, strict=True)
                stage.advance(len(batch))

    def _is_refuted(self) -> bool:
        releases, _ = read_batches(self.run.folder, self.batches)
        judged = [each for each in releases.trials if each.split is Split.JUDGE]
        return bool(judged) and is_refuted_by_betting(self.declared, self.sealed().fitted, releases)

    def sealed(self) -> SealedRules:
        """Return the rules that are sealed, or fit them on the runs set apart and seal them."""
        first = sum(batch[0].split is Split.FIT for batch in self.batches)
        fitted, digest = read_batches(self.run.folder, self.batches[:first])
        if len(fitted.trials) < sum(map(len, self.batches[:first])):
            raise IncompleteError("The runs that are set apart are not all there yet; no rule can be fitted.")
        if (self.run.folder / SEALED).exists():
            sealed = read_document(self.run.folder / SEALED, SealedRules)
            if (sealed.commitment, sealed.fitted_on) != (self.plant.hash, digest):
                raise StoreError(
                    f"{SEALED} in {str(self.run.folder)!r} was written under another commitment, or fitted on other "
                    "releases than those beside it; something was altered, so restore it."
                )
            return sealed
        rules = fit_rules(self.declared, fitted, self.plant.scores_designed)
        sealed = SealedRules(commitment=self.plant.hash, fitted_on=digest, fitted=rules)
        self.run.write(SEALED, sealed)
        return sealed

    def results(self, notes: tuple[str, ...] = ()) -> SystemResults:
        """Judge all runs that are on disk, and return what they showed."""
        sealed = self.sealed()
        releases, digest = read_batches(self.run.folder, self.batches)
        return SystemResults(
            commitment=self.plant.hash,
            sealed=hash_bytes(sealed.text().encode()),
            releases=digest,
            system=self.plant.system,
            found=judge_runs(self.declared, sealed.fitted, releases),
            notes=notes,
        )

    def finish(self, notes: tuple[str, ...] = ()) -> SystemResults:
        """Judge, write the results, and close the run: its alpha is spent."""
        results = self.results(notes)
        self.run.write(RESULTS, results)
        self.run.finish(commitment=self.plant.hash)
        return results
