"""Draw one round's release: sample users, let their records vote, normalise, clip, sum, add Gaussian noise.

Whoever knows the noise of a release has the histogram without it. So participation and noise of a real run come
straight from the operating system's cryptographic generator, value by value, with no seed that could be kept or
guessed, and none of it is written down; a statistical generator such as PCG64, even one seeded well, could be run
backwards from its output. A seeded run exists for tests and simulated audits: it is asked for as ``insecure_seed`` and
every output says so. How long a release takes depends on how many records took part, and is hidden from nobody who can
time it.

Coins are exact: Bernoulli(q) for the very float q. Noise is drawn in whole numbers, in one of two ways.

The ideal release is the sum of whole contributions plus continuous Gaussian noise, rounded onto the grid. Rounding the
noise alone gives the same, for the sum is whole. So the ideal release is post-processing of the Gaussian mechanism, and
the ledger's privacy loss distribution holds for it. What is drawn differs a little from the ideal. ``Noise.variation``
bounds the difference in total variation, one coordinate at a time; coordinates and releases add up, and
``canarybank.mechanism.delta_slack`` turns the sum into what comes on top of delta.

**discrete**: OpenDP's exact sampler of P(k) ∝ exp(-k²/2s²). Let f(k) be the density of N(0, s²) at k, p(k) the discrete
law and r(k) the rounded one. By Poisson summation p(k) = f(k)/(1 + t) with 0 < t < 3·exp(-2π²s²). And

    r(k)/f(k) = integral over u from -1/2 to 1/2 of exp(-u²/2s²)·cosh(ku/s²) >= 1 - (integral of u²/2s²) = 1 - 1/(24s²).

The total variation is the sum over k of max(0, p(k) - r(k)) <= sum of f(k)/(24s²) = (1 + t)/(24s²) < 1/(23s²) for
s >= 1. The bound does not depend on users.

**float**: the Gaussian quantile of 63 random bits and a sign, times s, rounded, and the noisy sum rounded once more, to
a grid of between 2^12 and 2^13 cells a standard deviation. Draw the ideal noise from the same bits, followed by further
ones: the two releases agree unless the ideal noise lies within the sampler's error of one of the cells' edges. At z
standard deviations that error is at most 2^-51 (the rounding of the tail probability) plus 2^-48.5·|z| (the quantile
function, whose error was measured to be below 2^-50·|z|, and one product). The edges lie at least 2^-13 apart, so the
probability is at most 2·2^13·(2^-51 + 0.8·2^-48.5) < 2^-34.5; 2^-64 for every edge within 9.2 standard deviations, and
the mass beyond, add less than 2^-45. In all it is less than 2^-34. Sums are whole numbers here too, so that this bound
does not depend on users either.
"""

import importlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from canarybank.errors import InputError, MissingError
from canarybank.mechanism import Bank, Grid, Mechanism, contributions, route, whole_contributions
from canarybank.mechanism.mechanism import whole
from canarybank.users import Users

__all__ = ["NOISES", "Noise", "SystemEntropy", "Voters", "find_noise", "snapped"]

