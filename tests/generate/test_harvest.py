import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import GenerationError, InputError
from canarybank.generate import Cleaning, Distinct, Prompt, Rejection, Request, ScriptedGenerator
from canarybank.generate.harvest import HarvestPlan, even_shares, harvest
from canarybank.progress import Lines

NAMES = ["apple", "berry", "cherry", "damson", "elder", "fig", "grape", "hazel", "ivy", "juniper"]


def plan(slots=2, attempts=10, check=None):
    def request(slot, attempt):
        return Request(f"{slot}/{attempt}", seed=100 * slot + attempt)

    return HarvestPlan(slots, attempts, request, Prompt("p", "x"), Cleaning(shortest=2), check)


def say(request):
    slot, attempt = map(int, request.prompt.split("/"))
    return f"I like {NAMES[slot]} and {NAMES[attempt]} today."


@given(st.integers(0, 60), st.lists(st.one_of(st.integers(0, 12), st.just(math.inf)), min_size=1, max_size=7))
def test_shares_are_as_even_as_the_caps_allow(size, caps):
    naive = [0] * len(caps)
    for _ in range(size):
        room = [i for i, cap in enumerate(caps) if naive[i] < cap]
        if room:
            naive[min(room, key=lambda i: (naive[i], i))] += 1
    assert even_shares(size, caps) == naive


def test_exactly_so_many_texts_come_spread_over_the_slots():
    taken, counters = harvest(ScriptedGenerator(say), plan(3), 7, Distinct(1.0))
    assert [(t.attempt, t.slot) for t in taken] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert counters["kept"] == 7
    assert counters["asked"] == 7 + counters["surplus"]


def test_a_barren_slot_is_made_up_for_by_the_others():
    def barren(request):
        return "" if request.prompt.startswith("1/") else say(request)

    taken, counters = harvest(ScriptedGenerator(barren), plan(3, attempts=6), 9, Distinct(1.0))
    assert sorted(t.slot for t in taken) == [0] * 5 + [2] * 4
    assert counters["empty"] == 6


def test_the_outcome_does_not_depend_on_the_order_of_arrival():
    class Backwards(ScriptedGenerator):
        def generate(self, requests):
            yield from reversed(list(super().generate(requests)))

    straight = harvest(ScriptedGenerator(say), plan(), 8, Distinct(1.0))
    assert harvest(Backwards(say), plan(), 8, Distinct(1.0)) == straight


WRAPS = ("{}", '"{}"', "1. {}", 'Sure, here is one: "{}"', "- {}")


def wrapped(request):
    slot, attempt = map(int, request.prompt.split("/"))
    return WRAPS[(slot + attempt) % len(WRAPS)].format(say(request)) if attempt != 3 else "No."


def test_what_was_stripped_off_the_kept_ones_is_counted_besides():
    taken, counters = harvest(ScriptedGenerator(wrapped), plan(3), 12, Distinct(1.0))
    assert [text.text for text in taken] == [say(Request(f"{t.slot}/{t.attempt}")) for t in taken]
    naive = [WRAPS[(t.slot + t.attempt) % len(WRAPS)] for t in taken]
    assert counters["stripped-quotes"] == sum('"' in wrap for wrap in naive) > 0
    assert counters["stripped-numbering"] == sum(wrap[0] in "1-" for wrap in naive) > 0
    assert counters["stripped-preamble"] == sum("Sure" in wrap for wrap in naive) > 0
    assert counters["asked"] == counters["kept"] + counters["surplus"] + counters["too-short"]


def test_what_was_stripped_off_surplus_answers_is_not_counted():
    _, counters = harvest(ScriptedGenerator(lambda r: f'"{say(r)}"'), plan(3), 7, Distinct(1.0))
    assert counters["surplus"] > 0
    assert counters["stripped-quotes"] == counters["kept"] == 7


def test_strips_do_not_depend_on_the_order_of_arrival():
    class Shuffled(ScriptedGenerator):
        def generate(self, requests):
            yield from sorted(super().generate(requests), key=lambda pair: (pair[0] * 7) % 5)

    straight = harvest(ScriptedGenerator(wrapped), plan(3), 12, Distinct(1.0))
    assert harvest(Shuffled(wrapped), plan(3), 12, Distinct(1.0)) == straight


def test_a_text_that_repeats_another_once_stripped_counts_as_a_duplicate_and_not_as_stripped():
    replies = ["I like it a lot today.", '"I like it a lot today."', "It rains all day again."]
    generator = ScriptedGenerator(lambda r: replies[int(r.prompt.split("/")[1])])
    _, counters = harvest(generator, plan(1, attempts=3), 2, Distinct(1.0))
    assert counters == {"asked": 3, "kept": 2, "surplus": 0, "duplicate": 1}


def test_every_request_that_is_asked_is_among_those_that_can_be_asked_beforehand():
    generator = ScriptedGenerator(say)
    harvest(generator, plan(), 8, Distinct(1.0))
    assert set(generator.asked) <= set(plan().requests())
    assert len(plan().requests()) == 20


def test_too_few_texts_say_what_was_rejected_and_why(capsys):
    replies = {0: "", 1: "I like it a lot today.", 2: "I like it a lot, today!"}
    generator = ScriptedGenerator(lambda r: replies[int(r.prompt.split("/")[1])], "tiny")
    with pytest.raises(
        GenerationError, match=r"tiny wrote 1 of 3 candidates in 3 answers.* 1 empty, 1 duplicate\..*tries"
    ):
        harvest(generator, plan(1, attempts=3), 3, Distinct(1.0), Lines(short=0))
    assert "writing candidates" in capsys.readouterr().err


def test_too_few_texts_do_not_call_what_was_stripped_rejected():
    generator = ScriptedGenerator(lambda _: '1. "I like it a lot today."')
    with pytest.raises(GenerationError, match=r"wrote 1 of 3 .*; rejected were 2 duplicate\."):
        harvest(generator, plan(1, attempts=3), 3, Distinct(1.0))


def test_a_check_judges_many_at_once_and_gives_each_its_figure():
    def check(_, texts):
        return [(Rejection.DISSIMILAR if "fig" in text else None, float(len(text))) for text in texts]

    taken, counters = harvest(ScriptedGenerator(say), plan(1, check=check), 9, Distinct(1.0))
    assert counters["dissimilar"] == 1
    assert all(t.value == len(t.text) for t in taken)


def test_near_duplicates_are_counted_apart():
    replies = [
        "I like the old red house on the hill.",
        "I like the old red house on the hill now.",
        "It rains all day again.",
    ]
    generator = ScriptedGenerator(lambda r: replies[int(r.prompt.split("/")[1])])
    _, counters = harvest(generator, plan(1, attempts=3), 2, Distinct(0.7))
    assert counters["near-duplicate"] == 1


def test_nothing_to_fill_is_refused():
    with pytest.raises(InputError, match="at least one text"):
        harvest(ScriptedGenerator(say), plan(), 0, Distinct())
