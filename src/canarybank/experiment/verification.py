"""Check a finished run against its commitment: no file altered, and every claim made as it was declared.

The anchor is the commitment's published hash. Whoever holds the folder could write all of it anew, manifest included,
but not so that another commitment has that hash. The counts themselves can be checked by running the same command in
an empty folder: its ``results.json`` must be the same to the byte.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from canarybank.audit import Bound, Counts, attack_bound, canary_bound, pooled_bound
from canarybank.experiment.commitment import Commitment, Record
from canarybank.experiment.folder import COMMITMENT, MANIFEST, RESULTS, TRIALS, Run
from canarybank.experiment.gating import declared, recounted
from canarybank.experiment.manifest import Manifest
from canarybank.experiment.origins import decisive
from canarybank.experiment.results import AttackRecord, BoundRecord, Results
from canarybank.experiment.shards import read_shards
from canarybank.mechanism import Mechanism
from canarybank.store import altered_files, hash_folder, hash_json

__all__ = ["Verification", "verify"]


class Verification(Record):
    """What the check of a run found."""

    ok: bool = Field(description="Whether nothing was found.")
    findings: tuple[str, ...] = Field(description="Each thing that is not as it was committed to or sealed.")
    notes: tuple[str, ...] = Field(description="What the check does not cover.")
    commitment: str = Field(description="The sha256 of the commitment on disk.")


def verify(folder: Path | str, commitment_hash: str | None = None) -> Verification:
    """Check a finished run: against the hash that was published before its trials, where that is given."""
    run = Run.open(folder)
    results, commitment, on_disk = run.results, run.commitment, run.commitment_hash
    findings = [
        *_hashes(run.manifest, results, on_disk, commitment_hash),
        *_files(run),
        *_settings(run.manifest, commitment),
        *_rules(results, commitment),
        *_counts(run, results, on_disk),
        *_claims(results),
    ]
    return Verification(
        ok=not findings, findings=tuple(findings), notes=_notes(run, commitment_hash), commitment=on_disk
    )


def _notes(run: Run, given: str | None) -> tuple[str, ...]:
    notes = []
    if given is None:
        notes.append(
            "Give the hash that was published before the trials: without it, the whole folder could have been made "
            "anew."
        )
    strange = sorted(set(hash_folder(run.folder, skip={MANIFEST})) - set(run.manifest.files))
    if strange:
        notes.append(f"Files that the run did not seal: {', '.join(strange)}.")
    notes.append("To check the counts themselves, run the same command in an empty folder and compare results.json.")
    return tuple(notes)


def _hashes(manifest: Manifest, results: Results, on_disk: str, given: str | None) -> Iterator[str]:
    if given is not None and given.strip().lower() != on_disk:
        yield f"{COMMITMENT} has the hash {on_disk}, not the published {given.strip().lower()}."
    if manifest.commitment != on_disk:
        yield f"{MANIFEST} names the commitment {manifest.commitment}, not the one on disk."
    if results.commitment != on_disk:
        yield f"{RESULTS} was made under the commitment {results.commitment}, not the one on disk."


def _files(run: Run) -> Iterator[str]:
    listed = run.manifest.files
    for name, what in altered_files(run.folder, listed).items():
        yield f"{name} is {what} since the run was sealed."
    for name in (COMMITMENT, RESULTS, TRIALS):
        if name not in listed:
            yield f"{MANIFEST} does not list {name}; the run was not sealed, or the list was altered."


def _settings(manifest: Manifest, commitment: Commitment) -> Iterator[str]:
    if hash_json(decisive(manifest.config)) != commitment.settings_hash:
        yield f"The settings in {MANIFEST} are not those that were committed to."


def _rules(results: Results, commitment: Commitment) -> Iterator[str]:
    facts = (
        ("mechanism", results.mechanism, commitment.mechanism),
        ("method", results.audit.method, commitment.method),
        ("number of trials", results.audit.trials, commitment.trials),
        ("alpha", results.audit.alpha, commitment.alpha),
        ("seed", results.seed, commitment.seed),
        ("bank", results.setup.bank_hash, commitment.bank_hash),
        ("encoder", results.setup.encoder_fingerprint, commitment.encoder),
        ("eligible population", results.setup.evaluation, commitment.eligible),
        ("list of attacks", [a.attack for a in results.attacks], [a.attack for a in commitment.attacks]),
    )
    for what, used, committed in facts:
        if used != committed:
            yield f"The {what} of the results is {used}, but {committed} was committed to."
    for record, frozen in zip(results.attacks, commitment.attacks, strict=False):
        used_rules = [(c.canary, c.bank_hash, c.inspected, c.threshold.value) for c in record.canaries]
        if used_rules != [(c.canary, c.bank_hash, c.inspected, c.threshold) for c in frozen.canaries]:
            yield f"The canaries, banks, positions or thresholds of {record.attack} are not those committed to."
        if record.ledger != frozen.ledger:
            yield f"The alpha of {record.attack} is not split as it was committed to."


def _counts(run: Run, results: Results, on_disk: str) -> Iterator[str]:
    played = read_shards(run.folder / TRIALS)
    if played.commitment != on_disk:
        yield f"The trials in {TRIALS} were played under the commitment {played.commitment}, not the one on disk."
    for record in results.attacks:
        for index, counts in enumerate(recounted(record)):
            if played.counts((record.attack, index)) != counts:
                yield f"The counts of {record.attack}, canary {index}, are not the sum of its shards in {TRIALS}."
            if {counts.n1, counts.n0} != {results.audit.trials}:
                yield f"The trials of {record.attack}, canary {index}, are {counts.n1:,} and {counts.n0:,} in number."


def _claims(results: Results) -> Iterator[str]:
    for record in results.attacks:
        made = _Claims.of(results, record)
        shown = [record.headline, record.pooled, *(canary.bound for canary in record.canaries)]
        if [made.headline, made.pooled, *made.canaries] != shown:
            yield f"The bounds of {record.attack} are not those that its counts give by the declared method and level."
        if record.ladder.observed.epsilon != record.headline.epsilon:
            yield f"The observed rung of {record.attack} is not its headline."


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims that an attack's counts buy, made again."""

    headline: BoundRecord
    pooled: BoundRecord | None
    canaries: tuple[BoundRecord, ...]

    @classmethod
    def of(cls, results: Results, record: AttackRecord) -> "_Claims":
        mechanism, settings = Mechanism(**results.mechanism.model_dump()), declared(results)
        counts: list[Counts] = recounted(record)
        over_all: Bound | None = pooled_bound(counts, mechanism, settings)
        return cls(
            headline=BoundRecord.model_validate(attack_bound(counts, mechanism, settings)),
            pooled=None if over_all is None else BoundRecord.model_validate(over_all),
            canaries=tuple(
                BoundRecord.model_validate(canary_bound(each, mechanism, settings, len(counts))) for each in counts
            ),
        )
