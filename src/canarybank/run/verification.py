"""Check a finished run against its commitment, and hold it against a claim only if nothing is found.

The anchor is the commitment's published hash. Whoever holds the folder could write all of it anew, manifest included,
but not so that another commitment has that hash. The counts themselves can be checked by running the same command in
an empty folder: its ``results.json`` must be the same to the byte. ``docs/commitment.md`` says what this protects
against, and against what it does not.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scipy.stats import binom

from canarybank.auditing import AttackResult, Settings, canary_bound, headline, pooled_bound
from canarybank.config.loading import decisive
from canarybank.errors import CanarybankError, ConfigError, StoreError
from canarybank.mechanism import epsilon
from canarybank.registry import METHODS
from canarybank.run.commitment import Commitment, Record, Seal, finite
from canarybank.run.folder import COMMITMENT, MANIFEST, RESULTS, SEALED, TRIALS, Run
from canarybank.run.manifest import Manifest
from canarybank.run.results import Results
from canarybank.run.trials_log import read_shards
from canarybank.score import Interval
from canarybank.store import altered_files, hash_file, hash_folder, hash_json

__all__ = ["Verification", "declared", "refuse_unverified", "trust_methods", "verify"]

IMPOSSIBLE = 1e-12
"""Counts that are less likely than this under the exact rates of their rule were not drawn from them."""


class Verification(Record):
    """What the check of a run found."""

    ok: bool
    """Whether nothing was found."""
    findings: tuple[str, ...]
    """Each thing that is not as it was committed to or sealed."""
    notes: tuple[str, ...]
    """What the check does not cover."""
    commitment: str
    """The sha256 of the commitment on disk."""


def verify(folder: Path | str, commitment_hash: str | None = None, *, trust: Iterable[str] = ()) -> Verification:
    """Check a finished run: against the hash that was published before its trials, where that is given.

    Nothing that the folder names is imported, but for the plug-in methods that ``trust`` names.
    """
    trust_methods(trust)
    return _verified(Run.open(folder), commitment_hash)


def trust_methods(names: Iterable[str]) -> None:
    """Import plug-in methods because the user names them, so that the bounds of a received folder can be made again."""
    for name in names:
        METHODS.find(name)


def refuse_unverified(run: Run, commitment_hash: str | None = None, *, rewritten: bool = False) -> None:
    """Refuse a finished run that does not verify, with everything that was found.

    Only where a report is about to be ``rewritten`` from the results, the files of the old one are not looked at.
    """
    if run.kind == "evolution":
        run.refuse_altered()
    found = _verified(run, commitment_hash, written=not rewritten).findings
    if found:
        raise StoreError(
            f"The run in {str(run.folder)!r} does not verify, so nothing is reported of it. {' '.join(found)} Restore "
            "the run from a copy, or run it again in another folder."
        )


def declared(results: Results) -> Settings:
    """Return the declaration that results were made under; a method that the user has not named is not imported."""
    audit = results.audit
    method = METHODS.received(audit.method)
    return Settings(trials=audit.trials, alpha=audit.alpha, method=method, seed=results.seed)


def _verified(run: Run, commitment_hash: str | None, *, written: bool = True) -> Verification:
    results, on_disk, unnamed = run.results, "", None
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: _state(run),
        lambda: _files(run, results, written=written),
        lambda: _rounds(results),
    ]
    if results.commitment is not None or results.attacks or run.kind == "audit":
        commitment, on_disk = run.commitment, run.commitment_hash
        sealed = run.sealed if commitment.recipe is not None else None
        checks[1:1] = [lambda: _hashes(run.manifest, results, on_disk, commitment_hash)]
        checks += [
            lambda: _settings(run, results, commitment),
            lambda: _rules(results, commitment if sealed is None else sealed.filled(commitment)),
            lambda: _sealed(run, sealed, on_disk),
            lambda: _counts(run, results, on_disk if sealed is None else hash_file(run.folder / SEALED)),
            lambda: _ladders(results),
        ]
        if not (unnamed := _unnamed_method(results)):
            checks += [lambda: _rates(results), lambda: _claims(results)]
    findings = [finding for check in checks for finding in _found(check)]
    notes = (*([unnamed] if unnamed else []), *_notes(run, commitment_hash, audited=bool(on_disk)))
    return Verification(ok=not findings, findings=tuple(findings), notes=notes, commitment=on_disk)


def _unnamed_method(results: Results) -> str | None:
    """Say that the bounds were not made again, where their method is a plug-in that the user has not named."""
    try:
        METHODS.permit(results.audit.method)
    except ConfigError as error:
        return f"The bounds were not made again from the counts. {error}"
    return None


def _found(check: Callable[[], Iterator[str]]) -> list[str]:
    """Return what a check finds; that it could not be made is a finding too."""
    try:
        return list(check())
    except CanarybankError as error:
        return [str(error)]


def _notes(run: Run, given: str | None, *, audited: bool) -> tuple[str, ...]:
    notes = []
    if audited and given is None:
        notes.append(
            "Give the hash that was published before the trials: without it, the whole folder could have been made "
            "anew."
        )
    strange = sorted(set(hash_folder(run.folder, skip={MANIFEST})) - set(run.manifest.files))
    if strange:
        notes.append(f"Files that the run did not seal: {', '.join(strange)}.")
    if audited:
        notes.append(
            "To check the counts themselves, run the same command in an empty folder and compare results.json."
        )
    else:
        notes.append("This run is not audited: its files are checked against its manifest, and nothing else.")
    return tuple(notes)


def _state(run: Run) -> Iterator[str]:
    if not run.is_finished:
        yield (
            f"{MANIFEST} says that the {run.noun} is not finished, though its {RESULTS} is there; if it was "
            f"interrupted, run the same command again."
        )


def _rounds(results: Results) -> Iterator[str]:
    """Compare what an evolution's ledger states with what its mechanism spends."""
    for each in () if results.evolution is None else results.evolution.rounds:
        spent = epsilon(results.mechanism, each.round)
        if not math.isclose(each.epsilon, spent, rel_tol=1e-6):
            yield f"Round {each.round} states epsilon {each.epsilon:.6g}, but so many releases spend {spent:.6g}."


