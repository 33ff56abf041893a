"""Gather what a run starts from: users and their roles, attacks and canaries, vectors, the bank and pools.

There is one ``Inputs`` for audits, audited evolutions and plans. Each part is made when it is first asked for, and kept
in the stage cache where that takes long. A real evolution reads its voters alone: see ``canarybank.flow.voters``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import (
    ATTACKS,
    PAPER_ATTACKS,
    Attack,
    Canary,
    CanaryKind,
    Encode,
    Pool,
    PoolKind,
    find_attack,
    nonce_canary,
)
from canarybank.auditing import find_method
from canarybank.config.model import NO_GENERATOR, CohortsConfig, Config, EncoderConfig, RunConfig
from canarybank.encode import CachedEncoder, Encoder, EncoderRecipe, VectorCache, load_encoder
from canarybank.encode.load import is_vector_file
from canarybank.engine import Engine
from canarybank.errors import CohortError, ConfigError, InputError
from canarybank.evolution import Reference, StreamedUsers, hold_out, hold_out_indices, require_apart
from canarybank.flow.admitting import (
    People,
    ShardedPeople,
    admission,
    admit_shards,
    admit_users,
    fitting_cap,
    named_columns,
    users_key,
    users_source,
)
from canarybank.flow.bank import Candidates, bank_labels, embedded_canaries, gather_candidates, make_pool
from canarybank.flow.generators import EMBEDDED, may_send_records, refuse_sending, skipped_note
from canarybank.flow.sharding import Roles, memory_notes, roles_of, shards_for
from canarybank.generate import Generator
from canarybank.mechanism import Bank
from canarybank.progress import SILENT, Progress
from canarybank.registry import ENGINES, call_with, takes
from canarybank.seeds import stream
from canarybank.store import StageCache
from canarybank.users import (
    Auxiliary,
    Calibration,
    Cohorts,
    CohortSizes,
    DrawnIndices,
    Evaluation,
    Members,
    Names,
    Shards,
    Users,
    are_sharded,
    draw_indices,
)

__all__ = [
    "Inputs",
    "People",
    "ShardedPeople",
    "admission",
    "admit_shards",
    "admit_users",
    "build_engine",
    "cached_encoder",
    "canaries_of",
    "chosen_attacks",
    "cohort_sizes",
    "connect_engine",
    "draw_members",
    "draw_roles",
    "encoder_recipe",
    "evolved_attacks",
    "fitting_cap",
    "gather",
    "named_columns",
    "outside_examples",
    "users_key",
    "users_source",
]


@dataclass(frozen=True)
class Inputs:
    """What a run starts from; ``evolving`` says that the run is an evolution, audited by ``evolve.audit`` if at all."""

    config: Config
    cache: StageCache
    generator: Generator | None
    attacks: tuple[Attack, ...]
    """The attacks, in the usual order."""
    left_out: tuple[str, ...] = ()
    """Which attacks are left out, and why."""
    progress: Progress = SILENT
    evolving: bool = False

    @cached_property
    def people(self) -> People | ShardedPeople:
        """Return the admitted users: in memory, or in shards where they are many."""
        config, number = self.config, self.shards
        if number is None:
            return admit_users(config.users, config.cohorts, self.cache, self.progress)
        return admit_shards(config.users, config.cohorts, number, self.cache, self.progress)

    @cached_property
    def shards(self) -> int | None:
        """Return the number of shards that users are read in; None where all are read into memory."""
        return shards_for(users_source(self.config.users), self.config.run.shards, self.cache, self._obstacle)

    @property
    def _obstacle(self) -> str | None:
        """Return why this run needs all users in memory, if it does."""
        if self.config.mechanism.share < 1 and (self.attacks or not self.evolving):
            return "mechanism.share is below 1, and secret shares are drawn from users in memory"
        return None

    @property
    def is_admitted(self) -> bool:
        """Say whether the cache holds the users already."""
        config = self.config
        key = users_key(users_source(config.users), admission(config.users, config.cohorts))
        number = self.shards
        return self.cache.has("users", key) if number is None else are_sharded(self.cache.folder, number, key=key)

    @cached_property
    def _apart(self) -> tuple[Users | Members, Reference | None]:
        """Return the users without those who are held out for figures of utility, and these, in memory."""
        held, seed = self.config.evolve.reference if self.evolving else 0, self.config.evolve.seed
        users = self.people.users
        if not isinstance(users, Shards):
            return hold_out(users, held, seed=seed) if held else (users, None)
        if not held:
            return users.everybody, None
        others, chosen = hold_out_indices(users.ids, held, seed=seed)
        return Members(users, others), Reference(Members(users, chosen).load())

    @cached_property
    def roles(self) -> Cohorts | Roles:
        """Return who plays which role in an audit, without vectors."""
        config, users = self.config.cohorts, self._apart[0]
        if isinstance(users, Members):
            return draw_members(config, users, self.attacks)
        return draw_roles(config, users, self.attacks)

    @cached_property
    def encoder(self) -> CachedEncoder:
        """Return the encoder, behind the vector cache."""
        return cached_encoder(self.config.encoder, self.progress)

    @cached_property
    def cohorts(self) -> Cohorts:
        """Return the cohorts and canaries with vectors; whoever plays no role is never encoded."""
        if isinstance(self.roles, Roles):
            raise _in_shards()
        return self.roles.encoded(self.encoder.encode)

    @cached_property
    def auxiliary(self) -> Auxiliary:
        """Return the auxiliary users with vectors, which are in memory in any case."""
        roles = self.roles
        return Auxiliary(self._encoded(roles.auxiliary.load())) if isinstance(roles, Roles) else self.cohorts.auxiliary

    @cached_property
    def _with_canaries(self) -> Cohorts | Roles:
        """Return the roles, canaries with vectors."""
        roles = self.roles
        if not isinstance(roles, Roles):
            return self.cohorts
        return replace(roles, canaries={name: self._encoded(users) for name, users in roles.canaries.items()})

    @cached_property
    def recipe(self) -> EncoderRecipe:
        """Return how a worker loads the encoder."""
        given = self.config.encoder
        # In an evolution users vote in many rounds; an audit of one release passes over each once.
        keep = True if given.keep_vectors is None and self.evolving else given.keep_vectors
        return encoder_recipe(given, self.encoder.encoder, keep=keep)

    def voters(self, engine: Engine) -> Users | StreamedUsers:
        """Return the users of an evolution: the evaluation cohort where it is audited.

        They have vectors, or lie in shards and are encoded on this engine when they vote.
        """
        users = self.roles.evaluation if self.attacks else self._apart[0]
        if isinstance(users, Members):
            return StreamedUsers(users, self.recipe, engine, self.cache, self.progress)
        return self._encoded(users) if isinstance(users, Users) else self.cohorts.evaluation.users

    @cached_property
    def reference(self) -> Reference | None:
        """Return the users held out for figures of utility, with vectors."""
        held = self._apart[1]
        if held is None:
            return None
        others = self.roles if self.attacks else self._apart[0]
        return require_apart(Reference(self._encoded(held.users)), others)

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
        drawn = self._with_canaries if encode is None else self.roles
        return canaries_of(attack, drawn, self.config.cohorts, encode or self.encoder.encode)

    def pool(self, attack: Attack, canary: Canary) -> Pool | None:
        """Return the candidate probes of an attack on a canary."""
        config = self.config
        is_embedded = self.evolving and config.cohorts.fixed == (EMBEDDED,)
        writer = None if is_embedded or not may_send_records(config) else self.generator
        return make_pool(
            attack,
            canary,
            config.attack,
            self.encoder,
            writer,
            self.cache,
            seed=config.cohorts.seed,
            progress=self.progress,
        )

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Return what a reader should know of how all this was gathered."""
        return (*self.people.notes, *self.memory_notes, *self.candidates.notes, *self.left_out)

    @property
    def memory_notes(self) -> tuple[str, ...]:
        """Return a note where a large source is read into memory though nobody asked for it."""
        config = self.config
        return memory_notes(users_source(config.users), config.run.shards, self.cache, self._obstacle)


