"""Hold the exact law of one round's score, with the canary absent, included and eligible."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score.cumulants import EPS, NoisySum
from canarybank.score.linear import LinearScore
from canarybank.score.tails import Bounds, Tails

__all__ = ["Rates", "RoundLaw"]

FARTHEST = 1e9


class Rates(NamedTuple):
    """Certified ends of the four rates of the rule "score > threshold"."""

    fpr: Bounds
    tpr: Bounds
    tnr: Bounds
    fnr: Bounds


@dataclass(frozen=True, eq=False)
class RoundLaw:
    """The law of one round's llr: sum I_u w_u + N(0, noise²) - offset, plus shift when the canary participates.

    All coins, the canary's among them, have probability q. A score that ignores the release has no noise, no weights
    and no shift: it is constantly -offset.
    """

    weights: NDArray[np.float64]
    noise: float
    shift: float
    offset: float
    q: float

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64)
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        if not (np.isfinite(self.shift) and np.isfinite(self.offset)):
            raise InputError(f"Shift and offset must be finite numbers, not {self.shift} and {self.offset}.")
        if self.noise == 0.0 and not weights.any() and self.shift == 0.0:
            return
        NoisySum.of(weights, self.q, self.noise)

    @classmethod
    def perfect(cls, mechanism: Mechanism) -> "RoundLaw":
        """Return the law of a canary alone on quiet coordinates with a contribution of norm clip: mu_eff = 1/sigma."""
        mu = 1.0 / mechanism.sigma
        return cls(np.empty(0), mu, mu * mu, 0.5 * mu * mu, mechanism.q)

    @classmethod
    def of(cls, score: LinearScore, contributions: Any, canary: ArrayLike, mechanism: Mechanism) -> "RoundLaw":
        """Return the law of a score over the users whose restricted contributions are given, canary not among them."""
        own = np.asarray(canary, dtype=np.float64)
        if own.shape != score.weights.shape:
            raise InputError(
                f"The canary's contribution has shape {own.shape}, but the score has {score.weights.size} inspected "
                f"coordinates; restrict it to those."
            )
        noise = float(np.linalg.norm(score.weights)) * mechanism.noise
        return cls(score.project(contributions), noise, float(score.weights @ own), score.offset, mechanism.q)

    def repeated(self, eligible: int) -> "RoundLaw":
        """Return the law over ``eligible`` users, made by repeating the users of this one in turn."""
        return replace(self, weights=np.resize(self.weights, eligible))

    @property
    def silent(self) -> bool:
        """Say whether the score ignores the release."""
        return self.noise == 0.0

    @property
    def blind(self) -> bool:
        """Say whether the canary's participation leaves the law as it is, so that no threshold tells anything."""
        return self.shift == 0.0

    @property
    def idle(self) -> float:
        """Return the probability that an eligible canary does not take part."""
        return 1.0 - self.q

    @property
    def resolution(self) -> float:
        """Return the distance of thresholds below which the ends of the rates get no tighter."""
        return 0.0

    @cached_property
    def background(self) -> NoisySum:
        """Return the law of the score with the canary absent, but for the offset; a silent score has none."""
        return NoisySum.of(self.weights, self.q, self.noise)

    @cached_property
    def _tails(self) -> Tails:
        return Tails(self.background)

    def _both(self, llr: ArrayLike, shift: float) -> tuple[Bounds, Bounds]:
        places = np.asarray(llr, dtype=np.float64) + (self.offset - shift)
        if self.silent:
            above = (places < 0.0).astype(np.float64)
            return Bounds(above, above), Bounds(1.0 - above, 1.0 - above)
        return self._tails.both(places)

    def absent(self, llr: ArrayLike) -> Bounds:
        """Return ends of P(score > llr) when the canary is absent."""
        return self._both(llr, 0.0)[0]

    def included(self, llr: ArrayLike) -> Bounds:
        """Return ends of P(score > llr) when the canary surely participates."""
        return self._both(llr, self.shift)[0]

    def eligible(self, llr: ArrayLike) -> Bounds:
        """Return ends of P(score > llr) when the canary participates by a coin of q."""
        return _blend(self.absent(llr), self.included(llr), self.q)

    def rates(self, llr: ArrayLike) -> Rates:
        """Return ends of the four rates of "score > llr", the canary absent against eligible."""
        above, below = self._both(llr, 0.0)
        included_above, included_below = self._both(llr, self.shift)
        return Rates(above, _blend(above, included_above, self.q), below, _blend(below, included_below, self.q))

    def point(self, llr: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the middles of the false and true positive rate."""
        absent, eligible = self.absent(llr), self.eligible(llr)
        return 0.5 * (absent.lower + absent.upper), 0.5 * (eligible.lower + eligible.upper)

    def reach(self, mass: float) -> tuple[float, float]:
        """Return llrs lo < hi outside of which the score falls, on each side, with probability at most ``mass``.

        It holds whether the canary participates or not, unless the law is so hard to resolve that they would lie
        farther than 1e9 standard deviations.
        """
        if self.silent:
            return -self.offset - 1.0, -self.offset + 1.0
        law, scale = self._tails.law, float(np.ldexp(1.0, self._tails.law.exponent))
        centre, deviation = law.mean * scale, law.deviation * scale
        z = 1.0
        while z < FARTHEST and max(self._escaping(centre, z * deviation)) > mass:
            z *= 1.1
        low, high = centre - z * deviation - self.offset, centre + z * deviation - self.offset
        return low + min(0.0, self.shift), high + max(0.0, self.shift)

    def _escaping(self, centre: float, distance: float) -> tuple[float, float]:
        below = self._tails.both(centre - distance)[1].upper
        return float(self._tails.upper(centre + distance).upper), float(below)


def _blend(absent: Bounds, included: Bounds, q: float) -> Bounds:
    lower = ((1.0 - q) * absent.lower + q * included.lower) * (1.0 - 4.0 * EPS)
    upper = ((1.0 - q) * absent.upper + q * included.upper) * (1.0 + 4.0 * EPS)
    return Bounds(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))
