"""Check a finished run against its commitment, and hold it against a claim only if nothing is found.

The anchor is the commitment's published hash. Whoever holds the folder could write all of it anew, manifest included,
but not so that another commitment has that hash. The counts themselves can be checked by running the same command in
an empty folder: its ``results.json`` must be the same to the byte. ``docs/commitment.md`` says what this protects
against, and against what it does not.
"""

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from canarybank.attack import Attack, CanaryKind
from canarybank.auditing import AttackResult, CanaryResult, Settings, canary_bound, headline, pooled_bound
from canarybank.auditing.rates import IMPOSSIBLE, chance_between, rate_epsilon
from canarybank.config.loading import decisive
from canarybank.errors import CanarybankError, ConfigError, StoreError
from canarybank.evolution import FolderArchive
from canarybank.mechanism import epsilon
from canarybank.registry import ATTACKS, METHODS
from canarybank.run.commitment import Commitment, Record, finite
from canarybank.run.folder import COMMITMENT, EVOLUTION, MANIFEST, RESULTS, TRIALS, Run
from canarybank.run.results import Results
from canarybank.run.trials_log import Played
from canarybank.score import Interval
from canarybank.store import altered_files, hash_folder, hash_json

__all__ = ["Verification", "declared", "refuse_unverified", "trust_methods", "verify"]

ROUNDING = 1e-6
"""What exact figures that follow from each other may differ by."""
FIRST = 3
"""How many findings a refusal says; `canarybank verify` lists all."""


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


def verify(folder: Run | Path | str, commitment_hash: str | None = None, *, trust: Iterable[str] = ()) -> Verification:
    """Check a finished run: against the hash that was published before its trials, where that is given.

    Nothing that the folder names is imported, but for the plug-in methods that ``trust`` names.

    Args:
        folder: A run, or its folder.
        commitment_hash: The hash that was published before the trials, where it was.
        trust: Plug-in methods that may be imported.

    Example:
        >>> verify("runs/demo").ok
        True
    """
    trust_methods(trust)
    return _verified(folder if isinstance(folder, Run) else Run.open(folder), commitment_hash)


def trust_methods(names: Iterable[str]) -> None:
    """Import plug-in methods because the user names them, so that the bounds of a received folder can be made again."""
    for name in names:
        METHODS.find(name)


def refuse_unverified(run: Run, commitment_hash: str | None = None, *, rewritten: bool = False) -> None:
    """Refuse a finished run that does not verify, with the first of what was found, and how much more there is.

    Only where a report is about to be ``rewritten`` from the results, the files of the old one are not looked at.
    """
    found = _verified(run, commitment_hash, written=not rewritten).findings
    if found:
        shown, more = " ".join(found[:FIRST]), len(found) - FIRST
        if more > 0:
            shown += f" And {more:,} more; `canarybank verify {shlex.quote(str(run.folder))}` lists them."
        raise StoreError(
            f"The run in {str(run.folder)!r} does not verify, so nothing is reported of it. {shown} Restore the run "
            "from a copy, or run it again in another folder."
        )


def declared(results: Results) -> Settings:
    """Return the declaration that results were made under; a method that the user has not named is not imported."""
    audit = results.audit
    return Settings(trials=audit.trials, alpha=audit.alpha, method=METHODS.received(audit.method), seed=results.seed)


def _verified(run: Run, commitment_hash: str | None, *, written: bool = True) -> Verification:
    on_disk, checks, notes = (_of_system if run.kind in {"system", "one-run"} else _of_audit)(run, written=written)
    if commitment_hash is not None:
        given = commitment_hash.strip().lower()
        what = f"{COMMITMENT} has the hash {on_disk}, not the published {given}."
        none = f"There is no {COMMITMENT} here, so none with the published hash {given}."
        checks.insert(0, _wrong((given != on_disk, what if on_disk else none)))
    elif on_disk:
        notes.insert(
            0,
            f"Give the hash that was published before the {'releases' if run.carries_canaries else 'trials'}: without "
            "it, the whole folder could have been made anew.",
        )
    findings = tuple(finding for check in checks for finding in _found(check))
    return Verification(ok=not findings, findings=findings, notes=tuple(notes), commitment=on_disk)


def _of_system(run: Run, *, written: bool) -> tuple[str, list[Iterator[str]], list[str]]:
    """Return the hash of the commitment on disk, the checks of a system's audit, and what they do not cover."""
    if run.kind == "one-run":
        from canarybank.run.certificates import one_run_findings

        _ = run.one_run_results  # which says what to do, where it was not judged yet
        notes = ["It was not checked that the system made these releases, and that the coins are its sampler's."]
        return run.commitment_hash, [one_run_findings(run, written=written)], notes
    from canarybank.run.systems import system_findings

    _ = run.system_results  # which says how far the audit is, where it was not judged yet
    notes = ["It was not checked that the system made these releases, as the schedule says."]
    return run.commitment_hash, [system_findings(run, written=written)], notes


