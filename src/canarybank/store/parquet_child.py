"""Read a Parquet file in a process of its own, which may die of it; see ``canarybank.store.parquet``.

Run as a script with one argument, the JSON list [path, columns or null]. It exits with 0 if all of it could be read,
and otherwise with 1 and, where one can be told, the reason on standard output.
"""

import json
import os
import resource
import sys
from typing import Any

__all__ = ["read_all"]

_ROWS_AT_ONCE = 2**16
_SPARE = 16 * 2**30
"""Address space that threads and allocators reserve without using it."""


def read_all(path: str, columns: list[str] | None) -> None:
    """Read a file as its readers do: whole, or some columns a part at a time."""
    import polars as pl

    if columns is None:
        _convert(pl.read_parquet(path, glob=False))
        pl.read_parquet_metadata(path)
        return
    frame = pl.scan_parquet(path, glob=False)
    wanted = [name for name in frame.collect_schema() if name in columns]
    total = int(frame.select(pl.len()).collect().item())
    for start in range(0, total, _ROWS_AT_ONCE):
        part = frame.select(wanted).slice(start, _ROWS_AT_ONCE).collect()
        if wanted and part.height != min(_ROWS_AT_ONCE, total - start):
            raise ValueError(f"it announces {total} rows, but ends after {start + part.height}")
        _convert(part)


def _convert(frame: Any) -> None:
    for series in frame:
        if not series.dtype.is_nested():
            series.to_physical().to_list()  # there are dates that Python cannot hold


def _main() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory + _SPARE if hard == resource.RLIM_INFINITY else min(hard, memory + _SPARE)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        read_all(*json.loads(sys.argv[1]))
    except Exception as error:  # noqa: BLE001, whatever it is, it is why
        sys.stdout.write(str(error))
        sys.stdout.flush()
        return 1
    except BaseException:  # noqa: BLE001, a panic of polars, whose words are for its authors
        return 1
    return 0


if __name__ == "__main__":
    # Threads of polars that panicked may never end.
    os._exit(_main())
