import pytest

from canarybank.errors import GenerationError, InputError
from canarybank.generate import Request, ScriptedGenerator, in_order

REQUESTS = [Request("one"), Request("two")]


@pytest.mark.parametrize("script", [lambda r: r.prompt.upper(), {"one": "ONE", "two": "TWO"}, ["ONE", "TWO"]])
def test_a_callable_a_mapping_or_a_sequence_answers(script):
    generator = ScriptedGenerator(script)
    assert [a.text for a in in_order(generator, REQUESTS)] == ["ONE", "TWO"]
    assert generator.asked == REQUESTS


def test_a_script_that_ends_or_lacks_an_answer_says_so():
    with pytest.raises(GenerationError, match="1 answers are used up"):
        in_order(ScriptedGenerator(["ONE"]), REQUESTS)
    with pytest.raises(GenerationError, match="'two'"):
        in_order(ScriptedGenerator({"one": "ONE"}), REQUESTS)
    with pytest.raises(InputError, match="one text"):
        ScriptedGenerator("ONE")


def test_the_fingerprint_is_of_the_name():
    assert ScriptedGenerator([], "a").fingerprint == ScriptedGenerator([], "a").fingerprint
    assert ScriptedGenerator([], "a").fingerprint != ScriptedGenerator([], "b").fingerprint
