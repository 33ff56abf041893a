"""Name where users come from: a file and its format, or the built-in users."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from canarybank.errors import DataError, InputError
from canarybank.progress import SILENT, Progress
from canarybank.users.chitchat import BUILT_IN, Chitchat
from canarybank.users.delimited import Delimited
from canarybank.users.files import member_names
from canarybank.users.jsonlines import JsonLines
from canarybank.users.parquet import Parquet
from canarybank.users.rows import Columns, Row, Skip

__all__ = ["FORMATS", "Format", "Source", "infer_format", "read", "source"]


class Format(Protocol):
    """A way to write users and their texts into a file."""

    @property
    def name(self) -> str:
        """Return what the format is called."""

    @property
    def columns(self) -> Columns:
        """Return the names of the columns that are read."""

    def rows(self, path: Path, *, strict: bool, isolated: bool, progress: Progress, work: str) -> Iterator[Row | Skip]:
        """Yield every row of the file, in its order, in bounded memory."""


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "csv": Delimited(),
        "tsv": Delimited("tsv", delimiter="\t", quote=None),
        "jsonl": JsonLines(),
        "parquet": Parquet(),
        "yelp": JsonLines("yelp", Columns("user_id", "text", "stars"), usual="*review*.json"),
        "sentiment140": Delimited(
            "sentiment140",
            header=("target", "id", "date", "flag", "user", "text"),
            columns=Columns("user", "text", "target"),
            encoding="latin-1",
            usual="training*.csv",
        ),
        "chitchat": Chitchat(),
    }
)

# The first pattern that matches the lower-case name wins; packing suffixes are taken off before.
_NAMES = (
    ("*yelp*review*", "yelp"),
    ("yelp_dataset*", "yelp"),
    ("yelp-json*", "yelp"),
    ("training.1600000.processed.noemoticon*", "sentiment140"),
    ("trainingandtestdata*", "sentiment140"),
    ("*.csv", "csv"),
    ("*.tsv", "tsv"),
    ("*.tab", "tsv"),
    ("*.jsonl", "jsonl"),
    ("*.ndjson", "jsonl"),
    ("*.json", "jsonl"),
    ("*.parquet", "parquet"),
    ("*.pq", "parquet"),
)
_FLAGS = {
    "columns": "--users.user, --users.text and --users.label",
    "encoding": "--users.encoding",
    "member": "--users.member",
    "quote": "--users.quote",
}
_PACKING = (".gz", ".zip", ".tgz", ".tar")


@dataclass(frozen=True, slots=True)
class Source:
    """A file of users that can be read again and again.

    When strict, a line that is no row (broken JSON, too many fields, invalid bytes) is an error; otherwise it
    is skipped and counted. Rows whose content cannot be used (no user, empty text) are always counted.
    When isolated, as in a real evolution, nothing that stands in one row changes how another is read, or makes reading
    fail: broken rows are skipped, and a file without any row has no users.
    """

    path: Path
    format: Format
    strict: bool = True
    isolated: bool = False

    @property
    def built_in(self) -> bool:
        """Say whether these are the built-in users, which no file on the way can stand in for."""
        return isinstance(self.format, Chitchat) and self.path == BUILT_IN

    @property
    def labelled(self) -> bool:
        """Say whether rows carry labels."""
        return self.format.columns.label is not None

    @property
    def state(self) -> tuple[int, int] | None:
        """Return the file's size and time of change, which tell one state of it from another; None without a file."""
        if self.built_in or not self.path.is_file():
            return None
        found = self.path.stat()
        return found.st_size, found.st_mtime_ns

    def require_state(self, state: tuple[int, int] | None) -> None:
        """Refuse a file that is no longer in the state that it was in."""
        if self.state != state:
            raise DataError(f"{self.path} changed while it was read; read it again when nothing writes to it.")

    def rows(self, progress: Progress = SILENT, work: str = "read") -> Iterator[Row | Skip]:
        """Yield every row; a file without any is an error unless isolated."""
        strict, isolated = self.strict and not self.isolated, self.isolated
        rows = self.format.rows(self.path, strict=strict, isolated=isolated, progress=progress, work=work)
        first = next(rows, None)
        if first is None:
            if isolated:
                return
            raise DataError(f"{self.path} holds no rows; it must hold at least one.")
        yield first
        yield from rows


