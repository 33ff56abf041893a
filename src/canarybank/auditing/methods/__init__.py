"""Ways from counts to a lower bound on epsilon, one object and one file each."""

from canarybank.auditing.methods.base import Bound, Branch, Method, epsilon_lower, find_method, own_method

__all__ = ["Bound", "Branch", "Method", "epsilon_lower", "find_method", "own_method"]
