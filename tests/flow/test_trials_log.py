import pytest

from canarybank.auditing import Counts, Shard
from canarybank.errors import StoreError
from canarybank.run import ShardLog

PLACE, SHARD = ("nonce", 0), Shard(eligible=True, block=0, size=10)


def test_a_shard_that_is_put_twice_counts_once_here_and_when_it_is_read(tmp_path):
    log = ShardLog(tmp_path / "t.log", "c")
    log.put(PLACE, SHARD, (3, 4))
    log.put(PLACE, SHARD, (3, 4))
    assert [log.counts(PLACE, rounds) for rounds in (1, 2)] == [Counts(3, 0, 10, 0), Counts(4, 0, 10, 0)]
    assert ShardLog(tmp_path / "t.log", "c").counts(PLACE, 2) == Counts(4, 0, 10, 0)


def test_a_shard_with_two_different_counts_is_refused(tmp_path):
    log = ShardLog(tmp_path / "t.log", "c")
    log.put(PLACE, SHARD, (3,))
    with pytest.raises(StoreError, match="twice with different counts"):
        log.put(PLACE, SHARD, (4,))
    with pytest.raises(StoreError, match="twice with different counts"):
        ShardLog(tmp_path / "t.log", "c")


@pytest.mark.parametrize("eligible", [True, False])
def test_shards_of_one_canary_are_of_as_many_rounds(tmp_path, eligible):
    log = ShardLog(tmp_path / "t.log", "c")
    log.put(PLACE, SHARD, (3,))
    with pytest.raises(StoreError, match="different numbers of rounds"):
        log.put(PLACE, Shard(eligible=eligible, block=1, size=10), (3, 4))
    with pytest.raises(StoreError, match="different numbers of rounds"):
        ShardLog(tmp_path / "t.log", "c")
