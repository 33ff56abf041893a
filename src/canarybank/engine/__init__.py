"""Run independent tasks somewhere; know nothing of what they compute."""

from canarybank.engine.local import Engine, Host, Serial, Threads, host_on
from canarybank.engine.processes import Processes
from canarybank.engine.ray import Ray

__all__ = ["Engine", "Host", "Processes", "Ray", "Serial", "Threads", "host_on"]
