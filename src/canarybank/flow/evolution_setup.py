"""Set an evolution up from its configuration: who votes, who is held out, what is planted, and what is spent."""

from dataclasses import dataclass, replace
from importlib.util import find_spec

from canarybank.config.model import Config, EvolveConfig
from canarybank.encode import CachedEncoder
from canarybank.engine import Engine
from canarybank.evolution import (
    EvolutionPlan,
    Feedback,
    InContext,
    Keep,
    ParaphraseKept,
    Population,
    Probes,
    Published,
    Reference,
    Taking,
    find_noise,
    split,
)
from canarybank.flow.audit import Designs, mechanism_of
from canarybank.flow.bank import bank_labels, gather_candidates
from canarybank.flow.inputs import cached_encoder, gather
from canarybank.flow.real_run import encode_users, hidden, is_real, require_isolated
from canarybank.flow.roles import evolved_attacks
from canarybank.flow.users import admit_voters, users_source
from canarybank.generate import Generator
from canarybank.measure import Mauve
from canarybank.mechanism import Account, Bank, Mechanism, affordable_rounds, q_for_users, sigma_for_epsilon
from canarybank.mechanism.mechanism import require_delta
from canarybank.progress import Progress
from canarybank.store import StageCache
from canarybank.users import Delimited, Users

__all__ = ["Scene", "mauve_of", "plan_of", "require_declared", "require_drawable", "set_scene", "spending_mechanism"]

