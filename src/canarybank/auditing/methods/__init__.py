"""Ways from counts to a lower bound on epsilon, each an object that says all there is to know of it."""

from canarybank.auditing.methods.base import (
    CLOPPER_PEARSON,
    FROZEN,
    PAPER,
    POOLED,
    STRATIFIED,
    Bound,
    Branch,
    Method,
    epsilon_lower,
    find_method,
    own_method,
    pooled,
    stratified,
)

__all__ = [
    "CLOPPER_PEARSON",
    "FROZEN",
    "PAPER",
    "POOLED",
    "STRATIFIED",
    "Bound",
    "Branch",
    "Method",
    "epsilon_lower",
    "find_method",
    "own_method",
    "pooled",
    "stratified",
]
