"""Search among people who paste keys, where random strings are loud, and hold the search to what it says."""

import sys
from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest

from canarybank.attack import (
    ATTACKS,
    CanaryKind,
    SearchFacts,
    canary_contribution,
    design,
    nonce_canary,
    nonce_pool,
    nonces,
    predicted_epsilon,
    search,
)
from canarybank.attack.background import background, choose_decoys, gaps, least_alike, margin, nobody_elses
from canarybank.attack.search import wanted_probes
from canarybank.encode import WordLlamaEncoder
from canarybank.errors import CohortError, InputError
from canarybank.mechanism import Bank, Mechanism, Routed, route
from canarybank.score import Interval, RoundLaw, quick_epsilon, supremum
from canarybank.users import Auxiliary, Evaluation, Users

search_module = sys.modules[search.__module__]  # the name in the package is the function
MECHANISM, ELIGIBLE, RECORDS, LIMIT = Mechanism(), 120, 12, 1.6845438
WORDS = tuple("please run the build again and paste what it prints when the job fails on my machine".split())  # noqa: SIM905


def said(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, size=6))


def written(rng: np.random.Generator) -> str:
    """Return what these people write: now and then a key, which is as random as a nonce."""
    return nonces(1, rng)[0] if rng.random() < 0.3 else said(rng)


@dataclass(frozen=True)
class Scene:
    bank: Bank
    auxiliary: Routed[Auxiliary]
    evaluation: Routed[Evaluation]
    encode: object

    def search(self, **changes):
        options = {"eligible": ELIGIBLE, "encode": self.encode, "records": RECORDS, "seed": 4, **changes}
        mechanism = options.pop("mechanism", MECHANISM)
        return search(self.bank, options.pop("routed", self.auxiliary), mechanism, **options)

    def reached(self, made, mechanism=MECHANISM):
        """Return the exact epsilon of a design on the evaluation users."""
        votes = self.evaluation.contributions(made.bank, mechanism)[:, made.inspected]
        return supremum(RoundLaw.of(made.score, votes, made.contribution, mechanism), mechanism.delta).point

    def frozen(self, canary, pool, mechanism=MECHANISM):
        options = {"eligible": ELIGIBLE, "pool": pool, "probes": len(pool), "seed": 4}
        return design(ATTACKS["searched"], canary, self.bank, self.auxiliary, mechanism, **options)


@pytest.fixture(scope="module")
def scene():
    encode, rng = WordLlamaEncoder().encode, np.random.default_rng(0)
    texts = tuple(dict.fromkeys(said(rng) for _ in range(400)))
    bank = Bank(encode(texts), texts).reserve(24, seed=1)
    people = {}
    for role, count in (("auxiliary", 60), ("evaluation", ELIGIBLE)):
        people[role] = Users.from_vectors(
            {f"{role}-{i}": encode([written(rng) for _ in range(RECORDS)]) for i in range(count)}
        )
    routed = Routed.build(Auxiliary(people["auxiliary"]), bank, MECHANISM.k)
    return Scene(bank, routed, Routed.build(Evaluation(people["evaluation"]), bank, MECHANISM.k), encode)


@pytest.fixture(scope="module")
def found(scene):
    return scene.search()


def test_the_search_spends_the_budget_where_nonces_do_not(scene, found):
    canary = nonce_canary(RECORDS, scene.encode, 4)
    options = {"eligible": ELIGIBLE, "pool": nonce_pool(scene.encode), "pool_size": 128, "seed": 4}
    paper = design(ATTACKS["nonce-mueff"], canary, scene.bank, scene.auxiliary, MECHANISM, **options)
    ours = scene.reached(scene.frozen(*found))
    assert scene.reached(paper) < 0.9 * LIMIT
    assert ours >= 0.97 * LIMIT
    facts = found[1].search
    assert facts.expected.lower <= ours <= facts.expected.upper
    assert facts.expected.upper <= facts.limit == pytest.approx(LIMIT, abs=1e-6)


