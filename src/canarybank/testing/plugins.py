"""Check an entry of your own before you register it: an attack, a selection rule, an encoder, a generator, ...

Each check takes what you register, uses it as canarybank does, and raises an ``InputError`` with what is wrong.

    from canarybank.testing import check_encoder

    def test_my_encoder():
        check_encoder(MyEncoder)
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from canarybank.attack import (
    ATTACKS,
    Attack,
    Canary,
    CanaryKind,
    Pool,
    PoolKind,
    PoolSource,
    SelectionContext,
    SelectionRule,
    design,
    nonce_canary,
    nonce_pool,
    search,
    simulated_nonces,
    simulated_paraphrases,
)
from canarybank.attack.selection import checked_indices
from canarybank.encode import Encoder, FastEncoder, is_isolated
from canarybank.encode.protocol import fast_encoder_of
from canarybank.engine import Engine
from canarybank.errors import CanarybankError, InputError
from canarybank.generate import Generator, Request, Response, server_of
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable
from canarybank.registry import call_with
from canarybank.users import Auxiliary, Users

__all__ = ["check_attack", "check_encoder", "check_engine", "check_generator", "check_selection", "check_system"]

TEXTS = (
    "The cat sleeps in the sun.",
    "the cat sleeps in the sun",
    "Das Café ist geschlossen.",
    "今日は雨です。",
    "",
    "x7Qp9zT2mK4vB8nW1rY6cL3dF5gH0jSa",
    "a " * 500,
)
"""Plain, accented, other scripts, nothing, a nonce, and a long text."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_UNIT = 1e-5
_TOLERANCE = 2e-2
"""Batch-mates move a coordinate by this at most, whatever the precision."""


def check_attack(attack: Attack) -> None:
    """Check that an attack has a name of its own, says what it does, and designs probes for a canary.

    Args:
        attack: What you register under ``canarybank.attacks``.

    Example:
        >>> from dataclasses import replace
        >>> from canarybank.attack import ATTACKS
        >>> check_attack(replace(ATTACKS["nonce"], name="my-nonce"))
        >>> check_attack(replace(ATTACKS["nonce"], name="nonce"))
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: The name 'nonce' is that of a built-in attack; results are kept by name, so ...
    """
    _require(isinstance(attack, Attack), f"An attack is a canarybank.attack.Attack, not a {type(attack).__name__}.")
    is_ours = ATTACKS.get(attack.name) is attack
    _require(
        is_ours or attack.name not in ATTACKS,
        f"The name {attack.name!r} is that of a built-in attack; results are kept by name, so choose another one.",
    )
    _require(
        re.fullmatch(r"[\w.-]+", attack.name) is not None,
        f"The name {attack.name!r} must be one word of letters, digits, dots and dashes: it stands in lists and files.",
    )
    _require(bool(attack.description), f"The attack {attack.name!r} needs a description: reports say what it does.")
    world = _World(attack.canary)
    canary, bank, routed, mechanism = world.canary, world.bank, world.auxiliary, world.mechanism
    pool: Pool | PoolSource | None = world.sources.get(attack.pool)
    if attack.pool is PoolKind.SEARCHED:
        canary, pool = search(
            bank, routed, mechanism, eligible=10, encode=world.nonces, records=8, seed=0, families=["nonces"]
        )
    try:
        made = design(attack, canary, bank, routed, mechanism, eligible=10, pool=pool, pool_size=16, seed=0)
    except CanarybankError as error:
        raise InputError(f"The attack {attack.name!r} cannot be designed: {error}") from error
    _require(len(made.inspected) > 0, f"The attack {attack.name!r} inspects no entry of the bank.")


def check_selection(rule: SelectionRule, pool: PoolKind = PoolKind.PARAPHRASES) -> None:
    """Check that a rule selects a candidate of its own for each place, and the same ones when asked again.

    Args:
        rule: What you register under ``canarybank.selections``.
        pool: The kind of candidates that the rule selects from.

    Example:
        >>> check_selection(lambda context: range(len(context.places)))
        >>> check_selection(lambda context: [0] * len(context.places))
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: The selection '<lambda>' cannot be used: ...
    """
    _require(callable(rule), f"A selection is a function of a SelectionContext, not a {type(rule).__name__}.")
    name = getattr(rule, "__name__", type(rule).__name__)
    world = _World(CanaryKind.NONCE if pool is PoolKind.NONCES else CanaryKind.REAL)
    canary, bank, mechanism = world.canary, world.bank, world.mechanism
    candidates = world.sources[pool](canary, 16, 0) if pool in world.sources else Pool.of_records(canary)
    table = RouteTable.build(canary.vectors, bank, mechanism.k)
    for count in (8,) if pool in {PoolKind.RECORDS, PoolKind.SEARCHED} else (3, 8):
        places = bank.reserved[:count]
        context = SelectionContext(canary, candidates, bank, places, table, world.auxiliary, mechanism, 10, seed=0)
        try:
            found, again = (checked_indices(name, rule(context), context) for _ in range(2))
        except CanarybankError as error:
            raise InputError(f"The selection {name!r} cannot be used: {error}") from error
        _require(
            found == again,
            f"The selection {name!r} chose {again} after {found} from the same context; draw from its seed alone.",
        )


