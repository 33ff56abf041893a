"""Gather what a run starts from: users and their roles, vectors, the bank, attacks, canaries and pools.

There is one ``Inputs`` for audits, audited evolutions and plans. Each part is made when it is first asked for, and kept
in the stage cache where that takes long. A real evolution reads nothing here: see ``flow.evolution_setup``.
"""

from dataclasses import dataclass
from functools import cached_property

from canarybank.attack import Attack, Canary, Encode, Pool
from canarybank.config.model import Config, EncoderConfig
from canarybank.encode import CachedEncoder, VectorCache, load_encoder
from canarybank.evolution import Reference, hold_out, require_apart
from canarybank.flow.bank import Candidates, bank_labels, gather_candidates
from canarybank.flow.pools import Pools
from canarybank.flow.roles import canaries_of, chosen_attacks, draw_roles, evolved_attacks
from canarybank.flow.sending import may_send_records
from canarybank.flow.users import People, admit_users
from canarybank.generate import Generator
from canarybank.mechanism import Bank
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache
from canarybank.users import Cohorts, Users

__all__ = ["Inputs", "cached_encoder", "gather"]


@dataclass(frozen=True)
class Inputs:
    """What a run starts from; ``evolving`` says that the run is an evolution, audited by ``evolve.audit`` if at all."""

    config: Config
    cache: StageCache
    generator: Generator | None
    progress: Progress = SILENT
    evolving: bool = False

    @cached_property
    def attacks(self) -> tuple[Attack, ...]:
        """Return the attacks, in the usual order."""
        return self._chosen[0]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Say which attacks are left out, and why."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[tuple[Attack, ...], tuple[str, ...]]:
        if self.config.bank.source == "generate":
            bank_labels(self.config.bank, self.config.users)  # before users are read: what is not declared stays here
        return (evolved_attacks(self.config), ()) if self.evolving else chosen_attacks(self.config)

    @cached_property
    def people(self) -> People:
        """Return the admitted users."""
        _ = self.attacks
        return admit_users(self.config.users, self.config.cohorts, self.cache, self.progress)

    @cached_property
    def _apart(self) -> tuple[Users, Reference | None]:
        held = self.config.evolve.reference if self.evolving else 0
        users = self.people.users
        return hold_out(users, held, seed=self.config.evolve.seed) if held else (users, None)

    @cached_property
    def roles(self) -> Cohorts:
        """Return who plays which role in an audit, without vectors."""
        return draw_roles(self.config.cohorts, self._apart[0], self.attacks)

    @cached_property
    def encoder(self) -> CachedEncoder:
        """Return the encoder, behind the vector cache."""
        return cached_encoder(self.config.encoder, self.progress)

    @cached_property
    def cohorts(self) -> Cohorts:
        """Return the cohorts and canaries with vectors; whoever plays no role is never encoded."""
        return self.roles.encoded(self.encoder.encode)

    @cached_property
    def voters(self) -> Users:
        """Return the users of an evolution, with vectors: the evaluation cohort where it is audited."""
        return self.cohorts.evaluation.users if self.attacks else self._encoded(self._apart[0])

    @cached_property
    def reference(self) -> Reference | None:
        """Return the users held out for figures of utility, with vectors."""
        held = self._apart[1]
        if held is None:
            return None
        return require_apart(Reference(self._encoded(held.users)), self.cohorts if self.attacks else self.voters)

    def _encoded(self, users: Users) -> Users:
        return users.with_vectors(self.encoder.encode(users.require_texts()))

    @cached_property
    def candidates(self) -> Candidates:
        """Return the candidate texts of the bank."""
        config = self.config
        return gather_candidates(config.bank, config.users, self.generator, self.cache, progress=self.progress)

    @cached_property
    def bank(self) -> Bank:
        """Return the bank, no position reserved."""
        return Bank(self.encoder.encode(self.candidates.texts), self.candidates.texts)

    def canaries(self, attack: Attack, encode: Encode | None = None) -> list[Canary]:
        """Return an attack's canaries; another encoder may look at the texts that they are made of."""
        drawn = self.cohorts if encode is None else self.roles
        return canaries_of(attack, drawn, self.config.cohorts, encode or self.encoder.encode)

    @cached_property
    def _pools(self) -> Pools:
        fixed = self.evolving and self.config.cohorts.fixed == ("embedded",)
        writer = None if fixed or not may_send_records(self.config) else self.generator
        return Pools.of(self.config.attack, self.encoder, writer, self.cache, self.progress)

    def pool(self, attack: Attack, canary: Canary) -> Pool | None:
        """Return the candidate probes of an attack on a canary."""
        return self._pools.make(attack, canary, self.config.attack.pool, self.config.cohorts.seed)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Return what a reader should know of how all this was gathered."""
        return (*self.people.notes, *self.candidates.notes, *self.left_out)


def gather(
    config: Config,
    cache: StageCache,
    generator: Generator | None,
    progress: Progress = SILENT,
    *,
    evolving: bool = False,
) -> Inputs:
    """Return what a run under this configuration starts from.

    Attacks that cannot be run, or that nobody allowed to send what they would send, are refused here; nothing is read,
    encoded or generated before it is asked for.
    """
    inputs = Inputs(config, cache, generator, progress, evolving)
    _ = inputs.attacks
    return inputs


def cached_encoder(config: EncoderConfig, progress: Progress = SILENT, *, isolated: bool = False) -> CachedEncoder:
    """Return the encoder that a configuration names, behind the vector cache.

    With ``isolated`` a vector depends on its own text alone, to the bit, as a release from real users needs it.
    """
    encoder = load_encoder(
        config.name,
        device=config.device,
        batch_size=config.batch_size,
        precision=config.precision,
        isolated=isolated,
    )
    return CachedEncoder(encoder, VectorCache(), progress=progress)
