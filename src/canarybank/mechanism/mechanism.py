"""Hold the privacy-relevant parameters of one release."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from canarybank.errors import InputError

__all__ = ["Mechanism", "finite_number", "require_delta", "whole"]


SMALLEST, LARGEST = 1e-60, 1e60


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The parameters of a release that decide its privacy.

    Every record votes for its ``k`` nearest bank entries; a user's normalised votes are clipped to L2 norm
    ``clip``; each user takes part with probability ``q``, independently; every coordinate gets Gaussian noise of
    standard deviation ``sigma * clip``; epsilon is stated at ``delta``, for adding or removing one user. At a delta of
    0 a mechanism can be audited; its own epsilon is then infinite.
    """

    k: int = 5
    """The nearest bank entries that each record votes for."""
    clip: float = 0.1
    """The L2 norm that a user's contribution is clipped to."""
    sigma: float = 1.0
    """The noise multiplier: noise has standard deviation sigma times clip."""
    q: float = 0.1
    """Each user's probability of taking part in a release."""
    delta: float = 1e-5
    """The delta at which epsilon is stated."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole("k", self.k))
        for name in ("clip", "sigma", "q", "delta"):
            object.__setattr__(self, name, finite_number(name, getattr(self, name)))
        for name in ("clip", "sigma"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} must be positive, not {getattr(self, name)!r}; without it there is no noise.")
        if not 0 < self.q <= 1:
            raise InputError(f"q must lie in (0, 1], not be {self.q!r}; it is each user's probability of taking part.")
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must lie in [0, 1), not be {self.delta!r}; 1e-5 is the usual choice.")
        for name, value in (("sigma", self.sigma), ("clip", self.clip), ("sigma times clip", self.noise)):
            if not SMALLEST <= value <= LARGEST:
                raise InputError(
                    f"{name} must lie between {SMALLEST:g} and {LARGEST:g}, not be {value!r}: outside of that, squares "
                    "leave the range of floating point."
                )

    @property
    def noise(self) -> float:
        """Return the standard deviation of the Gaussian noise on each coordinate: sigma times clip."""
        return self.sigma * self.clip


def require_delta(delta: float, what: str) -> None:
    """Refuse a delta of 0 where a finite epsilon is asked for."""
    if delta == 0:
        raise InputError(
            f"{what} needs a delta above 0: Gaussian noise has no finite epsilon at delta = 0; set one, such as 1e-5."
        )


def whole(name: str, value: Any) -> int:
    """Return a whole number of at least 1, or say that it is none."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def finite_number(name: str, value: Any) -> float:
    """Return a finite number, or say that it is none."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise InputError(f"{name} must be a finite number, not {value!r}.")
    return float(value)