def _in_shards() -> ConfigError:
    return ConfigError("This run needs all users in memory, and they are in shards. Set run.shards to 0.")


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

    Args:
        config: The configuration.
        cache: Where stages keep what they made.
        generator: What writes banks and paraphrases; None where nothing does.
        progress: Where progress is shown.
        evolving: Whether the run is an evolution, audited by ``evolve.audit`` if at all.

    Example:
        >>> from canarybank.config import resolve_users
        >>> flags = {"bank.source": "bank.txt", "encoder.name": "hashing", "attack.names": "ordinary,exact"}
        >>> inputs = gather(resolve_users("my-users.csv", flags).config, StageCache(), None)
        >>> [attack.name for attack in inputs.attacks], len(inputs.people.users), inputs.bank.size
        (['ordinary', 'exact'], 24, 60)
    """
    if config.bank.source == "generate":
        bank_labels(config.bank, config.users)  # before users are read: what is not declared stays here
    attacks, left_out = (evolved_attacks(config), ()) if evolving else chosen_attacks(config)
    return Inputs(config, cache, generator, attacks, left_out, progress, evolving)


def cached_encoder(config: EncoderConfig, progress: Progress = SILENT, *, isolated: bool = False) -> CachedEncoder:
    """Return the encoder that a configuration names, behind the vector cache.

    Args:
        config: The section ``encoder`` of a configuration.
        progress: Where progress is shown.
        isolated: Whether a vector depends on its own text alone, to the bit, as a release from real users needs it.

    Example:
        >>> encoder = cached_encoder(EncoderConfig(name="hashing"))
        >>> encoder.encode(["one text", "and another"]).shape
        (2, 64)
    """
    encoder = load_encoder(
        config.name,
        device=config.device,
        batch_size=config.batch_size,
        precision=config.precision,
        isolated=isolated,
    )
    return CachedEncoder(encoder, VectorCache(), progress=progress)


def encoder_recipe(
    config: EncoderConfig, encoder: Encoder, *, keep: bool | None, isolated: bool = False
) -> EncoderRecipe:
    """Return how a worker loads the configured encoder; this process uses the one that is loaded already."""
    recipe = EncoderRecipe(
        config.name,
        encoder.fingerprint,
        config.device,
        config.batch_size,
        str(config.precision),
        isolated=isolated,
        keep=keep,
    )
    recipe.provide(encoder)
    return recipe


def connect_engine(engine: Engine) -> Engine:
    """Return an engine that has joined its cluster, if it has one, so that a wrong address is said before any work."""
    if callable(connect := getattr(engine, "connect", None)):
        connect()
    return engine


def build_engine(config: RunConfig) -> Engine:
    """Return the engine that a configuration names, with as many workers as it says, at the address that it says.

    Args:
        config: The section ``run`` of a configuration.

    Example:
        >>> build_engine(RunConfig(workers=2))
        Threads(workers=2)
    """
    factory = ENGINES.find(config.engine)
    if config.address is not None and not takes(factory, "address"):
        raise ConfigError(
            f"The engine {config.engine!r} runs here and joins nothing, but run.address is {config.address!r}. Set "
            "run.engine to ray, or leave run.address out."
        )
    made = call_with(factory, workers=config.workers, address=config.address)
    if not isinstance(made, Engine):
        raise ConfigError(
            f"The engine {config.engine!r} made a {type(made).__name__}, which is no engine; it needs run. See "
            "canarybank.testing.check_engine."
        )
    return made


def chosen_attacks(config: Config) -> tuple[tuple[Attack, ...], tuple[str, ...]]:
    """Return the attacks that a configuration asks for, in the usual order, plug-ins last; and notes on others."""
    names = config.attack.names
    as_available = {"available", "paper"} & set(names)
    if "all" in names or as_available:
        names = PAPER_ATTACKS if "paper" in names else tuple(ATTACKS)
    ordered = (*(name for name in ATTACKS if name in names), *(name for name in names if name not in ATTACKS))
    attacks = tuple(map(find_attack, ordered))
    _refuse_same_names(attacks, "attack.names")
    unread = tuple(attack for attack in attacks if is_vector_file(config.encoder.name) and _writes(attack, config))
    if not as_available:
        if unread:
            others = [attack.name for attack in attacks if attack not in unread] or ["ordinary", "exact"]
            raise ConfigError(
                f"The attacks {_listed(unread)} write nonces or paraphrases, and the file of vectors "
                f"{config.encoder.name!r} has none for them; choose an encoder that reads texts, such as wordllama, or "
                f"name other attacks: --attack.names {','.join(others)}."
            )
        _refuse_sent(config, attacks)
        _refuse_few_probes(config, attacks)
        return attacks, ()
    notes, lacking = [], _paraphrasing(attacks)
    if config.cohorts.fixed == (EMBEDDED,) or (config.generator.kind != NO_GENERATOR and may_send_records(config)):
        lacking = ()
    if unread:
        notes.append(
            f"Left out because {config.encoder.name!r} has no vectors for the texts that they write: "
            f"{_listed(unread)}; choose an encoder that reads texts to run them."
        )
    if left := [attack.name for attack in lacking if attack not in unread]:
        notes.append(skipped_note(left, config))
    cramped = () if _has_room(config) else _searching(attacks)
    if alone := tuple(attack for attack in cramped if attack not in unread):
        notes.append(f"Left out: {_listed(alone)}, for {_few_probes(config)}")
    return tuple(attack for attack in attacks if attack not in (*unread, *lacking, *cramped)), tuple(notes)


def evolved_attacks(config: Config) -> tuple[Attack, ...]:
    """Return the attacks that an evolution is audited with; none where it is not."""
    attacks, method = tuple(find_attack(name) for name in config.evolve.audit), find_method(config.audit.method)
    _refuse_same_names(attacks, "evolve.audit")
    _refuse_sent(config, attacks)
    _refuse_few_probes(config, attacks)
    if attacks and config.evolve.canaries > config.cohorts.canaries:
        raise ConfigError(
            f"evolve.canaries is {config.evolve.canaries}, but each attack has {config.cohorts.canaries} canaries. Set "
            f"cohorts.canaries to {config.evolve.canaries} or more."
        )
    if attacks and method.included:
        raise ConfigError(
            f"audit.method {method.name} counts trials in which the canary surely takes part, and over several rounds "
            "it takes part by a coin in each. Set audit.method to another one, such as paper."
        )
    return attacks


def _refuse_same_names(attacks: tuple[Attack, ...], key: str) -> None:
    """Refuse two attacks of one name, such as a plug-in by its name and as module:name: results are kept by name."""
    names = [attack.name for attack in attacks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(f"Two of the attacks in {key} are called {twice[0]!r}; name each attack once.")


def _refuse_sent(config: Config, attacks: tuple[Attack, ...]) -> None:
    """Refuse attacks that would send their canaries' records to a server where nobody allowed it."""
    sent = _paraphrasing(attacks)
    if sent and config.cohorts.fixed != (EMBEDDED,):
        refuse_sending(config, f"The paraphrases of {_listed(sent)}", "name other attacks")