def test_the_facts_are_what_routing_and_the_law_say(scene, found):
    canary, pool = found
    facts = pool.search
    bank = scene.bank.with_probes(pool.vectors, pool.texts)
    votes = route(canary.vectors, bank, MECHANISM.k)
    assert np.isin(votes, bank.reserved[: facts.probes]).all()
    assert facts.concentration == pytest.approx(1.0)
    assert (facts.probes, facts.probes + facts.decoys) == (MECHANISM.k, len(pool))
    assert facts.users == 30
    assert 0 <= facts.epsilon <= facts.limit
    assert facts.examples[:2] == pool.texts[:2]
    assert facts.candidates > 500
    assert not facts.falls_short
    assert str(facts).startswith(f"Found among {facts.candidates:,} texts ({facts.family}): ")
    assert len(canary) == RECORDS
    assert canary.kind is CanaryKind.NONCE


def test_the_same_seed_finds_the_same_and_another_canary_gets_other_texts(scene):
    few = {"families": ["greek", "yi"]}
    one, again, other = (scene.search(index=index, **few) for index in (0, 0, 1))
    assert one[0].texts == again[0].texts
    assert one[1].texts == again[1].texts
    assert one[1].vectors.tobytes() == again[1].vectors.tobytes()
    assert one[1].search == again[1].search
    assert not set(one[0].texts) & set(other[0].texts)
    assert one[1].search.family in few["families"]
    assert (one[0].id, other[0].id) == ("searched-0", "searched-1")


def test_only_auxiliary_users_may_be_looked_at(scene):
    with pytest.raises(CohortError, match="Evaluation was given"):
        scene.search(routed=scene.evaluation)


def test_what_may_not_be_planted_is_not_planted(scene):
    def accept(texts, vectors):
        assert len(texts) == len(vectors)
        return np.array([not any(letter in "aeiou" for letter in text) for text in texts])

    _, pool = scene.search(families=["hexadecimal", "greek", "facts"], accept=accept)
    assert pool.search.family == "greek"
    assert accept(pool.texts, pool.vectors).all()
    with pytest.raises(InputError, match="No text of these families may be planted"):
        scene.search(families=["greek"], accept=lambda texts, _: np.zeros(len(texts), dtype=bool))


def test_a_search_that_cannot_work_says_why(scene):
    with pytest.raises(InputError, match="at least k = 5 probes, and 4 positions"):
        scene.search(probes=4)
    with pytest.raises(InputError, match="None of the chosen families wrote a text"):
        scene.search(families=["vocabulary"])


def test_a_search_without_room_for_decoys_plants_k_probes(scene):
    _, pool = scene.search(probes=5, families=["yi"])
    assert len(pool) == 5
    assert pool.search.decoys == 0


def test_one_auxiliary_user_is_both_parts(scene):
    users = scene.auxiliary.cohort.users.take([0])
    alone = Routed.build(Auxiliary(users), scene.bank, MECHANISM.k)
    facts = scene.search(routed=alone, families=["yi"])[1].search
    assert facts.users == 0
    assert "on the one auxiliary user, none held out," in str(facts)
    assert "of the 1 users" in str(replace(facts, epsilon=0.1))


def test_the_halves_are_disjoint_and_together_everybody(scene):
    one, other = search_module._halves(scene.auxiliary, 4)
    assert len(one) == len(other) == 30
    assert not set(one.cohort.users.ids) & set(other.cohort.users.ids)
    again = Routed.build(one.cohort, scene.bank, MECHANISM.k)
    np.testing.assert_array_equal(one.table.positions, again.table.positions)
    np.testing.assert_array_equal(one.table.records, again.table.records)


def test_the_background_of_a_text_is_who_votes_for_it_planted_alone(scene):
    texts = ["0123456789abcdef0123", "please run", "\u1362\u1362", "president"]
    vectors = scene.encode(texts)
    loudness, margins, shares = background(scene.auxiliary, vectors, MECHANISM.k)
    users = scene.auxiliary.cohort.users
    found = gaps(scene.auxiliary.table, vectors, MECHANISM.k)
    known = []
    for place, vector in enumerate(vectors):
        entries = np.concatenate((scene.bank.vectors[scene.bank.base], vector[None]))
        voted = (route(users.vectors, entries, MECHANISM.k) == len(entries) - 1).any(axis=1)
        np.testing.assert_array_equal(voted, found[:, place] < 0)
        share = np.bincount(users.owners, weights=voted) / users.counts
        assert loudness[place] == pytest.approx(np.square(share).sum())
        known.extend(share[share > 0])
        assert margins[place] == pytest.approx(np.sort(found[:, place])[:20].mean(), rel=1e-5)
    assert sorted(known) == pytest.approx(sorted(shares))
    assert loudness[1] > loudness[3]


