"""Run independent tasks somewhere; know nothing of what they compute."""

from canarybank.engine.local import Engine, Processes, Serial, Threads
from canarybank.engine.ray import Ray

__all__ = ["Engine", "Processes", "Ray", "Serial", "Threads"]
