"""Open a file as it was distributed, packed or not, and stream its lines in bounded memory."""

import codecs
import gzip
import io
import string
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from canarybank.errors import DataError, InputError
from canarybank.progress import SILENT, Progress, Stage
from canarybank.store import require_file
from canarybank.users.members import PACKED, Member, visible

__all__ = ["LONGEST_LINE", "Opened", "copy", "lines", "member_names", "opened", "require_encoding"]

LONGEST_LINE = 64 * 2**20
_MEGABYTE = 10**6
_BUFFER = 2**18
_LINES_PER_TICK = 4096
_ANY = Member()
_DAMAGE = (EOFError, OSError, zlib.error, zipfile.BadZipFile, tarfile.TarError)
_SUFFIXES: dict[str | None, tuple[str, ...]] = {"gzip": (".gz", ".tgz"), "zip": (".zip",), "tar": (".tar",), None: ()}
"""How files of each packing are named."""
_PROBE = f"{string.printable}+AGE-~{{\\u0041" * 2
"""What an encoding must leave as it is, for lines, delimiters and JSON to be found in it."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(slots=True)
class Opened:
    """A file under way: what errors call it, its unpacked bytes, and how much of the file on disk is read."""

    name: str
    stream: io.BufferedReader
    packed: bool
    _position: Callable[[], int]
    _stage: Stage
    _shown: int = 0

    def tick(self) -> None:
        """Show how many megabytes of the file on disk are read."""
        done = self._position() // _MEGABYTE
        self._stage.advance(done - self._shown)
        self._shown = done


@contextmanager
def opened(
    path: Path, member: Member = _ANY, progress: Progress = SILENT, work: str = "read", *, isolated: bool = False
) -> Iterator[Opened]:
    """Open a file, through gzip, zip and tar, down to the member that is read.

    Where no pattern names it, an archive must hold one file. A zip archive inside another archive is refused. When
    ``isolated``, names alone tell what is an archive, because a plain file may begin with a user's own bytes; and a
    file may be empty.
    """
    size = 0 if isolated and path.is_file() else _checked_size(path)
    with ExitStack() as stack:
        try:
            file = stack.enter_context(cast("io.BufferedReader", path.open("rb", _BUFFER)))
        except OSError as error:
            raise DataError(f"{path} cannot be opened: {error.strerror}. Check its permissions.") from error
        stream, name = _unpack(stack, file, str(path), member, isolated=isolated)
        stage = stack.enter_context(progress.stage(f"{work} {path.name}", max(size // _MEGABYTE, 1), "MB"))
        yield Opened(name, stream, stream is not file, file.tell, stage)


def _checked_size(path: Path) -> int:
    require_file(path)
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; it must hold at least one row.")
    return path.stat().st_size


def _unpack(
    stack: ExitStack, stream: io.BufferedReader, name: str, member: Member, *, isolated: bool
) -> tuple[io.BufferedReader, str]:
    """Peel one layer after another until none is left: as the first bytes tell them, or when isolated as names do."""
    seekable, plain, layer = True, name, name.lower()
    try:
        while not isolated or layer.endswith(PACKED):
            packing = _packing(stream.peek(512)[:512])
            if isolated and not layer.endswith(_SUFFIXES[packing]):
                raise DataError(f"{name} is named as an archive but is none; it may be cut short or misnamed.")
            outer = name
            if packing == "gzip":
                unzipped = stack.enter_context(gzip.GzipFile(fileobj=stream))
                stream = _buffered(cast("IO[bytes]", unzipped))
            elif packing == "zip":
                if not seekable:
                    raise DataError(f"{name} is a zip archive inside another archive; unpack the outer one first.")
                stream, name = _from_zip(stack, stream, name, member)
            elif packing == "tar":
                stream, name = _from_tar(stack, stream, name, member)
            else:
                break
            layer = _unpacked_name(layer) if name == outer else name.removesuffix(f" in {outer}").lower()
            seekable = False
    except _DAMAGE as error:
        raise _damaged(name, "", error) from error
    if seekable and name.lower().endswith(PACKED):
        raise DataError(f"{name} is named as an archive but is none; it may be cut short or misnamed.")
    if member.asked and name == plain:
        raise DataError(
            f"{name} is no archive of files, so there is no {member.asked!r} in it; leave --users.member out."
        )
    return stream, name


def _unpacked_name(name: str) -> str:
    """Return what a gzip file is called once it is unpacked."""
    return f"{name.removesuffix('.tgz')}.tar" if name.endswith(".tgz") else name.removesuffix(".gz")


def _packing(head: bytes) -> str | None:
    """Return how a file is packed, by its first bytes."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if head[:4] in {b"PK\x03\x04", b"PK\x05\x06"}:
        return "zip"
    return "tar" if head[257:262] == b"ustar" else None


def _from_zip(stack: ExitStack, stream: io.BufferedReader, name: str, member: Member) -> tuple[io.BufferedReader, str]:
    archive = stack.enter_context(zipfile.ZipFile(stream))
    chosen = member.choose(name, visible(archive.namelist()))
    try:
        inner = stack.enter_context(archive.open(chosen))
    except (RuntimeError, NotImplementedError) as error:
        raise DataError(f"{chosen} in {name} cannot be unpacked ({error}); unpack it yourself first.") from error
    return _buffered(inner), f"{chosen} in {name}"