def check_encoder(factory: Callable[..., Encoder], texts: Sequence[str] = TEXTS) -> None:
    """Check that a factory makes an encoder whose vectors are of unit length and follow from their texts.

    Args:
        factory: What you register under ``canarybank.encoders``; it is called without options.
        texts: What to encode; give your own where the encoder knows only some texts.

    Example:
        >>> from canarybank.encode import HashingEncoder
        >>> check_encoder(HashingEncoder)
        >>> class Doubled(HashingEncoder):
        ...     def encode(self, texts):
        ...         return 2 * HashingEncoder.encode(self, texts)
        >>> check_encoder(Doubled)
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: Vectors must have length 1, not 2.
    """
    made = call_with(factory)
    _require(isinstance(made, Encoder), f"The factory made a {type(made).__name__}; an encoder needs {_ENCODER}.")
    _require(bool(made.name), "The encoder's name is empty.")
    _require_fingerprint(made.fingerprint, call_with(factory).fingerprint, "vectors")
    vectors = np.asarray(made.encode(list(texts)))
    shape = (len(texts), made.dimension)
    _require(vectors.shape == shape, f"The encoder gave an array of shape {vectors.shape}; it must be {shape}.")
    _require(vectors.dtype == np.float32, f"The encoder gave {vectors.dtype}; vectors are float32.")
    _require(bool(np.isfinite(vectors).all()), "The encoder gave a vector that is not finite.")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    _require(bool((abs(lengths - 1) < _UNIT).all()), f"Vectors must have length 1, not {lengths.min():g}.")
    empty = np.asarray(made.encode([]))
    _require(empty.shape == (0, made.dimension), f"No texts must give shape {(0, made.dimension)}, not {empty.shape}.")
    again = np.asarray(made.encode(list(texts)[::-1]))[::-1]
    _require(bool((abs(again - vectors) <= _TOLERANCE).all()), "The vector of a text depends on the order of texts.")
    fast = fast_encoder_of(made)
    if is_isolated(made) or fast is not None:
        alone = np.concatenate([made.encode([text]) for text in texts])
        _require(
            bool((alone == vectors).all() and (again == vectors).all()),
            "The encoder says that it is isolated, or offers a fast encoder, but a vector changes with the texts that "
            "are encoded with it; say neither, or encode each text by itself.",
        )
    if fast is not None:
        _check_fast_encoder(fast, texts, vectors)


