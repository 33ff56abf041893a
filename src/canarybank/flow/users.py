"""Make the stage of users: read the source, admit, cap."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from canarybank.config.model import CohortsConfig, UsersConfig
from canarybank.errors import ColumnError, ConfigError
from canarybank.flow.real_run import hidden
from canarybank.progress import SILENT, Progress
from canarybank.store import hash_file, require_file
from canarybank.store.stage_cache import StageCache, stage_key
from canarybank.users import (
    ADMISSIONS,
    Admission,
    Admitted,
    Chitchat,
    Columns,
    Source,
    Users,
    admit,
    pack_users,
    source,
    unpack_users,
)
from canarybank.users.admission import require_label_column
from canarybank.users.files import require_encoding

__all__ = ["People", "admission", "admit_users", "admit_voters", "users_key", "users_source"]

_CANARY_CHOICE = 4
"""Where the cap is ours to choose, at least this many users for each canary have as many records as it."""

_READING = "types apart"
"""How files are read; changed whenever the same file gives other users than before, so that no older cache is taken."""

_COLUMN_KEYS = (
    "Set users.user and users.text to the columns that hold the user's id and the text (as flags: --users.user and "
    "--users.text), and users.label where labels are read."
)


@dataclass(frozen=True, slots=True)
class People:
    """The admitted users, the count of all that was read, and what a reader should know of how they were admitted."""

    users: Users
    report: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def admit_users(config: UsersConfig, cohorts: CohortsConfig, cache: StageCache, progress: Progress = SILENT) -> People:
    """Read and admit the users, or take them from the cache where the same file was admitted in the same way before."""
    given, rule = users_source(config), admission(config, cohorts)
    key = users_key(given, rule)
    made: list[Admitted] = []

    def make() -> Users:
        made.append(_admit(given, rule, progress))
        return made[0].users

    def report_of() -> dict[str, Any]:
        return (made or [_admit(given, rule, progress)])[0].report.as_dict()

    users = cache.packed("users", key, make, pack_users, unpack_users)
    report = cache.document("users", key, report_of)
    if config.cap is not None or given.format.name in ADMISSIONS:
        return _noted(People(users, report), rule.cap, cohorts)
    return _capped(People(users, report), cohorts.canaries)


def admit_voters(config: UsersConfig, cohorts: CohortsConfig, cache: StageCache, progress: Progress = SILENT) -> Users:
    """Read and admit the users of a real evolution, so that nothing in one user's rows decides about another.

    Whether a user is admitted, and with which records, follows from that user's rows and the configuration alone. There
    may be no users. Nothing is counted, and an error says nothing about rows.
    """
    given, rule = users_source(config, isolated=True), admission(config, cohorts)
    require_label_column(given, rule)
    if isinstance(encoding := getattr(given.format, "encoding", None), str):
        require_encoding(encoding)
    key = users_key(given, rule)
    with hidden("reading users", progress):
        return cache.packed("users", key, lambda: _admit(given, rule, SILENT).users, pack_users, unpack_users)


def _admit(given: Source, rule: Admission, progress: Progress) -> Admitted:
    """Admit the users; where a column is missing, name the keys that say which columns to read."""
    try:
        return admit(given, rule, progress=progress)
    except ColumnError as error:
        raise ColumnError(error.what, _COLUMN_KEYS) from error


def users_source(config: UsersConfig, *, isolated: bool = False) -> Source:
    """Return the source of users that a configuration names, isolated for a real evolution."""
    built_in = Chitchat().name
    if config.source == built_in and config.format not in {None, built_in}:
        raise ConfigError(
            f"The format {config.format} needs a file of users; name it by users.source, which is {built_in!r}."
        )
    return source(
        config.source,
        config.format,
        columns=_columns(config),
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
    shape = {name: str(value) for name, value in _shape(given.format).items()}
    if not given.built_in:
        require_file(given.path, "file of users")
    content = "chitchat-dataset 0.9.0" if given.built_in else hash_file(given.path)
    how = "isolated" if given.isolated else given.strict
    return stage_key("users", reading=_READING, content=content, format=shape, strict=how, admission=chosen)


def _shape(value: Any) -> dict[str, Any]:
    """Return the fields of a format, which is a dataclass."""
    return asdict(value)


def _columns(config: UsersConfig) -> Columns | None:
    if config.user is None and config.text is None and config.label is None:
        return None
    own = source(config.source, config.format).format.columns
    return Columns(config.user or own.user, config.text or own.text, config.label or own.label)


def _noted(people: People, cap: int, cohorts: CohortsConfig) -> People:
    """Say so where the cap is above what anybody has, for canaries are then smaller than was asked for."""
    most = int(people.users.counts.max())
    if most == cap:
        return people
    drawn = "" if cohorts.fixed else f", and canaries have {most}"
    note = f"No user has {cap} records, the number that users.cap keeps of each; the largest has {most}{drawn}."
    return replace(people, notes=(*people.notes, note))


def _capped(people: People, canaries: int) -> People:
    """Lower the cap until enough users have exactly as many records as it, for canaries come from those."""
    counts = np.sort(people.users.counts)[::-1]
    wanted = min(_CANARY_CHOICE * canaries, max(canaries, len(counts) // _CANARY_CHOICE), len(counts))
    cap = int(counts[wanted - 1])
    if cap == counts[0]:
        return people
    note = (
        f"Every user was cut to {cap} records, for canaries are drawn from users with as many records as the cap, "
        "and fewer "
        f"than {wanted} users have more; set users.cap to choose."
    )
    return replace(people, users=_cut(people.users, cap), notes=(*people.notes, note))


def _cut(users: Users, cap: int) -> Users:
    # Records stand in the order of their rank, so the first of them are those that a lower cap keeps.
    starts = np.searchsorted(users.owners, np.arange(len(users)))
    return users.keep_records(np.flatnonzero(np.arange(len(users.owners)) - starts[users.owners] < cap))
