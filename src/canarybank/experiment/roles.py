"""Give users their roles: which attacks there are, who is a canary of which, who is in which cohort."""

from dataclasses import replace

from canarybank.attack import ATTACKS, Attack, Canary, CanaryKind, Encode, PoolKind, nonce_canary
from canarybank.errors import CohortError
from canarybank.experiment.config import ATTACK_NAMES, CohortsConfig, Config
from canarybank.experiment.embedded import embedded_canaries
from canarybank.users import Cohorts, CohortSizes, Users, draw_cohorts

__all__ = ["canaries_of", "chosen_attacks", "cohort_sizes", "draw_roles"]

EMBEDDED = "embedded"


def chosen_attacks(config: Config) -> tuple[tuple[Attack, ...], tuple[str, ...]]:
    """Return the attacks that a configuration asks for, in the usual order, and a note on those left out."""
    names: tuple[str, ...] = config.attack.names
    if "all" in names or "available" in names:
        names = ATTACK_NAMES
    attacks = tuple(ATTACKS[name] for name in ATTACK_NAMES if name in names)
    if "available" not in config.attack.names or _has_paraphrases(config):
        return attacks, ()
    left = tuple(attack for attack in attacks if attack.pool is PoolKind.PARAPHRASES)
    note = (
        f"Left out for want of paraphrases: {', '.join(attack.name for attack in left)}; name a generator by "
        "generator.kind "
        "to run them."
    )
    return tuple(attack for attack in attacks if attack not in left), (note,)


def _has_paraphrases(config: Config) -> bool:
    return config.generator.kind != "none" or config.cohorts.fixed == (EMBEDDED,)


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
    cohorts = draw_cohorts(rest, sizes, attacks=[], records=1, seed=config.seed)
    canaries = users.take([places[name] for name in chosen])
    return replace(cohorts, canaries=dict.fromkeys(real, canaries))


def canaries_of(attack: Attack, cohorts: Cohorts, config: CohortsConfig, encode: Encode) -> list[Canary]:
    """Return an attack's canaries: real ones from the cohorts, or nonce ones with as many records as a full user."""
    if attack.canary is CanaryKind.NONCE:
        # From the auxiliary users alone: what is judged may not shape a canary.
        records = int(cohorts.auxiliary.users.counts.max())
        return [nonce_canary(records, encode, config.seed, index) for index in range(config.canaries)]
    drawn = cohorts.canaries[attack.name]
    return [Canary.of(drawn, index) for index in range(len(drawn))]