def _from_tar(stack: ExitStack, stream: io.BufferedReader, name: str, member: Member) -> tuple[io.BufferedReader, str]:
    """Take the first match as it comes by, for a tar is read once from front to back."""
    archive = stack.enter_context(tarfile.TarFile.open(fileobj=stream, mode="r|"))
    seen = []
    for entry in archive:
        if not entry.isfile() or not visible([entry.name]):
            continue
        seen.append(entry.name)
        if member.takes(entry.name):
            if member.asked:
                stack.push(partial(_alone, archive, name, member))
            return _buffered(cast("IO[bytes]", archive.extractfile(entry))), f"{entry.name} in {name}"
    raise member.absent(name, seen)


def _alone(archive: tarfile.TarFile, name: str, member: Member, kind: type[BaseException] | None, *_: object) -> None:
    """Look through the rest of a tar, once the member that was asked for is read, for others that match as well."""
    if kind is not None:
        return
    try:
        names = visible([entry.name for entry in archive if entry.isfile()])
    except _DAMAGE as error:
        raise _damaged(name, "", error) from error
    if len(matching := [each for each in names if member.takes(each)]) > 1:
        raise member.several(name, matching)


def _buffered(stream: IO[bytes]) -> io.BufferedReader:
    return io.BufferedReader(cast("io.RawIOBase", stream), _BUFFER)


def _damaged(name: str, place: str, error: Exception) -> DataError:
    return DataError(f"{name} is damaged or cut short{place} ({error}); fetch or pack it again.")


def member_names(path: Path) -> list[str]:
    """Return the names of the files in a zip archive, and none for any other file."""
    if not path.is_file():
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            return visible(archive.namelist())
    except (ValueError, NotImplementedError, *_DAMAGE):
        return []


def copy(file: Opened, target: IO[bytes]) -> None:
    """Write the unpacked bytes of a file elsewhere."""
    try:
        while part := file.stream.read(_MEGABYTE):
            target.write(part)
            file.tick()
    except _DAMAGE as error:
        raise _damaged(file.name, "", error) from error


def lines(file: Opened, encoding: str, *, strict: bool = True, isolated: bool = False) -> Iterator[str]:
    """Yield the lines of a file, split at line feeds only, so that the n-th is line n of the file.

    Bytes that the encoding does not know are an error when strict; otherwise they become lone surrogates,
    which no valid text holds. When ``isolated``, each line follows from its own bytes alone: no line is an error, and
    one that is too long or cannot be decoded is empty.
    """
    if isolated:
        yield from _isolated_lines(file, _checked_encoding(encoding))
        return
    encoding = _checked_encoding(encoding)
    errors = "strict" if strict else "surrogateescape"
    number = 0
    try:
        for raw in iter(partial(file.stream.readline, LONGEST_LINE), b""):
            number += 1
            if len(raw) == LONGEST_LINE:
                raise DataError(
                    f"Line {number} of {file.name} is longer than {LONGEST_LINE // 2**20} MiB; one line holds one row."
                )
            if number % _LINES_PER_TICK == 0:
                file.tick()
            yield raw.decode(encoding, errors) if number > 1 else _without_mark(raw, file.name).decode(encoding, errors)
    except UnicodeDecodeError as error:
        raise DataError(
            f"Line {number} of {file.name} is not valid {encoding}: byte 0x{error.object[error.start]:02x} at place "
            f"{error.start + 1} of the line. If the file was written so, read it with --users.encoding latin-1 "
            '(in Python, encoding="latin-1"); else convert it to UTF-8.'
        ) from error
    except _DAMAGE as error:
        raise _damaged(file.name, f" after line {number}", error) from error
    file.tick()


def _isolated_lines(file: Opened, encoding: str) -> Iterator[str]:
    while raw := file.stream.readline(LONGEST_LINE):
        is_long = len(raw) == LONGEST_LINE
        while len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            raw = file.stream.readline(LONGEST_LINE)
        try:
            yield "" if is_long else raw.removeprefix(codecs.BOM_UTF8).decode(encoding, "surrogateescape")
        except UnicodeError:
            yield ""


def require_encoding(encoding: str) -> None:
    """Refuse an encoding in which the lines of a file cannot be found."""
    _checked_encoding(encoding)


def _without_mark(line: bytes, name: str) -> bytes:
    if line.startswith(_UTF16):
        raise DataError(f"{name} is written in UTF-16; convert it first: iconv -f UTF-16 -t UTF-8.")
    return line.removeprefix(codecs.BOM_UTF8)


def _checked_encoding(encoding: str) -> str:
    try:
        known = codecs.lookup(encoding).name
    except (LookupError, ValueError) as error:
        raise InputError(
            f"There is no encoding {encoding!r}; set --users.encoding (in Python, encoding=) to utf-8 or latin-1, for "
            "example."
        ) from error
    try:
        is_ascii = _PROBE.encode(known) == _PROBE.encode() and _PROBE.encode().decode(known) == _PROBE
    except (LookupError, ValueError, TypeError):  # base64, rot13, undefined: codecs of something other than text
        is_ascii = False
    if not is_ascii:
        raise InputError(f"Lines cannot be found in the encoding {encoding!r}; convert the file to UTF-8 first.")
    return known
