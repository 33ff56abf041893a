"""Files are 0600 and folders 0700 from the moment they exist, whatever the umask, unless their writer asks for more."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from canarybank.store import (
    BY_UMASK,
    SHAREABLE,
    Log,
    atomic_writer,
    lock_folder,
    make_folder,
    private_folder,
    private_temporary,
    sweep_folders,
    tighten,
    write_atomic,
    write_json,
    write_segment,
)

UMASKS = [0o000, 0o002, 0o022, 0o077, 0o777]


@contextlib.contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of everything under a folder, in octal."""
    return {str(path.relative_to(folder)): f"{mode(path):o}" for path in sorted(folder.rglob("*"))}


def write_everything(folder: Path) -> None:
    write_atomic(folder / "a" / "b" / "file", b"x")
    write_json(folder / "a" / "document.json", {"x": 1})
    write_segment(folder / "a" / "segment", {"x": np.ones(3)})
    make_folder(folder / "made" / "twice")
    log = Log(folder / "log" / "lines.log")
    log.append({"x": 1})
    with log.path.open("ab") as file:
        file.write(b"torn")
    log.append({"x": 2})
    with lock_folder(folder / "run"):
        pass


@pytest.mark.parametrize("mask", UMASKS, ids="{:03o}".format)
def test_whatever_is_written_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        write_everything(tmp_path / "all")
    found = modes(tmp_path)
    assert {"all/a/b/file", "all/log/lines.log.torn", "all/run/.lock", "all/made/twice"} <= found.keys()
    assert found == {name: "700" if (tmp_path / name).is_dir() else "600" for name in found}


def test_nothing_is_ever_wider_not_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> None: ...

    monkeypatch.setattr(os, "fchmod", nothing)
    monkeypatch.setattr(Path, "chmod", nothing)
    with umask(0):
        write_everything(tmp_path / "all")
        write_atomic(tmp_path / "shared" / "page", "x", mode=SHAREABLE)
    assert {path: bits for path, bits in modes(tmp_path).items() if int(bits, 8) & 0o077} == {}


@pytest.mark.parametrize("mask", UMASKS, ids="{:03o}".format)
def test_a_file_under_way_is_as_private_as_the_finished_one(tmp_path: Path, mask: int) -> None:
    with umask(mask), atomic_writer(tmp_path / "file") as file:
        file.write(b"x")
        assert list(modes(tmp_path).values()) == ["600"]


@pytest.mark.parametrize("mask", UMASKS, ids="{:03o}".format)
def test_a_temporary_is_its_owners_alone_and_goes_with_its_context(tmp_path: Path, mask: int) -> None:
    with umask(mask), private_temporary(tmp_path / "cache", "x" * 300) as path:
        path.write_bytes(b"x")
        assert [bits for _, bits in sorted(modes(tmp_path).items())] == ["700", "600"]
        sweep_folders(tmp_path)
        assert path.read_bytes() == b"x"  # its process is alive
    assert list(modes(tmp_path)) == ["cache"]


@pytest.mark.parametrize("mask", UMASKS, ids="{:03o}".format)
def test_what_is_shareable_is_so_under_every_umask(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        write_atomic(tmp_path / "a" / "b" / "page", "x", mode=SHAREABLE)
    assert modes(tmp_path) == {"a": "755", "a/b": "755", "a/b/page": "644"}


def test_public_text_follows_the_umask(tmp_path: Path) -> None:
    for mask, folder, file in ((0o022, "755", "644"), (0o027, "750", "640")):
        with umask(mask):
            write_atomic(tmp_path / f"{mask}" / "bank", "x", mode=BY_UMASK)
        assert modes(tmp_path / f"{mask}") == {"bank": file}
        assert f"{mode(tmp_path / f'{mask}'):o}" == folder


def test_a_file_that_is_written_again_becomes_private(tmp_path: Path) -> None:
    for name in ("file", "lines.log"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o666)
    write_atomic(tmp_path / "file", "x")
    Log(tmp_path / "lines.log").append({"x": 1})
    assert set(modes(tmp_path).values()) == {"600"}


def test_a_folder_of_ours_is_tightened_and_its_parent_is_not(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    for folder in (run, run.parent):
        folder.chmod(0o2755)
    with lock_folder(run):
        pass
    assert f"{mode(run):o}" == "2700"
    assert f"{mode(run.parent):o}" == "2755"
    run.chmod(0o777)
    private_folder(run)
    assert mode(run) == 0o700


def test_a_folder_that_everybody_may_write_to_is_nobodys(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert tighten(tmp_path) == tmp_path
    assert mode(tmp_path) == 0o1777
    tighten(tmp_path / "missing")


WRITER = """
import sys, time
from canarybank.store import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"what a user wrote"); file.flush()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_young_temporary_goes_once_its_writer_is_dead_and_not_before(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "deep" / name], stdout=subprocess.PIPE)
        for name in ("live", "dead")
    ]
    dead = writers[1]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        sweep_folders(tmp_path)
        assert len(list((tmp_path / "deep").iterdir())) == 2
        dead.send_signal(signal.SIGKILL)
        dead.wait(timeout=30)
        sweep_folders(tmp_path)
        (left,) = (tmp_path / "deep").iterdir()
        assert left.name.startswith(".live.")
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate(timeout=30)


def test_another_machines_temporaries_are_judged_by_their_age_alone(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(timeout=30)
    names = [f".a.{gone.pid}.0a1b2c3d.tmp", f".a.00000000-{gone.pid}.0a1b2c3d.tmp"]
    for name in (*names, ".no-writer.tmp"):
        (tmp_path / name).touch()
    sweep_folders(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {names[1], ".no-writer.tmp"}
    os.utime(tmp_path / names[1], (0, time.time() - 4000))
    sweep_folders(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".no-writer.tmp"]
