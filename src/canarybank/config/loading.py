"""Put a configuration together from defaults, a preset, a file and flags, and remember where each value came from.

Here is also what is read off one: its plug-ins, what decides about a run, and a commented file to start from.
"""

import contextlib
import json
import os
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from canarybank.config.guesses import guessed_keys
from canarybank.config.model import FREE, Config, Registered
from canarybank.config.presets import PRESETS
from canarybank.errors import ConfigError, DataError
from canarybank.registry import ATTACKS, ENCODERS, REGISTRIES, Plugin, nearest

__all__ = [
    "Resolved",
    "decisive",
    "differences",
    "fields",
    "filled",
    "flatten",
    "is_default",
    "is_same_file",
    "kind_of",
    "plugins_of",
    "read_value",
    "refuse_unknown",
    "registered",
    "resolve",
    "starter",
    "validated",
    "varied",
]

# A relative path in a file means a place beside that file; these values may be paths.
_PATHS = (
    "users.source",
    "encoder.name",
    "bank.source",
    "bank.prompt",
    "bank.examples",
    "generator.model",
    "evolve.prompt",
    "evolve.vary_prompt",
    "evolve.blanks_prompt",
    "evolve.responses",
    "evolve.account",
)
# These mean what comes along, whatever stands beside the file; a file of such a name is written with ./ before it.
_WORDS = frozenset({"chitchat", "embedded", "generate", "smollm2", *ENCODERS.places})
# What these files hold is published or sent to the generator, so none of them may be the users' own.
PUBLIC_FILES = (
    "bank.source",
    "bank.prompt",
    "bank.examples",
    "attack.paraphrase_prompt",
    "evolve.prompt",
    "evolve.vary_prompt",
    "evolve.blanks_prompt",
    "evolve.responses",
)
SWEEP = "sweep"
ACCOUNT = "evolve.account"
_KEY_HINT = {"generator.api_key_env": " It takes the name of the environment variable that holds the key."}
_HEAD = """\
# A configuration of canarybank. Every key is also a flag: audit.trials is --audit.trials.
# A key that is commented out has its default, which is shown. Relative paths mean places beside this file.
"""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration, for each of its keys where the value came from, and the grid that its file asks for.

    Every command that reads users has one. None names the users' own file as a public one.
    """

    config: Config
    origins: Mapping[str, str]
    sweep: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse the users' own file where a public one is asked for; the file counts, by whatever path or link."""
        values = self.values()
        users = values["users.source"]
        for key in PUBLIC_FILES:
            if values[key] is not None and not {users, values[key]} & _WORDS and is_same_file(users, values[key]):
                raise ConfigError(
                    f"{key} is {values[key]!r}, and that is the file of users. What it holds would be published or "
                    f"sent to the generator. Set {key} to a public file."
                )

    def values(self) -> dict[str, Any]:
        """Return every value by its dotted key."""
        return flatten(self.config)


def resolve(
    file: Path | str | None = None, flags: Mapping[str, object] | None = None, preset: str | None = None
) -> Resolved:
    """Put a configuration together: a flag beats the file, the file beats the preset, the preset beats the defaults.

    Args:
        file: A TOML file with the sections of ``Config``, and with a section ``sweep`` of lists of values by key where
            it asks for a grid.
        flags: Values by dotted key, such as ``{"audit.trials": 1000}``; texts are read as the key's own type.
        preset: A name in ``PRESETS``.

    Example:
        >>> resolved = resolve(flags={"audit.trials": 10_000, "mechanism.sigma": 2})
        >>> resolved.config.audit.trials, resolved.origins["audit.trials"], resolved.origins["audit.alpha"]
        (10000, 'flag', 'default')
    """
    layers = []
    sweep: dict[str, tuple[Any, ...]] = {}
    if preset is not None:
        if preset not in PRESETS:
            raise ConfigError(f"There is no preset {preset!r}; choose one of {', '.join(PRESETS)}.")
        layers.append((f"preset {preset}", _dotted(PRESETS[preset])))
    if file is not None:
        sections = _read(Path(file))
        sweep = _grid(Path(file), sections.pop(SWEEP, {}))
        layers.append((f"file {file}", _beside(Path(file), _dotted(sections))))
    layers.append(("flag", dict(flags or {})))
    values: dict[str, object] = {}
    origins = dict.fromkeys(fields(), "default")
    for origin, layer in layers:
        for key, value in layer.items():
            refuse_unknown(key, origin)
            values[key], origins[key] = value, origin
    return Resolved(validated(values, origins), origins, sweep)


