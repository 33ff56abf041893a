"""Keep what a stage made under the hash of all that it depends on, so that a rerun makes only what changed.

The cache stands in the user's cache folder and is shared by all runs. It holds the admitted users' texts, so it is
readable by its owner alone. Each piece carries a checksum and the key it was made for; both are checked before it is
used, and what does not fit is made again. Where the cache cannot be written, a run says so once and goes on.
"""

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import StoreError
from canarybank.store.documents import read_checked, write_checked
from canarybank.store.files import discard, go_on_without, private_folder, write_atomic
from canarybank.store.hashes import hash_json
from canarybank.store.locations import cache_root
from canarybank.store.pruning import prune_files, stored_files, sweep_folders
from canarybank.store.segments import Segment, write_segment

__all__ = ["StageCache", "StageUsage", "stage_key"]

Made = TypeVar("Made")
Arrays = dict[str, NDArray[Any]]
About = dict[str, str]
"""The stage and the key of a piece, which its file repeats."""
_FORMAT = 2
_SUFFIXES = ("json", "arrays", "packed")


def stage_key(stage: str, **inputs: Any) -> str:
    """Return the content address of what a stage makes from these inputs.

    Args:
        stage: The name of the stage.
        **inputs: All that the outcome depends on, as JSON.

    Example:
        >>> stage_key("moments", users="u1", seed=0) == stage_key("moments", seed=0, users="u1")
        True
        >>> stage_key("moments", users="u1", seed=0) == stage_key("moments", users="u1", seed=1)
        False
    """
    return hash_json({"stage": stage, "format": _FORMAT, "inputs": inputs})


@dataclass(frozen=True, slots=True)
class StageUsage:
    """What the pieces of one stage take on disk."""

    stage: str
    pieces: int
    bytes: int


class StageCache:
    """What stages made, by stage and key; ``made`` and ``found`` count the pieces of each stage in this process."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder is not None else cache_root() / "stages"
        self.made: dict[str, int] = {}
        self.found: dict[str, int] = {}

    @property
    def is_writable(self) -> bool:
        """Say whether something can be written here now."""
        probe = self.folder / f"probe-{secrets.token_hex(4)}"
        try:
            private_folder(self.folder)
            write_atomic(probe, b"probe", durable=False)
        except StoreError:
            return False
        discard(probe)
        return True

    def has(self, stage: str, key: str) -> bool:
        """Say whether something stands under a key."""
        return any((self.folder / stage / f"{key}.{suffix}").exists() for suffix in _SUFFIXES)

    def document(self, stage: str, key: str, make: Callable[[], Any]) -> Any:
        """Return the JSON document under a key, making and keeping it where there is none."""
        return self._kept(stage, key, "json", make, _read_document, _write_document)

    def arrays(self, stage: str, key: str, make: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
        """Return the named arrays under a key, making and keeping them where there are none."""
        return self._kept(
            stage, key, "arrays", lambda: {k: np.asarray(v) for k, v in make().items()}, _read_arrays, write_segment
        )

    def packed(
        self,
        stage: str,
        key: str,
        make: Callable[[], Made],
        pack: Callable[[Made], bytes],
        unpack: Callable[[bytes], Made],
    ) -> Made:
        """Return the value under a key, making and keeping it where there is none, as the bytes that ``pack`` gives.

        They are checked before ``unpack`` sees them, so that no reader of a foreign format meets a broken file.
        """

        def write(path: Path, value: Made, about: About) -> None:
            write_segment(path, {"bytes": np.frombuffer(pack(value), dtype=np.uint8)}, about)

        return self._kept(
            stage, key, "packed", make, lambda path, about: unpack(_read_arrays(path, about)["bytes"].tobytes()), write
        )

    def _kept(
        self,
        stage: str,
        key: str,
        suffix: str,
        make: Callable[[], Made],
        read: Callable[[Path, About], Made],
        write: Callable[[Path, Made, About], object],
    ) -> Made:
        """Return what stands in the file under a key, making and keeping it where there is none or it is broken."""
        path, about = self.folder / stage / f"{key}.{suffix}", {"stage": stage, "key": key}
        try:
            value = read(path, about)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001, whatever is wrong with a kept piece, it is made again
            # What the system does not let us open may be whole, and others may read it.
            if not isinstance(error.__cause__, OSError):
                discard(path)
        else:
            self.found[stage] = self.found.get(stage, 0) + 1
            # A shared cache may be read-only; then its owner decides what is old.
            with contextlib.suppress(OSError):
                os.utime(path)
            return value
        made = make()
        self.made[stage] = self.made.get(stage, 0) + 1
        try:
            private_folder(self.folder)
            private_folder(path.parent)
            write(path, made, about)
        except StoreError:
            go_on_without(self.folder)
        return made

    def usage(self) -> tuple[StageUsage, ...]:
        """Return what the pieces of each stage take on disk, largest first."""
        files = stored_files(self.folder)
        stages = {file.path: file.path.parent.relative_to(self.folder).as_posix() for file in files}
        rows = [
            StageUsage(
                stage,
                len({path.stem for path, its_stage in stages.items() if its_stage == stage}),
                sum(file.size for file in files if stages[file.path] == stage),
            )
            for stage in set(stages.values())
        ]
        return tuple(sorted(rows, key=lambda row: (-row.bytes, row.stage)))

    def prune(self, *, max_bytes: int | None = None, unused_for: float | None = None) -> int:
        """Remove what stages made, the longest unused first, and return how many bytes that freed.

        What was unused for that many seconds goes, then as much as brings the cache down to that many bytes: the
        newest stays. What another process is writing stays too.
        """
        sweep_folders(self.folder)
        return prune_files(stored_files(self.folder), max_bytes=max_bytes, unused_for=unused_for)


def _read_document(path: Path, about: About) -> Any:
    kept = read_checked(path)
    value = kept.pop("value")
    _check(path, kept, about)
    return value


def _write_document(path: Path, value: Any, about: About) -> None:
    write_checked(path, {**about, "value": value}, indent=None, durable=False)


def _read_arrays(path: Path, about: About) -> Arrays:
    segment = Segment(path)
    _check(path, segment.meta, about)
    return {name: segment[name] for name in segment.names}


def _check(path: Path, kept: Mapping[str, Any], about: About) -> None:
    """Refuse a whole piece that stands under the key of another."""
    if kept != about:
        raise StoreError(f"{str(path)!r} holds another piece than its name says; delete it, and it will be made again.")
