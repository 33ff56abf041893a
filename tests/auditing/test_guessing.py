"""Guesses of one run: naive twins, laws against closed forms and simulation, exact coverage with mutants, figures."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from canarybank.auditing import (
    expected_guesses,
    family_epsilon,
    guess_scores,
    guessing,
    guessing_lower,
    order_statistics_lower,
)
from canarybank.auditing.guessing import GuessLaw, best_guesses, wrong_guesses
from canarybank.errors import InputError

ALPHA, DELTA = 0.05, 1e-5


def run(rng, m, rounds, q, shift, *, runs=None):
    """Draw scores of canaries that a fair coin lets in, and who is in; many runs at once if asked."""
    shape = (m,) if runs is None else (runs, m)
    eligible = rng.random(shape) < 0.5
    took = eligible[..., None] & (rng.random((*shape, rounds)) < q)
    return rng.standard_normal((*shape, rounds)) + shift * took, eligible


def wrong_counts(x, eligible, guesses, q, designed):
    """Count wrong ones among the most confident guesses of many runs at once, from the definition."""
    score = np.log(1 - q + q * np.exp(designed * x - designed**2 / 2)).sum(axis=-1)
    wrong = (score > 0) != eligible
    chosen = np.argsort(-np.abs(score), axis=-1)[..., :guesses]
    return np.take_along_axis(wrong, chosen, axis=-1).sum(axis=-1)


# Guessing without assumptions


def naive_chance(m, guesses, correct, epsilon, delta):
    rate = math.exp(epsilon) / (1 + math.exp(epsilon))
    law = [math.comb(guesses, k) * rate**k * (1 - rate) ** (guesses - k) for k in range(guesses + 1)]
    worst = max(sum(law[max(correct - i, 0) : correct]) / i for i in range(1, m + 1))
    return sum(law[correct:]) + 2 * m * delta * worst


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.01])
def test_guessing_is_the_largest_epsilon_refuted_by_enumeration(delta):
    grid = np.linspace(0, 6, 241)
    for m, guesses in ((1, 1), (5, 5), (9, 6), (14, 12)):
        for correct in range(guesses + 1):
            lower = guessing_lower(m, guesses, correct, delta=delta, alpha=0.2)
            refuted = [naive_chance(m, guesses, correct, e, delta) < 0.2 for e in grid] if correct else [False] * 241
            assert refuted == [bool(e < lower) for e in grid]


def test_guessing_has_its_closed_forms():
    rate = ALPHA ** (1 / 40)
    found = guessing_lower(40, 40, 40, delta=0.0, alpha=ALPHA)
    assert found == pytest.approx(math.log(rate / (1 - rate)), rel=1e-9)
    assert guessing_lower(40, 4, 4, delta=0.0, alpha=ALPHA) == 0  # 1/16 is above alpha: nothing at all is refuted
    assert guessing_lower(40, 0, 0, delta=0.0, alpha=ALPHA) == 0
    bounds = [guessing_lower(409, 100, v, delta=DELTA, alpha=ALPHA) for v in range(101)]
    assert bounds == sorted(bounds)
    assert bounds[50] == 0 < bounds[-1] < guessing_lower(409, 100, 100, delta=0.0, alpha=ALPHA)


def miss_rate(law, bounds, truth):
    return float(law[np.array(bounds) > truth].sum())


@pytest.mark.parametrize("truth", [0.0, 0.5, 1.5])
def test_randomised_response_is_covered_exactly_and_a_doubled_alpha_fails(truth):
    # Answers that are right with rate e^eps/(1 + e^eps) are the worst that epsilon allows.
    missed = {}
    for alpha in (ALPHA, 2 * ALPHA):
        missed[alpha] = max(
            miss_rate(
                binom.pmf(np.arange(m + 1), m, 1 / (1 + math.exp(-truth))),
                [guessing_lower(m, m, v, delta=0.0, alpha=alpha) for v in range(m + 1)],
                truth,
            )
            for m in range(5, 80, 3)
        )
    assert missed[ALPHA] <= ALPHA < missed[2 * ALPHA]


def test_a_mechanism_that_tells_all_with_probability_delta_is_covered_and_forgetting_delta_is_not():
    m, truth, delta = 12, 0.5, 0.04
    law = (1 - delta) * binom.pmf(np.arange(m + 1), m, 1 / (1 + math.exp(-truth)))
    law[m] += delta
    honest = [guessing_lower(m, m, v, delta=delta, alpha=ALPHA) for v in range(m + 1)]
    mutant = [guessing_lower(m, m, v, delta=0.0, alpha=ALPHA) for v in range(m + 1)]
    assert miss_rate(law, honest, truth) <= ALPHA < miss_rate(law, mutant, truth)


# The law of a guess


@pytest.mark.parametrize(("shift", "rounds"), [(0.5, 1), (1.0, 1), (1.0, 6), (2.0, 3)])
def test_without_sampling_the_error_of_all_guesses_is_that_of_two_normal_laws(shift, rounds):
    law = GuessLaw(1.0, shift, shift, rounds)
    assert law.error_above(0.0) == pytest.approx(norm.cdf(-shift * math.sqrt(rounds) / 2), rel=1e-9)
    d = shift * math.sqrt(rounds)
    for c in (0.3 * d, d, 4 * d):  # the score of the sum is N(+-d²/2, d²)
        right, wrong = norm.sf((c - d * d / 2) / d), norm.sf((c + d * d / 2) / d)
        assert law.error_above(1 - right - wrong) == pytest.approx(wrong / (right + wrong), rel=5e-4)


@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_the_lattice_of_rounds_agrees_with_the_closed_form(q):
    tails = np.array([1.0, 0.7, 0.3, 0.05, 0.003])

    def errors(rule, shift):
        (above0, below0), (above1, below1) = rule.tails0, rule.tails(shift)
        wrong = (above0 + below1) / 2
        return np.interp(tails, wrong + (above1 + below0) / 2, wrong) / tails

    for designed, shift in ((1.0, 1.0), (0.4, 1.3), (2.0, 0.0)):
        exact, lattice = (
            errors(rule, shift) for rule in (guessing._OneRound(q, designed), guessing._Lattice(q, designed, 1))
        )
        assert lattice == pytest.approx(exact, rel=2e-3)
    if q == 1:
        folded = GuessLaw(1.0, 0.7, 0.5, 4).error_above(1 - tails)
        assert errors(guessing._Lattice(1.0, 0.7, 4), 0.5) == pytest.approx(folded, rel=2e-3)


@pytest.mark.parametrize(
    ("q", "designed", "shift", "rounds"),
    [(1.0, 1.0, 1.0, 1), (0.5, 1.0, 0.6, 1), (0.1, 1.5, 2.5, 3), (0.5, 1.0, 1.0, 6)],
)
def test_the_law_of_wrong_guesses_agrees_with_simulated_runs(q, designed, shift, rounds):
    rng = np.random.default_rng(31)
    m, runs = 12, 40_000
    x, eligible = run(rng, m, rounds, q, shift, runs=runs)
    law = GuessLaw(q, designed, shift, rounds)
    for guesses in (1, 5, 11, 12):
        seen = np.bincount(wrong_counts(x, eligible, guesses, q, designed), minlength=guesses + 1).cumsum() / runs
        expected = law.wrong_at_most(m, guesses, np.arange(guesses + 1))
        error = np.sqrt(expected * (1 - expected) / runs)
        assert np.all(np.abs(seen - expected) <= 4.5 * error + 1e-4)


def test_the_best_of_all_guesses_is_wrong_as_often_as_integrated_directly():
    q, mu, m = 0.5, 1.0, 9

    def score(z):
        return math.log(1 - q + q * math.exp(mu * z - mu * mu / 2))

    def place(s):
        return (math.log((math.exp(s) - (1 - q)) / q) + mu * mu / 2) / mu if math.exp(s) > 1 - q else -math.inf

    def confidence_at_most(c):
        high, low = place(c), place(-c)
        out = norm.cdf(high) - norm.cdf(low)
        inside = (1 - q) * out + q * (norm.cdf(high - mu) - norm.cdf(low - mu))
        return (out + inside) / 2

    def wrong_and_best(z):  # a wrong guess at z, and m - 1 that are less confident
        inside = (1 - q) * norm.pdf(z) + q * norm.pdf(z - mu)
        wrong = norm.pdf(z) if score(z) > 0 else inside
        return m * wrong / 2 * confidence_at_most(abs(score(z))) ** (m - 1)

    chance = sum(quad(wrong_and_best, *ends, limit=300)[0] for ends in ((-9.0, mu / 2), (mu / 2, 12.0)))
    assert 1 - GuessLaw(q, mu, mu).wrong_at_most(m, 1, 0) == pytest.approx(chance, rel=1e-4)


def test_all_guesses_made_are_a_binomial_count_and_no_effect_a_fair_one():
    law = GuessLaw(0.5, 1.0, 0.8, 1)
    error = float(law.error_above(0.0))
    assert law.wrong_at_most(30, 30, np.arange(31)) == pytest.approx(binom.cdf(np.arange(31), 30, error), abs=1e-12)
    nothing = GuessLaw(0.1, 1.0, 0.0, 6)
    assert nothing.wrong_at_most(81, 20, np.arange(21)) == pytest.approx(binom.cdf(np.arange(21), 20, 0.5), abs=1e-5)


def test_the_rule_is_the_log_likelihood_ratio_and_order_does_not_matter():
    rng = np.random.default_rng(32)
    x, eligible = run(rng, 60, 4, 0.3, 1.0)
    likelihood = 0.7 * norm.pdf(x) + 0.3 * norm.pdf(x - 0.9)
    assert guess_scores(x, q=0.3, designed=0.9) == pytest.approx(np.log(likelihood / norm.pdf(x)).sum(axis=1))
    assert guess_scores(x[:, 0], q=0.3, designed=0.9) == pytest.approx(guess_scores(x[:, :1], q=0.3, designed=0.9))
    setting = {"guesses": 25, "q": 0.3, "designed": 0.9}
    wrong = wrong_guesses(x, eligible, **setting)
    assert wrong == wrong_counts(x, eligible, 25, 0.3, 0.9)
    order, turn = rng.permutation(60), rng.permutation(4)
    assert wrong_guesses(x[order][:, turn], eligible[order], **setting) == wrong
    assert wrong_guesses(x, ~eligible, **setting) == 25 - wrong


# Order statistics inside the family


COVERED = [(81, 1.0, 1), (81, 0.5, 6), (409, 0.1, 6), (409, 0.5, 1), (1638, 0.1, 1)]


def order_misses(m, q, rounds, shift, alpha):
    """Return the exact probability that the bound exceeds the shift, for a rule designed for a shift of 1."""
    guesses = best_guesses(m, q=q, shift=1.0, rounds=rounds, alpha=ALPHA, method="order-statistics")
    law = np.diff(GuessLaw(q, 1.0, shift, rounds).wrong_at_most(m, guesses, np.arange(guesses + 1)), prepend=0.0)
    missed = 0.0
    for wrong in range(guesses + 1):  # fewer wrong guesses give a larger bound
        if order_statistics_lower(m, guesses, wrong, q=q, designed=1.0, rounds=rounds, alpha=alpha) <= shift:
            break
        missed += law[wrong]
    return missed


@pytest.mark.parametrize(("m", "q", "rounds"), COVERED)
@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0])
def test_order_statistics_are_covered_exactly(m, q, rounds, shift):
    assert order_misses(m, q, rounds, shift, ALPHA) <= ALPHA + 1e-6


def test_order_statistics_at_a_doubled_alpha_are_not_covered():
    assert [order_misses(*setting, 1.0, 2 * ALPHA) > ALPHA for setting in COVERED] == [True] * len(COVERED)


@pytest.mark.parametrize(("m", "q", "rounds", "shift"), [(81, 1.0, 1, 1.0), (409, 0.5, 6, 0.7), (409, 0.1, 6, 1.0)])
def test_order_statistics_cover_2000_runs(m, q, rounds, shift):
    guesses = best_guesses(m, q=q, shift=1.0, rounds=rounds, alpha=ALPHA, method="order-statistics")
    x, eligible = run(np.random.default_rng(33), m, rounds, q, shift, runs=2000)
    missed = sum(
        order_statistics_lower(m, guesses, int(wrong), q=q, designed=1.0, rounds=rounds, alpha=ALPHA) > shift
        for wrong in wrong_counts(x, eligible, guesses, q, 1.0)
    )
    assert missed <= binom.isf(1e-3, 2000, ALPHA)


def test_the_bound_is_the_smallest_shift_that_is_not_rejected():
    m, guesses, q = 128, 64, 0.5
    shifts = np.linspace(0, 6, 1201)
    chances = [GuessLaw(q, 1.0, float(s), 1).wrong_at_most(m, guesses, np.arange(guesses + 1)) for s in shifts]
    bounds = []
    for wrong in range(guesses + 1):
        accepted = [s for s, chance in zip(shifts, chances, strict=True) if chance[wrong] > ALPHA]
        lower = order_statistics_lower(m, guesses, wrong, q=q, designed=1.0, rounds=1, alpha=ALPHA)
        assert lower == pytest.approx(accepted[0] if accepted else 6.0, abs=0.0051)
        bounds.append(lower)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[guesses // 2] == 0


def test_plain_gaussian_inversion_of_guesses_exceeds_the_truth_for_sampled_releases():
    # Mutant: the family without sampling, as other libraries have it, on guesses of a mechanism with q = 0.5.
    truth = family_epsilon(0.5, 1.0, 1, DELTA)
    found = order_statistics_lower(1638, 64, 8, q=1.0, designed=1.0, rounds=1, alpha=ALPHA)
    few = order_statistics_lower(1638, 64, 8, q=0.5, designed=1.0, rounds=1, alpha=ALPHA)
    assert found < few  # so it understates the shift,
    assert family_epsilon(1.0, few, 1, DELTA) > truth  # and overstates epsilon once the shift is right
    assert family_epsilon(0.5, few, 1, DELTA) < truth


def test_what_cannot_be_counted_is_refused():
    for call in (
        lambda: guessing_lower(10, 11, 5, delta=DELTA, alpha=ALPHA),
        lambda: guessing_lower(10, 5, 6, delta=DELTA, alpha=ALPHA),
        lambda: order_statistics_lower(10, 5, -1, q=0.5, designed=1.0, rounds=1, alpha=ALPHA),
        lambda: wrong_guesses([[0.0]], [True], guesses=2, q=0.5, designed=1.0),
    ):
        with pytest.raises(InputError, match="at most one guess a canary"):
            call()
    with pytest.raises(InputError, match="one of each"):
        wrong_guesses([[0.0]], [True, False], guesses=1, q=0.5, designed=1.0)
    with pytest.raises(InputError, match="designed shift"):
        GuessLaw(0.5, 0.0, 1.0)


def test_canaries_without_a_shift_show_nothing():
    assert order_statistics_lower(81, 20, 0, q=0.5, designed=0.0, rounds=1, alpha=ALPHA) == 0
    setting = {"q": 0.5, "shift": 0.0, "rounds": 1, "alpha": ALPHA}
    assert best_guesses(81, method="guessing", **setting) == 81
    assert (
        expected_guesses(81, delta=DELTA, method="guessing", **setting).q95
        == expected_guesses(81, delta=DELTA, method="order-statistics", **setting).q95
        == 0
    )


# Forecasts and figures


@pytest.mark.parametrize(
    ("m", "q", "rounds"),
    [(128, 1.0, 1), (409, 0.5, 6), pytest.param(1638, 0.1, 6, marks=pytest.mark.slow)],
)
def test_forecasts_agree_with_whole_runs(m, q, rounds):
    setting = {"q": q, "shift": 1.0, "rounds": rounds, "alpha": ALPHA}
    x, eligible = run(np.random.default_rng(34), m, rounds, q, 1.0, runs=400)
    for method in ("guessing", "order-statistics"):
        guesses = best_guesses(m, method=method, **setting)
        expected = expected_guesses(m, delta=DELTA, method=method, **setting)
        counts = wrong_counts(x, eligible, guesses, q, 1.0)

        def bound(wrong, method=method, guesses=guesses):
            if method == "guessing":
                return guessing_lower(m, guesses, guesses - int(wrong), delta=DELTA, alpha=ALPHA)
            lower = order_statistics_lower(m, guesses, int(wrong), q=q, designed=1.0, rounds=rounds, alpha=ALPHA)
            return family_epsilon(q, lower, rounds, DELTA)

        for value, level in ((expected.median, 0.5), (expected.q05, 0.95), (expected.q95, 0.05)):
            # A count is a quantile where at most so many are below and at least so many are not above.
            match = [w for w in sorted(set(counts.tolist())) if abs(bound(w) - value) < 1e-9]
            slack = 5 * math.sqrt(level * (1 - level) / 400)
            assert match
            assert np.mean(counts < match[0]) <= level + slack
            assert np.mean(counts <= match[-1]) >= level - slack


def in_only(m, q, delta=DELTA):
    """Return the largest median bound of guesses "in" for the highest scores, over how many are made."""
    x, eligible = run(np.random.default_rng(35), m, 1, q, 1.0, runs=800)
    order = np.argsort(-x[..., 0], axis=1)
    right = np.median(np.cumsum(np.take_along_axis(eligible, order, axis=1), axis=1), axis=0)
    tried = sorted({round(m ** (k / 30)) for k in range(31)})
    return max(guessing_lower(m, r, int(right[r - 1]), delta=delta, alpha=ALPHA) for r in tried)


# The listed figures of guessing come from guesses "in" alone, for the highest scores, at the best number of them. Here
# guesses "out" count too: that shows more at q = 1, where both are alike, and about the same where sampling hides who
# is in. The listed figures of order statistics come from guesses of about half of the canaries. Ours differ from them
# by the rounding of the median count to a whole one.
GUESSING = [
    (128, 1.0, 0.72, 0.986),
    (128, 0.5, 0.12, 0.129),
    (128, 0.1, 0.0, 0.0),
    (1638, 1.0, 1.64, 1.831),
    (1638, 0.5, 0.97, 0.994),
    (1638, 0.1, 0.02, 0.006),
]
ORDER = [
    (128, 1.0, 2.62, 2.551),
    (128, 0.5, 0.39, 0.725),
    (128, 0.1, 0.0, 0.0),
    (1638, 1.0, 3.89, 3.899),
    (1638, 0.5, 2.55, 2.570),
    (1638, 0.1, 0.02, 0.013),
]


@pytest.mark.parametrize(("m", "q", "listed", "ours"), GUESSING)
def test_the_expected_figures_of_guessing_come_out(m, q, listed, ours):
    assert in_only(m, q) == pytest.approx(listed, abs=0.06)
    found = expected_guesses(m, method="guessing", q=q, shift=1.0, rounds=1, delta=DELTA, alpha=ALPHA)
    assert found.median == pytest.approx(ours, abs=0.001)


@pytest.mark.parametrize(("m", "q", "listed", "ours"), ORDER)
def test_the_expected_figures_of_order_statistics_come_out(m, q, listed, ours):
    setting = {"q": q, "shift": 1.0, "rounds": 1, "delta": DELTA, "alpha": ALPHA}
    assert expected_guesses(m, method="order-statistics", guesses=m // 2, **setting).median == pytest.approx(
        listed, abs=0.06
    )
    assert expected_guesses(m, method="order-statistics", **setting).median == pytest.approx(ours, abs=0.001)