def varied(resolved: Resolved, changes: Mapping[str, Any], origin: str) -> Resolved:
    """Return the configuration with these values by dotted key in place of its own, remembering their origin.

    Args:
        resolved: The configuration to start from.
        changes: The new values by dotted key.
        origin: What ``Resolved.origins`` says of these keys, such as ``"flag"``.

    Example:
        >>> louder = varied(resolve(), {"mechanism.sigma": 2.0}, "my script")
        >>> louder.config.mechanism.sigma, louder.origins["mechanism.sigma"]
        (2.0, 'my script')
    """
    for key in changes:
        refuse_unknown(key, origin)
    origins = {**resolved.origins, **dict.fromkeys(changes, origin)}
    return Resolved(validated({**resolved.values(), **changes}, origins), origins)


def filled(resolved: Resolved, values: Mapping[str, Any], origin: str) -> Resolved:
    """Return the configuration with these values where it has only its defaults.

    Args:
        resolved: The configuration to start from.
        values: Values by dotted key; a key that somebody set keeps what it has.
        origin: What ``Resolved.origins`` says of the keys that are filled.

    Example:
        >>> chosen = resolve(flags={"mechanism.k": 3})
        >>> full = filled(chosen, {"mechanism.k": 7, "mechanism.q": 0.2}, "the paper")
        >>> full.config.mechanism.k, full.config.mechanism.q
        (3, 0.2)
    """
    return varied(resolved, {key: value for key, value in values.items() if is_default(resolved, key)}, origin)


def is_default(resolved: Resolved, key: str) -> bool:
    """Say whether nobody set a key.

    Args:
        resolved: The configuration.
        key: A dotted key.

    Example:
        >>> chosen = resolve(flags={"audit.trials": 1_000_000})
        >>> is_default(chosen, "audit.trials"), is_default(chosen, "audit.alpha")
        (False, True)
    """
    return resolved.origins.get(key, "default") == "default"


def is_same_file(one: str, other: str) -> bool:
    """Say whether two paths lead to one file; neither is opened."""
    try:
        return os.path.samefile(one, other)  # noqa: PTH121, of two texts
    except (OSError, ValueError):
        return False


def fields() -> dict[str, FieldInfo]:
    """Return every field of the configuration by its dotted key, in the model's order.

    Example:
        >>> sampling = fields()["mechanism.q"]
        >>> sampling.default, sampling.description
        (0.1, "Each user's probability of taking part in a release.")
    """
    sections: dict[str, Any] = {name: outer.annotation for name, outer in Config.model_fields.items()}
    return {
        f"{section}.{name}": field for section, model in sections.items() for name, field in model.model_fields.items()
    }


