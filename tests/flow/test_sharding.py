"""When users are read in shards: by the size of their file, unless the configuration says, or the run cannot."""

import pytest

from canarybank.errors import ConfigError
from canarybank.flow.sharding import shards_for
from canarybank.users import STREAM_BYTES, source


@pytest.fixture
def sized(tmp_path):
    def make(size, name="users.csv"):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(size)  # a hole, which takes no space
        return source(path)

    return make


def test_large_files_are_read_in_shards_and_small_ones_in_memory(sized):
    assert shards_for(sized(STREAM_BYTES), None) is None
    assert shards_for(sized(STREAM_BYTES + 1), None) == 64
    assert shards_for(sized(STREAM_BYTES + 1, "users.parquet"), None) == 256
    assert shards_for(sized(20 * STREAM_BYTES), None) == 2048
    assert shards_for(source("chitchat"), None) is None


def test_the_configuration_has_the_last_word(sized):
    assert shards_for(sized(20 * STREAM_BYTES), 0) is None
    assert shards_for(sized(10), 7) == 7
    assert shards_for(source("chitchat"), 2) == 2


def test_a_run_that_needs_memory_refuses_shards_only_where_they_are_asked_for(sized):
    large = sized(2 * STREAM_BYTES)
    assert shards_for(large, None, "it needs all users") is None
    assert shards_for(large, 0, "it needs all users") is None
    with pytest.raises(ConfigError, match=r"run.shards is 4, but it needs all users\. Set run.shards to 0"):
        shards_for(large, 4, "it needs all users")