CELL_BITS = 12
"""Float noise and simulated releases end on cells of between 2^-13 and 2^-12 standard deviations."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class SystemEntropy:
    """Draw every value from the operating system; nothing is seeded, kept or repeatable."""

    def coins(self, q: float | Fraction, size: int) -> NDArray[np.bool_]:
        """Draw independent coins that are True with probability q, exactly.

        A coin is U < q for U uniform on [0, 1), of which as many bits are drawn as decide: 64, and 64 more for each
        coin whose first 64 are those of q, where q has further ones.
        """
        if q >= 1:
            return np.ones(size, dtype=np.bool_)
        first, rest = divmod(Fraction(q) * 2**64, 1)
        words = _random_words(size)
        coins = words < np.uint64(first)
        if rest and (open_ones := np.flatnonzero(words == np.uint64(first))).size:
            coins[open_ones] = self.coins(rest, len(open_ones))
        return coins

    def standard_normal(self, size: int) -> Floats:
        """Draw independent standard Gaussian values, by inversion of 63 bits and a sign.

        The value is the Gaussian quantile of a tail (k + 1/2)·2^-64 with k uniform below 2^63, on either side: tails
        are as finely resolved as the middle, up to 9.1 standard deviations.
        """
        words = _random_words(size)
        tails = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
        magnitudes = -np.asarray(ndtri(tails), dtype=np.float64)
        return np.where(words & np.uint64(1), magnitudes, -magnitudes)


def _random_words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def snapped(release: Floats, noise: float) -> Floats:
    """Round a simulated release to the grid of the largest power of two that is at most noise · 2^-12.

    The grid is a power of two, so the rounding is exact.
    """
    step = 2.0 ** (math.floor(math.log2(noise)) - CELL_BITS)
    return np.rint(release / step) * step + 0.0


@dataclass(frozen=True, slots=True)
class Noise:
    """A way to add Gaussian noise to a histogram of whole numbers.

    ``add(histogram, scale)`` returns the noisy histogram, for noise of standard deviation ``scale``, in steps.
    ``per_entry(scale)`` bounds its distance from the ideal one in total variation, for one entry. ``check`` raises
    ``MissingError`` where a package is missing.
    """

    add: Callable[[Whole, float], Whole]
    per_entry: Callable[[float], float]
    check: Callable[[], object]

    def variation(self, grid: Grid, entries: int) -> float:
        """Return a bound on the total variation between a release of so many entries and the ideal one."""
        return entries * self.per_entry(grid.scale)


def find_noise(name: str) -> Noise:
    """Return a sampler by its name, ready to draw: ``discrete`` or ``float``."""
    if name not in NOISES:
        raise InputError(f"There is no noise {name!r}; choose one of {', '.join(NOISES)}.")
    NOISES[name].check()
    return NOISES[name]


def _opendp() -> Any:
    try:
        return importlib.import_module("opendp.prelude")
    except ImportError as problem:
        raise MissingError(
            "Exact noise is drawn by OpenDP, which is not installed; run: pip install 'canarybank[opendp]'. Or set "
            'evolve.noise to "float", which adds more to delta.'
        ) from problem


def _add_discrete(histogram: Whole, scale: float) -> Whole:
    dp = _opendp()
    dp.enable_features("contrib")
    gaussian = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float), scale)
    return histogram + np.asarray(gaussian([0] * len(histogram)), dtype=np.int64)


def _add_float(histogram: Whole, scale: float) -> Whole:
    noise = np.rint(scale * SystemEntropy().standard_normal(len(histogram))).astype(np.int64)
    cell = 1 << (int(scale).bit_length() - 1 - CELL_BITS)
    return (histogram + noise + cell // 2) // cell * cell


NOISES: Mapping[str, Noise] = {
    "discrete": Noise(_add_discrete, lambda scale: 1 / 23 / scale**2, _opendp),
    "float": Noise(_add_float, lambda _: 2.0**-34, lambda: None),
}
"""How a real run may draw its noise, by name."""


@dataclass(frozen=True, eq=False)
class Voters:
    """The private users of a run, each cut to their first ``cap`` records; all that leaves here is a release."""

    users: Users
    cap: int | None = None

    def __post_init__(self) -> None:
        vectors, owners = self.users.require_vectors(), self.users.owners
        if self.cap is not None:
            place = np.arange(len(owners)) - np.searchsorted(owners, owners)
            within = place < whole("The cap on records", self.cap)
            vectors, owners = vectors[within], owners[within]
        # Texts and labels stay behind: votes need vectors only, and every record votes over the whole bank.
        object.__setattr__(self, "users", Users(self.users.ids, owners, vectors=vectors))

    def release(self, bank: Bank, mechanism: Mechanism, noise: str = "discrete") -> NDArray[np.float64]:
        """Draw a real release: sum over users of I_u c_u + Z over the whole bank, on ``Grid.of(mechanism)``.

        I_u ~ Bernoulli(q), exactly; c_u is the user's contribution on the grid, of norm at most clip over all that is
        released, whatever the labels; Z is Gaussian noise of standard deviation sigma·clip, drawn as ``noise`` says and
        added in whole numbers. All come from the operating system and are independent. Only users with I_u = 1 are
        routed.
        """
        grid, sampler = Grid.of(mechanism), find_noise(noise)
        participants = np.flatnonzero(SystemEntropy().coins(mechanism.q, len(self.users)))
        return grid.values(sampler.add(self.histogram(participants, bank, mechanism), grid.scale))

    def simulate(self, bank: Bank, mechanism: Mechanism, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a simulated release: the same law in float64, from randomness that can be repeated, rounded."""
        participants = np.flatnonzero(rng.random(len(self.users)) < mechanism.q)
        votes = self._sum(participants, bank, mechanism.k, partial(contributions, clip=mechanism.clip))
        return snapped(votes + mechanism.noise * rng.standard_normal(bank.size), mechanism.noise)

    def histogram(self, participants: ArrayLike, bank: Bank, mechanism: Mechanism) -> NDArray[np.int64]:
        """Return the histogram without noise of these participants, indices into ``users``, in steps of the grid.

        The grid is ``Grid.of(mechanism)``. Each participant adds a vector of norm at most its radius, the same whoever
        else takes part; the sum is exact.
        """
        contribute = partial(whole_contributions, grid=Grid.of(mechanism))
        return np.asarray(self._sum(participants, bank, mechanism.k, contribute), dtype=np.int64)

    def check(self, bank: Bank) -> None:
        """Refuse a bank that these records cannot vote on."""
        dimension = self.users.require_vectors().shape[1]
        if dimension != bank.dimension:
            raise InputError(
                f"Records have dimension {dimension} and the bank {bank.dimension}; encode both with one encoder."
            )

    def _sum(
        self, participants: ArrayLike, bank: Bank, k: int, contribute: Callable[..., csr_array]
    ) -> NDArray[np.float64 | np.int64]:
        """Return the sum of the participants' contributions."""
        self.check(bank)
        chosen = np.asarray(participants, dtype=np.int64)
        if len(chosen) == 0:
            return np.zeros(bank.size)
        present = self.users.take(chosen)
        routes = route(present.require_vectors(), bank, k)
        return np.asarray(contribute(routes, present.owners, len(present), bank.size).sum(axis=0))
