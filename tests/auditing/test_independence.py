"""Independence is checked, not assumed: honest systems pass, systems that repeat themselves are found."""

import math
from itertools import permutations

import numpy as np
import pytest
from pydantic import TypeAdapter

from canarybank.auditing import Dependence, Independence, check_independence
from canarybank.auditing.independence import is_short, lattice_step, rank_products, rank_trends
from canarybank.errors import InputError

RUNS = 200


def schedule(rng):
    return rng.permutation(np.arange(RUNS) % 2 == 1)


def canary(coordinates):
    return np.eye(coordinates)[0] * 0.3


HONEST = {
    "gaussian": lambda rng, d: rng.normal(size=(RUNS, d)),
    "rounded": lambda rng, d: np.round(rng.normal(size=(RUNS, d)), 2),
    "whole": lambda rng, d: np.round(2.0 * rng.normal(size=(RUNS, d))),
    "votes of 1/sqrt(5)": lambda rng, d: rng.binomial(30, 0.2, (RUNS, d)) / np.sqrt(5.0),
    "single precision": lambda rng, d: rng.normal(size=(RUNS, d)).astype(np.float32),
    "mostly zero": lambda rng, d: np.maximum(rng.normal(size=(RUNS, d)) - 1.5, 0.0),
    "clipped at 2.5": lambda rng, d: np.maximum(rng.normal(2.5, 1.0, size=(RUNS, d)), 2.5),
    "heavy tails": lambda rng, d: rng.standard_cauchy((RUNS, d)),
    "constant": lambda rng, d: np.full((RUNS, d), float(rng.integers(9))),
}


@pytest.mark.parametrize("coordinates", [1, 4])
@pytest.mark.parametrize("law", HONEST)
def test_an_honest_system_passes_at_the_stated_rate(law, coordinates):
    # 40 checks at a rate of at most 0.05: more than 10 alarms come by chance with probability below 1e-5.
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        eligible = schedule(rng)
        table = HONEST[law](rng, coordinates) + np.outer(eligible, canary(coordinates) if law == "gaussian" else 0.0)
        found = check_independence(table, eligible, scores=table.sum(axis=1), batches=[20], lost_absent=2, alpha=0.05)
        alarms += not found.ok
    assert alarms <= 10


LATTICES = {
    "whole numbers, canary 20 deviations away": (lambda rng, shape: np.round(rng.normal(0.0, 100.0, shape)), 2000.0),
    "counts of a log-normal law": (lambda rng, shape: np.round(rng.lognormal(4.0, 2.0, shape)), 0.0),
    "four decimals, canary 33 deviations away": (lambda rng, shape: np.round(0.03 * rng.normal(size=shape), 4), 1.0),
    "whole numbers of any size": (lambda rng, shape: np.round(1e3 * rng.standard_t(2, shape)), 1e8),
    "clipped decimals": (lambda rng, shape: np.round(np.maximum(rng.normal(2.5, 1.0, shape), 2.5), 4), 0.0),
    "one count twice": (lambda rng, shape: np.round(rng.normal(0.0, 100.0, (shape[0], 1))) * np.ones(shape), 0.0),
}


@pytest.mark.parametrize("coordinates", [1, 2])
@pytest.mark.parametrize("law", LATTICES)
def test_an_honest_lattice_repeats_as_often_as_it_does(law, coordinates):
    # 10 checks at a rate of at most 1e-3: more than 1 alarm comes by chance with probability below 5e-5.
    draw, moved = LATTICES[law]
    alarms = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        eligible = rng.permutation(np.arange(600) % 2 == 1)
        table = draw(rng, (600, coordinates)) + np.outer(eligible, np.full(coordinates, moved))
        alarms += not check_independence(table, eligible).ok
    assert alarms <= 1


@pytest.mark.parametrize("decimals", [4, 6])
def test_decimals_that_repeat_more_than_they_do_by_chance_are_found(decimals):
    # Without batches, and in random order: only the repeats show it.
    for seed in range(5):
        rng = np.random.default_rng(seed)
        eligible = schedule(rng)
        noise = np.round(rng.normal(size=(20, 4)), decimals)[rng.integers(20, size=RUNS)]
        found = check_independence(noise + np.outer(eligible, canary(4)), eligible)
        assert Dependence.REPEATED in {finding.kind for finding in found.findings}


