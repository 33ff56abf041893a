"""Write a commented configuration file to start from."""

import json
from collections.abc import Mapping
from typing import Any

from canarybank.config.loading import fields, flatten, resolve
from canarybank.config.model import Config

__all__ = ["starter"]

_HEAD = """\
# A configuration of canarybank. Every key is also a flag: audit.trials is --audit.trials.
# A key that is commented out has its default, which is shown. Relative paths mean places beside this file.
"""


def starter(preset: str | None = None) -> str:
    """Return a TOML file with every key, its meaning and its default; a preset's values are set in it."""
    chosen = resolve(preset=preset)
    values, origins = flatten(chosen.config), chosen.origins
    parts = [_HEAD if preset is None else f"{_HEAD}# Its values are those of the preset {preset}.\n"]
    described = {key: field.description or "" for key, field in fields().items()}
    for section, field in Config.model_fields.items():
        lines = [f"# {field.description}", f"[{section}]"]
        for key in (key for key in described if key.startswith(f"{section}.")):
            lines += [f"# {described[key]}", _line(key, values[key], is_set=origins[key] != "default")]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(key: str, value: Any, *, is_set: bool) -> str:
    name = key.partition(".")[2]
    if value is None:
        return f"# {name} ="
    return f"{'' if is_set else '# '}{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        raise TypeError("a section holds no section of its own")
    # TOML takes 1e-05 as Python writes it, and underscores make large counts readable.
    return f"{value:_}" if isinstance(value, int) else repr(value)
