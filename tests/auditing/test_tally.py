"""Trials are counted once, on any engine and in any order, in memory as in a file; a file's corruption is refused."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.attack import ATTACKS
from canarybank.auditing import (
    Auditor,
    Case,
    Counts,
    MemoryTally,
    Settings,
    Shard,
    Summed,
    Threshold,
    ThresholdMode,
    count_prefixes,
)
from canarybank.engine import Processes, Serial, Threads
from canarybank.errors import IncompleteError, StoreError
from canarybank.mechanism import Mechanism
from canarybank.run import ShardLog
from canarybank.score import LinearScore, Moments
from canarybank.store import Log
from canarybank.systems import BankSystem

MECHANISM = Mechanism()
ROUND = BankSystem(csr_array(np.full((12, 1), 0.02)), np.array([MECHANISM.clip]), MECHANISM)
SCORE = LinearScore(ROUND.canary, Moments.estimate(ROUND.contributions, MECHANISM, 12))
RULES = tuple(Threshold(value, ThresholdMode.ANALYTIC, 0.0) for value in (0.2, 0.3))
TRIALS = 300_000
CASES = [
    Case(ATTACKS["nonce"], index, f"c{index}", (SCORE, SCORE), (), RULES, ("nonce", index), summed=True)
    for index in range(2)
]


def played(tally, engine=None, **options):
    auditor = Auditor(MECHANISM, Settings(trials=TRIALS, seed=5), 12, engine=engine or Serial(), **options)
    auditor.play(CASES, lambda _: (ROUND, ROUND), tally)
    return tally


@pytest.fixture(scope="module")
def whole():
    return played(MemoryTally())


@dataclass
class Stop:
    """Run so many tasks and end as Ctrl-C does."""

    left: int

    def run(self, function, tasks):
        for index, task in enumerate(tasks[: self.left]):
            yield index, function(task)
        raise KeyboardInterrupt


@dataclass
class Spy:
    """Remember what was asked for."""

    seen: list

    def run(self, function, tasks):
        self.seen.extend(tasks)
        return Serial().run(function, tasks)


@pytest.mark.parametrize("engine", [Serial(), Threads(3), Processes(2)])
def test_counts_are_the_same_on_any_engine_in_memory_and_in_a_file(tmp_path, whole, engine):
    log = played(ShardLog(tmp_path / "trials.log", "c"), engine)
    assert log.done == whole.done
    trials = Summed.of([ROUND.law(SCORE)] * 2)
    for index in range(2):
        path = ("nonce", index, "evaluation")
        expected = count_prefixes(trials, [rule.value for rule in RULES], TRIALS, seed=5, path=path)
        for rounds, counts in enumerate(expected, start=1):
            for tally in (whole, log, ShardLog(tmp_path / "trials.log", "c")):
                assert tally.counts(("nonce", index), rounds) == counts


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_what_was_done_is_not_done_again(tmp_path, whole, kind):
    memory = MemoryTally()

    def opened():
        return memory if kind == "memory" else ShardLog(tmp_path / "cut.log", "c")

    with pytest.raises(KeyboardInterrupt):
        played(opened(), Stop(5))
    spy = Spy([])
    again = played(opened(), spy)
    assert len(spy.seen) == len(whole.done) - 5
    assert again.done == whole.done


def test_a_system_is_made_once_for_all_shards_and_not_for_what_is_finished(whole):
    asked = []

    def systems(case):
        asked.append(case.index)
        return (ROUND, ROUND)

    auditor = Auditor(MECHANISM, Settings(trials=TRIALS, seed=5), 12, engine=Serial())
    half = MemoryTally({key: found for key, found in whole.done.items() if key[0] == ("nonce", 0)})
    auditor.play(CASES, systems, half)
    assert asked == [1]
    assert half.done == whole.done


def test_too_few_and_too_many_trials_are_not_judged(whole):
    auditor, systems = Auditor(MECHANISM, Settings(trials=TRIALS), 12), lambda _: (ROUND, ROUND)
    cut = MemoryTally(dict(list(whole.done.items())[:-1]))
    with pytest.raises(IncompleteError, match="play them all before you judge"):
        auditor.judge(CASES, systems, cut)
    fewer = replace(auditor, settings=Settings(trials=TRIALS - 1))
    with pytest.raises(IncompleteError, match="299,999 of each were declared"):
        fewer.judge(CASES, systems, whole)


def test_trials_of_another_commitment_are_refused(tmp_path):
    ShardLog(tmp_path / "t.log", "one")
    with pytest.raises(StoreError, match="under the commitment one, not under two"):
        ShardLog(tmp_path / "t.log", "two")


def test_a_shard_with_two_different_counts_is_refused(tmp_path):
    log = ShardLog(tmp_path / "t.log", "c")
    shard = Shard(eligible=True, block=0, size=10)
    log.put(("nonce", 0), shard, (3,))
    log.put(("nonce", 0), shard, (3,))
    with pytest.raises(StoreError, match="twice with different counts"):
        log.put(("nonce", 0), shard, (4,))
    with pytest.raises(StoreError, match="twice with different counts"):
        ShardLog(tmp_path / "t.log", "c")


def test_altered_and_strange_lines_are_refused(tmp_path):
    path = tmp_path / "t.log"
    ShardLog(path, "c").put(("nonce", 0), Shard(eligible=True, block=0, size=10), (3,))
    path.write_bytes(path.read_bytes().replace(b'"positives":[3]', b'"positives":[9]'))
    with pytest.raises(StoreError, match="does not fit its checksum"):
        ShardLog(path, "c")
    Log(tmp_path / "u.log").append({"commitment": "c"}, {"attack": "nonce"})
    with pytest.raises(StoreError, match="no shard"):
        ShardLog(tmp_path / "u.log", "c")


def test_shards_of_different_numbers_of_rounds_are_refused(tmp_path):
    log = ShardLog(tmp_path / "t.log", "c")
    log.put(("nonce", 0), Shard(eligible=True, block=0, size=10), (3, 4))
    Log(tmp_path / "t.log").append(
        {"attack": "nonce", "canary": 0, "eligible": False, "block": 0, "size": 10, "positives": [1]}
    )
    with pytest.raises(StoreError, match="different numbers of rounds"):
        ShardLog(tmp_path / "t.log", "c")


def test_a_torn_last_line_is_played_again(tmp_path, whole):
    path = tmp_path / "t.log"
    played(ShardLog(path, "c"))
    path.write_bytes(path.read_bytes()[:-7])
    assert len(ShardLog(path, "c").done) == len(whole.done) - 1
    assert played(ShardLog(path, "c")).done == whole.done


def test_rates_are_shown_and_no_bound():
    notes = []

    class Shown:
        def stage(self, *_, **__):
            return nullcontext(SimpleNamespace(advance=lambda done=1, note="": notes.append((done, note))))

    played(MemoryTally(), progress=Shown())
    assert sum(done for done, _ in notes) == 4 * TRIALS
    assert notes[-1][1].startswith("nonce canary 1: TPR ")
    assert not any("epsilon" in note or "bound" in note for _, note in notes)


def test_nothing_counted_is_no_count(tmp_path):
    assert ShardLog(tmp_path / "t.log", "c").counts(("nonce", 0)) == Counts(0, 0, 0, 0)
    assert MemoryTally().counts(("nonce", 0), rounds=2) == Counts(0, 0, 0, 0)
    assert ShardLog(tmp_path / "none.log", "c").commitment is None
