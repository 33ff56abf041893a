"""Hold a number that is known only up to certified ends."""

from dataclasses import dataclass
from math import isnan

from canarybank.errors import InputError

__all__ = ["Interval"]


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """Two ends with the statement lower <= truth <= upper."""

    lower: float
    """The lower end."""
    upper: float
    """The upper end; null where it is infinite."""

    def __post_init__(self) -> None:
        if isnan(self.lower) or isnan(self.upper) or self.lower > self.upper:
            raise InputError(
                f"An interval needs a lower end that is at most the upper, not {self.lower}, {self.upper}."
            )

    @property
    def width(self) -> float:
        """Return the distance between the ends."""
        return self.upper - self.lower

    @property
    def midpoint(self) -> float:
        """Return the middle, a point value that is wrong by at most half of the width."""
        return self.lower + 0.5 * (self.upper - self.lower)

    def contains(self, value: float) -> bool:
        """Say whether a value lies between the ends, or on one of them."""
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        return f"[{self.lower:.7g}, {self.upper:.7g}]"
