"""Hold the slow truths that the fast tails are measured against."""

from collections.abc import Callable, Iterable

import mpmath as mp
import pytest

Truth = Callable[[Iterable[tuple[float, int]], float, float, float], mp.mpf]


@pytest.fixture
def enumerated() -> Truth:
    """P(X > t) at 60 digits, by adding up every outcome of the coins of (weight, users) groups."""

    def truth(groups: Iterable[tuple[float, int]], q: float, noise: float, threshold: float) -> mp.mpf:
        with mp.workdps(60):
            outcomes = {mp.mpf(0): mp.mpf(1)}
            for weight, count in groups:
                chances = [
                    mp.binomial(count, j) * mp.mpf(q) ** j * (1 - mp.mpf(q)) ** (count - j) for j in range(count + 1)
                ]
                wider: dict[mp.mpf, mp.mpf] = {}
                for place, chance in outcomes.items():
                    for j, share in enumerate(chances):
                        key = place + j * mp.mpf(float(weight))
                        wider[key] = wider.get(key, mp.mpf(0)) + chance * share
                outcomes = wider
            unit = mp.mpf(float(noise)) * mp.sqrt(2)
            return mp.fsum(p * mp.erfc((mp.mpf(float(threshold)) - x) / unit) / 2 for x, p in outcomes.items())

    return truth


@pytest.fixture
def inverted() -> Truth:
    """P(X > t) at about 25 digits, by plain inversion at 40 digits on half-integer frequencies."""

    def truth(groups: Iterable[tuple[float, int]], q: float, noise: float, threshold: float) -> mp.mpf:
        with mp.workdps(40):
            pairs = [(mp.mpf(float(w)), c) for w, c in groups]
            q_, s, t = mp.mpf(q), mp.mpf(float(noise)), mp.mpf(float(threshold))
            mean = q_ * mp.fsum(w * c for w, c in pairs)
            deviation = mp.sqrt(q_ * (1 - q_) * mp.fsum(c * w * w for w, c in pairs) + s * s)
            period = abs(t - mean) + 16 * deviation
            step = 2 * mp.pi / period
            total = mp.mpf(1) / 2
            for k in range(int(11 / (s * step)) + 1):
                w = (k + mp.mpf(1) / 2) * step
                phi = mp.exp(-((s * w) ** 2) / 2) * mp.expj(-w * t)
                for weight, count in pairs:
                    phi *= (1 - q_ + q_ * mp.expj(w * weight)) ** count
                total += mp.im(phi) / (mp.pi * (k + mp.mpf(1) / 2))
            return total

    return truth
