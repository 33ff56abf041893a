"""Bring people's records in: who they are, which of them are admitted, and what role each plays."""

from canarybank.users.cohorts import (
    Auxiliary,
    Calibration,
    Cohort,
    Cohorts,
    CohortSizes,
    Evaluation,
    draw_cohorts,
)
from canarybank.users.records import Users

__all__ = [
    "Auxiliary",
    "Calibration",
    "Cohort",
    "CohortSizes",
    "Cohorts",
    "Evaluation",
    "Users",
    "draw_cohorts",
]
