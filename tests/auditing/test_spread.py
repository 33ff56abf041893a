import numpy as np
import pytest

from canarybank.auditing import (
    Projected,
    Target,
    calibrated,
    calibrated_spread,
    expected_bound,
    find_method,
    frozen_spread,
)
from canarybank.auditing.forecast import bound_law, chance_at_most
from canarybank.auditing.spread import Outcomes, drawn_thresholds
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score import RoundLaw
from canarybank.seeds import stream

PERFECT = RoundLaw.perfect(Mechanism())
TARGET = Target(1e6, 1e-5, 0.01)
BEST = 3.139


def rates(threshold):
    fpr, tpr = PERFECT.point(np.array([threshold]))
    return float(tpr[0]), float(fpr[0])


def test_frozen_thresholds_give_the_quantiles_of_the_forecast():
    law = expected_bound(*rates(BEST), 1e6, delta=1e-5, alpha=0.01, canaries=5)
    found = frozen_spread([rates(BEST)] * 5, TARGET, level=0.9)
    assert (found.lower, found.upper) == (law.q05, law.q95)
    wider = frozen_spread([rates(BEST)] * 5, TARGET)
    assert wider.lower < found.lower < found.upper < wider.upper


def test_frozen_spread_holds_what_naive_draws_show():
    # 4,000 maxima over five, of which a share of 0.001 falls outside on average: more than 20 has probability 1e-8.
    rng = np.random.default_rng(0)
    tpr, fpr = rates(BEST)
    found = frozen_spread([(tpr, fpr)] * 5, TARGET)
    tp, fp = rng.binomial(10**6, tpr, (4000, 5)), rng.binomial(10**6, fpr, (4000, 5))
    bounds = TARGET.at_counts(tp, fp, 1e6).max(axis=1)
    assert ((bounds < found.lower) | (bounds > found.upper)).sum() <= 20


def test_calibrating_spreads_the_bound_as_the_reference_figures_say():
    # With thresholds by noisy counts a perfect attack's maximum over five has mean 1.086 and sd 0.077; both ends of a
    # 68% interval are then about one sd away, and the ends are known to 0.01.
    found = calibrated_spread([PERFECT] * 5, [PERFECT] * 5, TARGET, number=10**6, seed=0, level=0.6827)
    assert found.lower == pytest.approx(1.086 - 0.077, abs=0.015)
    assert found.upper == pytest.approx(1.086 + 0.077, abs=0.015)
    whole = calibrated_spread([PERFECT] * 5, [PERFECT] * 5, TARGET, number=10**6, seed=1)
    fixed = frozen_spread([rates(BEST)] * 5, TARGET)
    assert whole.lower < fixed.lower
    assert whole.upper > fixed.upper


def test_the_interval_of_one_canary_knows_its_rare_thresholds():
    # One canary alone at five million trials: its low end hangs on thresholds that one calibration in a thousand gives.
    # 6,000 other calibrations with 40 bounds each: a share of at most 5e-4 should fall below, with sd about 2e-4.
    target = Target(5e6, 1e-5, 0.05)
    found = calibrated_spread([PERFECT], [PERFECT], target, number=5_000_000, seed=0)
    rng = np.random.default_rng(1)
    fpr, tpr = PERFECT.point(drawn_thresholds([PERFECT], target, 5_000_000, 6000, [rng])[0])
    tp, fp = (rng.binomial(5_000_000, rate[:, None], (6000, 40)) for rate in (tpr, fpr))
    bounds = target.at_counts(tp, fp, 5e6)
    assert np.mean(bounds < found.lower) < 13e-4
    assert np.mean(bounds > found.upper) < 13e-4
    # Two million draws by another program put the ends at 0.328 and 1.669.
    assert 0.15 < found.lower < 0.45
    assert 1.6 < found.upper < 1.75


def test_an_interval_takes_in_the_mass_between_two_values_of_its_grid():
    # A canary that stands out altogether: nearly all of its bounds are one value, and those below it a little less.
    law = RoundLaw(np.empty(0), 8.0, 64.0, 32.0, 1.0)
    target = Target(5000, 1e-5, 0.01)
    found = calibrated_spread([law] * 5, [law] * 5, target, number=5000, seed=0, replicates=500)
    rng = np.random.default_rng(0)
    rates = [law.point(drawn_thresholds([law], target, 5000, 4000, [rng])[0]) for _ in range(5)]
    drawn = [(rng.binomial(5000, tpr), rng.binomial(5000, fpr)) for fpr, tpr in rates]
    bounds = np.max([target.at_counts(tp, fp, 5000) for tp, fp in drawn], axis=0)
    assert np.mean((bounds < found.lower - 1e-9) | (bounds > found.upper + 1e-9)) < 0.004


