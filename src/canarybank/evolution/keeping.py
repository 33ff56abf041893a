"""Decide which candidates stay after a round, from their noisy votes.

A keeper is called with a ``Choice``, which holds public values only, and answers with ``Kept``. So whatever it does is
post-processing of the release. Probes of an auditor, and entries that vetting barred, are not among its candidates.
"""

import contextlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import CanarybankError, InputError
from canarybank.mechanism.mechanism import finite_number
from canarybank.seeds import stream

__all__ = [
    "Choice",
    "KeepAboveNoise",
    "KeepByVotes",
    "KeepClusters",
    "KeepProjected",
    "KeepTop",
    "Keeper",
    "Kept",
    "apply_keeper",
    "describe",
    "draw_by_weight",
    "naming_errors_of",
    "positive_part",
    "project",
    "top",
]

Floats = NDArray[np.float64]
_MOST = 8192


@dataclass(frozen=True, eq=False)
class Choice:
    """What a keeper sees: the candidates' noisy votes, vectors and labels, and how many may stay.

    ``noise`` is the standard deviation of the noise on each vote, ``size`` the most candidates that stay. ``round`` and
    ``seed`` name the public random stream that a keeper may draw from.
    """

    votes: Floats
    vectors: NDArray[np.float32]
    labels: tuple[str, ...]
    noise: float
    size: int
    round: int = 0
    seed: int = 0

    def stream(self, *path: str | int) -> np.random.Generator:
        """Return the public random stream of this round at a path."""
        return stream(self.seed, "evolve", "keeper", self.round, *path)


@dataclass(frozen=True, eq=False)
class Kept:
    """Who stays: indices of candidates, the most wanted first, and a weight for each, which is never negative.

    Parent rules and samples draw in proportion to the weights.
    """

    indices: NDArray[np.int64]
    weights: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", np.asarray(self.indices, dtype=np.int64).reshape(-1))
        object.__setattr__(self, "weights", np.asarray(self.weights, dtype=np.float64).reshape(-1))


class Keeper(Protocol):
    """A rule that decides who stays."""

    def __call__(self, choice: Choice) -> Kept:
        """Return at least one candidate and at most ``choice.size``; the same choice gives the same ones."""


def apply_keeper(keeper: Keeper, choice: Choice) -> Kept:
    """Return what a keeper decides, or say what is wrong with it.

    Args:
        keeper: The rule.
        choice: What it sees.

    Example:
        >>> import numpy as np
        >>> from canarybank.evolution import KeepTop
        >>> choice = Choice(np.array([0.1, 0.9, 0.5]), np.eye(3, dtype=np.float32), ("", "", ""), noise=0.1, size=2)
        >>> apply_keeper(KeepTop(), choice).indices.tolist()
        [1, 2]
    """
    with naming_errors_of("keeper", keeper):
        kept = keeper(choice)
    name = f"The keeper {describe(keeper)['rule']!r}"
    if not isinstance(kept, Kept):
        raise InputError(f"{name} returned a {type(kept).__name__}; return a canarybank.evolution.Kept.")
    indices, weights = kept.indices, kept.weights
    if not 1 <= len(indices) <= choice.size:
        raise InputError(f"{name} kept {len(indices)} candidates; keep at least 1 and at most {choice.size}.")
    if len(set(indices.tolist())) != len(indices) or indices.min() < 0 or indices.max() >= len(choice.votes):
        raise InputError(f"{name} must keep different candidates from 0 to {len(choice.votes) - 1}.")
    if weights.shape != indices.shape or not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(f"{name} must give each kept candidate a finite weight of at least 0.")
    return kept


@contextlib.contextmanager
def naming_errors_of(kind: str, rule: Callable[..., Any]) -> Iterator[None]:
    """Say of an error which rule raised it; an error of one of canarybank's own rules stays as it is."""
    try:
        yield
    except (CanarybankError, MemoryError):
        raise
    except Exception as error:
        if str(getattr(rule, "__module__", "")).partition(".")[0] == "canarybank":
            raise
        what = ": ".join(filter(None, (type(error).__name__, str(error).rstrip("."))))
        raise InputError(
            f"The {kind} {describe(rule)['rule']!r} raised {what}. It is not one of canarybank's own: correct its code "
            "and run the same command again. What was released before is kept, and is not released again."
        ) from error


