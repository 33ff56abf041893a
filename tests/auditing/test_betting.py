"""The betting bound: against a naive twin, its coverage by exact enumeration, its published figures, its mutants."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.optimize import brentq
from scipy.special import logsumexp

from canarybank.auditing import (
    Bets,
    BettingPower,
    BettingResult,
    Wealth,
    betting,
    betting_power,
    pairs_to_refute,
    perfect_roc,
    plan_bets,
)
from canarybank.auditing.betting import aim_bet, outcomes
from canarybank.errors import InputError
from canarybank.mechanism import Claim, Mechanism

QS = (0.02, 0.1, 0.5, 1.0)
PAIRS = list(itertools.product((0, 1), (0, 1)))
"""What a pair can be: present in the eligible run, present in the absent run."""


def naive_average(bets, tp, fp, at):
    """Return the average wealth after each block at one epsilon, by the definition; ``tp[c][t]`` of block t."""
    grown = []
    e = math.exp(bets.epsilons[at])
    n1, n0 = bets.arms
    for c in range(bets.canaries):
        for branch, stake in ((0, bets.forward[c][at]), (1, bets.reverse[c][at])):
            if stake == 0:
                continue
            wealth, path = 1.0, []
            for x, y in zip(tp[c], fp[c], strict=True):
                forward = x / n1 - e * y / n0 - bets.delta
                reverse = (n0 - y) / n0 - e * (n1 - x) / n1 - bets.delta
                wealth *= 1 + stake * (reverse if branch else forward)
                path.append(wealth)
            grown.append(path)
    return np.mean(grown, axis=0)


@pytest.mark.parametrize("arms", [(1, 1), (3, 2)])
def test_wealth_is_that_of_the_naive_twin(arms):
    rng = np.random.default_rng(1)
    bets = plan_bets([0.5, 0.3, 0.9], [0.1, 0.2, 0.3], 0.01, [0.05, 0.3, 1.0], alpha=0.2, arms=arms)
    tp, fp = rng.binomial(arms[0], 0.5, (3, 60)), rng.binomial(arms[1], 0.2, (3, 60))
    wealth = Wealth.start(bets).play(tp, fp)
    for at in range(3):
        path = naive_average(bets, tp, fp, at)
        assert math.exp(wealth.log_wealth[at]) == pytest.approx(path[-1], rel=1e-10)
        assert math.exp(wealth.best[at]) == pytest.approx(max(1.0, path.max()), rel=1e-10)
        reached = np.flatnonzero(path >= 5)
        assert wealth.crossed[at] == (reached[0] + 1 if reached.size else None)
    assert any(at is not None for at in wealth.crossed)
    assert any(at is None for at in wealth.crossed) or arms != (1, 1)


def test_blocks_by_four_counts_end_where_pairs_do_and_are_looked_at_only_there():
    rng = np.random.default_rng(2)
    bets = plan_bets([0.6, 0.5], [0.1, 0.1], 1e-5, [0.2, 0.8])
    tp, fp = rng.random((2, 300)) < 0.5, rng.random((2, 300)) < 0.1
    pairwise, blocks = Wealth.start(bets).play(tp, fp), Wealth.start(bets)
    for begin in range(0, 300, 100):
        x, y = tp[:, begin : begin + 100], fp[:, begin : begin + 100]
        blocks = blocks.update(*((a & b).sum(axis=1) for a, b in ((x, y), (x, ~y), (~x, y), (~x, ~y))))
    assert blocks.counts == pairwise.counts
    assert blocks.clock == pairwise.clock == 300
    assert np.array_equal(blocks.log_wealth, pairwise.log_wealth)
    assert all(a <= b for a, b in zip(blocks.best, pairwise.best, strict=True))
    assert blocks.crossed == (100, 100)
    assert pairwise.crossed[0] < 100


def test_a_state_is_written_and_carried_on():
    bets = plan_bets(0.5, 0.1, 1e-5, [0.2, 0.9])
    rng = np.random.default_rng(3)
    tp, fp = rng.random(5000) < 0.45, rng.random(5000) < 0.15
    adapter = TypeAdapter(Wealth)
    night = Wealth.start(bets)
    for part in np.array_split(np.arange(5000), 7):
        night = adapter.validate_json(adapter.dump_json(night.play(tp[part], fp[part])))
    whole = Wealth.start(bets).play(tp, fp)
    assert night.counts == whole.counts
    assert night.crossed == whole.crossed
    assert night.best == pytest.approx(whole.best, rel=1e-12)


# ---- coverage, by exact enumeration


def every_path(canaries, length):
    """Yield every sequence of pairs of all canaries: arrays tp[c][t], fp[c][t]."""
    for path in itertools.product(PAIRS, repeat=canaries * length):
        both = np.array(path).reshape(canaries, length, 2)
        yield both[..., 0], both[..., 1]


def joint(p1, p0, *, dependence=0.0):
    """Return the law of a pair with these marginals; at dependence 1 the two arms agree as often as they can."""
    apart, together = p1 * p0, min(p1, p0)
    both = (1 - dependence) * apart + dependence * together
    return {(1, 1): both, (1, 0): p1 - both, (0, 1): p0 - both, (0, 0): 1 - p1 - p0 + both}


def path_chance(laws, tp, fp):
    return math.prod(laws[c][x, y] for c in range(len(laws)) for x, y in zip(tp[c], fp[c], strict=True))


def alarm(refuted, laws, length):
    """Return the probability that a rule refutes, by summing over every path."""
    return sum(path_chance(laws, tp, fp) for tp, fp in every_path(len(laws), length) if refuted(tp, fp))


def refuted_by(bets, tp, fp, at=0):
    return Wealth.start(bets).play(tp, fp).crossed[at] is not None


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.05])
@pytest.mark.parametrize("dependence", [0.0, 1.0])
def test_an_epsilon_that_holds_is_refuted_at_most_alpha_often(delta, dependence):
    epsilon, alpha = 0.4, 0.35
    for p0 in (0.1, 0.3):
        p1 = math.exp(epsilon) * p0 + delta
        bets = plan_bets(0.9, 0.1, delta, [epsilon], alpha=alpha)
        law = joint(p1, p0, dependence=dependence)
        assert alarm(partial(refuted_by, bets), [law], 4) <= alpha
        assert alarm(partial(refuted_by, plan_bets(0.9, 0.1, delta, [0.0], alpha=alpha)), [law], 4) > 0


def test_unequal_canaries_are_averaged_and_mutants_are_caught():
    # Two pairs of two canaries, one loud and one quiet, both exactly at the claim.
    epsilon, alpha = 0.2, 0.5
    bets = plan_bets([0.95, 0.6], [0.02, 0.3], 0.0, [epsilon], alpha=alpha, reverse=False)
    laws = [joint(math.exp(epsilon) * p0, p0) for p0 in (0.3, 0.6)]
    singles = [replace(bets, forward=(row,), reverse=((0.0,),)) for row in bets.forward]

    def summed(tp, fp):  # not divided by the number of canaries
        paths = [naive_average(one, tp[[c]], fp[[c]], 0) for c, one in enumerate(singles)]
        return np.sum(paths, axis=0).max() >= 1 / alpha

    def inflated(tp, fp):  # each pair pays as if epsilon were smaller
        return refuted_by(replace(bets, epsilons=(0.0,)), tp, fp)

    def either(tp, fp):  # any canary alone at all of alpha
        return any(refuted_by(one, tp[[c]], fp[[c]]) for c, one in enumerate(singles))

    honest = alarm(partial(refuted_by, bets), laws, 2)
    assert 0 < honest <= alpha
    assert alarm(summed, laws, 2) > alpha
    assert alarm(either, laws, 2) > honest
    assert alarm(inflated, laws, 2) > honest


def test_the_maximum_is_of_the_average_and_not_the_average_of_maxima():
    # One canary wins early and loses it again, the other wins late: no moment has an average of 1/alpha.
    bets = plan_bets([0.8, 0.8], [0.1, 0.1], 0.0, [0.2], alpha=0.1, reverse=False)
    win, lose, still = [(1, 0)] * 4, [(0, 1)] * 4, [(0, 0)] * 4
    path = np.array([win + lose + still, still + still + win])
    singles = [replace(bets, forward=(row,), reverse=((0.0,),)) for row in bets.forward]
    peaks = [naive_average(one, path[[c], :, 0], path[[c], :, 1], 0).max() for c, one in enumerate(singles)]
    alpha = 1 / np.mean(peaks)
    assert not refuted_by(replace(bets, alpha=alpha * 1.001), path[..., 0], path[..., 1])
    assert refuted_by(replace(bets, alpha=min(0.99, 2.2 * alpha)), path[..., 0], path[..., 1])


def crossing_chance(bets, law, pairs):
    """Return the chance that the wealth of the first grid point reaches 1/alpha within so many pairs.

    Exactly: the wealth depends on the counts of (1, 1), (1, 0) and (0, 1) and on the number of pairs, so the chance of
    each count that has not crossed yet is carried from pair to pair.
    """
    factors, shares = betting._log_factors(bets)
    made = np.flatnonzero(np.isfinite(shares[0, :, 0]))
    size = pairs + 1
    n11, n10, n01 = np.mgrid[:size, :size, :size]
    alive, gone = np.zeros((size,) * 3), 0.0
    alive[0, 0, 0] = 1.0
    for t in range(1, pairs + 1):
        moved = alive * law[0, 0]
        moved[1:] += alive[:-1] * law[1, 1]
        moved[:, 1:] += alive[:, :-1] * law[1, 0]
        moved[:, :, 1:] += alive[:, :, :-1] * law[0, 1]
        counts = np.stack([t - n11 - n10 - n01, n01, n10, n11])
        logs = [np.tensordot(factors[0, branch, 0], counts, 1) + shares[0, branch, 0] for branch in made]
        crossed = logsumexp(logs, axis=0) >= -math.log(bets.alpha) + betting.ROUNDING
        gone += moved[crossed].sum()
        alive = np.where(crossed, 0.0, moved)
    return gone


@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_honest_mechanisms_are_refuted_at_most_alpha_often(q, delta):
    # At the rule whose rates meet the claim with equality the payoff is fairest; 30 pairs, both branches.
    fpr, tpr = perfect_roc(1.0, q)
    claimed = np.log(np.maximum(tpr - delta, 1e-300) / np.maximum(fpr, 1e-300))
    for at in (int(np.argmax(claimed)), int(np.searchsorted(fpr, 0.2)), int(np.searchsorted(fpr, 0.5))):
        epsilon = max(0.0, float(claimed[at]), math.log((1 - fpr[at] - delta) / (1 - tpr[at])))
        bets = plan_bets(min(1.0, 2.5 * tpr[at]), fpr[at] / 2, delta, [epsilon], alpha=0.2)
        chance = crossing_chance(bets, joint(tpr[at], fpr[at]), 30)
        assert chance <= 0.2
    assert chance > 1e-4  # the last rule, which says "present" often, does cross


def duel_chance(bets, p1, pairs, *, any_point):
    """Do the same where just one run of each pair says "present", the eligible one with chance p1: over 1,000 pairs."""
    factors, _ = betting._log_factors(bets)
    hits = np.arange(pairs + 1)
    alive, gone = np.zeros(pairs + 1), 0.0
    alive[0] = 1.0
    for t in range(1, pairs + 1):
        alive = alive * (1 - p1) + np.append(0.0, alive[:-1]) * p1
        logs = factors[0, 0, :, 2:3] * hits + factors[0, 0, :, 1:2] * (t - hits)
        crossed = logs >= -math.log(bets.alpha) + betting.ROUNDING
        crossed = crossed.any(axis=0) if any_point else crossed[0]
        gone += alive[crossed].sum()
        alive = np.where(crossed, 0.0, alive)
    return gone


def test_every_grid_point_below_must_have_crossed():
    # With bets that depend on epsilon, the plain supremum over the grid errs more often than alpha.
    truth, alpha = 0.3, 0.1
    grid = tuple(truth + 1e-4 * k for k in range(9))
    shares = (0.3, 0.95, 0.6, 0.4, 0.2, 0.13, 0.08, 0.05, 0.03)
    stakes = tuple(share / math.exp(e) for share, e in zip(shares, grid, strict=True))
    bets = Bets(grid, 0.0, alpha, (stakes,), ((0.0,) * 9,))
    p1 = math.exp(truth) / (1 + math.exp(truth))
    assert 0.5 * alpha < duel_chance(bets, p1, 1_000, any_point=False) <= alpha
    assert duel_chance(bets, p1, 1_000, any_point=True) > 1.5 * alpha
    forgetful = replace(bets, epsilons=tuple(e - truth + 1e-9 for e in grid))  # pays as if exp(epsilon) were 1
    assert duel_chance(forgetful, p1, 1_000, any_point=False) > 0.9
    start = Wealth.start(bets)
    gap = replace(start, crossed=(3, None, 4, *(None,) * 6))
    assert gap.epsilon_lower == grid[0]
    assert replace(start, crossed=(None, 2, *(None,) * 7)).epsilon_lower == 0
    assert replace(start, crossed=(1,) * 9).epsilon_lower == grid[-1]


def test_a_stake_beyond_its_limit_is_refused():
    with pytest.raises(InputError, match="could become negative"):
        Bets((1.0,), 0.1, 0.05, ((1 / (math.e + 0.1),),), ((0.0,),))


# ---- losses


def test_a_lost_run_counts_against_the_bet():
    tp, fp = outcomes([5.0, math.nan, 0.0], [0.0, 5.0, math.nan], 1.0)
    assert tp.tolist() == [True, False, False]
    assert fp.tolist() == [False, True, True]
    bets = plan_bets(0.5, 0.1, 1e-5, [0.05])
    assert bets.reverse[0][0] > 0
    best = Wealth.start(bets)
    for lost in ([math.nan, 0.0], [5.0, math.nan]):
        worst = best.play(*(np.array([x]) for x in outcomes(*lost, 1.0))).log_wealth
        for seen in ([5.0, 0.0], [0.0, 0.0], [5.0, 5.0], [0.0, 5.0]):
            known = [s if math.isnan(gone) else gone for gone, s in zip(lost, seen, strict=True)]
            assert worst <= best.play(*(np.array([x]) for x in outcomes(*known, 1.0))).log_wealth


# ---- the published figures


@pytest.mark.parametrize(("pairs", "at_01", "at_05"), [(1e5, 0.657, 0.738), (1e6, 1.076, 1.147), (5e6, 1.319, 1.372)])
def test_expected_bounds_are_the_published_ones(pairs, at_01, at_05):
    fpr, tpr = perfect_roc(1.0, 0.1)

    def expected(barrier):
        """Return the epsilon at which the best bet's expected log wealth after so many pairs is the barrier."""

        def excess(epsilon):
            at, stake = betting._best_event(tpr, fpr, epsilon, 1e-5)
            payoffs, chances = betting._payoffs((1, 1), epsilon, 1e-5)[0], betting._chances(tpr[at], fpr[at], (1, 1))
            return pairs * float(chances @ np.log1p(stake * payoffs)) - barrier

        return brentq(excess, 0.05, 1.6, xtol=1e-5)

    assert expected(math.log(100)) == pytest.approx(at_01, abs=1e-3)
    assert expected(math.log(20)) == pytest.approx(at_05, abs=1e-3)
    if pairs == 1e6:
        assert expected(math.log(40)) == pytest.approx(1.113, abs=1e-3)  # half of the wealth is the reverse branch's


