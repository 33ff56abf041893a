from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from canarybank.errors import GenerationError, InputError
from canarybank.evolve import Ask, Candidate, Taking, Voted, offspring
from canarybank.generate import Request, Response, ScriptedGenerator


def make(wanted: int) -> Voted:
    texts = ["We went to the river today.", "The dog sleeps on the couch."]
    candidates = tuple(Candidate(f"c{i}", text) for i, text in enumerate(texts))
    return Voted(4, candidates, np.array([1.0, 0.0]), (0,), wanted)


def rule(voted: Voted, slot: int, attempt: int) -> Ask:
    del voted
    return Ask(Request(f"{slot}/{attempt}"), "mine", (f"parent of {slot}/{attempt}",), f"label {slot}")


GOOD = {
    "0/0": "My sister bought a green lamp.",
    "1/0": "He was late for the train again.",
    "2/0": "I like the rain in the morning.",
}


def test_each_slot_gets_its_own_answer_with_its_lineage() -> None:
    born = offspring(make(3), rule, ScriptedGenerator(GOOD), Taking())
    assert [c.text for c in born.candidates] == list(GOOD.values())
    assert [c.id for c in born.candidates] == ["r5-00000", "r5-00001", "r5-00002"]
    assert [c.parents for c in born.candidates] == [("parent of 0/0",), ("parent of 1/0",), ("parent of 2/0",)]
    assert {(c.born, c.prompt) for c in born.candidates} == {(5, "mine")}
    assert [c.label for c in born.candidates] == ["label 0", "label 1", "label 2"]
    assert born.rejected == {}


def test_rejected_answers_are_counted_and_asked_for_again() -> None:
    script = {
        "0/0": "We went to the river, today!",  # what was kept, folded
        "1/0": GOOD["1/0"],
        "2/0": GOOD["1/0"],  # what slot 1 has already
        "0/1": "short",
        "2/1": GOOD["2/0"],
        "0/2": GOOD["0/0"],
    }
    born = offspring(make(3), rule, ScriptedGenerator(script), Taking())
    assert [c.text for c in born.candidates] == list(GOOD.values())
    assert born.candidates[0].parents == ("parent of 0/2",)
    assert born.rejected == {"duplicate": 2, "too-short": 1}


def test_what_was_not_kept_may_be_written_again() -> None:
    born = offspring(make(1), rule, ScriptedGenerator({"0/0": "The dog sleeps on the couch."}), Taking())
    assert born.candidates[0].text == "The dog sleeps on the couch."


def test_the_outcome_does_not_depend_on_the_order_of_arrival() -> None:
    script = {**GOOD, "2/0": GOOD["0/0"], "2/1": "I like the rain in the morning."}

    class Backwards(ScriptedGenerator):
        def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
            yield from reversed(list(super().generate(requests)))

    forwards = offspring(make(3), rule, ScriptedGenerator(script), Taking())
    assert offspring(make(3), rule, Backwards(script), Taking()) == forwards


def test_too_few_after_all_tries_is_an_error_that_says_why() -> None:
    generator = ScriptedGenerator(lambda _: "no")
    with pytest.raises(GenerationError, match=r"Only 0 of 2 .* after 3 tries .* 6 too-short"):
        offspring(make(2), rule, generator, Taking(tries=3))
    assert len(generator.asked) == 6


def test_a_generator_that_forgets_an_answer_is_an_error() -> None:
    class Forgetful(ScriptedGenerator):
        def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
            yield from list(super().generate(requests))[1:]

    with pytest.raises(GenerationError, match="answered 2 of 3"):
        offspring(make(3), rule, Forgetful(GOOD), Taking())


def test_answers_are_counted_as_they_arrive() -> None:
    class Stage:
        done = 0

        def advance(self, done: int = 1, note: str = "") -> None:
            del note
            self.done += done

    stage = Stage()
    script = {**GOOD, "2/0": "no", "2/1": GOOD["2/0"]}
    offspring(make(3), rule, ScriptedGenerator(script), Taking(), stage)
    assert stage.done == 3


@pytest.mark.parametrize("bad", [{"similarity": 0}, {"similarity": 1.5}, {"tries": 0}])
def test_rules_of_taking_are_checked(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Taking(**bad)
