"""Make the many canaries of one run: each with k probes of its own, which no other canary's records vote for.

A record that is one of k texts, all of them in the bank and nearer to each other than to anything else, votes for
exactly these k. So a canary whose records are its own probes puts 1/k on each of them: a norm of k^-1/2, which the clip
cuts to C. That is all that a user can contribute, and it stands on k positions; so a small part of a bank carries many
canaries, and they do not interfere.

Everything here is a function of public things and a seed: the first bank, the encoder, and public records.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, csr_array

from canarybank.attack.canary import Canary, CanaryKind
from canarybank.attack.facts import phrase_facts
from canarybank.attack.nonce import NONCE_ALPHABET, Encode
from canarybank.attack.vectors import frozen_vectors
from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, contributions, route
from canarybank.score import LinearScore, Moments, normal_scores
from canarybank.seeds import stream

__all__ = [
    "CanaryStyle",
    "CanaryWeights",
    "ManyCanaries",
    "canary_scores",
    "exact_scores",
    "make_canaries",
    "record_votes",
    "share_of_votes",
]

CHOICE = 4
"""Adaptive canaries are the best of this many times as many."""
WORDS, LETTERS = 8, 8
"""A nonce canary's core is this many words of this many letters: 381 bits."""


class CanaryStyle(StrEnum):
    """What the texts of canaries look like."""

    NONCE = "nonce"
    """Random words, and a number at the end."""
    ADAPTIVE = "adaptive"
    """Of four times as many such texts, those that stand out most from public records."""
    ORDINARY = "ordinary"
    """Fluent sentences about made-up people; some of their votes go elsewhere."""


@dataclass(frozen=True, eq=False)
class ManyCanaries:
    """Canaries with k probes each: canary i owns rows i·k to i·k + k - 1 of the probes."""

    canaries: tuple[Canary, ...]
    probe_texts: tuple[str, ...]
    probe_vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "probe_vectors", frozen_vectors(self.probe_vectors, "probe"))
        if not self.canaries or len(self.probe_vectors) % len(self.canaries):
            raise InputError(
                f"{len(self.probe_vectors)} probes cannot be shared among {len(self.canaries)} canaries; give the "
                "same number for each."
            )

    def __len__(self) -> int:
        return len(self.canaries)

    def __repr__(self) -> str:
        return f"ManyCanaries({len(self)} canaries, {self.probes} probes each)"

    @property
    def probes(self) -> int:
        """Return k, the probes of each canary."""
        return len(self.probe_vectors) // len(self)

    def positions(self, bank: Bank) -> NDArray[np.int64]:
        """Return where each canary's probes stand in a bank that reserves their positions, shape (m, k)."""
        needed = len(self.probe_vectors)
        if len(bank.reserved) < needed:
            raise InputError(
                f"{bank!r} reserves {len(bank.reserved)} positions, and {len(self)} canaries need {needed}; reserve "
                "that many, or make fewer canaries."
            )
        return np.array(bank.reserved[:needed], dtype=np.int64).reshape(len(self), self.probes)

    def planted(self, bank: Bank) -> Bank:
        """Return the bank with every probe at its reserved position."""
        self.positions(bank)
        return bank.with_probes(self.probe_vectors, None if bank.texts is None else self.probe_texts)

    def take(self, chosen: Sequence[int] | NDArray[np.int64]) -> "ManyCanaries":
        """Return some of the canaries with their probes, in the order given and with names by that order."""
        rows = [int(i) * self.probes + j for i in chosen for j in range(self.probes)]
        return ManyCanaries(
            tuple(replace(self.canaries[int(i)], id=_name(number)) for number, i in enumerate(chosen)),
            tuple(self.probe_texts[row] for row in rows),
            self.probe_vectors[rows],
        )


