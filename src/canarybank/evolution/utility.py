"""Say what the text of a run is worth: every round's population against real text, which is a cohort of its own.

Probes are in no population, so they enter no figure here; that they take places and votes shows in the difference to
a run without them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import CohortError, InputError
from canarybank.evolution.loop import Evolution
from canarybank.evolution.population import Population
from canarybank.measure import (
    NEIGHBOURS,
    Balls,
    Compared,
    Concentration,
    Mauve,
    TextSet,
    Variety,
    common_size,
    compare_texts,
    concentration,
    precision_recall,
    variety,
)
from canarybank.progress import SILENT, Progress
from canarybank.users import Cohort, Members, Users

__all__ = [
    "NOT_PRIVATE",
    "AuditCost",
    "Figures",
    "Reference",
    "Utility",
    "audit_cost",
    "hold_out",
    "hold_out_indices",
    "require_apart",
    "utility",
]

NOT_PRIVATE: Final = (
    "These figures are not differentially private: they are computed from the records of the reference users, without "
    "noise. Do not publish them as if they were, and do not steer a run by them."
)
DEFAULT_MAUVE: Final = Mauve()
CUTS: Final = 9
"""The other cuts of the first population that show what chance gives: one more lies above all of them in 1 case of 10.
"""


@dataclass(frozen=True, slots=True)
class Reference(Cohort):
    """Users whose records stand for real text in utility figures, and for nothing else: they never vote."""


def hold_out(users: Users, size: int, *, seed: int) -> tuple[Users, Reference]:
    """Set ``size`` users aside as the reference, by seed and id alone, and return the others first, in their order.

    Args:
        users: All users.
        size: How many are set aside.
        seed: Decides who.

    Example:
        >>> import numpy as np
        >>> from canarybank.users import Users
        >>> users = Users.from_vectors(np.random.default_rng(0).normal(size=(20, 3, 4)))
        >>> others, reference = hold_out(users, 5, seed=0)
        >>> len(others), len(reference.users)
        (15, 5)
    """
    others, held = hold_out_indices(users.ids, size, seed=seed)
    return users.take(others), Reference(users.take(held))


def hold_out_indices(ids: Sequence[str], size: int, *, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return whom ``hold_out`` leaves, in their order, and whom it sets aside, from ids alone.

    Args:
        ids: The ids of all users.
        size: How many are set aside.
        seed: Decides who.

    Example:
        >>> others, held = hold_out_indices(["ann", "bob", "cleo"], 1, seed=0)
        >>> sorted([*others.tolist(), *held.tolist()])
        [0, 1, 2]
    """
    if not 1 <= size < len(ids):
        raise CohortError(
            f"{size} of {len(ids)} users cannot be the reference; hold out at least one and leave at least one."
        )
    ranks = [hashlib.sha256(f"{seed}\0reference\0{name}".encode()).digest() for name in ids]
    order = np.array(sorted(range(len(ids)), key=ranks.__getitem__), dtype=np.int64)
    return np.sort(order[size:]), order[:size]


class Roles(Protocol):
    """Who plays which role, in memory or in shards."""

    @property
    def auxiliary(self) -> Cohort | Members:
        """Return the auxiliary users."""

    @property
    def calibration(self) -> Cohort | Members:
        """Return the calibration users."""

    @property
    def evaluation(self) -> Cohort | Members:
        """Return the evaluation users."""

    @property
    def canaries(self) -> Mapping[str, Users]:
        """Return the real canaries of each attack."""


def require_apart(reference: Reference, others: Users | Members | Roles) -> Reference:
    """Return the reference where none of its users plays another role, or refuse it.

    Args:
        reference: The users held out.
        others: All who play another role.

    Example:
        >>> import numpy as np
        >>> from canarybank.users import Users
        >>> users = Users.from_vectors(np.random.default_rng(0).normal(size=(20, 3, 4)))
        >>> others, reference = hold_out(users, 5, seed=0)
        >>> require_apart(reference, others) is reference
        True
    """
    if not isinstance(reference, Reference):
        raise CohortError(
            f"Utility is measured against a Reference, not a {type(reference).__name__}: a cohort never plays "
            "another's role."
        )
    playing: dict[str, Users | Members] = {}
    if isinstance(others, Users | Members):
        playing["users of the run"] = others
    else:
        for name in ("auxiliary", "calibration", "evaluation"):
            cohort = getattr(others, name)
            playing[f"cohort {name}"] = cohort.users if isinstance(cohort, Cohort) else cohort
        playing |= {f"canaries of {attack}": users for attack, users in others.canaries.items()}
    for role, users in playing.items():
        if common := sorted(set(reference.users.ids).intersection(users.ids)):
            raise CohortError(
                f"The reference and the {role} share {len(common)} users, {common[0]!r} among them; hold the reference "
                "out before the other cohorts are drawn."
            )
    return reference


