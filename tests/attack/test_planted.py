import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from canarybank.attack import (
    CanaryStyle,
    ManyCanaries,
    canary_scores,
    exact_scores,
    make_canaries,
    phrase_facts,
    record_votes,
    share_of_votes,
)
from canarybank.encode import HashingEncoder, load_encoder
from canarybank.errors import InputError, MissingError
from canarybank.mechanism import Bank, Mechanism, contributions, route
from canarybank.score import Moments, normal_scores

COUNT, SIZE, SEED = 12, 200, 4
MECHANISM = Mechanism(k=4)
ENCODER = HashingEncoder()
PLACES = ("park", "soup", "rain", "dog", "tall", "blue", "bread", "walk", "cat", "sun")


def words(rng, count):
    return tuple(" ".join(rng.choice(PLACES, size=7)) + f" {rng.integers(10**6)}" for _ in range(count))


@pytest.fixture(scope="module")
def bank():
    texts = words(np.random.default_rng(0), SIZE)
    return Bank(ENCODER.encode(texts), texts).reserve(COUNT * MECHANISM.k, seed=1)


def made(style, bank, **given):
    given = {"count": COUNT, "seed": SEED, **given}
    count, seed = given.pop("count"), given.pop("seed")
    return make_canaries(style, count, ENCODER.encode, bank, MECHANISM, seed, **given)


@pytest.fixture(scope="module", params=list(CanaryStyle))
def many(request, bank):
    return made(request.param, bank)


def clipped_by_hand(canary, entries, mechanism):
    """Route record by record, by distances in float64, count votes, normalise, clip: the definition, literally."""
    votes = np.zeros(len(entries))
    for record in canary.vectors.astype(np.float64):
        distances = ((entries.astype(np.float64) - record) ** 2).sum(axis=1)
        votes[np.argsort(distances, kind="stable")[: mechanism.k]] += 1
    votes /= len(canary) * mechanism.k
    return votes * min(1.0, mechanism.clip / np.linalg.norm(votes))


def test_contributions_are_those_of_literal_routing_and_clipping(many, bank):
    planted = many.planted(bank)
    found = canary_scores(many, planted, MECHANISM)
    by_hand = np.array([clipped_by_hand(each, planted.vectors, MECHANISM) for each in many.canaries])
    assert found.contributions == pytest.approx(np.take_along_axis(by_hand, found.positions, axis=1), abs=1e-12)
    assert (np.linalg.norm(by_hand, axis=1) <= MECHANISM.clip * (1 + 1e-12)).all()


def test_without_a_background_a_score_is_the_projection_on_the_canary_in_noise_deviations(many, bank):
    found = canary_scores(many, many.planted(bank), MECHANISM)
    release = np.random.default_rng(2).normal(size=bank.size)
    for i, (where, v) in enumerate(zip(found.positions, found.contributions, strict=True)):
        assert found.scores(release)[i] == pytest.approx(v @ release[where] / np.linalg.norm(v) / MECHANISM.noise)
        assert found.shifts[i] == pytest.approx(np.linalg.norm(v) / MECHANISM.noise)
    assert (found.offsets == 0).all()
    assert (found.shifts <= 1 / MECHANISM.sigma).all()


def test_with_a_background_a_score_is_whitened_by_the_moments_of_its_own_probes(many, bank):
    planted, eligible = many.planted(bank), 300
    users = ENCODER.encode([*words(np.random.default_rng(3), 40), *many.probe_texts[:30]])
    routes, owners = route(users, planted, MECHANISM.k), np.arange(70) // 2
    votes = contributions(routes, owners, 35, planted.size, MECHANISM.clip)
    found = canary_scores(many, planted, MECHANISM, background=votes, eligible=eligible)
    for i, (where, v) in enumerate(zip(found.positions, found.contributions, strict=True)):
        moments = Moments.estimate(votes.toarray()[:, where], MECHANISM, eligible)
        inverse = np.linalg.inv(moments.covariance)
        shift = np.sqrt(v @ inverse @ v)
        assert found.shifts[i] == pytest.approx(shift)
        assert found.weights[i] == pytest.approx(inverse @ v / shift)
        assert found.weights[i] @ moments.covariance @ found.weights[i] == pytest.approx(1)
        assert found.offsets[i] == pytest.approx(found.weights[i] @ moments.mean)
    plain = canary_scores(many, planted, MECHANISM)
    assert (found.shifts <= plain.shifts + 1e-9).all()
    assert found.shifts.min() < plain.shifts.min()  # some of these users copy probes, so some backgrounds are loud


