"""Methods: each is one way from counts to a lower bound on epsilon, as an object that the program asks."""

from canarybank.auditing.methods.method import (
    CLOPPER_PEARSON,
    FROZEN,
    PAPER,
    Bound,
    Branch,
    Method,
    epsilon_lower,
    find_method,
    own_method,
)

__all__ = [
    "CLOPPER_PEARSON",
    "FROZEN",
    "PAPER",
    "Bound",
    "Branch",
    "Method",
    "epsilon_lower",
    "find_method",
    "own_method",
]
