"""Say what a run takes here, with a GPU, or on a cluster: time, memory and money, from a measured piece of its work.

A run has three kinds of work. Some is done once, on one machine: encoding and routing whoever is in memory, designing
and judging canaries. Passes over users in shards are spread by whole shards, trials by blocks of them. So more workers
shorten the last two, and no pass has more workers than shards.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canarybank.encode import EncoderRecipe, is_cheap
from canarybank.engine import Serial, Threads
from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism
from canarybank.mechanism.routed import Ask
from canarybank.mechanism.streamed import ShardVotes
from canarybank.mechanism.table import RouteTable
from canarybank.run.commitment import Record
from canarybank.seeds import stream
from canarybank.users import Members, Part

__all__ = [
    "Machine",
    "MachinePlan",
    "PassPiece",
    "Work",
    "check_machines",
    "encode_rate",
    "measure_pass",
    "plan_machines",
    "route_rate",
]

GPU_TEXTS = 32_000
"""Short texts that MiniLM-L6 takes to their routes a second on one H200, in float32: docs/scale.md."""
HOUR = 3600.0
_SAMPLE = 512
"""The records that a rate is measured on."""
_FIRST_TEXTS, _LONG_ENOUGH = 256, 0.5
"""The texts that an encoder is first timed on, and the seconds after which no larger sample is tried."""


class MachinePlan(Record):
    """What a run takes on some machines."""

    machine: str
    """Which machines."""
    nodes: int
    """How many they are."""
    workers: int
    """The workers of all nodes together."""
    seconds: float
    """The time that is left, about, without the generator's."""
    memory_mib: float
    """The memory of one node at the peak, about."""
    cost: float | None = None
    """The price of that time, in your currency; null where no price is given."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Some machines that are alike.

    Args:
        name: What they are called.
        nodes: How many they are.
        workers: The workers of one of them.
        texts_per_second: How fast a node encodes, where that is not what was measured here.
    """

    name: str
    nodes: int
    workers: int
    texts_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class PassPiece:
    """What a piece of a pass took on one worker: for a shard as such, and for a record, its encoding told apart."""

    per_shard: float
    per_record: float
    encoding: float


@dataclass(frozen=True, slots=True)
class Work:
    """What is left of a run, and how fast it goes.

    Args:
        once: Seconds of what one machine does once, its encoding aside.
        texts: Texts that one machine encodes once, whoever is in memory.
        encode_rate: Texts a second that this machine encodes.
        records: Records that are passed over in shards.
        passes: Into how many shards each pass over users is cut.
        piece: What a piece of a pass took; None where nobody is in shards.
        trials: Trials that are left.
        trial_rate: Trials a second of one worker.
    """

    once: float
    texts: int
    encode_rate: float
    records: int = 0
    passes: tuple[int, ...] = ()
    piece: PassPiece | None = None
    trials: int = 0
    trial_rate: float = 1.0

    def seconds(self, machine: Machine) -> float:
        """Return how long some machines need for it.

        A pass ends with its last shard: so many shards as there are workers take as long as one.
        """
        workers = machine.nodes * machine.workers
        found = (
            self.once
            + self.texts / (machine.texts_per_second or self.encode_rate)
            + self.trials / (self.trial_rate * workers)
        )
        if self.piece is None or not self.records:
            return found
        piece, each = self.piece, self.records / sum(self.passes)
        per_record = piece.per_record
        if machine.texts_per_second is not None:  # the workers of a node share its card
            per_record += machine.workers / machine.texts_per_second - piece.encoding
        per_shard = piece.per_shard + each * per_record
        return found + per_shard * sum(math.ceil(shards / workers) for shards in self.passes)


def check_machines(nodes: int | None, price: float | None) -> None:
    """Refuse a cluster without nodes, and a price that is none."""
    if nodes is not None and nodes < 1:
        raise InputError(f"A cluster has at least one node, not {nodes}; set --nodes to 1 or more.")
    if price is not None and not 0 <= price < math.inf:
        raise InputError(f"What a node costs an hour is a number of at least 0, not {price}; set --price to that.")


def plan_machines(
    work: Work,
    here: Machine,
    memory_mib: float,
    *,
    node_mib: float | None = None,
    nodes: int | None = None,
    price: float | None = None,
    gpu: bool = False,
) -> tuple[MachinePlan, ...]:
    """Return what work takes here, with a GPU where that would encode, and on so many nodes like this machine.

    Args:
        work: What is left.
        here: This machine.
        memory_mib: The peak of this machine.
        node_mib: The peak of one node of a cluster, which has as many workers; left out, the same.
        nodes: How many nodes a cluster would have; None for no cluster.
        price: What a node costs an hour.
        gpu: Whether a GPU would do the encoding.
    """
    machines, alone = [here], 1 + gpu
    if gpu:
        machines.append(replace(here, name="with one H200", texts_per_second=GPU_TEXTS))
    if nodes is not None:
        machines += [
            replace(
                each,
                name=f"{nodes} node{'' if nodes == 1 else 's'} "
                + ("with one H200 each" if each.texts_per_second else "like it"),
                nodes=nodes,
            )
            for each in tuple(machines)
        ]
    return tuple(
        MachinePlan(
            machine=each.name,
            nodes=each.nodes,
            workers=each.nodes * each.workers,
            seconds=(seconds := work.seconds(each)),
            memory_mib=memory_mib if number < alone or node_mib is None else node_mib,
            cost=None if price is None else price * each.nodes * seconds / HOUR,
        )
        for number, each in enumerate(machines)
    )


