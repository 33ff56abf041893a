"""Design what to plant in somebody else's system, and commit to it before the system runs.

The folder goes to the operator, in any language: records of the canaries, probes with positions, labels and vectors,
the schedule of runs, and a README. What comes back is read by ``canarybank score``.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import Attack, Canary, Pool, PoolKind, design, search
from canarybank.attack.contribution import canary_contribution
from canarybank.auditing import Settings, find_method
from canarybank.auditing.declaration import Declaration, Evidence, Scoring
from canarybank.config.loading import Resolved
from canarybank.config.model import Config
from canarybank.errors import ConfigError
from canarybank.flow.audit import hold_to
from canarybank.flow.generators import build_generator, cached_generator
from canarybank.flow.inputs import Inputs, gather
from canarybank.mechanism import Bank, Claim, Mechanism, Routed, RouteTable
from canarybank.progress import SILENT, Progress
from canarybank.run.folder import Run
from canarybank.run.plant import CANARIES, PROBES, README, SCHEDULE, Plant, npy_bytes
from canarybank.score import LinearScore, Moments
from canarybank.store import StageCache, canonical_json, write_atomic
from canarybank.systems.command import schedule_text

__all__ = ["claim_of", "csv_text", "declaration_of", "design_plant"]


def claim_of(config: Config) -> Claim:
    """Return the claim that a configuration states of a system."""
    system, mechanism = config.system, Mechanism(**config.mechanism.model_dump())
    stated, known = config.audit.accounted, mechanism if system.mechanism else None
    if stated is None:
        if known is None or system.neighbours == "replace":
            raise ConfigError(
                "The claim needs an epsilon: set audit.accounted to the one that the operator claims. Only a mechanism "
                "with neighbours add-remove says its own."
            )
        return Claim.of(known, rounds=system.rounds)
    return Claim(stated, mechanism.delta, system.neighbours, known, system.rounds)


def declaration_of(config: Config, canaries: Sequence[str]) -> Declaration:
    """Return what a configuration declares of the runs of a system."""
    system, audit = config.system, config.audit
    settings = Settings(trials=system.runs, alpha=audit.alpha, method=find_method(audit.method), seed=config.run.seed)
    return Declaration(
        claim=claim_of(config),
        settings=settings,
        canaries=tuple(canaries),
        apart=system.apart or 0,
        scores=tuple(map(Scoring, system.scores)),
        evidence=tuple(map(Evidence, system.evidence)),
        batch=system.batch or 0,
    )


@dataclass(frozen=True)
class _Piece:
    """One canary in one label's bank: what is planted where, and what the canary's records give there, unclipped."""

    label: str
    records: tuple[int, ...]
    positions: tuple[int, ...]
    texts: tuple[str, ...]
    vectors: NDArray[np.float32]
    votes: NDArray[np.float64]
    score: LinearScore


@dataclass(frozen=True)
class Planting:
    """The canaries of a system's audit with their probes, designed from public things and the auxiliary users alone."""

    inputs: Inputs
    mechanism: Mechanism

    @cached_property
    def attack(self) -> Attack:
        """Return the one attack that is planted."""
        (attack,) = self.inputs.attacks
        if not attack.active:
            raise ConfigError(
                f"The attack {attack.name} plants no probes, so there is nothing to plant; set system.attack to "
                "another one, such as nonce-mueff."
            )
        return attack

    @cached_property
    def canaries(self) -> tuple[Canary, ...]:
        """Return the canaries; a replacement audit has two for each that is tested, one after the other."""
        drawn = [canary for canary, _ in self._found] if self._found else self.inputs.canaries(self.attack)
        return tuple(replace(each, id=f"canary-{index + 1}") for index, each in enumerate(drawn))

    @cached_property
    def _found(self) -> tuple[tuple[Canary, Pool], ...]:
        """Return the canaries and probes of an attack that searches, over the bank of all labels; none for others."""
        if self.attack.pool is not PoolKind.SEARCHED:
            return ()
        inputs, config = self.inputs, self.inputs.config
        number, probes, seed = config.cohorts.canaries, config.attack.probes, config.cohorts.seed
        bank = inputs.bank.reserve(probes * number, seed)
        routed = Routed.build(inputs.auxiliary, bank, self.mechanism.k)
        return tuple(
            search(
                _turned(bank, index * probes),
                routed,
                self.mechanism,
                eligible=self.eligible,
                encode=inputs.encoder.encode,
                records=inputs.roles.canary_records,
                seed=seed,
                index=index,
                probes=probes,
                vocabulary=inputs.encoder.vocabulary(),
                name=self.attack.name,
            )
            for index in range(number)
        )

    @property
    def eligible(self) -> int:
        """Return how many users other than a canary are eligible."""
        return self.inputs.config.system.eligible or len(self.inputs.roles.evaluation)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that have a bank and a histogram each; one without a name where all entries are in one."""
        config, given = self.inputs.config, self.inputs.candidates.labels
        if not config.system.by_label:
            return ("",)
        if not given or not all(given):
            raise ConfigError(
                "system.by_label asks for a bank of its own for each label, and the bank's entries have none; give a "
                "file with a column label, or leave it out."
            )
        return tuple(dict.fromkeys(given))

    @cached_property
    def pieces(self) -> dict[str, tuple[_Piece, ...]]:
        """Return, for each canary, its piece in each label's bank; every canary has positions of its own."""
        config, progress = self.inputs.config, self.inputs.progress
        found: dict[str, list[_Piece]] = {each.id: [] for each in self.canaries}
        with progress.stage("designing", total=len(self.labels) * len(self.canaries), unit="canaries") as stage:
            for number, label in enumerate(self.labels):
                bank = self.bank(label).reserve(config.attack.probes * len(self.canaries), config.cohorts.seed)
                cohort = self.inputs.auxiliary
                table = RouteTable.build(cohort.users.require_vectors(), bank, self.mechanism.k)
                for index, canary in enumerate(self.canaries):
                    own = tuple(range(number, len(canary), len(self.labels)))
                    turned = _turned(bank, index * config.attack.probes)
                    over = Routed(cohort, replace(table, bank=turned))
                    if own:  # a canary of few records has none in some labels, and no probes there
                        found[canary.id].append(self._piece(label, index, own, turned, over))
                    stage.advance(1, note=f"{canary.id} {label}".strip())
        return {name: tuple(pieces) for name, pieces in found.items()}

    def bank(self, label: str) -> Bank:
        """Return the bank of a label, no position reserved."""
        texts, labels = self.inputs.candidates.texts, self.inputs.candidates.labels
        if label == "" or labels is None:
            return self.inputs.bank
        chosen = [index for index, each in enumerate(labels) if each == label]
        return Bank(self.inputs.bank.vectors[chosen], tuple(texts[index] for index in chosen))

    def _piece(self, label: str, index: int, own: tuple[int, ...], bank: Bank, routed: Routed[Any]) -> _Piece:
        config, canary = self.inputs.config, self.canaries[index]
        texts = None if canary.texts is None else tuple(canary.texts[record] for record in own)
        part = replace(canary, vectors=canary.vectors[list(own)], texts=texts)
        made = design(
            self.attack,
            part,
            bank,
            routed,
            self.mechanism,
            eligible=self.eligible,
            pool=self._found[index][1] if self._found else self.inputs.pool(self.attack, part),
            probes=config.attack.probes,
            seed=config.cohorts.seed,
        )
        # What the records give before any clip, as a share of all records of the canary.
        open_mechanism = replace(self.mechanism, clip=1.0)
        votes = canary_contribution(made.table, made.bank, open_mechanism)[made.inspected] * len(own) / len(canary)
        places = tuple(int(place) for place in made.inspected)
        texts = tuple((made.bank.texts or ("",) * made.bank.size)[place] for place in places)
        return _Piece(label, own, places, texts, made.bank.vectors[list(places)], votes, made.score)

    @cached_property
    def positions(self) -> tuple[tuple[str, int], ...]:
        """Return every inspected position, label by label, in the order in which releases are read."""
        if self.inputs.config.system.inspect == "bank":
            return tuple((label, place) for label in self.labels for place in range(self.bank(label).size))
        return tuple(
            (label, place)
            for label in self.labels
            for pieces in self.pieces.values()
            for piece in pieces
            if piece.label == label
            for place in piece.positions
        )

    def scores(self, canary: str, other: str | None, rounds: int) -> tuple[LinearScore, ...]:
        """Return the designed scores of a canary, or of it in another one's place, one a round."""
        votes, mean, spread = (np.zeros(len(self.positions)) for _ in range(3))
        at = {place: index for index, place in enumerate(self.positions)}
        for name, sign in ((canary, 1.0), (other, -1.0)):
            for piece in self.pieces.get(name or "", ()):
                where = [at[piece.label, place] for place in piece.positions]
                votes[where] += sign * self._clipped(name or "")[piece.label]
                mean[where], spread[where] = piece.score.moments.mean, np.diag(piece.score.moments.covariance)
        covariance = np.diag(np.where(spread > 0, spread, self.mechanism.noise**2))
        if len(self.labels) == 1 and other is None:
            (piece,) = self.pieces[canary]
            where = [at[piece.label, place] for place in piece.positions]
            covariance[np.ix_(where, where)] = piece.score.moments.covariance
        return (LinearScore(votes, Moments(mean, covariance)),) * rounds

    def _clipped(self, canary: str) -> dict[str, NDArray[np.float64]]:
        """Return what a canary contributes on its probes in each label, clipped over all labels together."""
        pieces = self.pieces[canary]
        norm = float(np.sqrt(sum(float(piece.votes @ piece.votes) for piece in pieces)))
        cut = min(1.0, self.mechanism.clip / norm) if norm > 0 else 1.0
        return {piece.label: cut * piece.votes for piece in pieces}


