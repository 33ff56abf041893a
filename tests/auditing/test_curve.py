"""The curve test: its curve against closed forms, its coverage by exact enumeration, its figures, its mutants."""

import math
from functools import partial

import numpy as np
import pytest
from mpmath import mp
from pydantic import TypeAdapter
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from canarybank.auditing import (
    Branch,
    Counts,
    Curve,
    CurvePower,
    CurveTest,
    Target,
    best_threshold,
    claimed_curve,
    curve_power,
    curve_test,
    perfect_roc,
)
from canarybank.auditing import curve as curves
from canarybank.auditing.curve import aim_curve
from canarybank.auditing.rates import ends
from canarybank.errors import InputError
from canarybank.mechanism import Claim, Mechanism
from canarybank.score import RoundLaw, SummedLaw

QS = (0.02, 0.1, 0.5, 1.0)
BIG = 10**12
ALPHA = 0.05


def honest(q=0.1, sigma=1.0, rounds=1, **others):
    return claimed_curve(Claim(5.0, 1e-5, mechanism=Mechanism(q=q, sigma=sigma, **others), rounds=rounds))


def refuting(curve, n1, n0, alpha=ALPHA, *, both=False):
    """Say for every outcome (tp, fp) of one canary whether it refutes: the test itself, one call an outcome."""
    return np.array(
        [
            [curve_test([Counts(tp, fp, n1, n0)], curve, alpha=alpha, both=both).refuted for fp in range(n0 + 1)]
            for tp in range(n1 + 1)
        ]
    )


def table(curve, n1, n0, gamma, *, both=False):
    """Do the same by Clopper–Pearson ends over whole arms; ``test_..._naive_twin`` shows that it is the same."""
    x1, x0 = np.arange(n1 + 1), np.arange(n0 + 1)
    shown = ends(x1, n1, gamma)[0][:, None] > curve.allowed(ends(x0, n0, gamma)[1])
    return shown | shown[::-1, ::-1] if both else shown


def chance(shown, tpr, fpr):
    """Return the probability of the outcomes that are shown, by summing over all of them."""
    n1, n0 = shown.shape[0] - 1, shown.shape[1] - 1
    return float(binom.pmf(np.arange(n1 + 1), n1, tpr) @ shown @ binom.pmf(np.arange(n0 + 1), n0, fpr))


def window(curve, n, tpr, fpr, alpha=ALPHA):
    """Return the probability of refutation with n runs an arm, leaving out outcomes of 1e-9."""
    x1, x0 = (np.arange(int(binom.ppf(1e-9, n, p)), int(binom.isf(1e-9, n, p)) + 1) for p in (tpr, fpr))
    shown = ends(x1, n, alpha / 2)[0][:, None] > curve.allowed(ends(x0, n, alpha / 2)[1])
    return float(binom.pmf(x1, n, tpr) @ shown @ binom.pmf(x0, n, fpr))


# ---- the curve


@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.0])
def test_one_release_has_its_closed_form_and_is_never_below_it(q, sigma):
    rates = [1e-250, 1e-30, 1e-5, 0.02, 0.5, 0.97]
    allowed = honest(q, sigma).allowed(rates)
    with mp.workdps(60):
        for rate, found in zip(rates, allowed, strict=True):
            z = mp.findroot(lambda z, rate=rate: mp.log(mp.ncdf(z)) - mp.log(mp.mpf(rate)), float(norm.ppf(rate)))
            exact = (1 - mp.mpf(q)) * mp.mpf(rate) + mp.mpf(q) * mp.ncdf(z + 1 / mp.mpf(sigma))
            assert 0 <= found - exact <= 3e-12 * exact
    assert honest(q, sigma).allowed(0.0) == 0
    assert honest(q, sigma).allowed(1.0) == 1


