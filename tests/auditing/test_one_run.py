"""Judge one run: what is declared, what is shown, what is refuted, and how often that is wrong."""

import importlib.util
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom, nct

from canarybank.auditing import Background, Coins, RunDeclaration, RunEvidence, RunScores, judge_run, shift_between
from canarybank.auditing.one_run import possible_evidence
from canarybank.errors import InputError
from canarybank.mechanism import Claim, Mechanism

KNOWN, FAIR = Coins.KNOWN, Coins.FAIR


def declared(q=0.1, rounds=1, canaries=81, coins=KNOWN, **changed):
    mechanism = Mechanism(q=q)
    return RunDeclaration(Claim.of(mechanism, rounds=rounds), canaries, coins, 1 / mechanism.sigma, **changed)


def played(declaration, rng, *, noise=1.0, shift=1.0, rate=None, shared=False):
    """Draw the scores of a run of the family: noise and shift in deviations of the claimed noise."""
    m, rounds, q = declaration.canaries, declaration.claim.rounds, declaration.claim.q
    apart = declaration.coins is FAIR or q == 1
    eligible = rng.random(m) < 0.5 if apart else np.ones(m, bool)
    took = (rng.random((m, rounds)) < (rate or q)) & eligible[:, None]
    drawn = rng.standard_normal((m, 1)) if shared else rng.standard_normal((m, rounds))
    scores = noise * drawn + shift * took
    return RunScores(scores, eligible, took if declaration.coins is KNOWN else None)


@pytest.mark.parametrize("coins", Coins)
@pytest.mark.parametrize("rounds", [1, 6])
@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_the_ledger_gives_out_alpha_once_and_every_piece_of_evidence_has_its_share(q, rounds, coins):
    for kinds in ((), possible_evidence(Claim.of(Mechanism(q=q)), coins)):
        declaration = declared(q, rounds, coins=coins, evidence=kinds)
        shares = dict(declaration.ledger.entries)
        assert math.fsum(shares.values()) == pytest.approx(declaration.alpha)
        heads = [name.partition("/")[0] for name in shares]
        assert list(dict.fromkeys(heads)) == [kind.value for kind in declaration.evidence]
        tests = sum(head == "known-coins" for head in heads)
        expected = (2 if rounds > 1 and q < 1 else 1) + (q < 1)
        assert tests == (expected if RunEvidence.KNOWN_COINS in declaration.evidence else 0)


def test_what_known_coins_show_is_a_noncentral_t_bound_and_a_binomial_one():
    declaration = declared(q=0.5, canaries=200)
    run = played(declaration, np.random.default_rng(1))
    (shown,) = judge_run(declaration, run).shown
    inside, out = run.scores[run.took], run.scores[~run.took]
    scale = math.sqrt(1 / len(inside) + 1 / len(out))
    statistic = (inside.mean() - out.mean()) / out.std(ddof=1) / scale
    assert nct.sf(statistic, len(out) - 1, shown.shift / scale) == pytest.approx(0.04, rel=1e-6)
    count = int(run.took.sum())
    assert shown.rate == pytest.approx(beta.ppf(0.01, count, 200 - count + 1))
    mechanism = Mechanism(q=shown.rate, sigma=1 / shown.shift, clip=0.1)
    assert shown.epsilon == pytest.approx(Claim.of(mechanism).epsilon, rel=1e-6)
    assert shown.at_claimed_rate > shown.epsilon


def test_several_releases_bound_one_and_all_of_them():
    declaration = declared(q=0.5, rounds=6, canaries=200)
    (shown,) = judge_run(declaration, played(declaration, np.random.default_rng(1))).shown
    one = Claim.of(Mechanism(q=shown.rate, sigma=1 / shown.shift)).epsilon
    everything = Claim.of(Mechanism(q=shown.rate, sigma=1 / shown.shift), rounds=6).epsilon
    assert shown.one_release == pytest.approx(one, rel=1e-5)
    assert shown.epsilon == pytest.approx(everything, rel=1e-5)
    assert [each.way for each in shown.shifts] == ["between", "within"]


@pytest.mark.parametrize("coins", Coins)
@pytest.mark.parametrize("q", [0.5, 1.0])
def test_guesses_are_counted_as_they_were_declared(q, coins):
    kinds = (RunEvidence.ORDER_STATISTICS, RunEvidence.GUESSING)
    if q < 1 and coins is KNOWN:
        with pytest.raises(
            InputError, match=r"order-statistics is no evidence here: with known coins .* choose fair coins"
        ):
            declared(q, coins=coins, evidence=kinds)
        return
    declaration = declared(q, canaries=128, coins=coins, evidence=kinds)
    run = played(declaration, np.random.default_rng(2))
    found = judge_run(declaration, run)
    llr = np.log(1 - q + q * np.exp(run.scores[:, 0] - 0.5))
    order = sorted(range(128), key=lambda i: -abs(llr[i]))
    for shown in found.shown:
        assert shown.guesses == declaration.guesses[shown.evidence]
        assert shown.correct == sum((llr[i] > 0) == run.eligible[i] for i in order[: shown.guesses])