def _turned(bank: Bank, turn: int) -> Bank:
    """Return the bank with its reserved positions in turn, so that another canary's come first."""
    return replace(bank, reserved=(*bank.reserved[turn:], *bank.reserved[:turn]))


def design_plant(
    resolved: Resolved, folder: Path | str, *, progress: Progress = SILENT, command: str = "", committed: Any = None
) -> Run:
    """Write what to plant, the schedule and the commitment into a folder, and return its run.

    The same call again leaves a plant as it is; other settings in the same folder are refused.

    Args:
        resolved: The configuration with its origins; its section ``system`` says how often the system runs.
        folder: The folder to write; it goes to the operator.
        progress: Where progress is shown.
        command: The command to name in the manifest.
        committed: Called with the commitment's hash once the commitment is on disk.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "attack.probes": 5, "system.runs": 20}
        >>> run = design_plant(resolve_users("my-users.csv", flags), "plant")
        >>> run.plant.trials, len(run.plant.positions)
        (20, 5)
    """
    config = resolved.config
    with Run.held(resolved, Path(folder), command, "system") as run:
        if not run.is_finished:
            planting = Planting(_gathered(config, progress), Mechanism(**config.mechanism.model_dump()))
            plant, files = _plant(config, planting)
            for name, data in files.items():
                write_atomic(run.folder / name, data)
            hold_to(run, plant, committed)
    return run


