import pytest
from hypothesis import given
from hypothesis import strategies as st

from canarybank.errors import InputError
from canarybank.generate import Cleaned, Cleaning, Rejection, Strip, fold

CLEANING = Cleaning()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  I went  home\tearly today. ", "I went home early today."),
        ('"I went home early today."', "I went home early today."),
        ("“I went home early today.”", "I went home early today."),
        ('I went home early today."', "I went home early today."),
        ("1. I went home early today.", "I went home early today."),
        ("- I went home early today.", "I went home early today."),
        ("(2) **I went home early today.**", "I went home early today."),
        ('Sure, here is a message: "I went home early today."', "I went home early today."),
        ("Sure! Here's one:\n\n1. I went home early today.\n2. Another one here.", "I went home early today."),
        ("Of course! Here are some texts for you:\nI went home early today.", "I went home early today."),
        ("Chat message: I went home early today.", "I went home early today."),
        ("I went home early today. It was fine. Then I slept.", "I went home early today. It was fine."),
        ("I went home\u200b early\x00 today.", "I went home early today."),
        ("Here's to a good week, I went home early.", "Here's to a good week, I went home early."),
        ("My mom said: go home early today.", "My mom said: go home early today."),
        ("I'd love a café au lait, don't you?", "I'd love a café au lait, don't you?"),
    ],
)
def test_wrapping_is_stripped_and_nothing_else(raw, expected):
    assert CLEANING.clean(raw) == expected


@pytest.mark.parametrize(
    ("raw", "strips"),
    [
        ("  I went  home\tearly today. ", set()),
        ("I'd love a café au lait, don't you?", set()),
        ("My mom said: go home early today.", set()),
        ("I went home early today. \nAnother one here.", set()),
        ("I went home\u200b early\x00 today.", set()),
        ("I went home early today. It was fine. Then I slept.", set()),
        ('"I went home early today."', {Strip.QUOTES}),
        (' "I went home early today." ', {Strip.QUOTES}),
        ('I went home early today."', {Strip.QUOTES}),
        ("**I went home early today.**", {Strip.QUOTES}),
        ("'I went home early today.' It was fine. 'Then I slept.'", {Strip.QUOTES}),
        ("1. I went home early today.", {Strip.NUMBERING}),
        ("- I went home early today.", {Strip.NUMBERING}),
        ("Chat message: I went home early today.", {Strip.PREAMBLE}),
        ("Sure! Here's one:\n\nI went home early today.", {Strip.PREAMBLE}),
        ('Sure, here is a message: "I went home early today."', {Strip.PREAMBLE, Strip.QUOTES}),
        ('Here are three:\n1. "I went home early today."', set(Strip)),
        ('"1. Message: I went home early today."', set(Strip)),
    ],
)
def test_what_was_stripped_is_told_and_nothing_else(raw, strips):
    judged = CLEANING.judge(raw)
    assert isinstance(judged, Cleaned)
    assert judged.stripped == strips
    assert judged.text == CLEANING.clean(raw)


def test_quotes_around_what_is_left_of_the_sentences_are_told_as_well():
    cut = Cleaning(sentences=1).judge("'I went home early today.' Then I slept.")
    assert cut == Cleaned("I went home early today.", frozenset({Strip.QUOTES}))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", Rejection.EMPTY),
        ('""', Rejection.EMPTY),
        ("I'm sorry, but I can't help with that.", Rejection.REFUSAL),
        ("As an AI language model, I have no dog.", Rejection.REFUSAL),
        ("I cannot provide a message about this topic.", Rejection.REFUSAL),
        ("Hi [friend's name], how are you today?", Rejection.META),
        ("See https://example.org for all of it.", Rejection.META),
        ("I'm here to help you with your day.", Rejection.META),
        ("Сегодня я пошёл домой рано, и это хорошо.", Rejection.LANGUAGE),
        ("12345 67890 12 34 56", Rejection.LANGUAGE),
        ("Heute bin ich früh nach Hause gegangen und habe geschlafen.", Rejection.LANGUAGE),
        ("Too short.", Rejection.SHORT),
        (" ".join(["word", "other", "thing", "for", "me", "and", "you"] * 5), Rejection.LONG),
        ("I like it and I like it and I like it.", Rejection.REPETITIVE),
        ("no no no no I will not.", Rejection.REPETITIVE),
    ],
)
def test_each_rule_rejects_what_it_names(raw, reason):
    assert CLEANING.clean(raw) is reason
    assert CLEANING.judge(raw) is reason


def test_a_cut_sentence_is_dropped_or_rejects_the_text():
    cut = "I went home early today. Then I was about to"
    assert CLEANING.clean(cut, finished=False) == "I went home early today."
    assert CLEANING.clean("I was about to go and", finished=False) is Rejection.TRUNCATED
    assert CLEANING.clean("I was about to go and", finished=True) == "I was about to go and"
    assert Cleaning(whole=False).clean("I was about to go and", finished=False) == "I was about to go and"


def test_sentences_beyond_the_longest_are_dropped_whole():
    text = "I went home early today. It was a very long walk in the rain."
    assert Cleaning(longest=8).clean(text) == "I went home early today."
    assert Cleaning(sentences=None, longest=30).clean(f"{text} I slept.") == f"{text} I slept."


def test_language_rules_can_be_switched_off():
    loose = Cleaning(latin=None, common=None)
    assert loose.clean("Сегодня я пошёл домой рано.") == "Сегодня я пошёл домой рано."


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_cleaned_within_the_rules_or_rejected_and_cleaning_is_stable(raw, finished):
    cleaned = CLEANING.clean(raw, finished=finished)
    if not isinstance(cleaned, Rejection):
        assert 4 <= len(fold(cleaned).split()) <= 30
        assert cleaned == cleaned.strip()
        assert "\n" not in cleaned


def test_banned_words_are_rejected_as_words():
    strict = Cleaning(banned=frozenset({"ass"}))
    assert strict.clean("What an Ass he is today.") is Rejection.BANNED
    assert strict.clean("I have a class again today.") == "I have a class again today."
    assert strict.to_json()["banned"] == ["ass"]


def test_rules_that_nothing_could_pass_are_refused():
    with pytest.raises(InputError, match="5 to 4"):
        Cleaning(shortest=5, longest=4)
    with pytest.raises(InputError, match="sentence"):
        Cleaning(sentences=0)


@pytest.mark.parametrize(
    "text", ['She told me: "I am going there now.', "It was a **very** long day for us.", "We read it by St. _"]
)
def test_open_quotations_and_formatting_are_rejected_where_texts_must_be_tidy(text):
    assert Cleaning(tidy=True, whole=False).clean(text) is Rejection.TRUNCATED
    assert Cleaning(tidy=False, whole=False).clean(text) is not Rejection.TRUNCATED
    assert Cleaning(tidy=True).clean('She told me: "I am going there now."') == 'She told me: "I am going there now."'