def kind_of(annotation: Any) -> Any:
    """Return the type behind an annotation: without its constraints, and without None."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kind_of(get_args(annotation)[0])
    if origin in {Union, types.UnionType}:
        return kind_of(next(part for part in get_args(annotation) if part is not type(None)))
    return annotation


def registered(field: FieldInfo) -> Registered | None:
    """Return in which registry the names of a field stand; None for a field that holds no such names."""
    return next(_marks((*field.metadata, field.annotation)), None)


def _marks(parts: Iterable[Any]) -> Iterator[Registered]:
    for part in parts:
        if isinstance(part, Registered):
            yield part
        yield from _marks(getattr(part, "__metadata__", ()))
        yield from _marks(get_args(part))


def read_value(key: str, value: Any) -> Any:
    """Read a typed 1e6 as a whole number where a key asks for one; everything else is the model's to read.

    Args:
        key: The dotted key that the value is for.
        value: What was typed, or a value of any other type, which stays as it is.

    Example:
        >>> read_value("audit.trials", "1e6"), read_value("mechanism.sigma", "1e6")
        (1000000, '1e6')
    """
    if kind_of(fields()[key].annotation) is not int or not isinstance(value, str):
        return value
    with contextlib.suppress(ValueError):
        return int(value)  # first, for a float would round a long number
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else value


def flatten(config: Config) -> dict[str, Any]:
    """Return every value of a configuration by its dotted key, as JSON values.

    Args:
        config: The configuration, such as ``Resolved.config``.

    Example:
        >>> from canarybank.config import Config
        >>> values = flatten(Config())
        >>> values["mechanism.k"], values["attack.names"]
        (5, ['available'])
    """
    return {
        f"{section}.{name}": value
        for section, values in config.model_dump(mode="json").items()
        for name, value in values.items()
    }


def decisive(values: Mapping[str, Any], kind: str = "audit") -> dict[str, Any]:
    """Return the values that decide what a run of a kind finds, leaving out how it is done.

    The section evolve decides nothing but in an evolution, and system nothing but in the audit of a system; one_run in
    neither, unless they are audited by one run.

    Args:
        values: Values by dotted key, as ``flatten`` returns them.
        kind: What runs: ``audit``, ``evolution``, ``system`` or ``one-run``.

    Example:
        >>> values = {"audit.trials": 1000, "evolve.rounds": 3, "run.workers": 8}
        >>> decisive(values), decisive(values, "evolution")
        ({'audit.trials': 1000}, {'audit.trials': 1000, 'evolve.rounds': 3})
    """
    free = {key for key, field in fields().items() if field.json_schema_extra == FREE}
    in_one_run = {"one-run", "evolution" if values.get("evolve.audit_one_run") else "one-run"}
    deciding = {"evolve": {"evolution"}, "system": {"system", "one-run"}, "one_run": in_one_run}
    return {
        key: value
        for key, value in values.items()
        if key not in free and kind in deciding.get(key.partition(".")[0], {kind})
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any], kind: str = "audit") -> list[str]:
    """Return a line for each decisive key whose values differ: key: old -> new.

    Two paths of a budget account do not differ here: the rounds compare the account's opening, however it is spelled.

    Args:
        old: The values of the one run by dotted key; a key that is missing has its default.
        new: The values of the other run.
        kind: What runs, as in ``decisive``.

    Example:
        >>> differences({"mechanism.sigma": 1.0, "run.workers": 1}, {"mechanism.sigma": 2.0, "run.workers": 8})
        ['mechanism.sigma: 1.0 -> 2.0']
    """
    # A run of an earlier version has no value of a setting that came later: it had what is the default now.
    before, after = (decisive({**flatten(Config()), **each}, kind) for each in (old, new))
    if before.get(ACCOUNT) is not None and after.get(ACCOUNT) is not None:
        before[ACCOUNT] = after[ACCOUNT]
    pairs = {key: (before.get(key), after.get(key)) for key in {**fields(), **before, **after}}
    shown = {key: ["left out" if each is None else repr(each) for each in pair] for key, pair in pairs.items()}
    return [f"{key}: {' -> '.join(shown[key])}" for key, (was, is_now) in pairs.items() if was != is_now]


def _read(path: Path) -> dict[str, Any]:
    from canarybank.store import path_hint, require_file  # it loads numpy, which the help of a command can do without

    try:
        if path.exists():
            require_file(path)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except DataError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(
            f"The configuration {str(path)!r} cannot be read ({error.strerror}); {path_hint(path)}"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration {str(path)!r} is not UTF-8; save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The configuration {str(path)!r} is not TOML: {error}.") from None


def _dotted(sections: Mapping[str, Any]) -> dict[str, object]:
    tables = {name: values if isinstance(values, Mapping) else {"": values} for name, values in sections.items()}
    return {
        f"{section}.{name}" if name else section: value
        for section, values in tables.items()
        for name, value in values.items()
    }


def _beside(file: Path, values: dict[str, object]) -> dict[str, object]:
    for key in _PATHS:
        value = values.get(key)
        if isinstance(value, str) and value not in _WORDS and not Path(value).is_absolute():
            beside = file.parent / value
            if beside.exists():
                values[key] = f"./{beside}" if str(beside) in _WORDS else str(beside)
    return values


def _grid(file: Path, section: Any) -> dict[str, tuple[Any, ...]]:
    """Read the values of each key that a file sweeps over; a value that is a list itself becomes a text of its own."""
    axes: dict[str, tuple[Any, ...]] = {}
    for key, values in (_dotted(section) if isinstance(section, Mapping) else {SWEEP: section}).items():
        if not isinstance(values, list):
            raise ConfigError(
                f"The section [{SWEEP}] of {str(file)!r} holds lists of values by key, such as "
                f"mechanism.sigma = [0.5, 1, 2], but {key} is {values!r}."
            )
        refuse_unknown(key, f"the section {SWEEP} of {file}")
        plain = [",".join(map(str, value)) if isinstance(value, list) else value for value in values]
        axes[key] = tuple(_beside(file, {key: value})[key] for value in plain)
    return axes


def refuse_unknown(key: str, origin: str) -> None:
    """Refuse a key that the configuration does not have, naming the nearest that it has.

    Args:
        key: A dotted key.
        origin: Where it came from, for the message.

    Example:
        >>> refuse_unknown("mechanism.sigma", "flag")
        >>> refuse_unknown("mechanism.sgima", "flag")
        Traceback (most recent call last):
            ...
        canarybank.errors.ConfigError: There is no key 'mechanism.sgima' (from flag); did you mean 'mechanism.sigma'?
    """
    known = fields()
    if key in known:
        return
    names = {name.partition(".")[2]: name for name in known}
    close = nearest(key, known) or names.get(key.rpartition(".")[2])
    meant = guessed_keys(key) or ((close,) if close else ())
    said = "`canarybank config show` lists them all."
    if meant:
        said = f"did you mean {' or '.join(map(repr, meant))}?{_KEY_HINT.get(meant[0], '')}"
    raise ConfigError(f"There is no key {key!r} (from {origin}); {said}")


def validated(values: Mapping[str, object], origins: Mapping[str, str]) -> Config:
    """Return the configuration of these values by dotted key, or say of each that cannot be used where it came from."""
    sections: dict[str, dict[str, object]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    try:
        return Config.model_validate(sections)
    except ValidationError as error:
        # Each key speaks once: one value can be wrong by every alternative of a type and by what follows from that.
        problems: dict[tuple[int | str, ...], Any] = {}
        for problem in error.errors():
            place = problem["loc"][:2]
            # Of a number or a list of numbers, what is wrong with one entry of the list says most.
            if place not in problems or len(problem["loc"]) > len(problems[place]["loc"]):
                problems[place] = problem
        raise ConfigError(" ".join(_sentence(problem, origins) for problem in problems.values())) from None


def _sentence(problem: Any, origins: Mapping[str, str]) -> str:
    key = ".".join(str(part) for part in problem["loc"][:2])
    why = problem["msg"].removeprefix("Value error, ").rstrip(".")
    if key not in origins:
        return f"The section {key} cannot be used: {why}."
    shown = "" if key == "generator.base_url" else f" {problem['input']!r}"  # a URL may hold a password
    end = "" if why.endswith("?") else "."
    return f"The value{shown} of {key} (from {origins[key]}) cannot be used: {why[:1].lower()}{why[1:]}{end}"


def plugins_of(config: Config, *, evolving: bool = False) -> tuple[Plugin, ...]:
    """Return every plug-in that a run of this configuration uses, imported and pinned; ``evolving`` for an evolution.

    The selection rule that an attack names is one of them.
    What a run does not use is not imported: an evolution without an audit has no attack, method or system, and an audit
    of one release has no rounds.
    """
    unused = {"evolve.audit", "evolve.keeper", "evolve.feedback", "evolve.parents"}
    if evolving:
        unused = {"attack.names"} if config.evolve.audit else {"attack.names", "audit.method", "audit.system"}
    pins: list[Plugin | None] = []
    for key, field_info in fields().items():
        mark = registered(field_info)
        if mark is None or key in unused:
            continue
        section, _, name = key.partition(".")
        value, registry = getattr(getattr(config, section), name), REGISTRIES[mark.kind]
        found = [registry.pin(each) for each in mark.names(value) if each not in mark.words and registry.has(each)]
        pins += found
        if registry is ATTACKS and any(found):
            from canarybank.attack import find_attack  # it loads numpy, as above

            pins += [find_attack(pin.name).pin_selection() for pin in found if pin is not None]
    return tuple(dict.fromkeys(pin for pin in pins if pin is not None))


def starter(preset: str | None = None) -> str:
    """Return a TOML file with every key, its meaning and its default; a preset's values are set in it.

    Args:
        preset: A name in ``PRESETS``; left out, every key is commented out.

    Example:
        >>> lines = starter("paper-yelp").splitlines()
        >>> "trials = 1_000_000" in lines, "# seed = 0" in lines
        (True, True)
    """
    chosen = resolve(preset=preset)
    values, known = chosen.values(), fields()
    parts = [_HEAD if preset is None else f"{_HEAD}# Its values are those of the preset {preset}.\n"]
    for section, outer in Config.model_fields.items():
        lines = [f"# {outer.description}", f"[{section}]"]
        for key in (key for key in known if key.startswith(f"{section}.")):
            name, mark = key.partition(".")[2], "# " if is_default(chosen, key) else ""
            shown = f"# {name} =" if values[key] is None else f"{mark}{name} = {_toml(values[key])}"
            lines += [f"# {known[key].description}", shown]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, bool | str):
        return json.dumps(value)
    # TOML takes 1e-05 as Python writes it, and underscores make large counts readable.
    return f"{value:_}" if isinstance(value, int) else repr(value)
