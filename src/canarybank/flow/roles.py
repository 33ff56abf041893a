"""Give users their roles: which attacks there are, who is a canary of which, who is in which cohort."""

from dataclasses import replace

from canarybank.attack import ATTACKS, Attack, Canary, CanaryKind, Encode, PoolKind, find_attack, nonce_canary
from canarybank.auditing import find_method
from canarybank.config.model import NO_GENERATOR, CohortsConfig, Config
from canarybank.encode.load import is_vector_file
from canarybank.errors import CohortError, ConfigError
from canarybank.flow.embedded import embedded_canaries
from canarybank.flow.sending import may_send_records, refuse_sending, skipped_note
from canarybank.seeds import stream
from canarybank.users import Cohorts, CohortSizes, Users, draw_cohorts

__all__ = [
    "canaries_of",
    "chosen_attacks",
    "cohort_sizes",
    "draw_roles",
    "evolved_attacks",
    "outside_examples",
]

EMBEDDED = "embedded"
SHARED_NONCES = "nonce"


def chosen_attacks(config: Config) -> tuple[tuple[Attack, ...], tuple[str, ...]]:
    """Return the attacks that a configuration asks for, in the usual order, plug-ins last; and notes on others."""
    names = config.attack.names
    if "all" in names or "available" in names:
        names = tuple(ATTACKS)
    ordered = (*(name for name in ATTACKS if name in names), *(name for name in names if name not in ATTACKS))
    attacks = tuple(map(find_attack, ordered))
    _refuse_same_names(attacks, "attack.names")
    unread = tuple(attack for attack in attacks if is_vector_file(config.encoder.name) and _writes(attack, config))
    if "available" not in config.attack.names:
        _refuse_unread(config, attacks, unread)
        _refuse_sent(config, attacks)
        return attacks, ()
    lacking = () if _has_paraphrases(config) else _paraphrasing(attacks)
    notes = []
    if unread:
        notes.append(
            f"Left out because {config.encoder.name!r} has no vectors for the texts that they write: "
            f"{_listed(unread)}; choose an encoder that reads texts to run them."
        )
    if left := tuple(attack for attack in lacking if attack not in unread):
        notes.append(skipped_note([attack.name for attack in left], config))
    return tuple(attack for attack in attacks if attack not in (*unread, *lacking)), tuple(notes)


def evolved_attacks(config: Config) -> tuple[Attack, ...]:
    """Return the attacks that an evolution is audited with; none where it is not."""
    attacks, method = tuple(find_attack(name) for name in config.evolve.audit), find_method(config.audit.method)
    _refuse_same_names(attacks, "evolve.audit")
    _refuse_sent(config, attacks)
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


def _writes(attack: Attack, config: Config) -> bool:
    """Say whether an attack writes texts of its own, which no file of vectors made beforehand can hold."""
    if attack.pool is PoolKind.PARAPHRASES:
        return config.cohorts.fixed != (EMBEDDED,)
    return attack.canary is CanaryKind.NONCE or attack.pool is PoolKind.NONCES


def _refuse_unread(config: Config, attacks: tuple[Attack, ...], unread: tuple[Attack, ...]) -> None:
    if unread:
        others = [attack.name for attack in attacks if attack not in unread] or ["ordinary", "exact"]
        raise ConfigError(
            f"The attacks {_listed(unread)} write nonces or paraphrases, and the file of vectors "
            f"{config.encoder.name!r} has none for them; choose an encoder that reads texts, such as wordllama, or "
            "name other attacks: "
            f"--attack.names {','.join(others)}."
        )


def _paraphrasing(attacks: tuple[Attack, ...]) -> tuple[Attack, ...]:
    return tuple(attack for attack in attacks if attack.pool is PoolKind.PARAPHRASES)


def _listed(attacks: tuple[Attack, ...]) -> str:
    return ", ".join(attack.name for attack in attacks)


def _has_paraphrases(config: Config) -> bool:
    written = config.generator.kind != NO_GENERATOR and may_send_records(config)
    return written or config.cohorts.fixed == (EMBEDDED,)


