"""Keep vectors on disk, by encoder and text, so that no text is encoded twice.

Under the cache's folder each encoder has a shelf, a folder named after its fingerprint; see ``shelf`` for how a shelf
stays right when processes share it or are killed. The cache holds vectors and hashes of people's texts: it is as
private as the texts are, and belongs where they may lie.
"""

from dataclasses import dataclass
from pathlib import Path

from canarybank.encode.index import INDEX_SUFFIX, SEGMENT_SUFFIX
from canarybank.encode.protocol import Encoder
from canarybank.encode.shelf import CORRUPT, Shelf
from canarybank.errors import StoreError
from canarybank.store import Segment, cache_root, prune_files, stored_files, sweep_folders, tighten

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
        folder = tighten(tighten(self.folder) / encoder.fingerprint[:32])
        return Shelf(folder, encoder.name, encoder.fingerprint, encoder.dimension)

    def usage(self) -> tuple[ShelfUsage, ...]:
        """Return what each encoder's vectors take on disk, largest first."""
        rows = [_usage(folder) for folder in self._folders()]
        return tuple(sorted((row for row in rows if row.bytes), key=lambda row: -row.bytes))

    def prune(self, *, max_bytes: int | None = None, unused_for: float | None = None) -> int:
        """Remove segments, the longest unused first, and return how many bytes that freed.

        Those unused for that many seconds go, then as many as bring the cache down to that many bytes: the newest
        stay. Corrupt files go in any case, and so do tables that name a text of a segment that went: the next process
        makes them again. Running processes keep what they have open and what they are writing.
        """
        sweep_folders(self.folder)
        files = [file for folder in self._folders() for file in stored_files(folder)]
        kept = [file for file in files if file.path.suffix in {SEGMENT_SUFFIX, INDEX_SUFFIX}]
        freed = prune_files(kept, max_bytes=max_bytes, unused_for=unused_for)
        thinned = {file.path.parent for file in kept if not file.path.exists()}
        stale = [file for file in kept if file.path.suffix == INDEX_SUFFIX and file.path.parent in thinned]
        corrupt = [file for file in files if file.path.suffix == f".{CORRUPT}"]
        return freed + prune_files((file for file in (*stale, *corrupt) if file.path.exists()), max_bytes=0)

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*") if path.is_dir())


def _usage(folder: Path) -> ShelfUsage:
    encoder, fingerprint, vectors = "unknown", folder.name, 0
    files = stored_files(folder)
    segments = [file for file in files if file.path.suffix == SEGMENT_SUFFIX]
    corrupt = [file for file in files if file.path.suffix == f".{CORRUPT}"]
    for segment in segments:
        try:
            meta = Segment(segment.path).meta
        except StoreError:
            continue
        if isinstance(meta, dict) and {"encoder", "fingerprint", "rows"} <= meta.keys():
            encoder, fingerprint, vectors = meta["encoder"], meta["fingerprint"], vectors + meta["rows"]
    tables = [file for file in files if file.path.suffix == INDEX_SUFFIX]
    size = sum(file.size for file in (*segments, *tables, *corrupt))
    return ShelfUsage(encoder, fingerprint, vectors, len(segments), size, len(corrupt))
