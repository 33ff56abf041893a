"""Keep vectors on disk, by encoder and text, so that no text is encoded twice.

Under the cache's folder each encoder has a shelf, a folder named after its fingerprint; see ``shelf`` for how a shelf
stays right when processes share it or are killed. The cache holds vectors and hashes of people's texts: it is as
private as the texts are, and belongs where they may lie.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

from canarybank.encode.protocol import Encoder
from canarybank.encode.shelf import CORRUPT, SEGMENT_SUFFIX, Shelf
from canarybank.errors import InputError, StoreError
from canarybank.store import Segment, cache_root, file_errors, sweep_temporaries

__all__ = ["ShelfUsage", "VectorCache"]


@dataclass(frozen=True, slots=True)
class ShelfUsage:
    """What one encoder's vectors take on disk; ``corrupt`` counts the files set aside."""

    encoder: str
    fingerprint: str
    vectors: int
    segments: int
    bytes: int
    corrupt: int


class VectorCache:
    """All cached vectors of all encoders; by default in the user's cache folder."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder is not None else cache_root() / "vectors"

    def shelf(self, encoder: Encoder) -> Shelf:
        """Return the shelf of an encoder."""
        return Shelf(self.folder / encoder.fingerprint[:32], encoder.name, encoder.fingerprint, encoder.dimension)

    def usage(self) -> tuple[ShelfUsage, ...]:
        """Return what each encoder's vectors take on disk, largest first."""
        rows = [_usage(folder) for folder in self._folders()]
        return tuple(sorted((row for row in rows if row.bytes), key=lambda row: -row.bytes))

    def prune(self, *, max_bytes: int | None = None, unused_for: float | None = None) -> int:
        """Remove segments, the longest unused first, and return how many bytes that freed.

        Those unused for that many seconds go, then as many as bring the cache down to that many bytes. Corrupt
        files go in any case. Running processes keep what they have open.
        """
        if (max_bytes is not None and max_bytes < 0) or (unused_for is not None and unused_for < 0):
            raise InputError(f"A cache cannot be pruned to {max_bytes} bytes or {unused_for} seconds; give 0 or more.")
        allowed = math.inf if max_bytes is None else max_bytes
        horizon = -math.inf if unused_for is None else time.time() - unused_for
        files = sorted(self._files())
        left = sum(size for *_, size in files)
        freed = 0
        for is_sound, last_used, path, size in files:
            if not is_sound or last_used < horizon or left - freed > allowed:
                with file_errors(path, "remove"):
                    path.unlink(missing_ok=True)
                freed += size
        return freed

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*") if path.is_dir())

    def _files(self) -> list[tuple[bool, float, Path, int]]:
        """Return whether each file is sound, when it was last used, its path and its size."""
        found = []
        for folder in self._folders():
            sweep_temporaries(folder)
            for path in (*folder.glob(f"*{SEGMENT_SUFFIX}"), *folder.glob(f"*.{CORRUPT}")):
                stat = path.stat()
                found.append((path.suffix == SEGMENT_SUFFIX, stat.st_mtime, path, stat.st_size))
        return found


def _usage(folder: Path) -> ShelfUsage:
    encoder, fingerprint, vectors, size = "unknown", folder.name, 0, 0
    segments = sorted(folder.glob(f"*{SEGMENT_SUFFIX}"))
    for path in segments:
        size += path.stat().st_size
        try:
            meta = Segment(path).meta
        except StoreError:
            continue
        encoder, fingerprint, vectors = meta["encoder"], meta["fingerprint"], vectors + meta["rows"]
    corrupt = list(folder.glob(f"*.{CORRUPT}"))
    size += sum(path.stat().st_size for path in corrupt)
    return ShelfUsage(encoder, fingerprint, vectors, len(segments), size, len(corrupt))
