import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canarybank.errors import DataError, InputError
from canarybank.progress import Lines
from canarybank.users.files import lines, member_names, opened
from canarybank.users.members import Member

TEXT = "one\ntwo\r\nthré\n"


def _lines(path: Path, encoding: str = "utf-8", member: str | None = None, *, strict: bool = True) -> list[str]:
    with opened(path, Member(member)) as file:
        return list(lines(file, encoding, strict=strict))


def _zip(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return path


def _tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_plain_lines_keep_their_ends(write: Callable[..., Path]) -> None:
    assert _lines(write("a.txt", TEXT)) == ["one\n", "two\r\n", "thré\n"]


def test_only_line_feeds_end_a_line(write: Callable[..., Path]) -> None:
    assert len(_lines(write("a.txt", "a\u2028b\x85c\x0cd\re\nlast"))) == 2


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt"])
def test_gzip_is_known_by_its_bytes(write: Callable[..., Path], name: str) -> None:
    assert _lines(write(name, gzip.compress(TEXT.encode()))) == ["one\n", "two\r\n", "thré\n"]


def test_gzip_of_several_parts(write: Callable[..., Path]) -> None:
    assert _lines(write("a.gz", gzip.compress(b"one\n") + gzip.compress(b"two\n"))) == ["one\n", "two\n"]


def test_zip_with_one_file_and_an_archivers_litter(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", folder__a_dot_csv=TEXT)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._a.csv", "x")
        archive.writestr("folder/.DS_Store", "x")
        archive.mkdir("empty")
    assert _lines(path)[0] == "one\n"
    assert member_names(path) == ["folder/a.csv"]


def test_zip_with_several_files_wants_a_choice(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", a_dot_csv="A\n", b_dot_csv="B\n")
    with pytest.raises(DataError, match=r"more than one file.*a\.csv, b\.csv"):
        _lines(path)
    assert _lines(path, member="b*") == ["B\n"]
    with pytest.raises(DataError, match=r"no file that matches 'c\*'"):
        _lines(path, member="c*")


def test_zip_that_holds_gzip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv.gz", gzip.compress(b"one\n"))
    assert _lines(tmp_path / "a.zip") == ["one\n"]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_tar_and_a_tar_inside_a_zip(write: Callable[..., Path], tmp_path: Path, mode: str) -> None:
    content = _tar({"d/business.json": b"no\n", "d/review.json": b"yes\n"}, mode)
    assert _lines(write("a.tar", content), member="*review*") == ["yes\n"]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("Yelp JSON/Agreement.pdf", b"%PDF")
        archive.writestr("Yelp JSON/yelp_dataset.tar", content)
    assert _lines(tmp_path / "a.zip", member="*review*") == ["yes\n"]
    with pytest.raises(DataError, match=r"no file that matches 'x'.*d/business\.json, d/review\.json"):
        _lines(tmp_path / "a.tar", member="x")
    with pytest.raises(DataError, match=r"say which to read by --users\.member"):
        _lines(tmp_path / "a.tar")


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_two_files_of_a_tar_that_match_what_was_asked_for_are_named(write: Callable[..., Path], mode: str) -> None:
    path = write("a.tar", _tar({"a.csv": b"A\n", "b.txt": b"no\n", "d/b.csv": b"B\n"}, mode))
    with pytest.raises(DataError, match=r"holds 2 files that match '\*\.csv'.*of: a\.csv, d/b\.csv\."):
        _lines(path, member="*.csv")
    assert _lines(path, member="d/b.csv") == ["B\n"]
    assert _lines(path, member="b.*v") == ["B\n"]
    with opened(path, Member(usual="*.csv")) as file:
        assert list(lines(file, "utf-8")) == ["A\n"]


def test_a_tar_that_breaks_off_behind_the_member_that_was_asked_for(write: Callable[..., Path]) -> None:
    whole = _tar({"a.csv": b"A\n", "b.csv": b"B\n" * 9999}, "w:gz")
    with pytest.raises(DataError, match="damaged or cut short"):
        _lines(write("a.tgz", whole[: len(whole) - 40]), member="a.csv")


def test_a_long_list_of_members_is_cut(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", **{f"m{i:02d}": "x" for i in range(14)})
    with pytest.raises(DataError, match="m09 and 4 more"):
        _lines(path)


def test_an_archive_without_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="archive without files"):
        _lines(_zip(tmp_path / "a.zip"))


def test_a_zip_inside_another_archive_is_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    inner = _zip(tmp_path / "inner.zip", a_dot_csv="x").read_bytes()
    with pytest.raises(DataError, match="zip archive inside another"):
        _lines(write("a.gz", gzip.compress(inner)))


@pytest.mark.parametrize("name", ["a.zip", "a.csv.gz", "A.GZ"])
def test_a_name_that_promises_an_archive(write: Callable[..., Path], name: str) -> None:
    with pytest.raises(DataError, match="named as an archive but is none"):
        _lines(write(name, "user,text\n"))


@pytest.mark.parametrize("content", [b"x\n", gzip.compress(b"x\n")], ids=["plain", "gzip"])
def test_a_file_that_is_no_archive_has_no_member_to_ask_for(write: Callable[..., Path], content: bytes) -> None:
    path = write("a.csv", content)
    assert _lines(path) == ["x\n"]
    with pytest.raises(DataError, match=r"a\.csv is no archive of files, so there is no 'b\.csv' in it; leave"):
        _lines(path, member="b.csv")


def test_a_gzip_cut_short_is_an_error_with_its_line(write: Callable[..., Path]) -> None:
    body = "".join(f"line {i} {os.urandom(8).hex()}\n" for i in range(20_000)).encode()
    path = write("a.gz", gzip.compress(body)[:-5000])
    read = []
    with opened(path) as file, pytest.raises(DataError, match=r"damaged or cut short after line \d+") as caught:
        read.extend(lines(file, "utf-8"))
    number = int(str(caught.value).split("after line ")[1].split()[0])
    assert len(read) == number > 1000


def test_a_gzip_with_a_broken_header(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="damaged or cut short"):
        _lines(write("a.gz", b"\x1f\x8b\x08"))


def test_a_zip_with_broken_content(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", a_dot_csv="abc\n" * 5000)
    damaged = bytearray(path.read_bytes())
    damaged[50] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(DataError, match="damaged or cut short"):
        _lines(path)


def test_a_zip_cut_short(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", a_dot_csv="abc\n" * 5000)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="damaged or cut short"):
        _lines(path)


def test_a_locked_zip_member(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", a_dot_csv="abc")
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"cannot be unpacked.*encrypted"):
        _lines(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        _lines(tmp_path / "a.csv")
    with pytest.raises(DataError, match="is a folder"):
        _lines(tmp_path)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match="is empty"):
        _lines(tmp_path / "empty.csv")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a regular file"):
        _lines(tmp_path / "pipe")


def test_a_file_that_may_not_be_read(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.csv", "x")

    def refuse(*_args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="cannot be opened: Permission denied"):
        _lines(path)


def test_a_byte_order_mark_is_taken_off(write: Callable[..., Path]) -> None:
    assert _lines(write("a.csv", b"\xef\xbb\xbfuser\n")) == ["user\n"]
    assert _lines(write("a.csv", b"\xef\xbb\xbfuser\n"), "latin-1") == ["user\n"]
    with pytest.raises(DataError, match="UTF-16"):
        _lines(write("b.csv", "user\n".encode("utf-16")))


def test_only_the_first_line_can_begin_with_a_mark(write: Callable[..., Path]) -> None:
    assert _lines(write("a.txt", "one\n\ufefftwo\n")) == ["one\n", "\ufefftwo\n"]
    assert _lines(write("b.txt", "one\nÿþ two\nþÿ\n".encode("latin-1")), "latin-1") == ["one\n", "ÿþ two\n", "þÿ\n"]


def test_invalid_utf8_names_line_byte_and_fix(write: Callable[..., Path]) -> None:
    path = write("a.csv", b"fine\ncaf\xe9\n")
    with pytest.raises(DataError, match=r'Line 2 of .*byte 0xe9 at place 4.*encoding="latin-1"'):
        _lines(path)
    assert _lines(path, "latin-1") == ["fine\n", "café\n"]
    assert _lines(path, strict=False) == ["fine\n", "caf\udce9\n"]


def test_encodings_in_which_lines_can_be_found(write: Callable[..., Path]) -> None:
    path = write("a.csv", "x\n")
    with pytest.raises(InputError, match="no encoding 'klingon'"):
        _lines(path, "klingon")
    with pytest.raises(InputError, match="convert the file"):
        _lines(path, "utf-16")
    assert _lines(path, "cp1252") == ["x\n"]


def test_a_line_without_end_is_refused_before_it_fills_the_memory(write: Callable[..., Path]) -> None:
    path = write("a.csv", b"ok\n")
    os.truncate(path, 2**27)
    with pytest.raises(DataError, match=r"Line 2 of .* is longer than 64 MiB"):
        _lines(path)


def test_progress_counts_megabytes_of_the_file_on_disk(write: Callable[..., Path]) -> None:
    path = write("a.csv", b"0123456789" * 100 + b"\n")
    path.write_bytes(path.read_bytes() * 9000)
    shown = io.StringIO()
    with opened(path, Member(), Lines(shown, every=0), "count") as file:
        for _ in lines(file, "utf-8"):
            pass
    assert "count a.csv: started" in shown.getvalue()
    assert "9 of 9 MB" in shown.getvalue()
