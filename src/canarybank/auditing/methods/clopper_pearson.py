"""The paper's rule with two ends instead of four: by symmetry they serve both branches."""

from canarybank.auditing.methods.base import FROZEN, Method

__all__ = ["CLOPPER_PEARSON"]

CLOPPER_PEARSON = Method(
    "clopper-pearson",
    f"{FROZEN}; two one-sided Clopper–Pearson ends at alpha/2 each, which serve both branches because "
    "TNR_L = 1 - FPR_U and FNR_U = 1 - TPR_L",
)
