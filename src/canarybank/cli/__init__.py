"""Speak with the user: one file per command, no logic; nothing but the chosen command is imported."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, by default those of this process, and return its exit code."""
    from canarybank.cli.program import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
