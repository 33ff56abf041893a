"""Help to test what stands on canarybank: the neighbour test of a real evolution."""

from canarybank.testing.neighbours import (
    FixedReleases,
    Performance,
    World,
    check_neighbours,
    compare_worlds,
    perform_evolution,
    run_world,
)

__all__ = [
    "FixedReleases",
    "Performance",
    "World",
    "check_neighbours",
    "compare_worlds",
    "perform_evolution",
    "run_world",
]
