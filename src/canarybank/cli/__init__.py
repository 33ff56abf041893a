"""Speak with the user: one file per command, no logic; nothing but the chosen command is imported."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, *, commands: Callable[[str], Callable[..., Any]] | None = None) -> int:
    """Run the command that the arguments name, by default those of this process, and return its exit code.

    Args:
        arguments: The words after ``canarybank``.
        commands: Makes the command line, given the name of the chosen command; by default the one of canarybank.

    Example:
        >>> main(["epsilon", "--no-opacus"])
        epsilon 1.684544 at delta 1e-05 for one release with sigma 1 and q 0.1
          method      closed form of one release
        ...
        0
    """
    # The part of ``signal`` in C is there already; importing ``signal`` takes long enough to be interrupted.
    import _signal  # type: ignore[import-not-found]

    waiting = {_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP}
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, waiting)
    from canarybank.cli.interrupts import leave_at_once, restore

    leave_at_once()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    try:
        from canarybank.cli.program import run

        return run(sys.argv[1:] if arguments is None else list(arguments), commands)
    finally:
        restore()
        if arguments is None:
            _end_silently()


def _end_silently() -> None:
    """Let a late Ctrl-C end the process without a word: what was asked for is done and said."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
