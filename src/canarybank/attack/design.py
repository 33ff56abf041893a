"""Freeze an attack: its probes, the bank with them in it, what is inspected, and the score.

Over several rounds it is frozen again on each bank that was realised. The bank of a round is made of earlier releases,
so the law of its release is known only given those: ``follow`` builds a round's score on the canary's votes over that
bank and the background that the auxiliary users show on it. By the chain rule the sum of such conditional scores is the
transcript's log-likelihood ratio, where each of them is the true one. The sum of marginal ones, each built on what a
round's release looks like averaged over the releases before it, is not.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.attack.attacks import Attack, PoolKind
from canarybank.attack.canary import Canary
from canarybank.attack.contribution import canary_contribution
from canarybank.attack.covariance import require_auxiliary
from canarybank.attack.pool import Pool, PoolSource
from canarybank.attack.selection import SelectionContext, select
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.score import LinearScore, Moments
from canarybank.users import Auxiliary

__all__ = ["POOL_SIZE", "Design", "design", "follow"]

POOL_SIZE = 512


@dataclass(frozen=True, eq=False)
class Design:
    """A frozen attack on one canary: all that its audit needs, and nothing that the evaluation cohort touched.

    ``selected`` are the pool indices of the probes in the order of their positions; ``inspected`` the bank positions
    that the score reads, which are the probes' for an active attack; ``contribution`` the canary's on those; ``table``
    routes the canary's records over the base of the bank.
    """

    attack: Attack
    canary: Canary
    bank: Bank
    pool: Pool | None
    selected: tuple[int, ...]
    inspected: NDArray[np.int64]
    contribution: NDArray[np.float64]
    score: LinearScore
    table: RouteTable

    @property
    def mu_eff(self) -> float:
        """Return the separation of a participating canary from the background, in standard deviations of the score."""
        return float(self.score.mu_eff)

    def restrict(self, cohort: csr_array) -> csr_array:
        """Return contributions over the bank as contributions on the inspected positions."""
        return cohort[:, self.inspected]

    def __repr__(self) -> str:
        return (
            f"Design({self.attack.name}, canary {self.canary.id!r}, {len(self.selected)} probes, "
            f"{len(self.inspected)} inspected, mu_eff {self.mu_eff:.4f})"
        )


def design(
    attack: Attack,
    canary: Canary,
    bank: Bank,
    routed: Routed[Auxiliary],
    mechanism: Mechanism,
    *,
    eligible: int,
    pool: Pool | PoolSource | None = None,
    pool_size: int = POOL_SIZE,
    probes: int | None = None,
    table: RouteTable | None = None,
    seed: int,
) -> Design:
    """Freeze an attack on a canary, from public things and the auxiliary users alone.

    The formula: the squared distance of means in units of the covariance, (vᵀ S⁻¹ v)^½, of equation 3 of the paper
    (docs/mathematics.md).

    Args:
        attack: The recipe.
        canary: The user whose presence will be tested; a member of no cohort.
        bank: The unchanged bank, with the positions for probes reserved.
        routed: The auxiliary users, routed over the base of that bank.
        mechanism: The parameters of the release.
        eligible: How many users other than the canary are eligible; the background is scaled to them.
        pool: The candidate probes, or a source that makes ``pool_size`` of them; paraphrase and nonce attacks need it.
        pool_size: How many candidates to ask a source for.
        probes: How many of the reserved positions are this attack's, the first ones; left out, all.
        table: The canary's records, routed over the base of that bank; they are searched where it is not given.
        seed: The root of what is random: the pool of a source, and the selections that draw.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> people = Users.from_vectors(rng.normal(size=(8, 3, 4)))
        >>> routed = Routed.build(Auxiliary(people), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> made = design(ATTACKS["exact"], canary, bank, routed, mechanism, eligible=8, seed=0)
        >>> 0 < made.score.mu_eff <= 1 / mechanism.sigma
        True
    """
    require_auxiliary(routed)
    _require_fitting(attack, canary, routed)
    own = RouteTable.build(canary.vectors, bank, mechanism.k) if table is None else _fitting(table, canary)
    candidates = _pool(attack, canary, pool, pool_size, seed) if attack.active else None
    frozen, selected = bank, list[int]()
    if candidates is not None:
        places = bank.reserved[:probes]
        if not places:
            raise InputError(
                f"The attack {attack.name!r} plants probes, but the bank reserves no positions; call reserve()."
            )
        context = SelectionContext(canary, candidates, bank, places, own, routed, mechanism, eligible, seed)
        selected = select(attack.selection, context)
        frozen = _planted(bank, candidates, selected)
    probed = np.array(bank.reserved[: len(selected)], dtype=np.int64) if attack.active else None
    inspected, votes, score = _scored(own, frozen, routed, mechanism, eligible, probed)
    return Design(attack, canary, frozen, candidates, tuple(selected), inspected, votes, score, own)


def follow(design: Design, bank: Bank, auxiliary: Routed[Auxiliary], mechanism: Mechanism, *, eligible: int) -> Design:
    """Return the design of the same attack on a later bank: its score and moments frozen given that bank.

    The probes must stand in the bank as they were designed, and the auxiliary users be routed over its base. On the
    bank of the design itself this is that design.

    Args:
        design: The attack as it was designed.
        bank: The later bank, with the probes at their positions.
        auxiliary: The auxiliary users, routed over the base of that bank.
        mechanism: The parameters of the release.
        eligible: How many users other than the canary are eligible.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> people = Users.from_vectors(rng.normal(size=(8, 3, 4)))
        >>> routed = Routed.build(Auxiliary(people), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> made = design(ATTACKS["exact"], canary, bank, routed, mechanism, eligible=8, seed=0)
        >>> again = follow(made, made.bank, routed, mechanism, eligible=8)
        >>> bool(np.allclose(again.score.weights, made.score.weights))
        True
    """
    require_auxiliary(auxiliary)
    _require_probes(design, bank)
    table = RouteTable.build(design.canary.vectors, bank, mechanism.k)
    probed = design.inspected if design.attack.active else None
    inspected, votes, score = _scored(table, bank, auxiliary, mechanism, eligible, probed)
    return replace(design, bank=bank, inspected=inspected, contribution=votes, score=score, table=table)


def _scored(
    table: RouteTable,
    bank: Bank,
    auxiliary: Routed[Auxiliary],
    mechanism: Mechanism,
    eligible: int,
    probed: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64], LinearScore]:
    """Return what is inspected (the probes, or what the canary votes for), the canary's votes there, and the score."""
    votes = canary_contribution(table, bank, mechanism)
    inspected = np.flatnonzero(votes) if probed is None else probed
    background = auxiliary.contributions(bank, mechanism)[:, inspected]
    return inspected, votes[inspected], LinearScore(votes[inspected], Moments.estimate(background, mechanism, eligible))


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


def _fitting(table: RouteTable, canary: Canary) -> RouteTable:
    if not np.array_equal(table.records, canary.vectors):
        raise InputError(f"The route table holds other records than those of {canary!r}; build it from its vectors.")
    return table


def _require_fitting(attack: Attack, canary: Canary, routed: Routed[Auxiliary]) -> None:
    if canary.kind is not attack.canary:
        raise InputError(
            f"The attack {attack.name!r} needs a {attack.canary.value} canary, {canary.id!r} is {canary.kind.value}; "
            f"give another canary or choose another attack."
        )
    if canary.id in routed.cohort.users.ids:
        raise CohortError(f"The canary {canary.id!r} is also an auxiliary user; a canary is a member of no cohort.")


def _pool(attack: Attack, canary: Canary, pool: Pool | PoolSource | None, size: int, seed: int) -> Pool:
    if attack.pool is PoolKind.RECORDS:
        return Pool.of_records(canary)
    if pool is None:
        raise InputError(
            f"The attack {attack.name!r} selects from a pool of {attack.pool.value}; give pool=, a Pool or its source "
            f"(for bare vectors, simulated_paraphrases() or nonce_pool(simulated_nonces(...)))."
        )
    made = pool if isinstance(pool, Pool) else pool(canary, size, seed)
    if not isinstance(made, Pool):
        raise InputError(f"The source of the pool returned a {type(made).__name__}; it must return a Pool.")
    return made


def _planted(bank: Bank, pool: Pool, selected: list[int]) -> Bank:
    if bank.texts is None:
        return bank.with_probes(pool.vectors[selected])
    if pool.texts is None:
        raise InputError("The bank has texts but the pool has none; give Pool(..., texts=...) too.")
    return bank.with_probes(pool.vectors[selected], [pool.texts[j] for j in selected])