@pytest.mark.parametrize(
    ("shift", "q", "published"),
    [(1.0, 1.0, (670, 1_380, 3_490)), (2.0, 0.1, (2_070, 3_650, 8_360)), (1.5, 0.1, (19_000, 40_600, 99_500))],
)
def test_pairs_to_refute_are_the_published_ones(shift, q, published):
    # The published figures are of simulations: six hundredths is their error.
    fpr, tpr = perfect_roc(shift, q)
    at, _ = betting._best_event(tpr, fpr, 1.6845438, 1e-5)
    found = pairs_to_refute(float(tpr[at]), float(fpr[at]), 1.6845438, 1e-5, alpha=0.05)
    assert found == pytest.approx(published, rel=0.06)


def test_the_forecast_is_what_the_bets_do():
    # 400 audits of q ignored: the share that ends before a forecast quantile is within 4.5 standard deviations of it,
    # a false alarm in 1e-5 of runs. The forecast itself errs by some hundredths of a deviation.
    epsilon, audits, length = 1.6845438, 400, 6_000
    fpr, tpr = perfect_roc(1.0, 1.0)
    at, _ = betting._best_event(tpr, fpr, epsilon, 1e-5)
    rates = float(tpr[at]), float(fpr[at])
    bets = plan_bets(*rates, 1e-5, [epsilon], reverse=False)
    rng = np.random.default_rng(6)
    ended = []
    for _ in range(audits):
        tp, fp = rng.random(length) < rates[0], rng.random(length) < rates[1]
        ended.append(Wealth.start(bets).play(tp, fp).crossed[0] or math.inf)
    for chance, forecast in zip((0.1, 0.5, 0.9), pairs_to_refute(*rates, epsilon, 1e-5, alpha=0.05), strict=True):
        share = np.mean(np.array(ended) <= forecast)
        assert abs(share - chance) < 4.5 * math.sqrt(chance * (1 - chance) / audits) + 0.01


