"""Help to test what stands on canarybank: checks of plug-ins, the neighbour test of a real evolution, a pytest plug-in.

Names are imported when they are first used: pytest loads ``canarybank.testing.pytest_plugin`` in every run.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
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
    )
    from canarybank.testing.plugins import (
        check_attack,
        check_encoder,
        check_engine,
        check_generator,
        check_selection,
        check_system,
    )
    from canarybank.testing.rules import check_feedback, check_keeper, check_parents

__all__ = [
    "Draw",
    "FixedReleases",
    "Performance",
    "World",
    "check_attack",
    "check_encoder",
    "check_engine",
    "check_feedback",
    "check_generator",
    "check_keeper",
    "check_method",
    "check_neighbours",
    "check_parents",
    "check_selection",
    "check_system",
    "compare_worlds",
    "perform_evolution",
    "run_world",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "conformance": ("check_method",),
        "neighbours": (
            "Draw",
            "FixedReleases",
            "Performance",
            "World",
            "check_neighbours",
            "compare_worlds",
            "perform_evolution",
            "run_world",
        ),
        "plugins": (
            "check_attack",
            "check_encoder",
            "check_engine",
            "check_generator",
            "check_selection",
            "check_system",
        ),
        "rules": (
            "check_feedback",
            "check_keeper",
            "check_parents",
        ),
    },
)
