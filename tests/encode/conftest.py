import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.encode import Encoder, HashingEncoder

LOOPBACK = ("127.", "::1", "localhost")


class RefusedError(OSError):
    """A connection that would have left this machine."""


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection and every name look-up that would leave this machine."""

    def guarded(real: object, host_of: object) -> object:
        def call(*arguments: object, **named: object) -> object:
            host = host_of(*arguments)  # type: ignore[operator]
            if isinstance(host, str) and not host.startswith(LOOPBACK):
                raise RefusedError(f"the test is offline, and {host} is not this machine")
            return real(*arguments, **named)  # type: ignore[operator]

        return call

    def of_address(_: object, address: object, *__: object) -> object:
        return address[0] if isinstance(address, tuple) else None

    def of_name(host: object, *_: object) -> object:
        return host.decode() if isinstance(host, bytes) else host

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, guarded(getattr(socket.socket, name), of_address), raising=False)
    for name in ("getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, guarded(getattr(socket, name), of_name))


@pytest.fixture
def passes() -> Iterator[list[tuple[int, int]]]:
    """Return the texts of each pass through a sentence model while a test runs, and their tokens of padding."""
    from sentence_transformers.base.modules.transformer import Transformer
    from torch.nn.modules.module import register_module_forward_pre_hook

    seen: list[tuple[int, int]] = []

    def watch(module: object, given: tuple[dict[str, Any], ...]) -> None:
        if isinstance(module, Transformer):
            seen.append((len(given[0]["input_ids"]), int((given[0]["attention_mask"] == 0).sum())))

    hook = register_module_forward_pre_hook(watch)
    yield seen
    hook.remove()


class Counting:
    """A hashing encoder that remembers what it was asked."""

    def __init__(self, dimension: int = 16) -> None:
        self._inner = HashingEncoder(dimension)
        self.name, self.dimension, self.fingerprint = "hashing", dimension, self._inner.fingerprint
        self.calls: list[list[str]] = []
        self.block = 8

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return self._inner.encode(texts)

    @property
    def asked(self) -> list[str]:
        return [text for call in self.calls for text in call]


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def texts() -> list[str]:
    return [f"text number {n} " + "and so on " * (n % 7) for n in range(100)]


@pytest.fixture
def messages() -> list[str]:
    """Return chat-like texts from one word to several hundred."""
    sentence = "the cat sat on a mat while seven tired engineers argued about privacy, noise & the price of tea"
    words = sentence.split()
    return [" ".join(words[(n * k) % len(words)] for k in range(1 + n * n % 41)) for n in range(24)] + [
        "ok",
        "¿Qué? 😀 naïve café — “quotes”",
        "word " * 300,
    ]


@pytest.fixture
def moved_texts() -> Callable[..., list[str]]:
    """Return a check of the promise ``isolated``: it gives the texts whose vector depends on more than the text.

    Every text is encoded alone, then among others: in random company, order and number, with repetitions and
    strangers. Vectors are compared by their bytes.
    """

    def check(encoder: Encoder, texts: Sequence[str], *, rounds: int = 6, seed: int = 0) -> list[str]:
        rng = np.random.default_rng(seed)
        alone = {text: encoder.encode([text])[0].tobytes() for text in texts}
        moved = set()
        for _ in range(rounds):
            company = [str(text) for text in rng.choice(np.array(texts, object), size=rng.integers(2, len(texts) + 1))]
            for _ in range(rng.integers(0, 3)):
                stranger = " ".join(str(number) for number in rng.integers(0, 999, size=rng.integers(1, 60)))
                company.insert(int(rng.integers(0, len(company) + 1)), stranger)
            among = encoder.encode(company)
            moved |= {t for t, v in zip(company, among, strict=True) if alone.get(t, v.tobytes()) != v.tobytes()}
        return sorted(moved)

    return check
