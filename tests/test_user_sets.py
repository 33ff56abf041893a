"""The user sets on which attacks are studied stay as they were when their hashes were published."""

import hashlib
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


user_sets = load_tool("user_sets")


@pytest.mark.parametrize("name", user_sets.SETS)
def test_a_set_has_the_hashes_that_the_page_states(name):
    page = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    stated = dict(re.findall(rf"^\| `{name}` \| (users|bank) \| `(\w+)` \|$", page, flags=re.MULTILINE))
    users, bank = (hashlib.sha256(content).hexdigest() for content in user_sets.set_bytes(name))
    assert stated == {"users": users, "bank": bank}


@pytest.mark.parametrize("name", user_sets.SETS)
def test_every_user_has_32_records_and_no_record_is_empty(name):
    rows = list(user_sets.user_rows(name, users=20))
    assert set(Counter(user for user, _ in rows).values()) == {32}
    assert len({user for user, _ in rows}) == 20
    assert all(text.strip() == text != "" for _, text in rows)
    assert not any(mark in text for _, text in rows for mark in "«»⏎")


def test_a_person_follows_from_seed_set_and_name():
    first, again, other = (list(user_sets.user_rows("short", 3, seed)) for seed in (1, 1, 2))
    assert first == again != other
    longer = list(user_sets.user_rows("short", 5, 1))
    assert longer[: len(first)] == first


@pytest.mark.parametrize("name", user_sets.SETS)
def test_every_line_of_a_grammar_can_be_filled(name):
    grammar = user_sets.load_grammar(name)
    known = {*grammar.rules, *user_sets.ALPHABETS, "int"}
    used = {word for lines in grammar.rules.values() for line in lines for word in re.findall(r"«(\w+)", line)}
    assert used <= known
    assert {*grammar.personal, *grammar.habits} <= grammar.rules.keys()
    assert grammar.rules.keys() - used == {"record"}, "every rule is used"
