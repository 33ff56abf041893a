"""Each check passes the built-in entries and a good one of somebody else's, and says what is wrong with broken ones."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from canarybank.attack import ATTACKS, Attack, CanaryKind, PoolKind, Selection
from canarybank.config import GeneratorConfig
from canarybank.encode import HashingEncoder
from canarybank.errors import InputError, MissingError
from canarybank.generate import ScriptedGenerator
from canarybank.registry import ENCODERS, ENGINES, GENERATORS, SELECTIONS, SYSTEMS
from canarybank.systems import BankSystem
from canarybank.testing import (
    check_attack,
    check_encoder,
    check_engine,
    check_generator,
    check_selection,
    check_system,
)

GOOD = Attack("mine", CanaryKind.REAL, PoolKind.PARAPHRASES, Selection.UNIFORM, "plant paraphrases at random")
SECTION = GeneratorConfig()


UNUSUAL = replace(GOOD, name="unusual", pool=PoolKind.RECORDS, selection=Selection.GREEDY_NORM)


@pytest.mark.parametrize("attack", [*ATTACKS.values(), GOOD, UNUSUAL], ids=lambda attack: attack.name)
def test_good_attacks_pass(attack):
    check_attack(attack)


@pytest.mark.parametrize(
    ("attack", "wrong"),
    [
        ("nonce", "not a str"),
        (replace(GOOD, name="nonce"), "that of a built-in attack"),
        (replace(GOOD, name="two words"), "one word"),
        (replace(GOOD, description=""), "needs a description"),
    ],
)
def test_broken_attacks_are_refused_in_words(attack, wrong):
    with pytest.raises(InputError, match=wrong):
        check_attack(attack)


USES = {*((a.selection, a.pool) for a in ATTACKS.values() if a.active), ("uniform", PoolKind.RECORDS)}


@pytest.mark.parametrize(("name", "pool"), sorted(USES))
def test_good_selections_pass(name, pool):
    check_selection(SELECTIONS.find(name), pool)


def forgetful(context):
    """A rule that draws from no seed: it remembers what it took, and takes another first candidate each time."""
    forgetful.calls += 1
    return [(forgetful.calls + i) % len(context.pool) for i in range(len(context.places))]


forgetful.calls = 0


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("uniform", "function of a SelectionContext, not a str"),
        (lambda context: range(len(context.pool)), "16 pool indices for 3 places"),
        (lambda _: range(3), "3 pool indices for 8 places"),
        (lambda context: [0] * len(context.places), "a pool index twice"),
        (lambda context: range(1000, 1000 + len(context.places)), "the pool index 1000"),
        (lambda context: context.pool.vectors[: len(context.places)], "whole numbers"),
        (forgetful, "'forgetful' chose .* draw from its seed alone"),
        (SELECTIONS.find("all"), "cannot be used: The whole pool is to be planted"),
    ],
)
def test_broken_selections_are_refused_in_words(rule, wrong):
    with pytest.raises(InputError, match=wrong):
        check_selection(rule)


class Letters:
    """A good encoder: how often each letter stands in a text."""

    name, dimension, fingerprint, isolated = "letters", 27, "a" * 64, True

    def encode(self, texts):
        rows = np.array([[1.0, *(text.lower().count(chr(97 + i)) for i in range(26))] for text in texts])
        rows = rows.reshape(len(texts), 27)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Long(Letters):
    def encode(self, texts):
        return 2 * super().encode(texts)


class Double(Letters):
    def encode(self, texts):
        return super().encode(texts).astype(np.float64)


class Mixed(Letters):
    """An encoder that says it is isolated, and moves each vector by what is encoded with it."""

    def encode(self, texts):
        rows = super().encode(texts)
        rows[:, 0] += 1e-6 * len(texts)
        return rows


class Random(Letters):
    def __init__(self):
        self.fingerprint = f"{np.random.default_rng().integers(2**60):064x}"


class Nameless(Letters):
    fingerprint = "letters"


class Near:
    """Give the vectors of letters with a small error in the first coordinate."""

    least_texts = 1

    def __init__(self, drift, error=1e-4):
        self.drift, self._error = drift, np.float32(error)

    def encode(self, texts):
        vectors = Letters().encode(texts).copy()
        vectors[:, 0] += self._error
        return vectors


class WithFast(Letters):
    fast_encoder = Near(drift=2e-4)


class Drifting(Letters):
    fast_encoder = Near(drift=5e-5)


class Boundless(Letters):
    fast_encoder = Near(drift=math.inf)


class MixedFast(Mixed):
    isolated = False
    fast_encoder = Near(drift=2e-4)


@pytest.mark.parametrize("factory", [Letters, WithFast, HashingEncoder, ENCODERS.find("wordllama")])
def test_good_encoders_pass(factory):
    check_encoder(factory)


@pytest.mark.models
def test_the_model_that_needs_no_download_passes():
    check_encoder(ENCODERS.find("minilm"))


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (dict, "needs name, dimension, fingerprint and encode"),
        (Long, "must have length 1"),
        (Double, "vectors are float32"),
        (Mixed, "says that it is isolated"),
        (MixedFast, "offers a fast encoder, but a vector changes"),
        (Drifting, "is off by 1.0e-04 for a text, more than its drift of 5.0e-05"),
        (Boundless, "must be a positive number, not inf"),
        (Random, "different fingerprints"),
        (Nameless, "not a sha256"),
    ],
)
def test_broken_encoders_are_refused_in_words(factory, wrong):
    with pytest.raises(InputError, match=wrong):
        check_encoder(factory)


class Forgetful(ScriptedGenerator):
    def generate(self, requests):
        yield from list(super().generate(requests))[:1]


class Plain(ScriptedGenerator):
    def generate(self, requests):
        for index, _ in enumerate(requests):
            yield index, "text"


class Elsewhere(ScriptedGenerator):
    server = "https://far.example"


@dataclass
class Promised:
    """A factory that promises that nothing leaves the process."""

    kind: type
    in_process = True

    def __call__(self, _section):
        return self.kind(lambda _: "The sea is calm.")


def test_good_generators_pass():
    check_generator(Promised(ScriptedGenerator), SECTION)
    check_generator(lambda _section: Elsewhere(lambda _: "The sea is calm."), SECTION)


@pytest.mark.models
def test_the_small_model_passes():
    try:
        check_generator(GENERATORS.find("smollm2"), GeneratorConfig(kind="smollm2", threads=1))
    except MissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Forgetful, r"answered as \[0\]"),
        (Plain, "not a str"),
        (Elsewhere, "names a server"),
        (lambda _: {}, "needs name, fingerprint, server and generate"),
    ],
)
def test_broken_generators_are_refused_in_words(kind, wrong):
    with pytest.raises(InputError, match=wrong):
        check_generator(Promised(kind), SECTION)


class Seedless(BankSystem):
    def release(self, eligible, size, rng):
        del rng
        return super().release(eligible, size, np.random.default_rng())


class OneNoise(BankSystem):
    def release(self, eligible, size, rng):
        return np.repeat(super().release(eligible, 1, rng), size, axis=0)


class Flat(BankSystem):
    def release(self, eligible, size, rng):
        return super().release(eligible, size, rng).ravel()


@pytest.mark.parametrize("name", SYSTEMS.places)
def test_good_systems_pass(name):
    check_system(SYSTEMS.find(name))


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (Seedless, "draw all its randomness"),
        (OneNoise, "noise of its own"),
        (Flat, "array of shape"),
        (lambda *_: object(), "without release"),
    ],
)
def test_broken_systems_are_refused_in_words(factory, wrong):
    with pytest.raises(InputError, match=wrong):
        check_system(factory)


class Backwards:
    """A good engine, slow and odd."""

    def run(self, function, tasks):
        for index in reversed(range(len(tasks))):
            yield index, function(tasks[index])


class Losing(Backwards):
    def run(self, function, tasks):
        yield from list(super().run(function, tasks))[1:]


class Swapping(Backwards):
    def run(self, function, tasks):
        for index, result in super().run(function, tasks):
            yield len(tasks) - 1 - index, result


class Hiding(Backwards):
    def run(self, function, tasks):
        for index, task in enumerate(tasks):
            try:
                yield index, function(task)
            except ValueError:
                yield index, math.nan


@pytest.mark.parametrize("factory", [*(ENGINES.find(name) for name in ENGINES.places), Backwards])
def test_good_engines_pass(factory):
    check_engine(factory)


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (Losing, "yield each index once"),
        (Swapping, "those of other tasks"),
        (Hiding, "the engine hid it"),
        (dict, "an engine needs run"),
    ],
)
def test_broken_engines_are_refused_in_words(factory, wrong):
    with pytest.raises(InputError, match=wrong):
        check_engine(factory)