@pytest.mark.parametrize(("q", "rounds"), [(0.02, 3), (0.1, 2), (0.5, 4)])
def test_several_releases_lie_above_the_exact_curve_and_near_it(q, rounds):
    curve = honest(q, rounds=rounds)
    fpr, tpr = SummedLaw([RoundLaw.perfect(Mechanism(q=q))] * rounds).point(np.linspace(-0.05, 4.0, 40))
    some = fpr > 1e-7
    above = curve.allowed(fpr[some]) / tpr[some]
    assert np.all(above > 1 - 1e-6)  # the point values are as good as that
    assert np.all(above < 1 + 1e-3)


def test_lines_above_one_release_are_those_of_the_closed_form():
    fpr = np.geomspace(1e-6, 0.999, 50)
    ratio = curves._envelope(fpr, *curves._lines(1.0, 0.1, 1)) / honest().allowed(fpr)
    assert np.all((ratio > 1) & (ratio < 1 + 1e-3))


def test_six_rounds_have_the_published_rates():
    # estimators.md, sigma = 1.1088: (FPR, TPR) at the optimum of T = 2 and 6 rounds, four digits each.
    for rounds, fpr, tpr in ((2, 1.148e-5, 6.303e-5), (6, 6.63e-6, 5.851e-5)):
        assert honest(sigma=1.1088, rounds=rounds).allowed(fpr) == pytest.approx(tpr, rel=2e-3)
    assert honest(sigma=1.1088).allowed(1.431e-5) == pytest.approx(6.437e-5, rel=1e-3)


def test_rounds_at_q_one_add_up_in_squares():
    assert honest(1.0, 2.0, rounds=4).allowed(0.1) == pytest.approx(float(honest(1.0, 1.0).allowed(0.1)), rel=1e-11)
    near = curves._envelope(np.array([0.1]), *curves._lines(0.5, 1 - 1e-9, 4))
    assert near == pytest.approx(honest(1.0, 2.0, rounds=4).allowed([0.1]), rel=1e-3)


@pytest.mark.parametrize("sigma", [1e-50, 0.05, 100.0, 1e50])
def test_several_releases_have_a_curve_at_every_noise(sigma):
    # With no noise a canary is seen whenever it takes part; with endless noise never.
    fpr = np.array([0.0, 1e-3, 0.5, 1.0])
    curve = honest(0.5, sigma, rounds=3)
    found, power = curve.allowed(fpr), curve_power(curve, 500, alpha=ALPHA)
    sure = 1 - 0.125 + 0.125 * fpr[1:]
    assert found[1:] == pytest.approx(sure if sigma < 1 else fpr[1:], rel=0.03)
    assert np.all(found[1:] <= sure * (1 + 1e-11))
    assert np.all(found >= fpr)
    assert (power.noise_factor is None) == (sigma < 1 or sigma > 1e3)


def test_the_forecast_of_rounds_is_the_law_of_their_sum():
    fpr, tpr = perfect_roc(1.0, 0.1, 3)
    exact = honest(0.1, rounds=3).allowed(fpr)
    some = fpr > 1e-6
    assert np.all(np.abs(tpr[some] / exact[some] - 1) < 2e-3)
    one, same = perfect_roc(1.5, 0.3)
    assert np.allclose(same, honest(0.3, 1 / 1.5).allowed(one), rtol=1e-10)


def test_replacement_at_q_one_differs_by_root_two():
    mechanism = Mechanism(q=1.0, sigma=2.0)
    curve = claimed_curve(Claim(3.0, 1e-5, "replace", mechanism))
    assert curve.shift == pytest.approx(math.sqrt(2) / 2)
    assert "never negative" in curve.assumption
    with pytest.raises(InputError, match=r"replacing one user at q = 0\.1"):
        claimed_curve(Claim(3.0, 1e-5, "replace", Mechanism(q=0.1)))
    with pytest.raises(InputError, match="names no mechanism"):
        claimed_curve(Claim(3.0, 1e-5))


