"""State the exact privacy curve of one round in closed form.

On the axis of the user's contribution, in units of the noise, a release without the user is z ~ N(0, 1) and with
the user eligible (1-q) N(0, 1) + q N(mu, 1), mu = 1/sigma; the loss is l(z) = log(1 - q + q exp(mu z - mu²/2)). With
the Mills ratio R(y) = P(Z > y)/density(y), and density n, the curve is

* removing the user:  q n(y) (R(y) - R(y + mu)), y = z - mu, where l(z) = epsilon;
* adding the user:    exp(epsilon) q n(y + mu) (R(y) - R(y + mu)), y = -z, where l(z) = -epsilon; nothing
  from epsilon = -log(1 - q) on, for no outcome is that much likelier without the user.
"""

import math

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import Mechanism

__all__ = ["log_delta_add", "log_delta_remove", "one_round_delta", "one_round_epsilon"]

LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)
_LARGEST_EXPONENT = 700.0


def one_round_delta(mechanism: Mechanism, epsilon: float) -> float:
    """Return the smallest delta at which one release is (epsilon, delta)-private for adding or removing one user.

    It is the supremum over events A of P(A) - exp(epsilon) P'(A), over both orders of neighbouring populations, at
    the worst contribution that the clip admits. The mechanism's own delta plays no part.

    The formula: the trade-off of two Gaussians (Balle and Wang, 2018, https://arxiv.org/abs/1805.06530), subsampled as
    in Zhu, Dong and Wang (2022, https://arxiv.org/abs/2106.08567).

    Args:
        mechanism: The parameters of the release.
        epsilon: The epsilon at which delta is stated.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> f"{one_round_delta(Mechanism(), 1.684544):.3g}"
        '1e-05'
    """
    if not 0 <= epsilon < math.inf:
        raise InputError(f"epsilon must be finite and not negative, but is {epsilon!r}.")
    return math.exp(_log_delta(mechanism, epsilon))


def one_round_epsilon(mechanism: Mechanism) -> float:
    """Return the smallest epsilon at which one release is (epsilon, delta)-private for adding or removing one user.

    It solves ``one_round_delta(mechanism, epsilon) = mechanism.delta``, and is 0 where delta alone covers it. At
    delta = 0 it is infinite: the loss of Gaussian noise has no largest value.

    The formula: the trade-off of two Gaussians (Balle and Wang, 2018, https://arxiv.org/abs/1805.06530), subsampled as
    in Zhu, Dong and Wang (2022, https://arxiv.org/abs/2106.08567).

    Args:
        mechanism: The parameters of the release.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> round(one_round_epsilon(Mechanism()), 6)
        1.684544
    """
    if mechanism.delta == 0:
        return math.inf
    target = math.log(mechanism.delta)
    if _log_delta(mechanism, 0.0) <= target:
        return 0.0
    upper = 1.0
    while _log_delta(mechanism, upper) > target:
        upper *= 2
    return float(brentq(lambda e: _log_delta(mechanism, e) - target, 0.0, upper, xtol=1e-24, rtol=1e-15, maxiter=500))


def _log_delta(mechanism: Mechanism, epsilon: float) -> float:
    return max(log_delta_remove(mechanism, epsilon), log_delta_add(mechanism, epsilon))


def log_delta_remove(mechanism: Mechanism, epsilon: float) -> float:
    """Return the logarithm of delta at an epsilon of one release, where the user is removed."""
    mu, q = 1 / mechanism.sigma, mechanism.q
    y = _excess(epsilon, q) / mu - mu / 2
    return math.log(q) + _log_density(y) + _log_mills_gap(y, mu)


def log_delta_add(mechanism: Mechanism, epsilon: float) -> float:
    """Return the logarithm of delta at an epsilon of one release, where the user is added."""
    mu, q = 1 / mechanism.sigma, mechanism.q
    excess = _excess(-epsilon, q)
    if excess == -math.inf:
        return -math.inf
    y = -(excess / mu + mu / 2)
    return epsilon + math.log(q) + _log_density(y + mu) + _log_mills_gap(y, mu)


def _excess(loss: float, q: float) -> float:
    # log((exp(loss) - (1 - q)) / q), without overflow and without cancellation; -infinity where exp(loss) <= 1 - q.
    if abs(loss) < 1:
        share = math.expm1(loss) / q
        return math.log1p(share) if share > -1 else -math.inf
    share = (1 - q) * math.exp(min(-loss, _LARGEST_EXPONENT))
    return loss + math.log1p(-share) - math.log(q) if share < 1 else -math.inf


def _log_density(z: float) -> float:
    return -z * z / 2 - LOG_ROOT_TAU


def _log_mills(z: float) -> float:
    if z > -1:
        return math.log(float(erfcx(z / math.sqrt(2)))) + 0.5 * math.log(math.pi / 2)
    return float(log_ndtr(-z)) - _log_density(z)


def _log_mills_gap(y: float, mu: float) -> float:
    near, far = _log_mills(y), _log_mills(y + mu)
    return near + math.log(-math.expm1(far - near)) if far < near else -math.inf
