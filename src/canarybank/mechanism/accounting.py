"""State the epsilon of a mechanism: composed over rounds, in closed form for one, and as Opacus has it."""

from functools import lru_cache

from canarybank.errors import InputError
from canarybank.mechanism.mechanism import Mechanism

__all__ = ["epsilon"]

DISCRETISATION = 1e-4


def epsilon(mechanism: Mechanism, rounds: int = 1) -> float:
    """Return the epsilon at the mechanism's delta of ``rounds`` releases, for adding or removing one user."""
    if isinstance(rounds, bool) or int(rounds) != rounds or rounds < 1:
        raise InputError(f"The number of rounds must be a whole number of at least 1, not {rounds!r}.")
    return _pld_epsilon(mechanism.sigma, mechanism.q, mechanism.delta, int(rounds))


@lru_cache(maxsize=256)
def _pld_epsilon(sigma: float, q: float, delta: float, rounds: int) -> float:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(
        standard_deviation=sigma,
        value_discretization_interval=DISCRETISATION,
        sampling_prob=q,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return float(one.self_compose(rounds).get_epsilon_for_delta(delta))
