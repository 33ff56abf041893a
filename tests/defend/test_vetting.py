"""Vetting: every measure against a naive twin, closed forms, and what must hold of any verdict."""

import math
import unicodedata
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from canarybank.attack import nonces, phrase_facts
from canarybank.defend import LEVELS, FalseAlarms, Measure, PublicText, Vetting, smallest_bank, vet
from canarybank.defend.characters import ALPHABET, ORDER, WEIGHT, Characters
from canarybank.defend.nearness import closest, similarity_of_share, vote_margins
from canarybank.defend.vetting import MeasuredBank, spread_out, standardise
from canarybank.encode import load_encoder
from canarybank.errors import InputError
from canarybank.flow import embedded_bank
from canarybank.mechanism import Bank

TEXTS = ["the cat sat", "the dog sat", "a cat ran", "The  CAT sat!", "xq zj", "", "日本語 text", "a cat"]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("wordllama")


@pytest.fixture(scope="module")
def entries():
    return embedded_bank().texts[:700]


@pytest.fixture(scope="module")
def bank(encoder, entries):
    return Bank(encoder.encode(entries), entries)


@pytest.fixture(scope="module")
def check():
    return Vetting.load()


def planted(encoder, bank, texts):
    return Bank(np.concatenate([bank.vectors, encoder.encode(texts)]), (*bank.texts, *texts))


def sequences(text, length):
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    padded = "\0" * (ORDER - 1) + folded + "\0"
    return [padded[end - length : end] for end in range(ORDER, len(padded) + 1)]


def naive_surprise(texts, position, left_out, counted):
    """The definition, one character at a time."""
    others = [texts[i] for i in range(len(texts)) if i not in left_out and counted[i]]
    holds = [[set(sequences(text, length)) for text in others] for length in range(1, ORDER + 1)]
    bits = []
    for longest in sequences(texts[position], ORDER):
        likelihood = 1 / ALPHABET
        for length in range(1, ORDER + 1):
            sequence = longest[-length:]
            seen = sum(sequence in each for each in holds[length - 1])
            before = sum(s[:-1] == sequence[:-1] for each in holds[length - 1] for s in each)
            likelihood = (seen + WEIGHT * likelihood) / (before + WEIGHT)
        bits.append(-math.log2(max(likelihood, 1 / ALPHABET)))
    return sum(bits) / len(bits)


@pytest.mark.parametrize("counted", [None, np.array([False, True, True, False, True, True, True, True])])
def test_surprise_is_the_naive_sum_over_characters(counted):
    left_out = np.array([[i, (i + 1) % len(TEXTS)] for i in range(5)])
    fast = Characters.of(TEXTS).surprise(left_out, counted)
    every = np.ones(len(TEXTS), bool) if counted is None else counted
    slow = [naive_surprise(TEXTS, i, set(map(int, row)), every) for i, row in enumerate(left_out)]
    np.testing.assert_allclose(fast, slow, rtol=1e-12)


def test_the_likelihoods_of_all_next_characters_sum_to_one():
    """Over every character of the bank and the end of a text; the rest of the alphabet is alike."""
    texts = ["abab", "abba", "bcbc", "cabb"]
    known, counted = [*"abc", ""], np.array([False, True, True, True, True])

    def after_ab(last):
        return Characters.of([f"ab{last}", *texts]).likelihoods(np.array([[0]]), counted)[1][2]

    total = sum(map(after_ab, known)) + (ALPHABET - len(known)) * after_ab("z")
    assert total == pytest.approx(1, rel=1e-12)


def test_overlap_is_the_jaccard_index_of_sets_of_sequences():
    others = np.array([[1, 3], [0, 2], [7, 0]])
    fast = Characters.of(TEXTS).overlap(others)
    for i, row in enumerate(others):
        for j, other in enumerate(row):
            mine, theirs = set(sequences(TEXTS[i], ORDER)), set(sequences(TEXTS[other], ORDER))
            assert fast[i, j] == pytest.approx(len(mine & theirs) / len(mine | theirs), rel=1e-12)


def test_folding_drops_case_width_and_runs_of_space():
    same = Characters.of(["  ＡＢＣ\t\n De  f ", "abc de f", "abcdef"])
    assert same.overlap(np.array([[1]])) == 1 > same.overlap(np.array([[2]]))


