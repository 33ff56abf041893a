"""Measure what an attack could spend: systems, trials, thresholds, bounds, exact evaluation, the ladder."""

from canarybank.auditing.ceiling import Ceiling, ceiling, perfect_rates, trials_needed, trials_needed_for
from canarybank.auditing.evidence import evidence
from canarybank.auditing.exact import Supremum, at_most, epsilon_at, supremum
from canarybank.auditing.follow import follow, transcript_scores
from canarybank.auditing.forecast import ExpectedBound, expected_bound
from canarybank.auditing.ledger import AlphaLedger
from canarybank.auditing.methods import Bound, Branch, Method, epsilon_lower, find_method, own_method
from canarybank.auditing.methods.pooled import pooled
from canarybank.auditing.methods.stratified import stratified
from canarybank.auditing.pipeline import (
    NOWHERE,
    Auditor,
    Case,
    Claims,
    Memo,
    MemoryTally,
    Place,
    Routes,
    Systems,
    Tally,
    claim_names,
    route_cohorts,
)
from canarybank.auditing.rates import clopper_pearson
from canarybank.auditing.result import AttackResult, AuditResult, CanaryResult, Ladder, Rung
from canarybank.auditing.run import SystemAudit, SystemResult, audit, audit_system
from canarybank.auditing.settings import Settings, TrialEngine, attack_bound, canary_bound, headline, pooled_bound
from canarybank.auditing.threshold import (
    Target,
    Threshold,
    ThresholdMode,
    analytic,
    best_threshold,
    calibrated,
    choose_aim,
)
from canarybank.auditing.trials import (
    Counts,
    Literal,
    Projected,
    Shard,
    Summed,
    Trials,
    count,
    count_prefixes,
    count_shard,
    draw,
    plan,
)
from canarybank.systems.mechanism import BankSystem, CallableSystem, System, SystemFactory

__all__ = [
    "NOWHERE",
    "AlphaLedger",
    "AttackResult",
    "AuditResult",
    "Auditor",
    "BankSystem",
    "Bound",
    "Branch",
    "CallableSystem",
    "CanaryResult",
    "Case",
    "Ceiling",
    "Claims",
    "Counts",
    "ExpectedBound",
    "Ladder",
    "Literal",
    "Memo",
    "MemoryTally",
    "Method",
    "Place",
    "Projected",
    "Routes",
    "Rung",
    "Settings",
    "Shard",
    "Summed",
    "Supremum",
    "System",
    "SystemAudit",
    "SystemFactory",
    "SystemResult",
    "Systems",
    "Tally",
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
    "claim_names",
    "clopper_pearson",
    "count",
    "count_prefixes",
    "count_shard",
    "draw",
    "epsilon_at",
    "epsilon_lower",
    "evidence",
    "expected_bound",
    "find_method",
    "follow",
    "headline",
    "own_method",
    "perfect_rates",
    "plan",
    "pooled",
    "pooled_bound",
    "route_cohorts",
    "stratified",
    "supremum",
    "transcript_scores",
    "trials_needed",
    "trials_needed_for",
]
