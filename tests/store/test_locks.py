import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from canarybank.errors import StoreError
from canarybank.store import lock_folder
from canarybank.store.locks import flocked

HOLD = (
    "import sys, time\n"
    "from canarybank.store import lock_folder\n"
    "with lock_folder(sys.argv[1], 'auditing'):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"in use by process {holder.pid} on .*, auditing; wait"):
            lock_folder(folder).__enter__()
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    # The kill released the lock, though the lock file still names the dead process.
    with lock_folder(folder) as held:
        assert held == folder


def test_a_lock_is_released_at_the_end_and_after_an_exception(tmp_path: Path) -> None:
    def fail() -> None:
        with lock_folder(tmp_path, "one"):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011, the bare one is ours
        fail()
    with lock_folder(tmp_path, "two"):
        pass
    assert (tmp_path / ".lock").read_text() == ""


def test_the_same_process_cannot_lock_twice(tmp_path: Path) -> None:
    with lock_folder(tmp_path, "first"), pytest.raises(StoreError, match=f"process {os.getpid()} .*first"):
        lock_folder(tmp_path).__enter__()
    with lock_folder(tmp_path):
        pass


def test_a_holder_that_has_not_signed_yet_is_another_process(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="in use by another process"):
            lock_folder(tmp_path).__enter__()


def test_a_folder_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file, not a folder"):
        lock_folder(tmp_path / "file" / "run").__enter__()


def test_a_system_without_flock_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(StoreError, match="POSIX"):
        lock_folder(tmp_path).__enter__()


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed start removes its folder between another process's opening and locking of the file in it."""
    folder, seen = tmp_path / "run", list[int]()

    def first_removed(descriptor: int, path: Path, *, wait: bool) -> bool:
        if not seen:
            shutil.rmtree(folder)
        seen.append(descriptor)
        return flocked(descriptor, path, wait=wait)

    monkeypatch.setattr("canarybank.store.locks.flocked", first_removed)
    with lock_folder(folder):
        assert len(seen) == 2
        assert (folder / ".lock").exists()
        with pytest.raises(StoreError, match="in use"), lock_folder(folder):
            pass
