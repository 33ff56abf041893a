"""Load prompts, which are data files, and fill them with text that nobody need trust."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from canarybank.errors import ConfigError, InputError
from canarybank.generate.protocol import Request, Response
from canarybank.registry import nearest
from canarybank.seeds import stream
from canarybank.store import hash_json

__all__ = ["Prompt", "fill", "load_prompt", "prompt_names", "tame"]

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SPECIAL = re.compile(r"<\|[^|>\n]{0,40}\|>|</?s>|\[/?INST\]", re.IGNORECASE)
_TEXT = (lambda value: isinstance(value, str), "a text")
# What each key takes: a test of its value, and the same in words.
_RIGHT: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "user": _TEXT,
    "system": _TEXT,
    "opening": _TEXT,
    "about": _TEXT,
    "keep_opening": (lambda value: isinstance(value, bool), "true or false, without quotes"),
    "tokens": (lambda value: type(value) is int and value >= 1, "a whole number of at least 1, without quotes"),
    "temperatures": (
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_temperature, value)),
        "a list of at least one number from 0 to 2, such as [0.7, 0.9]",
    ),
    "vary": (
        lambda value: isinstance(value, dict),
        'a section [vary] of lists of texts, such as tone = ["kind", "dry"]',
    ),
    "labels": (lambda value: isinstance(value, dict), 'a section [labels] of texts, such as "5" = "five stars"'),
    "vary.": (
        lambda value: isinstance(value, list) and all(type(phrase) in {str, int, float} for phrase in value),
        'a list of texts, such as ["kind", "dry"]',
    ),
    "labels.": (lambda value: isinstance(value, str), "a text in quotes, and a name with a point needs quotes too"),
}
_KEYS = frozenset(key for key in _RIGHT if not key.endswith("."))


@dataclass(frozen=True)
class Prompt:
    """A prompt: what the model is told, with ``{fields}`` that each request fills.

    ``vary`` holds fields that the prompt fills itself, each with one of its own phrases, drawn by seed; so do
    ``temperatures``. ``labels`` puts a dataset's labels into words. ``opening`` holds words that the answer
    begins with; they stay in the text where ``keep_opening``, and lead into it otherwise.
    """

    name: str
    user: str
    system: str | None = None
    opening: str = ""
    keep_opening: bool = True
    about: str = ""
    vary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    temperatures: tuple[float, ...] = (0.9,)
    tokens: int = 48

    @property
    def hash(self) -> str:
        """Return the hash of everything that decides what a model is told."""
        vary = {name: list(phrases) for name, phrases in self.vary.items()}
        parts = [self.user, self.system, self.opening, self.keep_opening, vary, dict(self.labels)]
        return hash_json([*parts, list(self.temperatures), self.tokens])

    @property
    def fields(self) -> frozenset[str]:
        """Return the fields that a request must fill, besides those that the prompt fills itself."""
        found = {name for part in (self.user, self.system or "", self.opening) for name in _FIELD.findall(part)}
        return frozenset(found - set(self.vary))

    def request(self, values: Mapping[str, str], *, seed: int, path: tuple[str | int, ...], label: str = "") -> Request:
        """Return the request at a path under a seed: the same path gives the same request in any run."""
        rng = stream(seed, "prompt", *path)
        drawn = {name: phrases[int(rng.integers(len(phrases)))] for name, phrases in sorted(self.vary.items())}
        temperature = self.temperatures[int(rng.integers(len(self.temperatures)))]
        filled = {name: tame(value) for name, value in values.items()} | drawn
        if "label" in values:
            filled["label"] = tame(self.labels.get(values["label"], values["label"]))
        return Request(
            prompt=fill(self.user, filled),
            label=label,
            seed=int(rng.integers(2**32)),
            temperature=temperature,
            tokens=self.tokens,
            system=None if self.system is None else fill(self.system, filled),
            opening=fill(self.opening, filled),
        )

    def answer(self, request: Request, response: Response) -> Response:
        """Return a response without the opening that only led into it, up to the quote that it left open.

        Where the opening was not said, no quote was left open, and the response stays as it is.
        """
        opening, text = request.opening.strip(), response.text.strip()
        if self.keep_opening or not opening or not text.startswith(opening):
            return response
        text = text.removeprefix(opening)
        quoted, closed, _ = text.partition('"') if opening.endswith('"') else (text, "", "")
        return replace(response, text=quoted, finished=response.finished or bool(closed))


def tame(text: str) -> str:
    """Make a text safe to stand in a prompt: one line, no control characters, no chat-template marks."""
    text = _SPECIAL.sub(" ", text)
    text = "".join(c if unicodedata.category(c)[0] != "C" or c == "\n" else " " for c in text)
    return re.sub(r"[^\S\n]+", " ", re.sub(r"\s*\n\s*", "\n", text)).strip()


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values into a template's fields in one pass, so that a value's own braces stay text."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise InputError(f"The prompt has a field {{{name}}} that nothing fills; there are {sorted(values)}.")
        return values[name]

    return _FIELD.sub(value, template)


def prompt_names() -> tuple[str, ...]:
    """Return the names of the prompts that come with canarybank.

    Example:
        >>> [name for name in prompt_names() if name.startswith("bank-yelp")]
        ['bank-yelp', 'bank-yelp-examples']
    """
    folder = resources.files("canarybank.generate") / "prompts"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def load_prompt(name: str | Path | Prompt) -> Prompt:
    """Return a prompt by its name, or from one's own TOML file by its path.

    Args:
        name: A name among ``prompt_names``, the path of a TOML file, or a ``Prompt``, which is returned as it is.

    Example:
        >>> prompt = load_prompt("paraphrase")
        >>> prompt.fields
        frozenset({'record'})
    """
    if isinstance(name, Prompt):
        return name
    if str(name) in prompt_names():
        text = (resources.files("canarybank.generate") / "prompts" / f"{name}.toml").read_text(encoding="utf-8")
        return _parse(text, str(name), str(name))
    path = Path(name)
    if not path.is_file():
        close = nearest(str(name), prompt_names())
        hint = f"did you mean {close!r}?" if close else f"choose one of {', '.join(prompt_names())}."
        raise ConfigError(f"There is no prompt {str(name)!r}, and no such file; {hint}")
    try:
        return _parse(path.read_text(encoding="utf-8-sig"), path.stem, str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"The prompt file {path} is not UTF-8; save it as UTF-8.") from None


def _parse(text: str, name: str, source: str) -> Prompt:
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The prompt {source!r} is not TOML: {error}.") from None
    if unknown := set(values) - _KEYS:
        raise ConfigError(f"The prompt {source!r} has unknown keys {sorted(unknown)}; a prompt has {sorted(_KEYS)}.")
    if "user" not in values:
        raise ConfigError(f"The prompt {source!r} has no text under the key 'user'; that is what the model is told.")
    for key, value in values.items():
        _check(source, key, value, key)
    for section in ("vary", "labels"):
        for key, value in values.get(section, {}).items():
            _check(source, f"{section}.{key}", value, f"{section}.")
    vary = {axis: tuple(map(str, phrases)) for axis, phrases in values.pop("vary", {}).items()}
    if empty := sorted(axis for axis, phrases in vary.items() if not phrases):
        raise ConfigError(f"The prompt {source!r} varies {empty} over no phrases; give each at least one.")
    temperatures = tuple(float(t) for t in values.pop("temperatures", (0.9,)))
    return Prompt(name=name, vary=vary, temperatures=temperatures, **values)


def _check(source: str, key: str, value: Any, rule: str) -> None:
    is_right, right = _RIGHT[rule]
    if not is_right(value):
        raise ConfigError(f"The prompt {source!r} has {key} = {value!r}, which cannot be used; it takes {right}.")


def _is_temperature(value: Any) -> bool:
    return type(value) in {int, float} and 0 <= value <= 2  # noqa: PLR2004, the range that servers accept
