"""Hold every exception that canarybank raises on purpose.

The tree, each with the exit code that the command line gives it::

    CanarybankError                 2
    ├── InputError (ValueError)     2   an argument or array that cannot be used
    │   ├── DataError               2   a file of users, vectors or candidates that cannot be read as one
    │   │   └── ColumnError         2   a file of users without a column that was asked for
    │   └── CohortError             2   cohorts that overlap, or too few users to fill them
    ├── ConfigError (ValueError)    2   a configuration that cannot be run
    ├── ConformanceError            2   a plug-in that does not keep the contract of its kind (AssertionError)
    ├── BudgetError                 2   more alpha, privacy or money asked for than was declared
    ├── MissingError                3   a package, model or program that is not here, with what to install
    ├── GenerationError             4   a generator that failed; what it wrote before stays in the cache
    ├── StoreError                  4   a file that cannot be written, is locked, or was altered
    ├── IncompleteError             4   a run that is not finished; the same command resumes it
    └── DependenceError             5   evidence that is not independent, so that nothing can be said from it

Messages are whole sentences: what is wrong, with the offending value; why; and the fix.
"""

from typing import ClassVar

__all__ = [
    "BudgetError",
    "CanarybankError",
    "CohortError",
    "ColumnError",
    "ConfigError",
    "ConformanceError",
    "DataError",
    "DependenceError",
    "GenerationError",
    "IncompleteError",
    "InputError",
    "MissingError",
    "StoreError",
]


class CanarybankError(Exception):
    """Be the root of the tree: catch this to catch all that canarybank raises on purpose."""

    exit_code: ClassVar[int] = 2


class InputError(CanarybankError, ValueError):
    """Refuse an argument or array that cannot be used."""


class DataError(InputError):
    """Refuse a file that cannot be read as what it was said to be."""


class ColumnError(DataError):
    """Refuse a file that lacks a column: ``what`` says which one, and the rest how to name another."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what

    def __str__(self) -> str:
        return " ".join(self.args)


class CohortError(InputError):
    """Refuse cohorts that overlap, or that the users at hand cannot fill."""


class ConfigError(CanarybankError, ValueError):
    """Refuse a configuration that cannot be run."""


class ConformanceError(CanarybankError, AssertionError):
    """Report a plug-in that does not keep the contract of its kind."""


class BudgetError(CanarybankError):
    """Refuse to spend more alpha, privacy or money than was declared."""


class MissingError(CanarybankError):
    """Say which package, model or program is missing and how to install it."""

    exit_code = 3


class GenerationError(CanarybankError):
    """Report a generator that failed; what it wrote before stays in the cache."""

    exit_code = 4


class StoreError(CanarybankError):
    """Report a file that cannot be written, is locked, or was altered."""

    exit_code = 4


class IncompleteError(CanarybankError):
    """Report a run that is not finished."""

    exit_code = 4


class DependenceError(CanarybankError):
    """Refuse to say anything from runs that depend on each other."""

    exit_code = 5
