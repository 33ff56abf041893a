from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.errors import InputError
from canarybank.measure import Classifier, downstream_task, label_agreement

NAMES = ("law", "sport", "food")


def cloud(size: int, seed: int, spread: float = 0.3) -> tuple[NDArray[np.float64], list[str]]:
    """Texts of three labels around three directions, unequally many."""
    rng = np.random.default_rng(seed)
    which = rng.choice(3, size=size, p=[0.5, 0.3, 0.2])
    vectors = np.eye(5)[which] + spread * rng.normal(size=(size, 5)) + 0.2
    return vectors, [NAMES[i] for i in which]


def test_the_classifier_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    vectors, labels = cloud(150, 0, spread=0.6)
    for penalty in (1e-3, 0.05):
        ours = Classifier.fit(vectors, labels, penalty=penalty)
        theirs = linear_model.LogisticRegression(C=1 / (150 * penalty), tol=1e-10, max_iter=10_000).fit(vectors, labels)
        assert ours.labels == tuple(theirs.classes_)
        assert ours.weights == pytest.approx(theirs.coef_, abs=2e-3 * np.abs(theirs.coef_).max())
        fresh = cloud(200, 1, spread=0.6)[0]
        assert np.mean(np.asarray(ours.predict(fresh)) == theirs.predict(fresh)) > 0.99


def test_the_classifier_stands_at_a_minimum_of_its_loss() -> None:
    vectors, labels = cloud(60, 2, spread=0.6)
    found = Classifier.fit(vectors, labels, penalty=0.01)

    def loss(weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> float:
        total = 0.0
        for vector, label in zip(vectors, labels, strict=True):
            odds = np.exp(weights @ vector + offsets)
            total -= np.log(odds[found.labels.index(label)] / odds.sum())
        return total / 60 + 0.005 * float((weights**2).sum())

    best, rng = loss(found.weights, found.offsets), np.random.default_rng(3)
    for _ in range(20):
        step, move = 0.05 * rng.normal(size=(3, 5)), 0.05 * rng.normal(size=3)
        assert loss(found.weights + step, found.offsets + move) > best


def test_agreement_and_what_shuffled_labels_would_give() -> None:
    classifier = Classifier.fit(*cloud(200, 4, spread=0.1))
    vectors, labels = cloud(60, 5, spread=0.1)
    assert label_agreement(vectors, labels, classifier).share == 1.0
    # By hand over all orders of five labels: the expectation is exact.
    few, wrong = vectors[:5], ["law", "law", "law", "sport", "never seen"]
    given = classifier.predict(few)
    orders = [np.mean([a == b for a, b in zip(order, given, strict=True)]) for order in permutations(wrong)]
    found = label_agreement(few, wrong, classifier)
    assert found.chance == pytest.approx(np.mean(orders))
    assert found.share == np.mean([a == b for a, b in zip(wrong, given, strict=True)])


def test_a_task_is_learnt_from_texts_that_carry_their_labels_and_from_no_others() -> None:
    test, test_labels = cloud(400, 6)
    good = downstream_task(*cloud(200, 7), test, test_labels)
    assert good.accuracy > 0.85
    # Shuffled labels teach no more than how frequent each label is.
    assert good.chance < 0.6
    assert good.shuffles == 5
    vectors, labels = cloud(200, 8)
    turned = downstream_task(vectors, [NAMES[(NAMES.index(each) + 1) % 3] for each in labels], test, test_labels)
    assert turned.accuracy < 0.1
    assert downstream_task(vectors, labels, test, test_labels) == downstream_task(vectors, labels, test, test_labels)


def test_accuracy_counts_texts_and_the_balanced_one_labels() -> None:
    # Right on all nine of one label, wrong on the one of a label that was never learnt.
    train, labels = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]), ["a", "a", "b", "b"]
    found = downstream_task(train, labels, np.tile([1.0, 0.0], (10, 1)), ["a"] * 9 + ["c"], shuffles=1)
    assert (found.accuracy, found.balanced) == (0.9, 0.5)


def test_what_cannot_be_learnt_is_refused() -> None:
    vectors, labels = cloud(20, 9)
    with pytest.raises(InputError, match="at least 2 labels"):
        Classifier.fit(vectors, ["law"] * 20)
    for call in (
        lambda: Classifier.fit(vectors, labels[:5]),
        lambda: label_agreement(vectors, labels[:5], Classifier.fit(vectors, labels)),
        lambda: downstream_task(vectors, labels, vectors, labels[:5]),
    ):
        with pytest.raises(InputError, match="5 labels for 20"):
            call()
    with pytest.raises(InputError, match="penalty"):
        Classifier.fit(vectors, labels, penalty=0.0)
    with pytest.raises(InputError, match="shuffle"):
        downstream_task(vectors, labels, vectors, labels, shuffles=0)