def test_scores_of_literal_releases_without_the_canaries_have_mean_zero_and_variance_one(bank):
    """Release user by user, by coins and noise; means stay within five deviations, so one in 10^5 such tests fails."""
    many, rng, runs = made(CanaryStyle.NONCE, bank), np.random.default_rng(6), 2000
    planted, users = many.planted(bank), 60
    records = ENCODER.encode([*words(rng, 2 * users - 30), *many.probe_texts[:30]])  # some are loud on probes
    owners = rng.permutation(np.arange(2 * users) // 2)
    votes = contributions(route(records, planted, MECHANISM.k), owners, users, planted.size, MECHANISM.clip)
    found = canary_scores(many, planted, MECHANISM, background=votes, eligible=users)
    table, scores = votes.toarray(), []
    for _ in range(runs):
        release = rng.normal(0.0, MECHANISM.noise, planted.size)
        for user in range(users):
            if rng.random() < MECHANISM.q:
                release += table[user]
        scores.append(found.scores(release))
    deviations = np.std(scores, axis=0)
    assert np.abs(np.mean(scores, axis=0)).max() < 5 * deviations.max() / np.sqrt(runs)
    assert deviations == pytest.approx(1, abs=0.12)


def test_a_release_with_a_canary_shifts_its_own_score_by_its_shift_and_no_other(bank):
    many = made(CanaryStyle.NONCE, bank)
    found = canary_scores(many, many.planted(bank), MECHANISM)
    for i in range(len(many)):
        release = np.zeros(bank.size)
        release[found.positions[i]] = found.contributions[i]
        expected = np.zeros(len(many))
        expected[i] = found.shifts[i]
        assert found.scores(release) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["wordllama", pytest.param("minilm", marks=[pytest.mark.models, pytest.mark.slow])])
def test_with_a_real_encoder_too(name, bank):
    try:
        encoder = load_encoder(name)
    except MissingError as error:
        pytest.skip(str(error))
    natural = Bank(encoder.encode(bank.texts), bank.texts, bank.reserved)
    shifts = {}
    for style in (CanaryStyle.NONCE, CanaryStyle.ORDINARY):
        many = make_canaries(style, COUNT, encoder.encode, natural, MECHANISM, SEED)
        shifts[style] = canary_scores(many, many.planted(natural), MECHANISM).shifts
    assert shifts[CanaryStyle.NONCE] == pytest.approx(1 / MECHANISM.sigma)
    assert shifts[CanaryStyle.ORDINARY].mean() > 0.8 / MECHANISM.sigma


@pytest.mark.parametrize("style", [CanaryStyle.NONCE, CanaryStyle.ADAPTIVE])
def test_every_nonce_canary_gives_all_that_a_user_can_to_its_own_probes(style, bank):
    many = made(style, bank)
    found = canary_scores(many, many.planted(bank), MECHANISM)
    assert found.contributions == pytest.approx(MECHANISM.clip / np.sqrt(MECHANISM.k))
    assert found.shifts == pytest.approx(1 / MECHANISM.sigma)


def test_some_votes_of_ordinary_looking_canaries_go_elsewhere(bank):
    many = made(CanaryStyle.ORDINARY, bank)
    shifts = canary_scores(many, many.planted(bank), MECHANISM).shifts
    assert (shifts > 0).all()
    assert shifts.min() < 1 / MECHANISM.sigma - 0.01


