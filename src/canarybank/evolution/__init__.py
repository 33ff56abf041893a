"""Make many releases: Private Evolution round by round, with its ledger, and what they made."""

from canarybank.evolution.archive import Archive, FolderArchive, MemoryArchive, Published, write_population
from canarybank.evolution.draw import NOISES, Noise, SystemEntropy, Voters, find_noise, snapped
from canarybank.evolution.feedback import Ask, Feedback, InContext, Offspring, ParaphraseKept, Taking, Voted, offspring
from canarybank.evolution.ledger import Entry, Ledger, Spent
from canarybank.evolution.loop import ACCOUNT, Evolution, EvolutionLoop, Round, evolve
from canarybank.evolution.plan import DrawnReleases, EvolutionPlan, Keep, Releaser, ReleaserFactory, top
from canarybank.evolution.population import Candidate, Population, Probes, lay_out, split
from canarybank.evolution.utility import (
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
    "NOISES",
    "NOT_PRIVATE",
    "Archive",
    "Ask",
    "AuditCost",
    "Candidate",
    "DrawnReleases",
    "Entry",
    "Evolution",
    "EvolutionLoop",
    "EvolutionPlan",
    "Feedback",
    "Figures",
    "FolderArchive",
    "InContext",
    "Keep",
    "Ledger",
    "MemoryArchive",
    "Noise",
    "Offspring",
    "ParaphraseKept",
    "Population",
    "Probes",
    "Published",
    "Reference",
    "Releaser",
    "ReleaserFactory",
    "Round",
    "Spent",
    "SystemEntropy",
    "Taking",
    "Utility",
    "Voted",
    "Voters",
    "audit_cost",
    "evolve",
    "find_noise",
    "hold_out",
    "lay_out",
    "offspring",
    "require_apart",
    "snapped",
    "split",
    "top",
    "utility",
    "write_population",
]