def _gathered(config: Config, progress: Progress) -> Inputs:
    """Return what a plant is designed from: one attack, and as many canaries as are tested, or twice as many."""
    each = 2 if config.system.neighbours == "replace" else 1
    given = config.model_copy(
        update={
            "attack": config.attack.model_copy(update={"names": (config.system.attack,)}),
            "cohorts": config.cohorts.model_copy(update={"canaries": each * config.system.canaries}),
        }
    )
    made = build_generator(given)
    return gather(given, StageCache(), None if made is None else cached_generator(made), progress)


def _plant(config: Config, planting: Planting) -> tuple[Plant, dict[str, bytes]]:
    """Return the commitment, and the files that it commits to."""
    names = [each.id for each in planting.canaries]
    step = 2 if config.system.neighbours == "replace" else 1
    tested, others = names[::step], dict(zip(names[::2], names[1::2], strict=False)) if step > 1 else {}
    declared = declaration_of(config, tested)
    files = _files(planting, schedule_text(declared.schedule, others))
    designed = {}
    if Scoring.DESIGNED in declared.scores:
        designed = {name: planting.scores(name, others.get(name), declared.claim.rounds) for name in tested}
    plant = Plant.of(
        declared,
        config,
        designed,
        files,
        replaced_by=others,
        positions=planting.positions,
        bank_sizes={label: planting.bank(label).size for label in planting.labels},
        bank_hash=planting.inputs.bank.hash,
    )
    return plant, files | {README: _readme(plant, planting).encode()}


