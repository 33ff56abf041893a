"""Measure sets of texts against real text by every measure, with real text measured the same way beside them.

The users of the real text are split in two halves. Every set meets the second half; so does the first half, which says
what a figure is for real text. All sets and both halves are cut to one size, because most figures depend on it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.measure.balls import NEIGHBOURS, Balls, expected_coverage, precision_recall
from canarybank.measure.comparison import FEWEST_FOR_MAUVE, Mauve, frechet_distance
from canarybank.measure.labels import Agreement, Classifier, Task, downstream_task, label_agreement
from canarybank.measure.variety import Variety, effective_texts, variety
from canarybank.progress import SILENT, Progress
from canarybank.users import Users

__all__ = ["Compared", "TextSet", "Worth", "common_size", "compare_texts", "halves"]

FEWEST_LABELS = 2
TEXTS_IN_BUCKET = 20  # of each side: with 40 points a cluster the clustering is stable, and its package does not warn


@dataclass(frozen=True, eq=False)
class TextSet:
    """Texts with their vectors, and their labels where they have some; vectors alone are enough for most figures."""

    vectors: NDArray[np.float32]
    texts: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("texts", "labels"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.vectors):
                raise InputError(f"There are {len(column)} {name} for {len(self.vectors)} vectors; give as many.")

    def __len__(self) -> int:
        return len(self.vectors)

    @classmethod
    def of(cls, users: Users) -> "TextSet":
        """Return the records of users."""
        return cls(users.require_vectors(), users.texts, users.labels)

    def take(self, rows: Sequence[int]) -> "TextSet":
        """Return the texts at these rows, in this order."""
        texts, labels = (None if each is None else tuple(each[i] for i in rows) for each in (self.texts, self.labels))
        return TextSet(self.vectors[np.asarray(rows, dtype=np.int64)], texts, labels)

    def sample(self, size: int, seed: int) -> "TextSet":
        """Return so many of the texts, drawn by seed, in their order."""
        if size >= len(self):
            return self
        ranks = [hashlib.sha256(f"{seed}\0text\0{i}".encode()).digest() for i in range(len(self))]
        return self.take(sorted(sorted(range(len(self)), key=ranks.__getitem__)[:size]))

    def with_label(self, known: Sequence[str]) -> "TextSet":
        """Return the texts that have one of these labels."""
        return self.take([i for i, label in enumerate(self.labels or ()) if label in known])


@dataclass(frozen=True, slots=True)
class Worth:
    """What some texts are worth against as many records of real text."""

    mauve: float | None
    """MAUVE, from 0 to 1; null where it was not asked for, or the texts are too few."""
    precision: float
    """The share of texts that lie in the ball of some real record."""
    recall: float
    """The share of real records that lie in the ball of some text; outliers raise it."""
    density: float
    """How many real balls hold a text, on average, over the neighbours: about 1 for real text."""
    coverage: float
    """The share of real records whose ball holds a text; outliers do not raise it."""
    frechet: float
    """The squared Fréchet distance of the vectors; above 0 for real text too."""
    effective: float
    """How many wholly different texts would be as varied: the Vendi score of the vectors."""
    variety: Variety | None
    """How varied the words are; null where there are vectors alone."""
    labelled: int
    """The texts with a label that real text has too."""
    agreement: Agreement | None
    """How often a classifier of real text gives these texts their labels; null without labels."""
    task: Task | None
    """How well a classifier that learnt from these texts labels real text; null without labels."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What sets of texts are worth, all measured against the same records, and real text beside them."""

    size: int
    """The texts of each set, and the records of each half of the real text."""
    users: int
    """The users whose records are the real text, both halves together."""
    labels: tuple[str, ...]
    """The labels that both halves of the real text have; empty where fewer than two are common."""
    expected_coverage: float
    """The coverage of two such samples of one distribution in expectation, if records were independent."""
    real: Worth
    """What the first half of the real text is worth against the second."""
    sets: tuple[Worth, ...]
    """What each set is worth against the second half, in their order."""
    mauve: Mauve | None
    """How MAUVE was computed; null where it was left out."""
    neighbours: int
    """The neighbours that the balls of precision, recall, density and coverage reach to."""
    seed: int
    """What decided the halves, and which texts were left out."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the figures."""
    chance: tuple[Worth, ...] = ()
    """What other cuts of the first set are worth, drawn at random: how far figures move by chance alone. Empty where
    none was asked for, and where the first set is measured whole."""


