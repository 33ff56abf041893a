"""Choose the file to read among those in an archive."""

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from canarybank.errors import DataError

__all__ = ["ARCHIVES", "PACKED", "Member", "visible"]

ARCHIVES = (".zip", ".tgz", ".tar", ".tar.gz")
PACKED = (*ARCHIVES, ".gz")
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Member:
    """Which file of an archive is read: the one that was ``asked`` for, or else the one of the format's ``usual`` name.

    Both are patterns. What was asked for must be there, and once. The usual name is a hint: its first match is
    taken, and an archive of one file needs none.
    """

    asked: str | None = None
    usual: str | None = None

    def takes(self, name: str) -> bool:
        """Say whether the pattern matches a file: by its name, or by its whole path where the pattern is a path."""
        pattern = self.asked or self.usual
        if not pattern:
            return False
        own = name if "/" in pattern else PurePosixPath(name).name
        return fnmatch(own, pattern) or fnmatch(own.removesuffix(".gz"), pattern)

    def choose(self, archive: str, names: list[str]) -> str:
        """Return the one file to read; it may be an archive that holds it."""
        return (self._asked if self.asked else self._usual)(archive, names)

    def _asked(self, archive: str, names: list[str]) -> str:
        if self.asked in names:
            return self.asked
        matching = [name for name in names if self.takes(name)]
        if len(matching) > 1:
            raise self.several(archive, matching)
        found = matching or [name for name in names if name.lower().endswith(ARCHIVES)]
        if len(found) != 1:
            raise self.absent(archive, names)
        return found[0]

    def _usual(self, archive: str, names: list[str]) -> str:
        if matching := [name for name in names if self.takes(name)]:
            return matching[0]
        packed = [name for name in names if name.lower().endswith(PACKED)]
        if self.usual and len(packed) == 1:
            return packed[0]
        if len(names) != 1:
            raise self.absent(archive, names)
        return names[0]

    def absent(self, archive: str, names: list[str]) -> DataError:
        """Return the error to raise when no one file of an archive can be told to be the one."""
        if not names:
            return DataError(f"{archive} is an archive without files; it must hold the file to read.")
        pattern = self.asked or self.usual
        which = "more than one file" if pattern is None else f"no file that matches {pattern!r}"
        return DataError(f"{archive} holds {which}; say which to read by --users.member, of: {_listed(names)}.")

    def several(self, archive: str, matching: list[str]) -> DataError:
        """Return the error to raise when what was asked for is there more than once."""
        return DataError(
            f"{archive} holds {len(matching)} files that match {self.asked!r}; say which to read by --users.member, "
            f"of: {_listed(matching)}."
        )


def visible(names: list[str]) -> list[str]:
    """Leave out folders and what archivers add for themselves."""
    return [
        n
        for n in names
        if not n.endswith("/") and not n.startswith("__MACOSX/") and not PurePosixPath(n).name.startswith(".")
    ]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
