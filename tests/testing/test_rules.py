"""Each check of a rule passes all that is registered, and says what is wrong with broken ones."""

import re
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from canarybank.errors import ConfigError, InputError
from canarybank.evolution import InContext, KeepTop, Kept, MixedFeedback, ParentsEvenly, Vary
from canarybank.registry import ATTACKS, FEEDBACKS, KEEPERS, PARENT_RULES, REGISTRIES
from canarybank.testing import check_feedback, check_keeper, check_parents

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")


def test_the_recipes_of_the_page_of_plugins_pass():
    recipes = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/plugins.md", "exec"), recipes)  # noqa: S102, our own page
    check_keeper(recipes["BestOfEachLabel"])
    check_parents(recipes["BestParents"])
    check_feedback(recipes["Replies"])
    check_feedback(recipes["Replies"], parents=recipes["BestParents"]())
    assert type(recipes["MY_ATTACK"]) is type(ATTACKS.find("nonce"))


@pytest.mark.parametrize("kind", REGISTRIES)
def test_the_page_of_plugins_lists_every_kind_and_its_check(kind):
    assert f"| {kind} | `{REGISTRIES[kind].group}` |" in PAGE
    assert f"`check_{'parents' if kind == 'parent rule' else kind}`" in PAGE


@pytest.mark.parametrize("name", KEEPERS.places)
def test_our_keepers_pass(name):
    check_keeper(KEEPERS.find(name))


@pytest.mark.parametrize("name", PARENT_RULES.places)
def test_our_parent_rules_pass(name):
    check_parents(PARENT_RULES.find(name))


@pytest.mark.parametrize("name", FEEDBACKS.places)
@pytest.mark.parametrize("parents", PARENT_RULES.places)
def test_our_feedbacks_pass_with_every_parent_rule(name, parents):
    check_feedback(FEEDBACKS.find(name), parents=PARENT_RULES.find(parents)())


def test_a_mixture_passes():
    check_feedback(lambda: MixedFeedback(((InContext(), 0.5), (Vary(), 0.5))))


_TICKS = count()


@dataclass(frozen=True)
class Ticking:
    """A rule with settings that never stay."""

    def __call__(self, choice):
        return KeepTop()(choice)

    def settings(self):
        return {"rule": "ticking", "tick": next(_TICKS)}


def at_random(choice):
    order = np.random.default_rng().permutation(len(choice.votes))[: choice.size]
    return Kept(order, np.ones(len(order)))


def in_place(choice):
    choice.votes[choice.votes < 0] = 0
    return KeepTop()(choice)


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (lambda: at_random, "kept others when it was asked again"),
        (lambda: in_place, "changes the votes"),
        (lambda: lambda choice: KeepTop()(replace(choice, size=min(choice.size + 1, len(choice.votes)))), "at most"),
        (lambda: lambda choice: Kept([0], [choice.votes[0]]), "finite weight"),
        (lambda: 3, "cannot be called as a keeper"),
        (KeepTop(), "cannot be called with"),
        (Ticking, "no run could be resumed"),
    ],
)
def test_broken_keepers_are_refused_in_words(factory, wrong):
    with pytest.raises((ConfigError, InputError), match=wrong):
        check_keeper(factory)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        (lambda voted, *_: [voted.kept[0]] * 2, "different candidates"),
        (lambda voted, *_: voted.kept, "return 1 to 1"),
        (lambda voted, *_: [voted.lowest[0]], "that are kept"),
        (lambda voted, *_: [voted.kept[0]], "the slot's label has only"),
        (lambda voted, slot, *_: ParentsEvenly()(voted, slot, 0, 1, np.random.default_rng()), "draw from rng alone"),
    ],
)
def test_broken_parent_rules_are_refused_in_words(rule, wrong):
    with pytest.raises(InputError, match=wrong):
        check_parents(lambda: rule)


def asking(**changes):
    return lambda: lambda voted, slot, attempt: replace(InContext()(voted, slot, attempt), **changes)


@pytest.mark.parametrize(
    ("factory", "wrong"),
    [
        (lambda: lambda *_: "Write something.", "returned a str"),
        (asking(parents=("nobody",)), "no candidates"),
        (asking(label="sport"), "'sport', which no candidate has"),
        (lambda: lambda voted, slot, _: InContext()(voted, slot, 0), "same question for two"),
        (lambda: lambda voted, _, attempt: InContext()(voted, 0, attempt), "same question for two"),
        (lambda: lambda voted, slot, _: InContext()(voted, slot, next(_TICKS)), "another question for the same"),
    ],
)
def test_broken_feedbacks_are_refused_in_words(factory, wrong):
    with pytest.raises(InputError, match=wrong):
        check_feedback(factory)
