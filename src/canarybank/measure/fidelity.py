"""Measure selection fidelity: how much of the top that everybody's votes would choose a defended release still keeps.

The reference is what all users vote for together, over the whole bank, without sampling, noise, cap or secret share.
Private Evolution keeps the top of a noisy release instead. What sampling and noise cost is there without any defence
too: compare the fidelity of a defended mechanism with that of the plain one.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, contributions, route
from canarybank.mechanism.shares import first_chosen, ranks_needed
from canarybank.seeds import stream

__all__ = ["Fidelity", "selection_fidelity"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How much of the noiseless top a release keeps, on average over draws."""

    kept: float
    """The share of the noiseless top's entries that are in the release's top."""
    votes: float
    """The noiseless votes of the release's top, as a share of those of the noiseless top."""
    error: float
    """The standard error of ``kept``."""
    top: int
    """How many entries the top has."""
    chance: float
    """What ``kept`` would be on average if entries were chosen at random."""
    draws: int
    """How many releases were drawn."""

    def __str__(self) -> str:
        return (
            f"{self.kept:.1%} of the noiseless top {self.top:,} kept (standard error {self.error:.1%} over "
            f"{self.draws:,} releases; {self.chance:.1%} by chance), with {self.votes:.1%} of its votes"
        )


def selection_fidelity(
    records: ArrayLike,
    owners: ArrayLike,
    bank: Bank,
    mechanism: Mechanism,
    *,
    top: int,
    draws: int = 20,
    sampled: bool = True,
    reference_clip: float | None = None,
    seed: int = 0,
) -> Fidelity:
    """Return how much of the noiseless top the releases of a mechanism keep.

    Probes at reserved positions take votes and are never kept. What the bank bars is neither voted for nor kept; it may
    be part of the noiseless top, which is the one without vetting.

    Args:
        records: The vectors of all users' records.
        owners: Whose they are: a whole number each, from 0.
        bank: The bank, with what it bars.
        mechanism: The parameters of the release, with the defences that are on.
        top: How many entries are kept.
        draws: How many releases are drawn.
        sampled: Whether users take part by a coin of q and noise is added; without both, the loss is that of cap, share
            and bars alone.
        reference_clip: The clip of the noiseless votes, left out the mechanism's own; at 1 nobody is clipped.
        seed: The root of what is drawn.

    Example:
        >>> import numpy as np
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> rng = np.random.default_rng(0)
        >>> bank, owners = Bank(rng.normal(size=(20, 4))), np.repeat(np.arange(10), 3)
        >>> options = {"top": 5, "draws": 2}
        >>> type(selection_fidelity(rng.normal(size=(30, 4)), owners, bank, Mechanism(k=2), **options)).__name__
        'Fidelity'
    """
    vectors, owner = np.asarray(records), np.asarray(owners, dtype=np.int64)
    users, candidates = int(owner.max()) + 1, np.intersect1d(bank.base, bank.open)
    if not 1 <= top <= len(candidates):
        raise InputError(f"{top} entries cannot be kept of {len(candidates)} that are neither reserved nor barred.")
    clip = mechanism.clip if reference_clip is None else reference_clip
    depth = min(len(bank.open), ranks_needed(mechanism.k, mechanism.share))
    ranked = route(vectors, bank, depth)
    is_plain = depth == mechanism.k and not bank.barred
    routes = ranked if is_plain else route(vectors, replace(bank, barred=()), mechanism.k)
    plain = contributions(routes, owner, users, bank.size, clip)
    ideal = np.asarray(plain.sum(axis=0), dtype=np.float64)
    best = bank.base[np.argsort(-ideal[bank.base], kind="stable")[:top]]
    rng = stream(seed, "measure", "fidelity")
    kept, held = [], []
    for _ in range(draws):
        release = _release(ranked, owner, users, bank, mechanism, rng, sampled=sampled)
        chosen = candidates[np.argsort(-release[candidates], kind="stable")[:top]]
        kept.append(np.isin(chosen, best).mean())
        held.append(ideal[chosen].sum() / ideal[best].sum())
    error = float(np.std(kept, ddof=1)) / math.sqrt(draws) if draws > 1 else math.nan
    return Fidelity(float(np.mean(kept)), float(np.mean(held)), error, top, top / len(bank.base), draws)


def _release(
    ranked: NDArray[np.int64],
    owner: NDArray[np.int64],
    users: int,
    bank: Bank,
    mechanism: Mechanism,
    rng: np.random.Generator,
    *,
    sampled: bool,
) -> Floats:
    """Draw one release from rankings of all records, with coins and noise where it is sampled."""
    took = np.flatnonzero(rng.random(users) < mechanism.q) if sampled else np.arange(users)
    total = np.zeros(bank.size)
    present = np.isin(owner, took)
    if present.any():
        names, who = np.unique(owner[present], return_inverse=True)
        rows = ranked[present]
        if mechanism.share < 1:
            sets = rng.random((len(names), bank.size)) < mechanism.share
            routes = first_chosen(rows, sets[who[:, None], rows], mechanism.k)
        else:
            routes = rows[:, : mechanism.k]
        table = contributions(routes, who, len(names), bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)
        total += np.asarray(table.sum(axis=0), dtype=np.float64)
    return total + mechanism.noise * rng.standard_normal(bank.size) * sampled