def _files(planting: Planting, schedule: str) -> dict[str, bytes]:
    records: list[dict[str, Any]] = []
    probes = [["canary", "label", "position", "text"]]
    canary_vectors, probe_vectors = [], []
    for canary in planting.canaries:
        canary_vectors.append(canary.vectors)
        labels = {index: piece.label for piece in planting.pieces[canary.id] for index in piece.records}
        for index, text in enumerate(canary.texts or ("",) * len(canary)):
            records.append({"canary": canary.id, "record": index + 1, "label": labels[index], "text": text})
        for piece in planting.pieces[canary.id]:
            probe_vectors.append(piece.vectors)
            pairs = zip(piece.positions, piece.texts, strict=True)
            probes += [[canary.id, piece.label, str(place), text] for place, text in pairs]
    return {
        SCHEDULE: schedule.encode(),
        CANARIES: "".join(canonical_json(each) + "\n" for each in records).encode(),
        PROBES: csv_text(probes).encode(),
        "canaries.npy": npy_bytes(np.concatenate(canary_vectors)),
        "probes.npy": npy_bytes(np.concatenate(probe_vectors)),
    }


def csv_text(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as CSV."""
    to = io.StringIO()
    csv.writer(to, lineterminator="\n").writerows(rows)
    return to.getvalue()


def _readme(plant: Plant, planting: Planting) -> str:
    """Return what the operator of the system does with the folder."""
    labelled = planting.labels != ("",)
    bank = " of the bank of its label" if labelled else " of the bank"
    columns = "run,label,position,value" if labelled else "run,position,value"
    columns = columns.replace("run,", "run,round,") if plant.claim.rounds > 1 else columns
    other = (
        "\n   In the other runs the second canary named in `plant` stands in its place."
        if plant.replaced_by
        else " Where `plant` is empty, plant no canary."
    )
    rounds = f" Every run makes {plant.claim.rounds} releases: record each, as `round` 1, 2, ..." * (
        plant.claim.rounds > 1
    )
    whole = planting.inputs.config.system.inspect == "bank"
    where = "at every position of the bank" + " of each label" * labelled if whole else "at the positions of probes.csv"
    return f"""# What to plant in {plant.system}

This folder was made by canarybank {plant.canarybank}. It tests the claim: {plant.claim}.
Its commitment is the sha256 of commitment.json: `{plant.hash}`.
Publish it before the first run.

1. **Plant the probes, in every run.** Each line of probes.csv is an entry to put at `position` (from 0){bank}, in
   place of the one that stands there. probes.npy holds their vectors (float32), a row a line, if your system takes
   vectors. The probes stay the same in all runs, with a canary and without.
2. **Run the system once for each line of schedule.csv, in that order.** Where `plant` names a canary, add its records
   (canaries.jsonl; vectors in canaries.npy) to the private data, as one more user, eligible as all others are.{other}
   Do nothing else differently from run to run: `split` is for the auditor. Draw fresh randomness in every run.{rounds}
3. **Record what each run releases** {where}, after noise and before anything is done with it.
   As a CSV file with the header `{columns}`, one value a line; or as JSON lines, Parquet or one .npy a run:
   docs/foreign.md says how. Never record values before noise.
4. **Score**: `canarybank score THIS_FOLDER RELEASES`.

A run that fails is left out: do not run it again until it succeeds, for that would hide failures that depend on the
canary. Score then with `--missing-are-lost`. {len(plant.declaration.schedule):,} runs in all.
"""