def test_a_clip_beyond_all_votes_keeps_its_own_curve_unless_votes_are_normalised():
    # Counts of 1 for each of 5 entries have norm sqrt(5): an honest system that does not normalise, and clips there.
    claim = Claim(5.0, 1e-5, mechanism=Mechanism(k=5, clip=math.sqrt(5), q=1.0))
    assert claimed_curve(claim).shift == 1
    assert claimed_curve(claim, normalised=True).shift == pytest.approx(0.2)
    assert claimed_curve(Claim.of(Mechanism()), normalised=True).shift == claimed_curve(Claim.of(Mechanism())).shift


# ---- the test


def naive(tp, fp, n1, n0, q, shift, alpha, *, both):
    """Refute as the definition says, one end after the other."""
    gamma = alpha / 4 if both else alpha / 2

    def above(x1, m1, x0, m0):
        lower = beta.ppf(gamma, x1, m1 - x1 + 1) if x1 else 0.0
        upper = beta.isf(gamma, x0 + 1, m0 - x0) if x0 < m0 else 1.0
        return lower > (1 - q) * upper + q * norm.sf(norm.isf(upper) - shift)

    return above(tp, n1, fp, n0) or (both and above(n1 - tp, n1, n0 - fp, n0))


@pytest.mark.parametrize("both", [False, True])
def test_it_refutes_what_the_naive_twin_refutes(both):
    n1, n0 = 14, 11
    curve = honest(0.5, 2.0)
    found = refuting(curve, n1, n0, both=both)
    twin = [[naive(tp, fp, n1, n0, 0.5, 0.5, ALPHA, both=both) for fp in range(n0 + 1)] for tp in range(n1 + 1)]
    assert np.array_equal(found, twin)
    assert np.array_equal(found, table(curve, n1, n0, ALPHA / (4 if both else 2), both=both))
    assert 0 < found.sum() < found.size


def false_alarm(curve, shown):
    """Return the largest chance that a perfect canary of the claimed mechanism itself is refuted, over thresholds."""
    rates = np.concatenate([np.geomspace(1e-4, 0.1, 8), np.linspace(0.15, 0.97, 12)])
    return max(chance(shown, float(curve.allowed(rate)), rate) for rate in rates)


@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("both", [False, True])
def test_honest_systems_are_refuted_at_most_alpha_often(q, rounds, both):
    curve = honest(q, rounds=rounds)
    for n1, n0 in ((40, 40), (120, 25), (25, 120)):
        assert false_alarm(curve, table(curve, n1, n0, ALPHA / (4 if both else 2), both=both)) <= ALPHA


def end_misses(curve, gamma, n=40):
    """Return the largest false alarm where one rate is known, by BIG trials, and the other stands next to an end."""
    x, worst = np.arange(n + 1), 0.0
    lower, upper = ends(x, n, gamma)
    for rate in upper[upper < 0.99] * 1.002:
        tp = BIG * float(curve.allowed(rate))
        worst = max(worst, float(binom.pmf(x, n, rate) @ curves._exceeds(curve, tp, BIG, x, n, gamma)))
    for rate in lower[1:] * 0.998:
        fp = BIG * brentq(lambda a, rate=rate: float(curve.allowed(a)) - rate, 0.0, 1.0)
        worst = max(worst, float(binom.pmf(x, n, rate) @ curves._exceeds(curve, x, n, fp, BIG, gamma)))
    return worst


@pytest.mark.parametrize("q", QS)
def test_each_end_spends_its_half_of_alpha_and_a_mutant_spends_more(q):
    curve = honest(q)
    assert 0.5 * ALPHA / 2 < end_misses(curve, ALPHA / 2) <= ALPHA / 2
    assert end_misses(curve, ALPHA) > ALPHA / 2  # gamma doubled