def unit(rng, count, dimension=6):
    vectors = rng.normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_closest_are_the_largest_cosines_of_others():
    vectors = unit(np.random.default_rng(0), 40)
    vectors[3] = vectors[7]
    found, cosines = closest(vectors, vectors, 5, np.arange(40))
    for i in range(40):
        values = [(float(vectors[i] @ vectors[j]), j) for j in range(40) if j != i]
        best = [c for c, _ in sorted(values, reverse=True)[:5]]
        np.testing.assert_allclose(cosines[i], best, atol=1e-6)
        assert i not in found[i]


def test_a_vector_with_many_copies_never_counts_itself():
    vectors = np.repeat(unit(np.random.default_rng(1), 2), 10, axis=0)
    found, cosines = closest(vectors, vectors, 4, np.arange(20))
    assert all(i not in row for i, row in enumerate(found))
    np.testing.assert_allclose(cosines, 1, atol=1e-6)


def test_the_similarity_of_a_share_is_an_order_statistic():
    rng = np.random.default_rng(2)
    vectors, others = unit(rng, 9), unit(rng, 100)
    fast = similarity_of_share(vectors, others, 0.05)
    slow = np.sort(vectors @ others.T, axis=1)[:, -6]  # five of the others exceed it
    np.testing.assert_allclose(fast, slow, rtol=1e-6)


def test_the_margin_is_positive_exactly_for_entries_that_get_a_vote():
    rng = np.random.default_rng(3)
    entries, records, k = unit(rng, 60), unit(rng, 50), 3
    margins = vote_margins(entries, entries, records, k)
    voted = {int(j) for record in records for j in np.argsort(-(entries @ record))[:k]}
    assert {int(i) for i in np.flatnonzero(margins > 0)} == voted
    for i in (0, 17):
        slow = max(entries[i] @ r - np.sort([entries[j] @ r for j in range(60) if j != i])[-k] for r in records)
        assert margins[i] == pytest.approx(slow, abs=1e-6)


def test_an_exponential_tail_stands_at_its_mean_of_extremes():
    """On the scale of a bank an exponential measure has unit scale, so the j-th largest is near log(p / 5j)."""
    values = -np.log(1 - (np.arange(100_000) + 0.5) / 100_000)
    standard = np.sort(standardise(values * 7 + 3, Measure.SURPRISE))[::-1]
    for j in LEVELS:
        assert standard[j - 1] == pytest.approx(math.log(0.2 * 100_000 / (j - 0.5)), abs=0.01)
    assert np.mean(standard > 0) == pytest.approx(0.2, abs=1e-4)


def test_few_planted_values_cannot_move_the_scale():
    rng = np.random.default_rng(4)
    values = rng.exponential(size=1000)
    moved = np.append(values, np.full(20, 1e9))
    before, after = standardise(values, Measure.SURPRISE), standardise(moved, Measure.SURPRISE)[:1000]
    assert np.abs(after - before).max() < 1.5
    assert (np.argsort(after) == np.argsort(before)).all()


@pytest.mark.parametrize(("banks", "alarms"), [(59, 0), (80, 1), (100, 7)])
def test_the_false_alarm_bound_is_clopper_pearson(banks, alarms):
    upper = FalseAlarms(banks, alarms).upper
    assert binom.cdf(alarms, banks, upper) == pytest.approx(0.05, rel=1e-9)
    assert f"at most {upper:.1%}" in str(FalseAlarms(banks, alarms))
    assert FalseAlarms(3, 3).upper == 1.0


def test_fifty_nine_clean_banks_bound_the_rate_by_five_percent():
    assert FalseAlarms(58, 0).upper > 0.05 > FalseAlarms(59, 0).upper


def test_thresholds_grow_with_the_bank_and_fall_with_the_rank(check):
    for measure in check.factors:
        small, large = check.thresholds(measure, 256), check.thresholds(measure, 8192)
        assert set(small) < set(large) == set(LEVELS)
        assert all(small[j] < large[j] for j in small)
        assert large[1] / check.factors[measure][0] == pytest.approx(math.log(0.2 * 8192))


def test_the_embedded_bank_is_not_called_shaped(bank, check):
    verdict = check.vet(bank.texts, bank.vectors)
    assert not verdict.is_shaped
    assert verdict.flagged == ()
    assert verdict.statement.startswith("Nothing found")
    assert str(verdict.false_alarms) in verdict.statement


