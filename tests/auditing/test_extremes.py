"""Extreme settings give a right number or a sentence: no overflow, no warning, nothing above the exact epsilon."""

import math
from itertools import product

import numpy as np
import pytest

from canarybank.auditing import audit, ceiling, epsilon_lower, supremum
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.score import RoundLaw

GRID = list(product((1e-3, 0.02, 0.3, 1.0, 30.0, 1e3), (1e-9, 1e-4, 0.1, 1.0), (0.0, 1e-12, 1e-5, 0.4)))


@pytest.mark.parametrize(("sigma", "q", "delta"), GRID)
def test_a_perfect_attack_shows_at_most_the_exact_epsilon(sigma, q, delta):
    mechanism = Mechanism(sigma=sigma, q=q, delta=delta)
    exact = one_round_epsilon(mechanism)
    most = exact * (1 + 1e-9) + 1e-9
    found = ceiling(mechanism, 1000)
    assert 0 <= found.expected <= most
    assert found.rule <= most
    assert ceiling(mechanism, math.inf).median == exact
    assert 0 <= supremum(RoundLaw.perfect(mechanism), delta).interval.lower <= most


def test_counts_bound_epsilon_without_a_delta():
    found = epsilon_lower(900, 10, 1000, 1000, delta=0.0, alpha=0.05)
    assert 0 < epsilon_lower(900, 10, 1000, 1000, delta=1e-5, alpha=0.05).epsilon < found.epsilon < math.inf


def test_an_audit_in_memory_without_a_delta_is_finite_where_counts_are():
    rng = np.random.default_rng(0)
    people = [rng.normal(size=(4, 8)) for _ in range(40)]
    found = audit(
        people, rng.normal(size=(60, 8)), Mechanism(delta=0.0), "nonce-norm", trials=500, canaries=1, probes=8
    )
    assert found.ladder.mechanism.epsilon == math.inf
    assert 0 <= found.ladder.observed.epsilon < math.inf
    assert found.ladder.rule.low < math.inf
