"""Make many releases: Private Evolution round by round, with its ledger; audit them, and measure what they made."""

from canarybank.evolve.archive import Archive, FolderArchive, MemoryArchive, Published
from canarybank.evolve.concentration import Concentration, concentration
from canarybank.evolve.draw import DrawnReleases, Releaser, ReleaserFactory, Voters
from canarybank.evolve.feedback import Ask, Feedback, InContext, ParaphraseKept, Voted
from canarybank.evolve.layout import Probes, lay_out, split
from canarybank.evolve.ledger import Entry, Ledger, Spent
from canarybank.evolve.loop import Run, evolve
from canarybank.evolve.mauve_score import Mauve
from canarybank.evolve.multiround import (
    CONDITIONAL,
    FrozenRounds,
    MultiRound,
    evolve_audit,
    freeze_rounds,
    judge_rounds,
)
from canarybank.evolve.neighbours import Coverage, precision_recall
from canarybank.evolve.noise import NOISES, Noise, find_noise
from canarybank.evolve.offspring import Offspring, Taking, offspring
from canarybank.evolve.plan import Plan
from canarybank.evolve.population import Candidate, Population
from canarybank.evolve.prefixes import Claims, Prefix, Rule, freeze_prefixes, judge_prefix, judge_prefixes
from canarybank.evolve.randomness import Randomness, SystemEntropy, snapped
from canarybank.evolve.reference import Reference, hold_out, require_apart
from canarybank.evolve.result import Evolution, Round
from canarybank.evolve.selection import Keep, top
from canarybank.evolve.summed_trials import SummedTrials, count_prefix_shard, count_prefixes
from canarybank.evolve.tables import write_population
from canarybank.evolve.transcript import follow, transcript_scores
from canarybank.evolve.utility import NOT_PRIVATE, AuditCost, Figures, Utility, audit_cost, utility
from canarybank.evolve.variety import Variety, variety

__all__ = [
    "CONDITIONAL",
    "NOISES",
    "NOT_PRIVATE",
    "Archive",
    "Ask",
    "AuditCost",
    "Candidate",
    "Claims",
    "Concentration",
    "Coverage",
    "DrawnReleases",
    "Entry",
    "Evolution",
    "Feedback",
    "Figures",
    "FolderArchive",
    "FrozenRounds",
    "InContext",
    "Keep",
    "Ledger",
    "Mauve",
    "MemoryArchive",
    "MultiRound",
    "Noise",
    "Offspring",
    "ParaphraseKept",
    "Plan",
    "Population",
    "Prefix",
    "Probes",
    "Published",
    "Randomness",
    "Reference",
    "Releaser",
    "ReleaserFactory",
    "Round",
    "Rule",
    "Run",
    "Spent",
    "SummedTrials",
    "SystemEntropy",
    "Taking",
    "Utility",
    "Variety",
    "Voted",
    "Voters",
    "audit_cost",
    "concentration",
    "count_prefix_shard",
    "count_prefixes",
    "evolve",
    "evolve_audit",
    "find_noise",
    "follow",
    "freeze_prefixes",
    "freeze_rounds",
    "hold_out",
    "judge_prefix",
    "judge_prefixes",
    "judge_rounds",
    "lay_out",
    "offspring",
    "precision_recall",
    "require_apart",
    "snapped",
    "split",
    "top",
    "transcript_scores",
    "utility",
    "variety",
    "write_population",
]
