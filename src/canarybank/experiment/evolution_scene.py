"""Set an evolution up from its configuration: who votes, who is held out, what is planted, and what is spent."""

from dataclasses import dataclass, replace
from importlib.util import find_spec

from canarybank.attack import Canary, Design, design, find_attack
from canarybank.encode import CachedEncoder
from canarybank.evolve import (
    Feedback,
    InContext,
    Keep,
    ParaphraseKept,
    Plan,
    Population,
    Probes,
    Published,
    Taking,
    split,
)
from canarybank.evolve.mauve_score import Mauve
from canarybank.evolve.noise import find_noise
from canarybank.evolve.reference import Reference, hold_out, require_apart
from canarybank.experiment.admitted import admit_users, admit_voters, users_source
from canarybank.experiment.candidates import bank_labels, gather_candidates
from canarybank.experiment.config import Config, EvolveConfig
from canarybank.experiment.evolution_answers import EMBEDDED, evolution_generator
from canarybank.experiment.pools import Pools
from canarybank.experiment.real_run import encode_users, hidden, is_real, require_isolated, require_private
from canarybank.experiment.roles import canaries_of, draw_roles, refuse_sent
from canarybank.experiment.running import cached_encoder, mechanism_of
from canarybank.experiment.stage_cache import StageCache
from canarybank.generate import Generator
from canarybank.mechanism import Account, Bank, Mechanism, Routed, affordable_rounds, q_for_users, sigma_for_epsilon
from canarybank.mechanism.mechanism import require_delta
from canarybank.progress import SILENT, Progress
from canarybank.users import Cohorts, Delimited, Users

__all__ = ["Scene", "mauve_of", "plan_of", "require_declared", "require_drawable", "set_scene", "spending_mechanism"]

_ONE_LINE = (
    "In a real run each line of the file of users is one row: a field cannot hold a line break, and lines that cannot "
    "be read are skipped without being counted."
)


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that an evolution starts from.

    ``start`` is the first population of the run without probes; an audited run starts from the design's bank, with the
    evaluation cohort as its voters.
    """

    voters: Users
    reference: Reference | None
    cohorts: Cohorts | None
    design: Design | None
    start: Population
    plan: Plan
    encoder: CachedEncoder
    generator: Generator
    notes: tuple[str, ...]

    @property
    def audited_start(self) -> tuple[Population, Probes | None]:
        """Return the first population and the probes of the audited run."""
        if self.design is None:
            return self.start, None
        bank, labels = self.design.bank, self.start.labels
        return split(bank, [labels[i] for i in bank.base])


def set_scene(
    config: Config, cache: StageCache, progress: Progress = SILENT, generator: Generator | None = None
) -> Scene:
    """Read and admit users, hold the reference out, draw cohorts and freeze the attack where there is an audit.

    Without a generator, the one that the configuration names is built.
    """
    require_private(config)
    require_declared(config)
    set_up = _set_real if is_real(config) else _set_simulated
    return set_up(config, cache, progress, evolution_generator(config) if generator is None else generator)


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
        cohorts=None,
        design=None,
        start=start,
        plan=plan,
        encoder=encoder,
        generator=generator,
        notes=_notes(config, (*_reading_notes(config), *candidates.notes), mechanism),
    )


def _set_simulated(config: Config, cache: StageCache, progress: Progress, generator: Generator) -> Scene:
    people = admit_users(config.users, config.cohorts, cache, progress)
    encoder = cached_encoder(config.encoder, progress)
    users = people.users.with_vectors(encoder.encode(people.users.require_texts()))
    candidates = gather_candidates(config.bank, config.users, generator, cache, progress=progress)
    rest, reference = _held_out(config.evolve, users)
    cohorts = (
        None if config.evolve.audit is None else draw_roles(config.cohorts, rest, (find_attack(config.evolve.audit),))
    )
    voters = rest if cohorts is None else cohorts.evaluation.users
    if reference is not None:
        require_apart(reference, voters if cohorts is None else cohorts)
    mechanism = spending_mechanism(config, len(voters))
    bank = Bank(encoder.encode(candidates.texts), candidates.texts)
    return Scene(
        voters=voters,
        reference=reference,
        cohorts=cohorts,
        design=None if cohorts is None else _designed(config, bank, cohorts, mechanism, encoder, generator, cache),
        start=split(bank, candidates.labels)[0],
        plan=plan_of(config.evolve, mechanism),
        encoder=encoder,
        generator=generator,
        notes=_notes(config, (*people.notes, *candidates.notes), mechanism),
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
    if config.evolve.audit is not None:
        refuse_sent(config, (find_attack(config.evolve.audit),))


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


def plan_of(config: EvolveConfig, mechanism: Mechanism) -> Plan:
    """Return what the rounds do; users were capped when they were admitted."""
    return Plan(
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


def _held_out(config: EvolveConfig, users: Users) -> tuple[Users, Reference | None]:
    if not config.reference:
        return users, None
    return hold_out(users, config.reference, seed=config.seed)


def _designed(
    config: Config,
    bank: Bank,
    cohorts: Cohorts,
    mechanism: Mechanism,
    encoder: CachedEncoder,
    generator: Generator,
    cache: StageCache,
) -> Design:
    """Freeze the attack on the first bank, for the first canary."""
    attack, seed = find_attack(str(config.evolve.audit)), config.cohorts.seed
    reserved = bank.reserve(config.attack.probes, seed) if attack.active else bank
    canary: Canary = canaries_of(attack, cohorts, config.cohorts, encoder.encode)[0]
    fixed = config.cohorts.fixed == (EMBEDDED,)
    pools = Pools.of(config.attack, encoder, None if fixed else generator, cache)
    return design(
        attack,
        canary,
        reserved,
        Routed.build(cohorts.auxiliary, reserved, mechanism.k),
        mechanism,
        eligible=len(cohorts.evaluation),
        pool=pools.make(attack, canary, config.attack.pool, seed),
        seed=seed,
    )


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
