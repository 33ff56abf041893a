from dataclasses import replace

import numpy as np
import pytest

from canarybank.encode import HashingEncoder
from canarybank.errors import DataError, InputError
from canarybank.evolve import Candidate, Population
from canarybank.evolve.population import encoded


def test_a_first_population_is_born_in_round_zero_of_no_parents() -> None:
    start = Population.start(["a", "b"], np.eye(2), labels=["x", ""])
    assert [c.id for c in start.candidates] == ["r0-00000", "r0-00001"]
    assert start.labels == ("x", "")
    assert {(c.born, c.parents, c.prompt) for c in start.candidates} == {(0, (), "")}


def test_the_next_population_is_the_kept_then_the_new_each_with_its_vector() -> None:
    start = Population.start(["a", "b", "c"], np.eye(3))
    child = Candidate("r1-00000", "d", born=1, parents=("r0-00002",), prompt="paraphrase")
    after = start.followed_by([2, 0], [child], np.full((1, 3), 0.5))
    assert after.texts == ("c", "a", "d")
    assert np.array_equal(after.vectors, np.array([[0, 0, 1], [1, 0, 0], [0.5, 0.5, 0.5]]))


def test_a_candidate_survives_json() -> None:
    child = Candidate("r1-00000", 'he said "hi"\n\u2028', "sad", 1, ("r0-00002", "r0-00001"), "continue")
    assert Candidate.from_json(child.to_json()) == child


def test_what_is_no_candidate_is_refused() -> None:
    with pytest.raises(DataError, match="no recorded candidate"):
        Candidate.from_json({"text": "a"})


def test_vectors_are_read_only_and_the_callers_array_is_not() -> None:
    mine = np.eye(2, dtype=np.float32)
    start = Population.start(["a", "b"], mine)
    assert not start.vectors.flags.writeable
    assert mine.flags.writeable


@pytest.mark.parametrize("vectors", [np.eye(3), np.zeros(2)])
def test_each_candidate_needs_a_vector(vectors: np.ndarray) -> None:
    with pytest.raises(InputError, match="as many vectors"):
        Population.start(["a", "b"], vectors)


def test_an_empty_population_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        Population((), np.zeros((0, 2), dtype=np.float32))


def test_two_candidates_of_one_id_are_refused() -> None:
    start = Population.start(["a", "b"], np.eye(2))
    with pytest.raises(InputError, match="'r0-00000'"):
        replace(start, candidates=(start.candidates[0], start.candidates[0]))


def test_labels_must_be_as_many_as_texts() -> None:
    with pytest.raises(InputError, match="as many labels"):
        Population.start(["a", "b"], np.eye(2), labels=["x"])


def test_an_encoder_that_returns_too_little_is_refused() -> None:
    class Lazy(HashingEncoder):
        def encode(self, texts, /):
            return HashingEncoder(self.dimension).encode(texts[1:])

    with pytest.raises(InputError, match=r"shape \(1, 8\) for 2 texts"):
        encoded(Lazy(8), ["a", "b"])
