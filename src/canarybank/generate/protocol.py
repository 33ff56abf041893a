"""Say what a generator is: something that answers requests with public text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self, runtime_checkable

from canarybank.errors import DataError, InputError
from canarybank.generate.server import Server
from canarybank.store import hash_json

__all__ = ["Generator", "Request", "Response", "in_order", "server_of"]

_KEY_DIGITS = 32
_LARGEST_SEED = 2**32


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a generator, with everything that decides the answer's law.

    ``opening`` holds words that the answer begins with: a back end that can continue an answer does so, another
    is asked for it in the prompt. ``label`` says what the answer is for and reaches no model. ``records`` holds the
    users' records that stand in the prompt: a generator sends such a request only where that is allowed.
    """

    prompt: str
    label: str = ""
    seed: int = 0
    temperature: float = 0.9
    tokens: int = 48
    system: str | None = None
    opening: str = ""
    top_p: float = 0.95
    records: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise InputError("A request needs a prompt, and this one is empty.")
        if not 0 <= self.seed < _LARGEST_SEED:
            raise InputError(f"A request's seed must lie in [0, 2^32), but it is {self.seed}.")
        if not 0 <= self.temperature <= 2:  # noqa: PLR2004, the range that servers accept
            raise InputError(f"A request's temperature must lie in [0, 2], but it is {self.temperature}.")
        if self.tokens < 1:
            raise InputError(f"A request must allow at least one token, but it allows {self.tokens}.")
        if not 0 < self.top_p <= 1:
            raise InputError(f"A request's top_p must lie in (0, 1], but it is {self.top_p}.")

    def key(self, fingerprint: str) -> str:
        """Return the name of this request's answer by that model: equal for equal prompts and parameters."""
        parameters = asdict(self)
        del parameters["label"], parameters["records"]
        return hash_json([fingerprint, parameters])[:_KEY_DIGITS]

    def messages(self, *, prefill: bool = True) -> list[dict[str, str]]:
        """Return the request as chat messages, the opening as the beginning of the answer or as a wish for it."""
        wish = "" if prefill or not self.opening else f"\n\nBegin your answer with: {self.opening}"
        found = [] if self.system is None else [{"role": "system", "content": self.system}]
        found.append({"role": "user", "content": self.prompt + wish})
        if prefill and self.opening:
            found.append({"role": "assistant", "content": self.opening})
        return found


@dataclass(frozen=True, slots=True)
class Response:
    """What a generator answered, and what it cost.

    ``finished`` is false where the answer was cut off at the allowed number of tokens.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finished: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the response as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read a response from plain JSON values."""
        try:
            return cls(
                text=str(values["text"]),
                prompt_tokens=int(values["prompt_tokens"]),
                completion_tokens=int(values["completion_tokens"]),
                finished=bool(values["finished"]),
            )
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"This is no recorded response ({error!r}); it was made by something else.") from None


@runtime_checkable
class Generator(Protocol):
    """Anything that answers requests.

    ``fingerprint`` names the law of the answers (the model and how it is sampled): the same fingerprint may
    share recorded responses, whatever machine, server or device it ran on.
    """

    @property
    def name(self) -> str:
        """Return what people call this generator."""

    @property
    def fingerprint(self) -> str:
        """Return the name of the law of the answers."""

    @property
    def server(self) -> Server | None:
        """Return the server that requests are sent to, or None where the model runs in this process."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer every request once, as (index, response), each as soon as it is there and in any order.

        A generator that cannot go on first yields what it has and then raises ``GenerationError`` or
        ``BudgetError``; asking again for the rest resumes.
        """


def in_order(generator: Generator, requests: Sequence[Request]) -> list[Response]:
    """Answer every request and return the responses in the order of the requests.

    Args:
        generator: Answers the requests, in any order.
        requests: The requests.

    Example:
        >>> from canarybank.generate import Request, ScriptedGenerator
        >>> echo = ScriptedGenerator(lambda request: request.prompt.upper())
        >>> [response.text for response in in_order(echo, [Request("one"), Request("two")])]
        ['ONE', 'TWO']
    """
    answers = dict(generator.generate(requests))
    return [answers[i] for i in range(len(requests))]


def server_of(generator: Generator) -> Server | None:
    """Return the server of a generator; one that does not say where its requests go counts as a server.

    Args:
        generator: The generator.

    Example:
        >>> from canarybank.generate import ScriptedGenerator
        >>> server_of(ScriptedGenerator(["yes"])) is None
        True
        >>> from types import SimpleNamespace
        >>> server_of(SimpleNamespace()).url
        'a server that the generator does not name'
    """
    found: Server | None = getattr(generator, "server", Server("a server that the generator does not name"))
    return found
