"""Lay admitted users out in shards: files of texts by a hash of the user's id, read one at a time.

A source is read once. Its rows are spilled by the hash of their user's id, and each spill is admitted on its own, for
whether a user is admitted, and with which records, follows from that user's rows alone. Memory holds the admitted
records of one shard, and of all users their ids, counts and digests. A shard's file is named by the hash of what it
holds, so a newcomer changes one file. What a kill leaves is taken up: a finished spill, and every shard that is done.
"""

import contextlib
import hashlib
import io
import marshal
import os
import shutil
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import DataError, InputError, StoreError
from canarybank.progress import SILENT, Progress
from canarybank.store import StageCache, file_errors, hash_array, hash_json, private_folder, read_checked, write_checked
from canarybank.store.files import open_private
from canarybank.store.locks import LOCK_NAME, flocked
from canarybank.users.admission import (
    Admission,
    Census,
    choose_records,
    draw_lots,
    find_drops,
    judge_rows,
    kept_users,
    nobody_admitted,
    rule_for,
)
from canarybank.users.chosen import Chosen
from canarybank.users.keep import pack_users, unpack_users
from canarybank.users.names import Names
from canarybank.users.records import Users, combined_digest
from canarybank.users.report import AdmissionReport, Drop
from canarybank.users.rows import Fault, Row, Skip
from canarybank.users.sources import Source

__all__ = [
    "STREAM_BYTES",
    "Members",
    "Part",
    "Shards",
    "are_sharded",
    "clearing_damage",
    "shard_count",
    "shard_of",
    "shard_users",
]

STREAM_BYTES = 256 * 10**6
"""A file of users that is larger than this is read in shards, unless the configuration says otherwise."""
SHARD_BYTES, PACKED_SHARD_BYTES = 4 * 2**20, 2**20
"""About how much of a file falls to one shard, plain or packed: some 2,000 users of 32 short records."""
_PACKED = (".parquet", ".pq", ".gz", ".tgz", ".zip", ".tar")
MOST_SHARDS = 4096
SPILLED_ROWS, SPILLED_CHARACTERS = 2**17, 2**24
"""How many rows, with how many characters of text, are held at most before they are written to the spills."""
_READ_BYTES = 2**16
_CONTENT, _SUMMARY, _SPILL = "shards", "sharding", "spill"