def halves(users: Users, *, seed: int = 0) -> tuple[Users, Users]:
    """Split users in two halves by seed and id alone, so that no user's records are in both.

    Args:
        users: The users.
        seed: Decides the halves.

    Example:
        >>> import numpy as np
        >>> from canarybank.users import Users
        >>> users = Users.from_vectors(np.random.default_rng(0).normal(size=(20, 3, 4)))
        >>> one, other = halves(users)
        >>> len(one) + len(other), set(one.ids) & set(other.ids)
        (20, set())
    """
    if len(users) < 2:  # noqa: PLR2004, two halves
        raise InputError(f"Real text is compared with itself by user, and there is {len(users)}; give at least 2.")
    ranks = [hashlib.sha256(f"{seed}\0half\0{name}".encode()).digest() for name in users.ids]
    order = sorted(range(len(users)), key=ranks.__getitem__)
    return users.take(sorted(order[::2])), users.take(sorted(order[1::2]))


def common_size(sets: Sequence[int], real: Users, *, seed: int = 0) -> int:
    """Return the size to which sets of these sizes and both halves of the real text are cut.

    Args:
        sets: The sizes of the sets.
        real: The users of the real text.
        seed: Decides the halves.

    Example:
        >>> import numpy as np
        >>> from canarybank.users import Users
        >>> users = Users.from_vectors(np.random.default_rng(0).normal(size=(20, 3, 4)))
        >>> common_size([25, 100], users)
        25
    """
    return min([*sets, *(len(half.owners) for half in halves(real, seed=seed))])