def describe(rule: Callable[..., Any]) -> dict[str, Any]:
    """Return what decides a rule's answers; of a rule of your own without ``settings``, its name."""
    settings = getattr(rule, "settings", None)
    if callable(settings):
        return dict(settings())
    name = getattr(rule, "__qualname__", type(rule).__qualname__)
    return {"rule": f"{getattr(rule, '__module__', '')}.{name}"}


def top(votes: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return the indices of the ``count`` largest votes, largest first, ties to the lowest index.

    Args:
        votes: Noisy votes.
        count: How many stay.

    Example:
        >>> top([0.1, 0.9, 0.5], 2).tolist()
        [1, 2]
    """
    values = np.asarray(votes, dtype=np.float64)
    if not 1 <= count <= len(values):
        raise InputError(f"{count} candidates cannot stay of {len(values)}; keep at least one and at most all.")
    return np.argsort(-values, kind="stable")[:count].astype(np.int64)


def positive_part(votes: ArrayLike) -> Floats:
    """Return the votes with 0 in place of negative ones."""
    return np.maximum(np.asarray(votes, dtype=np.float64), 0.0)


def draw_by_weight(rng: np.random.Generator, weights: ArrayLike, count: int) -> NDArray[np.int64]:
    """Draw ``count`` different indices one after another, each in proportion to the weights that are left.

    Where fewer weights are positive, the rest comes from the others with equal probability. Exponential variables
    divided by the weights, in ascending order, are such draws (Efraimidis and Spirakis 2006).
    """
    values = np.asarray(weights, dtype=np.float64)
    clocks = rng.exponential(size=len(values))
    with np.errstate(divide="ignore"):
        rings = np.where(values > 0, clocks / values, np.inf)
    return np.lexsort((clocks, rings))[:count].astype(np.int64)


def project(votes: ArrayLike, total: float) -> Floats:
    """Return the histogram nearest to the votes that is never negative and has this total.

    That is the Euclidean projection onto a simplex: every vote less one and the same number, and 0 where that is
    negative. A total that is not positive gives zeros.

    The formula: the projection onto a simplex of Duchi et al. (2008, https://doi.org/10.1145/1390156.1390191).

    Args:
        votes: Noisy votes.
        total: What the histogram shall add up to.

    Example:
        >>> project([3.0, 2.0, -2.0], 2.0).tolist()
        [1.5, 0.5, 0.0]
    """
    values = np.asarray(votes, dtype=np.float64)
    if total <= 0:
        return np.zeros_like(values)
    ordered = -np.sort(-values)
    # With the i largest left, all of them lose the same so that they sum to the total.
    losses = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    loss = losses[np.flatnonzero(ordered > losses)[-1]]
    return positive_part(values - loss)


@dataclass(frozen=True)
class KeepTop:
    """Keep the candidates with the most votes: the paper's rule."""

    def __call__(self, choice: Choice) -> Kept:
        """Return the ``size`` largest votes."""
        return _weighed(top(choice.votes, choice.size), positive_part(choice.votes))

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "top"}


@dataclass(frozen=True)
class KeepByVotes:
    """Draw who stays without replacement, in proportion to the positive part of the votes."""

    def __call__(self, choice: Choice) -> Kept:
        """Return at most ``size`` drawn candidates, most votes first."""
        weights = positive_part(choice.votes)
        drawn = draw_by_weight(choice.stream("votes"), weights, min(choice.size, max(1, int((weights > 0).sum()))))
        return _weighed(drawn[np.argsort(-choice.votes[drawn], kind="stable")], weights)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "votes"}


@dataclass(frozen=True)
class KeepAboveNoise:
    """Keep votes above ``threshold`` standard deviations of the noise, at most ``size``, and one at least.

    Weights are what the votes have above the threshold.
    """

    threshold: float = 2.0

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def __call__(self, choice: Choice) -> Kept:
        """Return the largest votes above the threshold."""
        return _largest(_above(choice, self.threshold), choice)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "threshold", "threshold": self.threshold}


