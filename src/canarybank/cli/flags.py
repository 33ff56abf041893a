"""Make a flag of every key of the configuration, by walking its model."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_origin

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from canarybank.config import PRESETS, Config, Resolved, assumptions, fields, is_users_file, resolve, resolve_users
from canarybank.config.loading import kind_of, read_value, registered
from canarybank.errors import ConfigError

__all__ = ["Given", "configured"]

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_ANNOTATED: Any = Annotated  # built at run time, where a type checker sees none
_LITERAL: Any = Literal
_SETTINGS = Group("Settings", sort_key=10)
_SOME = Group("Settings", sort_key=10, help="Every key of `canarybank config show --describe` is a flag.")


@dataclass(frozen=True, slots=True)
class Given:
    """The configuration that a command was given: the file, and all values with their origins.

    ``assumed`` says what was taken for granted where the file is one of users.
    """

    resolved: Resolved
    file: Path | None
    assumed: str = ""

    @property
    def config(self) -> Config:
        """Return the configuration."""
        return self.resolved.config


def configured(
    *,
    shown: Iterable[str] = (),
    only: Iterable[str] | None = None,
    preset: str | None = None,
    short: Mapping[str, str] = MappingProxyType({}),
    sweeping: bool = False,
    beside: Iterable[str] = (),
    users: bool = False,
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Give a command a configuration as its first argument, and the flags of its keys.

    Args:
        shown: The keys whose flags the help shows; the others work as well.
        only: The keys that the command takes, where it does not take all; each is a flag by its short name too.
        preset: The preset that the command starts from, where the user has no choice.
        short: Further names of flags, by key.
        sweeping: Whether the command has a use for the grid that a file may ask for.
        beside: The commands that can be typed in the place of the file, where there are some.
        users: Whether a file of users may stand in the place of the configuration.
    """
    known, taken, few = fields(), list(only if only is not None else fields()), only is not None
    names = {key: f"--{key.partition('.')[2]}" for key in taken} if few else short
    visible = set(taken if few else shown)

    def decorate(function: Callable[..., int | None]) -> Callable[..., int | None]:
        def command(config: Any = None, **given: Any) -> int | None:
            flags = {key: given.pop(_identifier(key), None) for key in taken}
            chosen = preset or given.pop("preset", None)
            values = {key: read_value(key, value) for key, value in flags.items() if value is not None}
            _check_word(config, beside)
            if config is not None and is_users_file(config):
                resolved, assumed = _of_users(config, values, chosen, allowed=users)
            else:
                resolved, assumed = resolve(config, values, chosen), ""
            if resolved.sweep and not sweeping:
                raise ConfigError(
                    f"The section [sweep] of {str(config)!r} asks for a grid, and this command makes one run; run "
                    "`canarybank sweep` with this file, or take the section out."
                )
            return function(Given(resolved, config, assumed), **given)

        own = list(inspect.signature(function).parameters.values())[1:]
        group = _SETTINGS if few else _SOME
        generated = [_flag(key, known[key], names.get(key), group, show=key in visible) for key in taken]
        front = [_file(users=users)] if preset is None else []
        choice = [_preset(group)] if preset is None else []
        command.__signature__ = inspect.Signature([*front, *own, *choice, *generated])  # type: ignore[attr-defined]
        command.__annotations__.clear()  # they would hide those of the signature
        command.__name__, command.__doc__, command.__module__ = function.__name__, function.__doc__, function.__module__
        return command

    return decorate


def _check_word(config: Path | None, commands: Iterable[str]) -> None:
    """Take a bare word that is no file for a command that was mistyped."""
    known = list(commands)
    if config is None or not known or len(config.parts) != 1 or config.suffix or config.exists():
        return
    raise ConfigError(
        f"{str(config)!r} is neither a command here nor a configuration file; the commands are {' and '.join(known)}."
    )


def _of_users(file: Path, flags: Mapping[str, Any], preset: str | None, *, allowed: bool) -> tuple[Resolved, str]:
    """Return the configuration of an audit of a users' file, and what it takes for granted."""
    if not allowed:
        raise ConfigError(
            f"{str(file)!r} is named as a file of users, and this command takes a configuration. Name the file by "
            "--users.source, or write a configuration by `canarybank config init`."
        )
    resolved = resolve_users(file, flags, preset)
    return resolved, assumptions(resolved)


def _file(*, users: bool) -> inspect.Parameter:
    other = " Or a file of users, by .csv, .tsv, .jsonl or .parquet." if users else ""
    about = Parameter(help=f"A TOML file; see `canarybank config init`. Left out, the defaults.{other}")
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Parameter("config", kind, default=None, annotation=_ANNOTATED[Path | None, about])


def _preset(group: Group) -> inspect.Parameter:
    about = Parameter(name="--preset", help="Settings with a name, beneath those of the file.", group=group)
    return _keyword("preset", _LITERAL[tuple(PRESETS)], about)


def _flag(key: str, field: FieldInfo, short: str | None, group: Group, *, show: bool) -> inspect.Parameter:
    kind, named = kind_of(field.annotation), registered(field)
    is_choice = kind is bool or get_origin(kind) is Literal
    about = Parameter(
        name=f"--{key}" if short is None else [short, f"--{key}"],
        help=field.description,
        group=group,
        show=show,
        show_default=_shown_default(field),
        metavar=None if is_choice else "NAME" if named and kind is str else _METAVARS.get(kind, "A,B"),
        allow_leading_hyphen=not is_choice,
    )
    text = _LITERAL[named.choices] | str if named else str  # help and completion show the names that are built in
    return _keyword(_identifier(key), kind if is_choice else text, about)


def _keyword(name: str, kind: Any, about: Parameter) -> inspect.Parameter:
    annotation = _ANNOTATED[kind | None, about]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _identifier(key: str) -> str:
    return key.replace(".", "__")


def _shown_default(field: FieldInfo) -> Callable[[Any], str] | bool:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value == ():
        return False
    text = ",".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
    return lambda _: text
