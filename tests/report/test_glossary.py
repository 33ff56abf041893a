import re

import pytest

from canarybank.report import render_summary
from canarybank.report.glossary import find_term, glossary


def test_every_word_of_the_verdict_and_the_facts_that_is_a_term_leads_to_its_meaning(summary):
    html = render_summary(summary)
    words = [each["words"] for each in summary["verdict"]["numbers"]] + [name for name, _ in summary["facts"]]
    linked = [word for word in words if find_term(word)]
    assert {"Bank", "Canaries", "Mechanism", "budget claimed"} <= set(linked)
    for word in linked:
        assert f'href="#term-{find_term(word).key}">{word[0].upper()}{word[1:]}</a>' in html
    for term in glossary():
        assert f'id="term-{term.key}"' in html


def test_no_spelling_is_in_two_minds():
    spellings = [each.casefold() for term in glossary() for each in (term.term, *term.also)]
    assert sorted(spellings) == sorted(set(spellings))


@pytest.mark.parametrize("word", ["Canary", "CANARIES", "canary"])
def test_a_term_is_found_by_any_of_its_spellings(word):
    assert find_term(word).key == "canary"
    assert find_term("no such word") is None
    assert re.fullmatch(r"[a-z0-9-]+", find_term(word).key)