def test_the_curve_read_backwards_refutes_an_honest_mechanism():
    # The mutant reuses F on (FNR, TNR): TNR_L > F(FNR_U). The other branch that we test keeps its alpha.
    curve, n = honest(0.5), 1500
    fpr = float(norm.sf(1.5))
    tpr = float(curve.allowed(fpr))
    x = np.arange(n + 1)
    backwards = ends(n - x, n, ALPHA / 2)[0][None, :] > curve.allowed(ends(n - x, n, ALPHA / 2)[1])[:, None]
    assert chance(backwards, tpr, fpr) > 0.9
    assert chance(table(curve, n, n, ALPHA / 4, both=True), tpr, fpr) <= ALPHA
    inverted = table(curve, n, n, ALPHA / 4, both=True)
    assert chance(inverted, 0.3, 0.6) > 0.99  # far too few detections break the other branch alone
    assert chance(table(curve, n, n, ALPHA / 2), 0.3, 0.6) < 1e-100


def test_unequal_canaries_share_alpha_and_a_mutant_that_does_not_is_caught():
    curve = honest(0.5, 0.7)
    rates = [(float(curve.allowed(rate)), rate) for rate in (0.01, 0.05, 0.2, 0.5, 0.8)]
    sizes = [(30, 30), (60, 20), (20, 60), (45, 45), (80, 15)]

    def alarm(share):
        kept = [1 - chance(table(curve, *size, share / 2), *pair) for size, pair in zip(sizes, rates, strict=True)]
        return 1 - math.prod(kept)

    assert alarm(ALPHA / 5) <= ALPHA
    assert alarm(ALPHA) > alarm(ALPHA / 5) * 5
    # One end known, five canaries: each may spend alpha/10, together alpha/2; unsplit they spend five times that.
    assert 1 - (1 - end_misses(curve, ALPHA / 10)) ** 5 <= ALPHA / 2 < 1 - (1 - end_misses(curve, ALPHA / 2)) ** 5
    quiet, loud = Counts(3, 3, 40, 40), Counts(39, 1, 40, 40)
    together = curve_test([quiet, loud, quiet], curve, alpha=ALPHA)
    assert together.refuted
    assert together.canary == 1
    alone = curve_test([loud], curve, alpha=ALPHA)
    assert together.p_value == pytest.approx(3 * alone.p_value)


def test_the_p_value_is_the_least_alpha_that_refutes():
    for both in (False, True):
        counts = [Counts(30, 4, 50, 40)]
        p = curve_test(counts, honest(1.0), alpha=ALPHA, both=both).p_value
        assert curve_test(counts, honest(1.0), alpha=p * 1.02, both=both).refuted
        assert not curve_test(counts, honest(1.0), alpha=p * 0.98, both=both).refuted
    assert curve_test([Counts(3, 5, 10, 10)], honest(), alpha=ALPHA).p_value == 1


# ---- the published figures


def test_forty_of_forty_at_a_hundred_runs_where_the_bound_needs_ten_thousand():
    # estimators.md: q = 1, sigma = 1, true shift sqrt(5); 40 of 40 means a power above 0.91 at 98% confidence.
    curve, shift = honest(1.0), math.sqrt(5)
    fpr, tpr = perfect_roc(shift, 1.0)
    some = (fpr > 1e-3) & (fpr < 0.6)
    assert max(window(curve, 100, *pair) for pair in zip(tpr[some][::5], fpr[some][::5], strict=True)) > 0.999
    rates = lambda z: (norm.sf(z), norm.sf(z - shift))  # noqa: E731
    reached = [best_threshold(rates, Target(n, 1e-5, ALPHA, "clopper-pearson"))[1] for n in (1_000, 10_000)]
    assert reached[0] < Claim.of(Mechanism(q=1.0)).epsilon < reached[1]
    aimed = [aimed_power(curve, 100, 30, shift, 1.0, seed) for seed in range(15)]
    assert np.mean(aimed) > 0.99


def aimed_power(curve, n, runs, shift, q, seed):
    """Return the exact power at the threshold that so many runs an arm aim at."""
    rng = np.random.default_rng(seed)
    absent, eligible = rng.standard_normal(runs), rng.standard_normal(runs) + shift * (rng.random(runs) < q)
    fpr = norm.sf(aim_curve(absent, eligible, curve, n, ALPHA))
    return window(curve, n, (1 - q) * fpr + q * norm.sf(norm.isf(fpr) - shift), fpr)


