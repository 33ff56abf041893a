"""State the epsilon of a mechanism over rounds, from the privacy loss distribution, and as Opacus has it.

Neighbours are two populations of which one has one user more (add or remove one user), in both directions.
"""

import importlib
import math
import warnings
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from canarybank.errors import InputError, MissingError
from canarybank.mechanism.composition import composed_epsilon
from canarybank.mechanism.mechanism import Mechanism, require_delta, whole
from canarybank.mechanism.one_round import one_round_epsilon

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["delta_slack", "delta_text", "epsilon", "privacy_loss", "prv_epsilon", "rounds_epsilon", "slack_refusal"]

LEAST_SIGMA = 1e-3
USUAL_SIGMAS, USUAL_Q, USUAL_DELTA, USUAL_ROUNDS = (0.5, 5.0), 0.05, 1e-9, 100
FINEST_STEP = 1e-4
MOST_STEPS = 1e6
TRUNCATED_SHARE = 1e-10
PRV_SIGMA, PRV_CELLS, PRV_BAND = 0.3, 2e6, 4
"""Where Opacus's accountant is asked, and how many errors above the exact epsilon its upper end may lie."""


def epsilon(mechanism: Mechanism, rounds: int = 1) -> float:
    """Return the epsilon at the mechanism's delta of ``rounds`` releases, for adding or removing one user.

    The composed releases are (epsilon, delta)-differentially private under adding or removing one user, whatever
    each round's bank was made of, released histograms included. At delta = 0 it is infinite: Gaussian noise has no
    finite epsilon without a delta. Where it comes from:

    - One release: the closed form, right to rounding (1e-9 of it, by tests at fifty digits).
    - 2 to 100 releases, sigma from 0.5 to 5, q from 0.05 and delta from 1e-9 on: dp-accounting's privacy loss
      distribution, whose discretisation is pessimistic. It lies above the exact epsilon, by less than 1e-6.
    - Several, at all other settings, where dp-accounting's lattice may be too coarse: ``composition``, above the exact
      epsilon by less than 1e-6 of it. Where both hold they agree to that, as tests show.
    - Several, sigma below 1e-3: the sum of the rounds' closed forms at their share of delta, an upper bound.

    The formula: the trade-off of two Gaussians (Balle and Wang, 2018, https://arxiv.org/abs/1805.06530), subsampled as
    in Zhu, Dong and Wang (2022, https://arxiv.org/abs/2106.08567), and the privacy loss distribution of a
    Poisson-subsampled Gaussian (Koskela et al., 2021, https://arxiv.org/abs/2102.12412).

    Args:
        mechanism: The parameters of the release.
        rounds: How many releases are composed.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> round(epsilon(Mechanism(sigma=1.0, q=0.1, delta=1e-5)), 6)
        1.684544
    """
    count = whole("rounds", rounds)
    if mechanism.delta == 0:
        return math.inf
    if count == 1:
        return one_round_epsilon(mechanism)
    if mechanism.sigma < LEAST_SIGMA:
        return count * one_round_epsilon(replace(mechanism, delta=mechanism.delta / count))
    return rounds_epsilon(mechanism.sigma, mechanism.q, mechanism.delta, count)


def delta_slack(epsilon: float, variation: float) -> float:
    """Return what comes on top of delta where releases differ from ideal ones by ``variation`` in total variation.

    Let P and Q be the laws of all ideal releases with and without a user, and P' and Q' those of what is really drawn,
    each within ``variation`` of the ideal one. Then for every event P'(A) <= P(A) + variation <= exp(epsilon) Q(A) +
    delta + variation <= exp(epsilon) Q'(A) + delta + (1 + exp(epsilon))·variation. Several releases, each chosen after
    the ones before, differ by at most the sum of their variations.

    Args:
        epsilon: The epsilon of the ideal releases.
        variation: The total variation between what is drawn and the ideal, over all releases.

    Example:
        >>> round(delta_slack(1.0, 1e-12) * 1e12, 3)
        3.718
    """
    return min(1.0, variation * (1 + math.exp(min(epsilon, 700.0))))


def slack_refusal(delta: float, slack: float) -> str | None:
    """Return why releases with this slack may not be made, or None where they may: where it is at most delta.

    So releases that are accounted for at (epsilon, delta) are (epsilon, 2·delta)-private whatever draws their noise;
    ``delta_text`` states the sum.

    Args:
        delta: The delta of ideal noise.
        slack: What the noise's arithmetic adds to it.

    Example:
        >>> slack_refusal(1e-5, 1e-9) is None
        True
    """
    if slack <= delta:
        return None
    return (
        f"the arithmetic of its noise would add {slack:.2g} to delta {delta:g}; it may at most double it. Use "
        'evolve.noise = "discrete", a larger sigma, fewer rounds or a smaller bank: what is added grows with the bank, '
        "the rounds and exp(epsilon)."
    )


def delta_text(delta: float, slack: float) -> str:
    """Say at which delta an epsilon is stated: that of ideal noise, and what the noise's arithmetic adds.

    Args:
        delta: The delta of ideal noise.
        slack: What the noise's arithmetic adds to it.

    Example:
        >>> delta_text(1e-5, 0.0)
        'delta 1e-05'
    """
    return f"delta {delta:g}{f' + {slack:.2g}' if slack else ''}"