BROKEN = {
    "noise halved": ({"noise": 0.5}, "there is less noise, or a larger contribution"),
    "clip skipped": ({"shift": 0.447 / 0.1}, "there is less noise, or a larger contribution"),
    "q ignored": ({"rate": 1.0}, "a canary takes part with probability"),
    "noise reused between rounds": ({"shared": True}, "there is less noise, or a larger contribution"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_run_of_six_releases_is_refuted_and_says_why(broken):
    changed, why = BROKEN[broken]
    declaration = declared(rounds=6, canaries=409)
    for seed in range(20):
        found = judge_run(declaration, played(declaration, np.random.default_rng(seed), **changed))
        assert found.refuted, seed
        assert why in found.statement
        assert found.statement.startswith("The claim is refuted by one run at confidence 0.95")


def test_power_is_what_happens():
    declaration = declared(q=0.5, rounds=1, canaries=128)
    (power,) = declaration.power
    noise, rate = (
        float(re.search(rf"{what} (\d+\.\d+)", power)[1]) for what in ("noise divided by", "q multiplied by")
    )
    rng = np.random.default_rng(0)
    for changed in ({"noise": 1 / noise}, {"rate": 0.5 * rate}):
        refuted = sum(judge_run(declaration, played(declaration, rng, **changed)).refuted for _ in range(200))
        assert 70 < refuted < 130, (power, changed, refuted)  # half of 200, within 4.2 deviations
    bounds = sorted(judge_run(declaration, played(declaration, rng)).epsilon for _ in range(400))
    typical = declaration.expected(RunEvidence.KNOWN_COINS)
    below = sum(each < typical.median for each in bounds)
    assert 150 < below < 250  # 5 deviations
    assert sum(each < typical.q05 for each in bounds) < 45 > sum(each > typical.q95 for each in bounds)


def test_a_run_that_cannot_show_anything_says_so():
    statement = "would typically show nothing: a bound above 0 has a chance below 5%."
    weak = RunDeclaration(Claim.of(Mechanism(q=0.01)), 8, KNOWN, 1.0)
    assert weak.power[0].endswith(statement)
    assert not declared(q=0.5, canaries=409).power[0].endswith(statement)


def test_a_claim_without_a_mechanism_is_guessed_at_and_nothing_else():
    claim = Claim(1.0, 1e-5)
    declaration = RunDeclaration(claim, 409, FAIR, 1.0)
    assert declaration.evidence == (RunEvidence.GUESSING,)
    rng = np.random.default_rng(0)
    eligible = rng.random(409) < 0.5
    found = judge_run(declaration, RunScores(6.0 * eligible[:, None] + rng.standard_normal((409, 1)), eligible))
    assert found.refuted
    assert found.epsilon > 1
    with pytest.raises(InputError, match="Known coins bound the shift inside a family"):
        RunDeclaration(claim, 409, KNOWN, 1.0)
    with pytest.raises(InputError, match="and this claim there is guessing"):
        RunDeclaration(claim, 409, FAIR, 1.0, (RunEvidence.ORDER_STATISTICS,))


@pytest.mark.parametrize("evidence", [RunEvidence.KNOWN_COINS, RunEvidence.ORDER_STATISTICS])
def test_the_smallest_shift_beyond_the_claim_refutes_it(evidence):
    rng, first = np.random.default_rng(2), declared(q=1.0, coins=FAIR, evidence=(evidence,))
    run = played(first, rng, shift=2.0)
    (shown,) = judge_run(first, run).shown
    for factor in (0.99, 1.01):  # the same scores, and a claim that is just false, or just not; guesses are made by it
        claim = Claim(99.0, 1e-5, mechanism=Mechanism(q=1.0, sigma=1 / (factor * shown.shift)))
        found = judge_run(replace(first, claim=claim), run)
        assert found.shown[0].shift == pytest.approx(shown.shift, rel=5e-3)
        assert found.refuted == (factor < 1)


@pytest.mark.parametrize("coins", Coins)
def test_a_system_that_clips_and_does_not_normalise_is_honest(coins):
    mechanism = Mechanism(q=1.0, clip=1.0, k=5)  # our own votes would reach 0.447 of the clip
    claim = Claim.of(mechanism)
    declaration = RunDeclaration(claim, 1638, coins, 5**-0.5, possible_evidence(claim, coins), alpha=1e-6)
    run = played(declaration, np.random.default_rng(0), shift=1.0)
    found = judge_run(declaration, run)
    assert max(each.shift or 0.0 for each in found.shown) > 0.6  # far above what normalised votes can do
    assert not found.refuted


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"canaries": 7}, "at least 8 canaries"),
        ({"alpha": 0.0}, "Alpha must lie strictly between"),
        ({"shift": 0.0}, "they must stand out at all"),
        ({"claim": Claim(1.0, 1e-5, "replace")}, "One run tests adding or removing a user"),
    ],
)
def test_what_cannot_be_declared_is_refused(changed, message):
    with pytest.raises(InputError, match=message):
        replace(declared(), **changed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((np.zeros((3, 2)), np.ones(2, bool), None), "need as many coins"),
        ((np.zeros((3, 2)), np.ones(3, bool), np.ones((3, 1), bool)), "need as many coins"),
        ((np.full((3, 2), np.nan), np.ones(3, bool), None), "a table of finite numbers"),
        ((np.zeros((2, 1)), np.array([True, False]), np.ones((2, 1), bool)), "left out is said to have taken part"),
    ],
)
def test_scores_that_are_no_run_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        RunScores(*given)


