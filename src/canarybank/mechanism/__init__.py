"""Make one release: the bank, routes, contributions, sampling and noise, and what all that costs in privacy."""

from canarybank.mechanism.account import Account, Debit, Opening
from canarybank.mechanism.accounting import delta_slack, delta_text, epsilon, prv_epsilon, slack_refusal
from canarybank.mechanism.bank import Bank
from canarybank.mechanism.budget import affordable_rounds, composition_bound, q_for_users, sigma_for_epsilon
from canarybank.mechanism.claim import Claim, attained_epsilon
from canarybank.mechanism.composition import composed_epsilon
from canarybank.mechanism.contributions import NO_ENTRY, contributions, whole_contributions
from canarybank.mechanism.grid import Grid
from canarybank.mechanism.mechanism import Mechanism
from canarybank.mechanism.merkle import Proof, bank_root, prove
from canarybank.mechanism.one_round import one_round_delta, one_round_epsilon
from canarybank.mechanism.release import release
from canarybank.mechanism.routed import Ask, Routed
from canarybank.mechanism.routing import route
from canarybank.mechanism.shares import route_within
from canarybank.mechanism.streamed import StreamedCohort
from canarybank.mechanism.table import RouteTable

__all__ = [
    "NO_ENTRY",
    "Account",
    "Ask",
    "Bank",
    "Claim",
    "Debit",
    "Grid",
    "Mechanism",
    "Opening",
    "Proof",
    "RouteTable",
    "Routed",
    "StreamedCohort",
    "affordable_rounds",
    "attained_epsilon",
    "bank_root",
    "composed_epsilon",
    "composition_bound",
    "contributions",
    "delta_slack",
    "delta_text",
    "epsilon",
    "one_round_delta",
    "one_round_epsilon",
    "prove",
    "prv_epsilon",
    "q_for_users",
    "release",
    "route",
    "route_within",
    "sigma_for_epsilon",
    "slack_refusal",
    "whole_contributions",
]