@pytest.mark.parametrize("count", [2, 5, 24])
def test_planted_nonces_are_flagged_and_barred(encoder, bank, check, count):
    texts = nonces(count, np.random.default_rng(count))
    shaped = planted(encoder, bank, texts)
    verdict = check.vet(shaped.texts, shaped.vectors)
    assert verdict.is_shaped
    places = set(range(bank.size, shaped.size))
    assert places <= set(verdict.flagged)
    assert places <= set(check.barred(shaped))
    assert set(verdict.worst(count)) == places
    assert verdict.scores[list(places)].min() > np.delete(verdict.scores, list(places)).max()
    assert f"{len(verdict.flagged)} entries stand out" in verdict.statement


def test_variants_of_one_text_do_not_make_each_other_usual(encoder, bank, check):
    core = " ".join(nonces(2, np.random.default_rng(8)))
    variants = [f"{core} {number}" for number in range(5)]
    shaped = planted(encoder, bank, variants)
    found = {finding.measure: finding for finding in check.vet(shaped.texts, shaped.vectors).findings}
    places = set(range(bank.size, shaped.size))
    assert places <= set(found[Measure.SURPRISE].entries)
    assert places <= set(found[Measure.COPIES].entries) | set(found[Measure.CROWD].entries)


def test_what_is_accepted_is_not_barred_when_it_is_planted(encoder, bank, check):
    rng = np.random.default_rng(5)
    offered = [
        *nonces(12, rng),
        *(text for group in phrase_facts(6, 2, rng) for text in group),
        "I like long walks with my dog.",
        "We had pizza and ice cream yesterday.",
    ]
    screen = check.screen(bank)
    passed = screen.accept(offered, encoder.encode(offered))
    assert not passed[:12].any()
    assert passed[12:].sum() >= 10
    chosen = [text for text, ok in zip(offered, passed, strict=True) if ok]
    shaped = planted(encoder, bank, chosen)
    assert not check.vet(shaped.texts, shaped.vectors).is_shaped
    assert not set(check.barred(shaped)) & set(range(bank.size, shaped.size))
    np.testing.assert_array_equal(check.accept(offered, encoder.encode(offered), bank=bank), passed)


def test_a_text_alone_passes_where_its_copies_do_not(encoder, bank, check):
    text = "My neighbour grows tomatoes on the roof of the garage."
    copies = [text, *(f"{text[:-1]} {more}." for more in ("here", "now", "again", "too"))]
    vectors = encoder.encode(copies)
    screen = check.screen(bank)
    assert screen.accept(copies, vectors, together=False).all()
    assert not screen.accept(copies, vectors, together=True).any()


def test_public_text_makes_its_own_words_usual_and_adds_a_measure(encoder, bank, check, entries):
    odd = ["zorblax quixt 77-vv blorg"]
    public = PublicText((*odd * 9, *entries[:200]), encoder.encode([*odd * 9, *entries[:200]]))
    shaped = planted(encoder, bank, odd)
    without, with_public = (check.vet(shaped.texts, shaped.vectors, public=each) for each in (None, public))
    assert Measure.NO_VOTES in with_public.standard
    assert Measure.NO_VOTES not in without.standard
    surprise = [verdict.standard[Measure.SURPRISE][-1] for verdict in (without, with_public)]
    assert surprise[1] < surprise[0] / 2
    assert with_public.values[Measure.NO_VOTES][-1] < 0  # a public record votes for it


def test_the_verdict_depends_on_entries_and_not_on_their_order(encoder, bank, check):
    texts = [*bank.texts, *nonces(3, np.random.default_rng(6))]
    order = np.random.default_rng(7).permutation(len(texts))
    moved = [texts[i] for i in order]
    first, second = (check.vet(each, encoder.encode(each)) for each in (texts, moved))
    for measure in first.values:
        if measure is not Measure.ISOLATION or len(texts) <= 1024:
            np.testing.assert_allclose(first.values[measure][order], second.values[measure], atol=1e-5)
    assert {int(order[i]) for i in second.flagged} == set(first.flagged)


def test_each_level_counts_entries_beyond_it(check):
    rng = np.random.default_rng(9)
    base = rng.exponential(size=2048)
    for j in LEVELS:
        line = check.thresholds(Measure.SURPRISE, 2048)[j]
        start, end = np.quantile(base, [0.8, 0.9])
        value = start + (end - start) / math.log(2) * line
        for count, offset in ((j, 1.05), (j, 0.8)):
            values = base.copy()
            values[:count] = start + (value - start) * offset
            finding = check._finding(Measure.SURPRISE, standardise(values, Measure.SURPRISE, base), values)
            assert (j in finding.levels) == (offset > 1)


