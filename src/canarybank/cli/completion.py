"""Print or install completion for a shell."""

from typing import Annotated, Literal

from cyclopts import Parameter

from canarybank.cli.commands import program
from canarybank.cli.output import Output, paragraph
from canarybank.errors import ConfigError

__all__ = ["command"]


def command(
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None, Parameter(help="The shell; left out, the one this runs in.")
    ] = None,
    /,
    *,
    install: Annotated[
        bool, Parameter(negative="", show_default=False, help="Install it for your account instead of printing it.")
    ] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Print the completion script of your shell, or install it."""
    app, chosen = program(), shell or _detected()
    if not install:
        script = app.generate_completion(shell=chosen)
        if output.json:
            output.result("completion", {"shell": chosen, "script": script})
        else:
            print(script)
        return
    path = app.install_completion(shell=chosen)
    said = paragraph(f"Wrote {path}; open a new {chosen} to use it.")
    output.result("completion", {"shell": chosen, "path": str(path)}, said)


def _detected() -> Literal["bash", "zsh", "fish", "powershell"]:
    from cyclopts.completion import ShellDetectionError, detect_shell

    try:
        return detect_shell()
    except ShellDetectionError:
        raise ConfigError(
            "Your shell cannot be told from here; name it: canarybank completion bash, zsh or fish."
        ) from None
