"""When users are read in shards: by the size of their file, unless the configuration says, or the run cannot."""

import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow import gather
from canarybank.store import StageCache
from canarybank.users import STREAM_BYTES


@pytest.fixture
def sized(tmp_path):
    def make(size, name="users.csv"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(size)  # a hole, which takes no space
        return str(path)

    return make


@pytest.fixture
def shards(tmp_path):
    """Return a function that says in how many shards a file of users is read."""

    def number(source, asked=None, cache="cache", **flags):
        flags |= {"users.source": source, "run.shards": asked}
        config = resolve(flags={key: value for key, value in flags.items() if value is not None}).config
        return gather(config, StageCache(tmp_path / cache), None).shards

    return number


def test_large_files_are_read_in_shards_and_small_ones_in_memory(sized, shards):
    assert shards(sized(STREAM_BYTES)) is None
    just_larger, twenty_times = shards(sized(STREAM_BYTES + 1)), shards(sized(20 * STREAM_BYTES))
    assert 1 < just_larger < twenty_times
    assert shards(sized(STREAM_BYTES + 1, "users.parquet")) > just_larger  # its bytes hold more text
    assert shards("chitchat") is None


def test_the_configuration_has_the_last_word(sized, shards):
    assert shards(sized(20 * STREAM_BYTES), 0) is None
    assert shards(sized(10), 7) == 7
    assert shards("chitchat", 2) == 2


def test_a_run_that_needs_memory_refuses_shards_only_where_they_are_asked_for(sized, shards):
    large, needs_memory = sized(2 * STREAM_BYTES), {"mechanism.share": 0.5}
    assert shards(large, **needs_memory) is None
    assert shards(large, 0, **needs_memory) is None
    with pytest.raises(ConfigError, match=r"run.shards is 4, but mechanism\.share is below 1.*Set run.shards to 0"):
        shards(large, 4, **needs_memory)


def test_without_a_cache_to_write_to_large_files_are_read_into_memory(sized, shards):
    large, cache = sized(2 * STREAM_BYTES), "users.csv/a file is no folder"
    assert shards(large, cache=cache) is None
    assert shards(large, 0, cache) is None
    with pytest.raises(ConfigError, match=r"run.shards is 4, but the cache in .* cannot be written\. Set run.shards"):
        shards(large, 4, cache)


def test_whoever_reads_many_users_into_memory_unasked_says_so(sized, tmp_path):
    def notes(size, cache="cache", **flags):
        config = resolve(flags={"users.source": sized(size), **flags}).config
        return gather(config, StageCache(tmp_path / cache), None).memory_notes

    assert notes(2 * STREAM_BYTES) == notes(10, **{"mechanism.share": 0.5}) == ()
    assert notes(2 * STREAM_BYTES, **{"mechanism.share": 0.5, "run.shards": 0}) == ()
    (shares,) = notes(2 * STREAM_BYTES, **{"mechanism.share": 0.5})
    assert shares.startswith("All users are read into memory: mechanism.share is below 1")
    (unwritable,) = notes(2 * STREAM_BYTES, "users.csv/a file is no folder")
    assert unwritable.startswith("All users are read into memory: the cache in ")


def test_more_shards_than_a_folder_should_hold_are_refused():
    assert resolve(flags={"run.shards": 2**16}).config.run.shards == 2**16
    with pytest.raises(ConfigError, match=r"run.shards .*less than or equal to 65536"):
        resolve(flags={"run.shards": 10**9})
