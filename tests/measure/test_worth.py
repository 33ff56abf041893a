"""Sets of texts against real text, with real text beside them.

Real users write about three labels, which stand around three directions. One set is like real text, one is narrow, one
has its labels turned round.
"""

from dataclasses import replace

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.measure import (
    Classifier,
    Compared,
    Mauve,
    TextSet,
    common_size,
    compare_texts,
    downstream_task,
    effective_texts,
    expected_coverage,
    frechet_distance,
    halves,
    label_agreement,
    precision_recall,
    variety,
)
from canarybank.users import Users

NAMES = ("law", "sport", "food")
QUICK = Mauve(restarts=1, iterations=20, buckets=6)


def texts(size: int, seed: int, spread: float = 0.3) -> TextSet:
    rng = np.random.default_rng(seed)
    which = rng.choice(3, size=size)
    vectors = (np.eye(6)[which] + spread * rng.normal(size=(size, 6))).astype(np.float32)
    return TextSet(
        vectors, tuple(f"{NAMES[i]} {seed} {n}" for n, i in enumerate(which)), tuple(NAMES[i] for i in which)
    )


def people(users: int = 30, records: int = 8) -> Users:
    made = texts(users * records, 1)
    owners = np.repeat(np.arange(users), records)
    return Users(tuple(f"u{i}" for i in range(users)), owners, made.texts, made.labels, made.vectors)


def turned(made: TextSet) -> TextSet:
    labels = tuple(NAMES[(NAMES.index(label) + 1) % 3] for label in made.labels)
    return replace(made, labels=labels)


@pytest.fixture(scope="module")
def sets() -> list[TextSet]:
    return [texts(300, 2), texts(150, 3, spread=0.02), turned(texts(120, 4))]


@pytest.fixture(scope="module")
def found(sets: list[TextSet]) -> Compared:
    return compare_texts(sets, people(), mauve=QUICK)


def test_halves_share_no_user_and_follow_from_seed_and_id_alone() -> None:
    real = people(7)
    first, second = halves(real, seed=3)
    assert set(first.ids) | set(second.ids) == set(real.ids)
    assert (len(first), len(second)) == (4, 3)
    reverse = halves(real.take(range(6, -1, -1)), seed=3)
    assert [set(each.ids) for each in reverse] == [set(first.ids), set(second.ids)]
    assert set(first.ids) != set(halves(real, seed=4)[0].ids)
    with pytest.raises(InputError, match="at least 2"):
        halves(real.take([0]))


def test_every_figure_is_that_of_its_measure_at_the_common_size(sets: list[TextSet], found: Compared) -> None:
    first, second = (TextSet.of(half) for half in halves(people()))
    assert found.size == common_size([300, 150, 120], people()) == 120 == len(first) == len(second)
    classifier = Classifier.fit(first.vectors, first.labels)
    for made, worth in zip((*sets, first), (*found.sets, found.real), strict=True):
        cut = made.sample(120, 0)
        assert len(cut) == 120
        covered = precision_recall(cut.vectors, second.vectors)
        for name in ("precision", "recall", "density", "coverage"):
            assert getattr(worth, name) == getattr(covered, name)
        assert worth.mauve == QUICK(cut.vectors, second.vectors)
        assert worth.frechet == frechet_distance(cut.vectors, second.vectors)
        assert worth.effective == effective_texts(cut.vectors)
        assert worth.variety == variety(cut.texts)
        assert worth.task == downstream_task(cut.vectors, cut.labels, second.vectors, second.labels)
        if made is not first:
            assert worth.agreement == label_agreement(cut.vectors, cut.labels, classifier)
    assert found.expected_coverage == expected_coverage(120, 120)
    assert (found.labels, found.mauve, found.neighbours, found.users) == (("food", "law", "sport"), QUICK, 3, 30)