@dataclass(frozen=True, slots=True, eq=False)
class CanaryWeights:
    """How each canary's probes are read: a score that has variance 1 without the canary, under the claim.

    Without the canary, canary i's score of a release y is ``weights[i] @ y[positions[i]] - offsets[i]``, of mean 0 and
    variance 1 by the moments that it was made from; a canary that takes part shifts it by ``shifts[i]``, at most
    1/sigma.
    """

    positions: NDArray[np.int64]
    weights: NDArray[np.float64]
    offsets: NDArray[np.float64]
    shifts: NDArray[np.float64]
    contributions: NDArray[np.float64]
    """What each canary contributes on its own probes when it takes part."""

    def scores(self, release: ArrayLike) -> NDArray[np.float64]:
        """Return every canary's score of a release over the whole bank."""
        return self.scores_at_probes(np.asarray(release, dtype=np.float64)[self.positions])

    def scores_at_probes(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return every canary's score of what was released on its probes; the last two axes are (m, k)."""
        given = np.asarray(values, dtype=np.float64)
        if given.shape[-2:] != self.weights.shape:
            raise InputError(
                f"Values of shape {given.shape} are not those of {self.weights.shape[0]} canaries with "
                f"{self.weights.shape[1]} probes each; give a row for each canary."
            )
        return np.asarray((given * self.weights).sum(axis=-1) - self.offsets)

    def projected(self, votes: Any) -> csr_array:
        """Return what each voter's contribution (voters, bank size) adds to each canary's score, voters by canaries."""
        m, k = self.positions.shape
        where = (self.positions.ravel(), np.repeat(np.arange(m), k))
        onto = csr_array((self.weights.ravel(), where), shape=(votes.shape[1], m))
        return csr_array(votes @ onto)

    def noise(self, mechanism: Mechanism) -> NDArray[np.float64]:
        """Return the deviation that a mechanism's noise alone gives each score."""
        return np.asarray(mechanism.noise * np.linalg.norm(self.weights, axis=1))


def exact_scores(
    reading: CanaryWeights, scores: ArrayLike, votes: Any, mechanism: Mechanism, took: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the normal scores of one release where everybody who may vote is known: background enters exactly.

    Where the coins of all canaries are known, what a canary put on another one's probes is taken off first. Where they
    are not, it stays in the score: a score that used other canaries' coins would be no guess from the release alone.
    Canaries of random words put nothing there.

    Args:
        reading: How the canaries' probes are read.
        scores: Every canary's score, as ``reading.scores`` returns it.
        votes: What everybody contributes when taking part, voters by bank size: users first, then all canaries.
        mechanism: The parameters of the release, as they are claimed.
        took: Which canaries took part, where it is known.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> encode, mechanism = HashingEncoder().encode, Mechanism(k=2)
        >>> texts = [f"text number {i} of the bank" for i in range(40)]
        >>> bank = Bank(encode(texts), tuple(texts)).reserve(6, seed=0)
        >>> many = make_canaries("nonce", 3, encode, bank, mechanism, seed=0)
        >>> planted = many.planted(bank)
        >>> reading = canary_scores(many, planted, mechanism)
        >>> users_and_canaries = np.zeros((5 + 3, 40))
        >>> exact_scores(reading, reading.scores(np.zeros(40)), users_and_canaries, mechanism).shape
        (3,)
    """
    added, m = reading.projected(votes), len(reading.offsets)
    users, canaries = added[: added.shape[0] - m], added[added.shape[0] - m :]
    x = np.asarray(scores, dtype=np.float64) + reading.offsets
    if took is not None:
        coins = np.asarray(took, dtype=np.float64)
        x = x - (canaries.T @ coins - canaries.diagonal() * coins)
    return normal_scores(x, users, mechanism.q, reading.noise(mechanism))


def make_canaries(
    style: CanaryStyle | str,
    count: int,
    encode: Encode,
    bank: Bank,
    mechanism: Mechanism,
    seed: int,
    *,
    records: int | None = None,
    public: ArrayLike | None = None,
) -> ManyCanaries:
    """Return canaries with ``mechanism.k`` probes each, made from public things and a seed alone.

    Args:
        style: What their texts look like.
        count: How many canaries.
        encode: The encoder of the bank.
        bank: The bank, with ``count`` times k positions reserved.
        mechanism: The parameters of the release; k decides how many probes each canary has.
        seed: Draws the texts.
        records: The records of each canary, its probes in turn; left out, one for each probe.
        public: Vectors of public records, which adaptive canaries shall stand out from: auxiliary users', or the first
            bank's own entries. Left out, the bank's entries.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> encode, mechanism = HashingEncoder().encode, Mechanism(k=2)
        >>> texts = [f"text number {i} of the bank" for i in range(40)]
        >>> bank = Bank(encode(texts), tuple(texts)).reserve(6, seed=0)
        >>> many = make_canaries("nonce", 3, encode, bank, mechanism, seed=0)
        >>> planted = many.planted(bank)
        >>> len(planted) == len(bank)
        True
    """
    style, k = CanaryStyle(style), mechanism.k
    records = k if records is None else records
    if count < 1 or records < 1:
        raise InputError(f"{count} canaries of {records} records were asked for; there must be at least one of each.")
    if count * k > len(bank.reserved):
        raise InputError(
            f"{count:,} canaries need {count * k:,} positions for their probes, and the bank of {bank.size:,} reserves "
            f"{len(bank.reserved):,}; make fewer canaries, or reserve more."
        )
    rng = stream(seed, "one run", str(style))
    drawn = CHOICE * count if style is CanaryStyle.ADAPTIVE else count
    groups = phrase_facts(drawn, k, rng) if style is CanaryStyle.ORDINARY else _nonce_groups(drawn, k, rng)
    made = _encoded(groups, encode, records)
    if style is not CanaryStyle.ADAPTIVE:
        return made
    found = frozen_vectors(bank.vectors[bank.base] if public is None else public, "public record")
    best = np.sort(np.argsort(-_prominence(made, bank, mechanism, found), kind="stable")[:count])
    return made.take(best)


def _name(number: int) -> str:
    return f"canary-{number + 1}"


def _nonce_groups(count: int, k: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Return k texts a canary: the same random words, and a number that tells them apart."""
    letters = np.array(list(NONCE_ALPHABET))[rng.integers(len(NONCE_ALPHABET), size=(count, WORDS, LETTERS))]
    cores = [" ".join("".join(word) for word in words) for words in letters]
    return [tuple(f"{core} {number + 1}" for number in range(k)) for core in cores]


def _encoded(groups: Sequence[tuple[str, ...]], encode: Encode, records: int) -> ManyCanaries:
    texts = tuple(text for group in groups for text in group)
    vectors = np.asarray(encode(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):  # noqa: PLR2004, a table has two axes
        raise InputError(
            f"The encoder returned an array of shape {vectors.shape} for {len(texts)} probes; one row each is due."
        )
    k = len(groups[0])
    turn = np.arange(records) % k
    canaries = tuple(
        Canary(vectors[i * k + turn], tuple(group[j] for j in turn), _name(i), CanaryKind.NONCE)
        for i, group in enumerate(groups)
    )
    return ManyCanaries(canaries, texts, vectors)


def _prominence(
    many: ManyCanaries, bank: Bank, mechanism: Mechanism, public: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return mu_eff of each canary over the free entries of a bank with all probes, each public record being a user."""
    entries = bank.vectors[bank.base]
    reserved = range(len(entries), len(entries) + len(many.probe_vectors))
    wide = Bank(np.concatenate([entries, many.probe_vectors]), reserved=tuple(reserved))
    votes = record_votes(public, wide, mechanism)
    return canary_scores(many, wide, mechanism, background=votes, eligible=len(public)).shifts


def record_votes(records: ArrayLike, bank: Bank, mechanism: Mechanism) -> csr_array:
    """Return the contributions (records, bank size) of records, each taken as a user of its own.

    Args:
        records: The vectors of the records, a row each.
        bank: The bank.
        mechanism: The parameters of the release.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> encode, mechanism = HashingEncoder().encode, Mechanism(k=2)
        >>> texts = [f"text number {i} of the bank" for i in range(40)]
        >>> bank = Bank(encode(texts), tuple(texts)).reserve(6, seed=0)
        >>> record_votes(encode(["hello there"]), bank, mechanism).shape
        (1, 40)
    """
    routes = route(records, bank, mechanism.k)
    users = len(routes)
    return contributions(routes, np.arange(users), users, bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)


def canary_scores(
    many: ManyCanaries, bank: Bank, mechanism: Mechanism, *, background: Any = None, eligible: int | None = None
) -> CanaryWeights:
    """Route every canary over the bank that holds all probes, and return how its probes are read.

    A canary's contribution is clipped over the full vector; what it gives to other entries than its own probes is lost
    to its score. With v its contribution on its probes, m and S mean and covariance there without it, the score of a
    release y is w · (y - m) with w = S⁻¹ v / mu_eff, and its shift mu_eff = (vᵀ S⁻¹ v)^½, at most 1/sigma.

    The formula: the squared distance of means in units of the covariance, (vᵀ S⁻¹ v)^½, of equation 3 of the paper
    (docs/mathematics.md).

    Args:
        many: The canaries.
        bank: The bank with their probes planted.
        mechanism: The parameters of the release.
        background: Contributions (users, bank size) of auxiliary users over this bank, from which m and S are
            estimated; left out, the background is taken to be none: m = 0 and S = (sigma C)² I.
        eligible: How many users other than the canaries are eligible; left out, as many as the auxiliary ones.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> encode, mechanism = HashingEncoder().encode, Mechanism(k=2)
        >>> texts = [f"text number {i} of the bank" for i in range(40)]
        >>> bank = Bank(encode(texts), tuple(texts)).reserve(6, seed=0)
        >>> many = make_canaries("nonce", 3, encode, bank, mechanism, seed=0)
        >>> planted = many.planted(bank)
        >>> reading = canary_scores(many, planted, mechanism)
        >>> bool((reading.shifts <= 1 / mechanism.sigma + 1e-9).all())
        True
    """
    places = many.positions(bank)
    if not np.array_equal(bank.vectors[places.ravel()], many.probe_vectors):
        raise InputError(
            f"{bank!r} holds other entries than the canaries' probes at their positions; plant them first."
        )
    own = _own_contributions(many, bank, mechanism, places)
    weights, offsets, shifts = np.empty(places.shape), np.empty(len(many)), np.empty(len(many))
    votes = None if background is None else csc_array(background)
    others = eligible if eligible is not None or votes is None else votes.shape[0]
    still = Moments(np.zeros(many.probes), mechanism.noise**2 * np.eye(many.probes))
    for i, (where, given) in enumerate(zip(places, own, strict=True)):
        moments = still
        if votes is not None and others is not None:
            moments = Moments.estimate(votes[:, where], mechanism, others)
        weights[i], offsets[i] = _whitened(given, moments)
        shifts[i] = weights[i] @ given
    return CanaryWeights(places, weights, offsets, np.minimum(shifts, 1 / mechanism.sigma), own)


def _own_contributions(
    many: ManyCanaries, bank: Bank, mechanism: Mechanism, places: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return what each canary contributes on its own probes, clipped over the full vector, shape (m, k)."""
    records = np.concatenate([each.vectors for each in many.canaries])
    owners = np.repeat(np.arange(len(many)), [len(each) for each in many.canaries])
    routes = route(records, bank, mechanism.k)
    votes = contributions(routes, owners, len(many), bank.size, mechanism.clip, entry_cap=mechanism.entry_cap)
    return np.asarray(votes[np.repeat(np.arange(len(many)), many.probes), places.ravel()]).reshape(places.shape)


def _whitened(canary: NDArray[np.float64], moments: Moments) -> tuple[NDArray[np.float64], float]:
    """Return weights and offset of a score of variance 1; a canary without a vote on its own probes has one too."""
    score = LinearScore(canary if canary.any() else np.ones(canary.size), moments)
    weights = score.weights / score.mu_eff
    return weights, float(weights @ moments.mean)


def share_of_votes(votes: Any, positions: ArrayLike) -> float:
    """Return the share of some users' contributions that stands on these positions: what probes take from candidates.

    Args:
        votes: Contributions (users, bank size), dense or sparse.
        positions: Where the probes stand.

    Example:
        >>> import numpy as np
        >>> share_of_votes(np.array([[1.0, 0.0, 3.0]]), [2])
        0.75
    """
    columns = np.asarray(votes.sum(axis=0), dtype=np.float64).ravel()
    total = float(columns.sum())
    return float(columns[np.asarray(positions).ravel()].sum()) / total if total else 0.0
