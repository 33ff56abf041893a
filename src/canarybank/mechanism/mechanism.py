"""Hold the privacy-relevant parameters of one release."""

import math
from dataclasses import asdict, dataclass, replace
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

    ``share`` and ``entry_cap`` are defences. Neither changes epsilon. Whatever set of entries a user may vote for, and
    however the votes are capped, the last step clips what is left to norm ``clip``: so given the sets of all users, two
    neighbouring sums differ by a vector of norm at most ``clip``, by chance q, and the accounting holds as it stands.
    The sets are drawn independently of everything else, so it holds on average over them too, by joint convexity of
    the hockey-stick divergence.
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
    share: float = 1.0
    """The probability with which each entry is in a user's secret set; at every release each user draws a new set, and
    their records vote for the nearest entries in it. At 1 users vote over the whole bank."""
    entry_cap: float | None = None
    """The most that one entry gets of a user's votes, which sum to 1, before they are clipped; None for no cap."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole("k", self.k))
        for name in ("clip", "sigma", "q", "delta", "share"):
            object.__setattr__(self, name, finite_number(name, getattr(self, name)))
        for name in ("clip", "sigma"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} must be positive, not {getattr(self, name)!r}; without it there is no noise.")
        if not 0 < self.q <= 1:
            raise InputError(f"q must lie in (0, 1], not be {self.q!r}; it is each user's probability of taking part.")
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must lie in [0, 1), not be {self.delta!r}; 1e-5 is the usual choice.")
        self._check_defences()
        for name, value in (("sigma", self.sigma), ("clip", self.clip), ("sigma times clip", self.noise)):
            if not SMALLEST <= value <= LARGEST:
                raise InputError(
                    f"{name} must lie between {SMALLEST:g} and {LARGEST:g}, not be {value!r}: outside of that, squares "
                    "leave the range of floating point."
                )

    def _check_defences(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(
                f"share must lie in (0, 1], not be {self.share!r}; it is the share of the bank that each user may vote "
                "for, and 1 is the whole bank."
            )
        if self.entry_cap is not None:
            object.__setattr__(self, "entry_cap", finite_number("entry_cap", self.entry_cap))
            if not SMALLEST <= self.entry_cap <= 1:
                raise InputError(
                    f"entry_cap must lie in (0, 1], not be {self.entry_cap!r}; it is the most that one entry gets of a "
                    "user's votes, which sum to 1."
                )

    @property
    def noise(self) -> float:
        """Return the standard deviation of the Gaussian noise on each coordinate: sigma times clip."""
        return self.sigma * self.clip

    @property
    def defence_text(self) -> str:
        """Return the defences that are on, as they follow the other parameters in a line; nothing where all are off."""
        share = "" if self.share == 1 else f", secret share {self.share:g}"
        return share + ("" if self.entry_cap is None else f", entry cap {self.entry_cap:g}")

    @property
    def whole_bank(self) -> "Mechanism":
        """Return the mechanism in which every user votes over the whole bank, without secret sets."""
        return self if self.share == 1 else replace(self, share=1.0)

    def to_json(self) -> dict[str, Any]:
        """Return the parameters as plain values, without the defences that are off: as documents hold them.

        So documents, hashes and cache keys are the same as before there were defences.
        """
        return {name: value for name, value in asdict(self).items() if name not in _OFF or value != _OFF[name]}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let pydantic write what ``to_json`` returns; it reads a mechanism as it reads any dataclass."""
        return {
            **handler(source),
            "serialization": {"type": "function-plain", "function": lambda given: given.to_json()},
        }


_OFF = {"share": 1.0, "entry_cap": None}


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