def _hashes(manifest: Manifest, results: Results, on_disk: str, given: str | None) -> Iterator[str]:
    if given is not None and given.strip().lower() != on_disk:
        yield f"{COMMITMENT} has the hash {on_disk}, not the published {given.strip().lower()}."
    if manifest.commitment != on_disk:
        yield f"{MANIFEST} names the commitment {manifest.commitment}, not the one on disk."
    if results.commitment != on_disk:
        yield f"{RESULTS} was made under the commitment {results.commitment}, not the one on disk."


def _files(run: Run, results: Results, *, written: bool) -> Iterator[str]:
    listed = run.manifest.files
    for name, what in altered_files(run.folder, listed).items():
        if written or run.is_source(name):
            yield f"{name} is {what} since the run was sealed."
    for name in (RESULTS,) if results.commitment is None else (COMMITMENT, RESULTS, TRIALS):
        if name not in listed:
            yield f"{MANIFEST} does not list {name}; the run was not sealed, or the list was altered."


def _settings(run: Run, results: Results, commitment: Commitment) -> Iterator[str]:
    config, evolving = run.manifest.config, run.kind == "evolution"
    if hash_json(decisive(config, evolving=evolving)) != commitment.settings_hash:
        yield f"The settings in {MANIFEST} are not those that were committed to."
    # An evolution's mechanism may be computed from its budget; the commitment holds the one that was used.
    used = {"audit": results.audit.model_dump(mode="json")} | (
        {} if evolving else {"mechanism": asdict(results.mechanism)}
    )
    for section, values in used.items():
        for name, value in values.items():
            # A run of an older version has no setting that came later; the hash above covers all that it had.
            committed = config.get(f"{section}.{name}", value)
            if committed != value:
                yield f"{section}.{name} of the results is {value}, but {committed} was committed to."


def _rules(results: Results, commitment: Commitment) -> Iterator[str]:
    setup = results.setup
    facts: list[tuple[str, Any, Any]] = [
        ("mechanism", results.mechanism, commitment.mechanism),
        ("method", results.audit.method, commitment.method),
        ("number of trials", results.audit.trials, commitment.trials),
        ("alpha", results.audit.alpha, commitment.alpha),
        ("seed", results.seed, commitment.seed),
        ("bank", setup.bank_hash if setup else "", commitment.bank_hash),
        ("encoder", setup.encoder_fingerprint if setup else "", commitment.encoder),
        ("eligible population", setup.evaluation if setup else 0, commitment.eligible),
        (
            "list of attacks",
            [(each.attack, each.rounds) for each in results.attacks],
            [(each.attack, each.rounds) for each in commitment.attacks],
        ),
    ]
    if commitment.schema_version > 1:
        facts += [
            ("exact epsilon", finite(results.epsilon), commitment.exact),
            ("claim", finite(results.claim), commitment.claimed),
            ("layout", results.schema_version, commitment.results_layout),
        ]
    for what, used, committed in facts:
        if used != committed:
            yield f"The {what} of the results is {used}, but {committed} was committed to."
    for record, frozen in zip(results.attacks, commitment.attacks, strict=False):
        used_rules = [(c.canary, c.bank_hash, c.inspected, c.threshold.value) for c in record.canaries]
        if used_rules != [(c.canary, c.bank_hash, c.inspected, c.threshold) for c in frozen.canaries]:
            yield f"The canaries, banks, positions or thresholds of {_named(record)} are not those committed to."
        # Layout 1 names a pooled claim without its attack.
        entries = tuple(
            (f"{record.attack}/pooled" if n == "pooled" else n, share) for n, share in frozen.ledger.entries
        )
        if record.ledger != replace(frozen.ledger, entries=entries):
            yield f"The alpha of {_named(record)} is not split as it was committed to."