def test_decoys_keep_records_from_voting_and_leave_the_canary_s_votes_alone(scene):
    encode, k, table = scene.encode, MECHANISM.k, scene.auxiliary.table
    probes = encode([" ".join(["build fails"] * n) for n in range(1, k + 1)])
    decoys = encode([f"build fails {text}" for text in scene.bank.texts[:120]])
    chosen = choose_decoys(table, probes, decoys, k, 15)
    assert len(set(chosen)) == len(chosen) <= 15
    bare, full = margin(table, probes, decoys[:0], k), margin(table, probes, decoys[chosen], k)
    assert full > bare
    assert full > margin(table, probes, decoys[:15], k)
    own, both = (Bank(np.concatenate((scene.bank.vectors, probes, more))) for more in (decoys[:0], decoys[chosen]))
    votes = [
        np.isin(route(table.records, bank, k), np.arange(scene.bank.size, scene.bank.size + k)).sum()
        for bank in (own, both)
    ]
    assert votes[1] < votes[0] / 2
    kept = nobody_elses(probes, probes, np.concatenate((decoys, probes[:1])), k)
    assert len(decoys) not in kept
    assert choose_decoys(table, probes, decoys[:0], k, 15) == []


def test_an_exchange_takes_the_quieter_probe(scene):
    """Of two texts close together, the probe is loud and the record quiet: they change places."""
    halves = search_module._halves(scene.auxiliary, 4)
    writer = search_module._Writer(
        search_module.Scene(scene.bank, MECHANISM, ELIGIBLE, scene.bank.reserved, *halves),
        scene.encode, RECORDS, (), None, 4, 0, "searched",
    )  # fmt: skip
    quiet = ["zebra opera", "opera zebra zebra", "zebra zebra opera opera", "opera opera zebra", "zebra opera opera"]
    loud = ["zebra opera 9aKx2LmQ7dRt0bWz4cVn8sHj1gFp6yTe"]
    planted = [*quiet[:4], *loud]
    rest = ["zebra opera zebra opera zebra", *quiet[4:]]
    canary = writer._canary(rest, scene.encode(rest))
    before = search_module.Candidate("words", canary, scene.encode(planted), tuple(planted), 5)
    judged = writer.scene.judge(before, held_out=False)
    after = writer.exchanged(judged)
    assert loud[0] not in after.texts
    assert sorted({*after.texts, *after.canary.texts}) == sorted({*planted, *rest})
    assert writer.scene.judge(after, held_out=False).epsilon > judged.epsilon
    barred = replace(writer, accept=lambda texts, _: np.array([text not in rest for text in texts]))
    assert barred.exchanged(judged) is before


@pytest.mark.parametrize(
    ("changes", "places", "wanted"),
    [
        ({}, 64, (1, 5)),
        ({"k": 3}, 3, (1, 3)),
        ({"entry_cap": 0.1}, 64, (1, 5)),
        ({"entry_cap": 0.1 / 3}, 64, (2, 5)),
        ({"entry_cap": 0.1 / 9}, 64, (12, 5)),
        ({"entry_cap": 0.1 / 9}, 100, (17, 5)),
        ({"share": 0.5}, 64, (1, 1)),
        ({"share": 0.1}, 64, (1, 4)),
        ({"share": 0.5, "entry_cap": 0.1 / 3}, 64, (9, 1)),
    ],
)
def test_the_probes_that_are_wanted_follow_from_the_mechanism(changes, places, wanted):
    assert wanted_probes(Mechanism(**changes), places) == wanted


