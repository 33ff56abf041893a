from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from canarybank.encode import HashingEncoder
from canarybank.errors import GenerationError, InputError
from canarybank.evolution import (
    Ask,
    Candidate,
    EvolutionPlan,
    Feedback,
    InContext,
    ParaphraseKept,
    Population,
    Published,
    Taking,
    Voted,
    offspring,
)
from canarybank.generate import Request, Response, ScriptedGenerator
from canarybank.mechanism import Mechanism


def make(labels: str = "xxxxyyyy", kept: tuple[int, ...] = (5, 0), wanted: int = 6, seed: int = 0) -> Voted:
    candidates = tuple(Candidate(f"c{i}", f"text {i}", label) for i, label in enumerate(labels))
    votes = np.linspace(0.4, -0.3, len(labels))
    votes[list(kept)] = [2.0 - 0.1 * rank for rank in range(len(kept))]
    return Voted(3, candidates, votes, kept, wanted, seed)


def test_paraphrases_go_round_the_kept_and_inherit_their_label() -> None:
    voted = make()
    asks = [ParaphraseKept()(voted, slot, 0) for slot in range(6)]
    assert [ask.parents for ask in asks] == [("c5",), ("c0",)] * 3
    assert [ask.label for ask in asks] == ["y", "x"] * 3
    assert all(f"text {ask.parents[0][1:]}" in ask.request.prompt for ask in asks)
    assert {ask.prompt_name for ask in asks} == {"paraphrase"}


def test_a_rejected_paraphrase_moves_on_to_another_parent() -> None:
    voted = make()
    assert ParaphraseKept()(voted, 0, 1).parents == ("c0",)


@pytest.mark.parametrize("rule", [ParaphraseKept(), InContext()])
def test_a_question_follows_from_slot_attempt_round_and_seed_alone(rule: ParaphraseKept | InContext) -> None:
    assert rule(make(), 2, 1) == rule(make(), 2, 1)
    others = [rule(make(), 3, 1), rule(make(), 2, 2), rule(make(seed=1), 2, 1)]
    assert len({rule(make(), 2, 1).request.seed, *(ask.request.seed for ask in others)}) == 4


def test_no_two_slots_or_attempts_ask_the_same_of_a_kept_candidate() -> None:
    voted = make(kept=(5, 0, 3), wanted=20)
    asked = [ParaphraseKept()(voted, slot, attempt).request for slot in range(20) for attempt in range(5)]
    assert len(set(asked)) == 100


def test_a_paraphrase_is_asked_for_alike_whatever_the_order_of_votes() -> None:
    one, other = make(kept=(5, 0, 3)), make(kept=(0, 3, 5))
    questions = [{ParaphraseKept()(voted, slot, 0).request for slot in range(6)} for voted in (one, other)]
    assert questions[0] == questions[1]


def test_examples_are_the_kept_and_the_lowest_of_the_slots_label() -> None:
    voted = make(labels="xxxxxyyyyy", kept=(5, 0, 6, 1), wanted=10)
    for slot in range(10):
        ask = InContext(high=2, low=1)(voted, slot, 0)
        label = "x" if slot < 5 else "y"
        assert ask.label == label
        assert set(ask.parents[:2]) == ({"c0", "c1"} if label == "x" else {"c5", "c6"})
        assert set(ask.parents[2:]) <= ({"c2", "c3", "c4"} if label == "x" else {"c7", "c8", "c9"})
        liked, disliked = ask.request.prompt.split("did not care")
        assert all(f"text {name[1:]}" in liked for name in ask.parents[:2])
        assert all(f"text {name[1:]}" in disliked for name in ask.parents[2:])


def test_a_label_of_which_nothing_was_kept_learns_from_all_that_was() -> None:
    voted = make(labels="xxxxxyyyyy", kept=(5, 6), wanted=10)
    assert set(InContext(high=2, low=0)(voted, 0, 0).parents) == {"c5", "c6"}


def test_slots_share_out_the_labels_as_the_candidates_have_them() -> None:
    voted = make(labels="x" * 6 + "y" * 2, wanted=100)
    assert Counter(voted.slot_label(slot) for slot in range(100)) == {"x": 75, "y": 25}


def test_the_lowest_are_never_among_the_kept() -> None:
    voted = make(labels="xxxx", kept=(0, 1, 2))
    assert voted.lowest == (3,)


