"""Things that release: the System protocol, our own mechanism, recorded releases, any program, DPSDA, and a zoo."""

from canarybank.systems import dpsda
from canarybank.systems.command import CommandSystem, read_schedule, schedule_text
from canarybank.systems.mechanism import BankSystem, CallableSystem, ReleaseSystem, SystemFactory, checked_releases
from canarybank.systems.recorded import RecordedSystem
from canarybank.systems.share import ShareSystem
from canarybank.systems.torch_mechanism import TorchSystem
from canarybank.systems.trials import (
    Hypothesis,
    Leak,
    LengthCount,
    Observation,
    Releases,
    Split,
    System,
    Trial,
    playing,
)
from canarybank.systems.zoo import ZOO, ZooSystem

__all__ = [
    "ZOO",
    "BankSystem",
    "CallableSystem",
    "CommandSystem",
    "Hypothesis",
    "Leak",
    "LengthCount",
    "Observation",
    "RecordedSystem",
    "ReleaseSystem",
    "Releases",
    "ShareSystem",
    "Split",
    "System",
    "SystemFactory",
    "TorchSystem",
    "Trial",
    "ZooSystem",
    "checked_releases",
    "dpsda",
    "playing",
    "read_schedule",
    "schedule_text",
]
