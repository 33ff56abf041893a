import subprocess
import sys
from dataclasses import replace

import pytest

import canarybank.generate
from canarybank.errors import DataError, InputError
from canarybank.generate import Request, Response, ScriptedGenerator, in_order

REQUEST = Request("hello", label="a", seed=1, temperature=0.5, tokens=7, system="s", opening="o", top_p=0.9)


def test_all_public_names_are_exported_sorted():
    assert canarybank.generate.__all__ == sorted(canarybank.generate.__all__)
    assert all(hasattr(canarybank.generate, name) for name in canarybank.generate.__all__)


def test_the_room_needs_numpy_alone_to_import():
    heavy = "{'pydantic', 'polars', 'cyclopts', 'torch', 'transformers', 'openai', 'xllamacpp', 'scipy', 'rich'}"
    code = f"import sys, canarybank.generate, canarybank.generate.embedded; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"prompt": " \n"}, "empty"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"tokens": 0}, "token"),
        ({"top_p": 0.0}, "top_p"),
    ],
)
def test_a_request_checks_itself(changes, match):
    with pytest.raises(InputError, match=match):
        replace(REQUEST, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": "x"},
        {"seed": 2},
        {"temperature": 0.6},
        {"tokens": 8},
        {"system": None},
        {"opening": ""},
        {"top_p": 1.0},
    ],
)
def test_the_key_is_of_the_model_the_prompt_and_every_parameter(changes):
    assert REQUEST.key("m") != replace(REQUEST, **changes).key("m")
    assert REQUEST.key("m") != REQUEST.key("n")
    assert REQUEST.key("m") == replace(REQUEST, label="b").key("m")


def test_messages_hold_the_opening_as_a_beginning_or_as_a_wish():
    assert [m["role"] for m in REQUEST.messages()] == ["system", "user", "assistant"]
    wished = REQUEST.messages(prefill=False)
    assert [m["role"] for m in wished] == ["system", "user"]
    assert wished[-1]["content"].endswith("Begin your answer with: o")
    assert Request("hello").messages(prefill=False) == [{"role": "user", "content": "hello"}]


def test_a_response_survives_json_and_nonsense_is_refused():
    response = Response("text", 1, 2, finished=False)
    assert Response.from_json(response.to_json()) == response
    with pytest.raises(DataError, match="no recorded response"):
        Response.from_json({"text": "x"})


def test_in_order_puts_answers_back_in_the_order_of_their_requests():
    class Backwards(ScriptedGenerator):
        def generate(self, requests):
            yield from reversed(list(super().generate(requests)))

    requests = [Request(f"q{i}") for i in range(4)]
    assert [a.text for a in in_order(Backwards(lambda r: r.prompt), requests)] == ["q0", "q1", "q2", "q3"]
