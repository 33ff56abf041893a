"""Say before one run what it could show, by both protocols, and what its canaries take."""

from pathlib import Path

import pytest

from canarybank.auditing import Coins, RunDeclaration, RunEvidence
from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow import plan
from canarybank.mechanism import Claim, Mechanism, epsilon

CARRIES = {"evolve.audit_one_run": True, "evolve.rounds": 3, "one_run.share": 0.4, "mechanism.q": 0.5}
DESIGNED = {"system.one_run": True, "system.rounds": 2, "one_run.canaries": 16, "mechanism.q": 0.5}


@pytest.fixture
def planned(flags, tmp_path):
    """Return a function that plans with these flags over the small ones."""
    return lambda given: plan(resolve(flags={**flags, **given}), tmp_path / "run")


def test_a_plan_without_one_run_says_nothing_of_it(planned):
    assert planned({}).one_run is None


@pytest.mark.parametrize(
    ("given", "canaries", "rounds"), [(CARRIES, 20, 3), (DESIGNED, 16, 2)], ids=["evolve", "system"]
)
def test_a_plan_says_what_the_canaries_take_and_what_each_method_would_show(planned, given, canaries, rounds):
    found, mechanism = planned(given).one_run, Mechanism(k=3, q=0.5)
    assert (found.canaries, found.probes, found.bank, found.rounds) == (canaries, 3, 150, rounds)
    assert found.share == canaries * 3 / 150
    assert (found.q, found.sigma, found.claimed) == (0.5, 1.0, epsilon(mechanism, rounds))
    assert 0 <= found.votes < 0.5
    assert 0 < found.shift <= found.limit == 1.0
    known, fair = (
        RunDeclaration(Claim.of(mechanism, rounds), canaries, coins, found.shift) for coins in (Coins.KNOWN, Coins.FAIR)
    )
    assert [(each.coins, each.evidence, each.is_chosen) for each in found.expected] == [
        (Coins.KNOWN, RunEvidence.KNOWN_COINS, True),
        (Coins.FAIR, RunEvidence.ORDER_STATISTICS, False),
        (Coins.FAIR, RunEvidence.GUESSING, False),
    ]
    for each, declared in zip(found.expected, (known, fair, fair), strict=True):
        expected = declared.expected(each.evidence)
        assert (each.median, each.low, each.high) == (expected.median, expected.q05, expected.q95)
    assert found.power == known.power
    assert found.shows
    assert f"an epsilon of {found.expected[0].median:.3g} of {found.claimed:.4g}, by known-coins" in found.statement
    assert f"{canaries * 3} of 150 entries" in found.cost
    assert ("MAUVE" in found.cost) == (given is CARRIES)


def test_where_one_run_cannot_show_anything_the_plan_says_so_and_what_would(planned):
    found = planned({**CARRIES, "one_run.coins": "fair", "mechanism.q": 0.1, "evolve.rounds": 1}).one_run
    assert not found.shows
    assert all(each.high == 0 for each in found.expected if each.is_chosen)
    assert found.statement.startswith(
        "One run cannot show anything here: with 20 canaries, fair coins, q 0.1 and 1 release, a bound above 0 has a "
        "chance below 5%."
    )


def test_the_other_protocol_is_named_where_it_shows_more(planned):
    found = planned({**CARRIES, "one_run.coins": "fair", "mechanism.q": 0.3}).one_run
    best = next(each for each in found.expected if each.evidence is RunEvidence.KNOWN_COINS)
    assert best.median > 0
    assert not best.is_chosen
    assert f"With one_run.coins known, known-coins would typically show an epsilon of {best.median:.3g}." in (
        found.statement
    )


def test_a_bank_that_carries_too_few_canaries_is_refused_with_the_remedy(planned):
    with pytest.raises(ConfigError, match=r"one_run\.share is 0\.05 of a bank of 150 entries"):
        planned({**CARRIES, "one_run.share": 0.05})


def test_a_bank_that_is_still_to_be_generated_is_planned_with_perfect_canaries(planned, answering):
    generated = {
        "generator.kind": "scripted_answers:write",
        "bank.source": "generate",
        "bank.labels": "cats,dogs",
        "bank.size": 400,
        "attack.names": "nonce",
    }
    with answering(lambda _: "x", "planned"):
        found = planned({**CARRIES, **generated}).one_run
    assert (found.canaries, found.bank, found.votes, found.shift) == (53, 400, None, 1.0)
    assert "not known before there is a bank" in found.cost


def test_no_users_record_is_in_what_a_plan_says_of_a_real_run(flags, tmp_path):
    """One more user, whose records are anything, changes nothing of it."""
    rows = Path(flags["users.source"]).read_text()
    more = tmp_path / "more.csv"
    more.write_text(rows + "".join(f"newcomer,the cat sat on blue stone {n}\n" for n in range(8)))
    found = [
        plan(resolve(flags={**flags, **CARRIES, "evolve.users": 10, "users.source": str(source)}), tmp_path / "run")
        for source in (flags["users.source"], more)
    ]
    assert found[0].users + 1 == found[1].users
    assert found[0].one_run == found[1].one_run
