"""Check the audit of one run against its commitment, and hold its certificate against a claimed epsilon.

The certificate is made again from the releases and the coins that the folder keeps. What cannot be checked is that the
system made these releases, and that the coins are its sampler's.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.auditing.one_run import Certificate, RunDeclaration, RunShown
from canarybank.config.loading import decisive
from canarybank.run.folder import COMMITMENT, MANIFEST, RESULTS, Run
from canarybank.run.gating import Cause, EvidenceGate, GateOutcome, as_printed
from canarybank.run.one_run import OneRunPlant, read_released, recorded_hash
from canarybank.run.plant import UNTIMED
from canarybank.run.results import NOT_PRIVATE
from canarybank.run.systems import EXACT, alike, file_findings
from canarybank.store import hash_json
from canarybank.wording import shown_epsilon

__all__ = ["certificate_findings", "compare_certificate", "compare_one_run", "one_run_findings"]

SCORE = "probes"
"""What one run is scored by: what is released on the probes of its canaries."""


def one_run_findings(run: Run, *, written: bool = True) -> Iterator[str]:
    """Say everything about the audit of one run that is not as it was committed to or found."""
    plant, results, digest = run.one_run, run.one_run_results, run.commitment_hash
    if not run.is_finished:
        yield f"{MANIFEST} says that the {run.noun} is not finished, though its {RESULTS} is there."
    yield from file_findings(run, plant.files, (COMMITMENT, RESULTS), written=written)
    for name, commitment in {MANIFEST: run.manifest.commitment, RESULTS: results.commitment}.items():
        if commitment != digest:
            yield f"{name} names the commitment {commitment}, not the one on disk."
    if hash_json(decisive(run.manifest.config, "one-run")) != plant.settings_hash:
        yield f"The settings in {MANIFEST} are not those that were committed to."
    if (results.system, results.statement) != (plant.system, NOT_PRIVATE):
        yield f"{RESULTS} names another system than was committed to, or says what no audit says of its file."
    if unknown := [each for each in results.notes if each != UNTIMED]:
        yield f"{RESULTS} has a note that no audit writes: {min(unknown)!r}."
    declared = plant.declaration
    if (plant.ledger, plant.guesses) != (declared.ledger, declared.guesses):
        yield f"The shares of alpha or the numbers of guesses in {COMMITMENT} do not follow from what it declares."
    values, took = read_released(run.folder)
    if recorded_hash(values, took) != results.releases:
        yield "The releases or the coins in the folder are not those that were judged."
        return
    yield from certificate_findings(plant, results.found, values, took)


def certificate_findings(
    plant: OneRunPlant,
    found: Certificate,
    values: NDArray[np.float64],
    took: NDArray[np.bool_] | None,
    votes: Sequence[csr_array] | None = None,
) -> Iterator[str]:
    """Make a certificate again from what ``OneRunPlant.judged`` takes, and compare it."""
    made = plant.judged(values, took, votes)
    if not alike(made, found, near=EXACT):
        yield "The certificate is not what the releases and the coins show under the commitment."


def compare_one_run(run: Run, claimed: float) -> GateOutcome:
    """Compare what one run showed with a claimed epsilon, taking the files as they are."""
    results = run.one_run_results
    return compare_certificate(results.found, run.one_run.declaration, claimed, results.commitment)


def compare_certificate(found: Certificate, declared: RunDeclaration, claimed: float, commitment: str) -> GateOutcome:
    """Compare a certificate with a claimed epsilon.

    A claim fails when the claimed mechanism's exact epsilon exceeds it, when a bound does, or when the run shows that
    the system is not the mechanism that its epsilon was computed for.
    """
    attained, claim = found.claim.attained, replace(found.claim, epsilon=claimed)
    causes = [cause for each in found.shown for cause in _causes(each, claimed, found, declared.limit)]
    if attained is not None and as_printed(attained) > claimed:
        causes.append(Cause(kind="mechanism", epsilon=attained, attack=None, confidence=None))
    worst = max(found.shown, key=lambda each: each.epsilon)
    level, about = f"at confidence {1 - found.alpha:g}", f"The claim: {claim}."
    most = f"the bound {shown_epsilon(worst.epsilon)} ({worst.evidence}) of one run"
    powers = dict(zip(declared.evidence, declared.power, strict=True))
    if causes:
        kinds = {each.kind for each in causes}
        sentences = {
            "trials": f"Violation: {most} refutes the claimed epsilon {claimed:g} {level}.",
            "curve": "The claimed mechanism is refuted, so its epsilon says nothing of this system. "
            + " ".join(each.statement for each in found.shown if each.refuted),
            "mechanism": "The claim is too small: the claimed mechanism's exact epsilon, computed without a run, is "
            f"{shown_epsilon(attained)}, and the claimed epsilon is {claimed:g}.",
        }
        said = [*(text for kind, text in sentences.items() if kind in kinds), about]
    else:
        said = [
            f"No violation detected at this power: {most} does not exceed the claimed epsilon {claimed:g} {level}.",
            about,
            *powers.values(),
        ]
    return GateOutcome(
        ok=not causes,
        causes=tuple(causes),
        statement=" ".join(said),
        claim=str(claim),
        claimed=claimed,
        exact=math.inf if attained is None else attained,
        is_exact_known=attained is not None,
        attained=attained,
        epsilon=worst.epsilon,
        attack=_named(worst),
        method=str(worst.evidence),
        confidence=1 - found.alpha,
        trials=1,
        canaries=found.canaries,
        rounds=found.claim.rounds,
        attacks=(),
        evidence=tuple(
            EvidenceGate(
                score=SCORE,
                evidence=str(each.evidence),
                fails=bool(_causes(each, claimed, found, declared.limit)),
                epsilon=each.epsilon,
                alpha=each.alpha,
                assumption=each.assumption,
                power=powers[each.evidence],
                statement=each.statement,
            )
            for each in found.shown
        ),
        power=None,
        frozen_power=None,
        commitment=commitment,
    )


def _named(each: RunShown) -> str:
    return f"{SCORE} score, {each.evidence}"


def _causes(each: RunShown, claimed: float, found: Certificate, limit: float) -> list[Cause]:
    """Return why a claim fails by one kind of evidence: its bound, and that the mechanism is another one."""
    named, confidence, mechanism = _named(each), 1 - found.alpha, found.claim.mechanism
    causes = []
    if each.epsilon > claimed:
        causes.append(Cause(kind="trials", epsilon=each.epsilon, attack=named, confidence=confidence))
    too_far = each.shift is not None and each.shift > limit
    too_often = each.rate is not None and mechanism is not None and each.rate > mechanism.q
    if too_far or too_often:
        causes.append(Cause(kind="curve", epsilon=None, attack=named, confidence=confidence))
    return causes