def test_without_labels_the_kind_stands_in_the_prompt() -> None:
    ask = InContext(kind="a film review")(make(labels="zzzzzz"), 0, 0)
    assert "kind: z" in ask.request.prompt
    unlabelled = Voted(0, tuple(Candidate(f"c{i}", f"t{i}") for i in range(4)), np.arange(4.0), (3,), 3)
    assert "a film review" in InContext(kind="a film review")(unlabelled, 0, 0).request.prompt


def test_a_rule_sees_votes_only_through_the_noisy_histogram() -> None:
    seen = {"round", "candidates", "votes", "kept", "wanted", "seed", "weights", "vectors", "noise", "carry", "slots"}
    assert set(Voted.__dataclass_fields__) == seen


def test_an_answer_loses_the_words_that_led_into_it() -> None:
    ask = ParaphraseKept()(make(), 0, 0)
    assert ask.request.opening
    assert ask.read(Response(f'{ask.request.opening}hello there" and more')).text == "hello there"


def declared(rule: Feedback) -> dict[str, Any]:
    """Return what a run declares of its rule."""
    first = Published.of(Population.start(["a"], np.eye(1)), None)
    plan = EvolutionPlan(Mechanism(), 1, feedback=rule)
    return plan.declaration(first, HashingEncoder(8), ScriptedGenerator({}))["feedback"]


def test_ones_own_rule_is_named_and_may_name_a_prompt_by_a_string() -> None:
    def mine(voted: Voted, slot: int, attempt: int) -> Ask:
        return Ask(Request(f"write {voted.round} {slot} {attempt}"), "mine")

    assert declared(mine)["rule"].endswith("mine")
    ask = mine(make(), 1, 0)
    assert ask.prompt_name == "mine"
    assert ask.read(Response("as it is")).text == "as it is"


def test_what_decides_a_rule_is_in_the_runs_declaration() -> None:
    assert declared(InContext(high=2)) != declared(InContext())
    assert declared(ParaphraseKept()) != declared(ParaphraseKept(prompt="continue"))


@pytest.mark.parametrize(("high", "low"), [(0, 3), (3, -1)])
def test_numbers_of_examples_must_make_sense(high: int, low: int) -> None:
    with pytest.raises(InputError):
        InContext(high=high, low=low)


def kept_river(wanted: int) -> Voted:
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
    born = offspring(kept_river(3), rule, ScriptedGenerator(GOOD), Taking())
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
    born = offspring(kept_river(3), rule, ScriptedGenerator(script), Taking())
    assert [c.text for c in born.candidates] == list(GOOD.values())
    assert born.candidates[0].parents == ("parent of 0/2",)
    assert born.rejected == {"duplicate": 2, "too-short": 1}


def test_what_was_not_kept_may_be_written_again() -> None:
    born = offspring(kept_river(1), rule, ScriptedGenerator({"0/0": "The dog sleeps on the couch."}), Taking())
    assert born.candidates[0].text == "The dog sleeps on the couch."


def test_the_outcome_does_not_depend_on_the_order_of_arrival() -> None:
    script = {**GOOD, "2/0": GOOD["0/0"], "2/1": "I like the rain in the morning."}

    class Backwards(ScriptedGenerator):
        def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
            yield from reversed(list(super().generate(requests)))

    forwards = offspring(kept_river(3), rule, ScriptedGenerator(script), Taking())
    assert offspring(kept_river(3), rule, Backwards(script), Taking()) == forwards


def test_too_few_after_all_tries_is_an_error_that_says_why() -> None:
    generator = ScriptedGenerator(lambda _: "no")
    with pytest.raises(GenerationError, match=r"Only 0 of 2 .* after 3 tries .* 6 too-short"):
        offspring(kept_river(2), rule, generator, Taking(tries=3))
    assert len(generator.asked) == 6


def test_a_generator_that_forgets_an_answer_is_an_error() -> None:
    class Forgetful(ScriptedGenerator):
        def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
            yield from list(super().generate(requests))[1:]

    with pytest.raises(GenerationError, match="answered 2 of 3"):
        offspring(kept_river(3), rule, Forgetful(GOOD), Taking())


def test_answers_are_counted_as_they_arrive() -> None:
    class Stage:
        done = 0

        def advance(self, done: int = 1, note: str = "") -> None:
            del note
            self.done += done

    stage = Stage()
    script = {**GOOD, "2/0": "no", "2/1": GOOD["2/0"]}
    offspring(kept_river(3), rule, ScriptedGenerator(script), Taking(), stage)
    assert stage.done == 3


@pytest.mark.parametrize("bad", [{"similarity": 0}, {"similarity": 1.5}, {"tries": 0}])
def test_rules_of_taking_are_checked(bad: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Taking(**bad)
