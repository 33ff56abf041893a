"""Let an evolution carry its own canaries: probes in its banks, synthetic users beside its own, and one commitment.

Everything here is made of public things: the first bank, the encoder and a seed. Canaries cost real users no privacy,
for they are nobody's records; their probes take slots of the banks, and a few votes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from canarybank.attack import CanaryWeights, ManyCanaries, canary_scores, make_canaries, record_votes, share_of_votes
from canarybank.auditing.one_run import LEAST, Background, RunDeclaration
from canarybank.config.loading import decisive
from canarybank.config.model import Config
from canarybank.encode import Encoder
from canarybank.errors import ConfigError
from canarybank.evolution import Canaries
from canarybank.flow.audit import hold_to, mechanism_of, room_for_probes
from canarybank.flow.canaries import count_canaries, declare_run
from canarybank.flow.one_run import draw_eligible
from canarybank.flow.real_run import is_real
from canarybank.mechanism import Bank, Claim, Mechanism
from canarybank.run.folder import COMMITMENT, Run
from canarybank.run.one_run import OneRunPlant
from canarybank.store import hash_json
from canarybank.users import Users

__all__ = ["Carried", "carry_canaries", "make_publicly", "refuse_unfit_audit"]


@dataclass(frozen=True, eq=False)
class Carried:
    """Canaries and probes for one evolution: the first bank with the probes in it, and how its releases are read."""

    many: ManyCanaries
    planted: Bank
    reading: CanaryWeights
    declared: RunDeclaration
    votes_taken: float
    """The share of the votes of the candidates whose places the probes take, were they users, that goes to probes."""

    def commit(self, run: Run, config: Config, committed: Callable[[str], None]) -> OneRunPlant:
        """Put the commitment on disk, or hold the run to the one that is there; coins of the auditor are drawn once."""
        is_kept, seed = (run.folder / COMMITMENT).exists(), config.evolve.insecure_seed
        declared = self.declared
        eligible = (
            np.array(run.one_run.eligible, dtype=np.bool_)
            if is_kept
            else draw_eligible(declared.coins, declared.claim.q, declared.canaries, seed)
        )
        plant = OneRunPlant.of(
            declared,
            self.reading,
            eligible,
            {},
            system="this evolution",
            settings_hash=hash_json(decisive(run.manifest.config, run.kind)),
            seed=seed,
            style=config.one_run.style,
            bank_size=self.planted.size,
            bank_hash=self.planted.hash,
            votes_taken=self.votes_taken,
        )
        return hold_to(run, plant, committed)

    def canaries(self, plant: OneRunPlant) -> Canaries:
        """Return the canaries as voters, those in that were committed to."""
        canaries = self.many.canaries
        owners = np.repeat(np.arange(len(canaries)), [len(each) for each in canaries])
        users = Users(plant.names, owners, vectors=np.concatenate([each.vectors for each in canaries]))
        return Canaries(users, np.array(plant.eligible, dtype=np.bool_))


def make_publicly(
    config: Config, bank: Bank, mechanism: Mechanism, encoder: Encoder, seed: int, *, records: int | None = None
) -> tuple[ManyCanaries, Bank, CanaryWeights, float]:
    """Make canaries of public things alone: them, the bank with their probes, how it is read, and the votes they take.

    These votes are a share of those of the candidates whose places the probes take. In an evolution the probes stand
    where its smallest bank has entries.
    """
    _refuse_share(mechanism)
    count = count_canaries(config, bank.size)
    probes, evolves = count * mechanism.k, config.evolve.audit_one_run
    within = room_for_probes(config.evolve, mechanism, bank.size, probes) if evolves else None
    reserved = bank.reserve(probes, seed, within)
    many = make_canaries(config.one_run.style, count, encoder.encode, reserved, mechanism, seed, records=records)
    planted = many.planted(reserved)
    reading = canary_scores(many, planted, mechanism)
    displaced = record_votes(bank.vectors[list(reserved.reserved)], planted, mechanism)
    return many, planted, reading, share_of_votes(displaced, reading.positions)


def carry_canaries(config: Config, bank: Bank, mechanism: Mechanism, encoder: Encoder) -> Carried:
    """Make the canaries of an evolution that starts from this bank; their probes take the place of some entries.

    A canary has a record for each of its probes, or as many as ``users.cap`` leaves a user. A simulation knows its
    population, so the background enters the scores of its canaries by exact tails; of a real run nothing but the
    releases may leave, and its canaries are each other's controls.
    """
    cap, seed = config.users.cap, config.evolve.seed
    records = mechanism.k if cap is None else min(mechanism.k, cap)
    many, planted, reading, votes = make_publicly(config, bank, mechanism, encoder, seed, records=records)
    declared = declare_run(config, Claim.of(mechanism, config.evolve.rounds), len(many), float(reading.shifts.mean()))
    background = Background.CONTROLS if is_real(config) else Background.EXACT
    return Carried(many, planted, reading, replace(declared, background=background), votes)


def _refuse_share(mechanism: Mechanism) -> None:
    if mechanism.share < 1:
        raise ConfigError(
            f"mechanism.share is {mechanism.share:g}, and the canaries of one run must contribute what the auditor "
            "knows: set mechanism.share to 1, or audit by simulated releases with evolve.audit."
        )


def refuse_unfit_audit(config: Config) -> None:
    """Refuse, before anything is read, two audits at once, and what an audit by one run does not go with."""
    if config.evolve.audit and config.evolve.audit_one_run:
        raise ConfigError(
            "evolve.audit and evolve.audit_one_run are both set. Attacks are judged over many simulated releases, and "
            "canaries in the one run that is made; their probes would take votes from each other. Leave one of them "
            "out, and make two runs."
        )
    if config.evolve.audit_one_run:
        mechanism = mechanism_of(config)
        if config.bank.vet:
            raise ConfigError(
                "bank.vet and evolve.audit_one_run are both set, and vetting would bar the probes of the canaries. "
                "Leave out one of them: what vetting leaves to an attacker is measured by evolve.audit."
            )
        _refuse_share(mechanism)
        claim = Claim(0.0, mechanism.delta, mechanism=mechanism, rounds=config.evolve.rounds)
        declare_run(config, claim, config.one_run.canaries or LEAST, 1.0)
