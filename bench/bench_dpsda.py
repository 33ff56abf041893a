"""Time DPSDA's nearest-neighbour histogram, by its torch back end, beside ours on the same vectors.

The folder that holds `DPSDA/` is $CANARYBANK_PEERS, or ../shared/peers; without it there is nothing to compare with.
Both sides turn the vectors of records and entries into a histogram of votes. Theirs settles no near-tie.
"""

import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from bench_route import BANK, DIMENSION, peak_gigabytes, unit_vectors
from canarybank.mechanism import route
from harness import Result, measure, ratio

RECORDS, K, REPEATS = 32_000, 5, 5
PEERS = Path(os.environ.get("CANARYBANK_PEERS", Path(__file__).resolve().parents[2] / "shared" / "peers"))


def run() -> list[Result]:
    """Return the line, or none where DPSDA is not there."""
    if not (PEERS / "DPSDA").is_dir():
        print(f"  skipped: no DPSDA in {PEERS.name!r}; set CANARYBANK_PEERS to the folder that holds it")
        return []
    rng = np.random.default_rng(21)
    records, entries = (unit_vectors(count, rng) for count in (RECORDS, BANK))
    try:
        theirs = _Histogram(records, entries)
    except ImportError as error:
        print(f"  skipped: DPSDA cannot be imported ({error}); run: pip install 'canarybank[dpsda]'")
        return []
    ours = partial(_ours, records, entries)
    difference = np.abs(theirs() - ours()).max()
    assert difference < 0.01 * RECORDS * K / BANK, difference
    memory = peak_gigabytes(theirs), peak_gigabytes(ours)
    assert memory[1] <= memory[0], f"ours took {memory[1]:.2f} GB above the inputs and DPSDA {memory[0]:.2f} GB"
    # They take turns, and the least time counts: what else the machine does only ever adds.
    pairs = [(measure(theirs, repeats=1, warm=False), measure(ours, repeats=1, warm=False)) for _ in range(REPEATS)]
    literal, taken = map(min, zip(*pairs, strict=True))
    note = f"peak {memory[1]:.2f} GB above the inputs, DPSDA {memory[0]:.2f} GB"
    size = f"{RECORDS:,} records, bank {BANK:,}, {DIMENSION}-d"
    return [ratio("votes, DPSDA's histogram", size, literal, taken, 1.5, note, strict=True)]


class _Histogram:
    """DPSDA's own histogram over vectors that are there already."""

    def __init__(self, records: NDArray[np.float32], entries: NDArray[np.float32]) -> None:
        sys.path.insert(0, str(PEERS / "DPSDA"))
        import pandas as pd
        from pe.histogram import NearestNeighbors

        embedding = SimpleNamespace(column_name="vector", compute_embedding=lambda data: data)
        self._made = NearestNeighbors(
            embedding=embedding, mode="l2", lookahead_degree=0, num_nearest_neighbors=K, backend="torch"
        )
        self._private, self._public = (
            SimpleNamespace(data_frame=pd.DataFrame({"vector": list(each)})) for each in (records, entries)
        )

    def __call__(self) -> NDArray[np.float32]:
        made = self._made.compute_histogram(self._private, self._public)[1].data_frame["PE.CLEAN_HISTOGRAM"]
        return np.asarray(made)


def _ours(records: NDArray[np.float32], entries: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.bincount(route(records, entries, K).ravel(), minlength=len(entries)) / np.sqrt(K)
