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

**Canaries.** A run that audits itself has the auditor's canaries among its voters. They are synthetic users: their
coins are drawn with those of the users, their records vote and are clipped by the same code, and they stand in the same
sum. Their coins alone are kept, because the audit needs them. A canary's contribution follows from the public bank, and
its coin depends on nobody; so the release with canaries is the release without them plus a vector that everybody may
know. Whoever is told the coins learns no more of a user than from the release without canaries.

**Secret shares.** Where the mechanism has a share f below 1, every voter who takes part draws a set of entries for this
release alone, each entry with probability f, exactly, and their records vote for the nearest entries in it. The sets
come from the operating system like the coins; they are kept nowhere and returned to nobody.
"""

import importlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, vstack
from scipy.special import ndtri

from canarybank.errors import InputError, MissingError
from canarybank.evolution.ballots import Ballot, HeldUsers, SeededShares, Shares, VotingUsers, cut_records
from canarybank.mechanism import Bank, Grid, Mechanism
from canarybank.store import hash_json
from canarybank.users import Users

__all__ = ["NOISES", "Canaries", "Drawn", "Noise", "SystemEntropy", "Voters", "find_noise", "snapped"]

CELL_BITS = 12
"""Float noise and simulated releases end on cells of between 2^-13 and 2^-12 standard deviations."""

Bools = NDArray[np.bool_]
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

    def shares(self, share: float, voters: Whole, entries: int) -> Bools:
        """Draw a set of entries for each of these voters, in which each entry is with probability ``share``, exactly.

        It is a table (voters, entries). Who the voters are plays no part.
        """
        return self.coins(share, len(voters) * entries).reshape(len(voters), entries)


def _random_words(count: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def snapped(release: Floats, noise: float) -> Floats:
    """Round a simulated release to the grid of the largest power of two that is at most noise · 2^-12.

    The grid is a power of two, so the rounding is exact.

    Args:
        release: A simulated release.
        noise: The standard deviation of its noise.

    Example:
        >>> import numpy as np
        >>> snapped(np.array([0.25, 0.1]), 0.1).tolist()
        [0.25, 0.100006103515625]
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
    """Return a sampler by its name, ready to draw: ``discrete`` or ``float``.

    Args:
        name: ``discrete``, which is exact and needs the extra opendp, or ``float``.

    Example:
        >>> type(find_noise("float")).__name__
        'Noise'
    """
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
class Canaries:
    """The auditor's synthetic users, with vectors, and which of them are in: only those vote."""

    users: Users
    eligible: Bools

    def __post_init__(self) -> None:
        self.users.require_vectors()
        eligible = np.array(self.eligible)
        if eligible.shape != (len(self),) or eligible.dtype != np.bool_:
            raise InputError(
                f"Say of each of {len(self)} canaries whether it is in, by true or false; given is an array of type "
                f"{eligible.dtype} and shape {eligible.shape}."
            )
        eligible.setflags(write=False)
        object.__setattr__(self, "eligible", eligible)

    def __len__(self) -> int:
        return len(self.users)

    @property
    def voting(self) -> NDArray[np.int64]:
        """Return the canaries that are in, as indices."""
        return np.flatnonzero(self.eligible)

    @property
    def hash(self) -> str:
        """Return the sha256 of the canaries' records and of who is in."""
        return hash_json([self.users.hash, self.voting])


@dataclass(frozen=True, eq=False)
class Drawn:
    """A release as it was drawn: the noisy histogram, and which canaries took part; empty where there are none."""

    histogram: Floats
    took: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @classmethod
    def of(cls, release: "Floats | Drawn") -> "Drawn":
        """Return a release that may be a bare histogram, of a run without canaries."""
        return release if isinstance(release, Drawn) else cls(release)


