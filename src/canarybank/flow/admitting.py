"""Admit the users that a configuration names: into memory, or into shards where they are many."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from canarybank.config.model import CohortsConfig, UsersConfig
from canarybank.errors import ColumnError, ConfigError
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, hash_file, require_file, stage_key
from canarybank.users import (
    ADMISSIONS,
    Admission,
    Admitted,
    Chitchat,
    Columns,
    Shards,
    Source,
    Users,
    admit,
    pack_users,
    shard_users,
    source,
    unpack_users,
)

__all__ = [
    "People",
    "ShardedPeople",
    "admission",
    "admit_shards",
    "admit_users",
    "check_users",
    "fitting_cap",
    "named_columns",
    "users_key",
    "users_source",
]

_CANARY_CHOICE = 4
"""Where the cap is ours to choose, at least this many users for each canary have as many records as it."""

READING = "types apart"
"""How files are read; changed whenever the same file gives other users than before, so that no older cache is taken."""


@dataclass(frozen=True, slots=True)
class People:
    """The admitted users, the count of all that was read, and what a reader should know of how they were admitted."""

    users: Users
    report: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardedPeople:
    """The admitted users in shards, with what ``People`` says of them."""

    users: Shards
    report: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def admit_users(config: UsersConfig, cohorts: CohortsConfig, cache: StageCache, progress: Progress = SILENT) -> People:
    """Read and admit the users, or take them from the cache where the same file was admitted in the same way before."""
    given, rule = users_source(config), admission(config, cohorts)
    state, key = given.state, users_key(given, rule)

    @lru_cache(1)
    def admitted() -> Admitted:
        found = _admit(given, rule, progress)
        given.require_state(state)
        return found

    users = cache.packed("users", key, lambda: admitted().users, pack_users, unpack_users)
    report = cache.document("users", key, lambda: admitted().report.as_dict())  # noqa: PLW0108, only if it lacks
    cap, notes = _lowered_cap(config, cohorts, given, rule, users.counts)
    # Records stand in the order of their rank, so the first of them are those that a lower cap keeps.
    return People(users.first_records(cap) if cap else users, report, notes)


def admit_shards(
    config: UsersConfig, cohorts: CohortsConfig, number: int, cache: StageCache, progress: Progress = SILENT
) -> ShardedPeople:
    """Read and admit the users into shards: the same users, report and notes as ``admit_users`` gives."""
    given, rule = users_source(config), admission(config, cohorts)
    state, key = given.state, users_key(given, rule)
    with named_columns():
        shards = shard_users(given, rule, number, cache.folder, key=key, state=state, progress=progress)
    cap, notes = _lowered_cap(config, cohorts, given, rule, shards.counts)
    return ShardedPeople(shards.capped(cap) if cap else shards, shards.report.as_dict(), notes)


def _lowered_cap(
    config: UsersConfig, cohorts: CohortsConfig, given: Source, rule: Admission, counts: NDArray[np.int64]
) -> tuple[int | None, tuple[str, ...]]:
    """Return the cap to cut users to, if it is lower than the admission's, and what a reader should know of it."""
    if config.cap is None and given.format.name not in ADMISSIONS:
        return fitting_cap(counts, cohorts.canaries)
    if (most := int(counts.max())) == rule.cap:
        return None, ()
    drawn = "" if cohorts.fixed else f", and canaries have {most}"
    note = f"No user has {rule.cap} records, the number that users.cap keeps of each; the largest has {most}{drawn}."
    return None, (note,)


def fitting_cap(given: NDArray[np.int64], canaries: int) -> tuple[int | None, tuple[str, ...]]:
    """Lower the cap until enough users have exactly as many records as it, for canaries come from those."""
    counts = np.sort(given)[::-1]
    wanted = min(_CANARY_CHOICE * canaries, max(canaries, len(counts) // _CANARY_CHOICE), len(counts))
    cap = int(counts[wanted - 1])
    if cap == counts[0]:
        return None, ()
    note = (
        f"Every user was cut to {cap} records, for canaries are drawn from users with as many records as the cap, and "
        f"fewer than {wanted} users have more; set users.cap to choose."
    )
    return cap, (note,)


def _admit(given: Source, rule: Admission, progress: Progress) -> Admitted:
    with named_columns():
        return admit(given, rule, progress=progress)


@contextmanager
def named_columns() -> Iterator[None]:
    """Where a column is missing, name the keys that say which columns to read."""
    try:
        yield
    except ColumnError as error:
        raise ColumnError(
            error.what,
            "Set users.user and users.text to the columns that hold the user's id and the text (as flags: --users.user "
            "and --users.text), and users.label where labels are read.",
        ) from error


def check_users(config: UsersConfig) -> None:
    """Read the first row of the users, so that a file or column that cannot be read is refused at once."""
    with named_columns():
        next(users_source(config).rows(), None)


def users_source(config: UsersConfig, *, isolated: bool = False) -> Source:
    """Return the source of users that a configuration names, isolated for a real evolution."""
    built_in, columns = Chitchat().name, None
    if config.source == built_in and config.format not in {None, built_in}:
        raise ConfigError(
            f"The format {config.format} needs a file of users; name it by users.source, which is {built_in!r}."
        )
    if {config.user, config.text, config.label} != {None}:
        own = source(config.source, config.format).format.columns
        columns = Columns(config.user or own.user, config.text or own.text, config.label or own.label)
    return source(
        config.source,
        config.format,
        columns=columns,
        encoding=config.encoding,
        member=config.member,
        quote=config.quote,
        strict=config.strict is not False,
        isolated=isolated,
    )


def admission(config: UsersConfig, cohorts: CohortsConfig) -> Admission:
    """Return the admission that a configuration asks for: the format's own, with every given value in its place."""
    own = ADMISSIONS.get(users_source(config).format.name, Admission())
    asked = {
        "minimum": config.minimum,
        "maximum": config.maximum,
        "cap": config.cap,
        "minimum_words": config.minimum_words,
        "labels": frozenset(config.labels) or None,
        "users": config.limit,
    }
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    return replace(own, **given, seed=cohorts.seed)


def users_key(given: Source, rule: Admission) -> str:
    """Return the content address of the admitted users: the file's bytes, how it is read, and who is admitted."""
    chosen = asdict(rule) | {"labels": sorted(rule.labels) if rule.labels else None}
    shape = {name: str(value) for name, value in asdict(cast("Any", given.format)).items()}
    if not given.built_in:
        require_file(given.path, "file of users")
    content = "chitchat-dataset 0.9.0" if given.built_in else hash_file(given.path)
    how = "isolated" if given.isolated else given.strict
    return stage_key("users", reading=READING, content=content, format=shape, strict=how, admission=chosen)