def test_many_small_steps_follow_brownian_motion_as_the_lattice_does(monkeypatch):
    rates, epsilon = (0.52, 0.30), 0.45
    by_lattice = pairs_to_refute(*rates, epsilon, 0.0, alpha=0.05)
    monkeypatch.setattr(betting, "MANY_EVENTS", 0)
    assert pairs_to_refute(*rates, epsilon, 0.0, alpha=0.05) == pytest.approx(by_lattice, rel=0.12)


# ---- power


def test_the_smallest_violation_is_refuted_in_half_of_the_audits():
    claim = Claim.of(Mechanism())
    power = betting_power(claim, 10_000, alpha=0.05)
    for shift, q in ((power.noise_factor, 0.1), (1.0, 0.1 * power.q_factor)):
        fpr, tpr = perfect_roc(shift, q)
        at, _ = betting._best_event(tpr, fpr, claim.epsilon, claim.delta)
        median = pairs_to_refute(
            float(tpr[at]), float(fpr[at]), claim.epsilon, claim.delta, alpha=0.05, chances=(0.5,)
        )[0]
        assert 9_800 < median <= 10_000
    assert power.noise_factor == pytest.approx(1.74, abs=0.01)


def test_power_grows_with_pairs_and_falls_with_canaries():
    claim = Claim.of(Mechanism())
    factors = [betting_power(claim, n, alpha=0.05).noise_factor for n in (1_000, 10_000)]
    assert factors[0] > factors[1] > 1
    assert betting_power(claim, 1_000, alpha=0.05, canaries=5).noise_factor > factors[0]
    assert betting_power(Claim.of(Mechanism(), rounds=2), 1_000, alpha=0.05).noise_factor > 1


