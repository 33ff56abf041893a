from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canarybank.mechanism.scan import LARGEST_SINGLE_NORM, Scan, parts, precision
from canarybank.mechanism.vectors import norms, squared_distances


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 200),
    st.integers(-15, 15),
    st.integers(-15, 15),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32 - 1),
)
def test_margin_bounds_the_error_of_every_score(
    dimension: int, records_power: int, entries_power: int, given_type: Any, scan_type: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    records = (rng.normal(size=(4, dimension)) * 10.0**records_power).astype(given_type)
    entries = (rng.normal(size=(6, dimension)) * 10.0**entries_power).astype(given_type)
    scan = Scan.of(entries, scan_type)
    scores, margin = scan.scores(records), scan.margin(norms(records))
    for i, j in np.ndindex(4, 6):
        squares = sum(Fraction(float(v)) ** 2 for v in records[i])
        defined = squared_distances(records, entries, np.array([i]), np.array([j]))[0]
        assert abs(Fraction(float(scores[i, j])) - (Fraction(float(defined)) - squares)) <= Fraction(float(margin[i]))


def test_margin_is_of_the_order_of_rounding() -> None:
    # A margin that is far too wide would be safe and slow: for unit vectors of 384 dimensions it is about 1e-4.
    entries = np.eye(384, dtype=np.float32)
    margin = Scan.of(entries, np.float32).margin(np.ones(1))[0]
    assert 384 * 2**-24 * 3 < margin < 2 * 384 * 2**-24 * 3


def test_filling_is_never_near() -> None:
    scan = Scan.of(np.ones((5, 2)), np.float32, multiple=4)
    scores = scan.scores(np.ones((3, 2)))
    assert scores.shape == (3, 8)
    assert (scores[:, 5:] > np.finfo(np.float32).max / 4).all()
    assert (scores[:, :5] < LARGEST_SINGLE_NORM**2).all()
    assert np.finfo(np.float32).max / 4 > 8 * LARGEST_SINGLE_NORM**2


def test_scores_use_the_room_they_are_offered() -> None:
    scan, room = Scan.of(np.ones((5, 2)), np.float32), np.empty((9, 5), dtype=np.float32)
    scores = scan.scores(np.ones((3, 2), dtype=np.float32), room)
    assert np.shares_memory(scores, room)
    assert np.array_equal(scores, np.full((3, 5), -2.0))


@pytest.mark.parametrize(
    ("length", "scale", "dimension", "expected"),
    [
        (1.0, 1.0, 4, np.float32),
        (1e19, 1.0, 4, np.float64),
        (1.0, 1e19, 4, np.float64),
        (1.0, 1.0, 100_000, np.float64),
    ],
)
def test_precision_is_single_only_where_it_is_safe(length: float, scale: float, dimension: int, expected: type) -> None:
    assert precision(np.array([length]), np.full((1, dimension), scale / dimension**0.5)) is expected


def test_parts_cover_every_row_once() -> None:
    for rows, columns in ((1, 1), (10, 1 << 23), (1000, 100_000), (5, 1 << 25)):
        slices = list(parts(rows, columns))
        assert [i for part in slices for i in range(part.start, part.stop)] == list(range(rows))
        assert all((part.stop - part.start) * columns <= max(1 << 23, columns) for part in slices)


@pytest.mark.parametrize(("at_once", "rows"), [(1, 100), (2, 100), (5, 40), (16, 12), (1_000, 1)])
def test_many_tables_at_once_hold_no_more_than_two(at_once, rows):
    slices = list(parts(1_000, 10, 1_000, at_once=at_once))
    assert slices[0] == slice(0, rows)
    assert [part.stop for part in slices[:-1]] == [part.start for part in slices[1:]]
    assert slices[-1].stop == 1_000
