"""Learn the direction and the covariance of a score from releases alone, the canary absent against eligible.

Rounds and labels are joined as coordinates, so that what they share is seen: noise that several coordinates or rounds
have in common, or a sample of fixed size, is a correlation, and the direction of least noise uses it.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from canarybank.errors import InputError
from canarybank.score.moments import Moments

__all__ = ["Covariance", "fit_moments", "shrunk_correlation", "widened"]

Covariance = Literal["auto", "full", "diagonal", "scalar"]
Array = NDArray[np.float64]

FULL_RUNS = 2.0
"""A full covariance is estimated from at least so many degrees of freedom a coordinate."""
DIAGONAL_RUNS = 20
"""A variance for each coordinate is estimated from at least so many degrees of freedom."""
ROUNDING = 1e-12
"""A coordinate that varies by less than this share of its size is constant."""
NEGLIGIBLE = 1e-6
"""A direction that varies by less than this share of the largest one carries no noise."""
FLOOR = 1e-10
"""The variance, as a share of the largest, that stands for none: 100,000 standard deviations in one step."""
WIDER, WIDENED_RUNS = 2.0, 50
"""A direction is taken for widened where its variance grows so many times more than chance lets any direction grow;
this is looked for in so many runs of each group at least."""


def fit_moments(absent: ArrayLike, eligible: ArrayLike, covariance: Covariance = "auto") -> tuple[Array, Moments]:
    """Return the mean difference that an eligible canary makes, and the moments of the release without it.

    The covariance is pooled within the two groups, so it is of n0 + n1 - 2 degrees of freedom. ``"full"`` shrinks its
    correlations towards zero by the share of their squares that sampling error explains (Ledoit and Wolf 2004; the
    form for correlations is that of Schäfer and Strimmer 2005, https://doi.org/10.2202/1544-6115.1175). ``"diagonal"``
    keeps the variances alone, ``"scalar"`` their mean. ``"auto"`` takes the full one from two degrees of freedom
    a coordinate on, else the diagonal one from 20 on, else the scalar.

    Where the releases leave a direction without any noise, and the two means differ in it, ``"auto"`` and ``"full"``
    give that direction (nearly) all the weight. A sample is believed on this when the residuals span fewer dimensions
    than they have degrees of freedom, so that one more run would have stayed in their span.

    A canary that takes part by a coin may widen the releases far more than it moves their mean: where rounds share
    their noise, their difference has none, and the mean of that difference does not tell. Where ``"auto"`` finds such a
    direction (see `widened`), it is the score's, and the canary's contribution is the deviation that it adds there.

    Args:
        absent: Releases without the canary, one a row.
        eligible: Releases with an eligible canary, one a row, on the same coordinates.
        covariance: The form of the covariance.
    """
    if covariance not in get_args(Covariance):
        raise InputError(f"The covariance must be one of {', '.join(get_args(Covariance))}, not {covariance!r}.")
    without, with_canary = _table("absent", absent), _table("eligible", eligible)
    if without.shape[1] != with_canary.shape[1]:
        raise InputError(
            f"The absent releases have {without.shape[1]} coordinates and the eligible ones {with_canary.shape[1]}; "
            "a score needs the same ones in both."
        )
    mean = without.mean(axis=0)
    direction = widened(without, with_canary) if covariance == "auto" else None
    if direction is not None:
        along, canary_along = (table @ direction for table in (without, with_canary))
        least = FLOOR * float(canary_along.var())
        added = float(np.sqrt(canary_along.var() - along.var()))
        return added * direction, Moments(mean, max(float(along.var()), least) * np.eye(len(mean)))
    shift = with_canary.mean(axis=0) - mean
    residuals = np.concatenate([without - mean, with_canary - with_canary.mean(axis=0)])
    size = np.maximum(np.abs(without).max(axis=0), np.abs(with_canary).max(axis=0))
    freedom = len(residuals) - 2

    deviation = np.sqrt((residuals**2).sum(axis=0) / freedom)
    constant = deviation <= ROUNDING * size
    residuals[:, constant] = 0.0
    shift[np.abs(shift) <= ROUNDING * size] = 0.0
    scale = np.where(constant, np.where(shift != 0.0, np.abs(shift), 1.0), deviation)
    correlation = _correlation(residuals / scale, shift / scale, constant, covariance)
    if covariance == "scalar" or (covariance == "auto" and correlation is None and freedom < DIAGONAL_RUNS):
        spread = float((deviation[~constant] ** 2).mean()) if not constant.all() else 1.0
        scale = np.where(constant, scale, np.sqrt(spread))
    matrix = np.diag(np.where(constant & (shift != 0.0), FLOOR, 1.0)) if correlation is None else correlation
    return shift, Moments(mean, matrix * np.outer(scale, scale))


def widened(absent: Array, eligible: Array) -> Array | None:
    """Return the unit direction in which an eligible canary widens releases most; None where chance explains it.

    Of two samples of the same Gaussian law, the largest ratio of variances over all directions tends to the upper edge
    of Wachter's law (1980). A direction counts from `WIDER` times that on. It points to where the longer tail of the
    eligible releases lies. It takes 50 runs in each group, and two a coordinate.
    """
    coordinates = absent.shape[1]
    if min(len(absent), len(eligible)) < max(WIDENED_RUNS, FULL_RUNS * coordinates) or coordinates < 2:  # noqa: PLR2004, one is no choice
        return None
    scale = np.maximum(absent.std(axis=0), eligible.std(axis=0))
    kept = scale > ROUNDING * np.maximum(np.abs(absent).max(axis=0), np.abs(eligible).max(axis=0))
    if not kept.any():
        return None
    first, second = ((table[:, kept] - table[:, kept].mean(axis=0)) / scale[kept] for table in (absent, eligible))
    narrow, wide = (table.T @ table / len(table) for table in (first, second))
    narrow += FLOOR * np.eye(len(narrow))
    ratios, directions = eigh(wide, narrow)
    a, b = len(narrow) / len(absent), len(narrow) / len(eligible)
    if ratios[-1] <= WIDER * ((1 + np.sqrt(a + b - a * b)) / (1 - a)) ** 2:
        return None
    found = np.zeros(coordinates)
    found[kept] = directions[:, -1] / scale[kept]
    found /= np.linalg.norm(found)
    tail = float((((eligible - absent.mean(axis=0)) @ found) ** 3).sum())
    return found if tail >= 0 else -found


def _correlation(residuals: Array, shift: Array, constant: NDArray[np.bool_], covariance: Covariance) -> Array | None:
    """Return the correlations of standardised residuals, or none where the coordinates are taken one by one."""
    if covariance in {"diagonal", "scalar"}:
        return None
    freedom, coordinates = len(residuals) - 2, len(shift)
    free = _noise_free(residuals, shift)
    if free is not None:
        return free
    if covariance == "auto" and freedom < FULL_RUNS * coordinates:
        return None
    matrix = shrunk_correlation(residuals, freedom)
    matrix[constant, constant] = np.where(shift[constant] != 0.0, FLOOR, 1.0)
    return matrix


def shrunk_correlation(residuals: Array, freedom: int) -> Array:
    """Return (1 - s) R + s I: s is the sum of the estimated variances of the correlations over that of their squares.

    ``residuals`` are centred within their groups and divided by their standard deviations; R is their correlation.
    """
    runs = len(residuals)
    raw = residuals.T @ residuals
    squares = residuals**2
    variances = (squares.T @ squares - raw**2 / runs) / freedom**2
    matrix = raw / freedom
    off = ~np.eye(len(matrix), dtype=bool)
    total = float((matrix[off] ** 2).sum())
    share = min(1.0, float(variances[off].sum()) / total) if total > 0.0 else 1.0
    matrix *= 1.0 - share
    np.fill_diagonal(matrix, 1.0)
    return (matrix + matrix.T) / 2.0


def _noise_free(residuals: Array, shift: Array) -> Array | None:
    """Return a covariance that is `FLOOR` outside the span of the residuals, if the shift leaves that span."""
    freedom, coordinates = len(residuals) - 2, len(shift)
    _, singular, basis = np.linalg.svd(residuals, full_matrices=False)
    rank = int((singular > NEGLIGIBLE * max(singular[0], 1e-300)).sum())
    if rank >= min(freedom, coordinates):
        return None
    span = basis[:rank]
    outside = shift - span.T @ (span @ shift)
    strays = residuals - (residuals @ span.T) @ span
    if np.linalg.norm(outside) <= max(10.0 * np.linalg.norm(strays, axis=1).max(), NEGLIGIBLE * np.linalg.norm(shift)):
        return None
    variances = singular[:rank] ** 2 / freedom
    floor = FLOOR * (variances[0] if rank else 1.0)
    matrix = (span.T * (variances - floor)) @ span + floor * np.eye(coordinates)
    return np.asarray((matrix + matrix.T) / 2.0)


def _table(name: str, releases: ArrayLike) -> Array:
    table = np.array(releases, dtype=np.float64)
    if table.ndim != 2 or len(table) < 2 or not table.shape[1]:  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"The {name} releases have shape {table.shape}; a score is learnt from a table of at least two runs, one a "
            "row, on at least one coordinate."
        )
    if not np.isfinite(table).all():
        raise InputError(f"The {name} releases hold NaN or infinite entries; leave lost runs out of the table.")
    return table