def _refuse_few_probes(config: Config, attacks: tuple[Attack, ...]) -> None:
    """Refuse a search that has too few places for the probes that it plants."""
    if (searching := _searching(attacks)) and not _has_room(config):
        raise ConfigError(f"The attack {_listed(searching)} cannot be run: {_few_probes(config)}")


def _searching(attacks: tuple[Attack, ...]) -> tuple[Attack, ...]:
    return tuple(attack for attack in attacks if attack.pool is PoolKind.SEARCHED)


def _has_room(config: Config) -> bool:
    return config.attack.probes >= config.mechanism.k


def _few_probes(config: Config) -> str:
    probes, k = config.attack.probes, config.mechanism.k
    return (
        f"attack.probes is {probes}, and a search plants at least mechanism.k = {k}. Set attack.probes to {k} or more."
    )


def _writes(attack: Attack, config: Config) -> bool:
    """Say whether an attack writes texts of its own, which no file of vectors made beforehand can hold."""
    if attack.pool is PoolKind.PARAPHRASES:
        return config.cohorts.fixed != (EMBEDDED,)
    return attack.canary is CanaryKind.NONCE or attack.pool in {PoolKind.NONCES, PoolKind.SEARCHED}


def _paraphrasing(attacks: tuple[Attack, ...]) -> tuple[Attack, ...]:
    return tuple(attack for attack in attacks if attack.pool is PoolKind.PARAPHRASES)