def _sealed(run: Run, sealed: Seal | None, on_disk: str) -> Iterator[str]:
    """Check that thresholds fitted after the commitment are bound to it, and were kept when the run finished."""
    if sealed is None:
        return
    if sealed.commitment != on_disk:
        yield f"{SEALED} was written under the commitment {sealed.commitment}, not the one on disk."
    if SEALED not in run.manifest.files:
        yield f"{MANIFEST} does not list {SEALED}; the run was not sealed, or the list was altered."


def _named(record: AttackResult) -> str:
    return record.attack if record.rounds == 1 else f"{record.attack} over {record.rounds} rounds"


def _counts(run: Run, results: Results, rules: str) -> Iterator[str]:
    played = read_shards(run.folder / TRIALS)
    if played.commitment != rules:
        yield f"The trials in {TRIALS} were played under the commitment {played.commitment}, not the one on disk."
    for record in results.attacks:
        for index, canary in enumerate(record.canaries):
            counts = canary.counts
            if played.counts((record.attack, index), record.rounds) != counts:
                yield f"The counts of {_named(record)}, canary {index}, are not the sum of its shards in {TRIALS}."
            if {counts.n1, counts.n0} != {results.audit.trials}:
                yield f"The trials of {_named(record)}, canary {index}, are {counts.n1:,} and {counts.n0:,} in number."


def _rates(results: Results) -> Iterator[str]:
    """Compare counts with the exact rates of the rules that gave them: no honest run of ours fails this."""
    for record in results.attacks:
        target = declared(results).target(results.mechanism, max(1, len(record.canaries)))
        for index, canary in enumerate(record.canaries):
            if canary.absent_rate is None or canary.eligible_rate is None:
                continue
            counts, ends = canary.counts, {"fp": _ends(canary.absent_rate), "tp": _ends(canary.eligible_rate)}
            # The first count of a method may be about another rate than an eligible canary's.
            ends["tp"] = tuple(
                float(target.first_rate(tpr, fpr)) for tpr, fpr in zip(ends["tp"], ends["fp"][::-1], strict=True)
            )
            for name, number, trials in (("fp", counts.fp, counts.n0), ("tp", counts.tp, counts.n1)):
                low, high = ends[name]
                if min(binom.sf(number - 1, trials, high), binom.cdf(number, trials, low)) < IMPOSSIBLE:
                    yield (
                        f"{number:,} of {trials:,} {name} of {_named(record)}, canary {index}, cannot come from the "
                        f"exact rate {low:.4g} to {high:.4g} of its rule: counts or rates were altered."
                    )


def _ends(interval: Interval) -> tuple[float, ...]:
    return interval.lower * (1 - 1e-9), min(1.0, interval.upper * (1 + 1e-9))


def _claims(results: Results) -> Iterator[str]:
    mechanism, settings = results.mechanism, declared(results)
    for record in results.attacks:
        counts = [canary.counts for canary in record.canaries]
        canaries = [canary_bound(each, mechanism, settings, len(counts)) for each in counts]
        over_all = pooled_bound(counts, mechanism, settings)
        made = [headline(canaries, over_all, settings), over_all, *canaries]
        if made != [record.headline, record.pooled, *(canary.bound for canary in record.canaries)]:
            yield f"The bounds of {_named(record)} are not those that its counts give by the declared method and level."
        if record.ladder.observed.epsilon != record.headline.epsilon:
            yield f"The observed rung of {_named(record)} is not its headline."


def _ladders(results: Results) -> Iterator[str]:
    """Compare the rungs above the trials with what they repeat."""
    for record in results.attacks:
        ladder, exact = record.ladder, epsilon(results.mechanism, record.rounds)
        if ladder.mechanism.epsilon < exact * (1 - 1e-6):
            yield (
                f"The exact epsilon of {_named(record)} is given as {ladder.mechanism.epsilon:.6g}, but the "
                f"mechanism's is {exact:.6g}."
            )
        last = record.rounds == results.rounds
        if last and ladder.mechanism.epsilon != results.epsilon:
            yield f"The mechanism's rung of {_named(record)} is not what the results state."
        stated = results.claim if results.evolution is None else results.audit.accounted
        if last and stated is not None and ladder.accounted.epsilon != stated:
            yield f"The accounted rung of {_named(record)} is not what the results state."
        for rung, name in ((ladder.attack, "supremum"), (ladder.rule, "rule")):
            ends = [end for canary in record.canaries if (end := getattr(canary, name)) is not None]
            best = max(ends, key=lambda end: end.lower, default=None)
            if (None if rung is None else (rung.low, rung.high)) != (
                None if best is None else (best.lower, best.upper)
            ):
                yield f"The exact epsilon in the ladder of {_named(record)} is not that of its best canary ({name})."
