from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.stats import norm

from canarybank.auditing import Branch, epsilon_at, supremum
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, epsilon, one_round_epsilon
from canarybank.score import Bounds, Rates, RoundLaw, SummedLaw

REFERENCE = (1.3346819, 1.5299039, 1.6717347, 1.7901618, 1.8947278, 1.9898194)


def literal(fpr: float, tpr: float, delta: float) -> float:
    """Equation 5 of the paper, at true rates."""
    values = [0.0]
    if tpr > delta:
        values.append(np.log((tpr - delta) / fpr))
    if 1.0 - fpr > delta:
        values.append(np.log((1.0 - fpr - delta) / (1.0 - tpr)))
    return float(max(values))


@pytest.mark.parametrize("threshold", [-3.0, -1.0, 0.5, 2.0, 3.139, 3.804, 6.0])
def test_epsilon_at_a_threshold_is_the_papers(threshold: float) -> None:
    law = RoundLaw.perfect(Mechanism())
    fpr = float(norm.sf(threshold + 0.5))
    tpr = 0.9 * fpr + 0.1 * float(norm.sf(threshold - 0.5))
    interval = epsilon_at(law, threshold, 1e-5)
    assert interval.width < 1e-9
    assert interval.midpoint == pytest.approx(literal(fpr, tpr, 1e-5), abs=1e-9)


def test_the_frozen_rules_of_the_reference_hold() -> None:
    law = RoundLaw.perfect(Mechanism())
    assert epsilon_at(law, 3.139, 1e-5).midpoint == pytest.approx(1.352, abs=5e-4)
    assert epsilon_at(law, 50.0, 1e-5).upper == 0.0


@pytest.mark.parametrize(
    "mechanism",
    [Mechanism(), Mechanism(sigma=1.1088), Mechanism(sigma=0.5, q=0.02), Mechanism(sigma=2.0, q=0.6, delta=1e-3)],
)
def test_a_perfect_attack_spends_the_whole_budget(mechanism: Mechanism) -> None:
    found = supremum(RoundLaw.perfect(mechanism), mechanism.delta)
    assert found.interval.width <= 1e-6
    assert found.interval.lower - 1e-9 <= one_round_epsilon(mechanism) <= found.interval.upper + 1e-9
    assert found.point == pytest.approx(one_round_epsilon(mechanism), abs=1e-7)
    assert found.branch is Branch.FORWARD


def test_the_supremum_is_the_privacy_loss_distributions() -> None:
    found = supremum(RoundLaw.perfect(Mechanism()), 1e-5)
    assert found.interval.midpoint == pytest.approx(epsilon(Mechanism()), abs=1e-6)
    assert found.interval.midpoint == pytest.approx(1.6845438, abs=1e-6)
    assert found.threshold == pytest.approx(3.804, abs=2e-3)


@pytest.mark.parametrize("rounds", range(1, 7))
def test_several_rounds_spend_the_whole_budget(rounds: int) -> None:
    law = RoundLaw.perfect(Mechanism(sigma=1.1088))
    found = supremum(SummedLaw([law] * rounds), 1e-5)
    assert found.point == pytest.approx(REFERENCE[rounds - 1], abs=1e-5)
    assert found.interval.contains(REFERENCE[rounds - 1])
    assert found.interval.contains(found.point)
    assert found.interval.width <= 1e-3
    # The best threshold of an exact log-likelihood ratio is epsilon itself.
    assert found.threshold == pytest.approx(REFERENCE[rounds - 1], abs=1e-2)


@pytest.mark.parametrize("seed", range(4))
def test_the_supremum_lies_above_every_threshold_and_is_attained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.4, size=200) * 0.2
    law = RoundLaw(weights, 0.8, 0.6, 0.1 * weights.sum() + 0.3, 0.1)
    found = supremum(law, 1e-5)
    everywhere = np.linspace(*law.reach(1e-9), 20_001)
    fpr, tpr = law.point(everywhere)
    values = np.array([literal(f, t, 1e-5) for f, t in zip(fpr, tpr, strict=True) if f > 0.0 and t < 1.0])
    assert values.max() <= found.interval.upper + 1e-9
    assert values.max() >= found.interval.lower - 1e-5
    assert epsilon_at(law, found.threshold, 1e-5).lower == pytest.approx(found.interval.lower, abs=1e-9)
    assert found.interval.width <= 1e-6


def test_real_backgrounds_lose_against_a_perfect_canary() -> None:
    weights = np.random.default_rng(1).gamma(0.4, size=200) * 0.1
    perfect = RoundLaw.perfect(Mechanism())
    noisy = RoundLaw(weights, perfect.noise, perfect.shift, perfect.offset + 0.1 * weights.sum(), 0.1)
    assert supremum(noisy, 1e-5).interval.upper < supremum(perfect, 1e-5).interval.lower


def test_a_blind_score_spends_nothing() -> None:
    for law in (
        RoundLaw(np.empty(0), 0.0, 0.0, 0.0, 0.1),
        RoundLaw(np.ones(3), 1.0, 0.0, 0.0, 0.1),
        SummedLaw([RoundLaw(np.empty(0), 0.0, 0.0, 0.0, 0.1)]),
    ):
        found = supremum(law, 1e-5)
        assert found.interval.upper == 0.0
        assert found.branch is Branch.NONE


def test_a_weak_score_spends_almost_nothing() -> None:
    for mu in (0.3, 0.1, 0.02):
        found = supremum(RoundLaw(np.empty(0), mu, mu**2, 0.5 * mu**2, 0.1), 1e-5)
        assert found.interval.width <= 1e-6
        truth = one_round_epsilon(Mechanism(sigma=1.0 / mu))
        assert found.interval.lower - 1e-9 <= truth <= found.interval.upper


@dataclass(frozen=True)
class Narrower:
    """A broken system: with the canary the score's law gets narrower, so that low scores betray its absence."""

    blind: bool = False
    idle: float = 0.0
    resolution: float = 0.0

    def rates(self, llr: ArrayLike) -> Rates:
        t = np.asarray(llr, dtype=np.float64)
        above, narrow = norm.sf(t), norm.sf(1.5 * t)
        below, narrow_below = norm.cdf(t), norm.cdf(1.5 * t)
        return Rates(*(Bounds(x, x) for x in (above, narrow, below, narrow_below)))

    def point(self, llr: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        t = np.asarray(llr, dtype=np.float64)
        return norm.sf(t), norm.sf(1.5 * t)

    def reach(self, mass: float) -> tuple[float, float]:
        return float(norm.ppf(mass)), float(norm.isf(mass))


def test_the_reverse_branch_is_found() -> None:
    found = supremum(Narrower(), 1e-3)
    t = np.linspace(-3.05, 0.0, 100_001)
    best = np.log((norm.cdf(t) - 1e-3) / norm.cdf(1.5 * t)).max()
    assert found.branch is Branch.REVERSE
    assert found.interval.lower - 1e-9 <= best + 1e-8
    assert best <= found.interval.upper
    assert found.interval.width < 1e-6
    assert found.point == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("delta", [-0.1, 1.0, -1e-5, float("nan")])
def test_a_delta_outside_of_its_range_is_refused(delta: float) -> None:
    law = RoundLaw.perfect(Mechanism())
    with pytest.raises(InputError, match="delta must be at least 0"):
        supremum(law, delta)
    with pytest.raises(InputError, match="delta must be at least 0"):
        epsilon_at(law, 1.0, delta)
