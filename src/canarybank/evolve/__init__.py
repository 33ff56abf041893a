"""Make many releases: Private Evolution round by round, with its ledger, durable and resumable."""

from canarybank.evolve.archive import Archive, FolderArchive, MemoryArchive, Published
from canarybank.evolve.feedback import Ask, Feedback, InContext, ParaphraseKept, Voted
from canarybank.evolve.layout import Probes, lay_out, split
from canarybank.evolve.ledger import Entry, Ledger, Spent
from canarybank.evolve.loop import Run, evolve
from canarybank.evolve.offspring import Offspring, Taking, offspring
from canarybank.evolve.plan import Plan
from canarybank.evolve.population import Candidate, Population
from canarybank.evolve.randomness import Randomness, SystemEntropy, round_randomness, snapped
from canarybank.evolve.result import Evolution, Round
from canarybank.evolve.selection import Keep, top
from canarybank.evolve.tables import write_population

__all__ = [
    "Archive",
    "Ask",
    "Candidate",
    "Entry",
    "Evolution",
    "Feedback",
    "FolderArchive",
    "InContext",
    "Keep",
    "Ledger",
    "MemoryArchive",
    "Offspring",
    "ParaphraseKept",
    "Plan",
    "Population",
    "Probes",
    "Published",
    "Randomness",
    "Round",
    "Run",
    "Spent",
    "SystemEntropy",
    "Taking",
    "Voted",
    "evolve",
    "lay_out",
    "offspring",
    "round_randomness",
    "snapped",
    "split",
    "top",
    "write_population",
]