def _listed(attacks: tuple[Attack, ...]) -> str:
    return ", ".join(attack.name for attack in attacks)


def cohort_sizes(config: CohortsConfig, users: int, attacks: tuple[Attack, ...]) -> CohortSizes:
    """Return the cohorts' sizes: those given, and for the rest as many as the users and the real canaries allow."""
    real = sum(attack.canary is CanaryKind.REAL for attack in attacks)
    sets = min(real, 1) if config.shared or config.fixed else real
    fitted = CohortSizes.fit(users, canaries=config.canaries, sets=sets)
    given = {name: getattr(config, name) for name in ("auxiliary", "calibration", "evaluation")}
    return replace(fitted, **{name: size for name, size in given.items() if size is not None})


def draw_roles(config: CohortsConfig, users: Users, attacks: tuple[Attack, ...]) -> Cohorts:
    """Draw the cohorts and each attack's real canaries by seed, or take the fixed canaries; all disjoint."""
    drawn = _drawn_roles(config, users.ids, users.counts, attacks)
    return Cohorts(
        Auxiliary(users.take(drawn.auxiliary)),
        Calibration(users.take(drawn.calibration)),
        Evaluation(users.take(drawn.evaluation)),
        {attack: users.take(chosen) for attack, chosen in drawn.canaries.items()},
        int(users.counts.max()),
    )


