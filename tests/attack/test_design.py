"""Freeze all ten attacks on bare vectors, and hold each to what its name says."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from canarybank.attack import (
    ATTACKS,
    Attack,
    Canary,
    Design,
    Pool,
    canary_contribution,
    design,
    pool_covariance,
    select_probes,
)
from canarybank.attack.greedy import Votes
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable, contributions, route
from canarybank.score import LinearScore, Moments
from canarybank.users import Auxiliary, Evaluation, Users

TEN = list(ATTACKS.values())


def freeze(world: Any, attack: Attack, **changes: Any) -> Design:
    options = {"pool": world.source(attack), "eligible": 200, "pool_size": 40, "seed": 9} | changes
    canary = options.pop("canary", None) or world.canary(attack)
    bank, routed = options.pop("bank", world.bank), options.pop("routed", world.routed)
    return design(attack, canary, bank, routed, world.mechanism, **options)


@pytest.mark.parametrize("attack", TEN, ids=list(ATTACKS))
def test_the_score_is_that_of_the_frozen_bank(world: Any, attack: Attack) -> None:
    made = freeze(world, attack)
    mechanism, users = world.mechanism, world.routed.cohort.users
    mine = route(made.canary.vectors, made.bank, 3)
    votes = np.bincount(mine.ravel(), minlength=made.bank.size) / mine.size
    votes *= min(1.0, mechanism.clip / np.linalg.norm(votes))
    np.testing.assert_allclose(made.contribution, votes[made.inspected], rtol=1e-12)
    table = contributions(route(users.vectors, made.bank, 3), users.owners, len(users), made.bank.size, mechanism.clip)
    moments = Moments.estimate(table[:, made.inspected], mechanism, 200)
    expected = LinearScore(made.contribution, moments)
    np.testing.assert_allclose(made.score.weights, expected.weights, rtol=1e-12)
    assert made.mu_eff == pytest.approx(expected.mu_eff, rel=1e-12)
    assert 0 < made.mu_eff <= 1 / mechanism.sigma
    np.testing.assert_array_equal(made.restrict(table).toarray(), table.toarray()[:, made.inspected])


@pytest.mark.parametrize("attack", TEN, ids=list(ATTACKS))
def test_the_same_seed_freezes_the_same_bits(world: Any, attack: Attack) -> None:
    first, second = freeze(world, attack), freeze(world, attack)
    assert first.selected == second.selected
    assert first.bank.hash == second.bank.hash
    for name in ("inspected", "contribution"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    assert first.score.weights.tobytes() == second.score.weights.tobytes()
    assert first.score.offset == second.score.offset


@pytest.mark.parametrize("attack", [a for a in TEN if a.active], ids=[a.name for a in TEN if a.active])
def test_probes_stand_at_reserved_positions_in_their_order(world: Any, attack: Attack) -> None:
    made = freeze(world, attack)
    assert made.pool is not None
    assert len(set(made.selected)) == len(made.selected)
    assert list(made.inspected) == list(world.bank.reserved[: len(made.selected)])
    assert np.array_equal(made.bank.vectors[made.inspected], made.pool.vectors[list(made.selected)])
    rest = np.setdiff1d(np.arange(world.bank.size), made.inspected)
    assert np.array_equal(made.bank.vectors[rest], world.bank.vectors[rest])


def test_ordinary_leaves_the_bank_and_inspects_the_canary_s_votes(world: Any) -> None:
    made = freeze(world, ATTACKS["ordinary"])
    assert made.bank is world.bank
    assert made.selected == ()
    assert list(made.inspected) == sorted(set(route(world.real.vectors, world.bank, 3).ravel()))
    assert (made.contribution > 0).all()


def test_exact_plants_every_record_and_leaves_spare_positions(world: Any) -> None:
    made = freeze(world, ATTACKS["exact"])
    assert made.selected == tuple(range(8))
    assert len(made.inspected) == 8
    assert np.array_equal(made.bank.vectors[made.inspected], world.real.vectors)
    assert (route(world.real.vectors, made.bank, 1)[:, 0] == made.inspected).all()


def test_paraphrases_are_spread_and_nonces_drawn(world: Any) -> None:
    made = freeze(world, ATTACKS["paraphrase"])
    assert made.pool is not None
    assert made.pool.sources is not None
    counts = np.bincount([made.pool.sources[j] for j in made.selected], minlength=8)
    assert sorted(counts) == [1, 1, 1, 1, 2, 2, 2, 2]
    assert freeze(world, ATTACKS["nonce"]).selected != freeze(world, ATTACKS["nonce"], seed=10).selected


@pytest.mark.parametrize("name", ["paraphrase-norm", "paraphrase-mueff", "nonce-norm", "nonce-mueff"])
def test_optimised_attacks_select_greedily(world: Any, name: str) -> None:
    made = freeze(world, ATTACKS[name])
    assert made.pool is not None
    expected = select_probes(
        made.canary.vectors,
        world.bank.vectors[world.bank.base],
        made.pool.vectors,
        count=12,
        k=3,
        objective=name.split("-")[1],
        covariance=pool_covariance(made.pool, world.routed, world.bank, world.mechanism, 200),
    )
    assert list(made.selected) == expected


def test_a_nonce_attack_is_nearly_perfect_and_ordinary_is_not(world: Any) -> None:
    assert freeze(world, ATTACKS["nonce-norm"]).mu_eff > 0.8
    assert freeze(world, ATTACKS["nonce-norm"]).mu_eff > freeze(world, ATTACKS["ordinary"]).mu_eff


@pytest.mark.parametrize("name", ATTACKS)
def test_a_ready_table_serves_as_a_search_does(world: Any, name: str) -> None:
    plain = freeze(world, ATTACKS[name])
    table = RouteTable.build(plain.canary.vectors, world.bank, world.mechanism.k + 2)
    made = freeze(world, ATTACKS[name], table=table)
    assert made.table is table
    assert (made.selected, made.bank.hash) == (plain.selected, plain.bank.hash)
    assert np.array_equal(made.inspected, plain.inspected)
    assert np.array_equal(made.contribution, plain.contribution)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_canary_s_contribution_is_counted_from_its_routes_over_the_whole_planted_bank(
    world: Any, name: str
) -> None:
    made = freeze(world, ATTACKS[name])
    votes = np.zeros(made.bank.size)
    for record in made.canary.vectors.astype(np.float64):
        distances = ((made.bank.vectors.astype(np.float64) - record) ** 2).sum(axis=1)
        votes[np.argsort(distances, kind="stable")[: world.mechanism.k]] += 1
    share = votes / votes.sum()
    clipped = share * min(1.0, world.mechanism.clip / np.linalg.norm(share))
    assert np.allclose(canary_contribution(made.table, made.bank, world.mechanism), clipped, rtol=1e-12, atol=0)
    assert np.allclose(made.contribution, clipped[made.inspected], rtol=1e-12, atol=0)


def test_a_table_of_other_records_another_base_or_shorter_routes_is_refused(world: Any) -> None:
    attack, k = ATTACKS["exact"], world.mechanism.k
    with pytest.raises(InputError, match="other records"):
        freeze(world, attack, table=RouteTable.build(world.real.vectors[::-1], world.bank, k))
    with pytest.raises(InputError, match=f"k = {k} entries but the table keeps {k - 1}"):
        freeze(world, attack, table=RouteTable.build(world.real.vectors, world.bank, k - 1))
    short = RouteTable.build(world.real.vectors, world.bank, k - 1)
    with pytest.raises(InputError, match=f"the table keeps {k - 1}"):
        canary_contribution(short, world.bank, world.mechanism)
    other = Bank(world.bank.vectors[::-1], reserved=world.bank.reserved)
    with pytest.raises(InputError, match="outside the reserved positions"):
        freeze(world, attack, table=RouteTable.build(world.real.vectors, other, k))


def test_a_ready_pool_serves_as_its_source_does(world: Any) -> None:
    attack = ATTACKS["paraphrase-mueff"]
    made = freeze(world, attack)
    assert freeze(world, attack, pool=made.pool).selected == made.selected


def test_texts_travel_with_the_probes(world: Any) -> None:
    named = dataclasses.replace(world.bank, texts=tuple(f"entry {i}" for i in range(world.bank.size)))
    canary = dataclasses.replace(world.real, texts=tuple("abcdefgh"))
    made = freeze(world, ATTACKS["exact"], bank=named, canary=canary)
    assert made.bank.texts is not None
    assert [made.bank.texts[i] for i in made.inspected] == list("abcdefgh")
    with pytest.raises(InputError, match="the pool has none"):
        freeze(world, ATTACKS["exact"], bank=named)


def test_only_auxiliary_users_design(world: Any) -> None:
    evaluation = dataclasses.replace(world.routed, cohort=Evaluation(world.routed.cohort.users))
    for routed in (evaluation, world.routed.cohort, None):
        with pytest.raises(CohortError, match="auxiliary users alone"):
            freeze(world, ATTACKS["ordinary"], routed=routed)


def test_a_canary_among_the_auxiliary_users_is_refused(world: Any) -> None:
    with pytest.raises(CohortError, match="'aux-3' is also an auxiliary user"):
        freeze(world, ATTACKS["ordinary"], canary=Canary.of(world.routed.cohort.users, 3))


def test_designs_that_cannot_be_are_refused(world: Any) -> None:
    with pytest.raises(InputError, match="needs a nonce canary, 'real' is real"):
        freeze(world, ATTACKS["nonce"], canary=world.real)
    with pytest.raises(InputError, match="selects from a pool of nonces; give pool="):
        freeze(world, ATTACKS["nonce"], pool=None)
    with pytest.raises(InputError, match="returned a list; it must return a Pool"):
        freeze(world, ATTACKS["nonce"], pool=lambda *_: [])
    for name in ("paraphrase", "paraphrase-norm", "paraphrase-mueff", "nonce"):
        with pytest.raises(InputError, match="from a pool of 11"):
            freeze(world, ATTACKS[name], pool_size=11)
    with pytest.raises(InputError, match=r"another base"):
        freeze(world, ATTACKS["paraphrase-mueff"], bank=Bank(world.bank.vectors).reserve(12, seed=6))
    with pytest.raises(InputError, match="dimension"):
        freeze(world, ATTACKS["paraphrase"], pool=Pool(np.ones((40, 5)), sources=[i % 8 for i in range(40)]))


def test_positions_must_be_reserved_and_suffice_for_the_records(world: Any) -> None:
    for count, message in ((0, "reserves no positions"), (7, "8 candidates and the bank reserves 7")):
        bank = Bank(world.bank.vectors).reserve(count, seed=5)
        routed = Routed.build(world.routed.cohort, bank, 3)
        with pytest.raises(InputError, match=message):
            freeze(world, ATTACKS["exact"], bank=bank, routed=routed)


def test_auxiliary_users_do_influence_what_mueff_selects(world: Any) -> None:
    attack = ATTACKS["paraphrase-mueff"]
    made = freeze(world, attack)
    assert made.pool is not None
    crowd = Users.from_vectors({f"crowd-{i}": made.pool.vectors[list(made.selected[:8])] for i in range(60)})
    routed = Routed.build(Auxiliary(crowd), world.bank, 3)
    assert freeze(world, attack, routed=routed).selected != made.selected


@pytest.mark.parametrize("name", ["paraphrase-norm", "paraphrase-mueff"])
def test_what_stood_at_reserved_positions_does_not_steer_the_selection(world: Any, name: str) -> None:
    crowded = world.bank.with_probes(world.real.vectors)
    routed = Routed.build(world.routed.cohort, crowded, 3)
    made = freeze(world, ATTACKS[name], bank=crowded, routed=routed)
    assert made.selected == freeze(world, ATTACKS[name]).selected
    assert made.bank.hash == freeze(world, ATTACKS[name]).bank.hash


def crowded(case: int) -> tuple[Canary, Bank, Pool, int]:
    """A canary, a bank and a pool that are all copies of a few vectors, so that nearly every vote is a tie."""
    rng = np.random.default_rng([41, case])
    stock = rng.integers(-1, 2, (5, 2)).astype(np.float32)
    records, entries, pool = (stock[rng.integers(5, size=n)] for n in (rng.integers(1, 9), 14, rng.integers(6, 12)))
    bank = Bank(entries).reserve(int(rng.integers(1, 6)), seed=case)
    return Canary(records, id="canary", kind=ATTACKS["nonce"].canary), bank, Pool(pool), int(rng.integers(1, 9))


@pytest.mark.parametrize("case", range(80))
@pytest.mark.parametrize("objective", ["norm", "mueff"])
def test_the_votes_that_selection_predicts_are_those_of_the_planted_bank(case: int, objective: str) -> None:
    canary, bank, pool, k = crowded(case)
    mechanism = Mechanism(k=k)
    routed = Routed.build(Auxiliary(Users.from_vectors({"u": pool.vectors})), bank, k)
    made = design(ATTACKS[f"nonce-{objective}"], canary, bank, routed, mechanism, eligible=9, pool=pool, seed=0)
    # The literal algorithm: plant each trial set, route every record over what then stands in the bank, count votes.
    covariance = pool_covariance(pool, routed, bank, mechanism, 9)
    chosen: list[int] = []
    for t in range(len(bank.reserved)):
        held = sorted([*bank.base.tolist(), *bank.reserved[: t + 1]])
        places = [held.index(place) for place in bank.reserved[: t + 1]]
        scores = {}
        for j in set(range(len(pool))) - set(chosen):
            planted = bank.with_probes(pool.vectors[[*chosen, j]])
            routes = route(canary.vectors, planted.vectors[held], k)
            votes = np.bincount(routes.ravel(), minlength=len(held))[places].astype(float)
            block = np.eye(t + 1) if objective == "norm" else covariance[np.ix_([*chosen, j], [*chosen, j])]
            scores[j] = float(votes @ np.linalg.solve(block, votes))
        bar = max(scores.values()) * (1 - 1e-10)
        chosen.append(min(j for j, score in scores.items() if score >= bar))
    assert list(made.selected) == chosen
    table = RouteTable.build(canary.vectors, bank, k)
    distances = ((canary.vectors[:, None].astype(float) - pool.vectors[None].astype(float)) ** 2).sum(axis=2)
    votes = Votes(table.distances, table.positions, distances, bank.reserved)
    for j in made.selected:
        votes.add(j)
    assert np.array_equal(votes.position, route(canary.vectors, made.bank, k))
    owners = np.zeros(len(canary), dtype=np.int64)
    predicted = contributions(votes.position, owners, 1, bank.size, mechanism.clip).toarray()[0]
    assert np.array_equal(predicted[made.inspected], made.contribution)