def _of_audit(run: Run, *, written: bool) -> tuple[str, list[Iterator[str]], list[str]]:
    """Return the same of an audit or an evolution; there is no hash where nothing was audited."""
    results, on_disk, notes = run.results, "", []
    present = hash_folder(run.folder, skip={MANIFEST})
    unfinished = (
        f"{MANIFEST} says that the {run.noun} is not finished, though its {RESULTS} is there; if it was interrupted, "
        "run the same command again."
    )
    other = f"{MANIFEST} says that this is an {run.kind}, and {RESULTS} is of another kind."
    checks = [
        _wrong(
            (not run.is_finished, unfinished), ((run.kind == "evolution") != (results.evolution is not None), other)
        ),
        _files(run, results, present, written=written),
        _evolution(run, results),
    ]
    asked = bool(run.manifest.config.get("evolve.audit")) and results.rounds > 0
    if run.carries_canaries:
        from canarybank.run.carried import carried_findings

        on_disk = run.commitment_hash
        checks.append(carried_findings(run, results))
    elif run.kind == "audit" or results.commitment is not None or results.attacks or asked:
        commitment, on_disk = run.commitment, run.commitment_hash
        named, made = run.manifest.commitment, results.commitment
        checks += [
            _wrong(
                (named != on_disk, f"{MANIFEST} names the commitment {named}, not the one on disk."),
                (made != on_disk, f"{RESULTS} was made under the commitment {made}, not the one on disk."),
            ),
            _settings(run, results, commitment),
            _rules(results, commitment),
            _counts(run, results, on_disk),
            _ladders(results),
        ]
        try:
            METHODS.permit(results.audit.method)
            checks += [_rates(results), _claims(results)]
        except ConfigError as error:
            notes.append(f"The bounds were not made again from the counts. {error}")
    if strange := sorted(set(present) - set(run.manifest.files)):
        notes.append(f"Files that the run did not seal: {', '.join(strange)}.")
    uncovered = "To check the counts themselves, run the same command in an empty folder and compare results.json."
    if not on_disk:
        uncovered = (
            "This run is not audited: its files are checked against its manifest and its rounds against each other."
        )
    elif run.carries_canaries:
        uncovered = "It was not checked that the run made these releases from its users and canaries, by these coins."
    notes.append(uncovered)
    return on_disk, checks, notes


def _wrong(*pairs: tuple[bool, str]) -> Iterator[str]:
    """Yield the sentences of what is wrong."""
    yield from (sentence for is_wrong, sentence in pairs if is_wrong)


def _found(check: Iterator[str]) -> list[str]:
    """Return what a check finds; that it could not be made is a finding too."""
    found = []
    try:
        for finding in check:
            found.append(finding)  # noqa: PERF402, what was found before an error stays
    except CanarybankError as error:
        found.append(str(error))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        found.append(f"A check could not be made, for the results hold what no run writes ({error}).")
    return found


def _evolution(run: Run, results: Results) -> Iterator[str]:
    """Compare an evolution's rounds with what its mechanism spends, with its settings, and with its banks on disk."""
    facts, mechanism = results.evolution, results.mechanism
    if facts is None:
        return
    if [each.round for each in facts.rounds] != list(range(1, results.rounds + 1)):
        yield f"The results are of {results.rounds} releases, but they do not list as many rounds."
        return
    for each in facts.rounds:
        spent, published = epsilon(mechanism, each.round), FolderArchive(run.folder / EVOLUTION).bank(each.round - 1)
        yield from _wrong(
            (
                not math.isclose(each.epsilon, spent, rel_tol=1e-6) or each.delta != mechanism.delta,
                f"Round {each.round} states epsilon {each.epsilon:.6g}, but so many releases spend {spent:.6g}.",
            ),
            (
                published is None
                or published.bank.hash != each.bank
                or each.root not in {None, published.root}
                or each.barred != len(published.bank.barred),
                f"The bank of round {each.round} in {EVOLUTION} is not the one that the results name.",
            ),
        )
    judged = {(record.rounds, canary.bank_hash) for record in results.attacks for canary in record.canaries}
    told = (facts.evolve.insecure_seed, results.rounds == facts.evolve.rounds)
    yield from _wrong(
        (
            not math.isclose(results.epsilon, facts.spent, rel_tol=1e-6),
            f"The results state epsilon {results.epsilon:.6g}, but their rounds spend {facts.spent:.6g}.",
        ),
        (
            (facts.insecure_seed, facts.complete) != told,
            "The results do not say what their settings say of the seed, or of the rounds that were to be made.",
        ),
        *(
            (True, f"An attack over {number} rounds was judged on another bank than that of round {number}.")
            for number, _ in sorted(judged - {(each.round, each.bank) for each in facts.rounds})
        ),
    )
    yield from _unlike("evolve", facts.evolve.model_dump(mode="json"), run.manifest.config)


