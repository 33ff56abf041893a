"""A real evolution of 10,000 users: exact noise on whole numbers against float64 throughout.

The baseline is the sampler that came before: coins by comparing 53-bit values, contributions summed in float64, noise
by inversion, and the sum rounded. Records are short made-up messages, as WordLlama's vectors. The first line is a whole
run, which encodes the users and makes two rounds with a scripted generator; the second is one release alone.
"""

import os
from functools import partial

import numpy as np

from canarybank.encode import load_encoder
from canarybank.evolution import EvolutionLoop, EvolutionPlan, Keep, SystemEntropy, Taking, Voters, find_noise
from canarybank.generate import Request, ScriptedGenerator
from canarybank.mechanism import Bank, Grid, Mechanism, epsilon
from canarybank.users import Users
from harness import Result, measure, ratio

USERS, RECORDS, BANK, ROUNDS = 10_000, 4, 1_024, 2
MECHANISM = Mechanism()
WORDS = ("river", "stone", "cloud", "paper", "song", "yard", "door", "cup", "coat", "way", "train", "music", "bread")


class Before:
    """Draw releases as they were drawn before, in float64."""

    def __init__(self, voters: Voters) -> None:
        self.voters = voters

    def random(self, size: int) -> np.ndarray:
        """Draw 53-bit values from the operating system."""
        words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def standard_normal(self, size: int) -> np.ndarray:
        """Draw Gaussian values from the operating system."""
        return SystemEntropy().standard_normal(size)

    def release(self, round_number: int, bank: Bank) -> np.ndarray:  # noqa: ARG002, every round is drawn alike
        """Draw a release."""
        return self.voters.simulate(bank, MECHANISM, self).histogram


def run() -> list[Result]:
    """Time a whole run and one release, both ways."""
    for rounds in range(1, ROUNDS + 1):
        epsilon(MECHANISM, rounds)
    encoder = load_encoder("wordllama")
    rng = np.random.default_rng(0)
    texts = tuple(_message(rng) for _ in range(USERS * RECORDS))
    start = tuple(dict.fromkeys(_message(rng) for _ in range(2 * BANK)))[:BANK]
    ids, owners = tuple(map(str, range(USERS))), np.repeat(np.arange(USERS), RECORDS)
    generator = ScriptedGenerator(_answer)
    plan = EvolutionPlan(MECHANISM, ROUNDS, keep=Keep(0.5), taking=Taking(similarity=1.0))

    def evolve(*, exact: bool) -> None:
        users = Users(ids, owners, texts=texts, vectors=encoder.encode(texts))
        releaser = None if exact else Before(Voters(users))
        with EvolutionLoop(users, start, plan, encoder, generator, releaser=releaser) as made:
            made.finish()

    whole = [measure(partial(evolve, exact=exact), repeats=1, warm=False) for exact in (False, True)]
    voters = Voters(Users(ids, owners, vectors=encoder.encode(texts)))
    bank = Bank(encoder.encode(start))
    before = measure(lambda: Before(voters).release(0, bank), repeats=9)
    after = measure(lambda: voters.release(bank, MECHANISM), repeats=9)
    sampler = find_noise("discrete")
    drawing = measure(lambda: sampler.add(np.zeros(BANK, dtype=np.int64), Grid.of(MECHANISM).scale))
    size = f"{USERS:,} users of {RECORDS} records, bank {BANK:,}, wordllama"
    note = "float64 is the baseline"
    return [
        ratio("real evolution, exact noise", f"{ROUNDS} rounds, {size}", *whole, 1 / 1.3, note),
        ratio(
            "real release, exact noise", size, before, after, 1 / 1.3, f"{note}; OpenDP takes {1e3 * drawing:.0f} ms"
        ),
    ]


def _message(rng: np.random.Generator) -> str:
    return f"I saw the {' '.join(rng.choice(WORDS, size=8))} today."


def _answer(request: Request) -> str:
    return _message(np.random.default_rng(request.seed))