@dataclass(frozen=True, slots=True)
class Figures:
    """What one population is worth."""

    round: int
    """The round whose bank held it: 0 for the first population; as many as there are rounds for the last."""
    candidates: int
    """Its candidates; probes are never among them."""
    mauve: float | None
    """MAUVE, from 0 to 1: the one of ``Utility.compared``, at one size. Of the whole population against all records
    where nothing is compared, and in runs of older versions; None where it was not asked for."""
    precision: float
    """The share of candidates that lie where real text lies; of the whole population, so it depends on its size."""
    recall: float
    """The share of real text that lies where candidates lie; of the whole population too."""
    variety: Variety
    """How varied its texts are."""
    concentration: Concentration | None
    """How the votes over it were spread, from the release alone; None where nothing was released over it."""


@dataclass(frozen=True, slots=True)
class Utility:
    """What a run's populations are worth, round by round; ``statement`` says that these figures are not private."""

    figures: tuple[Figures, ...]
    """The figures of every population, the first one first."""
    probes: int
    """The probes in every bank of the run."""
    reference_users: int
    """The held-out users."""
    reference_records: int
    """Their records."""
    neighbours: int
    """The neighbours of precision and recall."""
    mauve: Mauve | None
    """How MAUVE was computed; null where it was left out."""
    insecure_seed: int | None = None
    """The seed of a simulation; null for a real run."""
    statement: str = NOT_PRIVATE
    """What these figures may not be taken for."""
    compared: Compared | None = None
    """Every population by every measure, at one size, with real text measured the same way beside them; ``sets`` are
    the populations in the order of ``figures``, and ``chance`` other cuts of the first. Null in runs of older versions,
    and where the reference is too small to be split in two halves."""


