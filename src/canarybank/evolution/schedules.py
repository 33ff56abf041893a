"""Hold schedules: a setting that is one number for all rounds, or one number for each round."""

import math
from collections.abc import Sequence

from canarybank.errors import InputError

__all__ = ["Schedule", "at_round", "check_schedule"]

Schedule = float | tuple[float, ...]
"""A number for every round, or one for each round from the first on; the last one repeats."""


def at_round(schedule: Schedule, round_number: int) -> float:
    """Return what a schedule says of a round; rounds count from 0."""
    if not isinstance(schedule, tuple):
        return schedule
    return schedule[min(round_number, len(schedule) - 1)]


def check_schedule(
    name: str, schedule: float | Sequence[float], low: float, high: float, *, above: bool = False
) -> Schedule:
    """Return a schedule whose numbers all lie from ``low`` (or ``above`` it) to ``high``; one number stays a number."""
    numbers = tuple(schedule) if isinstance(schedule, Sequence) else (schedule,)
    if not numbers:
        raise InputError(f"{name} has no value; give one number, or one for each round.")
    for number in numbers:
        if not math.isfinite(number) or not low <= number <= high or (above and number == low):
            raise InputError(f"{name} must lie in {'(' if above else '['}{low:g}, {high:g}], not be {number!r}.")
    return numbers if len(numbers) > 1 else numbers[0]
