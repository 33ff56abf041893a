"""Say what a frozen attack reaches with defences on: exactly, or by the best filters that we know."""

from collections.abc import Sequence

import numpy as np

from canarybank.attack import Design, canary_contribution
from canarybank.defend.share import CONFIDENCE, ShareReach, filtered_reach
from canarybank.defend.votes import ShareVotes
from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.score import Interval, LinearScore, Moments, RoundLaw
from canarybank.score.epsilon import supremum
from canarybank.seeds import stream
from canarybank.users import Auxiliary, Evaluation

__all__ = ["reach", "reach_under_share"]

DRAWS = 32
"""How many secret sets of each auxiliary user the moments are estimated from."""


def reach(
    design: Design,
    evaluation: Routed[Evaluation],
    mechanism: Mechanism,
    *,
    barred: Sequence[int] = (),
    auxiliary: Routed[Auxiliary] | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Return ends of the epsilon that an attack reaches on evaluation users, with these defences on.

    The attacker knows the defences: probes and canary stay, the score is made again from what the canary contributes
    under them. Where users vote over the whole bank the ends are certified, the supremum over all thresholds. Under a
    secret share they are those of the best filter that we know, by simulation, with the ``confidence`` asked for.

    The formula: the region of error rates that (epsilon, delta) allows (Kairouz, Oh and Viswanath, 2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        design: The frozen attack.
        evaluation: The eligible users, routed over the base of the design's bank.
        mechanism: The parameters of the release, with the defences that are on.
        barred: The positions that nobody votes for, as ``Vetting.barred`` names them.
        auxiliary: The auxiliary users, from whom the background under these defences is estimated; left out, the score
            keeps the background that the attack was designed with.
        confidence: The confidence of an interval by simulation.
        seed: The root of what is drawn.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary, design
        >>> from canarybank.mechanism import Bank, Mechanism, Routed
        >>> from canarybank.users import Auxiliary, Evaluation, Users
        >>> rng, mechanism = np.random.default_rng(0), Mechanism(k=2)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> known, eligible = (Users.from_vectors(rng.normal(size=(8, 3, 4))) for _ in range(2))
        >>> auxiliary = Routed.build(Auxiliary(known), bank, mechanism.k)
        >>> evaluation = Routed.build(Evaluation(eligible), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> attack = design(ATTACKS["exact"], canary, bank, auxiliary, mechanism, eligible=8, seed=0)
        >>> undefended = reach(attack, evaluation, mechanism)
        >>> barred = reach(attack, evaluation, mechanism, barred=attack.inspected.tolist())
        >>> round(undefended.lower, 3), round(undefended.upper, 3), barred.upper
        (0.691, 0.691, 0.0)
    """
    if mechanism.share < 1:
        return reach_under_share(
            design, evaluation, mechanism, barred=barred, auxiliary=auxiliary, confidence=confidence, seed=seed
        ).interval
    bank, places = _defended(design, evaluation, barred), design.inspected
    votes = canary_contribution(design.table, bank, mechanism)[places]
    if not votes.any():
        return Interval(0.0, 0.0)
    moments = design.score.moments
    if auxiliary is not None:
        background = auxiliary.contributions(bank, mechanism)[:, places]
        moments = Moments.estimate(background, mechanism, len(evaluation))
    users = evaluation.contributions(bank, mechanism)[:, places]
    return supremum(RoundLaw.of(LinearScore(votes, moments), users, votes, mechanism), mechanism.delta).interval


def reach_under_share(
    design: Design,
    evaluation: Routed[Evaluation],
    mechanism: Mechanism,
    *,
    barred: Sequence[int] = (),
    auxiliary: Routed[Auxiliary] | None = None,
    samples: int = 1 << 16,
    sets: int = 2048,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> ShareReach:
    """Return what the better of two filters reaches on evaluation users who vote within secret shares.

    Canary and users draw new sets at every release; all records of a user vote within the same one. The filters are the
    linear one, on the canary's mean contribution, and the likelihood ratio over many of its sets; ``filtered_reach``
    says how they are judged.

    The formula: the region of error rates that (epsilon, delta) allows (Kairouz, Oh and Viswanath, 2015,
    https://arxiv.org/abs/1311.0776).

    Args:
        design: The frozen attack.
        evaluation: The eligible users, routed over the base of the design's bank.
        mechanism: The parameters of the release, with its share and the other defences that are on.
        barred: The positions that nobody votes for, as ``Vetting.barred`` names them.
        auxiliary: The auxiliary users, from whom the background under these defences is estimated; left out, the score
            keeps the background that the attack was designed with.
        samples: How many releases are drawn.
        sets: How many of the canary's sets the likelihood ratio is averaged over.
        confidence: The confidence of the interval.
        seed: The root of what is drawn.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary, design
        >>> from canarybank.mechanism import Bank, Mechanism, Routed
        >>> from canarybank.users import Auxiliary, Evaluation, Users
        >>> rng, mechanism = np.random.default_rng(0), Mechanism(k=2)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> known, eligible = (Users.from_vectors(rng.normal(size=(8, 3, 4))) for _ in range(2))
        >>> auxiliary = Routed.build(Auxiliary(known), bank, mechanism.k)
        >>> evaluation = Routed.build(Evaluation(eligible), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> attack = design(ATTACKS["exact"], canary, bank, auxiliary, mechanism, eligible=8, seed=0)
        >>> shared = reach_under_share(attack, evaluation, Mechanism(k=2, share=0.5), samples=1 << 12, sets=256)
        >>> shared.epsilon < reach(attack, evaluation, mechanism).lower
        True
    """
    bank, places = _defended(design, evaluation, barred), design.inspected
    records = design.canary.vectors
    canary = ShareVotes.of(records, np.zeros(len(records), dtype=np.int64), bank, places, mechanism)
    others = _voters(evaluation, bank, places, mechanism)
    moments = design.score.moments
    if auxiliary is not None:
        like = _voters(auxiliary, bank, places, mechanism)
        rng = stream(seed, "defend", "background")
        table = np.zeros((len(like) * DRAWS, len(places)))
        for row, user in enumerate(like.touching):
            table[row * DRAWS : (row + 1) * DRAWS] = like.draw(int(user), DRAWS, rng)
        moments = Moments.estimate(table, mechanism, len(evaluation))
    return filtered_reach(
        lambda size, rng: canary.draw(0, size, rng),
        others.background,
        moments,
        mechanism,
        samples=samples,
        sets=sets,
        confidence=confidence,
        seed=seed,
    )


def _voters(
    routed: Routed[Auxiliary] | Routed[Evaluation], bank: Bank, places: object, mechanism: Mechanism
) -> ShareVotes:
    users = routed.cohort.users
    return ShareVotes.of(users.require_vectors(), users.owners, bank, np.asarray(places), mechanism)


def _defended(design: Design, evaluation: Routed[Evaluation], barred: Sequence[int]) -> Bank:
    if design.canary.id in evaluation.cohort.users.ids:
        raise InputError(f"The canary {design.canary.id!r} is also an evaluation user; a canary is in no cohort.")
    return design.bank.bar(barred)