def shard_count(path: Path | str) -> int:
    """Return the number of shards for a file: a power of two that follows from its name and size alone.

    Args:
        path: The file; one that is not there counts as empty.

    Example:
        >>> shard_count("my-users.csv")
        1
        >>> _ = Path("more.csv.gz").write_bytes(bytes(3 * 2**20))
        >>> shard_count("more.csv.gz")
        4
    """
    place = Path(path)
    size = place.stat().st_size if place.exists() else 0
    each = PACKED_SHARD_BYTES if place.name.lower().endswith(_PACKED) else SHARD_BYTES
    return min(MOST_SHARDS, 1 << max(0, -(-size // each) - 1).bit_length())


def shard_of(user: str, number: int) -> int:
    """Return the shard that a user falls to, of so many: it follows from the id alone."""
    return int.from_bytes(hashlib.sha256(user.encode()).digest()[:8], "big") % number


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some users of one shard, by where they lie: small, and fit to be sent to another process.

    ``rows`` are places in the shard's file, ascending; ``positions`` say where each of these users stands in the order
    of the whole that this is a part of. Where there is a ``cap``, a user keeps that many of the first records.
    """

    folder: Path
    content: str
    rows: NDArray[np.int32]
    positions: NDArray[np.int64]
    cap: int | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def key(self) -> str:
        """Return the content address of these users: their shard's, who of it they are, and the cap."""
        return hash_json([self.content, hash_array(self.rows), self.cap])

    def users(self) -> Users:
        """Read these users, with texts and without vectors."""
        users = _read(self.folder, self.content).take(self.rows.astype(np.int64))
        return users if self.cap is None else users.first_records(self.cap)


@dataclass(frozen=True, eq=False)
class Shards:
    """The admitted users of a source, in one file a shard; ids, counts and digests alone are in memory.

    ``ids`` are sorted. ``homes`` and ``rows`` say in which shard each user lies, and at which place of its file.
    """

    folder: Path
    contents: tuple[str, ...]
    ids: Names
    counts: NDArray[np.int64]
    homes: NDArray[np.int32]
    rows: NDArray[np.int32]
    report: AdmissionReport
    cap: int | None = None
    _digests: NDArray[np.uint8] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Shards({len(self)} users in {self.number} shards)"

    @property
    def number(self) -> int:
        """Return the number of shards."""
        return len(self.contents)

    def key(self, shard: int) -> str:
        """Return the content address of a shard's users."""
        return self.everybody.part(shard).key

    def users(self, shard: int) -> Users:
        """Read the users of one shard, sorted by id, with texts and without vectors."""
        return self.everybody.part(shard).users()

    @cached_property
    def everybody(self) -> "Members":
        """Return all users, in the order of their ids."""
        return Members(self, np.arange(len(self)))

    @cached_property
    def digests(self) -> NDArray[np.uint8]:
        """Return the digest of each user: see ``Users.digests``."""
        if self._digests is not None:
            return self._digests
        found, parts = np.empty((len(self), 32), dtype=np.uint8), self.everybody.parts()
        with clearing_damage(parts):
            for part in parts:
                found[part.positions] = part.users().digests
        return found

    def capped(self, cap: int) -> "Shards":
        """Return the same users with at most so many of their first records."""
        lowered = np.minimum(self.counts, cap)
        return Shards(self.folder, self.contents, self.ids, lowered, self.homes, self.rows, self.report, cap)


@dataclass(frozen=True, eq=False)
class Members:
    """Some users of shards, in an order of their own, such as a cohort's; their records stay in the files."""

    shards: Shards
    places: NDArray[np.int64]
    """Where each member stands among the ids of the shards."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def ids(self) -> Iterator[str]:
        """Return the members' ids, in order."""
        return (self.shards.ids[place] for place in self.places)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Return the number of records of each member."""
        return self.shards.counts[self.places]

    @property
    def digest(self) -> str:
        """Return the sha256 of all members and their records: see ``Users.digest``."""
        return combined_digest(self.shards.digests, self.places)

    def has(self, name: str) -> bool:
        """Say whether the user of that id is a member."""
        place = bisect_left(self.shards.ids, name)
        return place < len(self.shards) and self.shards.ids[place] == name and bool((self.places == place).any())

    def parts(self) -> list[Part]:
        """Return the members by shard; a shard without members has no part."""
        order = np.lexsort((self.shards.rows[self.places], self.shards.homes[self.places]))
        homes = self.shards.homes[self.places][order]
        present, starts = np.unique(homes, return_index=True)
        return [
            self._part(int(home), positions)
            for home, positions in zip(present, np.split(order, starts[1:]), strict=True)
        ]

    def part(self, shard: int) -> Part:
        """Return the members in one shard."""
        inside = np.flatnonzero(self.shards.homes[self.places] == shard)
        return self._part(shard, inside[np.argsort(self.shards.rows[self.places[inside]], kind="stable")])

    def _part(self, shard: int, positions: NDArray[np.int64]) -> Part:
        shards = self.shards
        return Part(shards.folder, shards.contents[shard], shards.rows[self.places[positions]], positions, shards.cap)

    def load(self) -> Users:
        """Read all members into memory, in their order."""
        if not len(self):
            return Users((), np.zeros(0, dtype=np.int64), ())
        parts = self.parts()
        with clearing_damage(parts):
            read = [part.users() for part in parts]
        labelled = read[0].labels is not None
        together = Users(
            ids=tuple(chain.from_iterable(users.ids for users in read)),
            owners=np.repeat(np.arange(len(self)), np.concatenate([users.counts for users in read])),
            texts=tuple(chain.from_iterable(users.require_texts() for users in read)),
            labels=tuple(chain.from_iterable(users.labels or () for users in read)) if labelled else None,
        )
        return together.take(np.argsort(np.concatenate([part.positions for part in parts])))


def shard_users(
    given: Source,
    admission: Admission,
    number: int,
    folder: Path | str,
    *,
    key: str,
    state: tuple[int, int] | None = None,
    progress: Progress = SILENT,
) -> Shards:
    """Admit the users of a source into so many shards: the same users with the same records as ``admit`` gives.

    Args:
        given: The source.
        admission: Who is admitted.
        number: The number of shards.
        folder: The folder of a stage cache; it must be one that can be written.
        key: The content address of the source and of the admission: what was made under it is taken.
        state: The state of the source's file when the key was made; left out, the present one.
        progress: Where progress is shown.

    Example:
        >>> from canarybank.users import Admission, admit, source
        >>> given = source("my-users.csv")
        >>> shards = shard_users(given, Admission(cap=4), 2, "shards", key="my-users.csv, cap 4")
        >>> shards
        Shards(24 users in 2 shards)
        >>> shards.everybody.load().hash == admit(given, Admission(cap=4)).users.hash
        True
    """
    if number < 1:
        raise InputError(f"Users are laid out in at least one shard, not {number}.")
    rule, cache, state = rule_for(given, admission), StageCache(folder), state or given.state
    places = _places(key, number)
    spill = _Spill(cache.folder / _SPILL / hash_json({"users": key, "shards": number})[:32], number)
    nobodys = hash_json({"users": key, "shards": number, "shard": "nobody's"})
    summaries, stray = [_kept_summary(cache, place) for place in places], _kept(cache, nobodys)
    if stray is None or None in summaries:
        with spill.held(progress):
            summaries = [_kept_summary(cache, place) for place in places]
            lacking = [shard for shard, summary in enumerate(summaries) if summary is None]
            stray = None if lacking else _kept(cache, nobodys)
            if stray is None:
                stray = spill.ensure(given, state, progress, lacking)
                _keep(cache, nobodys, stray)
            with progress.stage("admit users", total=len(lacking), unit="shards") as stage:
                for shard in lacking:
                    spill.check(shard)
                    summaries[shard] = _admit_shard(cache, places[shard], partial(spill.rows, shard), given, rule)
                    spill.drop(shard)
                    stage.advance()
            spill.remove()
    return _gathered(given, rule, cache.folder, [each for each in summaries if each is not None], stray)


def are_sharded(folder: Path | str, number: int, *, key: str) -> bool:
    """Say whether the users of that key lie in so many shards already.

    Args:
        folder: The folder of the stage cache.
        number: The number of shards.
        key: What ``shard_users`` was given as ``key``.

    Example:
        >>> from canarybank.users import Admission, source
        >>> _ = shard_users(source("my-users.csv"), Admission(), 2, "shards", key="my-users")
        >>> are_sharded("shards", 2, key="my-users"), are_sharded("shards", 4, key="my-users")
        (True, False)
    """
    cache = StageCache(folder)
    return all(cache.has(_SUMMARY, place) for place in _places(key, number))


def _places(key: str, number: int) -> list[str]:
    return [hash_json({"users": key, "shards": number, "shard": shard}) for shard in range(number)]


class _LostError(StoreError):
    """A shard is not there, or not as it was written."""


def _lost() -> NoReturn:
    raise _LostError(
        "A shard of the users is missing from the cache or damaged; run the command again, and it is made anew. Shards "
        "need a cache folder that can be written and that every worker sees: set CANARYBANK_CACHE."
    )


def _keep(cache: StageCache, key: str, value: Mapping[str, Any]) -> None:
    cache.document(_SUMMARY, key, lambda: dict(value))


def _kept(cache: StageCache, key: str) -> dict[str, Any] | None:
    try:
        return dict(cache.document(_SUMMARY, key, _lost))
    except StoreError:
        return None


def _kept_summary(cache: StageCache, place: str) -> dict[str, Any] | None:
    """Return what is known of a shard, if it was admitted before and its file is still there."""
    found = _kept(cache, place)
    return _compact(found) if found is not None and cache.has(_CONTENT, found["content"]) else None


def _compact(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a shard with numbers and ids packed, for that of all shards is in memory at once."""
    numbers = {name: np.array(summary[name], dtype=np.int32) for name in ("counts", "seen")}
    digests = np.frombuffer(bytes.fromhex(summary["digests"]), dtype=np.uint8).reshape(-1, 32)
    return summary | numbers | {"ids": Names.of(summary["ids"]), "digests": digests}


def _read(folder: Path, content: str) -> Users:
    return StageCache(folder).packed(_CONTENT, content, _lost, pack_users, unpack_users)


@contextlib.contextmanager
def clearing_damage(parts: Iterable[Part]) -> Iterator[None]:
    """Where a shard turns out missing or damaged, remove all damaged ones of these, so that one more run makes them.

    Args:
        parts: Those whose shards are read within.

    Example:
        >>> from canarybank.users import Admission, shard_users, source
        >>> parts = shard_users(source("my-users.csv"), Admission(), 2, "shards", key="my-users").everybody.parts()
        >>> with clearing_damage(parts):
        ...     print(sum(len(part.users()) for part in parts))
        24
    """
    try:
        yield
    except _LostError:
        for part in parts:
            with contextlib.suppress(StoreError):
                part.users()
        raise


def _admit_shard(
    cache: StageCache, place: str, rows: Callable[[], Iterator[Row | Skip]], given: Source, rule: Admission
) -> dict[str, Any]:
    """Admit the rows of one shard, write its file, and return what has to be known of it.

    They are read twice, as ``admit`` reads a source: so no user fills the memory, however many records that one has.
    """
    census = Census.take(judge_rows(rows(), rule))
    drops = find_drops(census.counts, rule)
    kept = {name: Chosen(rule.cap) for name in census.counts if name not in drops}
    choose_records(judge_rows(rows(), rule), kept, rule.seed, isolated=given.isolated)
    users = kept_users(kept, labelled=given.labelled)
    content = hash_json({"users": users.hash})
    cache.packed(_CONTENT, content, lambda: users, pack_users, unpack_users)
    if not cache.has(_CONTENT, content):
        raise StoreError(
            f"The cache in {str(cache.folder)!r} can no longer be written, and shards are stored there. Free some "
            "space, change its permissions or set CANARYBANK_CACHE, and run the command again; or set run.shards to 0."
        )
    summary = {
        "content": content,
        "rows": census.rows,
        "skipped": {fault.name: count for fault, count in census.skipped.items()},
        "first_lines": {fault.name: line for fault, line in census.first_lines.items()},
        "users": len(census.counts),
        "most": max(census.counts.values(), default=0),
        "dropped": {drop.name: count for drop, count in Counter(drops.values()).items()},
        "records_dropped": sum(census.counts[name] for name in drops),
        "ids": list(users.ids),
        "seen": [kept[name].seen for name in users.ids],
        "counts": users.counts.tolist(),
        "digests": users.digests.tobytes().hex(),
    }
    _keep(cache, place, summary)
    return _compact(summary)


def _gathered(
    given: Source, rule: Admission, folder: Path, summaries: Sequence[Mapping[str, Any]], stray: Mapping[str, Any]
) -> Shards:
    """Put shards together: users in the order of their ids, lots drawn over all of them, counts summed."""
    ids: list[str] = list(chain.from_iterable(each["ids"] for each in summaries))
    sizes = [len(each["ids"]) for each in summaries]
    homes = np.repeat(np.arange(len(summaries), dtype=np.int32), sizes)
    rows = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])
    counts, seen = (np.concatenate([each[name] for each in summaries]) for name in ("counts", "seen"))
    order = np.argsort(np.array(ids, dtype=object), kind="stable")
    dropped = _summed(Drop, "dropped", summaries)
    records_dropped = sum(each["records_dropped"] for each in summaries)
    if rule.users is not None and len(ids) > rule.users:
        drawn = set(draw_lots(ids, rule.seed)[: rule.users])
        is_drawn = np.array([ids[place] in drawn for place in order.tolist()])
        dropped[Drop.UNDRAWN] = int((~is_drawn).sum())
        records_dropped += int(seen[order[~is_drawn]].sum(dtype=np.int64))
        order = order[is_drawn]
    names = Names.of(ids[place] for place in order)
    del ids  # as texts they are the largest thing here
    total = [*summaries, stray]
    skipped, read = _summed(Fault, "skipped", total), sum(each["rows"] for each in total)
    users = sum(each["users"] for each in summaries)
    if not len(order) and not given.isolated:
        most = max(each["most"] for each in summaries)
        raise nobody_admitted(given, rule, read, users, most, dropped, skipped)
    report = AdmissionReport(
        rows=read,
        skipped=skipped,
        first_lines={
            fault: min(each["first_lines"][fault.name] for each in total if fault.name in each["first_lines"])
            for fault in skipped
        },
        users=users,
        admitted=len(order),
        dropped=dropped,
        records=int(counts[order].sum(dtype=np.int64)),
        records_capped=int((seen - counts)[order].sum(dtype=np.int64)),
        records_dropped=records_dropped,
        full=int((counts[order] == rule.cap).sum()),
    )
    return Shards(
        folder,
        tuple(each["content"] for each in summaries),
        names,
        counts[order].astype(np.int64),
        homes[order],
        rows[order],
        report,
        _digests=np.concatenate([each["digests"] for each in summaries])[order],
    )


def _summed(kind: Any, name: str, summaries: Sequence[Mapping[str, Any]]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for each in summaries:
        found.update({kind[reason]: count for reason, count in each[name].items()})
    return found


@dataclass(frozen=True)
class _Spill:
    """The rows of a source on their way to shards: one file for each, and a last one that says that all are whole."""

    folder: Path
    number: int

    @contextlib.contextmanager
    def held(self, progress: Progress) -> Iterator[None]:
        """Hold the spill for this process alone; wait while another one lays out the same users."""
        path, is_held = self.folder / LOCK_NAME, False
        while not is_held:
            private_folder(self.folder)
            with file_errors(path, "lock"):
                descriptor = open_private(path, os.O_RDWR)
            try:
                if not flocked(descriptor, path, wait=False):
                    with progress.step("waiting for another process that lays out these users"):
                        flocked(descriptor, path, wait=True)
                # Who held it before us may have removed the spill, and with it the file that we locked.
                is_held = path.exists() and os.path.samestat(os.fstat(descriptor), path.stat())
                if is_held:
                    yield
            finally:
                os.close(descriptor)

    @property
    def _whole(self) -> Path:
        return self.folder / "whole.json"

    def _file(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.rows"

    def ensure(
        self, given: Source, state: tuple[int, int] | None, progress: Progress, shards: Iterable[int]
    ) -> dict[str, Any]:
        """Spill the source, unless that was done before, and return the count of rows that are nobody's."""
        with contextlib.suppress(StoreError, DataError):
            kept: dict[str, Any] = read_checked(self._whole)["value"]
            if all(self._file(shard).exists() or not kept["sums"][shard] for shard in shards):
                return dict(kept["stray"])
        self.clear()
        sums, stray = self._spilled(given, progress)
        given.require_state(state)
        summary = {
            "rows": stray.rows,
            "skipped": {fault.name: count for fault, count in stray.skipped.items()},
            "first_lines": {fault.name: line for fault, line in stray.first_lines.items()},
        }
        write_checked(self._whole, {"value": {"sums": sums, "stray": summary}}, indent=None, durable=False)
        return summary

    def _spilled(self, given: Source, progress: Progress) -> tuple[list[int], Census]:
        sums, stray = [0] * self.number, Census()
        waiting: list[list[tuple[Any, ...]]] = [[] for _ in range(self.number)]
        held, characters, last, own = 0, 0, None, waiting[0]
        for row in given.rows(progress, "read users of"):
            if row.user is None:
                stray.rows += 1
                stray.skip(row)
                continue
            if row.user != last:
                last = row.user
                own = waiting[shard_of(last, self.number)]
            own.append(tuple(row) if type(row) is Row else (row.line, row.fault.name, row.user))  # type: ignore[union-attr]
            held += 1
            characters += len(row.text) if type(row) is Row else 0
            if held >= SPILLED_ROWS or characters >= SPILLED_CHARACTERS:
                self._write(waiting, sums)
                held = characters = 0
        self._write(waiting, sums)
        return sums, stray

    def _write(self, waiting: list[list[tuple[Any, ...]]], sums: list[int]) -> None:
        for shard, rows in enumerate(waiting):
            if not rows:
                continue
            block = marshal.dumps(rows)
            block = len(block).to_bytes(8, "little") + block
            sums[shard] = zlib.crc32(block, sums[shard])
            path = self._file(shard)
            with file_errors(path), os.fdopen(open_private(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                file.write(block)
            rows.clear()

    def check(self, shard: int) -> None:
        """Refuse the rows of a shard that are not what was written, and remove all of them then."""
        path, wanted, found = self._file(shard), read_checked(self._whole)["value"]["sums"][shard], 0
        with self._reading(shard) as file:
            while block := file.read(_READ_BYTES):
                found = zlib.crc32(block, found)
        if found != wanted:
            self.clear()
            raise StoreError(f"{str(path)!r} is damaged; run the command again, and it is made again.")

    def rows(self, shard: int) -> Iterator[Row | Skip]:
        """Yield the rows of one shard, once they are checked; memory holds those that were written together."""
        with self._reading(shard) as file:
            while size := int.from_bytes(file.read(8), "little"):
                for each in marshal.loads(file.read(size)):  # noqa: S302, our own file, whose sum was checked
                    yield Row(*each) if len(each) == len(Row._fields) else Skip(each[0], Fault[each[1]], each[2])

    @contextlib.contextmanager
    def _reading(self, shard: int) -> Iterator[BinaryIO]:
        """Open the rows of a shard; one without rows has no file."""
        path = self._file(shard)
        with file_errors(path, "read"), path.open("rb") if path.exists() else io.BytesIO() as file:
            yield file

    def drop(self, shard: int) -> None:
        """Remove the rows of a shard that is done."""
        with contextlib.suppress(OSError):
            self._file(shard).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all rows."""
        for path in [self._whole, *self.folder.glob("*.rows")]:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the spill, once every shard is done."""
        self.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