def test_a_run_of_another_shape_and_one_without_coins_are_refused():
    declaration = declared(canaries=9)
    with pytest.raises(InputError, match="9 in 1 were declared"):
        judge_run(declaration, RunScores(np.zeros((8, 1)), np.ones(8, bool), np.zeros((8, 1), bool)))
    with pytest.raises(InputError, match="Known coins need to know who took part"):
        judge_run(declaration, RunScores(np.zeros((9, 1)), np.ones(9, bool)))


# Whole runs with the votes of the built-in users: the whole table is `python tools/one_run_coverage.py`.
RUNS = 2000


@pytest.fixture(scope="module")
def coverage():
    path = Path(__file__).parents[2] / "tools" / "one_run_coverage.py"
    spec = importlib.util.spec_from_file_location("one_run_coverage", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("style", ["nonce", "ordinary"])
@pytest.mark.parametrize(("q", "coins"), [(0.1, KNOWN), (0.5, KNOWN), (1.0, KNOWN), (0.5, FAIR), (1.0, FAIR)])
def test_a_true_claim_is_refuted_as_rarely_as_is_declared(coverage, style, q, coins):
    for row in coverage.count_false_alarms(coverage.Setting(style, 81, q, 1, coins), RUNS):
        allowed = int(binom.isf(1e-4, RUNS, row.alpha))  # a false alarm of this test: at most one in 10,000 a row
        assert row.false_alarms <= allowed, row
        assert row.epsilon < row.truth


@pytest.mark.parametrize("q", [0.5, 1.0])
def test_exact_tails_refute_as_rarely_and_show_more(coverage, q):
    # The runs are the same: drawn with one seed, judged by their scores as they are and by normal scores.
    setting = coverage.Setting("ordinary", 81, q, 1, KNOWN)
    (controls,), (exact,) = (
        coverage.count_false_alarms(setting, RUNS, background=each) for each in (Background.CONTROLS, Background.EXACT)
    )
    assert exact.false_alarms <= int(binom.isf(1e-4, RUNS, exact.alpha))
    assert controls.epsilon < exact.epsilon < exact.truth


def test_the_check_catches_a_bound_at_three_times_its_level(coverage):
    setting = coverage.Setting("nonce", 81, 0.5, 1, KNOWN)
    scene = coverage.make_scene(setting)
    declaration, rng = coverage.declaration_of(setting, scene), np.random.default_rng(0)
    alarms = 0
    for run in coverage.draw_runs(scene, setting, RUNS, rng):
        bound = shift_between(run.scores, run.took, 3 * 0.04)
        alarms += bound.lower > declaration.limit
    assert alarms > binom.isf(1e-4, RUNS, 0.05)


@pytest.mark.parametrize("q", [0.5, 1.0])
@pytest.mark.parametrize("less", [0.0, 0.25, 0.5])
def test_fewer_votes_of_others_than_the_design_expects_refute_no_true_claim(q, less):
    """Canaries that were designed for less than they show, and a background that was overrated: scores lie too low."""
    claim = Claim.of(Mechanism(q=q), rounds=6)
    declaration = RunDeclaration(claim, 409, FAIR, 0.447, (RunEvidence.ORDER_STATISTICS,), alpha=0.025)
    rng, alarms, runs = np.random.default_rng(5), 0, 500
    for _ in range(runs):
        run = played(declaration, rng)
        alarms += judge_run(declaration, replace(run, scores=run.scores - less)).refuted
    assert alarms <= binom.isf(1e-4, runs, 0.025)
