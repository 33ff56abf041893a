from dataclasses import replace

import pytest

from canarybank.attack import ATTACKS
from canarybank.auditing import Counts, Settings, audit, epsilon_lower, pooled, summarise
from canarybank.audit.summary import _ledger
from canarybank.errors import BudgetError, CanarybankError


@pytest.fixture(scope="module")
def result(people, bank, mechanism, sizes):
    return audit(people, bank, mechanism, "exact", trials=20_000, sizes=sizes, canaries=2)


def test_the_headline_is_the_maximum_at_the_family_level(result):
    best = max(result.canaries, key=lambda canary: canary.bound.epsilon)
    assert result.headline.epsilon == best.bound.epsilon
    assert (result.headline.confidence, best.bound.confidence) == (pytest.approx(0.95), pytest.approx(0.975))
    assert "largest of 2 canaries" in result.headline.assumption


def test_pooled_stands_beside_as_its_own_claim(result, mechanism):
    counts = [canary.counts for canary in result.canaries]
    columns = zip(*((c.tp, c.fp, c.n1, c.n0) for c in counts), strict=True)
    assert result.pooled == pooled(*map(list, columns), delta=mechanism.delta, alpha=0.05)


def test_the_ledger_gives_every_canary_its_share(result):
    assert [share for _, share in result.ledger.entries] == [0.025, 0.025]
    assert result.ledger.left == pytest.approx(0.0)


def test_the_exact_rungs_come_from_the_best_canary(result):
    assert result.ladder.attack.low == max(canary.supremum.lower for canary in result.canaries)
    assert result.ladder.rule.low == max(canary.rule.lower for canary in result.canaries)


def test_one_canary_keeps_its_own_bound(result, mechanism):
    alone = summarise("exact", result.canaries[:1], mechanism, Settings(trials=20_000), eligible=25)
    assert alone.headline == result.canaries[0].bound


def test_more_false_positives_lower_the_pooled_bound(result, mechanism):
    noisy = [replace(c, counts=Counts(c.counts.tp, c.counts.fp + 500, 20_000, 20_000)) for c in result.canaries]
    worse = summarise("exact", noisy, mechanism, Settings(trials=20_000), eligible=25)
    assert worse.pooled.epsilon < result.pooled.epsilon


def test_no_canary_is_refused(mechanism):
    with pytest.raises(CanarybankError, match="at least one canary"):
        summarise("exact", [], mechanism, Settings(), eligible=10)


def test_plain_values_hold_the_whole_result(result):
    values = result.to_dict()
    assert values["attack"] in ATTACKS
    assert values["headline"]["epsilon"] == result.headline.epsilon
    assert len(values["canaries"]) == 2


def test_bounds_that_spent_more_than_was_declared_are_refused(result, mechanism):
    greedy = [replace(c, bound=replace(c.bound, confidence=0.95)) for c in result.canaries]
    with pytest.raises(BudgetError, match=r"0\.05 is left"):
        summarise("exact", greedy, mechanism, Settings(trials=20_000), eligible=25)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.3])
def test_alpha_is_shared_over_any_number_of_canaries(alpha):
    for canaries in range(1, 61):
        settings = Settings(alpha=alpha)
        bound = epsilon_lower(9, 1, 100, 100, delta=1e-5, alpha=settings.share(canaries))
        ledger = _ledger("exact", [(f"{i}", bound) for i in range(canaries)], settings)
        assert ledger.spent == pytest.approx(alpha, rel=1e-12)
        with pytest.raises(BudgetError):
            ledger.spend("more", 1e-6)


def test_a_claim_that_spent_more_than_its_share_is_refused():
    bound = epsilon_lower(9, 1, 100, 100, delta=1e-5, alpha=0.03)
    with pytest.raises(BudgetError):
        _ledger("exact", [("a", bound), ("b", bound)], Settings(alpha=0.05))
