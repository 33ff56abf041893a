"""Defend users: vet a bank before anybody votes, and say what each defence leaves to an attacker."""

from canarybank.defend.perplexity import Likelihoods, measure_likelihoods
from canarybank.defend.reach import reach, reach_under_share
from canarybank.defend.share import (
    ShareReach,
    core_epsilon,
    cores_reach,
    equal_ranking_ratio,
    equal_ranking_reach,
    filtered_reach,
    spread_epsilon,
)
from canarybank.defend.vetting import (
    LEVELS,
    BankVerdict,
    FalseAlarms,
    Finding,
    Measure,
    PublicText,
    Screen,
    Vetting,
    smallest_bank,
    vet,
)
from canarybank.defend.votes import ShareVotes

__all__ = [
    "LEVELS",
    "BankVerdict",
    "FalseAlarms",
    "Finding",
    "Likelihoods",
    "Measure",
    "PublicText",
    "Screen",
    "ShareReach",
    "ShareVotes",
    "Vetting",
    "core_epsilon",
    "cores_reach",
    "equal_ranking_ratio",
    "equal_ranking_reach",
    "filtered_reach",
    "measure_likelihoods",
    "reach",
    "reach_under_share",
    "smallest_bank",
    "spread_epsilon",
    "vet",
]
