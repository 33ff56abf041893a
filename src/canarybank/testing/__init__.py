"""Help to test what stands on canarybank: the neighbour test of a real evolution, checks of plug-ins."""

from canarybank.testing.conformance import check_method
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
    "check_method",
    "check_neighbours",
    "compare_worlds",
    "perform_evolution",
    "run_world",
    "scripted_draws",
]