def test_the_default_rate_is_one_in_a_thousand():
    # 300 checks at a rate of at most 1e-3: more than 4 alarms come by chance with probability below 2e-5.
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        table = rng.normal(size=(RUNS, 2))
        alarms += not check_independence(table, schedule(rng), scores=table[:, 0], batches=[10]).ok
    assert alarms <= 4


def restarted_in_batches(rng, eligible, d):
    return np.tile(rng.normal(size=(20, d)), (RUNS // 20, 1)) + np.outer(eligible, canary(d))


def restarted_on_each_call(rng, eligible, d):
    table, noise = np.empty((RUNS, d)), rng.normal(size=(20, d))
    for arm in (eligible, ~eligible):
        table[arm] = np.tile(noise, (5, 1))
    return table + np.outer(eligible, canary(d))


def one_noise_for_all(rng, eligible, d):
    return rng.normal(size=d) + np.outer(eligible, canary(d))


def one_noise_for_all_with_a_background(rng, eligible, d):
    takes_part = eligible & (rng.random(RUNS) < 0.1)
    return rng.normal(size=d) + rng.binomial(3, 0.1, (RUNS, d)) / np.sqrt(5.0) + np.outer(takes_part, canary(d))


def seeds_shared(rng, eligible, d, q=1.0):
    table, noise = np.empty((RUNS, d)), rng.normal(size=(RUNS // 2, d))
    for arm in (eligible, ~eligible):
        table[arm] = noise
    return table + np.outer(eligible & (rng.random(RUNS) < q), canary(d))


def seeds_shared_with_sampling(rng, eligible, d):
    return seeds_shared(rng, eligible, d, q=0.1)


def seeds_shared_in_six_decimals(rng, eligible, d):
    return np.round(seeds_shared(rng, eligible, d), 6)


def noise_shared_by_a_batch(rng, eligible, d):
    return np.repeat(rng.normal(size=(10, d)), 20, axis=0) + rng.normal(size=(RUNS, d)) + np.outer(eligible, canary(d))


def whole_numbers_restarted(rng, eligible, d):
    return np.tile(np.round(3.0 * rng.normal(size=(20, d))), (RUNS // 20, 1)) + eligible[:, None]


BROKEN = {
    restarted_in_batches: Dependence.REPEATED,
    restarted_on_each_call: Dependence.REPEATED,
    one_noise_for_all: Dependence.REPEATED,
    one_noise_for_all_with_a_background: Dependence.REPEATED,
    seeds_shared: Dependence.SHARED,
    seeds_shared_with_sampling: Dependence.REPEATED,
    seeds_shared_in_six_decimals: Dependence.CORRELATED,
    noise_shared_by_a_batch: Dependence.CORRELATED,
    whole_numbers_restarted: Dependence.CORRELATED,
}


@pytest.mark.parametrize("coordinates", [1, 4])
@pytest.mark.parametrize("system", BROKEN)
def test_a_broken_system_is_found_at_200_runs(system, coordinates):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        eligible = schedule(rng)
        found = check_independence(system(rng, eligible, coordinates), eligible, batches=[20])
        assert not found.ok
        assert BROKEN[system] in {finding.kind for finding in found.findings}
        assert "no bound is stated" in found.statement


def test_noise_shared_in_another_order_is_found_by_its_differences():
    rng = np.random.default_rng(1)
    eligible = schedule(rng)
    table = seeds_shared(rng, eligible, 3)
    table[eligible] = rng.permutation(table[eligible])
    found = check_independence(table, eligible)
    assert [finding.kind for finding in found.findings] == [Dependence.SHARED]


@pytest.mark.parametrize(("trend", "ok"), [(0.0, True), (2.0, False)])
def test_drift(trend, ok):
    rng = np.random.default_rng(3)
    place = np.linspace(0.0, 1.0, RUNS)
    for table in (rng.normal(size=RUNS) + trend * place, rng.normal(size=RUNS) * np.exp(trend * place)):
        found = check_independence(table[:, None], schedule(rng))
        assert found.ok == ok
        assert ok or Dependence.DRIFT in {finding.kind for finding in found.findings}


def test_a_difference_between_the_hypotheses_is_no_dependence():
    # Alternating hypotheses that differ by ten standard deviations: neighbours in the schedule always differ.
    rng = np.random.default_rng(4)
    eligible = np.arange(RUNS) % 2 == 1
    assert check_independence(rng.normal(size=(RUNS, 2)) + 10.0 * eligible[:, None], eligible).ok


def test_losses_are_judged_by_fishers_exact_test():
    rng = np.random.default_rng(5)
    table, eligible = rng.normal(size=(RUNS, 2)), np.arange(RUNS) % 2 == 1
    assert check_independence(table, eligible, lost_absent=20, lost_eligible=20).ok
    found = check_independence(table, eligible, lost_eligible=20)
    assert [finding.kind for finding in found.findings] == [Dependence.LOST]
    # All 20 lost runs among the 120 eligible of 220: one tail of the hypergeometric law, and at most as much again.
    tail = math.comb(120, 20) / math.comb(220, 20)
    assert tail <= found.findings[0].p_value <= 2.0 * tail
    assert "20 of 120 with it eligible" in found.findings[0].statement


def test_the_order_is_that_of_the_schedule_and_not_of_the_rows():
    rng = np.random.default_rng(6)
    eligible = schedule(rng)
    table = noise_shared_by_a_batch(rng, eligible, 2)
    mixed = rng.permutation(RUNS)
    straight = check_independence(table, eligible, batches=[20])
    assert check_independence(table[mixed], eligible[mixed], order=mixed, batches=[20]) == straight
    assert check_independence(table[mixed], eligible[mixed], batches=[20]).ok


def test_products_are_standardised_by_what_random_orders_give():
    # The naive twin: shuffle the runs of each hypothesis, and look at the statistic's mean and deviation.
    rng = np.random.default_rng(7)
    present = rng.random(60) < 0.4
    ranks = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3))
    for arm in (present, ~present):
        ranks[arm] -= ranks[arm].mean(axis=0)
    pairs = (np.arange(57), np.arange(3, 60))
    statistics = []
    for _ in range(4000):
        for arm in (present, ~present):
            ranks[arm] = rng.permutation(ranks[arm])
        statistics.append(rank_products(ranks, present, pairs)[0])
    assert abs(np.mean(statistics)) < 5.0 / np.sqrt(4000)
    assert np.std(statistics) == pytest.approx(1.0, abs=0.08)


def test_trends_are_standardised_by_all_orders():
    ranks = np.array([-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0])
    present = np.ones(8, dtype=bool)
    every = np.array(list(permutations(ranks)))
    values = every @ (np.arange(8) - 3.5)
    assert rank_trends(every[:5].T, present) == pytest.approx(values[:5] / values.std(), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0.25, 0.5, 1.0], 0.25),
        ([0.3, -0.5, 0.7], 0.1),
        ([0.0, 0.0], 1.0),
        (np.array([2, 3, 7]) / (7 * np.sqrt(5.0)), 1 / (7 * np.sqrt(5.0))),
        ([0.123456789, 0.5, 1.0, 0.777777777], 0.0),
    ],
)
def test_the_lattice_of_a_coordinate(values, step):
    assert lattice_step(np.asarray(values)) == pytest.approx(step, abs=1e-9)


def test_short_numbers():
    numbers = np.array([[0.0, 2.5, -0.001, 123456.0, 1.0 / 3.0, 1234567.0, 1e-30, 0.1 + 0.2]])
    assert is_short(numbers).tolist() == [[True, True, True, True, False, False, True, True]]


def test_the_result_is_plain_data():
    rng = np.random.default_rng(8)
    found = check_independence(restarted_in_batches(rng, eligible := schedule(rng), 2), eligible)
    adapter = TypeAdapter(Independence)
    assert adapter.validate_json(adapter.dump_json(found)) == found


@pytest.mark.parametrize("runs", [0, 1, 2, 5])
def test_few_runs_are_no_error(runs):
    assert check_independence(np.random.default_rng(9).normal(size=(runs, 3)), np.arange(runs) % 2 == 1).ok


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"releases": np.zeros(5)}, "one row of releases"),
        ({"releases": np.full((5, 1), np.nan)}, "leave lost runs out"),
        ({"eligible": [True]}, "one hypothesis for each run"),
        ({"scores": [1.0]}, "give one a run"),
        ({"order": [0, 0, 1, 2, 3]}, "a place of its own"),
        ({"batches": [0]}, "at least one run"),
        ({"lost_absent": -1}, "negative"),
        ({"alpha": 0.0}, "alpha"),
    ],
)
def test_bad_input_is_refused(change, says):
    given = {"releases": np.zeros((5, 1)), "eligible": [True, False] * 2 + [True], **change}
    with pytest.raises(InputError, match=says):
        check_independence(given.pop("releases"), given.pop("eligible"), **given)
