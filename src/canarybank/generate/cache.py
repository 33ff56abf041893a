"""Remember what generators answered, so that no run asks for the same thing twice."""

import gzip
import io
import threading
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from canarybank.errors import DataError, StoreError
from canarybank.generate.protocol import Generator, Request, Response, server_of
from canarybank.generate.server import Server
from canarybank.store import (
    Log,
    LogContents,
    canonical_json,
    file_errors,
    parse_json,
    require_file,
    set_aside,
    write_atomic,
)

__all__ = ["CachedGenerator", "ResponseCache"]

_HEADER = "canarybank-responses"
_VERSION = 1


class ResponseCache:
    """Responses by key: by model, prompt and parameters; in a file that only grows, or in memory without a path.

    A response is in the file before it is used, so a killed run loses at most what was in flight; one that cannot be
    written ends the run, for answers cost money. A damaged line is passed over and its response asked for again;
    ``damaged`` counts those lines. A file that cannot be read at all is renamed to ``*.unreadable``. Two processes
    may share one file: each sees what the other had written when it opened the cache.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._log = None if path is None else Log(path)
        self._lock = threading.Lock()
        self._responses: dict[str, Response] = {}
        self.damaged = 0
        if self._log is not None:
            contents = _contents(self._log)
            self.damaged = len(contents.damaged)
            for record in contents.records:
                try:
                    key, response = _entry(record)
                except DataError:
                    self.damaged += 1
                else:
                    self._responses[key] = response

    def __len__(self) -> int:
        return len(self._responses)

    def __contains__(self, key: str) -> bool:
        return key in self._responses

    def get(self, key: str) -> Response | None:
        """Return the response under a key, or None."""
        return self._responses.get(key)

    def values(self) -> tuple[Response, ...]:
        """Return all responses, in the order in which they came."""
        return tuple(self._responses.values())

    def put(self, key: str, response: Response) -> None:
        """Keep a response under a key, in the file first."""
        with self._lock:
            if self._log is not None:
                self._log.append({"key": key, **response.to_json()}, durable=False)
            self._responses[key] = response

    def export(self, path: Path | str, keys: Collection[str] | None = None) -> int:
        """Write responses, all or those under some keys, to one compressed file that can be shipped; count them.

        The same responses give the same bytes.
        """
        chosen = sorted(self._responses if keys is None else set(keys) & set(self._responses))
        lines = [canonical_json({"format": _HEADER, "version": _VERSION, "responses": len(chosen)})]
        lines += [canonical_json({"key": key, **self._responses[key].to_json()}) for key in chosen]
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, filename="", mtime=0) as file:
            file.write(("\n".join(lines) + "\n").encode())
        write_atomic(path, buffer.getvalue())
        return len(chosen)

    def load(self, path: Path | str) -> int:
        """Take in the responses of an exported file that are not here yet, and count them."""
        taken = 0
        for key, response in _exported(Path(path)):
            if key not in self:
                self.put(key, response)
                taken += 1
        return taken


class CachedGenerator:
    """A generator that answers from a cache where it can, and keeps what it has to ask for.

    ``accept`` names further fingerprints whose recorded answers may be used too: those of the same model run
    another way, say. ``hits`` and ``misses`` count the requests so far.
    """

    def __init__(self, generator: Generator, cache: ResponseCache, accept: Sequence[str] = ()) -> None:
        self._generator, self._cache, self._accept = generator, cache, tuple(accept)
        self.hits = 0
        self.misses = 0

    @property
    def name(self) -> str:
        """Return the name of the generator behind the cache."""
        return self._generator.name

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the generator behind the cache."""
        return self._generator.fingerprint

    @property
    def server(self) -> Server | None:
        """Return the server of the generator behind the cache."""
        return server_of(self._generator)

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer what the cache holds, ask for the rest once each, and keep every answer before it is passed on."""
        missing: defaultdict[str, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            if (known := self._known(request)) is not None:
                self.hits += 1
                yield index, known
            else:
                missing[request.key(self.fingerprint)].append(index)
        if missing:
            yield from self._ask(requests, missing)

    def _known(self, request: Request) -> Response | None:
        for fingerprint in (self.fingerprint, *self._accept):
            if (response := self._cache.get(request.key(fingerprint))) is not None:
                return response
        return None

    def _ask(self, requests: Sequence[Request], missing: dict[str, list[int]]) -> Iterator[tuple[int, Response]]:
        keys = list(missing)
        for position, response in self._generator.generate([requests[missing[key][0]] for key in keys]):
            self._cache.put(keys[position], response)
            self.misses += 1
            self.hits += len(missing[keys[position]]) - 1
            for index in missing[keys[position]]:
                yield index, response


def _contents(log: Log) -> LogContents:
    try:
        return log.read()
    except StoreError:
        set_aside(log.path, "unreadable")
        return LogContents((), (), torn=False)


def _exported(path: Path) -> Iterator[tuple[str, Response]]:
    require_file(path)
    with file_errors(path, "read"):
        data = path.read_bytes()
    try:
        lines = gzip.decompress(data).decode().splitlines()
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise DataError(f"{str(path)!r} is no exported response cache ({error}); export it anew.") from None
    header = parse_json(lines[0] if lines else "null", path, given=True)
    if not isinstance(header, dict) or header.get("format") != _HEADER or header.get("version") != _VERSION:
        raise DataError(f"{str(path)!r} is no exported response cache of version {_VERSION}; export it anew.")
    if header.get("responses") != len(lines) - 1:
        raise DataError(f"{str(path)!r} should hold {header.get('responses')} responses but holds {len(lines) - 1}.")
    for number, line in enumerate(lines[1:], start=2):
        yield _read(line, f"line {number} of {path}")


def _read(line: str, place: str) -> tuple[str, Response]:
    try:
        values = parse_json(line, place)
        if isinstance(values, dict) and isinstance(values.get("key"), str):
            return _entry(values)
    except (DataError, StoreError) as error:
        raise DataError(f"The response in {place} cannot be read ({error}); export the cache anew.") from None
    raise DataError(f"There is no response under a key in {place}, but {line[:60]!r}; export the cache anew.")


def _entry(values: dict[str, Any]) -> tuple[str, Response]:
    return str(values.get("key")), Response.from_json(values)
