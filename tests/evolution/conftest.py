from dataclasses import dataclass, field

import numpy as np
import pytest

from canarybank.encode import HashingEncoder
from canarybank.evolution import Canaries, InContext, Keep, Probes
from canarybank.generate import Request, ScriptedGenerator
from canarybank.mechanism import Mechanism
from canarybank.users import Users

WORDS = tuple(
    f"{one}{two}"
    for one in ("river", "stone", "cloud", "paper")
    for two in ("song", "yard", "door", "cup", "coat", "way")
)


def sentence(seed: int) -> str:
    """Return a sentence of common words that passes the cleaning, different for almost any two seeds."""
    chosen = np.random.default_rng(seed).choice(WORDS, size=6)
    return f"I saw the {' '.join(chosen)}."


def answer(request: Request) -> str:
    return sentence(request.seed)


def make_users(count: int = 30, records: int = 6, seed: int = 7) -> Users:
    """Return users whose ids and texts can be searched for, each with a liking for a few words."""
    rng = np.random.default_rng(seed)
    likes = [rng.choice(WORDS, size=8, replace=False) for _ in range(count)]
    texts = tuple(f"zq{i}x{j} {' '.join(rng.choice(likes[i], size=5))}" for i in range(count) for j in range(records))
    encoder = HashingEncoder(32)
    ids = tuple(f"person-{i}-secret" for i in range(count))
    return Users(ids, np.repeat(np.arange(count), records), texts=texts, vectors=encoder.encode(texts))


@dataclass
class World:
    """Everything that a small run needs; ``arguments`` are those of ``evolve``, in order."""

    users: Users = field(default_factory=make_users)
    start: tuple[str, ...] = tuple(sentence(10_000 + i) for i in range(24))
    mechanism: Mechanism = Mechanism(k=3, clip=0.2, sigma=1.0, q=0.5)  # noqa: RUF009, frozen
    encoder: HashingEncoder = HashingEncoder(32)  # noqa: RUF009, frozen
    generator: ScriptedGenerator = field(default_factory=lambda: ScriptedGenerator(answer))
    keep: Keep = Keep(share=0.25)  # noqa: RUF009, frozen
    feedback: InContext = InContext()  # noqa: RUF009, frozen

    @property
    def arguments(self) -> tuple[object, ...]:
        return (self.users, self.start, self.mechanism, self.encoder, self.generator)

    def planted(self, count: int = 4) -> tuple[Probes, Canaries]:
        """Return canaries whose records are their own k probes, and these probes: nobody else votes for them."""
        k = self.mechanism.k
        texts = tuple(f"qq{i}z vv{i}y xx{i}w jj{i}k {'abc'[j]}" for i in range(count) for j in range(k))
        vectors = self.encoder.encode(texts)
        users = Users(tuple(map(str, range(count))), np.repeat(np.arange(count), k), vectors=vectors)
        return Probes(tuple(range(2, 2 + count * k)), vectors, texts), Canaries(users, np.ones(count, dtype=np.bool_))


@pytest.fixture
def world() -> World:
    return World()
