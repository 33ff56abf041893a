"""Make many releases: Private Evolution round by round, with its ledger; audit them, and measure what they made."""

from canarybank.evolve.archive import Archive, FolderArchive, MemoryArchive, Published, write_population
from canarybank.evolve.draw import NOISES, Noise, SystemEntropy, Voters, find_noise, snapped
from canarybank.evolve.feedback import Ask, Feedback, InContext, Offspring, ParaphraseKept, Taking, Voted, offspring
from canarybank.evolve.ledger import Entry, Ledger, Spent
from canarybank.evolve.loop import ACCOUNT, EvolutionLoop, evolve
from canarybank.evolve.multiround import (
    CONDITIONAL,
    FrozenRounds,
    MultiRound,
    evolve_audit,
    freeze_rounds,
    judge_rounds,
)
from canarybank.evolve.plan import DrawnReleases, EvolutionPlan, Keep, Releaser, ReleaserFactory, top
from canarybank.evolve.population import Candidate, Population, Probes, lay_out, split
from canarybank.evolve.prefixes import Claims, Prefix, Rule, freeze_prefixes, judge_prefix, judge_prefixes
from canarybank.evolve.result import Evolution, Round
from canarybank.evolve.summed_trials import SummedTrials, count_prefix_shard, count_prefixes
from canarybank.evolve.transcript import follow, transcript_scores
from canarybank.evolve.utility import (
    NOT_PRIVATE,
    AuditCost,
    Figures,
    Reference,
    Utility,
    audit_cost,
    hold_out,
    require_apart,
    utility,
)

__all__ = [
    "ACCOUNT",
    "CONDITIONAL",
    "NOISES",
    "NOT_PRIVATE",
    "Archive",
    "Ask",
    "AuditCost",
    "Candidate",
    "Claims",
    "DrawnReleases",
    "Entry",
    "Evolution",
    "EvolutionLoop",
    "EvolutionPlan",
    "Feedback",
    "Figures",
    "FolderArchive",
    "FrozenRounds",
    "InContext",
    "Keep",
    "Ledger",
    "MemoryArchive",
    "MultiRound",
    "Noise",
    "Offspring",
    "ParaphraseKept",
    "Population",
    "Prefix",
    "Probes",
    "Published",
    "Reference",
    "Releaser",
    "ReleaserFactory",
    "Round",
    "Rule",
    "Spent",
    "SummedTrials",
    "SystemEntropy",
    "Taking",
    "Utility",
    "Voted",
    "Voters",
    "audit_cost",
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
    "require_apart",
    "snapped",
    "split",
    "top",
    "transcript_scores",
    "utility",
    "write_population",
]
