"""When users are read in shards: by the size of their file, unless the configuration says, or the run cannot."""

import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow.sharding import shards_for
from canarybank.store import StageCache
from canarybank.users import STREAM_BYTES, source


@pytest.fixture
def sized(tmp_path):
    def make(size, name="users.csv"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(size)  # a hole, which takes no space
        return source(path)

    return make


@pytest.fixture
def cache(tmp_path):
    return StageCache(tmp_path / "cache")


def test_large_files_are_read_in_shards_and_small_ones_in_memory(sized, cache):
    assert shards_for(sized(STREAM_BYTES), None, cache) is None
    assert shards_for(sized(STREAM_BYTES + 1), None, cache) == 64
    assert shards_for(sized(STREAM_BYTES + 1, "users.parquet"), None, cache) == 256
    assert shards_for(sized(20 * STREAM_BYTES), None, cache) == 2048
    assert shards_for(source("chitchat"), None, cache) is None


def test_the_configuration_has_the_last_word(sized, cache):
    assert shards_for(sized(20 * STREAM_BYTES), 0, cache) is None
    assert shards_for(sized(10), 7, cache) == 7
    assert shards_for(source("chitchat"), 2, cache) == 2


def test_a_run_that_needs_memory_refuses_shards_only_where_they_are_asked_for(sized, cache):
    large = sized(2 * STREAM_BYTES)
    assert shards_for(large, None, cache, "it needs all users") is None
    assert shards_for(large, 0, cache, "it needs all users") is None
    with pytest.raises(ConfigError, match=r"run.shards is 4, but it needs all users\. Set run.shards to 0"):
        shards_for(large, 4, cache, "it needs all users")


def test_without_a_cache_to_write_to_large_files_are_read_into_memory(sized, tmp_path):
    large, cache = sized(2 * STREAM_BYTES), StageCache(tmp_path / "users.csv" / "a file is no folder")
    assert shards_for(large, None, cache) is None
    assert shards_for(large, 0, cache) is None
    with pytest.raises(ConfigError, match=r"run.shards is 4, but the cache in .* cannot be written\. Set run.shards"):
        shards_for(large, 4, cache)


def test_more_shards_than_a_folder_should_hold_are_refused():
    assert resolve(flags={"run.shards": 2**16}).config.run.shards == 2**16
    with pytest.raises(ConfigError, match=r"run.shards .*less than or equal to 65536"):
        resolve(flags={"run.shards": 10**9})
