"""Make many releases: Private Evolution round by round, with its ledger, and what they made."""

from canarybank.evolve.archive import Archive, FolderArchive, MemoryArchive, Published
from canarybank.evolve.concentration import Concentration, concentration
from canarybank.evolve.draw import DrawnReleases, Releaser, ReleaserFactory, Voters
from canarybank.evolve.feedback import Ask, Feedback, InContext, ParaphraseKept, Voted
from canarybank.evolve.layout import Probes, lay_out, split
from canarybank.evolve.ledger import Entry, Ledger, Spent
from canarybank.evolve.loop import ACCOUNT, Run, evolve
from canarybank.evolve.mauve_score import Mauve
from canarybank.evolve.neighbours import Coverage, precision_recall
from canarybank.evolve.noise import NOISES, Noise, find_noise
from canarybank.evolve.offspring import Offspring, Taking, offspring
from canarybank.evolve.plan import Plan
from canarybank.evolve.population import Candidate, Population
from canarybank.evolve.randomness import Randomness, SystemEntropy, snapped
from canarybank.evolve.reference import Reference, hold_out, require_apart
from canarybank.evolve.result import Evolution, Round
from canarybank.evolve.selection import Keep, top
from canarybank.evolve.tables import write_population
from canarybank.evolve.utility import NOT_PRIVATE, AuditCost, Figures, Utility, audit_cost, utility
from canarybank.evolve.variety import Variety, variety

__all__ = [
    "ACCOUNT",
    "NOISES",
    "NOT_PRIVATE",
    "Archive",
    "Ask",
    "AuditCost",
    "Candidate",
    "Concentration",
    "Coverage",
    "DrawnReleases",
    "Entry",
    "Evolution",
    "Feedback",
    "Figures",
    "FolderArchive",
    "InContext",
    "Keep",
    "Ledger",
    "Mauve",
    "MemoryArchive",
    "Noise",
    "Offspring",
    "ParaphraseKept",
    "Plan",
    "Population",
    "Probes",
    "Published",
    "Randomness",
    "Reference",
    "Releaser",
    "ReleaserFactory",
    "Round",
    "Run",
    "Spent",
    "SystemEntropy",
    "Taking",
    "Utility",
    "Variety",
    "Voted",
    "Voters",
    "audit_cost",
    "concentration",
    "evolve",
    "find_noise",
    "hold_out",
    "lay_out",
    "offspring",
    "precision_recall",
    "require_apart",
    "snapped",
    "split",
    "top",
    "utility",
    "variety",
    "write_population",
]