def test_probes_of_different_canaries_are_different_texts_at_different_positions(many, bank):
    positions = many.positions(bank)
    assert len(set(many.probe_texts)) == len(set(positions.ravel())) == COUNT * MECHANISM.k
    assert set(positions.ravel()) <= set(bank.reserved)
    assert not set(many.probe_texts) & set(bank.texts)
    planted = many.planted(bank)
    assert [each.id for each in many.canaries] == [f"canary-{i + 1}" for i in range(COUNT)]
    for i, canary in enumerate(many.canaries):
        own = many.probe_texts[i * MECHANISM.k : (i + 1) * MECHANISM.k]
        assert canary.texts == own
        assert [planted.texts[place] for place in positions[i]] == list(own)
        assert np.array_equal(planted.vectors[positions[i]], canary.vectors)


@pytest.mark.parametrize("style", CanaryStyle)
def test_the_same_seed_gives_the_same_canaries_and_another_seed_others(style, bank):
    one, again, other = made(style, bank), made(style, bank), made(style, bank, seed=SEED + 1)
    assert one.probe_texts == again.probe_texts
    assert np.array_equal(one.probe_vectors, again.probe_vectors)
    assert not set(one.probe_texts) & set(other.probe_texts)


def test_more_records_are_the_probes_in_turn_and_vote_alike(bank):
    few, more = made(CanaryStyle.NONCE, bank), made(CanaryStyle.NONCE, bank, records=4 * MECHANISM.k + 3)
    assert more.canaries[2].texts[:5] == (*few.canaries[2].texts, few.canaries[2].texts[0])
    assert len(more.canaries[2]) == 4 * MECHANISM.k + 3
    assert canary_scores(more, more.planted(bank), MECHANISM).contributions == pytest.approx(
        canary_scores(few, few.planted(bank), MECHANISM).contributions
    )


def test_adaptive_canaries_are_those_that_public_records_vote_for_least(bank):
    # Two in three candidates are loud: public records stand on their probes. The choice must be the quiet ones.
    wide = make_canaries("adaptive", COUNT, ENCODER.encode, bank, MECHANISM, SEED, public=ENCODER.encode(["a", "b"]))
    loud = np.repeat(wide.probe_vectors[: 2 * MECHANISM.k], 50, axis=0)
    chosen = make_canaries("adaptive", COUNT, ENCODER.encode, bank, MECHANISM, SEED, public=loud)
    assert not set(wide.probe_texts[: 2 * MECHANISM.k]) & set(chosen.probe_texts)
    # Nothing tells the others apart, so the lowest indices stay, in their order.
    assert chosen.probe_texts[: (COUNT - 2) * MECHANISM.k] == wide.probe_texts[2 * MECHANISM.k :]


def test_adaptive_canaries_stand_out_at_least_as_much_as_plain_ones(bank):
    public = bank.vectors
    found = {}
    for style in (CanaryStyle.NONCE, CanaryStyle.ADAPTIVE):
        many = made(style, bank, public=public)
        planted = many.planted(bank)
        votes = record_votes(public, planted, MECHANISM)
        found[style] = canary_scores(many, planted, MECHANISM, background=votes, eligible=3000).shifts.mean()
    assert found[CanaryStyle.ADAPTIVE] >= found[CanaryStyle.NONCE]


def test_the_share_of_votes_counts_what_probes_take():
    votes = np.array([[0.1, 0.0, 0.2, 0.0], [0.0, 0.3, 0.2, 0.2]])
    assert share_of_votes(votes, [[1], [3]]) == pytest.approx(0.5)
    assert share_of_votes(np.zeros((2, 4)), [1]) == 0


def test_a_canary_that_votes_for_no_probe_of_its_own_shifts_nothing_and_has_a_score_all_the_same(bank):
    many = made(CanaryStyle.NONCE, bank)
    stranger = ManyCanaries((many.canaries[1], many.canaries[0]), many.probe_texts[:8], many.probe_vectors[:8])
    found = canary_scores(stranger, stranger.planted(bank), MECHANISM)
    assert (found.contributions == 0).all()
    assert (found.shifts == 0).all()
    assert np.square(found.weights).sum(axis=1) * MECHANISM.noise**2 == pytest.approx(1)


@pytest.mark.parametrize(
    ("count", "message"), [(COUNT + 1, "13 canaries need 52 positions.*reserves 48"), (0, "at least one of each")]
)
def test_more_canaries_than_the_bank_reserves_positions_for_are_refused(bank, count, message):
    with pytest.raises(InputError, match=message):
        made(CanaryStyle.NONCE, bank, count=count)