def compare_texts(
    sets: Sequence[TextSet],
    real: Users,
    *,
    mauve: Mauve | None,
    neighbours: int = NEIGHBOURS,
    similarity: float = 0.7,
    seed: int = 0,
    cuts: int = 0,
    progress: Progress = SILENT,
) -> Compared:
    """Measure sets of texts, and real text beside them, all at one size.

    Args:
        sets: The texts, in the order in which they are wanted.
        real: Users with vectors of the same encoder; with labels for agreement and task.
        mauve: How MAUVE is computed; None leaves it out. Without a number of buckets it gets one for 20 texts of a set.
        neighbours: Which nearest neighbour a ball reaches to.
        similarity: The share of word pairs from which two texts are near copies.
        seed: Decides the halves, and who is left out where there are too many.
        cuts: How many other cuts of the first set are measured too, to show what chance alone gives.
        progress: Is told of what is done.

    Example:
        >>> import numpy as np
        >>> from canarybank.users import Users
        >>> users = Users.from_vectors(np.random.default_rng(0).normal(size=(20, 3, 4)))
        >>> made = TextSet(np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32))
        >>> compare_texts([made], users, mauve=None).size
        30
    """
    size = common_size([len(each) for each in sets], real, seed=seed)
    if size <= max(neighbours, 1):
        raise InputError(
            f"Only {size} texts are left at a common size, and a ball to neighbour {neighbours} needs more; give more "
            "texts, or users with more records."
        )
    first, second = (TextSet.of(half).sample(size, seed) for half in halves(real, seed=seed))
    notes = []
    if mauve is not None and size < FEWEST_FOR_MAUVE:
        mauve = None
        notes.append(f"MAUVE is left out: it needs {FEWEST_FOR_MAUVE} texts on each side, and there are {size}.")
    if size <= (dimension := first.vectors.shape[1]):
        notes.append(
            f"The Fréchet distance is mostly chance: {size} texts have no full covariance in {dimension} dimensions. "
            "Read it beside that of real text only."
        )
    if mauve is not None and mauve.buckets is None:
        mauve = replace(mauve, buckets=max(2, size // TEXTS_IN_BUCKET))
    if mauve is not None and (mauve.buckets or 0) > size:
        raise InputError(f"MAUVE cannot cluster {size} texts a side into {mauve.buckets} buckets; ask for fewer.")
    common = sorted(set(first.labels or ()) & set(second.labels or ()) - {""})
    labels = tuple(common) if len(common) >= FEWEST_LABELS else ()
    judge = _Judge.of(first, second, labels, neighbours=neighbours, similarity=similarity, mauve=mauve, seed=seed)
    if cuts and len(sets[0]) == size:
        cuts = 0
        notes.append(
            "What chance alone gives is not known: the first texts are measured whole, so they have no other cuts. "
            "Several seeds tell a rise from chance."
        )
    cut = [each.sample(size, seed) for each in (first, *sets)]
    cut += [sets[0].sample(size, seed + number) for number in range(1, cuts + 1)]
    found = []
    with progress.stage("comparing", total=len(cut), unit="sets") as stage:
        for each in cut:
            found.append(judge.worth(each))
            stage.advance()
    # The first half cannot be judged by a classifier that learnt from it: the second half stands for real text.
    if judge.classifier is not None:
        kept = second.with_label(labels)
        found[0] = replace(
            found[0], agreement=label_agreement(kept.vectors, kept.labels or (), judge.classifier), labelled=len(kept)
        )
    expected = expected_coverage(size, size, neighbours=neighbours)
    return Compared(
        size=size,
        users=len(real),
        labels=labels,
        expected_coverage=expected,
        real=found[0],
        sets=tuple(found[1 : len(sets) + 1]),
        chance=tuple(found[len(sets) + 1 :]),
        mauve=mauve,
        neighbours=neighbours,
        seed=seed,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Judge:
    """The second half of the real text, and what the first half taught, ready to meet many sets."""

    real: TextSet
    balls: Balls
    labels: tuple[str, ...]
    classifier: Classifier | None
    similarity: float
    mauve: Mauve | None
    seed: int

    @classmethod
    def of(
        cls,
        first: TextSet,
        second: TextSet,
        labels: tuple[str, ...],
        *,
        neighbours: int,
        similarity: float,
        mauve: Mauve | None,
        seed: int,
    ) -> "_Judge":
        taught = first.with_label(labels)
        classifier = Classifier.fit(taught.vectors, taught.labels or ()) if labels else None
        balls = Balls.around(second.vectors, neighbours=neighbours)
        return cls(second, balls, labels, classifier, similarity, mauve, seed)

    def worth(self, made: TextSet) -> Worth:
        """Return what a set of texts is worth."""
        covered = precision_recall(made.vectors, self.balls, neighbours=self.balls.neighbours)
        labelled = made.with_label(self.labels)
        agreement = task = None
        if self.classifier is not None and len(labelled):
            agreement = label_agreement(labelled.vectors, labelled.labels or (), self.classifier)
        if self.labels and len(set(labelled.labels or ())) >= FEWEST_LABELS:
            tested = self.real.with_label(self.labels)
            task = downstream_task(
                labelled.vectors, labelled.labels or (), tested.vectors, tested.labels or (), seed=self.seed
            )
        return Worth(
            mauve=None if self.mauve is None else self.mauve(made.vectors, self.real.vectors),
            precision=covered.precision,
            recall=covered.recall,
            density=covered.density,
            coverage=covered.coverage,
            frechet=frechet_distance(made.vectors, self.real.vectors),
            effective=effective_texts(made.vectors),
            variety=None if made.texts is None else variety(made.texts, similarity=self.similarity),
            labelled=len(labelled),
            agreement=agreement,
            task=task,
        )