@dataclass(frozen=True, eq=False)
class Voters:
    """The private users of a run, each cut to their first ``cap`` records; all that leaves here is a release.

    They are in memory with vectors, or lie in shards and are encoded when they vote. ``canaries`` vote beside them.
    Participants are indices: into the users first, then into the canaries that are in.
    """

    users: Users | VotingUsers
    cap: int | None = None
    canaries: Canaries | None = None

    def __post_init__(self) -> None:
        # Texts and labels stay behind: votes need vectors only, and every record votes over the whole bank.
        given = self.users
        cut = cut_records(given, self.cap) if isinstance(given, Users) else given.cut(self.cap)
        object.__setattr__(self, "users", cut)

    @cached_property
    def _people(self) -> VotingUsers:
        return HeldUsers(self.users) if isinstance(self.users, Users) else self.users

    @cached_property
    def _joined(self) -> HeldUsers | None:
        """Return the canaries that vote, if any."""
        if self.canaries is None or not len(self.canaries.voting):
            return None
        joined = HeldUsers(cut_records(self.canaries.users.take(self.canaries.voting), self.cap), len(self.users))
        if joined.dimension != self._people.dimension:
            raise InputError("Users and canaries have vectors of different dimensions; encode both with one encoder.")
        return joined

    def __len__(self) -> int:
        return len(self.users) + (0 if self._joined is None else len(self._joined))

    def release(self, bank: Bank, mechanism: Mechanism, noise: str = "discrete") -> Drawn:
        """Draw a real release: sum over voters of I_u c_u + Z over the whole bank, on ``Grid.of(mechanism)``.

        I_u ~ Bernoulli(q), exactly; c_u is the voter's contribution on the grid, of norm at most clip over all that is
        released, whatever the labels; Z is Gaussian noise of standard deviation sigma·clip, drawn as ``noise`` says and
        added in whole numbers. All come from the operating system and are independent, secret sets among them. Only
        voters with I_u = 1 are routed, and only the canaries' I_u are returned.
        """
        grid, sampler, entropy = Grid.of(mechanism), find_noise(noise), SystemEntropy()
        coins = entropy.coins(mechanism.q, len(self))
        votes = self.histogram(np.flatnonzero(coins), bank, mechanism, entropy.shares)
        return Drawn(grid.values(sampler.add(votes, grid.scale)), self._took(coins))

    def simulate(self, bank: Bank, mechanism: Mechanism, rng: np.random.Generator) -> Drawn:
        """Draw a simulated release: the same law in float64, from randomness that can be repeated, rounded."""
        coins = rng.random(len(self)) < mechanism.q
        chosen = np.flatnonzero(coins)
        shares = SystemEntropy().shares if mechanism.share == 1 else SeededShares.draw(rng, chosen, bank.size)
        votes = self._sum(chosen, Ballot(bank, mechanism, shares))
        noisy = votes + mechanism.noise * rng.standard_normal(bank.size)
        return Drawn(snapped(noisy, mechanism.noise), self._took(coins))

    def histogram(
        self, participants: ArrayLike, bank: Bank, mechanism: Mechanism, shares: Shares | None = None
    ) -> NDArray[np.int64]:
        """Return the histogram without noise of these participants, in steps of the grid.

        The grid is ``Grid.of(mechanism)``. Each participant adds a vector of norm at most its radius, the same whoever
        else takes part; the sum is exact. ``shares`` draws the secret sets of a mechanism that has them, left out from
        the operating system.
        """
        drawn = SystemEntropy().shares if shares is None else shares
        ballot = Ballot(bank, mechanism, drawn, Grid.of(mechanism))
        return np.asarray(self._sum(participants, ballot), dtype=np.int64)

    def background(self, bank: Bank, mechanism: Mechanism) -> csr_array:
        """Return what everybody would contribute to the bank's probes, voters by bank size: users, then all canaries.

        It is made of users' records, without noise: for a simulation alone.
        """
        canaries = () if self.canaries is None else (HeldUsers(cut_records(self.canaries.users, self.cap)),)
        tables = [each.probe_contributions(bank, mechanism) for each in (self._people, *canaries)]
        return csr_array(vstack(tables, format="csr"))

    def check(self, bank: Bank) -> None:
        """Refuse a bank that these records cannot vote on."""
        dimension = (self._joined or self._people).dimension
        if dimension != bank.dimension:
            raise InputError(
                f"Records have dimension {dimension} and the bank {bank.dimension}; encode both with one encoder."
            )

    def _took(self, coins: Bools) -> Bools:
        """Return the coins of all canaries; of one that is not in, none falls."""
        if self.canaries is None:
            return np.zeros(0, dtype=np.bool_)
        took = np.zeros(len(self.canaries), dtype=np.bool_)
        took[self.canaries.voting] = coins[len(self.users) :]
        return took

    def _sum(self, participants: ArrayLike, ballot: Ballot) -> NDArray[np.float64 | np.int64]:
        """Return the sum of the participants' contributions."""
        self.check(ballot.bank)
        chosen = np.asarray(participants, dtype=np.int64)
        is_user = chosen < len(self.users)
        counted = self._people.count_votes(ballot, chosen[is_user])
        if self._joined is not None:
            counted = counted + self._joined.count_votes(ballot, chosen[~is_user] - len(self.users))
        return ballot.sum(counted)