def utility(
    evolution: Evolution,
    reference: Reference,
    *,
    mauve: Mauve | None = DEFAULT_MAUVE,
    neighbours: int = NEIGHBOURS,
    similarity: float = 0.7,
    progress: Progress = SILENT,
) -> Utility:
    """Return the figures of every round's population and of the final one, against the reference's records.

    The reference users come with vectors from the run's own encoder, and were in no other cohort (``require_apart``).

    Args:
        evolution: The run.
        reference: The users held out, with vectors.
        mauve: How MAUVE is computed; None leaves it out.
        neighbours: Which nearest neighbour a ball reaches to.
        similarity: The share of word pairs from which two texts are near copies.
        progress: Where progress is shown.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.evolution import Keep, evolve
        >>> from canarybank.generate import ScriptedGenerator
        >>> from canarybank.mechanism import Mechanism
        >>> from canarybank.users import Users
        >>> words = ["rain", "soup", "train", "music", "bread", "river", "stone", "light"]
        >>> def text(i):
        ...     return f"today we talked about {words[i % 8]} and {words[i // 8 % 8]} in room {i}"
        >>> encoder, texts = HashingEncoder(), tuple(text(i) for i in range(40))
        >>> owners = np.repeat(np.arange(20), 2)
        >>> users = Users(tuple(f"u{i}" for i in range(20)), owners, texts, vectors=encoder.encode(texts))
        >>> start = [text(100 + i) for i in range(20)]
        >>> writer = ScriptedGenerator(lambda request: text(request.seed % 100_000))
        >>> mechanism = Mechanism(k=1, sigma=0.5, q=0.5)
        >>> run = evolve(users, start, mechanism, encoder, writer, 1, keep=Keep(share=0.5), insecure_seed=0)
        >>> len(utility(run, Reference(users), mauve=None).figures)
        2
    """
    if not isinstance(reference, Reference):
        raise CohortError(f"Utility is measured against a Reference, not against a {type(reference).__name__}.")
    real = reference.users.require_vectors()
    noise, rounds = evolution.mechanism.noise, evolution.rounds
    spread = [concentration(each.release, each.kept, noise=noise, reserved=each.bank.reserved) for each in rounds]
    populations = [each.population for each in rounds]
    if not populations or evolution.population.ids != populations[-1].ids:
        populations.append(evolution.population)  # nothing was released over it yet
    compared = _compared(populations, reference, mauve, neighbours, similarity, progress)
    if compared is not None:
        mauve = compared.mauve
    elif mauve is not None and mauve.buckets is None:  # all populations are clustered alike
        mauve = replace(mauve, buckets=max(2, min(len(real), *map(len, populations)) // 10))
    figures, balls = [], Balls.around(real, neighbours=neighbours)
    with progress.stage("utility", total=len(populations), unit="populations") as stage:
        for number, population in enumerate(populations):
            covered = precision_recall(population.vectors, balls, neighbours=neighbours)
            if compared is not None:
                alike = compared.sets[number].mauve
            else:
                alike = None if mauve is None else mauve(population.vectors, real)
            figures.append(
                Figures(
                    round=number,
                    candidates=len(population),
                    mauve=alike,
                    precision=covered.precision,
                    recall=covered.recall,
                    variety=variety(population.texts, similarity=similarity),
                    concentration=spread[number] if number < len(spread) else None,
                )
            )
            stage.advance()
    return Utility(
        figures=tuple(figures),
        probes=len(rounds[0].bank.reserved) if rounds else 0,
        reference_users=len(reference),
        reference_records=len(real),
        neighbours=neighbours,
        mauve=mauve,
        insecure_seed=evolution.insecure_seed,
        compared=compared,
    )


def _compared(
    populations: list[Population],
    reference: Reference,
    mauve: Mauve | None,
    neighbours: int,
    similarity: float,
    progress: Progress,
) -> Compared | None:
    """Measure all populations at one size, beside real text and other cuts of the first population."""
    sizes, users = [len(each) for each in populations], reference.users
    if len(users) < 2 or (size := common_size(sizes, users)) <= neighbours:  # noqa: PLR2004, two halves
        return None
    if mauve is not None and mauve.buckets is not None:
        mauve = replace(mauve, buckets=min(mauve.buckets, size))
    sets = [TextSet(each.vectors, each.texts, each.labels) for each in populations]
    return compare_texts(
        sets, users, mauve=mauve, neighbours=neighbours, similarity=similarity, cuts=CUTS, progress=progress
    )


@dataclass(frozen=True, slots=True)
class AuditCost:
    """What auditing cost in quality, after so many rounds: each figure without probes less the one with them."""

    round: int
    """The round whose bank held the populations that are compared."""
    mauve: float | None
    """The difference of MAUVE."""
    precision: float
    """The difference of precision."""
    recall: float
    """The difference of recall."""
    distinct_2: float
    """The difference of distinct pairs of words."""
    note: str = (
        "Each difference is between two single runs, whose noise differs too; several seeds tell it from chance."
    )
    """What the differences may not be taken for."""


def audit_cost(audited: Utility, plain: Utility) -> tuple[AuditCost, ...]:
    """Return, for every population, how much better a run without probes was than one with them.

    Positive differences are what auditing cost. Both runs must be measured alike, against the same reference.

    Args:
        audited: The figures of the run with probes.
        plain: The figures of the run without them.

    Example:
        >>> import numpy as np
        >>> from canarybank.encode import HashingEncoder
        >>> from canarybank.evolution import Keep, evolve
        >>> from canarybank.generate import ScriptedGenerator
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Users
        >>> words = ["rain", "soup", "train", "music", "bread", "river", "stone", "light"]
        >>> def text(i):
        ...     return f"today we talked about {words[i % 8]} and {words[i // 8 % 8]} in room {i}"
        >>> encoder, texts = HashingEncoder(), tuple(text(i) for i in range(40))
        >>> owners = np.repeat(np.arange(20), 2)
        >>> users = Users(tuple(f"u{i}" for i in range(20)), owners, texts, vectors=encoder.encode(texts))
        >>> start = [text(100 + i) for i in range(20)]
        >>> writer = ScriptedGenerator(lambda request: text(request.seed % 100_000))
        >>> bank = Bank(encoder.encode(start), tuple(start))
        >>> def figures(bank):
        ...     run = evolve(users, bank, Mechanism(k=1), encoder, writer, 1, keep=Keep(share=0.5), insecure_seed=0)
        ...     return utility(run, Reference(users), mauve=None)
        >>> len(audit_cost(figures(bank.reserve(2, seed=0)), figures(bank)))
        2
    """
    if not audited.probes or plain.probes:
        raise InputError(
            f"The cost of auditing is between a run with probes and one without, but they have {audited.probes} and "
            f"{plain.probes}; give the audited run first."
        )
    for name in ("reference_users", "reference_records", "neighbours", "mauve"):
        first, second = getattr(audited, name), getattr(plain, name)
        if name == "mauve" and first is not None and second is not None:
            # The sizes of two runs may differ a little, and the buckets follow the size.
            first, second = (replace(each, buckets=None) for each in (first, second))
        if first != second:
            raise InputError(f"The two runs were not measured alike: {name} is {first} and {second}.")
    if len(audited.figures) != len(plain.figures):
        raise InputError(
            f"The runs have {len(audited.figures)} and {len(plain.figures)} populations; compare equal ones."
        )
    return tuple(
        AuditCost(
            round=there.round,
            mauve=None if here.mauve is None or there.mauve is None else there.mauve - here.mauve,
            precision=there.precision - here.precision,
            recall=there.recall - here.recall,
            distinct_2=there.variety.distinct_2 - here.variety.distinct_2,
        )
        for here, there in zip(audited.figures, plain.figures, strict=True)
    )
