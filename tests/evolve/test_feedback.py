from collections import Counter

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolve import Ask, Candidate, InContext, ParaphraseKept, Voted
from canarybank.evolve.feedback import describe
from canarybank.generate import Request, Response


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
    assert set(Voted.__dataclass_fields__) == {"round", "candidates", "votes", "kept", "wanted", "seed"}


def test_an_answer_loses_the_words_that_led_into_it() -> None:
    ask = ParaphraseKept()(make(), 0, 0)
    assert ask.request.opening
    assert ask.read(Response(f'{ask.request.opening}hello there" and more')).text == "hello there"


def test_ones_own_rule_is_named_and_may_name_a_prompt_by_a_string() -> None:
    def mine(voted: Voted, slot: int, attempt: int) -> Ask:
        return Ask(Request(f"write {voted.round} {slot} {attempt}"), "mine")

    assert describe(mine)["rule"].endswith("mine")
    ask = mine(make(), 1, 0)
    assert ask.prompt_name == "mine"
    assert ask.read(Response("as it is")).text == "as it is"


def test_what_decides_a_rule_is_in_its_description() -> None:
    assert describe(InContext(high=2)) != describe(InContext())
    assert describe(ParaphraseKept()) != describe(ParaphraseKept(prompt="continue"))


@pytest.mark.parametrize(("high", "low"), [(0, 3), (3, -1)])
def test_numbers_of_examples_must_make_sense(high: int, low: int) -> None:
    with pytest.raises(InputError):
        InContext(high=high, low=low)
