"""Certify an evolution that carried its own canaries: from its releases and the canaries' coins alone.

Only a simulation knows its population. There what everybody would contribute to the probes is kept too, and the
background enters the scores by exact tails.

``certify`` is all that makes a certificate. The run calls it when its last release is durable, and ``verify`` calls it
again on the releases and coins that the folder keeps.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.auditing.one_run import Background, Certificate, Coins, RunScores
from canarybank.config.loading import decisive
from canarybank.errors import StoreError
from canarybank.evolution import Evolution, Round
from canarybank.mechanism import Claim
from canarybank.run.certificates import certificate_findings
from canarybank.run.folder import COMMITMENT, EVOLUTION, MANIFEST, RESULTS, Run
from canarybank.run.one_run import OneRunPlant, read_released
from canarybank.run.results import CarriedCanaries, Results
from canarybank.run.systems import alike
from canarybank.store import hash_array, hash_json

__all__ = ["carried_findings", "certify", "describe_canaries", "held_to", "read_scores"]

TOLD = 2.0
"""The votes that probes take are told with an error of this many deviations."""


def certify(plant: OneRunPlant, rounds: Sequence[Round]) -> Certificate | None:
    """Return what the rounds that were made show of their claim; None where there are none.

    A run that its budget ended early is held to the claim of the releases that it made.
    """
    return held_to(plant, len(rounds)).judged(*_recorded(plant, rounds)) if rounds else None


def _recorded(
    plant: OneRunPlant, rounds: Sequence[Round]
) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None, list[csr_array] | None]:
    """Return what ``OneRunPlant.judged`` takes: releases on the probes, who took part, what everybody would give."""
    positions, took = np.array(plant.positions), np.column_stack([_coins(plant, each) for each in rounds])
    values = np.array([each.release[positions] for each in rounds])
    votes = [_votes(plant, each) for each in rounds] if plant.background is Background.EXACT else None
    return values, took if plant.coins is Coins.KNOWN else None, votes


def _votes(plant: OneRunPlant, made: Round) -> csr_array:
    """Return what everybody would contribute on the probes of a round, or say that nobody knows."""
    votes = made.background
    if votes is None or votes.shape[1] != made.bank.size or votes.shape[0] < len(plant.eligible):
        raise StoreError(
            f"The background of round {made.number + 1} is missing, or is that of another run; restore its "
            "background.npz from a copy."
        )
    return votes


def _coins(plant: OneRunPlant, made: Round) -> NDArray[np.bool_]:
    """Return which canaries took part in a round, or say that nobody knows."""
    if made.took is None or len(made.took) != len(plant.eligible):
        raise StoreError(
            f"The coins of round {made.number + 1} are missing, or are those of other canaries; restore its coins.json "
            "from a copy."
        )
    return made.took


def held_to(plant: OneRunPlant, rounds: int) -> OneRunPlant:
    """Return the commitment as it holds for the releases that were made."""
    mechanism = plant.claim.mechanism
    if rounds == plant.claim.rounds or mechanism is None:
        return plant
    return plant.model_copy(update={"claim": Claim.of(mechanism, rounds)})


def read_scores(run: Run) -> tuple[OneRunPlant, RunScores]:
    """Return what the releases of a judged run were held to, and every canary's scores in them.

    The run is an audit of one run of somebody else's system, or an evolution that carried its own canaries.
    """
    if run.kind == "one-run":
        return run.one_run, run.one_run.scored(*read_released(run.folder))
    rounds = Evolution.load(run.folder / EVOLUTION).rounds
    plant = held_to(run.one_run, len(rounds))
    return plant, plant.scored(*_recorded(plant, rounds))


def describe_canaries(plant: OneRunPlant, rounds: Sequence[Round]) -> CarriedCanaries:
    """Say what canaries an evolution carried, what they cost, and what its certificate could have shown."""
    probes = sum(map(len, plant.positions))
    share, error = _votes_taken(plant, rounds)
    return CarriedCanaries(
        canaries=len(plant.eligible),
        eligible=sum(plant.eligible),
        style=plant.style,
        probes=probes,
        entries=plant.bank_size,
        shift=plant.shift,
        votes_taken=share,
        votes_error=error,
        background=None if plant.background is Background.CONTROLS else _hash_votes(plant, rounds),
        power=held_to(plant, len(rounds)).declaration.power if rounds else (),
    )


def _hash_votes(plant: OneRunPlant, rounds: Sequence[Round]) -> str:
    """Return the sha256 of what everybody would contribute in each round."""
    votes = [_votes(plant, each) for each in rounds]
    return hash_json([[each.shape, *map(hash_array, (each.data, each.indices, each.indptr))] for each in votes])


def _votes_taken(plant: OneRunPlant, rounds: Sequence[Round]) -> tuple[float | None, float | None]:
    """Return the share of the users' votes that stands on probes, and its error; from releases and coins alone.

    What the canaries that took part put on their own probes is taken off first. Where noise hides the votes, nothing
    is told.
    """
    positions, mechanism = np.array(plant.positions), plant.claim.mechanism
    given = np.array(plant.contributions).sum(axis=1)
    canaries = sum(float(given[_coins(plant, each)].sum()) for each in rounds)
    on_probes = sum(float(each.release[positions].sum()) for each in rounds) - canaries
    votes = sum(float(each.release.sum()) for each in rounds) - canaries
    if mechanism is None or not rounds:
        return None, None
    error, hidden = (
        TOLD * mechanism.noise * math.sqrt(size * len(rounds)) for size in (positions.size, rounds[0].bank.size)
    )
    return (on_probes / votes, error / votes) if votes > hidden else (None, None)


def _known(insecure_seed: int | None, plant: OneRunPlant) -> Background:
    """Return how the background may enter at most: a real run knows nothing of its users."""
    return Background.CONTROLS if insecure_seed is None else plant.background


def carried_findings(run: Run, results: Results) -> Iterator[str]:
    """Say what of a certificate is not as it was committed to, or does not follow from releases and coins."""
    plant, digest, facts = run.one_run, run.commitment_hash, results.evolution
    if facts is None:
        return
    named = {MANIFEST: run.manifest.commitment, RESULTS: results.commitment}
    for name, commitment in named.items():
        if commitment != digest:
            yield f"{name} names the commitment {commitment}, not the one on disk ({COMMITMENT})."
    if hash_json(decisive(run.manifest.config, run.kind)) != plant.settings_hash:
        yield f"The settings in {MANIFEST} are not those that were committed to."
    declared = plant.declaration
    for what, used, sworn in (
        ("mechanism", results.mechanism, plant.claim.mechanism),
        ("number of rounds", facts.evolve.rounds, plant.claim.rounds),
        ("alpha", results.audit.alpha, plant.alpha),
        ("seed of the coins", facts.insecure_seed, plant.seed),
        ("split of alpha", declared.ledger, plant.ledger),
        ("count of guesses", declared.guesses, plant.guesses),
        ("knowledge of the population", _known(facts.insecure_seed, plant), plant.background),
        ("first bank", facts.rounds[0].bank if facts.rounds else plant.bank_hash, plant.bank_hash),
    ):
        if used != sworn:
            yield f"The {what} is {used}, but {sworn} was committed to."
    rounds = Evolution.load(run.folder / EVOLUTION).rounds
    if (facts.certificate is None) != (not rounds) or facts.carried is None:
        yield f"{RESULTS} lacks the certificate of the releases, or has one where none was made."
        return
    if facts.certificate is not None:
        yield from certificate_findings(held_to(plant, len(rounds)), facts.certificate, *_recorded(plant, rounds))
    if not alike(describe_canaries(plant, rounds).model_dump(mode="json"), facts.carried.model_dump(mode="json")):
        yield f"What {RESULTS} says of the canaries is not what was committed to, or does not follow from the releases."