def draw_members(config: CohortsConfig, users: Members, attacks: tuple[Attack, ...]) -> Roles:
    """Draw the same roles as ``draw_roles``, from users in shards."""
    drawn = _drawn_roles(config, Names.of(users.ids), users.counts, attacks)
    return roles_of(users, drawn, int(users.counts.max()))


def _drawn_roles(
    config: CohortsConfig, ids: Sequence[str], counts: NDArray[np.int64], attacks: tuple[Attack, ...]
) -> DrawnIndices:
    real = [attack.name for attack in attacks if attack.canary is CanaryKind.REAL]
    sizes, records = cohort_sizes(config, len(ids), attacks), int(counts.max())
    if not config.fixed or not real:
        return draw_indices(ids, counts, sizes, attacks=real, records=records, seed=config.seed, shared=config.shared)
    canaries = _fixed_canaries(config, ids)
    rest = np.setdiff1d(np.arange(len(ids)), canaries)
    others = Names.of(ids[place] for place in rest)
    drawn = draw_indices(others, counts[rest], sizes, attacks=[], records=records, seed=config.seed)
    return DrawnIndices(
        rest[drawn.auxiliary], rest[drawn.calibration], rest[drawn.evaluation], dict.fromkeys(real, canaries)
    )


def _fixed_canaries(config: CohortsConfig, ids: Sequence[str]) -> NDArray[np.int64]:
    named = embedded_canaries() if config.fixed == (EMBEDDED,) else config.fixed
    if len(named) < config.canaries or len(set(named)) != len(named):
        raise CohortError(
            f"{config.canaries} canaries are asked for and cohorts.fixed names {len(set(named))} users; name as "
            "many, each once."
        )
    chosen = named[: config.canaries]
    places = {name: place for place, name in enumerate(ids) if name in chosen}
    if missing := [name for name in chosen if name not in places]:
        raise CohortError(f"The fixed canary {missing[0]!r} is not among the {len(ids)} admitted users.")
    return np.array([places[name] for name in chosen], dtype=np.int64)


def canaries_of(attack: Attack, cohorts: Cohorts | Roles, config: CohortsConfig, encode: Encode) -> list[Canary]:
    """Return an attack's canaries: real ones from the cohorts, or nonce ones with as many records as real ones have.

    Each nonce attack draws nonces of its own, unless canaries are shared.
    """
    if attack.pool is PoolKind.SEARCHED:
        raise InputError(f"The canaries of {attack.name} are what a search finds; call search_canary.")
    if attack.canary is CanaryKind.NONCE:
        name = "nonce" if config.shared else attack.name
        return [
            nonce_canary(cohorts.canary_records, encode, config.seed, index, name) for index in range(config.canaries)
        ]
    drawn = cohorts.canaries[attack.name]
    return [Canary.of(drawn, index) for index in range(len(drawn))]


def outside_examples(users: Users, cohorts: Cohorts, *, count: int, seed: int) -> tuple[str, ...]:
    """Return one record each of so many users who are in no cohort and are no canary, drawn by seed."""
    drawn = (cohorts.auxiliary.users, cohorts.calibration.users, cohorts.evaluation.users, *cohorts.canaries.values())
    playing = {name for group in drawn for name in group.ids}
    rest = sorted(name for name in users.ids if name not in playing)
    if len(rest) < count:
        raise CohortError(
            f"{count} public examples need as many users outside all cohorts, and {len(rest)} of {len(users)} are "
            "left; use smaller cohorts or fewer examples."
        )
    rng = stream(seed, "outside", "examples")
    chosen = [users.take([users.ids.index(rest[i])]) for i in rng.permutation(len(rest))[:count]]
    return tuple(each.require_texts()[int(rng.integers(len(each.owners)))] for each in chosen)
