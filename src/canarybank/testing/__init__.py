"""Help to test what stands on canarybank: the neighbour test of a real evolution."""

from canarybank.testing.neighbours import (
    Draw,
    FixedReleases,
    Performance,
    World,
    check_neighbours,
    compare_worlds,
    perform_evolution,
    run_world,
    scripted_draws,
)

__all__ = [
    "Draw",
    "FixedReleases",
    "Performance",
    "World",
    "check_neighbours",
    "compare_worlds",
    "perform_evolution",
    "run_world",
    "scripted_draws",
]
