"""Show, start or describe a configuration."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, paragraph, table
from canarybank.config import Config, fields, starter
from canarybank.errors import ConfigError

__all__ = ["command"]

command = App(name="config", help="Show, start or describe a configuration.")


@command.command(name="show")
@configured(shown=(), sweeping=True)
def show(
    given: Given,
    *,
    describe: Annotated[bool, Parameter(negative="", help="Say what each key means, too.")] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Print every value and where it came from: a default, a preset, a file or a flag."""
    values, origins, known = given.resolved.values(), given.resolved.origins, fields()
    document = {"values": values, "origins": dict(origins), "sweep": dict(given.resolved.sweep)}
    headers = ["key", "value", "from", *(["meaning"] if describe else [])]
    rows = [
        [key, _shown(value), origins[key], *([known[key].description] if describe else [])]
        for key, value in values.items()
    ]
    swept = [[key, ",".join(map(_shown, axis))] for key, axis in given.resolved.sweep.items()]
    grid = [table(["swept over", "values"], swept, text=2)] if swept else []
    output.result("config show", document, table(headers, rows, text=len(headers)), *grid)


@command.command(name="init")
def init(
    path: Annotated[Path, Parameter(help="Where to write it.")] = Path("canarybank.toml"),
    /,
    *,
    preset: Annotated[str | None, Parameter(help="Settings with a name to start from.")] = None,
    force: Annotated[bool, Parameter(negative="", help="Replace a file that is there.")] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Write a commented configuration file to start from."""
    from canarybank.store import BY_UMASK, write_atomic

    text = starter(preset)
    if path.exists() and not force:
        raise ConfigError(f"There is already a file {str(path)!r}; name another one, or replace it by --force.")
    write_atomic(path, text, mode=BY_UMASK)
    output.result("config init", {"path": str(path)}, paragraph(f"Wrote {path}; edit it, then: canarybank plan {path}"))


@command.command(name="schema")
def schema(
    *,
    results: Annotated[
        bool, Parameter(negative="", help="Describe results.json and commitment.json instead of the configuration.")
    ] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Print the JSON schema of the configuration, or of the files that a run leaves behind."""
    del output  # a schema is JSON in any case
    document: dict[str, Any] = _result_schemas() if results else Config.model_json_schema()
    print(json.dumps(document, indent=2))


def _result_schemas() -> dict[str, Any]:
    from canarybank.run.results import schema as schemas

    return schemas()


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
