import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.generate import Request, Response
from canarybank.generate.budget import worst_case
from canarybank.generate.reply import UNREADABLE, read_reply

REQUEST = Request("hello", tokens=9, opening="I")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["choices", "message", "content", "usage", "x"]), inner)
    ),
)


def body(text, finish="stop", **usage):
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": finish}], "usage": usage}).encode()


def test_a_reply_gives_its_text_its_usage_and_whether_it_was_cut():
    whole = body("I am", prompt_tokens=3, completion_tokens=2)
    assert read_reply(whole, REQUEST, prefill=True) == Response("I am", 3, 2)
    cut = body(" am", "length", prompt_tokens=3, completion_tokens=2)
    assert read_reply(cut, REQUEST, prefill=True) == Response("I am", 3, 2, finished=False)
    assert read_reply(cut, REQUEST, prefill=False).text == " am"


def test_an_opening_that_the_server_repeats_is_not_what_it_wrote():
    request = Request("hello", tokens=9, opening="a list of texts\n" * 40)
    response = read_reply(
        body(request.opening + "- one", prompt_tokens=200, completion_tokens=2), request, prefill=True
    )
    assert response.completion_tokens == 2


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None, "completion_tokens": None}])
def test_without_usage_the_worst_case_was_used(usage):
    response = read_reply(body("I am", **usage), REQUEST, prefill=False)
    assert (response.prompt_tokens, response.completion_tokens) == worst_case(REQUEST)


@pytest.mark.parametrize("count", [True, 1.5, "3", [3], {}, float("inf"), 10**400, -(10**400)])
def test_what_is_no_number_of_tokens_makes_a_reply_unreadable(count):
    for name in ("prompt_tokens", "completion_tokens"):
        with pytest.raises(UNREADABLE):
            read_reply(body("hi", **{name: count}), REQUEST, prefill=False)


@given(JSON | st.builds(lambda inner: {"choices": [{"message": {"content": "hi"}}], "usage": inner}, JSON))
def test_whatever_json_comes_it_is_read_or_unreadable(reply):
    try:
        response = read_reply(json.dumps(reply).encode(), REQUEST, prefill=False)
    except UNREADABLE:
        return
    assert response.prompt_tokens >= 0
    assert response.completion_tokens >= 0


@given(st.binary())
def test_whatever_bytes_come_they_are_unreadable(data):
    with pytest.raises(UNREADABLE):
        read_reply(data, REQUEST, prefill=False)
