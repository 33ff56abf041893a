import doctest
import math
from dataclasses import replace

import pytest

from canarybank.errors import InputError
from canarybank.mechanism import Claim, Mechanism, attained_epsilon, claim, epsilon

MECHANISM = Mechanism()


def test_the_example_runs():
    done = doctest.testmod(claim)
    assert done.attempted > 1
    assert done.failed == 0


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_the_claim_of_a_mechanism_is_its_exact_epsilon_and_true(rounds):
    made = Claim.of(MECHANISM, rounds)
    assert made == Claim(epsilon(MECHANISM, rounds), 1e-5, "add-remove", MECHANISM, rounds)
    assert not made.is_false
    assert made.refutation is None


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_claim_below_its_own_mechanism_is_false_without_a_trial(rounds):
    made = replace(Claim.of(MECHANISM, rounds), epsilon=0.999 * epsilon(MECHANISM, rounds))
    assert made.is_false
    assert made.refutation.startswith(f"The claim is too small: {rounds} release")


def test_a_clip_that_votes_never_reach_refutes_nothing():
    """Votes of 1/k have a norm of at most k^-1/2, so a clip of 1 cuts none of them."""
    wide = Mechanism(clip=1.0)
    between = (attained_epsilon(wide) + epsilon(wide)) / 2
    assert not Claim(between, wide.delta, mechanism=wide).is_false
    assert Claim(0.99 * attained_epsilon(wide), wide.delta, mechanism=wide).is_false


def test_without_a_mechanism_or_for_replacement_nothing_is_refuted():
    assert not Claim(0.0, 1e-5).is_false
    assert not Claim(0.0, 1e-5, "replace", MECHANISM).is_false


def test_at_delta_0_a_mechanism_claims_nothing_finite():
    made = Claim.of(replace(MECHANISM, delta=0.0))
    assert made.epsilon == math.inf
    assert Claim(100.0, 0.0, mechanism=replace(MECHANISM, delta=0.0)).is_false


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"epsilon": -0.1}, "at least 0"),
        ({"epsilon": math.nan}, "epsilon must be a finite number"),
        ({"epsilon": "1"}, "epsilon must be a finite number"),
        ({"delta": 1.0}, r"delta must lie in \[0, 1\)"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"neighbours": "remove"}, "neighbours must be one of add-remove, replace"),
        ({"mechanism": Mechanism(delta=1e-6)}, "state both at the same one"),
    ],
)
def test_what_is_no_claim_is_refused(values, complaint):
    with pytest.raises(InputError, match=complaint):
        Claim(**{"epsilon": 1.0, "delta": 1e-5, **values})


def test_no_exact_epsilon_is_made_up_for_replacement():
    with pytest.raises(InputError, match="No exact epsilon is known here for neighbours 'replace'"):
        Claim.of(MECHANISM, neighbours="replace")


def test_a_claim_says_what_it_is_about():
    assert str(Claim(2.0, 1e-5, "replace", rounds=3)) == (
        "epsilon 2 at delta 1e-05 for replacing one user, over 3 releases"
    )


def test_replacing_one_user_moves_a_release_by_the_square_root_of_two_clips():
    mechanism = Mechanism(q=1.0)
    assert Claim(6.5, 1e-5, "replace", mechanism).is_false
    assert not Claim(6.6, 1e-5, "replace", mechanism).is_false
    assert Claim(1.0, 1e-5, "replace", Mechanism(q=0.5)).attained is None
