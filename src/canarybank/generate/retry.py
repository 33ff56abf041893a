"""Decide whether a request is tried again, and when."""

import random
import time
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz

from canarybank.errors import InputError

__all__ = ["Retry", "retry_after"]

_JITTER = 0.25


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a request is tried, and how long is waited in between.

    The wait doubles from ``first`` seconds up to ``longest``, a random quarter less so that requests spread;
    a server's Retry-After is waited for in full, and given up at once where it is longer than ``patience``.
    """

    attempts: int = 6
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InputError(f"A request must be tried at least once, not {self.attempts} times.")
        if not (0 <= self.first <= self.longest and self.patience >= 0):
            raise InputError(f"Waits must satisfy 0 <= first <= longest, not {self.first} and {self.longest} seconds.")

    def wait(self, attempt: int, asked: float | None = None) -> float | None:
        """Return the seconds to wait after that many attempts, or None to give up."""
        if attempt >= self.attempts or (asked is not None and asked > self.patience):
            return None
        backoff = min(self.first * 2.0 ** min(attempt - 1, 60), self.longest)
        jittered = backoff * (1 - _JITTER * random.random())  # noqa: S311, spreads requests, guards nothing
        return jittered if asked is None else max(asked, 0.0)


def retry_after(value: str | None, now: float | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for, given in seconds or as a date; None for nonsense."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        parsed = parsedate_tz(value)
        if parsed is None:
            return None
        try:
            seconds = mktime_tz(parsed) - (time.time() if now is None else now)
        except (OverflowError, ValueError):
            return None
    return max(seconds, 0.0) if seconds == seconds else None  # noqa: PLR0124, a NaN differs from itself
