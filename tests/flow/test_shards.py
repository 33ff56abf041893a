from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from canarybank.attack import ATTACKS
from canarybank.auditing import Counts, Projected, Shard, count
from canarybank.engine import Processes, Serial, Threads
from canarybank.errors import StoreError
from canarybank.experiment.designs import Case
from canarybank.run.trials_log import ShardLog, play, read_shards
from canarybank.score import RoundLaw
from canarybank.store import Log

LAW = RoundLaw(np.linspace(-0.1, 0.2, 12), 1.0, 1.0, 0.5, 0.1)
TRIALS, THRESHOLD = 300_000, 2.0


def cases(number=2):
    frozen = SimpleNamespace(threshold=SimpleNamespace(value=THRESHOLD))
    return [Case(ATTACKS["nonce"], index, frozen) for index in range(number)]


def played(log, engine=None, **options):
    play(cases(), lambda _: Projected(LAW), log, trials=TRIALS, seed=5, engine=engine or Serial(), **options)


@pytest.mark.parametrize("engine", [Serial(), Threads(3), Processes(2)])
def test_counts_are_those_of_the_audit_on_any_engine(tmp_path, engine):
    log = ShardLog(tmp_path / "trials.log", "c")
    played(log, engine)
    for index in range(2):
        expected = count(
            Projected(LAW), THRESHOLD, TRIALS, seed=5, path=("nonce", index, "evaluation"), engine=Serial()
        )
        assert log.counts(("nonce", index)) == expected == read_shards(tmp_path / "trials.log").counts(("nonce", index))


def test_what_was_done_is_not_done_again(tmp_path):
    @dataclass
    class Stop:
        left: int

        def run(self, function, tasks):
            for index, task in enumerate(tasks[: self.left]):
                yield index, function(task)
            raise KeyboardInterrupt

    whole = ShardLog(tmp_path / "whole.log", "c")
    played(whole)
    with pytest.raises(KeyboardInterrupt):
        played(ShardLog(tmp_path / "cut.log", "c"), Stop(5))
    seen = []

    class Spy:
        def run(self, function, tasks):
            seen.extend(tasks)
            return Serial().run(function, tasks)

    again = ShardLog(tmp_path / "cut.log", "c")
    played(again, Spy())
    assert len(seen) == len(whole.done) - 5
    assert again.done == whole.done


def test_trials_of_another_commitment_are_refused(tmp_path):
    ShardLog(tmp_path / "t.log", "one")
    with pytest.raises(StoreError, match="under the commitment one, not under two"):
        ShardLog(tmp_path / "t.log", "two")


def test_a_shard_with_two_different_counts_is_refused(tmp_path):
    log = ShardLog(tmp_path / "t.log", "c")
    shard = Shard(eligible=True, block=0, size=10)
    log.put(("nonce", 0), shard, 3)
    log.put(("nonce", 0), shard, 3)
    with pytest.raises(StoreError, match="twice with different counts"):
        log.put(("nonce", 0), shard, 4)
    with pytest.raises(StoreError, match="twice with different counts"):
        read_shards(tmp_path / "t.log")


def test_altered_and_strange_lines_are_refused(tmp_path):
    path = tmp_path / "t.log"
    ShardLog(path, "c").put(("nonce", 0), Shard(eligible=True, block=0, size=10), 3)
    path.write_bytes(path.read_bytes().replace(b'"positives":3', b'"positives":9'))
    with pytest.raises(StoreError, match="does not fit its checksum"):
        read_shards(path)
    Log(tmp_path / "u.log").append({"commitment": "c"}, {"attack": "nonce"})
    with pytest.raises(StoreError, match="no shard"):
        read_shards(tmp_path / "u.log")


def test_a_torn_last_line_is_played_again(tmp_path):
    path = tmp_path / "t.log"
    played(ShardLog(path, "c"))
    whole = ShardLog(path, "c").done
    path.write_bytes(path.read_bytes()[:-7])
    played(ShardLog(path, "c"))
    assert ShardLog(path, "c").done == whole


def test_rates_are_shown_and_no_bound(tmp_path):
    notes = []

    class Shown:
        def stage(self, *_, **__):
            return nullcontext(SimpleNamespace(advance=lambda done=1, note="": notes.append((done, note))))

    played(ShardLog(tmp_path / "t.log", "c"), progress=Shown())
    assert sum(done for done, _ in notes) == 4 * TRIALS
    assert notes[-1][1].startswith("nonce canary 1: TPR ")
    assert not any("epsilon" in note or "bound" in note for _, note in notes)


def test_nothing_counted_is_no_count(tmp_path):
    assert ShardLog(tmp_path / "t.log", "c").counts(("nonce", 0)) == Counts(0, 0, 0, 0)
    assert read_shards(tmp_path / "none.log").commitment is None
