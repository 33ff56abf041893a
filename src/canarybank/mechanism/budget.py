"""Go from a privacy budget to a mechanism, and from a mechanism to what its rounds spend.

Neighbours are two populations of which one has one user more (add or remove one user), in both directions.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy.optimize import brentq

from canarybank.errors import BudgetError, InputError
from canarybank.mechanism.accounting import epsilon
from canarybank.mechanism.mechanism import Mechanism, require_delta, whole
from canarybank.mechanism.one_round import one_round_epsilon

__all__ = ["affordable_rounds", "composition_bound", "q_for_users", "sigma_for_epsilon"]

SMALLEST_SIGMA = 0.05
LARGEST_SIGMA = 1e4
DIGITS = 5


def sigma_for_epsilon(target: float, *, q: float, delta: float, rounds: int = 1) -> float:
    """Return the smallest noise multiplier, to five digits, whose ``rounds`` releases spend at most ``target``.

    ``epsilon(Mechanism(sigma=result, q=q, delta=delta), rounds) <= target`` holds for the returned value, and fails
    for one that is 2e-4 of it smaller. Neither k nor clip has a part in it.

    Args:
        target: The epsilon that all releases together may spend.
        q: The probability that a user takes part in a release.
        delta: The delta of epsilon.
        rounds: How many releases are composed.

    Example:
        >>> sigma_for_epsilon(1.0, q=0.1, delta=1e-5)
        1.259
    """
    if not 0 < target < math.inf:
        raise InputError(f"The target epsilon must be positive and finite, not {target!r}.")
    count = whole("rounds", rounds)
    require_delta(delta, "A sigma for a target epsilon")

    def excess(log_sigma: float) -> float:
        return epsilon(Mechanism(sigma=math.exp(log_sigma), q=q, delta=delta), count) - target

    low = math.log(_one_round_sigma(target, q, delta))
    if excess(low) <= 0:
        return rounded_up(math.exp(low))
    high = low + 0.5 * math.log(count) + 0.05
    while excess(high) > 0:
        if high > math.log(LARGEST_SIGMA):
            raise BudgetError(_out_of_reach(target, q, delta, count))
        low, high = high, high + 0.5
    root = math.exp(float(brentq(excess, low, high, xtol=1e-5)))
    while epsilon(Mechanism(sigma=rounded_up(root), q=q, delta=delta), count) > target:
        root *= 1 + 1e-5
    return rounded_up(root)


def q_for_users(per_round: float, users: int) -> float:
    """Return the participation probability with which ``per_round`` of ``users`` users take part on average.

    The number that takes part is random, and so it must be: epsilon is that of independent coins, one a user. The
    number of users counts as public here, for q follows from it.

    Args:
        per_round: How many users shall take part in a round, on average.
        users: How many users are eligible.

    Example:
        >>> q_for_users(100, 1000)
        0.1
    """
    count = whole("users", users)
    if not 0 < per_round <= count:
        raise InputError(f"The users per round must lie in (0, {count}], the number of users, not be {per_round!r}.")
    return float(per_round / count)


def composition_bound(mechanism: Mechanism, rounds: int = 1) -> float:
    """Return the epsilon that adding up the rounds one by one proves: an upper bound that can be checked by hand.

    Each release is (e, delta/rounds)-private with e in closed form, so all of them together are (rounds·e,
    delta)-private, whatever each round's bank was made of. It lies above ``epsilon``, which composes the losses'
    whole distribution.

    The formula: basic composition (Dwork and Roth, 2014, theorem 3.16,
    https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf).

    Args:
        mechanism: The parameters of the release.
        rounds: How many releases are composed.

    Example:
        >>> from canarybank.mechanism import Mechanism, epsilon
        >>> mechanism = Mechanism(sigma=2.0)
        >>> composition_bound(mechanism, 2) > epsilon(mechanism, 2)
        True
    """
    count = whole("rounds", rounds)
    return count * one_round_epsilon(replace(mechanism, delta=mechanism.delta / count))


def affordable_rounds(mechanism: Mechanism, budget: float, at_most: int) -> int:
    """Return the largest number of rounds up to ``at_most`` whose epsilon stays within the budget; 0 if none does.

    Args:
        mechanism: The parameters of the release.
        budget: The epsilon that all rounds together may spend.
        at_most: The most rounds that are wanted.

    Example:
        >>> from canarybank.mechanism import Mechanism
        >>> affordable_rounds(Mechanism(sigma=2.0), 1.0, at_most=3)
        3
    """
    low, high = 0, whole("at_most", at_most) + 1
    known: list[tuple[int, float]] = []
    while high - low > 1:
        count = min(max(_guess(known, budget, low, high), low + 1), high - 1)
        known.append((count, epsilon(mechanism, count)))
        low, high = (count, high) if known[-1][1] <= budget else (low, count)
    return low


def _guess(known: Sequence[tuple[int, float]], budget: float, low: int, high: int) -> int:
    """Return about how many rounds spend the budget, from what some numbers of rounds are known to spend.

    Epsilon is nearly a power of the rounds, so the line through the last two on logarithmic axes does in a few guesses.
    Every sixth guess halves what is left, so that any law is found.
    """
    if not known:
        return 1
    last, spent = known[-1]
    if len(known) % 6 == 0 or not 0 < spent < math.inf:
        return (low + high) // 2
    before, spent_before = known[-2] if len(known) > 1 else (1, 0.0)
    power = math.log(spent / spent_before) / math.log(last / before) if 0 < spent_before != spent else 0.5
    guess = math.log(last) + math.log(budget / spent) / power
    return math.floor(math.exp(min(guess, math.log(high))))


def _one_round_sigma(target: float, q: float, delta: float) -> float:
    """Return the sigma at which one release in closed form spends the target: more rounds need at least that."""

    def excess(log_sigma: float) -> float:
        return one_round_epsilon(Mechanism(sigma=math.exp(log_sigma), q=q, delta=delta)) - target

    low, high = math.log(SMALLEST_SIGMA), math.log(LARGEST_SIGMA)
    if excess(low) <= 0:
        return SMALLEST_SIGMA
    if excess(high) > 0:
        raise BudgetError(_out_of_reach(target, q, delta, 1))
    return math.exp(float(brentq(excess, low, high, xtol=1e-9)))


def _out_of_reach(target: float, q: float, delta: float, rounds: int) -> str:
    return (
        f"No sigma up to {LARGEST_SIGMA:g} brings {rounds} rounds at q = {q:g} and delta = {delta:g} down to epsilon "
        f"{target:g}; allow a larger epsilon or delta, fewer rounds, or a smaller q."
    )


def rounded_up(value: float, digits: int = DIGITS) -> float:
    """Return a positive value rounded up to so many digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{digits}g}")