def source(
    path: str | Path,
    format: Format | str | None = None,  # noqa: A002, the word that readers of files expect
    *,
    columns: Columns | None = None,
    encoding: str | None = None,
    member: str | None = None,
    quote: str | None = None,
    strict: bool = True,
    isolated: bool = False,
) -> Source:
    """Return the source at a path, or the built-in one called ``chitchat``.

    A file of that name is reached as ``./chitchat``. Without a format the file's name decides; columns, encoding,
    archive member and quote replace the format's own. An empty quote takes quotes as any other character, as TSV does.

    Args:
        path: The file, or ``chitchat``.
        format: A name in ``FORMATS``, or a format of your own.
        columns: The columns that hold the user, the text and the label.
        encoding: The file's character encoding.
        member: The file to read inside an archive, as a pattern.
        quote: The character around fields that hold a delimiter.
        strict: Whether a broken line is an error; if not, it is skipped and counted.
        isolated: Whether nothing in one row may change how another is read, as a real evolution needs it.

    Example:
        >>> from canarybank.users import Columns
        >>> given = source("my-users.csv", columns=Columns("user", "text"))
        >>> given.format.name, given.labelled, next(given.rows()).user
        ('csv', False, 'u00')
    """
    chosen = _format(path, format)
    changes = {"columns": columns, "encoding": encoding, "member": member, "quote": quote}
    given = {key: value for key, value in changes.items() if value is not None}
    for key in given:
        if isinstance(chosen, Chitchat) or getattr(chosen, key, ...) is ...:
            raise InputError(f"The format {chosen.name} has no choice of {key}; leave {_FLAGS[key]} out.")
    if encoding is not None and isinstance(chosen, Parquet):
        raise InputError("Parquet files say their own encoding; leave --users.encoding out.")
    return Source(_place(path), replace(chosen, **given) if given else chosen, strict, isolated)  # type: ignore[type-var]


def read(
    path: str | Path,
    format: Format | str | None = None,  # noqa: A002, as in source()
    *,
    columns: Columns | None = None,
    encoding: str | None = None,
    member: str | None = None,
    quote: str | None = None,
    strict: bool = True,
    progress: Progress = SILENT,
) -> Iterator[Row | Skip]:
    """Yield the rows of a file, in its order, in bounded memory; a row that cannot be used comes as a ``Skip``.

    Args:
        path: The file, or ``chitchat`` for the built-in users.
        format: A name in ``FORMATS``, or a format of your own; left out, the file's name tells.
        columns: The columns that hold the user, the text and the label; left out, the format's own, as the rest.
        encoding: The file's character encoding.
        member: The file to read inside an archive, as a pattern.
        quote: The character around fields that hold a delimiter.
        strict: Whether a broken line is an error; if not, it comes as a ``Skip``.
        progress: Where progress is shown.

    Example:
        >>> first = next(read("my-users.csv"))
        >>> first.line, first.user, first.text
        (2, 'u00', 'green bread run soup run bread')
    """
    given = source(path, format, columns=columns, encoding=encoding, member=member, quote=quote, strict=strict)
    return given.rows(progress)


def infer_format(path: str | Path) -> str:
    """Return the name of the format that a file's name, or the name of a file inside the archive, tells.

    Args:
        path: The file; only an archive whose own name tells nothing is opened.

    Example:
        >>> infer_format("people.jsonl.gz"), infer_format("yelp_academic_dataset_review.json")
        ('jsonl', 'yelp')
    """
    path = Path(path)
    if known := _told(path.name):
        return known
    for name in member_names(path) if path.suffix.lower() == ".zip" else ():
        if known := _told(name):
            return known
    raise DataError(
        f"The name of {path} does not tell its format; say it by --users.format: {', '.join(sorted(FORMATS))}."
    )


def _told(name: str) -> str | None:
    """Return the format that a file's name tells."""
    bare = name.lower()
    while bare.endswith(_PACKING):
        bare = bare.rpartition(".")[0]
    return next((known for pattern, known in _NAMES if fnmatch(bare.rpartition("/")[2], pattern)), None)


def _place(path: str | Path) -> Path:
    """Return the path; a file called as the built-in users are gets its folder, for a path drops a leading ./ again."""
    place = Path(path)
    return place.absolute() if place == BUILT_IN and str(path) != str(BUILT_IN) else place


def _format(path: str | Path, given: Format | str | None) -> Format:
    if given is None:
        given = str(path) if str(path) == str(BUILT_IN) else infer_format(path)
    if not isinstance(given, str):
        return given
    if given not in FORMATS:
        raise InputError(f"There is no format {given!r}; use one of: {', '.join(sorted(FORMATS))}.")
    return FORMATS[given]