def test_twenty_of_twenty_where_noise_is_halved():
    # 20 of 20 means a power above 0.82 at 98% confidence.
    curve = honest(0.1)
    fpr, tpr = perfect_roc(2.0, 0.1)
    some = (fpr > 1e-3) & (fpr < 0.1)
    assert max(window(curve, 3_000, *pair) for pair in zip(tpr[some][::5], fpr[some][::5], strict=True)) > 0.99
    assert np.mean([aimed_power(curve, 3_000, 2_000, 2.0, 0.1, seed) for seed in range(3)]) > 0.99
    assert np.mean([aimed_power(curve, 3_000, 30, 2.0, 0.1, seed) for seed in range(10)]) > 0.6


def test_false_alarms_are_as_rare_as_published():
    # 3 of 1,030 at alpha 0.05: at 99.9% confidence between 0.0002 and 0.011. Exact rates at aimed thresholds.
    rates = [aimed_power(honest(q), n, 30, 1.0, q, 7) for q in QS for n in (100, 1_000)]
    assert max(rates) < 0.011
    assert np.mean(rates) > 2e-4


# ---- aiming


def test_a_threshold_follows_its_scores():
    rng = np.random.default_rng(4)
    absent, eligible = rng.standard_normal(50), rng.standard_normal(50) + 2
    there = aim_curve(absent, eligible, honest(1.0), 200, ALPHA)
    moved = aim_curve(1000 + 7 * absent, 1000 + 7 * eligible, honest(1.0), 200, ALPHA)
    assert moved == pytest.approx(1000 + 7 * there, rel=1e-9)
    assert absent.min() < there < eligible.max()


def test_scores_without_any_noise_are_told_apart():
    # Noise on nonzero counts only: without the canary every score is 0.
    absent = np.zeros(30)
    eligible = np.where(np.arange(30) % 10 == 0, 3.0, 0.0)
    threshold = aim_curve(absent, eligible, honest(0.1), 400, ALPHA)
    assert 0 < threshold < 3
    assert curve_test([Counts(40, 0, 400, 400)], honest(0.1), alpha=ALPHA).refuted
    assert math.isfinite(aim_curve(absent, absent, honest(0.1), 400, ALPHA))


def test_many_scores_are_thinned_and_aim_at_the_same_place():
    rng = np.random.default_rng(5)
    absent, eligible = rng.standard_normal(60_000), rng.standard_normal(60_000) + 2 * (rng.random(60_000) < 0.1)
    values, weights = curves._thinned(np.sort(absent))
    assert len(values) <= 2 * curves.SMOOTH_VALUES
    assert weights.sum() == pytest.approx(1)
    assert values @ weights == pytest.approx(absent.mean())
    assert aim_curve(absent, eligible, honest(0.1), 3_000, ALPHA) == pytest.approx(2.2, abs=0.5)


# ---- power


@pytest.mark.parametrize(("q", "n"), [(1.0, 100), (0.5, 1_000), (0.1, 3_000)])
def test_the_smallest_violation_is_shown_about_half_of_the_time(q, n):
    curve = honest(q)
    power = curve_power(curve, n, alpha=ALPHA)
    violations = [(power.noise_factor, q)] + ([(1.0, power.q_factor * q)] if power.q_factor else [])
    for shift, often in violations:
        fpr, tpr = perfect_roc(shift, often)
        lower, upper = ends(n * tpr, n, ALPHA / 2)[0], ends(n * fpr, n, ALPHA / 2)[1]
        best = int(np.argmax(lower - curve.allowed(upper)))
        assert 0.35 < window(curve, n, tpr[best], fpr[best]) < 0.65


