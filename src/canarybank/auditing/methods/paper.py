"""The paper's rule: four one-sided ends, a quarter of alpha each."""

from canarybank.auditing.methods.base import FROZEN, Method

__all__ = ["PAPER"]

PAPER = Method("paper", f"{FROZEN}; four one-sided Clopper–Pearson ends at alpha/4 each, both branches", tails=4)
