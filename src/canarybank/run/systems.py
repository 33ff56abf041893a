"""Check the audit of a system against its commitment, and hold it against a claimed epsilon.

Everything after the releases is made again from the releases that the folder keeps: the rules that were sealed, and
what the judged runs showed under them. What cannot be checked is that the system made these releases as the schedule
says.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from canarybank.auditing.declaration import Evidence
from canarybank.auditing.rules import fit_rules
from canarybank.auditing.system import Shown, SystemResult, judge_runs
from canarybank.config.loading import decisive
from canarybank.errors import DependenceError
from canarybank.mechanism import Claim
from canarybank.run.folder import COMMITMENT, MANIFEST, RESULTS, SEALED, Run
from canarybank.run.gating import Cause, EvidenceGate, GateOutcome, as_printed
from canarybank.run.plant import NOTES, SCHEDULE, Plant, SealedRules, SystemResults, read_batches
from canarybank.run.results import NOT_PRIVATE
from canarybank.store import altered_files, hash_file, hash_folder, hash_json
from canarybank.systems.command import schedule_text
from canarybank.systems.trials import Split
from canarybank.wording import shown_epsilon

__all__ = ["EXACT", "alike", "compare_system", "file_findings", "system_findings"]

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
ROUNDING = 1e-6
"""What figures that are made again on another machine may differ by, relative to themselves."""
EXACT = 1e-12
"""What computed figures may differ by near zero: so little that no small p-value is taken for another."""


def system_findings(run: Run, *, written: bool = True) -> Iterator[str]:
    """Say everything that is not as it was committed to, sealed or found."""
    plant, sealed, results, digest = run.plant, run.sealed_rules, run.system_results, run.commitment_hash
    if not run.is_finished:
        yield f"{MANIFEST} says that the {run.noun} is not finished, though its {RESULTS} is there."
    yield from file_findings(run, plant.files, (COMMITMENT, SEALED, RESULTS), written=written)
    schedule = schedule_text(plant.declaration.schedule, plant.replaced_by)
    if (run.folder / SCHEDULE).exists() and (run.folder / SCHEDULE).read_text(encoding="utf-8") != schedule:
        yield f"{SCHEDULE} is not the schedule that follows from what was committed to."
    named = {MANIFEST: run.manifest.commitment, SEALED: sealed.commitment, RESULTS: results.commitment}
    for name, commitment in named.items():
        if commitment != digest:
            yield f"{name} names the commitment {commitment}, not the one on disk."
    if hash_json(decisive(run.manifest.config, "system")) != plant.settings_hash:
        yield f"The settings in {MANIFEST} are not those that were committed to."
    if results.sealed != hash_file(run.folder / SEALED):
        yield f"{RESULTS} was made under other rules than those in {SEALED}."
    yield from _remade(run, plant, sealed, results)


def file_findings(run: Run, planted: Mapping[str, str], due: Sequence[str], *, written: bool) -> Iterator[str]:
    """Compare files with what the manifest lists, what was planted, and what must be there."""
    listed, present = run.manifest.files, hash_folder(run.folder, skip={MANIFEST})
    for name in sorted(set(present) - set(listed)):
        if run.is_source(name):
            yield f"{name} was added since the run was sealed."
    for name, what in altered_files(run.folder, listed).items():
        if written or run.is_source(name):
            yield f"{name} is {what} since the run was sealed."
    for name, what in altered_files(run.folder, planted).items():
        yield f"{name} is {what} since it was committed to."
    for name in due:
        if name not in listed:
            yield f"{MANIFEST} does not list {name}; the run was not sealed, or the list was altered."


def _remade(run: Run, plant: Plant, sealed: SealedRules, results: SystemResults) -> Iterator[str]:
    """Make rules and findings again from the releases."""
    declared, found = plant.declaration, results.found
    if found.claim != plant.claim or found.alpha != plant.alpha:
        yield "The results are about another claim, or at another alpha, than was committed to."
    batches = declared.batches
    first = [batch for batch in batches if batch[0].split is Split.FIT]
    fitted, fitted_on = read_batches(run.folder, first)
    releases, digest = read_batches(run.folder, batches)
    if fitted_on != sealed.fitted_on or digest != results.releases:
        yield "The releases in the folder are not those that were fitted on, or that were judged."
        return
    rules = fit_rules(declared, fitted, plant.scores_designed)
    if not alike(rules, sealed.fitted):
        yield f"The rules in {SEALED} are not those that the recipe gives on the runs set apart."
    if not alike(judge_runs(declared, sealed.fitted, releases), found, near=EXACT):
        yield f"What {RESULTS} says is not what the sealed rules show on the releases."
    if (results.system, results.statement) != (plant.system, NOT_PRIVATE):
        yield f"{RESULTS} names another system than was committed to, or says what no audit says of its file."
    if unknown := [each for each in results.notes if not NOTES.fullmatch(each)]:
        yield f"{RESULTS} has a note that no audit writes: {min(unknown)!r}."


def alike(one: Any, other: Any, near: float = ROUNDING) -> bool:
    """Say whether two values are the same, up to the rounding of another machine; ``near`` is that of zero."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=near)
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _alike_in_words(one, other)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(alike(*pair, near) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(each, other[name], near) for name, each in one.items())
    if is_dataclass(one) and type(one) is type(other):
        return all(alike(getattr(one, each.name), getattr(other, each.name), near) for each in fields(one))
    return bool(np.all(one == other))