def test_power_grows_with_runs_and_falls_with_canaries():
    factors = [curve_power(honest(0.1), n, alpha=ALPHA).noise_factor for n in (300, 3_000, 30_000)]
    assert factors == sorted(factors, reverse=True)
    assert curve_power(honest(0.1), 3_000, alpha=ALPHA, canaries=5).noise_factor > factors[1]
    assert curve_power(honest(0.1), 3_000, alpha=ALPHA, both=True).noise_factor > factors[1]
    assert factors[1] == pytest.approx(1.518, abs=2e-3)
    assert curve_power(honest(0.1, rounds=3), 3_000, alpha=ALPHA).noise_factor < factors[1]


def test_too_few_runs_show_nothing_and_say_so():
    power = curve_power(honest(0.1), 30, alpha=ALPHA)
    assert power.noise_factor is None
    assert power.q_factor is None
    assert ": too few" in power.statement
    assert curve_power(honest(1.0), 100, alpha=ALPHA).q_factor is None
    assert "q multiplied by" in curve_power(honest(0.1), 3_000, alpha=ALPHA).statement


# ---- what is said and kept


def test_it_says_what_it_refutes():
    refuted = curve_test([Counts(90, 10, 100, 100)], honest(1.0), alpha=ALPHA)
    assert refuted.branch is Branch.FORWARD
    assert refuted.statement.startswith("Refuted: this is not the claimed mechanism.")
    assert "not a bound on epsilon" in refuted.statement
    kept = curve_test([Counts(60, 50, 100, 100)], honest(1.0), alpha=ALPHA, both=True)
    assert kept.statement.startswith("Not refuted: no violation of the claimed mechanism detected at this power.")
    assert "frozen before" in kept.assumption
    other = curve_test([Counts(10, 90, 100, 100)], honest(1.0), alpha=ALPHA, both=True)
    assert other.branch is Branch.REVERSE
    assert 'says "absent"' in other.statement
    replaced = Curve(1.0, 1.0, 1, "replace")
    assert "with B" in curve_test([Counts(90, 10, 100, 100)], replaced, alpha=ALPHA).statement


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Curve, honest()),
        (CurveTest, curve_test([Counts(90, 10, 100, 100)], honest(1.0), alpha=ALPHA)),
        (CurvePower, curve_power(honest(0.1), 30, alpha=ALPHA)),
    ],
)
def test_it_is_written_and_read_back(kind, value):
    adapter = TypeAdapter(kind)
    assert adapter.validate_json(adapter.dump_json(value)) == value


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (partial(curve_test, [], honest(), alpha=0.05), "at least one canary"),
        (partial(curve_test, [Counts(3, 1, 2, 2)], honest(), alpha=0.05), "cannot come from"),
        (partial(curve_test, [Counts(1, 1, 2, 2)], honest(), alpha=0), "alpha must"),
        (partial(honest().allowed, 1.5), "rates, not counts"),
        (partial(aim_curve, [1.0], [1.0, 2.0], honest(), 10, 0.05), "absent scores"),
        (partial(aim_curve, [1.0, 2.0], [1.0, math.nan], honest(), 10, 0.05), "eligible scores"),
        (partial(curve_power, honest(), 0, alpha=0.05), "trials must be"),
    ],
)
def test_what_cannot_be_tested_is_refused_in_words(wrong, words):
    with pytest.raises(InputError, match=words):
        wrong()


@pytest.mark.parametrize(("q", "factor"), [(0.1, 1.0), (0.1, 2.0), (1.0, 1.1), (1.0, 3.0)])
def test_the_clearest_counts_are_those_of_the_smallest_level_of_all(q, factor):
    curve, runs = honest(q), 400
    fpr, tpr = perfect_roc(factor * curve.shift, q)
    fpr, tpr = np.tile(fpr[::7], 2), np.tile(tpr[::7], 2)  # every candidate twice: ties are all kept
    level = curves.least_gamma(curve, runs * tpr, runs, runs * fpr, runs)
    assert (
        curves._clearest(curve, runs * tpr, runs * fpr, runs).tolist() == np.flatnonzero(level == level.min()).tolist()
    )
    assert (factor == 1.0) == bool(level.min() == 1.0)