@pytest.mark.parametrize("share", [0.06, 0.12, 0.3, 0.42])
def test_a_large_planted_share_cannot_hide_by_widening_the_scale(encoder, bank, check, share):
    count = round(share * bank.size)
    texts = (*bank.texts[count:], *nonces(count, np.random.default_rng(11)))
    shaped = Bank(encoder.encode(texts), texts)
    verdict = check.vet(texts, shaped.vectors)
    assert verdict.is_shaped
    places = set(range(bank.size - count, bank.size))
    assert len(places & set(verdict.flagged)) > 0.95 * count
    assert len(set(check.barred(shaped)) - places) < 0.05 * bank.size


def test_the_spread_counts_in_units_of_the_lower_half():
    values = np.arange(101.0)
    np.testing.assert_allclose(spread_out(values), (values - 50) / 40)


def test_a_check_needs_texts_of_a_real_bank(bank, check):
    with pytest.raises(InputError, match=rf"63 entries is too small.*at least {smallest_bank(5)}"):
        vet(bank.texts[:63], bank.vectors[:63])
    with pytest.raises(InputError, match="700 texts but 699 bank entry vectors"):
        vet(bank.texts, bank.vectors[:-1])
    with pytest.raises(InputError, match="without texts cannot be vetted"):
        check.barred(Bank(bank.vectors))
    with pytest.raises(InputError, match="without texts cannot be vetted"):
        check.screen(Bank(bank.vectors))
    with pytest.raises(InputError, match="zero, so it has no direction"):
        vet(bank.texts, np.zeros_like(bank.vectors))
    with pytest.raises(InputError, match="all above zero"):
        Vetting({Measure.CROWD: (1.0, 0.0, 1.0, 1.0, 1.0)}, {})


def test_vectors_of_any_length_give_the_same_verdict(bank, check):
    first, second = check.vet(bank.texts, bank.vectors), check.vet(bank.texts, bank.vectors * 3)
    np.testing.assert_allclose(first.scores, second.scores, atol=1e-4)


def test_the_shipped_record_judges_both_kinds_of_inputs_on_enough_other_banks(check):
    assert len(check.judged) == 2
    for judged in check.judged.values():
        assert judged.banks >= 59
        assert judged.upper < 0.15
    assert set(check.factors) == set(Measure) - {Measure.PERPLEXITY}
    assert Counter(len(each) for each in check.factors.values()) == {len(LEVELS): len(Measure) - 1}


@pytest.mark.parametrize("together", [True, False])
def test_planted_texts_are_measured_as_entries_of_the_bank_are(encoder, bank, check, entries, together):
    """The short way of the screen gives what vetting the whole bank with them in it gives."""
    public = PublicText(entries[:90], encoder.encode(entries[:90]))
    texts = [*nonces(2, np.random.default_rng(10)), "I love my dog so much.", "I love my dog so much!", "ok", "ᏣᎳᎩ 7"]
    vectors = encoder.encode(texts)
    fast = check.screen(bank, public=public)._body.measure_planted(texts, vectors, together=together)
    groups = [texts] if together else [[text] for text in texts]
    usual = check.screen(bank, public=public)._body.usual
    slow = {measure: [] for measure in fast}
    for group in groups:
        whole = planted(encoder, bank, group)
        made = MeasuredBank.of(whole.texts, whole.vectors, public, 5)
        length = made.characters.lengths[bank.size : whole.size]
        shift = (made.usual - usual) * length / (length + 16)  # the median moves with what is planted
        for measure in (Measure.SURPRISE, Measure.CROWD, Measure.COPIES):
            values = made.values[measure][bank.size :]
            slow[measure] += list(values + (shift if measure is Measure.SURPRISE else 0))
    for measure in (Measure.SURPRISE, Measure.CROWD, Measure.COPIES):
        np.testing.assert_allclose(fast[measure], slow[measure], atol=1e-5)
    margins = vote_margins(vectors, bank.vectors, public.vectors, 5)
    np.testing.assert_allclose(fast[Measure.NO_VOTES], -margins, atol=1e-6)