def _alike_in_words(one: str, other: str) -> bool:
    """Say whether two texts have the same words and whole numbers, and printed decimals that rounding may change."""
    numbers = [[Decimal(each.replace(",", "")) for each in NUMBER.findall(text)] for text in (one, other)]
    return NUMBER.sub("#", one) == NUMBER.sub("#", other) and all(map(_alike_in_print, *numbers))


def _alike_in_print(one: Decimal, other: Decimal) -> bool:
    """Say whether two printed numbers are the same, or decimals that differ by one in their last digit."""
    last = min(int(each.as_tuple().exponent) for each in (one, other))
    return one == other or (last < 0 and abs(one - other) <= Decimal(1).scaleb(last))


def compare_system(run: Run, claimed: float) -> GateOutcome:
    """Compare what a system's runs showed with a claimed epsilon, taking the files as they are.

    A claim fails when the claimed mechanism's exact epsilon exceeds it, when a bound does, or when the curve shows that
    the system is not the mechanism that its epsilon was computed for.
    """
    found, plant = run.system_results.found, run.plant
    if not found.independence.ok:
        raise DependenceError(f"{found.statement} So no claim can be held against these runs.")
    attained, claim = found.claim.attained, replace(found.claim, epsilon=claimed)
    causes = [cause for each in found.shown if (cause := _cause(each, claimed, found)) is not None]
    if attained is not None and as_printed(attained) > claimed:
        causes.append(Cause(kind="mechanism", epsilon=attained, attack=None, confidence=None))
    bounds = [each for each in found.shown if each.epsilon is not None]
    worst = max(bounds, key=lambda each: each.epsilon or 0.0, default=None)
    return GateOutcome(
        ok=not causes,
        causes=tuple(causes),
        statement=_statement(found, claim, causes, worst, attained),
        claim=str(claim),
        claimed=claimed,
        exact=math.inf if attained is None else attained,
        is_exact_known=attained is not None,
        attained=attained,
        epsilon=0.0 if worst is None else worst.epsilon or 0.0,
        attack="" if worst is None else named(worst),
        method=plant.method,
        confidence=1 - found.alpha,
        trials=found.judged,
        rounds=found.claim.rounds,
        attacks=(),
        evidence=tuple(
            EvidenceGate(
                score=str(each.score),
                evidence=str(each.evidence),
                fails=_cause(each, claimed, found) is not None,
                epsilon=each.epsilon,
                alpha=each.alpha,
                assumption=each.assumption,
                power=each.power,
                statement=each.statement,
            )
            for each in found.shown
        ),
        power=None,
        frozen_power=None,
        commitment=run.system_results.commitment,
    )


def named(each: Shown) -> str:
    """Return what a kind of evidence on a score is called."""
    return f"{each.score} score, {each.evidence}"


def _statement(
    found: SystemResult, claim: Claim, causes: Sequence[Cause], worst: Shown | None, attained: float | None
) -> str:
    """Return the outcome as a few sentences: what fails the claim and why, or what was not seen at this power."""
    level, about = f"at confidence {1 - found.alpha:g}", f"The claim: {claim}."
    most = "" if worst is None else f"{shown_epsilon(worst.epsilon)} ({named(worst)})"
    if not causes:
        said = f"the bound {most} does not exceed the claimed epsilon {claim.epsilon:g}" if most else "nothing fails it"
        power = dict.fromkeys(each.power for each in found.shown)
        audited = [] if claim == found.claim else [f"Power is that of the claim that was audited: {found.claim}."]
        leaks = [each.statement for each in found.leaks if each.depends_on_canary]
        return " ".join([f"No violation detected at this power: {said} {level}.", about, *leaks, *power, *audited])
    kinds = {each.kind for each in causes}
    sentences = {
        "trials": f"Violation: the bound {most} refutes the claimed epsilon {claim.epsilon:g} {level}.",
        "curve": "The claimed mechanism is refuted, so its epsilon says nothing of this system. "
        + " ".join(each.statement for each in found.shown if each.curve is not None and each.refuted),
        "mechanism": "The claim is too small: the claimed mechanism's exact epsilon, computed without runs, is "
        f"{shown_epsilon(attained)}, and the claimed epsilon is {claim.epsilon:g}.",
    }
    kinds |= {"trials"} if "betting" in kinds else set()
    return " ".join([*(text for kind, text in sentences.items() if kind in kinds), about])


def _cause(each: Shown, claimed: float, found: SystemResult) -> Cause | None:
    confidence = 1 - found.alpha
    if each.evidence is Evidence.CURVE:
        return Cause(kind="curve", epsilon=None, attack=named(each), confidence=confidence) if each.refuted else None
    if each.epsilon is None:
        return None
    # A bet's bound is the last epsilon that was refuted, so that a claim which equals it fails.
    bet = each.evidence is Evidence.BETTING and (
        0 < each.epsilon >= claimed or (each.refuted and claimed <= found.claim.epsilon)
    )
    if bet or each.epsilon > claimed:
        kind = "betting" if each.evidence is Evidence.BETTING else "trials"
        return Cause.model_validate(
            {"kind": kind, "epsilon": each.epsilon, "attack": named(each), "confidence": confidence}
        )
    return None