def test_a_bank_without_the_probes_is_refused(bank):
    with pytest.raises(InputError, match="plant them first"):
        canary_scores(made(CanaryStyle.NONCE, bank), bank, MECHANISM)


def test_values_of_another_shape_are_refused(bank):
    many = made(CanaryStyle.NONCE, bank)
    found = canary_scores(many, many.planted(bank), MECHANISM)
    with pytest.raises(InputError, match="12 canaries with 4 probes"):
        found.scores_at_probes(np.zeros((COUNT, 3)))
    assert found.scores_at_probes(np.zeros((6, COUNT, 4))).shape == (6, COUNT)


def test_no_two_facts_share_a_phrasing_and_more_than_there_are_is_refused():
    rng, said = np.random.default_rng(0), r"there are ([\d,]+) facts with (\d+) phrasings\. Lower one_run\.canaries or "
    with pytest.raises(InputError, match=said) as refused:
        phrase_facts(10**9, 5, rng)
    facts, phrasings = (int(each.replace(",", "")) for each in re.search(said, str(refused.value)).groups())
    texts = [text for fact in phrase_facts(facts, phrasings, rng) for text in fact]
    assert len(set(texts)) == len(texts) == facts * phrasings
    assert all(text[0].isupper() and text.endswith(".") for text in texts)
    for more in ((facts + 1, 5), (1, phrasings + 1)):
        with pytest.raises(InputError, match=said):
            phrase_facts(*more, rng)


def crossed(bank):
    """Return canaries, how they are read, and what three users and all canaries contribute; some to others' probes."""
    many = made(CanaryStyle.NONCE, bank)
    planted = many.planted(bank)
    reading = canary_scores(many, planted, MECHANISM)
    votes = np.zeros((3 + COUNT, planted.size))
    votes[:3, reading.positions[:, 0]] = 0.03 * np.random.default_rng(0).random((3, COUNT))
    np.put_along_axis(votes[3:], reading.positions, reading.contributions, axis=1)
    votes[3 + 2, reading.positions[5]] = 0.02  # canary 2 votes for the probes of canary 5
    return reading, votes


def test_what_a_voter_adds_to_a_score_is_how_its_contribution_scores(bank):
    reading, votes = crossed(bank)
    assert reading.projected(csr_array(votes)).toarray() == pytest.approx(
        np.array([reading.scores(row) + reading.offsets for row in votes])
    )
    drawn = np.random.default_rng(0).standard_normal((4000, bank.size)) * MECHANISM.noise
    assert np.std([reading.scores(row) for row in drawn], axis=0) == pytest.approx(reading.noise(MECHANISM), rel=0.06)


def test_exact_scores_take_users_off_by_their_tails_and_other_canaries_by_their_coins(bank):
    reading, votes = crossed(bank)
    took = np.arange(COUNT) % 2 == 0  # canary 2 took part, canary 5 did not
    release = took @ votes[3:]
    known = exact_scores(reading, reading.scores(release), csr_array(votes), MECHANISM, took)
    added = [reading.scores(row) + reading.offsets for row in votes[:3]]
    own = np.where(took, reading.projected(votes)[3:].diagonal(), 0.0)
    assert known == pytest.approx(normal_scores(own, np.array(added), MECHANISM.q, reading.noise(MECHANISM)))
    unknown = exact_scores(reading, reading.scores(release), csr_array(votes), MECHANISM)
    assert np.flatnonzero(np.abs(unknown - known) > 1e-9).tolist() == [5]
    assert unknown[5] > known[5]


def test_exact_scores_do_not_depend_on_how_a_release_was_centred(bank):
    reading, votes = crossed(bank)
    release = np.random.default_rng(1).standard_normal(bank.size) * MECHANISM.noise
    centred = replace(reading, offsets=np.full(COUNT, 0.7))
    one, other = (exact_scores(each, each.scores(release), votes, MECHANISM) for each in (reading, centred))
    assert one == pytest.approx(other)
