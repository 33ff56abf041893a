"""What an audit of users in shards costs, at 20,000 and at 200,000 users of 32 records: time a user, and memory.

Each size is audited once in a fresh process by ``tools/scale_study.py``, which also records a million users. The first
two rows compare processor time and memory. The last row compares the time by the clock that exact figures take for 10^9
trials with that for 10^4.
"""

import sys
from pathlib import Path

import numpy as np

from harness import Result, measure, ratio

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from scale_study import MOST_MEMORY, MOST_TIME, Cost
from scale_study import measure as measure_users

FEW, MANY = 20_000, 200_000
MOST_TRIALS = 1.25


def run() -> list[Result]:
    """Audit both sizes, and compute exact figures for few and many trials."""
    return [*compare(measure_users(FEW), measure_users(MANY)), _exact_figures()]


def compare(few: Cost, many: Cost) -> list[Result]:
    """Return what a user and the memory cost at the larger size, against the smaller."""
    size = f"{many.users:,} users against {few.users:,}"
    return [
        _at_most(MOST_TIME, "CPU time of a user", size, few.per_user / 1e3, many.per_user / 1e3),
        _at_most(MOST_MEMORY, "peak memory of an audit", size, few.peak_mib, many.peak_mib, "MiB"),
    ]


def _exact_figures() -> Result:
    from canarybank.auditing import Settings, expected_bound, supremum
    from canarybank.auditing.settings import analytic
    from canarybank.mechanism import Mechanism
    from canarybank.score import RoundLaw

    mechanism = Mechanism()
    law = RoundLaw(np.random.default_rng(1).gamma(0.2, 0.01, size=1_000), 1.0, 1.0, 0.5, mechanism.q)

    def figures(trials: int) -> None:
        settings = Settings(trials=trials)
        rule = analytic(law, settings.target(mechanism, 5))
        supremum(law, mechanism.delta)
        fpr, tpr = law.point(rule.value)
        expected_bound(
            [float(tpr)], [float(fpr)], trials, delta=mechanism.delta, method=settings.method, alpha=0.05, q=mechanism.q
        )

    few, many = (measure(lambda trials=trials: figures(trials)) for trials in (10**4, 10**9))
    return _at_most(MOST_TRIALS, "exact figures", "10^9 trials against 10^4", few, many)


def _at_most(most: float, work: str, size: str, few: float, many: float, unit: str = "s") -> Result:
    """Return a row that is met where the larger size takes at most so many times what the smaller one takes."""
    note = f"{many / few:.2f} times as much, at most {most:g} promised"
    return ratio(work, size, few, many, 1 / most, note, strict=True, unit=unit)