def test_a_cap_on_entries_is_met_by_several_groups(scene):
    mechanism = Mechanism(entry_cap=MECHANISM.clip / 3)
    canary, pool = scene.search(mechanism=mechanism, families=["greek", "yi", "thai", "made-up words"])
    assert pool.search.probes == 10
    made = scene.frozen(canary, pool, mechanism)
    assert made.contribution.max() <= mechanism.entry_cap
    assert scene.reached(made, mechanism) >= 0.97 * LIMIT
    one_group = scene.search(families=["greek"])
    assert scene.reached(scene.frozen(*one_group, mechanism), mechanism) < 0.9 * LIMIT


@pytest.mark.parametrize(("share", "cores"), [(0.6, 1), (0.25, 2)])
def test_a_secret_share_is_met_by_few_probes_that_every_record_votes_for_first(scene, share, cores):
    mechanism = Mechanism(share=share)
    canary, pool = scene.search(mechanism=mechanism, families=["yi"])
    assert (pool.search.probes, pool.search.decoys) == (cores, 0)
    # What is known here is the epsilon of votes over the whole bank, which is none behind a share.
    assert (pool.search.epsilon, pool.search.expected, pool.search.falls_short) == (None, None, False)
    assert str(pool.search).endswith("behind their secret shares is computed by canarybank.defend.reach.")
    assert SearchFacts.from_dict(asdict(pool.search)) == pool.search
    made = scene.frozen(canary, pool, MECHANISM)
    votes = canary_contribution(made.table, made.bank, MECHANISM)
    own, others = votes[made.inspected], np.delete(votes, made.inspected)
    # Each core has the vote of every record; the other votes are spread, and nothing has nearly as many.
    assert np.allclose(own, own[0])
    assert others.max() < own[0] / 2
    assert np.linalg.norm(others) < 0.7 * np.linalg.norm(own)


def test_least_alike_takes_what_shares_least_with_what_was_taken():
    votes = np.array([[0, 1], [0, 1], [0, 2], [3, 4]])
    assert least_alike(votes, 3) == [0, 3, 2]
    assert least_alike(votes, 9) == [0, 3, 2, 1]
    assert least_alike(votes[:0], 2) == []


def test_a_search_that_falls_short_names_what_is_in_the_way():
    facts = SearchFacts(
        family="yi", examples=("a", "b"), probes=5, decoys=3, votes=(3, 9), voters=4, users=30, background=0.123,
        concentration=0.9, epsilon=1.0, expected=Interval(0.9, 1.1), level=0.95, limit=1.6845, candidates=1200,
    )  # fmt: skip
    assert str(facts).endswith(
        "What is in the way: 4 of the 30 users vote for the probes, 3 to 9 records a probe, and 12.3% of the score's "
        "variance is theirs; the canary puts 90.0% of its contribution on the probes."
    )
    assert "in the way" not in str(replace(facts, epsilon=1.64))
    assert "7 records a probe" in str(replace(facts, votes=(7, 7)))


def coverage(unseen: list[float], splits: int = 60) -> float:
    """Return how often the range predicted from 30 users holds the epsilon on 100 others of the same population."""
    rng, held = np.random.default_rng(1), 0
    law = RoundLaw(np.zeros(1), 1.0, 1.0, 0.5, 0.1)
    for _ in range(splits):
        # One user of thirty votes, with from one to four records: many splits show none of these.
        drawn = np.where(rng.random(130) < 1 / 30, 0.1 * rng.integers(1, 5, 130), 0.0)
        options = {"eligible": 100, "delta": 1e-5, "limit": LIMIT, "rng": rng, "draws": 39}
        expected = predicted_epsilon(law, drawn[:30], np.array(unseen), **options)
        held += expected.contains(quick_epsilon(replace(law, weights=drawn[30:]), 1e-5))
    return held / splits


def test_the_stated_interval_holds_as_often_as_it_says():
    # At 95%, fewer than 51 of 60 splits hold with probability 5e-4, and by the fixed seed never again.
    assert coverage([0.1, 0.2, 0.3, 0.4]) >= 0.85
    # Without somebody unseen it would say that nobody ever votes wherever nobody was seen to.
    assert coverage([0.0], 30) < 0.85
