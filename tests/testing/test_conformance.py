from dataclasses import replace

import numpy as np
import pytest

from canarybank.auditing import Counts, Method
from canarybank.errors import CanarybankError, ConformanceError
from canarybank.registry import METHODS
from canarybank.testing import check_method

COUNTS = ("tp", "fp", "n1", "n0")


@pytest.mark.parametrize("name", METHODS.places)
def test_every_method_keeps_the_contract(name):
    check_method(name)


class DeltaDropped(Method):
    def branches(self, tp, fp, n1, n0, *, delta, alpha, q):
        return super().branches(tp, fp, n1, n0, delta=0.0 * delta, alpha=alpha, q=q)


class EndsSwapped(Method):
    def ends(self, x, n, gamma):
        return super().ends(x, n, gamma)[::-1]


class Estimate(Method):
    def ends(self, x, n, gamma):
        rate = (np.asarray(x) + gamma) / (np.asarray(n) + 1)
        return rate, rate


class WholeShares(Method):
    def share(self, alpha, canaries):  # noqa: ARG002, as in the base
        return alpha


class Falling(Method):
    def claim(self, tp, fp, n1, n0, *, delta, alpha, q):
        return super().claim(tp - 2 * (tp // 8), fp, n1, n0, delta=delta, alpha=alpha, q=q)


class OneNumber(Method):
    def branches(self, *counts, **level):  # noqa: ARG002, as in the base
        return np.float64(0.0), np.float64(0.0)


class Sure(Method):
    def claim(self, tp, *counts, **level):  # noqa: ARG002, as in the base
        return (0.5, 0.5) if tp else (0.0, 0.0)


class Boastful(type(METHODS.find("pooled"))):
    def bound(self, counts, **level):
        times = 1 if len(counts) == 1 else 100
        return super().bound([Counts(*(times * getattr(each, name) for name in COUNTS)) for each in counts], **level)


class Unforetold(Method):
    def bound(self, counts, **level):
        return replace(super().bound(counts, **level), epsilon=0.0)


class Aimless(Method):
    aims = ()


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Method("two alpha", "nothing"), "needs a name without a colon or a space"),
        (Method("silent", " "), "does not say what its bound assumes"),
        (Method("twice", "nothing", tails=0.5), "exceeds the true epsilon .* more than alpha 0.2"),
        (DeltaDropped("dropped", "nothing"), "exceeds the true epsilon"),
        (EndsSwapped("swapped", "nothing"), "must forecast a number"),
        (Estimate("estimate", "nothing"), "exceeds the true epsilon"),
        (WholeShares("shares", "nothing"), "spends 0.4 of alpha 0.2 on 2 canaries"),
        (Falling("falling", "nothing"), "falls when there are more true positives"),
        (OneNumber("number", "nothing"), "for every pair of counts"),
        (Sure("sure", "nothing"), "a claim from as many false as true positives"),
        (Boastful("boastful", "nothing"), "exceeds the true epsilon .* of unequal canaries"),
        (Unforetold("unforetold", "nothing"), "gives bounds that its `branches` do not"),
        (Aimless("aimless", "nothing"), r"cannot aim at \(\)"),
    ],
    ids=str,
)
def test_what_breaks_the_contract_is_said_in_a_sentence(method, said):
    with pytest.raises(ConformanceError, match=said) as caught:
        check_method(method)
    assert str(caught.value).startswith(f"The method {method.name!r} ")
    assert isinstance(caught.value, AssertionError)


def test_what_is_no_method_is_refused():
    with pytest.raises(CanarybankError, match="is not a method but a int"):
        check_method(3)
