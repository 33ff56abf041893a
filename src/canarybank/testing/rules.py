"""Check a rule of your own for the rounds of an evolution before you register it: a keeper, parents, feedback.

Each check takes what you register, uses it as canarybank does on small public values, and raises an ``InputError`` with
what is wrong.

    from canarybank.testing import check_keeper

    def test_my_keeper():
        check_keeper(MyKeeper)
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from canarybank.errors import InputError
from canarybank.evolution import Ask, Candidate, Choice, Feedback, Keeper, ParentRule, Voted, apply_keeper
from canarybank.evolution.keeping import describe
from canarybank.evolution.parents import apply_parents
from canarybank.registry import call_with
from canarybank.store import canonical_json

__all__ = ["check_feedback", "check_keeper", "check_parents"]

_LABELS = ("", "film", "food", "travel")


def check_keeper(factory: Callable[..., Keeper]) -> None:
    """Check that a factory makes a keeper that keeps different candidates, as few as asked, and the same ones again.

    Args:
        factory: What you register under ``canarybank.keepers``; it is called without options.

    Example:
        >>> import numpy as np
        >>> from canarybank.evolution import Kept, KeepTop
        >>> check_keeper(KeepTop)
        >>> class Lottery:
        ...     def __call__(self, choice):
        ...         drawn = np.random.default_rng().permutation(len(choice.votes))[: choice.size]
        ...         return Kept(drawn, np.ones(len(drawn)))
        >>> check_keeper(Lottery)
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: The keeper ... kept others when it was asked again; draw from choice.stream alone.
    """
    keeper, name = _made(factory, "keeper")
    other, _ = _made(factory, "keeper")
    for choice in _choices():
        before = choice.votes.copy(), choice.vectors.copy()
        kept, again = apply_keeper(keeper, choice), apply_keeper(other, choice)
        _require(
            np.array_equal(kept.indices, again.indices) and np.array_equal(kept.weights, again.weights),
            f"The keeper {name} kept others when it was asked again; draw from choice.stream alone.",
        )
        _require(
            np.array_equal(before[0], choice.votes) and np.array_equal(before[1], choice.vectors),
            f"The keeper {name} changes the votes or vectors that it is given; copy them first.",
        )


def check_parents(factory: Callable[..., ParentRule]) -> None:
    """Check that a factory makes a parent rule that returns kept candidates, of the slot's label where it has any.

    Args:
        factory: What you register under ``canarybank.parent_rules``; it is called without options.

    Example:
        >>> from canarybank.evolution import ParentsEvenly
        >>> check_parents(ParentsEvenly)
        >>> class First:
        ...     def __call__(self, voted, slot, attempt, count, rng):
        ...         return [0]
        >>> check_parents(First)
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: The parent rule ... returned [0], but the slot's label has only ...
    """
    rule, name = _made(factory, "parent rule")
    for voted in _rounds():
        for (slot, attempt), count in product(_slots(voted), (1, 3)):
            found, again = (
                apply_parents(rule, voted, slot, attempt, count, voted.stream("check", slot, attempt)) for _ in range(2)
            )
            _require(found == again, f"The parent rule {name} answered {again} after {found}; draw from rng alone.")
            allowed = voted.kept_for(voted.slot_label(slot))
            _require(
                set(found) <= set(allowed),
                f"The parent rule {name} returned {found}, but the slot's label has only {list(allowed)} among the "
                "kept candidates; use voted.kept_for.",
            )


def check_feedback(factory: Callable[..., Feedback], **options: Any) -> None:
    """Check that a factory makes a feedback rule whose questions follow from slot and attempt, and differ by them.

    Args:
        factory: What you register under ``canarybank.feedbacks``.
        options: What it is called with, of those that it takes.

    Example:
        >>> from canarybank.evolution import InContext, ParentsEvenly
        >>> check_feedback(InContext, parents=ParentsEvenly())
        >>> check_feedback(lambda: lambda voted, slot, attempt: "more of this, please")
        Traceback (most recent call last):
            ...
        canarybank.errors.InputError: The feedback ... returned a str; return a canarybank.evolution.Ask.
    """
    rule, name = _made(factory, "feedback", **options)
    other, _ = _made(factory, "feedback", **options)
    for voted in _rounds():
        asked = set[object]()
        known = {candidate.id for candidate in voted.candidates}
        labels = {candidate.label for candidate in voted.candidates}
        for slot, attempt in _slots(voted):
            ask, again = rule(voted, slot, attempt), other(voted, slot, attempt)
            _require(
                isinstance(ask, Ask),
                f"The feedback {name} returned a {type(ask).__name__}; return a canarybank.evolution.Ask.",
            )
            _require(
                ask.request == again.request and ask.parents == again.parents,
                f"The feedback {name} asked another question for the same slot and attempt; draw from voted.stream "
                "alone.",
            )
            _require(set(ask.parents) <= known, f"The feedback {name} names parents that are no candidates.")
            _require(ask.label in labels, f"The feedback {name} gave the label {ask.label!r}, which no candidate has.")
            _require(
                ask.request not in asked,
                f"The feedback {name} asked the same question for two slots or attempts; the answers would be "
                "duplicates.",
            )
            asked.add(ask.request)


def _made(factory: Callable[..., Any], kind: str, **options: Any) -> tuple[Any, str]:
    """Return what a factory makes, and its name; what decides its answers must be plain values, and say the same."""
    _require(callable(factory), f"A {kind} is registered as what makes one, not as a {type(factory).__name__}.")
    made, other = (call_with(factory, **options) for _ in range(2))
    _require(callable(made), f"The factory made a {type(made).__name__}, which cannot be called as a {kind}.")
    try:
        shown = [canonical_json(describe(each)) for each in (made, other)]
    except TypeError as error:
        raise InputError(f"The settings of the {kind} must be values for JSON: {error}.") from error
    _require(
        shown[0] == shown[1], f"Two rules made alike have other settings, so no run could be resumed: {shown[0][:200]}"
    )
    _require("rule" in describe(made), f"The settings of the {kind} must say under 'rule' what it is called.")
    return made, repr(describe(made)["rule"])


def _choices() -> Iterator[Choice]:
    """Yield choices with loud and quiet votes, none above 0, equal ones, few candidates, and all sizes."""
    rng = np.random.default_rng(0)
    for count, size in ((1, 1), (2, 1), (12, 1), (12, 5), (12, 12), (60, 20)):
        vectors = rng.normal(size=(count, 4)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        labels = tuple(_LABELS[i % len(_LABELS)] for i in range(count))
        for votes in (rng.normal(size=count) * 5, -rng.random(count) - 1, np.zeros(count), np.ones(count)):
            yield Choice(votes, vectors, labels, 1.0, size, int(rng.integers(5)), int(rng.integers(9)))


def _rounds() -> Iterator[Voted]:
    """Yield rounds with labels and without, with one rule for all slots and for some, and without weights."""
    rng = np.random.default_rng(1)
    for labels in (("",), _LABELS):
        candidates = tuple(
            Candidate(f"r0-{i:05d}", f"The {i} cats of house {i} sleep in the sun.", labels[i % len(labels)])
            for i in range(24)
        )
        votes, kept = rng.normal(size=24), (20, 0, 5, 13, 4, 8)  # of four labels two have none
        vectors = rng.normal(size=(24, 4)).astype(np.float32)
        voted = Voted(2, candidates, votes, kept, 16, 3, np.array([4.0, 0.0, 1.0, 2.0, 0.5, 0.0]), vectors, 1.0)
        yield voted
        yield replace(voted, slots=tuple(range(0, 16, 2)), carry=False, weights=np.zeros(6))


def _slots(voted: Voted) -> Iterator[tuple[int, int]]:
    """Yield slots of a round and attempts."""
    return product(range(voted.wanted) if voted.slots is None else voted.slots, range(3))


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001, what must hold
    if not holds:
        raise InputError(otherwise)
