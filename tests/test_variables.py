import pytest

from canarybank.variables import is_variable_name

KEYS = [
    "pT9xQabcdefghijklmnopqrstuvw0123",
    "sk_live_abcdefgh",
    "sk_test_51Hxq0",
    "pk_live_51Hxq0",
    "hf_AbCdEfGh",
    "gsk_5f1d0c7e9a",
    "xai_abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA0b1c2d3e4f5g6h7i8j9k0l1m2n3o4p5q",
    "a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "ABCDEFGHIJ234567KLMN",
    "abcdefghijklmnopqrsT",
    "sk-canary-5f1d0c7e9a",
    "9lives",
    "",
]
NAMES = [
    "OPENAI_API_KEY",
    "my_key",
    "Azure_Key",
    "_key",
    "k2",
    "HF_TOKEN",
    "SK_KEY",
    "my_own_key_for_this_server",
    "AZURE_OPENAI_API_KEY_2_EAST",
    "OPENAIAPIKEYOFPRODUCTION",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_no_name(key):
    assert not is_variable_name(key)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one(name):
    assert is_variable_name(name)