@dataclass(frozen=True)
class KeepProjected:
    """Project the noisy votes onto the histograms with the same total and no negative vote, and keep the largest.

    Where many users vote, the noise is small beside the total of all votes. So the projection takes off each vote about
    as much as the noise adds to the positive ones. Where few vote, the total is as noisy as the votes, and the rule may
    keep one candidate only.
    """

    def __call__(self, choice: Choice) -> Kept:
        """Return the largest of what the projection leaves, at most ``size`` and one at least."""
        return _largest(project(choice.votes, float(choice.votes.sum())), choice)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "projection"}


@dataclass(frozen=True)
class KeepClusters:
    """Keep candidates near which all votes above the noise lie, so that a minority far from the others stays too.

    It is a greedy search for medoids. A vote (above ``threshold`` standard deviations of the noise) counts by the
    cosine of its candidate with the nearest kept one, and each step keeps the candidate that adds most. Weights are the
    votes of each kept candidate's cluster. Of more than 8,192 votes above the noise the largest so many count.
    """

    threshold: float = 2.0

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)

    def __call__(self, choice: Choice) -> Kept:
        """Return the medoids in the order in which the search finds them."""
        votes = _above(choice, self.threshold)
        loud = np.sort(top(votes, min(int((votes > 0).sum()), _MOST))) if votes.any() else np.empty(0, dtype=np.int64)
        if len(loud) <= 1:
            return _largest(votes, choice)
        lengths = np.linalg.norm(choice.vectors[loud], axis=1, keepdims=True)
        vectors = (choice.vectors[loud] / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        medoids, owners = _medoids(vectors @ vectors.T, votes[loud], choice.size)
        weights = np.bincount(owners, weights=votes[loud], minlength=len(medoids)).astype(np.float64)
        return Kept(loud[medoids].astype(np.int64), weights)

    def settings(self) -> dict[str, Any]:
        """Return what decides this rule's answers."""
        return {"rule": "clusters", "threshold": self.threshold}


def _medoids(cosines: NDArray[np.float32], votes: Floats, count: int) -> tuple[list[int], NDArray[np.int64]]:
    """Return at most ``count`` medoids by greedy search, and for each row the number of its nearest medoid.

    What a candidate adds only falls as others are kept, so only those whose last known gain leads are computed again.
    """
    rows = np.arange(len(votes))
    covered = np.zeros(len(votes))
    owners = np.zeros(len(votes), dtype=np.int64)
    nearest = np.full(len(votes), -np.inf)

    def gain(index: int) -> float:
        return float(votes @ np.maximum(cosines[index] - covered, 0.0))

    heap = [(-gain(index), index, 0) for index in rows.tolist()]
    heapq.heapify(heap)
    medoids: list[int] = []
    while heap and len(medoids) < count:
        _, index, computed = heapq.heappop(heap)
        if computed < len(medoids):
            heapq.heappush(heap, (-gain(index), index, len(medoids)))
            continue
        near = cosines[index].astype(np.float64)
        owners = np.where(near > nearest, len(medoids), owners)
        owners[index] = len(medoids)
        nearest = np.maximum(nearest, near)
        nearest[index] = np.inf
        covered = np.maximum(covered, near)
        medoids.append(index)
    return medoids, owners


def _above(choice: Choice, threshold: float) -> Floats:
    return positive_part(choice.votes - threshold * choice.noise)


def _largest(weights: Floats, choice: Choice) -> Kept:
    """Keep the largest positive weights, at most ``size``; where none is positive, the candidate with most votes."""
    count = min(choice.size, int((weights > 0).sum()))
    return _weighed(top(weights, count) if count else top(choice.votes, 1), weights)


def _weighed(indices: Sequence[int] | NDArray[np.int64], weights: Floats) -> Kept:
    chosen = np.asarray(indices, dtype=np.int64)
    return Kept(chosen, weights[chosen])


def _check_threshold(threshold: float) -> None:
    if finite_number("threshold", threshold) < 0:
        raise InputError(
            f"threshold must be at least 0, not {threshold!r}: it counts standard deviations of the noise."
        )
