"""Things that release: the System protocol, our own mechanism, recorded releases, any program, DPSDA, and a zoo."""

from canarybank.systems import dpsda
from canarybank.systems.command import CommandSystem
from canarybank.systems.mechanism import BankSystem, CallableSystem, ReleaseSystem, SystemFactory, checked_releases
from canarybank.systems.recorded import RecordedSystem
from canarybank.systems.share import ShareSystem
from canarybank.systems.trials import Hypothesis, Observation, Releases, Split, System, Trial, playing
from canarybank.systems.zoo import ZOO

__all__ = [
    "ZOO",
    "BankSystem",
    "CallableSystem",
    "CommandSystem",
    "Hypothesis",
    "Observation",
    "RecordedSystem",
    "ReleaseSystem",
    "Releases",
    "ShareSystem",
    "Split",
    "System",
    "SystemFactory",
    "Trial",
    "checked_releases",
    "dpsda",
    "playing",
]