def _unlike(section: str, values: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    # A run of an older version has no setting that came later; the commitment's hash covers all that it had.
    pairs = [(name, value, config.get(f"{section}.{name}", value)) for name, value in values.items()]
    return _wrong(
        *(
            (told != value, f"{section}.{name} of the results is {value}, but {told} was committed to.")
            for name, value, told in pairs
        )
    )


def _files(run: Run, results: Results, present: Mapping[str, str], *, written: bool) -> Iterator[str]:
    listed, documents = run.manifest.files, (COMMITMENT, RESULTS, TRIALS)
    due: tuple[str, ...] = (RESULTS,) if results.commitment is None else documents
    if run.carries_canaries:
        due = (COMMITMENT, RESULTS)
    return _wrong(
        *(
            (
                run.is_source(name) and name not in documents,
                f"{name} was added since the run was sealed.",
            )
            for name in sorted(set(present) - set(listed))
        ),
        *(
            (written or run.is_source(name), f"{name} is {what} since the run was sealed.")
            for name, what in altered_files(run.folder, listed).items()
        ),
        *(
            (name not in listed, f"{MANIFEST} does not list {name}; the run was not sealed, or the list was altered.")
            for name in due
        ),
    )


def _settings(run: Run, results: Results, commitment: Commitment) -> Iterator[str]:
    config, evolving = run.manifest.config, run.kind == "evolution"
    if hash_json(decisive(config, run.kind)) != commitment.settings_hash:
        yield f"The settings in {MANIFEST} are not those that were committed to."
    yield from _unlike("audit", results.audit.model_dump(mode="json"), config)
    if not evolving:  # an evolution's mechanism may be computed from its budget; the commitment holds it
        yield from _unlike("mechanism", asdict(results.mechanism), config)


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
        ("number of releases", results.rounds, max(each.rounds for each in commitment.attacks)),
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
    yield from _wrong(
        *(
            (used != sworn, f"The {what} of the results is {used}, but {sworn} was committed to.")
            for what, used, sworn in facts
        )
    )
    for record, frozen in zip(results.attacks, commitment.attacks, strict=False):
        used_rules = [(c.canary, c.bank_hash, c.inspected, c.threshold.value) for c in record.canaries]
        # Layout 1 names a pooled claim without its attack.
        entries = tuple(
            (f"{record.attack}/pooled" if n == "pooled" else n, share) for n, share in frozen.ledger.entries
        )
        own: Attack | None = ATTACKS.built_in(record.attack) if record.attack in ATTACKS.places else None
        yield from _wrong(
            (
                used_rules != [(c.canary, c.bank_hash, c.inspected, c.threshold) for c in frozen.canaries],
                f"The canaries, banks, positions or thresholds of {_named(record)} are not those committed to.",
            ),
            (
                record.ledger != replace(frozen.ledger, entries=entries),
                f"The alpha of {_named(record)} is not split as it was committed to.",
            ),
            (
                own is not None and (record.plants, record.on_people) != (own.active, own.canary is CanaryKind.REAL),
                f"The results do not say of {_named(record)} what it plants, or whom it is about.",
            ),
        )


def _named(record: AttackResult) -> str:
    return record.attack if record.rounds == 1 else f"{record.attack} over {record.rounds} rounds"


def _counts(run: Run, results: Results, rules: str) -> Iterator[str]:
    played = Played(run.folder / TRIALS)
    under = f"The trials in {TRIALS} were played under the commitment {played.commitment}, not the one on disk."
    yield from _wrong((played.commitment != rules, under))
    for record in results.attacks:
        for index, canary in enumerate(record.canaries):
            counts, named = canary.counts, f"{_named(record)}, canary {index},"
            yield from _wrong(
                (
                    played.counts((record.attack, index), record.rounds) != counts,
                    f"The counts of {named} are not the sum of its shards in {TRIALS}.",
                ),
                (
                    {counts.n1, counts.n0} != {results.audit.trials},
                    f"The trials of {named} are {counts.n1:,} and {counts.n0:,} in number.",
                ),
            )


def _rates(results: Results) -> Iterator[str]:
    """Compare counts with the exact rates of the rules that gave them: no honest run of ours fails this."""
    for record in results.attacks:
        target = declared(results).target(results.mechanism, max(1, len(record.canaries)))
        for index, canary in enumerate(record.canaries):
            if canary.absent_rate is None or canary.eligible_rate is None:
                continue
            (least, most), (low, high), counts = _ends(canary.absent_rate), _ends(canary.eligible_rate), canary.counts
            # The first count of a method may be about another rate than an eligible canary's.
            low, high = (float(target.first_rate(tpr, fpr)) for tpr, fpr in ((low, most), (high, least)))
            seen = (("fp", counts.fp, counts.n0, least, most), ("tp", counts.tp, counts.n1, low, high))
            yield from _wrong(
                *(
                    (
                        chance_between(number, trials, lowest, highest) < IMPOSSIBLE,
                        (
                            f"{number:,} of {trials:,} {name} of {_named(record)}, canary {index}, cannot come from "
                            f"the exact rate {lowest:.4g} to {highest:.4g} of its rule: counts or rates were altered."
                        ),
                    )
                    for name, number, trials, lowest, highest in seen
                )
            )


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.lower * (1 - 1e-9), min(1.0, interval.upper * (1 + 1e-9))


def _claims(results: Results) -> Iterator[str]:
    mechanism, settings = results.mechanism, declared(results)
    for record in results.attacks:
        counts = [canary.counts for canary in record.canaries]
        canaries = [canary_bound(each, mechanism, settings, len(counts)) for each in counts]
        over_all = pooled_bound(counts, mechanism, settings)
        yield from _wrong(
            (
                [headline(canaries, over_all, settings), over_all, *canaries]
                != [record.headline, record.pooled, *(canary.bound for canary in record.canaries)],
                f"The bounds of {_named(record)} are not those that its counts give by the declared method and level.",
            ),
            (
                record.ladder.observed.epsilon != record.headline.epsilon,
                f"The observed rung of {_named(record)} is not its headline.",
            ),
        )


def _ladders(results: Results) -> Iterator[str]:
    """Compare the rungs above the trials with what they repeat, and what is shown of an attack with its canaries."""
    for record in results.attacks:
        ladder, canaries, named = record.ladder, record.canaries, _named(record)
        mechanism, exact = ladder.mechanism.epsilon, epsilon(results.mechanism, record.rounds)
        stated = results.claim if results.evolution is None else results.audit.accounted
        last, shown = record.rounds == results.rounds, canaries[record.headline_canary]
        yield from _wrong(
            (
                not math.isclose(mechanism, exact, rel_tol=1e-5),
                f"The exact epsilon of {named} is given as {mechanism:.6g}, but the mechanism's is {exact:.6g}.",
            ),
            (last and mechanism != results.epsilon, f"The mechanism's rung of {named} is not what the results state."),
            (
                last and stated is not None and ladder.accounted.epsilon != stated,
                f"The accounted rung of {named} is not what the results state.",
            ),
            (
                any(not rung.low <= rung.epsilon <= rung.high for rung in ladder.rungs),
                f"A rung of {named} lies outside the range that it is known to.",
            ),
            (
                shown.bound.epsilon != max(canary.bound.epsilon for canary in canaries),
                f"The canary that is shown of {named} is not the one with the largest bound.",
            ),
            *(
                (
                    (rung and (rung.low, rung.high)) != _best(getattr(canary, name) for canary in canaries),
                    f"The exact epsilon in the ladder of {named} is not that of its best canary ({name}).",
                )
                for rung, name in ((ladder.attack, "supremum"), (ladder.rule, "rule"))
            ),
            *(
                (
                    not _agree(canary, results.mechanism.delta),
                    f"The exact figures of {named}, canary {index}, do not follow from each other.",
                )
                for index, canary in enumerate(canaries)
            ),
        )


def _best(known: Iterable[Interval | None]) -> tuple[float, float] | None:
    """Return the interval with the largest lower end, where there is one."""
    return max(((each.lower, each.upper) for each in known if each is not None), key=lambda ends: ends[0], default=None)


def _agree(canary: CanaryResult, delta: float) -> bool:
    """Say whether the exact epsilon of a rule follows from its rates, and that of its attack is no smaller."""
    most, rule, absent, eligible = canary.supremum, canary.rule, canary.absent_rate, canary.eligible_rate
    if most is None or rule is None or absent is None or eligible is None:
        return True
    # A rate next to 1 is stored with less precision than its complement was computed with.
    above, below = np.array([eligible.lower, 1 - absent.upper]), np.array([absent.upper, 1 - eligible.lower]) + 1e-15
    least = float(rate_epsilon(above, below, delta).max())
    above, below = np.array([eligible.upper, 1 - absent.lower]), np.array([absent.lower, 1 - eligible.upper]) - 1e-15
    largest = max(0.0, float(rate_epsilon(above, np.maximum(below, 0.0), delta).max()))
    point = 0.0 if canary.exact is None else canary.exact
    return (
        least - ROUNDING <= rule.upper
        and rule.lower <= largest + ROUNDING
        and rule.lower <= most.upper + ROUNDING
        and point <= most.upper * (1 + ROUNDING) + ROUNDING
    )
