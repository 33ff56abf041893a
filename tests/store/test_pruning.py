import os
import time
from pathlib import Path

import pytest

from canarybank.errors import InputError, StoreError
from canarybank.store import StoredFile, prune_files, stored_files, sweep_folders


def write(path: Path, size: int, age: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    then = time.time() - age
    os.utime(path, (then, then))
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return four files of 100 bytes each, the longest unused first, but in no order of their names."""
    return [write(tmp_path / name, 100, age) for name, age in (("c", 4000), ("a/x", 3000), ("d", 2000), ("a/b", 10))]


def left(files: list[Path]) -> list[int]:
    return [number for number, path in enumerate(files) if path.exists()]


def test_files_are_those_that_are_not_hidden(tmp_path: Path, files: list[Path]) -> None:
    hidden = [write(tmp_path / "a" / name, 5) for name in (".lock", ".b.7.abc.tmp")]
    found = stored_files(tmp_path)
    assert [file.path for file in found] == sorted(files)
    assert {file.size for file in found} == {100}
    assert found[0].last_used == files[3].stat().st_mtime
    assert {file.path for file in stored_files(tmp_path, hidden=True)} == {*files, *hidden}
    assert stored_files(tmp_path / "nowhere") == []


@pytest.mark.parametrize(("allowed", "kept"), [(400, 4), (399, 3), (200, 2), (199, 1), (0, 0)])
def test_the_newest_that_fit_are_kept(tmp_path: Path, files: list[Path], allowed: int, kept: int) -> None:
    assert prune_files(stored_files(tmp_path), max_bytes=allowed) == 100 * (4 - kept)
    assert left(files) == [0, 1, 2, 3][4 - kept :]


def test_what_was_unused_for_long_goes_and_then_what_is_too_much(tmp_path: Path, files: list[Path]) -> None:
    assert prune_files(stored_files(tmp_path)) == 0
    assert prune_files(stored_files(tmp_path), unused_for=3500) == 100
    assert left(files) == [1, 2, 3]
    assert prune_files(stored_files(tmp_path), unused_for=2500, max_bytes=150) == 200
    assert left(files) == [3]


def test_what_cannot_be_removed_is_not_counted(tmp_path: Path, files: list[Path]) -> None:
    assert prune_files(stored_files(tmp_path), max_bytes=300, remove=lambda path: path == files[2]) == 100
    assert left(files) == [0, 1, 2, 3]


def test_what_another_process_removed_first_is_no_error(tmp_path: Path) -> None:
    assert prune_files([StoredFile(0.0, tmp_path / "gone", 7)], max_bytes=0) == 7
    with pytest.raises(StoreError, match="Cannot remove"):
        prune_files([StoredFile(0.0, tmp_path, 7)], max_bytes=0)


@pytest.mark.parametrize("limits", [{"max_bytes": -1}, {"unused_for": -0.1}, {"unused_for": float("nan")}])
def test_less_than_nothing_is_refused(tmp_path: Path, files: list[Path], limits: dict[str, int]) -> None:
    with pytest.raises(InputError, match="give 0 or more"):
        prune_files(stored_files(tmp_path), **limits)
    assert len(left(files)) == 4


def test_only_old_temporaries_are_swept_wherever_they_are(tmp_path: Path) -> None:
    old = [write(tmp_path / name, 5, 4000) for name in (".x.1.a.tmp", "deep/er/.x.1.b.tmp")]
    stay = [write(tmp_path / "deep" / name, 5, age) for name, age in ((".x.1.c.tmp", 10), (".lock", 4000), ("x", 4000))]
    sweep_folders(tmp_path)
    assert left(old) == []
    assert left(stay) == [0, 1, 2]
