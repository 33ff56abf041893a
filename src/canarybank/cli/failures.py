"""Turn exceptions into one sentence and an exit code.

===  =====================================================================
0    fine
1    a check failed: a gate, a self-test, a claim, a bank or its proof
2    bad usage or configuration
3    something is missing; the message says what to install
4    a run is incomplete, in use or altered; or a generator failed
5    evidence is not independent, so that nothing is said from it
70   a bug of canarybank: never mistaken for a failed gate
129  the terminal was closed (SIGHUP); what was done is kept
130  interrupted (Ctrl-C); the message says how to resume
143  terminated (SIGTERM); likewise
===  =====================================================================
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, get_args

from cyclopts import exceptions as usage

from canarybank.cli.commands import COMMANDS
from canarybank.config.guesses import guessed_keys
from canarybank.errors import CanarybankError
from canarybank.registry import nearest

__all__ = ["exit_code", "sentence"]

USAGE, MISSING, INCOMPLETE, BUG = 2, 3, 4, 70
LIKELY_FLAGS: Mapping[str, str] = MappingProxyType(dict.fromkeys(("--out", "--output", "--dir"), "--folder"))
"""The flags that are meant by likely guesses, beside those of ``canarybank.config.guesses``."""


def exit_code(error: BaseException) -> int:
    """Return the exit code that an exception stands for."""
    if isinstance(error, CanarybankError):
        return error.exit_code
    if isinstance(error, usage.CycloptsError):
        return USAGE
    if _missing_package(error):
        return MISSING
    return INCOMPLETE if isinstance(error, OSError | SystemExit) or _is_out_of_memory(error) else BUG


def sentence(error: BaseException) -> str:
    """Return what an exception has to say to the user, in whole sentences."""
    if isinstance(error, CanarybankError):
        return str(error)
    if isinstance(error, usage.CycloptsError):
        return _usage(error)
    if package := _missing_package(error):
        return f"The package {package!r} is not installed; run: pip install {package}"
    if isinstance(error, OSError):
        at = f" at {error.filename!r}" if error.filename else ""
        return f"The operating system refused{at}: {error.strerror or error}."
    if _is_out_of_memory(error):
        return (
            "There is not enough memory on this machine; what was done is kept. `canarybank plan` says how much a run "
            "takes: use fewer users, records or trials, or a machine with more memory."
        )
    ended = isinstance(error, SystemExit)
    what, then = (
        (
            f"A plug-in or a library called sys.exit({error}) before the command was done; what was done is kept",
            "have it raise an error instead",
        )
        if ended
        else (f"This is a bug of canarybank: {type(error).__name__}: {error}", "report what it prints")
    )
    return f"{what}. Run the command again with --traceback, and {then}."


def _is_out_of_memory(error: BaseException) -> bool:
    # Of a GPU it is torch's own error, which is no MemoryError; torch is not loaded here.
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _missing_package(error: BaseException | None) -> str | None:
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("canarybank"):
            return error.name.partition(".")[0]
        error = error.__cause__
    return None


def _usage(error: usage.CycloptsError) -> str:
    for kind, speak in _SENTENCES.items():
        if isinstance(error, kind) and (text := speak(error)):
            return text
    return f"{str(error).rstrip('.')}; {_help(error)}"


def _unknown_command(error: usage.UnknownCommandError | usage.UnusedCliTokensError) -> str:
    token, chain = (error.unused_tokens or [""])[0], " ".join(error.command_chain or ())
    known = [name for members in COMMANDS.values() for name, _ in members]
    if chain and error.app is not None:
        known = [name for name in error.app if not name.startswith("-")]
    close = nearest(token, known)
    hint = f"did you mean {close!r}?" if close else f"choose one of {', '.join(known)}."
    return f"There is no command {f'{chain} {token}'.strip()!r}; {hint}"


def _unknown_option(error: usage.UnknownOptionError) -> str:
    name = error.token.keyword or error.token.value
    known = [name for argument in error.argument_collection if argument.parse for name in argument.names]
    tails = {option.rpartition(".")[2]: option for option in known if "." in option}
    likely = (LIKELY_FLAGS.get(name, ""), *(f"--{key}" for key in guessed_keys(name.lstrip("-"))))
    section, _, key = name.removeprefix("--no-").partition(".")
    likely = (f"--{section}.no-{key}", *likely) if name.startswith("--no-") else likely
    meant = [option for option in likely if option in known]
    if not meant and (close := tails.get(name.lstrip("-")) or nearest(name, known)):
        meant = [close]
    if not meant:
        return f"There is no option {name}; {_help(error)}"
    is_key = meant[0].endswith("api_key_env")
    about = " It takes the name of the environment variable that holds the key." if is_key else ""
    return f"There is no option {name}; did you mean {' or '.join(meant)}?{about}"


def _missing_argument(error: usage.MissingArgumentError) -> str | None:
    if error.argument is None:
        return None
    if error.keyword or error.argument.tokens:
        return f"The option {error.keyword or error.argument.name} needs a value; {_help(error)}"
    return f"{error.argument.name} is missing; {_help(error)}"


def _coercion(error: usage.CoercionError) -> str | None:
    argument, token = error.argument, error.token
    if argument is None or token is None:
        return None
    start = f"The value {token.value!r} of {token.keyword or argument.name} cannot be used"
    if choices := argument.get_choices():
        close = nearest(token.value, choices)
        return f"{start}; did you mean {close!r}?" if close else f"{start}; choose one of {', '.join(choices)}."
    kinds: Mapping[Any, str] = {int: "a whole number", float: "a number"}
    kind = next((kinds[each] for each in (error.target_type, *get_args(error.target_type)) if each in kinds), "another")
    return f"{start}; give {kind}."


def _refused(error: usage.ValidationError) -> str | None:
    if error.argument is None:
        return None
    why = error.exception_message.rstrip(".").lower()
    return f"The value {error.argument.value} of {error.argument.name} cannot be used: it {why}."


def _repeated(error: usage.RepeatArgumentError) -> str:
    several = ", with commas between several values" if "." in (error.token.keyword or "") else ""
    return f"The option {error.token.keyword} is given twice; give it once{several}."


def _unused(error: usage.UnusedCliTokensError) -> str:
    # A command that does something by itself has words of its own too, and this may be one of them, mistyped.
    if any(not name.startswith("-") for name in error.app or ()):
        return _unknown_command(error)
    token = (error.unused_tokens or [""])[0]
    if token.lower() in {"true", "false"}:
        return f"There is no place for the argument {token!r}; write it behind its option with =, as in --key={token}."
    return f"There is no place for the argument {token!r}; {_help(error)}"


_SENTENCES: Mapping[type[usage.CycloptsError], Callable[[Any], str | None]] = {
    usage.UnknownCommandError: _unknown_command,
    usage.UnknownOptionError: _unknown_option,
    usage.CoercionError: _coercion,
    usage.ValidationError: _refused,
    usage.RepeatArgumentError: _repeated,
    usage.MissingArgumentError: _missing_argument,
    usage.UnusedCliTokensError: _unused,
}


def _help(error: usage.CycloptsError) -> str:
    words = ["canarybank", *(error.command_chain or ()), "--help"]
    return f"see `{' '.join(words)}`."
