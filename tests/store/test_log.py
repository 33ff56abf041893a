import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from canarybank.errors import StoreError
from canarybank.seeds import stream
from canarybank.store import Log, LogContents

APPEND = (
    "import sys\n"
    "from canarybank.store import Log\n"
    "log = Log(sys.argv[1])\n"
    "for number in range(int(sys.argv[3])):\n"
    "    log.append({'who': sys.argv[2], 'number': number, 'pad': 'x' * (number % 50)}, durable=False)\n"
    "    print(number, flush=True)\n"
)


def test_records_come_back_in_order(tmp_path: Path) -> None:
    log = Log(tmp_path / "deep" / "log")
    assert log.records() == ()
    log.append({"a": "line\nbreak \u2028 \ud800"})
    log.append({"b": 2.5}, {"c": [1, None]}, durable=False)
    assert log.records() == ({"a": "line\nbreak \u2028 \ud800"}, {"b": 2.5}, {"c": [1, None]})
    assert Log(log.path).read() == LogContents(log.records(), (), torn=False)


def test_a_torn_last_line_is_passed_over_then_set_aside(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1}, {"n": 2})
    whole = log.path.read_bytes()
    cut = whole.index(b"\n") + 1
    for length in range(cut, len(whole)):
        log.path.write_bytes(whole[:length])
        assert log.read() == LogContents(({"n": 1},), (), torn=length > cut)
        log.append({"n": 3})
        assert log.records() == ({"n": 1}, {"n": 3})
    assert (tmp_path / "log.torn").read_bytes().splitlines()[-1] == whole[cut:-1]


def test_a_torn_line_longer_than_a_block_is_set_aside(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1})
    with log.path.open("ab") as file:
        file.write(b"x" * 200_000)
    log.append({"n": 2})
    assert log.records() == ({"n": 1}, {"n": 2})
    assert (tmp_path / "log.torn").stat().st_size == 200_001


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1}, {"n": 2}, {"n": 3})
    whole = log.path.read_bytes()
    line = whole.index(b"\n") + 1
    for place in range(line, 2 * line - 1):
        log.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert log.read() == LogContents(({"n": 1}, {"n": 3}), (2,), torn=False)
        with pytest.raises(StoreError, match=r"Line 2 of .* does not fit its checksum"):
            log.records()


def test_a_full_disk_in_the_middle_of_an_append_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1})
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    before = log.path.read_bytes()
    with pytest.raises(StoreError, match="disk is full"):
        log.append({"n": 2, "pad": "x" * 100})
    monkeypatch.undo()
    assert log.path.read_bytes() == before


def test_processes_append_at_once_and_no_record_is_lost_or_mixed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    processes = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(path), who, "150"], stdout=subprocess.DEVNULL)
        for who in "abc"
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    records = Log(path).records()
    for who in "abc":
        assert [record["number"] for record in records if record["who"] == who] == list(range(150))


def test_kills_lose_nothing_that_an_append_returned(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rng = stream(7, "kills")
    acknowledged = 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", APPEND, str(path), "a", "100000"], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            acknowledged += 1 + len(process.stdout.read().splitlines())
    assert acknowledged <= len(Log(path).records()) <= acknowledged + 8


def test_a_rewrite_replaces_the_log_and_waiting_appends_reach_the_new_one(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1}, {"n": 2})
    waiting = threading.Thread(target=Log(log.path).append, args=({"n": 3},))
    with log._locked():
        waiting.start()
        time.sleep(0.1)
        log.path.rename(tmp_path / "old")
        (tmp_path / "log").write_bytes(b"")
    waiting.join()
    assert log.records() == ({"n": 3},)
    log.rewrite([{"n": 4}])
    assert log.records() == ({"n": 4},)


def test_a_log_is_discarded_unless_somebody_is_writing_to_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert log.discard(), "there is none"
    log.append({"n": 1})
    with log._locked():
        assert not Log(log.path).discard()
        assert log.records() == ({"n": 1},)
    assert log.discard()
    assert not log.path.exists()
    log.append({"n": 2})
    assert log.records() == ({"n": 2},)


def test_an_append_that_waits_for_a_discard_reaches_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1})
    writer = threading.Thread(target=log.append, args=({"n": 2},))
    unlink = Path.unlink

    def slow(path: Path) -> None:
        writer.start()
        writer.join(timeout=0.3)
        assert writer.is_alive(), "it waits for the lock"
        unlink(path)

    monkeypatch.setattr(Path, "unlink", slow)
    assert Log(log.path).discard()
    writer.join()
    assert log.records() == ({"n": 2},)


def test_a_log_that_was_replaced_meanwhile_is_not_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log")
    log.append({"n": 1})
    real = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        log.rewrite([{"n": 2}])
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert not log.discard()
    assert log.records() == ({"n": 2},)