_ONE_LINE = (
    "In a real run each line of the file of users is one row: a field cannot hold a line break, and lines that cannot "
    "be read are skipped without being counted."
)


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that an evolution starts from.

    ``start`` is the first population of the run without probes. An audited run starts from the first bank of ``audit``,
    with the probes in it, and the evaluation cohort are its voters.
    """

    voters: Users
    reference: Reference | None
    start: Population
    plan: EvolutionPlan
    encoder: CachedEncoder
    generator: Generator
    notes: tuple[str, ...]
    audit: Designs | None = None

    @property
    def audited_start(self) -> tuple[Population, Probes | None]:
        """Return the first population and the probes of the audited run."""
        if self.audit is None:
            return self.start, None
        bank, labels = self.audit.planted, self.start.labels
        return split(bank, [labels[i] for i in bank.base])


def set_scene(config: Config, cache: StageCache, progress: Progress, generator: Generator, engine: Engine) -> Scene:
    """Read and admit users, hold the reference out, and draw cohorts where there is an audit."""
    if is_real(config):
        return _set_real(config, cache, progress, generator)
    return _set_simulated(config, cache, progress, generator, engine)


def _set_real(config: Config, cache: StageCache, progress: Progress, generator: Generator) -> Scene:
    """Set a real run up: every value in the scene but the voters is a function of public inputs.

    The bank comes first, so that an encoder or generator that does not work fails on public texts, with its own words.
    The encoder shows no progress: how many texts its cache lacks depends on the users' own.
    """
    encoder = cached_encoder(config.encoder, isolated=True)
    require_isolated(encoder)
    encoder.check_writable()  # or the moment of the warning would tell which texts the cache holds
    mechanism = spending_mechanism(config)
    candidates = gather_candidates(config.bank, config.users, generator, cache, progress=progress)
    with progress.step("encoding the bank"):
        bank = Bank(encoder.encode(candidates.texts), candidates.texts)
    start, plan = split(bank, candidates.labels)[0], plan_of(config.evolve, mechanism)
    plan.check(Published.of(start, None))
    users = admit_voters(config.users, config.cohorts, cache, progress)
    with hidden("encoding users' records", progress):
        voters = encode_users(users, encoder)
    return Scene(
        voters=voters,
        reference=None,
        start=start,
        plan=plan,
        encoder=encoder,
        generator=generator,
        notes=_notes(config, (*_reading_notes(config), *candidates.notes), mechanism),
    )


def _set_simulated(
    config: Config, cache: StageCache, progress: Progress, generator: Generator, engine: Engine
) -> Scene:
    inputs = gather(config, cache, generator, progress, evolving=True)
    mechanism = spending_mechanism(config, len(inputs.voters))
    return Scene(
        voters=inputs.voters,
        reference=inputs.reference,
        start=split(inputs.bank, inputs.candidates.labels)[0],
        plan=plan_of(config.evolve, mechanism),
        encoder=inputs.encoder,
        generator=generator,
        notes=_notes(config, inputs.notes, mechanism),
        audit=Designs(inputs, mechanism, engine) if inputs.attacks else None,
    )


def require_drawable(config: EvolveConfig) -> None:
    """Refuse a real run, before anything is read, whose sampler or budget account is not there."""
    if config.insecure_seed is None:
        find_noise(config.noise)
        if config.account is not None:
            Account(config.account)


def require_declared(config: Config) -> None:
    """Refuse, before users are read, what would send the generator more of them than the configuration declares."""
    if config.bank.source == "generate":
        bank_labels(config.bank, config.users)
    evolved_attacks(config)


def spending_mechanism(config: Config, voters: int | None = None) -> Mechanism:
    """Return the mechanism of each round: q from the users per round and sigma from the epsilon of all, where given.

    The users are as many as ``evolve.population`` declares; a simulation may count its voters instead.
    """
    mechanism, chosen = mechanism_of(config), config.evolve
    require_delta(mechanism.delta, "An evolution")
    population = chosen.population if chosen.population is not None else voters
    if chosen.users is not None and population is not None:
        mechanism = replace(mechanism, q=q_for_users(chosen.users, population))
    if chosen.epsilon is not None:
        sigma = sigma_for_epsilon(chosen.epsilon, q=mechanism.q, delta=mechanism.delta, rounds=chosen.rounds)
        mechanism = replace(mechanism, sigma=sigma)
    return mechanism


def plan_of(config: EvolveConfig, mechanism: Mechanism) -> EvolutionPlan:
    """Return what the rounds do; users were capped when they were admitted."""
    return EvolutionPlan(
        mechanism,
        config.rounds,
        keep=Keep(config.share, config.keep),
        new=config.new,
        feedback=_feedback(config),
        taking=Taking(similarity=config.near, tries=config.tries),
        cap=None,
        budget=config.budget,
        seed=config.seed,
        insecure_seed=config.insecure_seed,
        noise=config.noise,
        account=config.account,
    )


def mauve_of(config: EvolveConfig, candidates: int) -> Mauve | None:
    """Return MAUVE with its settings, or None where it is not wanted or not installed.

    All populations of a run, and of the one it is compared with, are clustered alike, for MAUVE depends on that.
    """
    if not config.mauve or find_spec("mauve") is None:
        return None
    return Mauve(buckets=config.buckets or max(2, candidates // 10))


def _feedback(config: EvolveConfig) -> Feedback:
    if config.feedback == "paraphrase":
        return ParaphraseKept(config.prompt or "paraphrase")
    return InContext(config.high, config.low, config.prompt or "continue", config.kind)


def _reading_notes(config: Config) -> tuple[str, ...]:
    return (_ONE_LINE,) if isinstance(users_source(config.users).format, Delimited) else ()


def _notes(config: Config, known: tuple[str, ...], mechanism: Mechanism) -> tuple[str, ...]:
    chosen, notes = config.evolve, [*known]
    if chosen.budget is not None:
        rounds = affordable_rounds(mechanism, chosen.budget, chosen.rounds)
        if rounds < chosen.rounds:
            notes.append(f"The budget of {chosen.budget:g} affords {rounds} of {chosen.rounds} rounds.")
    if chosen.reference and chosen.mauve and find_spec("mauve") is None:
        notes.append("MAUVE was left out, for mauve-text is not installed; run: pip install 'canarybank[mauve]'")
    return tuple(notes)