def test_chance_is_other_cuts_of_the_first_set_at_the_same_size(sets: list[TextSet]) -> None:
    sets = [TextSet(each.vectors) for each in sets]  # labels would cost seconds
    found = compare_texts(sets, people(), mauve=None, cuts=4)
    assert found.sets == compare_texts(sets, people(), mauve=None).sets
    second = TextSet.of(halves(people())[1])
    for number, worth in enumerate(found.chance, start=1):
        cut = sets[0].sample(120, number)
        assert worth.coverage == precision_recall(cut.vectors, second.vectors).coverage
        assert worth.frechet == frechet_distance(cut.vectors, second.vectors)
    assert len({each.frechet for each in (found.sets[0], *found.chance)}) == 5
    # What is drawn as the first set is stays near its cuts; narrow text is below all of them.
    assert found.sets[1].coverage < min(each.coverage for each in found.chance)
    whole = compare_texts([sets[2].sample(120, 0)], people(), mauve=None, cuts=4)
    assert whole.chance == ()
    assert "no other cuts" in whole.notes[-1]


def test_real_text_stands_above_text_that_lacks_something(found: Compared) -> None:
    like, narrow, mislabelled = found.sets
    # Text drawn as real text is has the figures of real text.
    assert like.coverage == pytest.approx(found.real.coverage, abs=0.15)
    assert like.task.accuracy == pytest.approx(found.real.task.accuracy, abs=0.1)
    assert narrow.coverage < 0.5 * found.real.coverage
    assert narrow.effective < found.real.effective
    assert narrow.frechet > 2 * found.real.frechet
    # Wrong labels show in label figures alone.
    assert mislabelled.coverage == pytest.approx(found.real.coverage, abs=0.15)
    for worth in (like, found.real):
        assert worth.agreement.share > 0.8
        assert worth.agreement.chance < 0.5
        assert worth.task.accuracy > 0.8
        assert worth.task.chance < 0.5
    assert found.real.agreement.share == found.real.task.accuracy  # one classifier, judged on the same half
    assert mislabelled.agreement.share < mislabelled.agreement.chance
    assert mislabelled.task.accuracy < 0.2


def test_real_text_is_judged_by_a_classifier_that_never_saw_it() -> None:
    # Labels at random: a classifier agrees with its own training texts far more often than with others.
    real = people()
    shuffled = replace(real, labels=tuple(NAMES[i] for i in np.random.default_rng(5).integers(3, size=240)))
    first, second = (TextSet.of(half) for half in halves(shuffled))
    classifier = Classifier.fit(first.vectors, first.labels)
    worth = compare_texts([texts(120, 2)], shuffled, mauve=None).real
    assert worth.agreement == label_agreement(second.vectors, second.labels, classifier)
    assert worth.agreement != label_agreement(first.vectors, first.labels, classifier)


def test_without_labels_in_common_there_are_no_label_figures(sets: list[TextSet]) -> None:
    other = replace(sets[0], labels=("travel",) * 300)
    one = replace(sets[0], labels=("law",) * 300)
    foreign, single, bare = compare_texts([other, one, TextSet(sets[0].vectors)], people(), mauve=None).sets
    assert (foreign.labelled, foreign.agreement, foreign.task) == (0, None, None)
    assert single.labelled == 120
    assert single.agreement.share == single.agreement.chance  # one label cannot be shuffled
    assert single.task is None
    assert (bare.labelled, bare.agreement, bare.variety) == (0, None, None)
    unlabelled = compare_texts(sets[:1], replace(people(), labels=None), mauve=None)
    assert (unlabelled.labels, unlabelled.real.task, unlabelled.sets[0].agreement) == ((), None, None)


def test_few_texts_are_said_to_be_few(found: Compared, sets: list[TextSet]) -> None:
    assert found.notes == ()
    assert compare_texts(sets[2:], people(), mauve=replace(QUICK, buckets=None)).mauve == QUICK  # one for 20 of 120
    few = compare_texts([sets[0].sample(6, 0)], people(), mauve=QUICK)
    assert few.size == 6
    assert few.mauve is few.real.mauve is few.sets[0].mauve is None
    assert [note.split(":")[0] for note in few.notes] == ["MAUVE is left out", "The Fréchet distance is mostly chance"]
    with pytest.raises(InputError, match="Only 3 texts are left"):
        compare_texts([sets[0].sample(3, 0)], people(), mauve=None)
    with pytest.raises(InputError, match="into 121 buckets"):
        compare_texts(sets, people(), mauve=replace(QUICK, buckets=121))
    with pytest.raises(InputError, match="2 labels for 6 vectors"):
        TextSet(sets[0].vectors[:6], labels=("a", "b"))
