"""Read the users of a real evolution, so that nothing in one user's rows decides about another.

They are in memory, or lie in shards and are encoded when they vote; from outside nothing tells which.
"""

from canarybank.config.model import CohortsConfig, Config, UsersConfig
from canarybank.encode import CachedEncoder
from canarybank.engine import Engine
from canarybank.evolution import HeldUsers, StreamedUsers, VotingUsers
from canarybank.flow.inputs import admission, encoder_recipe, named_columns, users_key, users_source
from canarybank.flow.real_run import HiddenEngine, HiddenVoters, encode_users, hidden
from canarybank.flow.sharding import shards_for
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache
from canarybank.users import Shards, Users, admit, pack_users, shard_users, unpack_users
from canarybank.users.admission import require_label_column
from canarybank.users.files import require_encoding

__all__ = ["admit_voters", "real_voters"]


def admit_voters(
    config: UsersConfig,
    cohorts: CohortsConfig,
    cache: StageCache,
    progress: Progress = SILENT,
    shards: int | None = None,
) -> Users | Shards:
    """Read and admit the users of a real evolution, into memory or into shards (``shards_for``).

    Whether a user is admitted, and with which records, follows from that user's rows and the configuration alone. There
    may be no users. Nothing is counted, and an error says nothing about rows.
    """
    given, rule = users_source(config, isolated=True), admission(config, cohorts)
    require_label_column(given, rule)
    if isinstance(encoding := getattr(given.format, "encoding", None), str):
        require_encoding(encoding)
    state = given.state
    key, number = users_key(given, rule), shards_for(given, shards, cache)

    def admitted() -> Users:
        found = admit(given, rule).users
        given.require_state(state)
        return found

    with hidden("reading users", progress), named_columns():
        if number is not None:
            return shard_users(given, rule, number, cache.folder, key=key, state=state)
        return cache.packed("users", key, admitted, pack_users, unpack_users)


def real_voters(
    config: Config, encoder: CachedEncoder, cache: StageCache, progress: Progress, engine: Engine
) -> VotingUsers:
    """Return the users of a real run, who vote with the records that can be encoded; no count of votes is kept."""
    people = admit_voters(config.users, config.cohorts, cache, progress, config.run.shards)
    with hidden("preparing users' records", progress):
        if isinstance(people, Users):
            return HiddenVoters(HeldUsers(encode_users(people, encoder)), progress)
        given = config.encoder
        recipe = encoder_recipe(given, encoder.encoder, keep=given.keep_vectors, isolated=True)
        streamed = StreamedUsers(people.everybody, recipe, HiddenEngine(engine), encode=encode_users)
        return HiddenVoters(streamed, progress)
