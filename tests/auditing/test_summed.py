import sys

import numpy as np
import pytest

from canarybank import seeds
from canarybank.auditing import Literal, Shard, Summed, Target, calibrated, count, count_prefixes, count_shard
from canarybank.engine import Serial, Threads
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.progress import Lines
from canarybank.score import LinearScore, Moments, RoundLaw, SummedLaw
from canarybank.systems import CallableSystem

MECHANISM = Mechanism(sigma=1.1088)
PERFECT = RoundLaw.perfect(MECHANISM)
BUSY = RoundLaw(np.array([0.4, -0.2, 0.3, 0.0]), 0.7, 0.6, 0.25, 0.1)
ROUNDS = [PERFECT, BUSY, BUSY]


def naive_sums(laws: list[RoundLaw], *, eligible: bool, size: int, rng: np.random.Generator) -> np.ndarray:
    """The same law, one trial and one user at a time."""
    sums = []
    for _ in range(size):
        total = 0.0
        for law in laws:
            llr = law.noise * rng.standard_normal() - law.offset
            llr += sum(weight for weight in law.weights if rng.random() < law.q)
            if eligible and rng.random() < law.q:
                llr += law.shift
            total += np.log((1 - law.q) + law.q * np.exp(llr))
        sums.append(total)
    return np.array(sums)


def test_one_pass_counts_what_each_prefix_counts_alone() -> None:
    trials, thresholds = Summed.of(ROUNDS), (0.1, 0.3, -0.2)
    number = (1 << 17) + 1000  # two shards of each hypothesis
    together = count_prefixes(trials, thresholds, number, seed=4, path=("here",))
    for t, threshold in enumerate(thresholds, start=1):
        alone = count(Summed.of(ROUNDS[:t]), threshold, number, seed=4, path=("here",))
        assert together[t - 1] == alone
        assert 0 < alone.tp < number


def test_counts_do_not_depend_on_the_engine() -> None:
    trials = Summed.of(ROUNDS[:2])
    first, second = (count_prefixes(trials, (0.1, 0.3), 300_000, seed=1, engine=e) for e in (Serial(), Threads(3)))
    assert first == second


@pytest.mark.parametrize("eligible", [False, True])
def test_rates_are_those_of_the_naive_twin_and_of_the_exact_law(eligible: bool) -> None:
    # Each comparison is within 5 standard deviations: a false alarm in 6e-7 of runs, 24 comparisons.
    size, thresholds = 400_000, (-0.2, 0.0, 0.4)
    sums = Summed.of(ROUNDS).scores(eligible, size, seeds.stream(3, "summed"))
    twin = naive_sums(ROUNDS, eligible=eligible, size=20_000, rng=np.random.default_rng(5))
    law = SummedLaw(ROUNDS, step=1e-3)
    for threshold in thresholds:
        rates = law.rates(threshold)
        bounds = rates.tpr if eligible else rates.fpr
        for found in (sums, twin):
            slack = 5 * np.sqrt(bounds.upper * (1 - bounds.lower) / len(found))
            assert bounds.lower - slack <= (found > threshold).mean() <= bounds.upper + slack


def test_rounds_are_independent_and_hypotheses_share_nothing() -> None:
    trials = Summed.of([PERFECT, PERFECT])
    first, second = (total.copy() for total in trials.running(False, 200_000, seeds.stream(1, "x")))
    # A correlation of 200,000 independent pairs exceeds 5 / sqrt(200,000) in 6e-7 of runs.
    assert abs(np.corrcoef(first, second - first)[0, 1]) < 5 / np.sqrt(200_000)
    counts = count_prefixes(trials, (0.0, 0.0), 1000, seed=1)
    assert counts[0].tp != counts[0].fp


def test_literal_rounds_can_be_summed_too() -> None:
    score = LinearScore(np.array([0.1]), Moments(np.zeros(1), np.array([[MECHANISM.noise**2]])))

    def released(eligible: bool, size: int, rng: np.random.Generator) -> np.ndarray:
        taking = (rng.random(size) < MECHANISM.q) & eligible
        return rng.normal(0.0, MECHANISM.noise, (size, 1)) + 0.1 * taking[:, None]

    trials = Summed([Literal(CallableSystem(released, 1), score)] * 2, MECHANISM.q)
    counts = count_prefixes(trials, (0.2, 0.2), 200_000, seed=2)
    for found, law in zip(counts, (SummedLaw([PERFECT]), SummedLaw([PERFECT, PERFECT])), strict=True):
        fpr, tpr = law.point(0.2)
        # Within 5 standard deviations: a false alarm in 6e-7 of runs, 4 comparisons.
        assert abs(found.fp - 200_000 * fpr) < 5 * np.sqrt(200_000 * fpr)
        assert abs(found.tp - 200_000 * tpr) < 5 * np.sqrt(200_000 * tpr)


def test_thresholds_are_calibrated_on_it_as_on_any_trials() -> None:
    threshold = calibrated(Summed.of(ROUNDS), Target(50_000, 1e-3, 0.05), number=50_000, seed=1)
    assert threshold.expected > 0.1


def test_a_shard_is_counted_for_every_prefix_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    trials = Summed.of(ROUNDS)
    count_prefixes(trials, (0, 0, 0), 100, seed=1, progress=Lines(sys.stdout, every=0, short=0))
    assert "trials" in capsys.readouterr().out
    assert len(count_shard(trials, (0, 0, 0), 1, (), Shard(eligible=True, block=0, size=10))) == 3


def test_what_cannot_be_summed_is_refused() -> None:
    with pytest.raises(InputError, match="at least one round"):
        Summed([], 0.1)
    with pytest.raises(InputError, match="share one participation probability"):
        Summed.of([PERFECT, RoundLaw.perfect(Mechanism(q=0.2))])
    with pytest.raises(InputError, match="must be in"):
        Summed(Summed.of([PERFECT]).rounds, 1.5)
    with pytest.raises(InputError, match="2 thresholds for 1 rounds"):
        count_prefixes(Summed.of([PERFECT]), (0.0, 0.0), 10, seed=0)
