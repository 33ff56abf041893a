"""The study of scale, and the bench that shares its limits, say so when cost grows faster than was promised."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def modules():
    places = [str(ROOT / name) for name in ("tools", "bench")]
    sys.path[:0] = places
    try:
        import scale_study

        import bench_scale

        yield scale_study, bench_scale
    finally:
        for place in places:
            sys.path.remove(place)


def costs(study, *, slower=1.0, larger=1.0):
    small = study.Cost(20_000, 8, 30.0, 20.0, 480.0, 0.3, 0.1)
    middle = replace(small, users=200_000, cpu_seconds=300.0, peak_mib=500.0)
    return [small, middle, replace(small, users=1_000_000, cpu_seconds=1500.0 * slower, peak_mib=500.0 * larger)]


@pytest.mark.parametrize(
    ("grown", "kept"),
    [
        ({}, [True, True, True]),
        ({"slower": 1.24, "larger": 1.49}, [True, True, True]),
        ({"slower": 1.26}, [False, True, True]),
        ({"larger": 1.51}, [True, False, True]),
        ({"larger": 8.2}, [True, False, False]),
    ],
)
def test_a_promise_is_broken_where_time_or_memory_grows(modules, grown, kept):
    study, _ = modules
    found = study.promises(costs(study, **grown))
    assert [each.is_kept for each in found] == kept
    assert ["BROKEN" in str(each) for each in found] == [not each for each in kept]
    assert study.promises(costs(study)[:1]) == []


@pytest.mark.parametrize(
    ("time", "memory", "met"), [(1.24, 1.49, [True, True]), (1.26, 1.0, [False, True]), (1.0, 1.51, [True, False])]
)
def test_the_bench_fails_by_the_same_limits(modules, time, memory, met):
    study, bench = modules
    few = study.Cost(20_000, 8, 30.0, 20.0, 480.0, 0.3, 0.1)
    many = replace(few, users=200_000, cpu_seconds=300.0 * time, peak_mib=480.0 * memory)
    assert [row.met for row in bench.compare(few, many)] == met
