"""Follow an attack through the rounds of a realised run: the score of each round, given the releases before it.

The bank of a round is made of earlier releases, so the law of its release is known only given those. Each round's
score is therefore built on the bank that was realised: the canary's votes over it, and the background that the
auxiliary users show on it. By the chain rule the sum of such conditional scores is the transcript's log-likelihood
ratio, where each of them is the true one. The sum of marginal ones, each built on what a round's release looks like
averaged over the releases before it, is not.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.attack import Design, canary_contribution
from canarybank.attack.covariance import require_auxiliary
from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.score import LinearScore, Moments, mixture
from canarybank.users import Auxiliary

__all__ = ["follow", "transcript_scores"]


def follow(design: Design, bank: Bank, auxiliary: Routed[Auxiliary], mechanism: Mechanism, *, eligible: int) -> Design:
    """Return the design of the same attack on a later bank: its score and moments frozen given that bank.

    The probes must stand in the bank as they were designed, and the auxiliary users be routed over its base. On the
    bank of the design itself this is that design.
    """
    require_auxiliary(auxiliary)
    _require_probes(design, bank)
    table = RouteTable.build(design.canary.vectors, bank, mechanism.k)
    votes = canary_contribution(table, bank, mechanism)
    inspected = design.inspected if design.attack.active else np.flatnonzero(votes)
    background = auxiliary.contributions(bank, mechanism)[:, inspected]
    score = LinearScore(votes[inspected], Moments.estimate(background, mechanism, eligible))
    return replace(design, bank=bank, inspected=inspected, contribution=votes[inspected], score=score, table=table)


def transcript_scores(designs: Sequence[Design], releases: Sequence[ArrayLike], q: float) -> NDArray[np.float64]:
    """Return the sums of the rounds' mixture scores after each round, the releases being over whole banks.

    The t-th is log p1(y_1..y_t) / p0(y_1..y_t), of an eligible canary against an absent one, if each round's score is
    the true conditional log-likelihood ratio. Releases may be tables of many over the same banks; so are the sums then.
    """
    pairs = zip(designs, releases, strict=True)
    scores = [mixture(each.score.llr(np.asarray(release)[..., each.inspected]), q) for each, release in pairs]
    return np.asarray(np.cumsum(scores, axis=0), dtype=np.float64)


def _require_probes(design: Design, bank: Bank) -> None:
    """Refuse a bank in which the attack's probes do not stand where they were planted."""
    if not design.attack.active:
        return
    places = design.inspected
    if places.max() >= bank.size or not np.isin(places, bank.reserved).all():
        raise InputError(
            f"{bank!r} does not reserve the positions of the attack's probes, {places.tolist()[:4]} and so on; audit a "
            "run that starts from the design's own bank."
        )
    if not np.array_equal(bank.vectors[places], design.bank.vectors[places]):
        raise InputError(
            f"{bank!r} holds other entries than the design's probes at their positions; audit a run that starts from "
            "the design's own bank."
        )