@lru_cache(maxsize=1024)
def rounds_epsilon(sigma: float, q: float, delta: float, rounds: int) -> float:
    """Return the epsilon of several releases of a known noise; figures are kept, for a ledger asks for them again."""
    usual = USUAL_SIGMAS[0] <= sigma <= USUAL_SIGMAS[1] and rounds <= USUAL_ROUNDS
    if not (usual and q >= USUAL_Q and delta >= USUAL_DELTA):
        return composed_epsilon(Mechanism(sigma=sigma, q=q, delta=delta), rounds)
    # Composition moves the mass it truncates to an infinite loss: keep that far below delta.
    truncated = min(1e-15, delta * TRUNCATED_SHARE)
    composed = privacy_loss(sigma, q).self_compose(rounds, tail_mass_truncation=truncated)
    return float(composed.get_epsilon_for_delta(delta))


@lru_cache(maxsize=4)  # a distribution takes megabytes, and a ledger asks for one alone
def privacy_loss(sigma: float, q: float) -> "PrivacyLossDistribution":
    """Return dp-accounting's distribution of the privacy loss of one release, discretised pessimistically."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_gaussian_mechanism(
        standard_deviation=sigma,
        pessimistic_estimate=True,
        value_discretization_interval=_step(sigma, q),
        sampling_prob=q,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )


def _step(sigma: float, q: float) -> float:
    # 1e-4 is right to six digits for losses around one. Where all losses are small it must be finer to be right at
    # all; where they run to thousands it must be coarser, or the distribution would not fit into memory.
    shift = 1 / sigma
    largest = math.log1p(q * math.expm1(min(7 * shift, 700.0)))
    span = shift * shift / 2 + 18 * shift
    return max(min(FINEST_STEP, largest / 2e4), span / MOST_STEPS)


def prv_epsilon(mechanism: Mechanism, rounds: int = 1, *, error: float = 0.01) -> float:
    """Return the epsilon that Opacus's ``PRVAccountant`` states, for parity with the paper.

    It is the upper end of that accountant's band around the exact epsilon, so it lies above it by about
    ``error``: a claim that is valid but loose. It needs the extra ``opacus``.

    Where that accountant fails, would need too much memory, or states what cannot be such an upper end, an
    ``InputError`` says so. It is asked only where sigma is at least 0.3 and its lattice is of moderate size.

    The formula: Gopi, Lee and Wutschitz (2021, https://arxiv.org/abs/2106.02848), as Opacus has it.

    Args:
        mechanism: The parameters of the release.
        rounds: How many releases are composed.
        error: The half width of the accountant's band, its ``eps_error``.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> prv_epsilon(Mechanism(sigma=0.01))
        Traceback (most recent call last):
        canarybank.errors.InputError: ...
    """
    count = whole("rounds", rounds)
    require_delta(mechanism.delta, "Opacus's accountant")
    if not 0 < error < math.inf:
        raise InputError(f"The accountant's error must be positive and finite, not {error!r}; Opacus uses 0.01.")
    if mechanism.sigma < PRV_SIGMA:
        raise _not_stated(f"its sums do not hold for sigma below {PRV_SIGMA:g}")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what the accountant makes of its own arithmetic is judged below
        stated = _prv_upper(_opacus_accountants(), mechanism, count, error)
    exact = epsilon(mechanism, count)
    if not exact <= stated <= exact + PRV_BAND * error:
        raise _not_stated(f"it gives {stated:.6g} for an upper end, and the exact epsilon is {exact:.6g}")
    return stated


def _opacus_accountants() -> Any:
    try:
        return importlib.import_module("opacus.accountants")
    except ImportError as problem:
        raise MissingError(
            "The PRV accountant comes with Opacus, which is not installed; run: pip install 'canarybank[opacus]'"
        ) from problem


@lru_cache(maxsize=1024)
def _prv_upper(accountants: Any, mechanism: Mechanism, rounds: int, error: float) -> float:
    try:
        if _prv_cells(accountants, mechanism, rounds, error) <= PRV_CELLS:
            accountant = accountants.PRVAccountant()
            accountant.history = [(mechanism.sigma, mechanism.q, rounds)]
            return float(accountant.get_epsilon(mechanism.delta, eps_error=error))
    except Exception as problem:  # noqa: BLE001, whatever goes wrong in it, the exact figure stands
        raise _not_stated(f"it ends with {type(problem).__name__}") from None
    raise _not_stated("its lattice would need too much memory")


def _prv_cells(accountants: Any, mechanism: Mechanism, rounds: int, error: float) -> float:
    """Return the cells of Opacus's lattice: losses up to its Renyi bounds on them, at the mesh of its error."""
    missed = mechanism.delta / 1000
    ends = []
    for count, mass in ((rounds, missed / 4), (1, missed / (8 * rounds))):
        renyi = accountants.RDPAccountant()
        renyi.history = [(mechanism.sigma, mechanism.q, count)]
        ends.append(float(renyi.get_epsilon(mass)))
    return 2 * (max(ends) + 3) * math.sqrt(rounds * math.log(12 / missed) / 2) / error


def _not_stated(why: str) -> InputError:
    return InputError(f"Opacus's accountant states no epsilon for this mechanism: {why}. Take the exact epsilon.")
