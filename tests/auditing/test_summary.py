"""Claims over an attack's canaries: the headline, the pooled bound beside it, alpha and the ladder."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.attack import ATTACKS
from canarybank.auditing import (
    Auditor,
    Case,
    MemoryTally,
    Settings,
    Shard,
    audit,
    epsilon_lower,
    pooled,
)
from canarybank.errors import BudgetError, CanarybankError
from canarybank.mechanism import Mechanism, epsilon
from canarybank.score import LinearScore, Moments
from canarybank.systems import BankSystem, CallableSystem

CLAIM = Mechanism()
SYSTEM = BankSystem(csr_array((1, 1)), np.array([CLAIM.clip]), CLAIM)
SCORE = LinearScore(SYSTEM.canary, Moments(np.zeros(1), np.array([[CLAIM.noise**2]])))
SETTINGS = Settings(trials=1_000, threshold="analytic")


@pytest.fixture(scope="module")
def result(people, bank, mechanism, sizes):
    return audit(people, bank, mechanism, "exact", trials=20_000, sizes=sizes, canaries=2)


def case(index=0, attack="exact"):
    return Case(ATTACKS[attack], index, f"c{index}", (SCORE,), address=(attack, index))


def judged(*positives, settings=SETTINGS):
    """Judge canaries with these (true, false) positives."""
    auditor, tally = Auditor(CLAIM, settings, 1), MemoryTally()
    cases = auditor.freeze([case(index) for index in range(len(positives))], lambda _: [SYSTEM])
    for each, (tp, fp) in zip(cases, positives, strict=True):
        for eligible, count in ((True, tp), (False, fp)):
            tally.put(each.place, Shard(eligible=eligible, block=0, size=settings.trials), (count,))
    return auditor.judge(cases, lambda _: [SYSTEM], tally)[0]


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


def test_one_canary_keeps_its_own_bound():
    alone = judged((200, 10))
    assert alone.headline == alone.canaries[0].bound == epsilon_lower(200, 10, 1000, 1000, delta=1e-5, alpha=0.05)


def test_more_false_positives_lower_the_pooled_bound():
    assert judged((200, 20), (200, 30)).pooled.epsilon < judged((200, 10), (200, 10)).pooled.epsilon


def test_plain_values_hold_the_whole_result(result):
    (values,) = result.to_dict()["attacks"]
    assert values["attack"] in ATTACKS
    assert values["headline"]["epsilon"] == result.headline.epsilon
    assert len(values["canaries"]) == 2


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.3])
def test_alpha_is_shared_over_any_number_of_canaries(alpha):
    for canaries in (1, 2, 3, 7, 19):
        found = judged(*[(9, 1)] * canaries, settings=replace(SETTINGS, alpha=alpha))
        assert found.ledger.spent == pytest.approx(alpha, rel=1e-12)
        assert [canary.bound.confidence for canary in found.canaries] == pytest.approx(
            [1 - alpha / canaries] * canaries
        )
        assert found.headline.confidence == pytest.approx(1 - alpha)
        with pytest.raises(BudgetError):
            found.ledger.spend("more", 1e-6)


def test_an_attack_shares_its_alpha_wherever_its_canaries_stand():
    settings = replace(SETTINGS, trials=100)
    auditor, tally = Auditor(CLAIM, settings, 1), MemoryTally()
    mixed = [case(0, "exact"), case(0, "nonce"), case(1, "exact")]
    frozen = auditor.freeze(mixed, lambda _: [SYSTEM])
    auditor.play(frozen, lambda _: [SYSTEM], tally)
    exact, nonce = auditor.judge(frozen, lambda _: [SYSTEM], tally)
    assert (len(exact.canaries), len(nonce.canaries)) == (2, 1)
    assert [canary.bound.confidence for canary in exact.canaries] == pytest.approx([0.975] * 2)
    assert exact.ledger.spent == nonce.ledger.spent == pytest.approx(0.05)


def hidden(contributions, canary, mechanism):
    """Make our mechanism into a system without a law."""
    return CallableSystem(BankSystem(contributions, canary, mechanism).release, len(canary))


def test_a_system_without_a_law_has_no_exact_figures_and_three_rungs(people, bank, mechanism, sizes):
    found = audit(people, bank, mechanism, "exact", system=hidden, trials=5_000, sizes=sizes, canaries=1)
    (canary,) = found.canaries
    exact = (canary.supremum, canary.rule, canary.absent_rate, canary.eligible_rate, canary.exact)
    assert exact == (None,) * 5
    assert [rung.name for rung in found.ladder.rungs] == ["accounted", "mechanism", "observed"]
    assert len(found.ladder.steps) == 2
    assert found.ladder.reached("attack") is None
    assert (found.rows()[0]["exact_rule"], found.rows()[0]["exact_attack"]) == (None, None)
    assert found.to_polars()["exact_rule"].to_list() == [None]
    html = found._repr_html_()
    assert html.count("<tr>") == 4
    assert "None" not in html + repr(found) + str(found.only)


def test_an_audit_of_users_through_a_system_without_a_law(people, bank, mechanism, sizes):
    options = {"trials": 5_000, "sizes": sizes, "canaries": 1}
    found = audit(people, bank, mechanism, "exact", system=hidden, threshold="analytic", **options)
    own = audit(people, bank, mechanism, "exact", trial_engine="literal", **options)
    assert found.canaries[0].supremum is None
    # Without a law the threshold is calibrated, and the trials are the very ones that ours plays literally.
    assert found.canaries[0].threshold == own.canaries[0].threshold
    assert found.canaries[0].counts == own.canaries[0].counts


class Pretending(BankSystem):
    """A system that states the law of its claim and releases with a quarter of the noise."""

    def release(self, eligible, size, rng):
        quieter = replace(self.mechanism, sigma=self.mechanism.sigma / 4)
        return BankSystem(self.contributions, self.canary, quieter).release(eligible, size, rng)


def test_trials_are_what_a_system_releases_whatever_law_it_states(people, bank, mechanism, sizes):
    found = audit(people, bank, mechanism, "exact", system=Pretending, trials=50_000, sizes=sizes, canaries=1)
    assert found.headline.epsilon > epsilon(mechanism)
    assert found.canaries[0].supremum is None  # its counts cannot come from the law, so the law counts for nothing
    assert "does not release as its law states" in found.only.notes[-1]


def test_a_system_and_an_engine_go_by_their_names_too(people, bank, mechanism, sizes):
    options = {"sizes": sizes, "trials": 1_000, "canaries": 1}
    named = audit(people, bank, mechanism, "exact", system="mechanism", engine="serial", **options)
    assert named == audit(people, bank, mechanism, "exact", **options)
    with pytest.raises(CanarybankError, match="no engine 'threds'; did you mean 'threads'"):
        audit(people, bank, mechanism, "exact", engine="threds", **options)


def test_trials_in_which_the_canary_surely_takes_part_are_refused_before_any_trial(people, bank, mechanism, sizes):
    with pytest.raises(CanarybankError, match="only one round of our own system, without secret shares, has them"):
        audit(people, bank, mechanism, "exact", method="stratified", system=Pretending, sizes=sizes, trials=10**12)


def test_the_exact_figure_of_a_broken_system_is_not_cut_off_at_its_claim(people, bank, mechanism, sizes):
    def quieter(contributions, canary, mechanism):
        return BankSystem(contributions, canary, replace(mechanism, sigma=mechanism.sigma / 4))

    options = {"trials": 1_000, "sizes": sizes, "canaries": 1}
    found = audit(people, bank, mechanism, "exact", system=quieter, **options)
    assert found.canaries[0].exact > epsilon(mechanism)
    honest = audit(people, bank, mechanism, "exact", **options)
    assert honest.canaries[0].supremum.upper <= epsilon(mechanism)


@pytest.fixture(scope="module")
def several(people, bank, mechanism, sizes):
    return audit(people, bank, mechanism, ["ordinary", "exact", "nonce"], trials=5_000, sizes=sizes, canaries=2)


def test_several_attacks_are_one_result_with_a_row_for_each_canary(several):
    rows = several.rows()
    assert several.names == ("ordinary", "exact", "nonce")
    assert [(row["attack"], row["rounds"]) for row in rows] == [(name, 1) for name in several.names for _ in range(2)]
    canaries = [canary for each in several.attacks for canary in each.canaries]
    assert [row["bound"] for row in rows] == [canary.bound.epsilon for canary in canaries]
    assert [row["tp"] for row in rows] == [canary.counts.tp for canary in canaries]
    assert several.to_polars().to_dicts() == rows


def test_an_attack_among_several_is_what_it_is_alone(several, people, bank, mechanism, sizes):
    alone = audit(people, bank, mechanism, "nonce", trials=5_000, sizes=sizes, canaries=2)
    assert several.attack("nonce").headline.confidence == pytest.approx(0.95)
    assert alone.only.ladder.mechanism == several.attack("nonce").ladder.mechanism
    with pytest.raises(CanarybankError, match=r"several attacks, ordinary, exact, nonce; choose one by \.attack"):
        _ = several.headline
    with pytest.raises(CanarybankError, match="no attack 'exactly' here; there are ordinary, exact, nonce"):
        several.attack("exactly")


def test_the_words_and_the_html_of_several_attacks_name_each_claim(several):
    for each in several.attacks:
        claim = f"{each.attack}: epsilon >= {each.headline.epsilon:.3f} at 95% by paper, 5,000 trials"
        assert claim in repr(several)
        assert f"<strong>{each.attack}</strong>" in several._repr_html_()


@pytest.mark.parametrize("attacks", [[], ["exact", "exact"]])
def test_no_attack_and_an_attack_twice_are_refused(people, bank, mechanism, attacks):
    with pytest.raises(CanarybankError, match="at least one attack, and each once"):
        audit(people, bank, mechanism, attacks, trials=10)


def test_a_pandas_frame_without_pandas_says_what_to_install(several):
    if find_spec("pandas") is not None:
        pytest.skip("pandas is installed here")
    with pytest.raises(CanarybankError, match="needs pandas; run: pip install pandas"):
        several.to_pandas()


@pytest.mark.parametrize("threshold", ["calibrated", "analytic"])
def test_pooled_canaries_aim_at_one_branch(people, bank, sizes, threshold):
    # Where everybody takes part, both branches promise about the same to a canary alone. Rules of opposite branches
    # cancel each other in the summed counts: these canaries then show 0.000 together, and 2.4 to 2.9 alone.
    everybody = Mechanism(k=3, q=1.0)
    drawn = replace(sizes, canaries=3)
    options = {"trials": 20_000, "sizes": drawn, "canaries": 3, "threshold": threshold, "pool_size": 60}
    together, alone = (
        audit(people, bank, everybody, "nonce-mueff", method=method, **options)
        for method in ("pooled", "clopper-pearson")
    )
    assert together.headline.epsilon > 0.9 * alone.headline.epsilon > 2
    assert {canary.bound.branch for canary in together.canaries} == {together.headline.branch}
