"""Measure how concentrated votes are, from the noisy release alone: post-processing, which costs no privacy."""

from dataclasses import dataclass

import numpy as np

from canarybank.evolve.result import Round

__all__ = ["Concentration", "concentration"]


@dataclass(frozen=True, slots=True)
class Concentration:
    """How a round's noisy votes are spread; noise spreads them further than they were."""

    kept_share: float
    """The kept candidates' part of all positive noisy votes of candidates; 0 where no candidate has any."""
    effective: float | None
    """How many candidates with equal votes would have the same sum and sum of squares, both freed of the noise in
    expectation; None where noise drowns the votes."""
    probe_share: float | None
    """The probes' part of all votes, noise included: what auditing took from the candidates; None without probes or
    where noise drowns the votes."""


def concentration(done: Round, noise: float) -> Concentration:
    """Return how a round's votes are spread, ``noise`` being the standard deviation on each coordinate."""
    votes = done.votes
    positive = np.maximum(votes, 0.0)
    kept = float(positive[list(done.kept_candidates)].sum())
    return Concentration(
        kept_share=kept / total if (total := float(positive.sum())) > 0 else 0.0,
        effective=_effective(votes, noise),
        probe_share=_probe_share(done),
    )


def _effective(votes: np.ndarray, noise: float) -> float | None:
    spread = len(votes) * noise**2
    squared_sum, sum_of_squares = float(votes.sum()) ** 2 - spread, float(votes @ votes) - spread
    if squared_sum <= 0 or sum_of_squares <= 0:
        return None
    return min(max(squared_sum / sum_of_squares, 1.0), float(len(votes)))


def _probe_share(done: Round) -> float | None:
    total = float(done.release.sum())
    if not done.bank.reserved or total <= 0:
        return None
    return float(done.release[list(done.bank.reserved)].sum()) / total
