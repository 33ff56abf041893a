"""Measure what labelled text is good for: whether texts carry their labels, and what a classifier learns from them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.mechanism.vectors import check_dimensions, check_vectors
from canarybank.seeds import stream

__all__ = ["Agreement", "Classifier", "Task", "downstream_task", "label_agreement"]

PENALTY = 1e-3
SHUFFLES = 5
ITERATIONS = 1000

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Classifier:
    """A multinomial logistic regression on vectors."""

    labels: tuple[str, ...]
    weights: Floats
    """One row for each label."""
    offsets: Floats

    @classmethod
    def fit(cls, vectors: ArrayLike, labels: Sequence[str], *, penalty: float = PENALTY) -> "Classifier":
        """Return the classifier that minimises the mean log loss plus ``penalty / 2`` times the squared weights.

        Offsets are not penalised. The loss is a mean, so the penalty means the same for any number of texts: for n of
        them it is scikit-learn's ``C = 1 / (n * penalty)``.
        """
        from scipy.optimize import minimize
        from scipy.special import logsumexp

        table = check_vectors(vectors, "training").astype(np.float64)
        known = tuple(sorted(set(labels)))
        if len(labels) != len(table):
            raise InputError(f"There are {len(labels)} labels for {len(table)} vectors; there must be one for each.")
        if len(known) < 2:  # noqa: PLR2004, one label tells nothing apart
            raise InputError("A classifier needs texts of at least 2 labels, and these have one.")
        if not 0 < penalty < np.inf:
            raise InputError(f"The penalty must be positive and finite, not {penalty!r}.")
        mean = table.mean(axis=0)
        centred = table - mean  # the same minimum, found in fewer steps
        column = {label: i for i, label in enumerate(known)}
        truth = np.zeros((len(table), len(known)))
        truth[np.arange(len(table)), [column[label] for label in labels]] = 1.0
        shape = (len(known), table.shape[1] + 1)

        def loss(flat: Floats) -> tuple[float, Floats]:
            guess = flat.reshape(shape)
            logits = centred @ guess[:, :-1].T + guess[:, -1]
            total = logsumexp(logits, axis=1, keepdims=True)
            value = float((total[:, 0] - (logits * truth).sum(axis=1)).mean())
            value += 0.5 * penalty * float(np.square(guess[:, :-1]).sum())
            wrong = (np.exp(logits - total) - truth) / len(table)
            slope = np.column_stack([wrong.T @ centred + penalty * guess[:, :-1], wrong.sum(axis=0)])
            return value, slope.ravel()

        found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
        best = found.x.reshape(shape)
        return cls(known, best[:, :-1], best[:, -1] - best[:, :-1] @ mean)

    def predict(self, vectors: ArrayLike) -> tuple[str, ...]:
        """Return the likeliest label of each vector, the first in order where several are."""
        table = check_vectors(vectors, "judged").astype(np.float64)
        check_dimensions(table, self.weights, "the classifier's weights")
        best = (table @ self.weights.T + self.offsets).argmax(axis=1)
        return tuple(self.labels[int(i)] for i in best)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a classifier of real text gives a text the label that it was written for."""

    share: float
    """The share of texts whose label it gives."""
    chance: float
    """The same share in expectation if the labels were shuffled over the texts."""


def label_agreement(vectors: ArrayLike, labels: Sequence[str], classifier: Classifier) -> Agreement:
    """Return how often a classifier that learnt from real text agrees with the labels of texts.

    The expectation over shuffles is exact: the sum over labels of the share of texts that have the label times the
    share that are given it.

    Args:
        vectors: The vectors of the texts.
        labels: The labels that the texts have.
        classifier: What learnt from real text.

    Example:
        >>> import numpy as np
        >>> vectors, labels = np.repeat(np.eye(2), 10, axis=0), ["rain"] * 10 + ["soup"] * 10
        >>> label_agreement(vectors, labels, Classifier.fit(vectors, labels)).share
        1.0
    """
    given = classifier.predict(vectors)
    if len(labels) != len(given):
        raise InputError(f"There are {len(labels)} labels for {len(given)} vectors; there must be one for each.")
    total, has, gets = len(given), Counter(labels), Counter(given)
    same = sum(a == b for a, b in zip(labels, given, strict=True))
    return Agreement(same / total, sum(has[label] * gets[label] for label in has) / total**2)


@dataclass(frozen=True, slots=True)
class Task:
    """How well a classifier that learnt from some texts labels others."""

    accuracy: float
    """The share of the tested texts that it labels rightly."""
    balanced: float
    """The same share within each label, averaged over the labels."""
    chance: float
    """The mean accuracy of classifiers that learnt from the same texts with shuffled labels."""
    shuffles: int
    """How many such classifiers there were."""


def downstream_task(
    train: ArrayLike,
    train_labels: Sequence[str],
    test: ArrayLike,
    test_labels: Sequence[str],
    *,
    penalty: float = PENALTY,
    shuffles: int = SHUFFLES,
    seed: int = 0,
) -> Task:
    """Train a classifier on some texts, usually synthetic ones, and test it on others, usually held-out real ones.

    Args:
        train: The vectors to learn from.
        train_labels: Their labels.
        test: The vectors to be labelled.
        test_labels: Their true labels; a label that is not learnt is always labelled wrongly.
        penalty: How strongly weights are held back, see ``Classifier.fit``.
        shuffles: How often it learns from shuffled labels, for ``chance``.
        seed: The root of the shuffles.

    Example:
        >>> import numpy as np
        >>> vectors, labels = np.repeat(np.eye(2), 10, axis=0), ["rain"] * 10 + ["soup"] * 10
        >>> downstream_task(vectors, labels, vectors, labels, shuffles=2).accuracy
        1.0
    """
    if shuffles < 1:
        raise InputError(f"Chance needs at least 1 shuffle of the labels, not {shuffles}.")
    truth = np.asarray(test_labels)

    def right(labels: Sequence[str]) -> NDArray[np.bool_]:
        given = np.asarray(Classifier.fit(train, labels, penalty=penalty).predict(test))
        if len(given) != len(truth):
            raise InputError(f"There are {len(truth)} labels for {len(given)} tested vectors; give one for each.")
        same: NDArray[np.bool_] = given == truth
        return same

    found = right(train_labels)
    rng = stream(seed, "measure", "shuffled labels")
    blind = [right([train_labels[i] for i in rng.permutation(len(train_labels))]).mean() for _ in range(shuffles)]
    return Task(
        accuracy=float(found.mean()),
        balanced=float(np.mean([found[truth == label].mean() for label in sorted(set(test_labels))])),
        chance=float(np.mean(blind)),
        shuffles=shuffles,
    )
