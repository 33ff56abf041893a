import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from canarybank.errors import ConfigError
from canarybank.generate import Secret

KEY = "sk-canary/5f1d\"0c'7\\e9a"
PRINTABLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=40)


@example("0000000\\", "", "")
@given(PRINTABLE, st.text(), st.text())
def test_a_key_is_hidden_plain_in_json_and_in_a_repr(key, before, after):
    secret = Secret(key, "KEY")
    for spelled in (key, json.dumps(key)[1:-1], repr(key)[1:-1], "".join(f"\\u{ord(c):04X}" for c in key)):
        assert secret.hide(f"{before} {spelled} {after}").count("<secret>") >= 1
        assert secret.hide(spelled) == "<secret>"


def test_slashes_that_some_servers_escape_hide_nothing_from_us():
    assert Secret(KEY, "KEY").hide(json.dumps(f"is {KEY}?").replace("/", "\\/")) == '"is <secret>?"'


def test_a_key_that_may_be_a_word_stays_in_answers_but_not_in_errors():
    secret = Secret("ollama", "KEY")
    assert secret.hide_in_answer("an ollama in the hills") == "an ollama in the hills"
    assert secret.hide("bad key: ollama") == "bad key: <secret>"
    assert Secret(KEY, "KEY").hide_in_answer(KEY) == "<secret>"
    assert Secret("", "KEY").hide("nothing \\ to hide") == "nothing \\ to hide"


@pytest.mark.parametrize("name", [KEY, "sk-1", "1KEY", "", "MY KEY", "KÉY", "A=B"])
def test_what_is_no_name_of_a_variable_is_refused_without_showing_it(name):
    with pytest.raises(ConfigError, match="may be the key itself") as caught:
        Secret.from_environment(name)
    assert not name or name not in str(caught.value)


def test_the_key_comes_from_its_variable_or_is_empty(monkeypatch):
    monkeypatch.setenv("MY_KEY_2", f" {KEY}\n")
    assert Secret.from_environment("MY_KEY_2").reveal() == KEY
    monkeypatch.delenv("MY_KEY_2")
    assert Secret.from_environment("MY_KEY_2").reveal() == ""
    assert repr(Secret(KEY, "KEY")) == "<secret>"
