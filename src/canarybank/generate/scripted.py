"""Answer from a script: the public test double of every generator."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from canarybank.errors import GenerationError, InputError
from canarybank.generate.protocol import Request, Response
from canarybank.store import hash_json

__all__ = ["ScriptedGenerator"]

Script = Callable[[Request], str] | Mapping[str, str] | Sequence[str]


class ScriptedGenerator:
    """Answer requests from a script, and remember what was asked.

    A callable is called with each request; a mapping is looked up by prompt; a sequence is answered in order
    over the generator's life and ends with an error, as a server that stops answering does. ``asked`` holds
    every request that was answered.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        if isinstance(script, str):
            raise InputError(
                "A script is a callable, a mapping or a sequence of texts; this is one text. Wrap it: [text]."
            )
        self._script = script
        self._name = name
        self.asked: list[Request] = []

    @property
    def name(self) -> str:
        """Return the name given at the start."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the name: two scripts that differ should be named differently."""
        return hash_json(["scripted", self._name])

    @property
    def server(self) -> None:
        """Return None: nothing leaves this process."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer every request from the script, in order."""
        for index, request in enumerate(requests):
            text = self._answer(request)
            self.asked.append(request)
            yield index, Response(text, len(request.prompt.split()), len(text.split()))

    def _answer(self, request: Request) -> str:
        if callable(self._script):
            return self._script(request)
        if isinstance(self._script, Mapping):
            if request.prompt not in self._script:
                raise GenerationError(f"The script has no answer to the prompt {request.prompt!r}; add one.")
            return self._script[request.prompt]
        if len(self.asked) >= len(self._script):
            raise GenerationError(f"The script's {len(self._script)} answers are used up; give it more.")
        return self._script[len(self.asked)]