def test_too_few_pairs_show_nothing_and_say_so():
    power = betting_power(Claim.of(Mechanism(q=1.0)), 20, alpha=0.05)
    assert (power.noise_factor, power.q_factor) == (None, None)
    assert ": too few" in power.statement
    assert "noise divided by" in betting_power(Claim.of(Mechanism()), 10_000, alpha=0.05).statement
    assert betting_power(Claim(math.inf, 0.0, mechanism=Mechanism(delta=0.0)), 1_000, alpha=0.05).noise_factor is None
    assert pairs_to_refute(0.1, 0.1, 1.0, 1e-5, alpha=0.05) == (None, None, None)


# ---- stakes, aims, and what is said


@pytest.mark.parametrize("arms", [(1, 1), (4, 2)])
def test_stakes_make_the_expected_log_wealth_largest(arms):
    bets = plan_bets(0.3, 0.05, 0.01, [0.1, 1.0, 4.0], arms=arms)
    law = betting._chances(0.3, 0.05, arms)
    for at, epsilon in enumerate(bets.epsilons):
        limit = 1 / (math.exp(epsilon) + 0.01)
        shares = np.linspace(0.0005, 0.9495, 1899)
        growth = np.log1p(limit * shares[:, None] * betting._payoffs(arms, epsilon, 0.01)[0]) @ law
        best = max(shares[int(np.argmax(growth))], betting.LEAST_SHARE)
        assert bets.forward[0][at] == pytest.approx(best * limit, abs=0.001 * limit)
    assert bets.reverse[0][-1] == 0


