"""Judge trial sets fast as routing judges them, and select no worse than the paper's rule."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from canarybank.attack import SelectionContext, canary_contribution, pool_covariance, simulated_paraphrases
from canarybank.attack.exact import FEW, TrialSets, add_probes, exchange_probes, greedy_exact
from canarybank.attack.selection import greedy_mueff
from canarybank.mechanism import RouteTable


@pytest.fixture(scope="module")
def context(world: Any) -> SelectionContext:
    pool = simulated_paraphrases(0.6)(world.real, 30, 2)
    table = RouteTable.build(world.real.vectors, world.bank, world.mechanism.k)
    return SelectionContext(
        world.real, pool, world.bank, world.bank.reserved, table, world.routed, world.mechanism, 200, 9
    )


@pytest.fixture(scope="module")
def sets(context: SelectionContext) -> TrialSets:
    return TrialSets(context)


@pytest.mark.parametrize("seed", range(4))
def test_a_full_trial_set_is_what_planting_and_routing_it_gives(sets: TrialSets, seed: int) -> None:
    context = sets.context
    chosen = [int(j) for j in np.random.default_rng(seed).permutation(30)[: len(context.places)]]
    bank = context.bank.with_probes(context.pool.vectors[chosen])
    places = list(context.places[: len(chosen)])
    own = canary_contribution(context.table, bank, context.mechanism)[places]
    np.testing.assert_allclose(sets.canary(chosen), own, rtol=1e-12)
    routed = context.auxiliary.contributions(bank, context.mechanism)[:, places].toarray()
    quick = sets.background(chosen).toarray()
    np.testing.assert_array_equal(quick > 0, routed > 0)
    # The clip is that of a user before anything was planted: its norm moves by a few votes of dozens.
    np.testing.assert_allclose(quick, routed, rtol=0.15)
    assert sets.quick(chosen) == pytest.approx(sets.exact(chosen), rel=0.05, abs=1e-3)


def test_the_rule_reaches_at_least_what_the_paper_s_does(context: SelectionContext, sets: TrialSets) -> None:
    chosen, paper = greedy_exact(context), greedy_mueff(context)
    assert len(set(chosen)) == len(chosen) == len(context.places)
    assert sets.exact(chosen) >= sets.exact(paper)
    assert chosen == greedy_exact(context)


def test_the_rule_finds_more_than_the_paper_s_where_the_bank_reserves_few_places(context: SelectionContext) -> None:
    small = replace(context, places=context.places[:4], pool=simulated_paraphrases(0.6)(context.canary, 16, 10))
    sets = TrialSets(small)
    assert sets.exact(greedy_exact(small)) > sets.exact(greedy_mueff(small)) + 0.1


def test_adding_takes_the_best_of_the_few_that_mu_eff_names(context: SelectionContext) -> None:
    """With as many candidates as are judged, each addition is the literal arg-max of epsilon."""
    small = replace(context, pool=simulated_paraphrases(0.6)(context.canary, FEW, 5), places=context.places[:3])
    sets = TrialSets(small)
    covariance = pool_covariance(small.pool, small.auxiliary, small.bank, small.mechanism, small.eligible)
    added, expected = add_probes(sets, covariance), list[int]()
    for _ in range(3):
        rest = [j for j in range(FEW) if j not in expected]
        reached = {j: sets.quick([*expected, j]) for j in rest}
        expected.append(max(rest, key=lambda j: reached[j]))
    assert [sets.quick(added[: n + 1]) for n in range(3)] == pytest.approx(
        [sets.quick(expected[: n + 1]) for n in range(3)], abs=1e-8
    )


def test_exchanges_only_ever_help(context: SelectionContext, sets: TrialSets) -> None:
    covariance = pool_covariance(context.pool, context.auxiliary, context.bank, context.mechanism, context.eligible)
    worst = sorted(range(len(context.pool)), key=lambda j: sets.quick([j]))[:4]
    better = exchange_probes(sets, worst, covariance)
    assert len(set(better)) == 4
    assert sets.quick(better) > sets.quick(worst) + 1e-3
