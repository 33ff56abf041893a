"""Run independent tasks somewhere; know nothing of what they compute."""

from canarybank.engine.local import Engine, Processes, Serial, Threads

__all__ = ["Engine", "Processes", "Serial", "Threads"]
