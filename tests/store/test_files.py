import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from canarybank.errors import StoreError
from canarybank.store import (
    atomic_writer,
    file_errors,
    go_on_without,
    make_folder,
    set_aside,
    sweep_temporaries,
    write_atomic,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_bytes_and_text_and_makes_the_folder(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b" / "file", b"\x00\xff")
    write_atomic(tmp_path / "a" / "b" / "text", "käse\n", durable=False)
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"\x00\xff"
    assert (tmp_path / "a" / "b" / "text").read_bytes() == "käse\n".encode()
    assert names(tmp_path / "a" / "b") == ["file", "text"]


def test_an_overwrite_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "a long first version")
    write_atomic(path, "second")
    assert path.read_text() == "second"


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    with atomic_writer(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_exception_leaves_the_old_file_and_no_temporary(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")

    def interrupted() -> None:
        with atomic_writer(path) as file:
            file.write(b"new")
            raise failure

    with pytest.raises(failure):
        interrupted()
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk is full; free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EACCES, "permission is denied"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "disk reports a fault"),
        (errno.EBUSY, "the system says"),
    ],
)
def test_each_refusal_of_the_system_is_a_sentence_with_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError, match=words) as caught:
        write_atomic(path, "new")
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith(".")
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_a_real_limit_of_the_system_is_reported_and_cleaned_up(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, "old")
    code = (
        "import resource, sys\n"
        "from canarybank.errors import StoreError\n"
        "from canarybank.store import write_atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomic(sys.argv[1], bytes(100_000))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "size limit" in done.stdout
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(StoreError, match="is a file, not a folder"):
        write_atomic(tmp_path / "plain" / "deeper" / "file", "x")
    with pytest.raises(StoreError, match="a file of that name stands"):
        make_folder(tmp_path / "plain")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="a folder of that name"):
        write_atomic(tmp_path / "folder", "x")
    assert names(tmp_path) == ["folder", "plain"]


def test_file_errors_says_what_was_being_done() -> None:
    with pytest.raises(StoreError, match=r"^Cannot read '/nowhere/at/all': it is not there; check the path\.$"):  # noqa: SIM117, the error arises inside the inner one
        with file_errors("/nowhere/at/all", "read"):
            Path("/nowhere/at/all").read_bytes()


def test_set_aside_renames_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    assert set_aside(path, "corrupt") == tmp_path / "file.corrupt"
    assert set_aside(path, "corrupt") is None
    assert names(tmp_path) == ["file.corrupt"]


def test_sweep_removes_only_old_temporaries(tmp_path: Path) -> None:
    old, young, other = tmp_path / ".a.1.x.tmp", tmp_path / ".b.1.x.tmp", tmp_path / "c.tmp"
    for path in (old, young, other):
        path.write_text("")
    os.utime(old, (0, 0))
    assert sweep_temporaries(tmp_path) == 1
    assert names(tmp_path) == [".b.1.x.tmp", "c.tmp"]
    assert sweep_temporaries(tmp_path, older_than=-1) == 1
    assert names(tmp_path) == ["c.tmp"]
    assert sweep_temporaries(tmp_path / "missing") == 0


def test_a_temporary_left_by_a_kill_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from canarybank.store import atomic_writer\n"
        "with atomic_writer(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    assert done.returncode == -9
    assert len(names(tmp_path)) == 1
    assert not (tmp_path / "file").exists()
    assert sweep_temporaries(tmp_path, older_than=-1) == 1
    assert names(tmp_path) == []


def test_a_warning_that_was_muted_was_not_told(caplog, tmp_path):
    logging.disable()
    try:
        go_on_without(tmp_path)
    finally:
        logging.disable(logging.NOTSET)
    assert not caplog.records
    go_on_without(tmp_path)
    go_on_without(tmp_path)
    assert len(caplog.records) == 1


def test_text_that_utf_8_cannot_hold_is_written_escaped(tmp_path):
    write_atomic(tmp_path / "page.html", "a \ud800 b")
    assert (tmp_path / "page.html").read_text() == "a \\ud800 b"
