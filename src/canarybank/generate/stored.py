"""Say what the answers that generators gave on this machine take on disk, and remove them when asked to.

Each generator has one file, named after its fingerprint. A model costs time or money to ask again, so nothing here
happens by itself.
"""

from dataclasses import dataclass
from pathlib import Path

from canarybank.errors import StoreError
from canarybank.store import Log, LogContents, StoredFile, cache_root, prune_files, stored_files, sweep_folders

__all__ = ["RESPONSE_SUFFIX", "ResponseUsage", "StoredResponses"]

RESPONSE_SUFFIX = ".log"


@dataclass(frozen=True, slots=True)
class ResponseUsage:
    """What one generator's answers take on disk; ``damaged`` counts the lines that will be asked for again."""

    fingerprint: str
    answers: int
    bytes: int
    damaged: int


class StoredResponses:
    """The files of all generators' answers; by default in the user's cache folder."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder is not None else cache_root() / "responses"

    def usage(self) -> tuple[ResponseUsage, ...]:
        """Return what each generator's answers take on disk, largest first."""
        files = [file for file in stored_files(self.folder) if file.path.suffix == RESPONSE_SUFFIX]
        return tuple(sorted(map(_usage, files), key=lambda row: -row.bytes))

    def prune(self, *, max_bytes: int | None = None, unused_for: float | None = None) -> int:
        """Remove whole files of answers, the longest unused first, and return how many bytes that freed.

        Those to which nothing was added for that many seconds go, then as many as bring all of them down to that
        many bytes. A file that another process is writing to stays.
        """
        sweep_folders(self.folder)
        return prune_files(
            stored_files(self.folder),
            max_bytes=max_bytes,
            unused_for=unused_for,
            remove=lambda path: Log(path).discard(),
        )


def _usage(file: StoredFile) -> ResponseUsage:
    try:
        contents = Log(file.path).read()
    except StoreError:  # it cannot be read; the next run sets it aside
        contents = LogContents((), (), torn=False)
    answers = len({str(record.get("key")) for record in contents.records})
    return ResponseUsage(file.path.stem, answers, file.size, len(contents.damaged))
