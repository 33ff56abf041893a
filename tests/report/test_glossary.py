import doctest
import re
from collections import Counter

from canarybank.report import glossary
from canarybank.report.glossary import read_glossary

DESIGNED = (
    "user",
    "cohort",
    "bank",
    "probe",
    "contribution",
    "release",
    "mechanism",
    "system",
    "canary",
    "pool",
    "attack",
)
DESIGNED += ("score", "observed bound", "claim", "nonce", "gap ladder", "verdict", "commitment")


def test_no_spelling_leads_to_two_terms():
    spellings = Counter(spelling for word in read_glossary() for spelling in {word.term, *word.also})
    assert [spelling for spelling, times in spellings.items() if times > 1] == []


def test_an_anchor_can_stand_in_a_page_and_a_meaning_is_a_few_sentences():
    for word in read_glossary():
        assert re.fullmatch(r"[a-z][a-z-]*", word.key), word.key
        assert 1 <= len(re.findall(r"\.(?:\s|$)", word.meaning)) <= 4, word.key
        assert word.meaning.endswith("."), word.key


def test_the_words_of_the_design_are_explained():
    assert set(DESIGNED) <= {word.term for word in read_glossary()}


def test_the_example_runs():
    assert doctest.testmod(glossary) == (0, 1)