def _check_fast_encoder(fast: FastEncoder, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """Check that a fast encoder's vectors are within its drift of the encoder's own."""
    near = np.asarray(fast.encode(list(texts)))
    _require(
        near.shape == vectors.shape and near.dtype == np.float32,
        f"The fast encoder gave {near.dtype} of shape {near.shape}; it must be float32 of shape {vectors.shape}.",
    )
    _require(0 < fast.drift < math.inf, f"The fast encoder's drift must be a positive number, not {fast.drift:g}.")
    finite = np.isfinite(near).all(axis=1)
    moved = np.linalg.norm(near[finite].astype(np.float64) - vectors[finite], axis=1).max(initial=0.0)
    _require(
        bool(moved <= fast.drift),
        f"The fast encoder is off by {moved:.1e} for a text, more than its drift of {fast.drift:.1e}.",
    )


def check_generator(factory: Callable[..., Generator], section: Any) -> None:
    """Check that a factory makes a generator that answers every request once and says where requests go.

    It asks for two short texts, so a generator behind a server must be reachable.

    Args:
        factory: What you register under ``canarybank.generators``.
        section: A ``GeneratorConfig`` with the settings that your generator needs.

    Example:
        >>> from canarybank.config import GeneratorConfig
        >>> from canarybank.generate import ScriptedGenerator
        >>> check_generator(lambda section: ScriptedGenerator(lambda request: "The sea is calm."), GeneratorConfig())
        >>> check_generator(lambda section: "The sea is calm.", GeneratorConfig())
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: The factory made a str; a generator needs name, fingerprint, server and generate.
    """
    made = call_with(factory, section, send_records=False)
    _require(isinstance(made, Generator), f"The factory made a {type(made).__name__}; a generator needs {_GENERATOR}.")
    _require(bool(made.name), "The generator's name is empty.")
    _require(bool(made.fingerprint), "The generator's fingerprint is empty; recorded answers are kept by it.")
    _require(
        made.fingerprint == call_with(factory, section, send_records=False).fingerprint,
        "Two generators of the same settings have different fingerprints; answers could never be found again.",
    )
    in_process = bool(getattr(factory, "in_process", False))
    _require(
        not in_process or server_of(made) is None,
        "The factory promises by in_process that nothing leaves this process, but the generator names a server.",
    )
    requests = [Request("Write a short sentence about the sea.", seed=seed) for seed in (1, 2)]
    answers = list(made.generate(requests))
    indices = sorted(index for index, _ in answers)
    _require(indices == [0, 1], f"Two requests were answered as {indices}; answer each once, by its index.")
    wrong = [type(each).__name__ for _, each in answers if not isinstance(each, Response)]
    _require(not wrong, f"An answer is a canarybank.generate.Response, not a {wrong and wrong[0]}.")
    _require(list(made.generate([])) == [], "No requests must give no answers.")


def check_system(factory: Callable[..., Any]) -> None:
    """Check that a factory makes a system whose releases are fresh, finite and of the right shape.

    Args:
        factory: What you register under ``canarybank.systems``: it takes the users' contributions (one row a user, one
            column an inspected coordinate), the canary's contribution and the mechanism.

    Example:
        >>> from canarybank.systems import BankSystem
        >>> check_system(BankSystem)
        >>> class Stuck(BankSystem):
        ...     def release(self, eligible, size, rng):
        ...         return BankSystem.release(self, eligible, 1, rng).repeat(size, axis=0)
        >>> check_system(Stuck)
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: Two releases of one call are equal; each needs noise of its own.
    """
    rng, mechanism = np.random.default_rng(0), Mechanism(k=2, clip=0.5, sigma=1.0, q=0.5)
    users, canary = csr_array(rng.random((6, 4)) * 0.2), np.array([0.5, 0.0, 0.0, 0.0])
    made = factory(users, canary, mechanism)
    _require(callable(getattr(made, "release", None)), f"The factory made a {type(made).__name__} without release.")
    for eligible in (False, True):
        for size in (1, 3):
            releases = np.asarray(made.release(eligible, size, np.random.default_rng(1)))
            _require(
                releases.shape == (size, 4),
                f"Asked for {size} releases on 4 coordinates, the system gave an array of shape {releases.shape}.",
            )
            _require(bool(np.isfinite(releases).all()), "The system released a value that is not finite.")
        rows = np.asarray(made.release(eligible, 2, np.random.default_rng(1)))
        _require(bool((rows[0] != rows[1]).any()), "Two releases of one call are equal; each needs noise of its own.")
        same, other = (np.asarray(made.release(eligible, 2, np.random.default_rng(seed))) for seed in (1, 2))
        _require(
            bool((same == rows).all() and (other != rows).any()),
            "The system must draw all its randomness from the generator that it is given: audits are repeated by seed.",
        )


def check_engine(factory: Callable[..., Engine]) -> None:
    """Check that a factory makes an engine that yields each task's result once, and passes errors on.

    Args:
        factory: What you register under ``canarybank.engines``; it is given ``workers`` where it takes it.

    Example:
        >>> from canarybank.engine import Serial
        >>> check_engine(Serial)
        >>> class Hasty(Serial):
        ...     def run(self, function, tasks):
        ...         return Serial.run(self, function, tasks[:10])
        >>> check_engine(Hasty)
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: 20 tasks gave results for [0, 1, ..., 9]; yield each index once.
    """
    made = call_with(factory, workers=2)
    _require(isinstance(made, Engine), f"The factory made a {type(made).__name__}; an engine needs run.")
    _require(list(made.run(math.sqrt, [])) == [], "No tasks must give no results.")
    found = list(made.run(math.sqrt, [float(n * n) for n in range(20)]))
    indices = sorted(index for index, _ in found)
    _require(indices == list(range(20)), f"20 tasks gave results for {indices}; yield each index once.")
    wrong = [index for index, result in found if result != index]
    _require(not wrong, f"The results of tasks {wrong} are those of other tasks.")
    try:
        list(made.run(math.sqrt, [1.0, -1.0]))
    except ValueError:
        return
    raise InputError("A task raised a ValueError and the engine hid it; an error must reach who asked for the results.")


_ENCODER = "name, dimension, fingerprint and encode"
_GENERATOR = "name, fingerprint, server and generate"


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001, what must hold
    if not holds:
        raise InputError(otherwise)


def _require_fingerprint(one: str, other: str, what: str) -> None:
    _require(
        isinstance(one, str) and _SHA256.fullmatch(one) is not None,
        f"The fingerprint {one!r} is not a sha256 in hexadecimal of all that decides the {what}.",
    )
    _require(one == other, f"Two encoders made alike have different fingerprints; cached {what} could never be found.")


class _World:
    """A small world without texts: a canary of eight records, ten auxiliary users, a bank with eight places."""

    def __init__(self, kind: CanaryKind) -> None:
        rng = np.random.default_rng(0)

        def directions(count: int) -> Any:
            rows = rng.normal(size=(count, 16))
            return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

        self.mechanism, self.bank = Mechanism(k=2), Bank(directions(60)).reserve(8, 0)
        users = Auxiliary(Users.from_vectors({f"user {i}": directions(8) for i in range(10)}))
        self.auxiliary = Routed.build(users, self.bank, self.mechanism.k)
        self.nonces = nonces = simulated_nonces(self.bank.vectors, 1)
        self.canary = nonce_canary(8, nonces, 0) if kind is CanaryKind.NONCE else Canary(directions(8), id="canary")
        self.sources: dict[PoolKind, PoolSource] = {
            PoolKind.NONCES: nonce_pool(nonces),
            PoolKind.PARAPHRASES: simulated_paraphrases(),
        }