def test_a_spread_needs_canaries_and_rates():
    for wrong in ([], [(0.5, float("nan"))], [(1.5, 0.1)]):
        with pytest.raises(InputError, match="rates"):
            frozen_spread(wrong, TARGET)
    for canaries, replicates in (([], 10), ([PERFECT], 0)):
        with pytest.raises(InputError, match="canar"):
            calibrated_spread(canaries, canaries, TARGET, number=100, seed=0, replicates=replicates)


def test_drawn_thresholds_fall_as_real_calibrations_do():
    # Two means of 200 and 60 draws with sd 0.25 at most differ by more than 0.2 with probability below 1e-7.
    target = Target(20_000, 1e-5, 0.01)
    drawn = drawn_thresholds([PERFECT], target, 20_000, 200, [np.random.default_rng(0)])[0]
    real = [calibrated(Projected(PERFECT), target, number=20_000, seed=seed).value for seed in range(60)]
    assert np.mean(drawn) == pytest.approx(np.mean(real), abs=0.2)
    assert np.std(drawn) == pytest.approx(np.std(real), rel=0.5)


@pytest.mark.parametrize("method", ["clopper-pearson", "pooled", "stratified"])
def test_other_methods_have_a_spread_too(method):
    target = Target(20_000, 1e-5, 0.01, method, 2, 0.1)
    found = calibrated_spread([PERFECT] * 2, [PERFECT] * 2, target, number=20_000, seed=0, replicates=40)
    assert 0 <= found.lower < found.upper < 3


def test_a_pooled_spread_is_over_many_sets_of_thresholds():
    laws = [PERFECT, RoundLaw.perfect(Mechanism(sigma=2.0))]
    target = Target(5000, 1e-5, 0.05, "pooled", 2)
    found = calibrated_spread(laws, laws, target, number=5000, seed=3, replicates=128, level=0.9)
    streams = [stream(3, "spread", index) for index in range(2)]
    drawn = drawn_thresholds(laws, target, 5000, 64, streams)
    sets = [
        [law.point(np.array([kinds[place]])) for law, kinds in zip(laws, drawn, strict=True)] for place in range(64)
    ]
    laws_of_bounds = [bound_law(target, [(float(tpr[0]), float(fpr[0])) for fpr, tpr in each]) for each in sets]
    grid = np.linspace(0.0, max(values[-1] for values, _ in laws_of_bounds), 4001)
    reached = np.mean([chance_at_most(*law, grid) for law in laws_of_bounds], axis=0)
    share = (np.sqrt(1 / 128 + 0.2) - np.sqrt(1 / 128)) ** 2 / 4
    assert found.lower == pytest.approx(grid[np.searchsorted(reached, share)], abs=3 * grid[1])
    assert found.upper == pytest.approx(grid[np.searchsorted(reached, 1 - share)], abs=3 * grid[1])
    assert len({kind for kinds in drawn for kind in kinds}) > 20


def test_a_level_is_a_probability():
    with pytest.raises(InputError, match="level"):
        frozen_spread([rates(BEST)], TARGET, level=1.0)


def test_a_bound_above_the_largest_by_rounding_stands_in_the_last_cell():
    values = np.array([[0.5, np.nextafter(1.0, 2.0)]])
    outcomes = Outcomes((np.array([1.0]), np.array([1.0])), (np.array([1.0, 2.0]), np.array([0.25, 0.75])), values, 1.0)
    np.testing.assert_array_equal(outcomes.at_most(np.linspace(0.0, 1.0, 5)), [0.0, 0.0, 0.25, 0.25, 1.0])
    np.testing.assert_array_equal(outcomes.at_most(np.zeros(5)), [0.0, 0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize("trials", [10, 20, 1_000])
@pytest.mark.parametrize("name", ["paper", "clopper-pearson", "stratified"])
def test_a_canary_that_always_shows_has_thresholds(name, trials):
    law = RoundLaw(np.zeros(0), noise=0.01, shift=1.0, offset=0.5, q=0.5)
    found = calibrated_spread([law], [law], Target(trials, 1e-5, 0.05, find_method(name), q=0.5), number=trials, seed=1)
    assert 0.0 <= found.lower <= found.upper
