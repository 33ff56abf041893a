"""Measure what an attack could spend: systems, trials, thresholds, bounds, exact evaluation, the ladder."""

from canarybank.audit.ceiling import Ceiling, ceiling, perfect_rates, trials_needed, trials_needed_for
from canarybank.audit.exact import Supremum, at_most, epsilon_at, supremum
from canarybank.audit.forecast import ExpectedBound, expected_bound
from canarybank.audit.foreign import SystemResult, audit_system
from canarybank.audit.ladder import Ladder, Rung
from canarybank.audit.ledger import AlphaLedger
from canarybank.audit.methods import Bound, Branch, Method, epsilon_lower, find_method, own_method
from canarybank.audit.methods.pooled import pooled
from canarybank.audit.methods.stratified import stratified
from canarybank.audit.rates import clopper_pearson
from canarybank.audit.result import AuditResult, CanaryResult
from canarybank.audit.run import audit
from canarybank.audit.settings import Settings, TrialEngine, attack_bound, canary_bound, headline, pooled_bound
from canarybank.audit.stages import Frozen, Prepared, evaluation_law, evaluation_trials, freeze, judge, prepare
from canarybank.audit.summary import summarise
from canarybank.audit.system import BankSystem, CallableSystem, System
from canarybank.audit.threshold import (
    Target,
    Threshold,
    ThresholdMode,
    analytic,
    best_threshold,
    calibrated,
    choose_aim,
)
from canarybank.audit.trials import Counts, Literal, Projected, Shard, Trials, count, count_shard, draw, plan

__all__ = [
    "AlphaLedger",
    "AuditResult",
    "BankSystem",
    "Bound",
    "Branch",
    "CallableSystem",
    "CanaryResult",
    "Ceiling",
    "Counts",
    "ExpectedBound",
    "Frozen",
    "Ladder",
    "Literal",
    "Method",
    "Prepared",
    "Projected",
    "Rung",
    "Settings",
    "Shard",
    "Supremum",
    "System",
    "SystemResult",
    "Target",
    "Threshold",
    "ThresholdMode",
    "TrialEngine",
    "Trials",
    "analytic",
    "at_most",
    "attack_bound",
    "audit",
    "audit_system",
    "best_threshold",
    "calibrated",
    "canary_bound",
    "ceiling",
    "choose_aim",
    "clopper_pearson",
    "count",
    "count_shard",
    "draw",
    "epsilon_at",
    "epsilon_lower",
    "evaluation_law",
    "evaluation_trials",
    "expected_bound",
    "find_method",
    "freeze",
    "headline",
    "judge",
    "own_method",
    "perfect_rates",
    "plan",
    "pooled",
    "pooled_bound",
    "prepare",
    "stratified",
    "summarise",
    "supremum",
    "trials_needed",
    "trials_needed_for",
]
