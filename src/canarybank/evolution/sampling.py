"""Draw a data set of any size from a run's voted candidates, in proportion to their noisy votes.

Votes and texts are public, and so are the coins that are drawn here: a sample is post-processing, and spends nothing.
The final population has candidates that nobody has voted on yet; only the votes of their neighbours can draw them.
"""

import math
from collections.abc import Sequence
from itertools import compress
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import IncompleteError, InputError
from canarybank.evolution.keeping import draw_by_weight, positive_part, project
from canarybank.evolution.loop import Evolution, Round
from canarybank.evolution.population import Candidate
from canarybank.mechanism import route
from canarybank.mechanism.mechanism import whole
from canarybank.seeds import stream

__all__ = ["Rounds", "draw_counts", "sample", "vote_shares"]

Rounds = Literal["last", "all"]
"""Whose votes a sample is drawn by: those of the last round, or of all rounds alike."""


def vote_shares(done: Round) -> NDArray[np.float64]:
    """Return the share of a round's votes that each candidate of its population has, estimated from the noisy votes.

    It is the histogram without negative votes that is nearest to the release and has its total (``project``). Entries
    that vetting barred have no share. Where the total is not positive, the positive votes are taken as they are, and
    where there are none, all candidates have the same share.

    Args:
        done: A round with its release.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.evolution import Keep, evolve
        >>> from canarybank.generate import ScriptedGenerator
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.users import Users
        >>> words = ["rain", "soup", "train", "music", "bread", "river", "stone", "light"]
        >>> def text(i):
        ...     return f"today we talked about {words[i % 8]} and {words[i // 8 % 8]} in room {i}"
        >>> encoder, texts = HashingEncoder(), tuple(text(i) for i in range(40))
        >>> owners = np.repeat(np.arange(20), 2)
        >>> users = Users(tuple(f"u{i}" for i in range(20)), owners, texts, vectors=encoder.encode(texts))
        >>> start = [text(100 + i) for i in range(20)]
        >>> writer = ScriptedGenerator(lambda request: text(request.seed % 100_000))
        >>> mechanism = Mechanism(k=1, sigma=0.5, q=0.5)
        >>> run = evolve(users, start, mechanism, encoder, writer, 1, keep=Keep(share=0.5), insecure_seed=0)
        >>> round(float(vote_shares(run.rounds[0]).sum()), 6)
        1.0
    """
    is_open = ~np.isin(done.bank.base, done.bank.barred)
    votes = done.votes[is_open]
    for weights in (project(votes, float(votes.sum())), positive_part(votes), np.ones(len(votes))):
        if weights.sum() > 0:
            break
    shares = np.zeros(len(done.votes))
    shares[is_open] = weights / weights.sum()
    return shares


def draw_counts(rng: np.random.Generator, shares: ArrayLike, size: int) -> NDArray[np.int64]:
    """Return how often each index is drawn: ``size`` in all, and size · share of each, rounded up or down at random.

    The mean of each count is size · share exactly (systematic sampling, with one random number).
    """
    values = np.asarray(shares, dtype=np.float64)
    edges = np.cumsum(values) * (size / values.sum())
    passed: NDArray[np.int64] = np.ceil(edges - rng.random()).clip(0, size).astype(np.int64)
    passed[np.flatnonzero(values)[-1] :] = size  # where rounding leaves a little less
    return np.diff(passed, prepend=0)


