import numpy as np
import pytest

from canarybank.errors import GenerationError, InputError
from canarybank.generate import ScriptedGenerator, fold, make_paraphrases, paraphrase_plan, trigram_similarity

RECORDS = ["I love my old red bike.", "the rain will not stop", 'she said "hello" to me', "   "]
ENDINGS = ["today", "yesterday", "tonight", "again", "soon", "sometimes", "often", "never", "always", "maybe"]


def rewording(request):
    record = request.prompt.split('"')[1].rstrip(".")
    return f'{request.opening}{record} {ENDINGS[request.seed % 10]}" and so on'


def test_a_pool_holds_distinct_rewordings_spread_over_the_records():
    pool = make_paraphrases(ScriptedGenerator(rewording), RECORDS[:3], 12, seed=2)
    assert len(pool) == len({fold(t) for t in pool.texts}) == 12
    assert [pool.sources.count(i) for i in range(3)] == [4, 4, 4]
    assert not {fold(t) for t in pool.texts} & {fold(r) for r in RECORDS}
    expected = trigram_similarity([RECORDS[i] for i in pool.sources], pool.texts)
    np.testing.assert_array_equal(pool.similarities, expected)
    assert pool.counters["kept"] == 12


def test_copies_of_any_record_are_never_taken():
    replies = ["i LOVE my old, red bike", "The rain will not stop!", "My old red bike is what I love."]
    generator = ScriptedGenerator([*replies, *[""] * 20])
    pool = make_paraphrases(generator, RECORDS[:2], 1, similarity=lambda _, texts: np.ones(len(texts)), tries=30)
    assert pool.texts == ("My old red bike is what I love.",)
    assert pool.counters["verbatim"] == 2


def test_drift_is_rejected_by_the_similarity_that_is_passed_in():
    def similarity(sources, texts):
        assert set(sources) == {RECORDS[0]}
        return [0.9 if text.endswith(("today", "soon")) else 0.1 for text in texts]

    pool = make_paraphrases(ScriptedGenerator(rewording), RECORDS[:1], 2, similarity=similarity, minimum=0.5, tries=40)
    assert sorted(t.split()[-1] for t in pool.texts) == ["soon", "today"]
    assert set(pool.similarities) == {0.9}
    assert pool.counters["dissimilar"] > 0
    assert pool.provenance["similarity"] == "similarity"


def test_too_few_distinct_ones_are_an_error_and_no_repeat():
    with pytest.raises(GenerationError, match=r"wrote 10 of 11 paraphrases in 220 answers.*duplicate"):
        make_paraphrases(ScriptedGenerator(rewording), RECORDS[:1], 11, tries=20)


def test_texts_that_exist_already_are_not_written_again():
    first = make_paraphrases(ScriptedGenerator(rewording), RECORDS[:1], 5, seed=1, tries=40)
    second = make_paraphrases(ScriptedGenerator(rewording), RECORDS[:1], 5, seed=2, tries=40, existing=first.texts)
    assert not set(first.texts) & set(second.texts)


def test_records_of_any_text_make_requests_and_prompts_vary():
    plan = paraphrase_plan(RECORDS, 8, tries=10)
    requests = plan.requests()
    assert len(requests) == 4 * 20
    assert len({r.temperature for r in requests}) == 3
    assert len({r.prompt for r in requests if "bike" in r.prompt}) > 4
    assert any("she said 'hello' to me" in r.prompt for r in requests)


def test_the_trigram_cosine_is_one_for_equals_and_zero_for_strangers():
    values = trigram_similarity(["Hello there", "abc", "one two three"], ["hello, there!", "xyz", "one two four"])
    assert values[0] == pytest.approx(1.0)
    assert values[1] < 0.2
    assert 0.3 < values[2] < 0.9


@pytest.mark.parametrize(
    ("options", "match"),
    [({"records": []}, "no records"), ({"tries": 0}, "At least one"), ({"prompt": "bank-label"}, "record")],
)
def test_what_cannot_be_made_is_refused(options, match):
    with pytest.raises(InputError, match=match):
        make_paraphrases(ScriptedGenerator(rewording), **({"records": RECORDS, "size": 2} | options))


def test_a_similarity_of_the_wrong_shape_is_refused():
    with pytest.raises(InputError, match="one for each"):
        make_paraphrases(ScriptedGenerator(rewording), RECORDS[:1], 1, similarity=lambda *_: 0.5)
