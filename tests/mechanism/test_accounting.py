import sys
import warnings
from typing import Any

import pytest

from canarybank.errors import InputError, MissingError
from canarybank.mechanism import Mechanism, composed_epsilon, epsilon, one_round_epsilon, prv_epsilon
from canarybank.mechanism.accounting import privacy_loss, rounds_epsilon

SIX = [1.3346819, 1.5299039, 1.6717347, 1.7901618, 1.8947278, 1.9898194]


def test_the_papers_setting_to_six_decimals() -> None:
    assert round(epsilon(Mechanism()), 6) == 1.684544


@pytest.mark.parametrize(("rounds", "expected"), list(enumerate(SIX, start=1)))
def test_the_six_round_counts(rounds: int, expected: float) -> None:
    assert epsilon(Mechanism(sigma=1.1088), rounds) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism(),
        Mechanism(sigma=0.3, q=0.02),
        Mechanism(sigma=0.5, q=1.0),
        Mechanism(sigma=5.0, q=0.5, delta=1e-9),
        Mechanism(sigma=10.0, q=0.01, delta=1e-6),
        Mechanism(sigma=50.0, q=1.0, delta=1e-9),
        Mechanism(sigma=50.0, q=1e-3, delta=1e-8),
    ],
)
def test_one_round_lies_just_below_dp_accountings_upper_bound(mechanism: Mechanism) -> None:
    assert (
        -1e-9
        <= privacy_loss(mechanism.sigma, mechanism.q).get_epsilon_for_delta(mechanism.delta) - epsilon(mechanism)
        <= 1e-6
    )


def test_rounds_without_sampling_are_one_round_with_less_noise() -> None:
    # T Gaussian releases are one whose noise is smaller by the root of T.
    for sigma, rounds in ((1.0, 4), (2.0, 9), (5.0, 100)):
        exact = one_round_epsilon(Mechanism(sigma=sigma / rounds**0.5, q=1.0))
        assert -1e-9 <= epsilon(Mechanism(sigma=sigma, q=1.0), rounds) - exact <= 1e-6


def test_grows_with_rounds_and_falls_with_noise_and_delta() -> None:
    assert epsilon(Mechanism()) < epsilon(Mechanism(), 2) < epsilon(Mechanism(), 3)
    assert epsilon(Mechanism(sigma=2.0)) < epsilon(Mechanism())
    assert epsilon(Mechanism(delta=1e-4)) < epsilon(Mechanism())


def test_k_and_clip_play_no_part_and_figures_are_kept() -> None:
    epsilon(Mechanism(), 2)
    before = rounds_epsilon.cache_info().misses
    assert epsilon(Mechanism(k=9, clip=3.0), 2) == epsilon(Mechanism(), 2)
    assert rounds_epsilon.cache_info().misses == before


@pytest.mark.parametrize("rounds", [0, -1, 1.5, True, "2"])
@pytest.mark.parametrize("function", [epsilon, prv_epsilon])
def test_refuses_what_is_no_number_of_rounds(function: Any, rounds: Any) -> None:
    with pytest.raises(InputError, match="rounds must be a whole number of at least 1"):
        function(Mechanism(), rounds)


@pytest.mark.parametrize("error", [0.0, float("nan"), float("inf")])
def test_refuses_what_is_no_error_band(error: float) -> None:
    with pytest.raises(InputError, match="error must be positive and finite"):
        prv_epsilon(Mechanism(), error=error)


def test_says_what_to_install_where_opacus_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[opacus\]'"):
        prv_epsilon(Mechanism())


@pytest.mark.models
def test_opacus_parity_to_three_decimals() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch and Opacus may warn of things that are theirs
        pytest.importorskip("opacus.accountants")
    assert round(prv_epsilon(Mechanism()), 3) == 1.695
    found = [round(prv_epsilon(Mechanism(sigma=1.1088), rounds), 3) for rounds in range(1, 7)]
    assert found == [1.345, 1.540, 1.682, 1.800, 1.905, 2.000]


@pytest.mark.models
def test_opacus_band_narrows_onto_the_exact_figure() -> None:
    assert 0 < prv_epsilon(Mechanism()) - epsilon(Mechanism()) <= 0.0105
    assert 0 < prv_epsilon(Mechanism(), error=1e-3) - epsilon(Mechanism()) <= 1.5e-3


@pytest.mark.parametrize(
    ("mechanism", "rounds", "why"),
    [
        (Mechanism(sigma=0.02, q=0.5), 2, "sigma below 0.3"),
        (Mechanism(sigma=0.01), 1, "sigma below 0.3"),
        (Mechanism(sigma=1e-3, q=1.0, delta=0.4), 100, "sigma below 0.3"),
        (Mechanism(sigma=1e-12), 1, "sigma below 0.3"),
    ],
)
def test_opacus_is_not_asked_where_it_cannot_be_right(mechanism: Mechanism, rounds: int, why: str) -> None:
    with pytest.raises(InputError, match=f"states no epsilon.*{why}"):
        prv_epsilon(mechanism, rounds)


@pytest.mark.models
@pytest.mark.parametrize(
    ("mechanism", "rounds", "why"),
    [
        (Mechanism(), 10**6, "too much memory"),
        (Mechanism(sigma=0.3, q=1.0), 1000, "too much memory"),
        (Mechanism(delta=0.4), 1, "for an upper end, and the exact epsilon is 0"),
        (Mechanism(delta=1e-40), 1, "it ends with"),
    ],
)
def test_what_opacus_cannot_state_is_refused_in_words_without_a_warning(
    mechanism: Mechanism, rounds: int, why: str, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("opacus.accountants")
    recwarn.clear()
    with pytest.raises(InputError, match=f"states no epsilon.*{why}"):
        prv_epsilon(mechanism, rounds)
    assert not recwarn.list


@pytest.mark.models
@pytest.mark.parametrize("sigma", [0.3, 1.0, 1e3])
@pytest.mark.parametrize("q", [1e-9, 0.01, 1.0])
@pytest.mark.parametrize("rounds", [1, 6])
def test_what_opacus_states_is_an_upper_end(sigma: float, q: float, rounds: int) -> None:
    pytest.importorskip("opacus.accountants")
    mechanism = Mechanism(sigma=sigma, q=q)
    exact = epsilon(mechanism, rounds)
    assert exact <= prv_epsilon(mechanism, rounds) <= exact + 0.03


@pytest.mark.parametrize("sigma", [1e-6, 9e-4])
def test_next_to_no_noise_still_has_a_figure(sigma):
    mechanism = Mechanism(sigma=sigma)
    assert epsilon(mechanism) == one_round_epsilon(mechanism)
    assert 2.9 < epsilon(mechanism, 3) / epsilon(mechanism) < 3.1


@pytest.mark.parametrize(
    ("mechanism", "rounds"),
    [(Mechanism(), 6), (Mechanism(sigma=1.1088), 50), (Mechanism(sigma=0.3, q=1.0), 3), (Mechanism(sigma=20.0), 100)],
)
def test_two_accountants_agree_where_both_hold(mechanism, rounds):
    # dp-accounting's lattice and our own, which takes over where dp-accounting's is too coarse.
    assert epsilon(mechanism, rounds) == pytest.approx(composed_epsilon(mechanism, rounds), rel=1e-6, abs=1e-6)