def sample(
    evolution: Evolution,
    size: int,
    *,
    rounds: Rounds = "last",
    seed: int = 0,
    distinct: bool = False,
    neighbours: int = 0,
    focus: float = 1.0,
) -> tuple[Candidate, ...]:
    """Return ``size`` candidates of a run, drawn by noisy votes; one with many votes may stand there more than once.

    Args:
        evolution: The run, which needs one release at least.
        size: How many candidates to draw.
        rounds: ``last`` draws from the bank of the last round. ``all`` draws from the banks of all rounds, each of
            which counts the same.
        seed: The public seed of the draw.
        distinct: Whether no candidate stands there twice; then one with votes comes before all without.
        neighbours: Where it is above 0, a candidate is drawn by the mean votes of so many nearest candidates that were
            voted on, itself among them: their noise averages out, and the final population is drawn from too.
        focus: The power to which shares are raised; above 1 it prefers candidates with many votes.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.evolution import Keep, evolve
        >>> from canarybank.generate import ScriptedGenerator
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.users import Users
        >>> words = ["rain", "soup", "train", "music", "bread", "river", "stone", "light"]
        >>> def text(i):
        ...     return f"today we talked about {words[i % 8]} and {words[i // 8 % 8]} in room {i}"
        >>> encoder, texts = HashingEncoder(), tuple(text(i) for i in range(40))
        >>> owners = np.repeat(np.arange(20), 2)
        >>> users = Users(tuple(f"u{i}" for i in range(20)), owners, texts, vectors=encoder.encode(texts))
        >>> start = [text(100 + i) for i in range(20)]
        >>> writer = ScriptedGenerator(lambda request: text(request.seed % 100_000))
        >>> mechanism = Mechanism(k=1, sigma=0.5, q=0.5)
        >>> run = evolve(users, start, mechanism, encoder, writer, 1, keep=Keep(share=0.5), insecure_seed=0)
        >>> len(sample(run, 30))
        30
    """
    whole("size", size)
    if neighbours < 0 or not 0 < focus < math.inf:
        raise InputError(f"neighbours must be at least 0 and focus positive, but they are {neighbours} and {focus}.")
    if not evolution.rounds:
        raise IncompleteError(
            "This run has no release yet, so there are no votes to draw a sample by; resume it first."
        )
    chosen = evolution.rounds if rounds == "all" else evolution.rounds[-1:]
    shares = _by_neighbours(evolution, chosen, neighbours) if neighbours else _by_votes(chosen)
    candidates, weights = tuple(shares), np.array(list(shares.values())) ** focus
    rng = stream(seed, "evolve", "sample", rounds)
    if not distinct:
        counts = draw_counts(rng, weights, size).tolist()
        return tuple(each for each, count in zip(candidates, counts, strict=True) for _ in range(count))
    if size > len(candidates):
        raise InputError(f"{size} different candidates cannot be drawn from {len(candidates)}; ask for fewer.")
    return tuple(candidates[i] for i in sorted(draw_by_weight(rng, weights, size).tolist()))


def _by_votes(rounds: Sequence[Round]) -> dict[Candidate, float]:
    """Return the shares of all candidates of these rounds, those of a candidate in several of them added up."""
    shares: dict[Candidate, float] = {}
    for done in rounds:
        for candidate, share in zip(done.population.candidates, vote_shares(done).tolist(), strict=True):
            shares[candidate] = shares.get(candidate, 0.0) + share
    return shares


def _by_neighbours(evolution: Evolution, rounds: Sequence[Round], count: int) -> dict[Candidate, float]:
    """Return for all candidates of these rounds and of the final population the mean noisy share of their neighbours.

    Shares are noisy votes over their total, which may be negative before the mean is taken, and count as 0 after it.
    Where nothing positive is left, all candidates have the same share.
    """
    pool: dict[Candidate, NDArray[np.float32]] = {}
    voted, noisy = [], []
    for done in rounds:
        is_open = ~np.isin(done.bank.base, done.bank.barred)
        votes, vectors = done.votes[is_open], done.population.vectors[is_open]
        voted.append(vectors)
        noisy.append(votes / max(float(votes.sum()), evolution.mechanism.noise))
        pool.update(zip(compress(done.population.candidates, is_open.tolist()), vectors, strict=True))
    pool.update(zip(evolution.population.candidates, evolution.population.vectors, strict=True))
    bank, shares = np.concatenate(voted), np.concatenate(noisy)
    nearest = route(np.array(list(pool.values())), bank, min(count, len(bank)))
    means = positive_part(shares[nearest].mean(axis=1))
    return dict(zip(pool, (means if means.sum() > 0 else np.ones(len(pool))).tolist(), strict=True))