def route_rate(mechanism: Mechanism, entries: int, dimension: int) -> float:
    """Return the records a second that this machine routes over a bank of so many entries."""
    records, bank = _directions(_SAMPLE, dimension, 0), Bank(_directions(entries, dimension, 1))
    k = min(mechanism.k, entries)
    RouteTable.build(records[: _SAMPLE // 8], bank, k)
    began = time.perf_counter()
    RouteTable.build(records, bank, k)
    return _SAMPLE / max(time.perf_counter() - began, 1e-9)


def encode_rate(encode: Callable[[Sequence[str]], object], texts: Sequence[str]) -> float:
    """Return the texts a second that a function encodes, on as many of these texts as take half a second.

    A GPU fills up a batch of each length with dummies, so a few texts would seem to take as long as thousands. And it
    records each shape once, so a sample that takes long at first is timed a second time.
    """

    def seconds_for(sample: Sequence[str]) -> float:
        began = time.perf_counter()
        encode(sample)
        return time.perf_counter() - began

    encode(texts[:8])
    size = _FIRST_TEXTS
    while (seconds := seconds_for(texts[:size])) < _LONG_ENOUGH and size < len(texts):
        size *= 4
    if size == _FIRST_TEXTS and seconds >= _LONG_ENOUGH:
        seconds = min(seconds, seconds_for(texts[:size]))
    return len(texts[:size]) / max(seconds, 1e-9)


def measure_pass(
    members: Members,
    encoder: EncoderRecipe,
    mechanism: Mechanism,
    *,
    entries: int,
    probes: int,
    asks: int,
    workers: int,
    threads: bool,
) -> PassPiece:
    """Do a piece of a pass over users in shards as the run will, and return what it took.

    A few of the first shard's users are read, encoded, routed over a made-up bank of the right size, and merged with
    the probes of every case. Workers that are threads of one process hinder one another, so as many pieces as there
    are workers run at once; other workers are taken to be as fast as one alone.
    """
    part, cheap, dimension = members.parts()[0], is_cheap(encoder.load()), encoder.load().dimension
    began = time.perf_counter()
    users = part.users()
    per_shard = time.perf_counter() - began
    few = max(1, int(np.searchsorted(np.cumsum(users.counts), _SAMPLE if cheap else _SAMPLE // 4)))
    piece = replace(part, rows=part.rows[:few], positions=part.positions[:few])
    texts = piece.users().require_texts()
    base = Bank(_directions(entries, dimension, 1)).reserve(max(1, min(probes, entries - mechanism.k)), seed=0)
    banks = [base.with_probes(_directions(len(base.reserved), dimension, 2 + number)) for number in range(max(asks, 1))]
    asked = [Ask(bank, np.array(bank.reserved, dtype=np.int64)) for bank in banks]
    fast = encoder.fast_for(int(users.counts.sum()))
    encode = encoder.load().encode if fast is None else fast.encode
    vectors = encode(texts)  # on a GPU, the shapes that occur are recorded here
    if fast is not None:  # a run encodes what overflows again
        vectors = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, np.float32(1.0))
    recipe = encoder if cheap else _fixed_recipe(texts, vectors)
    function = ShardVotes.of(asked, mechanism, recipe)
    at_once = workers if threads else 1
    engine = Threads(at_once) if threads else Serial()

    def timed(call: Callable[[Part], object]) -> float:
        start = time.perf_counter()
        for _ in engine.run(call, [piece] * at_once):
            pass
        return (time.perf_counter() - start) / len(texts)

    # Threads of one process take turns at an encoder that is not cheap. It is told apart: what is known takes no time.
    encoding = timed(lambda _: encode(texts)) if cheap else 1 / encode_rate(encode, users.require_texts())
    # On a busy machine reading a few users may seem to take longer than the whole, which encodes them too.
    rest = max(timed(function) - timed(Part.users), encoding if cheap else 0.0)
    return PassPiece(per_shard, rest if cheap else rest + at_once * encoding, encoding if cheap else at_once * encoding)


class _FixedVectors:
    """An encoder that knows the vectors of some texts beforehand, so that they take no time and are kept nowhere."""

    name, fingerprint, cheap = "fixed vectors", "plan", True

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.dimension, self._known = vectors.shape[1], dict(zip(texts, vectors, strict=True))

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return np.array([self._known[text] for text in texts], dtype=np.float32)


def _fixed_recipe(texts: Sequence[str], vectors: NDArray[np.float32]) -> EncoderRecipe:
    recipe = EncoderRecipe(_FixedVectors.name, _FixedVectors.fingerprint)
    recipe.provide(_FixedVectors(texts, vectors))
    return recipe


def _directions(count: int, dimension: int, number: int) -> NDArray[np.float32]:
    drawn = stream(0, "plan", "directions", number).standard_normal((count, dimension), dtype=np.float32)
    return np.asarray(drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-9), dtype=np.float32)
