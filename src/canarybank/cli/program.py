"""Run one command: parse, call, and turn whatever happens into a sentence and an exit code."""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from canarybank.cli.commands import GLOBAL_FLAGS, RESUMABLE, program
from canarybank.cli.failures import exit_code, sentence
from canarybank.cli.interrupts import Stopped, came, ignore, raise_stopped
from canarybank.cli.typed import remember, typed
from canarybank.progress import printable

__all__ = ["run"]

BROKEN_PIPE = 141


def run(arguments: Sequence[str], commands: Callable[[str], Callable[..., Any]] | None = None) -> int:
    """Run the command that the arguments name, and return its exit code.

    Args:
        arguments: The words after ``canarybank``.
        commands: Makes the command line, given the name of the chosen command; by default the one of canarybank.
    """
    words = _globals_last(arguments)
    remember(arguments)
    try:
        raise_stopped()
        code = (commands or program)(words[0] if words else "")(
            words, exit_on_error=False, print_error=False, verbose=False, result_action="return_value"
        )
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        return _stopped(error if isinstance(error, Stopped) else Stopped(), arguments)
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not try to write the rest when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except BaseException as error:  # noqa: BLE001, the one place where every error becomes a sentence
        if stopped := came():  # an import that is interrupted may say so in words of its own
            return _stopped(stopped, arguments)
        if "--traceback" in words:
            import traceback

            sys.stderr.write(printable(traceback.format_exc()))
        _say(f"Error: {sentence(error)}")
        return exit_code(error)
    return int(code or 0)


def _stopped(stopped: Stopped, arguments: Sequence[str]) -> int:
    """Say that a signal came and how to go on; another one that comes meanwhile changes nothing."""
    ignore()
    with contextlib.suppress(OSError):  # the terminal may be gone
        _say(_interrupted(stopped.word, arguments))
    return stopped.exit_code


def _globals_last(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with flags that every command takes behind the command's name."""
    words = list(arguments)
    lead = 0
    while lead < len(words) and words[lead] in GLOBAL_FLAGS:
        lead += 1
    return words if lead == len(words) else [*words[lead:], *words[:lead]]


def _interrupted(word: str, arguments: Sequence[str]) -> str:
    named = next((word for word in arguments if not word.startswith("-")), "")
    if named not in RESUMABLE:
        return f"{word}."
    return f"{word}; what was done is kept. Resume with: {typed()}"


def _say(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    style = "red" if text.startswith("Error") else ""
    Console(stderr=True).print(Text(printable(text), style=style), soft_wrap=True)
