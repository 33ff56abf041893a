"""A zoo of broken systems that an audit by trials must catch, beside the correct one that it must not."""

import time
from dataclasses import replace

import numpy as np
import pytest
from broken_systems import CANARY, CLAIM, INSPECTED, PROBES, SCORE, USERS, ZOO, histogram, per_label, system

from canarybank.auditing import Settings, audit_system
from canarybank.errors import CanarybankError
from canarybank.mechanism import Claim
from canarybank.score import LinearScore, Moments
from canarybank.systems import CallableSystem

# The bound exceeds the truth with probability at most alpha. At 1e-5 the correct system is flagged in fewer than
# 1 of 100,000 runs; the broken ones are far enough off to be caught all the same.
SETTINGS = Settings(trials=120_000, alpha=1e-5, method="clopper-pearson", seed=3)


@pytest.mark.parametrize("broken", ZOO.values(), ids=ZOO.keys())
def test_broken_systems_are_caught(broken):
    result = audit_system(broken, SCORE, CLAIM, SETTINGS)
    assert result.violation, result
    assert "exceeds the 1.685" in repr(result)


def test_noise_without_its_multiplier_is_caught():
    claim = replace(CLAIM, sigma=2.0)
    score = LinearScore(CANARY[INSPECTED], Moments.estimate(USERS[:, INSPECTED], claim, USERS.shape[0]))
    # Twice the claimed loss is a smaller violation than the others: it takes more trials to see.
    assert audit_system(system(mechanism=CLAIM), score, claim, replace(SETTINGS, trials=500_000)).violation


def test_normalising_per_label_is_caught():
    broken, score = per_label(labels=5)
    assert audit_system(broken, score, CLAIM, SETTINGS).violation


@pytest.mark.parametrize("seed", range(3))
def test_the_correct_system_is_not_flagged(seed):
    result = audit_system(system(), SCORE, CLAIM, replace(SETTINGS, seed=seed))
    assert not result.violation
    assert 0.2 < result.bound.epsilon < result.allowed
    assert "does not exceed" in repr(result)


def test_votes_that_are_clipped_but_not_normalised_are_no_violation():
    raw = histogram() * min(1.0, CLAIM.clip / np.linalg.norm(histogram()))
    assert not audit_system(system(canary=raw), SCORE, CLAIM, SETTINGS).violation


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda eligible, size, rng: np.zeros((size, PROBES + 1)), "must return a table of shape"),  # noqa: ARG005
        (lambda eligible, size, rng: np.full((size, PROBES), np.nan), "NaN or infinite"),  # noqa: ARG005
    ],
)
def test_what_is_no_release_is_refused(function, complaint):
    with pytest.raises(CanarybankError, match=complaint):
        CallableSystem(function, PROBES).release(False, 3, np.random.default_rng(0))


@pytest.mark.parametrize("method", ["pooled", "stratified"])
def test_methods_that_need_more_than_eligible_trials_are_refused(method):
    with pytest.raises(CanarybankError, match="one canary's eligible trials"):
        audit_system(system(), SCORE, CLAIM, replace(SETTINGS, method=method))


class Shortchanging:
    """Release fewer rows than asked for when the canary is absent: counted as trials they would feign a leak."""

    def release(self, eligible, size, rng):
        return rng.normal(0.0, CLAIM.noise, (size if eligible else size // 2, PROBES))


class Failing:
    """Release NaN when the canary is absent, which exceeds no threshold."""

    def release(self, eligible, size, rng):
        return rng.normal(0.0, CLAIM.noise, (size, PROBES)) * (1.0 if eligible else np.nan)


@pytest.mark.parametrize(
    ("broken", "complaint"), [(Shortchanging(), "must return a table of shape"), (Failing(), "NaN or infinite")]
)
def test_any_system_is_held_to_whole_and_finite_releases(broken, complaint):
    with pytest.raises(CanarybankError, match=complaint):
        audit_system(broken, SCORE, CLAIM, replace(SETTINGS, trials=1_000))


def test_somebody_elses_system_is_called_once_at_a_time():
    inside = []

    def stateful(eligible, size, rng):
        assert not inside
        inside.append(eligible)
        time.sleep(0.005)
        inside.pop()
        return rng.normal(0.0, CLAIM.noise, (size, PROBES))

    audit_system(CallableSystem(stateful, PROBES), SCORE, CLAIM, replace(SETTINGS, trials=6_000))


def test_a_bound_is_held_against_the_claim_that_is_stated():
    quick = replace(SETTINGS, trials=20_000, alpha=0.05)
    result = audit_system(system(), SCORE, Claim(0.1, CLAIM.delta, mechanism=CLAIM), quick)
    assert result.allowed == 0.1
    assert result.violation
    assert result.ladder.mechanism.epsilon > 1.68
    assert not audit_system(system(), SCORE, Claim.of(CLAIM), quick).violation


@pytest.mark.parametrize(
    ("claim", "complaint"),
    [
        (Claim(1.0, 1e-5), "names no mechanism"),
        (Claim.of(CLAIM, rounds=2), "test one release"),
        (Claim(1.0, 1e-5, "replace", CLAIM), "adding or removing one user"),
    ],
)
def test_a_claim_that_one_release_cannot_test_is_refused(claim, complaint):
    with pytest.raises(CanarybankError, match=complaint):
        audit_system(system(), SCORE, claim, SETTINGS)
