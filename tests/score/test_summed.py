import numpy as np
import pytest
from scipy.stats import norm

from canarybank.errors import InputError
from canarybank.mechanism import Mechanism
from canarybank.score import RoundLaw, SummedLaw, mixture, unmix

FEW = RoundLaw(np.array([0.6, -0.3]), 0.8, 0.7, 0.4, 0.2)
PERFECT = RoundLaw.perfect(Mechanism(sigma=1.1))


def components(law: RoundLaw, *, eligible: bool) -> list[tuple[float, float]]:
    """The llr as a mixture of Gaussians of the law's noise: (chance, mean) of every outcome of the coins."""
    parts = [(1.0, -law.offset)]
    for weight in [*law.weights, *([law.shift] if eligible else [])]:
        parts = [(p * c, m + j * weight) for p, m in parts for j, c in ((0, 1.0 - law.q), (1, law.q))]
    return parts


def survival(law: RoundLaw, llr: np.ndarray, *, eligible: bool) -> np.ndarray:
    return np.sum([p * norm.sf((llr - m) / law.noise) for p, m in components(law, eligible=eligible)], axis=0)


def naive_pair(one: RoundLaw, other: RoundLaw, threshold: float, *, eligible: bool) -> float:
    """P(M1 + M2 > t), integrated over the first llr by the trapezoidal rule, component by component."""
    z = np.linspace(-11.0, 11.0, 20_001)
    total = 0.0
    for chance, mean in components(one, eligible=eligible):
        rest = threshold - mixture(mean + one.noise * z, one.q)
        values = norm.pdf(z) * survival(other, unmix(rest, other.q), eligible=eligible)
        total += chance * float(values.sum()) * (z[1] - z[0])
    return total


@pytest.mark.parametrize(("one", "other"), [(PERFECT, PERFECT), (FEW, PERFECT), (FEW, FEW)])
def test_two_rounds_are_the_double_integral(one: RoundLaw, other: RoundLaw) -> None:
    law = SummedLaw([one, other], step=1e-4)
    for threshold in (-0.1, 0.2, 1.4):
        rates = law.rates(threshold)
        fpr, tpr = law.point(threshold)
        for bounds, point, eligible in ((rates.fpr, fpr, False), (rates.tpr, tpr, True)):
            truth = naive_pair(one, other, threshold, eligible=eligible)
            assert bounds.lower <= truth <= bounds.upper
            assert bounds.upper - bounds.lower < 2e-3 * truth + 1e-12
            assert float(point) == pytest.approx(truth, rel=2e-5)


def test_mass_beyond_the_cells_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canarybank.score.lattice.ESCAPE", 0.02)
    law = SummedLaw([PERFECT, PERFECT], step=1e-3)
    for threshold in (-0.2, -0.1, 0.4, 0.7):
        truth = naive_pair(PERFECT, PERFECT, threshold, eligible=False)
        lower, upper = law.rates(threshold).fpr
        assert lower <= truth <= upper
        assert upper - lower < 0.1


def test_one_round_is_the_rounds_own_law() -> None:
    law = SummedLaw([FEW], step=1e-4)
    thresholds = np.array([-0.15, 0.0, 0.6, 2.0])
    own = FEW.rates(unmix(thresholds, FEW.q))
    for summed, single in zip(law.rates(thresholds), own, strict=True):
        assert (summed.lower <= single.upper).all()
        assert (single.lower <= summed.upper).all()
    assert np.allclose(law.point(thresholds)[1], own.tpr.lower, rtol=1e-9)


def test_three_rounds_agree_with_trials() -> None:
    # Six rates by 300,000 trials each; five-sigma bands: a false alarm in fewer than 1 of 1e5 runs; fixed seed.
    rng, n = np.random.default_rng(5), 300_000
    law = SummedLaw([FEW, PERFECT, FEW], step=1e-4)
    for eligible in (False, True):
        total = np.zeros(n)
        for part in law.rounds:
            llr = rng.normal(-part.offset, part.noise, n) + (rng.random((n, len(part.weights))) < part.q) @ part.weights
            llr += part.shift * (rng.random(n) < part.q) * eligible
            total += mixture(llr, part.q)
        for threshold in (-0.1, 0.3, 1.0):
            lower, upper = law.rates(threshold).tpr if eligible else law.rates(threshold).fpr
            margin = 5.0 * np.sqrt(upper * (1.0 - lower) / n)
            assert lower - margin < (total > threshold).mean() < upper + margin


def test_without_subsampling_the_sum_is_gaussian() -> None:
    law = RoundLaw.perfect(Mechanism(sigma=2.0, q=1.0))
    summed = SummedLaw([law] * 4, step=1e-4)
    # Four llrs of N(-1/8, 1/4) add up to N(-1/2, 1); with the canary to N(1/2, 1).
    for threshold in (-2.0, 0.0, 3.0):
        rates = summed.rates(threshold)
        assert rates.fpr.lower <= norm.sf(threshold + 0.5) <= rates.fpr.upper
        assert rates.tpr.lower <= norm.sf(threshold - 0.5) <= rates.tpr.upper
        assert float(summed.point(threshold)[0]) == pytest.approx(norm.sf(threshold + 0.5), rel=1e-5)


def test_silent_rounds_add_nothing() -> None:
    silent = RoundLaw(np.empty(0), 0.0, 0.0, 0.0, 0.1)
    alone, beside = SummedLaw([PERFECT, PERFECT], step=1e-3), SummedLaw([PERFECT, silent, PERFECT], step=1e-3)
    for one, other in zip(alone.rates(0.5), beside.rates(0.5), strict=True):
        assert one == other
    assert beside.point(0.5)[0] == pytest.approx(alone.point(0.5)[0], rel=1e-12)
    nothing = SummedLaw([silent, silent])
    assert nothing.blind
    assert (nothing.rates([-0.5, 0.5]).fpr.lower == [1.0, 0.0]).all()
    assert (nothing.rates([-0.5, 0.5]).fpr.upper == [1.0, 0.0]).all()


def test_rates_are_probabilities_everywhere() -> None:
    law = SummedLaw([FEW, PERFECT], step=1e-3)
    rates = law.rates([-np.inf, -1e300, -5.0, 0.0, 5.0, 100.0, 1e300, np.inf])
    for bounds in rates:
        assert (bounds.lower >= 0.0).all()
        assert (bounds.lower <= bounds.upper).all()
        assert (bounds.upper <= 1.0).all()
    assert rates.fpr.lower[2] > 0.999
    assert rates.fpr.upper[5] < 1e-10


def test_bad_sums_are_refused() -> None:
    with pytest.raises(InputError, match="at least one round"):
        SummedLaw([])
    with pytest.raises(InputError, match="step must be positive"):
        SummedLaw([FEW], step=0.0)
    with pytest.raises(InputError, match="NaN"):
        SummedLaw([FEW], step=1e-2).rates(np.nan)