def test_larger_blocks_bet_more_on_less_noise():
    pair, block = (plan_bets(0.3, 0.05, 0.0, [1.0], arms=arms) for arms in ((1, 1), (10, 10)))
    assert block.forward[0][0] > pair.forward[0][0]


def test_a_bet_is_aimed_at_where_it_grows():
    rng = np.random.default_rng(8)
    absent, eligible = rng.standard_normal(4_000), rng.standard_normal(4_000) + 2 * (rng.random(4_000) < 0.5)
    threshold, tpr, fpr = aim_bet(absent, eligible, 1.0, 1e-5)
    assert 1.5 < threshold < 4
    assert math.log(tpr / fpr) > 1
    lost, *_ = aim_bet(absent, absent, 1.0, 1e-5)
    assert math.isfinite(lost)


@pytest.mark.parametrize("runs", [30, 332, 490, 505])
def test_a_bet_on_runs_that_are_told_apart_surely_can_be_planned(runs):
    rng = np.random.default_rng(1)
    _, tpr, fpr = aim_bet(rng.normal(size=runs), 1000 + rng.normal(size=runs), 1.0, 1e-5)
    assert tpr <= 1  # it was 1 + 9e-15: the weights of 490 scores add up to more than one
    assert tpr == pytest.approx(1)
    plan_bets(tpr, fpr, 1e-5, [0.5, 1.0])


