"""Measure who would vote for a text, before it is planted, and choose decoys that draw these votes away.

Everything here is by squared distances in float32, good enough to compare candidates. Votes that count are routed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from canarybank.mechanism import Routed, RouteTable
from canarybank.users import Auxiliary

__all__ = ["Background", "background", "choose_decoys", "gaps", "least_alike", "margin", "nobody_elses"]

MARGIN = 20
"""A margin is the mean gap of so many records, those nearest to voting."""
NEAR = 400
"""Decoys are chosen against so many records, those nearest to voting for the probes."""
CHUNK = 256
STEEPEST = 30.0

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]


def gaps(table: RouteTable, vectors: Vectors, k: int) -> Vectors:
    """Return by how much each vector is farther from each record than the record's k-th base entry (records, vectors).

    Planted alone, a vector gets the vote of a record exactly where that is negative.
    """
    records = table.records
    squares = np.einsum("ij,ij->i", records, records)[:, None] + np.einsum("ij,ij->i", vectors, vectors)[None]
    return np.asarray(squares - 2.0 * (records @ vectors.T) - table.distances[:, k - 1 : k], dtype=np.float32)


class Background(NamedTuple):
    """What users would do to texts, each planted alone."""

    loudness: Floats
    """Of each text, the sum over users of the squared share of their records that vote for it: up to a factor, the
    variance that their coins put there."""
    margins: Floats
    """Of each text, how far the nearest records are from voting for it."""
    shares: Floats
    """The share of a user's records that votes for a text, of every user and text where there is one."""


def background(routed: Routed[Auxiliary], vectors: Vectors, k: int) -> Background:
    """Return what users would do to texts of these vectors, each planted alone."""
    counts = routed.cohort.users.counts
    starts = np.cumsum(counts) - counts
    loudness, margins, voting = np.empty(len(vectors)), np.empty(len(vectors)), [np.empty(0)]
    for start in range(0, len(vectors), CHUNK):
        part = slice(start, min(start + CHUNK, len(vectors)))
        found = gaps(routed.table, vectors[part], k)
        shares = np.add.reduceat(found < 0, starts, axis=0, dtype=np.float64) / counts[:, None]
        loudness[part] = np.square(shares).sum(axis=0)
        margins[part] = _smallest(found).mean(axis=0)
        voting.append(shares[shares > 0])
    return Background(loudness, margins, np.concatenate(voting))


def margin(table: RouteTable, probes: Vectors, decoys: Vectors, k: int) -> float:
    """Return how far the nearest records are from voting for any of the probes, the decoys being planted too."""
    own = gaps(table, probes, k).min(axis=1)
    if len(decoys):
        entries = np.concatenate((_within(table, k), gaps(table, decoys, k)), axis=1)
        own = own - np.partition(entries, k - 1, axis=1)[:, k - 1]
    return float(_smallest(own).mean())


def choose_decoys(table: RouteTable, probes: Vectors, decoys: Vectors, k: int, most: int) -> list[int]:
    """Return which decoys together keep the nearest records farthest from voting for the probes, one by one.

    A record that is near a probe votes for it, unless k entries are nearer. What is made small is the sum over records
    of exp((k-th entry - probe) / scale), by squared distances.
    """
    if not len(decoys):
        return []
    to_probes = gaps(table, probes, k).min(axis=1)
    near = np.argsort(to_probes, kind="stable")[:NEAR]
    part = replace(table, records=table.records[near], positions=table.positions[near], distances=table.distances[near])
    target, entries, away = to_probes[near], _within(part, k), gaps(part, decoys, k)
    scale = max(0.5 * float(np.median(np.abs(target))), float(np.finfo(np.float32).tiny))

    def risk(place: NDArray[np.floating]) -> Floats:
        return np.asarray(np.exp(np.minimum((place.T - target) / scale, STEEPEST).astype(np.float64)).T)

    with_each, free, chosen = risk(away), np.ones(len(decoys), dtype=bool), list[int]()
    for _ in range(min(most, len(decoys))):
        gain = np.maximum(risk(entries[:, -1])[:, None] - with_each, 0.0).sum(axis=0)
        best = int(np.argmax(np.where(free, gain, -1.0)))
        if gain[best] <= 0.0:
            break
        chosen.append(best)
        free[best] = False
        entries = np.sort(np.column_stack((entries, away[:, best])), axis=1)[:, :k]
    return chosen


def nobody_elses(records: Vectors, probes: Vectors, decoys: Vectors, k: int) -> Sequence[int]:
    """Return the decoys that every record is farther from than from its k nearest probes, so that none takes a vote."""
    own = np.square(records[:, None].astype(np.float64) - probes[None]).sum(axis=2)
    own = np.sort(own, axis=1)[:, min(k, len(probes)) - 1]
    to = np.square(records[:, None].astype(np.float64) - decoys[None]).sum(axis=2)
    return [int(place) for place in np.flatnonzero((to > own[:, None] + 1e-9).all(axis=0))]


def _within(table: RouteTable, k: int) -> Vectors:
    """Return how much nearer than the k-th each of a record's k base entries is."""
    return np.asarray(table.distances[:, :k] - table.distances[:, k - 1 : k], dtype=np.float32)


def _smallest(values: Vectors) -> Vectors:
    few = min(MARGIN, len(values))
    return np.partition(values, few - 1, axis=0)[:few]


def least_alike(votes: NDArray[np.int64], count: int) -> list[int]:
    """Return at most ``count`` rows of votes, chosen one by one so that each shares least with those before it."""
    taken, left, chosen = (
        np.zeros(int(votes.max(initial=0)) + 1, dtype=np.int64),
        np.ones(len(votes), bool),
        list[int](),
    )
    while left.any() and len(chosen) < count:
        shared = np.where(left, taken[votes].sum(axis=1), np.iinfo(np.int64).max)
        best = int(np.argmin(shared))
        left[best] = False
        taken[votes[best]] += 1
        chosen.append(best)
    return chosen