def cohort_sizes(config: CohortsConfig, users: int, sets: int) -> CohortSizes:
    """Return the cohorts' sizes: those given, and for the rest as many as the users allow."""
    fitted = CohortSizes.fit(users, canaries=config.canaries, sets=sets)
    given = {name: getattr(config, name) for name in ("auxiliary", "calibration", "evaluation")}
    return replace(fitted, **{name: size for name, size in given.items() if size is not None})


def draw_roles(config: CohortsConfig, users: Users, attacks: tuple[Attack, ...]) -> Cohorts:
    """Draw the cohorts and each attack's real canaries by seed, or take the fixed canaries; all disjoint."""
    real = [attack.name for attack in attacks if attack.canary is CanaryKind.REAL]
    if config.fixed and real:
        return _around_fixed(config, users, real)
    sets = (1 if config.shared else len(real)) if real else 0
    sizes = cohort_sizes(config, len(users), sets)
    records = int(users.counts.max())
    return draw_cohorts(users, sizes, attacks=real, records=records, seed=config.seed, shared=config.shared)


def _around_fixed(config: CohortsConfig, users: Users, real: list[str]) -> Cohorts:
    chosen = embedded_canaries() if config.fixed == (EMBEDDED,) else config.fixed
    if len(chosen) < config.canaries or len(set(chosen)) != len(chosen):
        raise CohortError(
            f"{config.canaries} canaries are asked for and cohorts.fixed names {len(set(chosen))} users; name as "
            "many, each once."
        )
    chosen = chosen[: config.canaries]
    places = {name: i for i, name in enumerate(users.ids)}
    missing = [name for name in chosen if name not in places]
    if missing:
        raise CohortError(f"The fixed canary {missing[0]!r} is not among the {len(users)} admitted users.")
    rest = users.take([i for name, i in places.items() if name not in chosen])
    sizes = cohort_sizes(config, len(users), 1)
    cohorts = draw_cohorts(rest, sizes, attacks=[], records=int(users.counts.max()), seed=config.seed)
    canaries = users.take([places[name] for name in chosen])
    return replace(cohorts, canaries=dict.fromkeys(real, canaries))


def canaries_of(attack: Attack, cohorts: Cohorts, config: CohortsConfig, encode: Encode) -> list[Canary]:
    """Return an attack's canaries: real ones from the cohorts, or nonce ones with as many records as real ones have.

    Each nonce attack draws nonces of its own, unless canaries are shared.
    """
    if attack.canary is CanaryKind.NONCE:
        name = SHARED_NONCES if config.shared else attack.name
        return [
            nonce_canary(cohorts.canary_records, encode, config.seed, index, name) for index in range(config.canaries)
        ]
    drawn = cohorts.canaries[attack.name]
    return [Canary.of(drawn, index) for index in range(len(drawn))]


def outside_examples(users: Users, cohorts: Cohorts, *, count: int, seed: int) -> tuple[str, ...]:
    """Return one record each of so many users who are in no cohort and are no canary, drawn by seed."""
    playing = {
        name for cohort in (cohorts.auxiliary, cohorts.calibration, cohorts.evaluation) for name in cohort.users.ids
    }
    playing |= {name for canaries in cohorts.canaries.values() for name in canaries.ids}
    rest = sorted(name for name in users.ids if name not in playing)
    if len(rest) < count:
        raise CohortError(
            f"{count} public examples need as many users outside all cohorts, and {len(rest)} of {len(users)} are "
            "left; use smaller cohorts or fewer examples."
        )
    rng = stream(seed, "outside", "examples")
    places = {name: index for index, name in enumerate(users.ids)}
    drawn = users.take([places[rest[i]] for i in rng.permutation(len(rest))[:count]])
    texts, counts = drawn.require_texts(), drawn.counts
    starts = counts.cumsum() - counts
    return tuple(texts[start + int(rng.integers(size))] for start, size in zip(starts, counts, strict=True))