def test_rates_that_are_all_but_zero_can_be_bet_on():
    for rate in 10.0 ** np.arange(-323.5, -280, 0.25):  # scipy's binomial law raises at 10^-308.25
        assert plan_bets(0.5, rate, 1e-5, [0.5, 1.0]) == plan_bets(0.5, 0.0, 1e-5, [0.5, 1.0])
        plan_bets(rate, rate, 1e-5, [0.5, 1.0])


def test_it_says_what_it_refutes():
    bets = plan_bets([0.5, 0.5], [0.05, 0.05], 1e-5, [0.5, 1.0])
    refuted = Wealth.start(bets).update([3, 3], [57, 57], [3, 3], [57, 57]).result(1.0)
    assert refuted.refuted
    assert refuted.pair == 120
    assert refuted.epsilon_lower == 1.0
    assert refuted.statement.startswith("Refuted at pair 120: epsilon is above the claimed 1 at delta 1e-05")
    kept = Wealth.start(bets).update([3, 3], [3, 3], [3, 3], [57, 57]).result(0.5)
    assert not kept.refuted
    assert "no violation of epsilon 0.5" in kept.statement
    assert "committed before the first pair" in kept.assumption
    blocks = Wealth.start(plan_bets(0.5, 0.05, 1e-5, [0.5], arms=(4, 2))).play([4, 3], [0, 1]).result(0.5)
    assert "block of 4 and 2 runs" in blocks.statement
    for kind, value in ((BettingResult, refuted), (BettingResult, kept), (Bets, bets)):
        adapter = TypeAdapter(kind)
        assert adapter.validate_json(adapter.dump_json(value)) == value
    adapter = TypeAdapter(BettingPower)
    power = BettingPower(10, 1.0, 1e-5, 0.05, 1, None, 2.0)
    assert adapter.validate_json(adapter.dump_json(power)) == power


PLAIN = plan_bets(0.5, 0.1, 1e-5, [0.5, 1.0])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (partial(plan_bets, 0.5, [0.1, 0.2], 1e-5, [1.0]), "one TPR and one FPR a canary"),
        (partial(plan_bets, 1.5, 0.1, 1e-5, [1.0]), "one TPR and one FPR a canary"),
        (partial(plan_bets, 0.5, 0.1, 1e-5, []), "ascending epsilons"),
        (partial(plan_bets, 0.5, 0.1, 1e-5, [1.0, 1.0]), "ascending epsilons"),
        (partial(plan_bets, 0.5, 0.1, 1e-5, [-1.0]), "ascending epsilons"),
        (partial(plan_bets, 0.5, 0.1, 1e-5, [1.0], arms=(0, 1)), "runs of a block"),
        (partial(plan_bets, [], [], 1e-5, [1.0]), "at least one canary"),
        (partial(Wealth.start(PLAIN).update, 1, -1, 0, 0), "at least 0"),
        (partial(Wealth.start(PLAIN).update, [1, 1], 0, 0, 0), "one entry for each of 1"),
        (partial(Wealth.start(PLAIN).play, [2], [0]), "no more of them"),
        (partial(Wealth.start(PLAIN).play, [1, 0], [0]), "same blocks"),
        (partial(Wealth.start(plan_bets(0.5, 0.1, 0, [1.0], arms=(2, 1))).update, 1, 0, 0, 0), "use play"),
        (partial(Wealth.start(PLAIN).result, 0.7), "not on the committed grid"),
        (partial(betting_power, Claim(1.0, 1e-5), 10, alpha=0.05), "names no mechanism"),
    ],
)
def test_what_cannot_be_bet_on_is_refused_in_words(wrong, words):
    with pytest.raises(InputError, match=words):
        wrong()
