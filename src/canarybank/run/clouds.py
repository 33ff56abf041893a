"""Place the populations of an evolution on a map: the plane of the candidates' two principal axes.

The axes follow from the candidates alone, which are public. Real records never move them, and only a simulation may
place any.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.auditing.evidence import principal_axes, rounded
from canarybank.errors import InputError
from canarybank.evolution import Evolution, Population, Reference

__all__ = ["Cloud", "Clouds", "evenly", "map_clouds", "populations_of"]

POPULATIONS, CANDIDATES, RECORDS = 9, 120, 240
"""The most populations on a map, candidates drawn of each, and real records drawn."""
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Cloud:
    """One population on the map; ``centre`` and ``spread`` are of all its candidates, the points of some of them."""

    after: int
    """The rounds made before it: 0 for the first population."""
    candidates: int
    """Its candidates."""
    born: int
    """Those of them that the round before it wrote; none in the first population."""
    centre: tuple[float, float]
    """The mean of its candidates on the map."""
    spread: float
    """The root of their mean squared distance to it, on the map."""
    older: Points
    """Candidates that were there before."""
    new: Points
    """Candidates that the round before it wrote; in the first population all are older."""


@dataclass(frozen=True, slots=True)
class Clouds:
    """Populations of a run on one map."""

    explained: tuple[float, float]
    """The share of the candidates' variance along each axis."""
    populations: int
    """The populations of the run, of which at most nine are on the map."""
    clouds: tuple[Cloud, ...]
    """The populations on the map, the first and the last among them."""
    records: int = 0
    """The held-out users' records, in a simulation that has them."""
    real_centre: tuple[float, float] | None = None
    """The mean of all these records on the map."""
    real: Points = ()
    """Some of these records."""

    def __post_init__(self) -> None:
        drawn = [(*each.older, *each.new) for each in self.clouds]
        places = [*self.real, *(point for points in drawn for point in points), self.explained]
        places += [each.centre for each in self.clouds] + ([] if self.real_centre is None else [self.real_centre])
        spreads = [each.spread for each in self.clouds]
        if not drawn or not all(drawn) or not np.isfinite(np.array(places)).all() or not np.isfinite(spreads).all():
            raise InputError("A map of populations needs some, each with points that are finite numbers; draw it anew.")


def map_clouds(
    populations: Sequence[Population], reference: Reference | None = None, *, insecure_seed: int | None = None
) -> Clouds:
    """Return the map of a run's populations, the first one first.

    Args:
        populations: Those of every bank of the run, in order; their vectors decide the axes.
        reference: Held-out users, with vectors of the same encoder. A real run has none on its map.
        insecure_seed: The seed of the simulation that they belong to; None for a real run.

    Example:
        >>> first = Population.start(["rain", "sun", "snow"], np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]]))
        >>> found = map_clouds([first])
        >>> (found.populations, found.clouds[0].candidates)
        (1, 3)
    """
    if reference is not None and insecure_seed is None:
        raise InputError(
            "Real records cannot be placed on the map of a real run: whoever sees the map would see them. Leave the "
            "reference out, or make the run a simulation by an insecure seed."
        )
    distinct = {name: vector for each in populations for name, vector in zip(each.ids, each.vectors, strict=True)}
    known = np.array(list(distinct.values()), dtype=np.float64)
    centre = known.mean(axis=0)
    axes, explained = principal_axes(known - centre)

    def places(vectors: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((vectors.astype(np.float64) - centre) @ axes.T, dtype=np.float64)

    real = None if reference is None else places(reference.users.require_vectors())
    return Clouds(
        explained=_pair(explained),
        populations=len(populations),
        clouds=tuple(
            _cloud(after, populations[after], places(populations[after].vectors))
            for after in evenly(len(populations), POPULATIONS)
        ),
        records=0 if real is None else len(real),
        real_centre=None if real is None else _pair(real.mean(axis=0)),
        real=() if real is None else _points(real, evenly(len(real), RECORDS)),
    )


def populations_of(evolution: Evolution) -> list[Population]:
    """Return the populations of every bank of a run, the first one first."""
    voted_on = [each.population for each in evolution.rounds]
    is_last_known = bool(voted_on) and evolution.population.ids == voted_on[-1].ids
    return voted_on if is_last_known else [*voted_on, evolution.population]


def evenly(size: int, count: int) -> list[int]:
    """Return at most ``count`` indices below ``size``, evenly spaced, the first and the last among them."""
    if count >= size:
        return list(range(size))
    return [round(i * (size - 1) / max(count - 1, 1)) for i in range(count)]


def _cloud(after: int, population: Population, placed: NDArray[np.float64]) -> Cloud:
    is_new = np.array([0 < each.born == after for each in population.candidates])
    drawn = evenly(len(placed), CANDIDATES)
    centre = placed.mean(axis=0)
    return Cloud(
        after=after,
        candidates=len(placed),
        born=int(is_new.sum()),
        centre=_pair(centre),
        spread=rounded([np.sqrt(np.square(placed - centre).sum(axis=1).mean())])[0],
        older=_points(placed, [i for i in drawn if not is_new[i]]),
        new=_points(placed, [i for i in drawn if is_new[i]]),
    )


def _points(placed: NDArray[np.float64], indices: Sequence[int]) -> Points:
    return tuple(_pair(placed[i]) for i in indices)


def _pair(values: NDArray[np.float64]) -> tuple[float, float]:
    first, second = rounded(values)
    return first, second
