import re
import tomllib
from importlib import resources

import pytest
from shown_pages import text_of

from canarybank.report import render_summary

TERMS = tomllib.loads(resources.files("canarybank.report").joinpath("glossary.toml").read_text(encoding="utf-8"))
SPELLINGS = {spelling.casefold(): key for key, term in TERMS.items() for spelling in (term["term"], *term["also"])}


@pytest.fixture(scope="module")
def page(summary):
    return render_summary(summary)


def test_every_word_of_the_verdict_and_the_facts_that_is_a_term_leads_to_its_meaning(summary, page):
    words = [each["words"] for each in summary["verdict"]["numbers"]] + [name for name, _ in summary["facts"]]
    linked = [word for word in words if word.casefold() in SPELLINGS]
    assert {"Bank", "Canaries", "Mechanism", "budget claimed"} <= set(linked)
    for word in linked:
        assert f'href="#term-{SPELLINGS[word.casefold()]}">{word[0].upper()}{word[1:]}</a>' in page


def test_a_word_that_is_no_term_leads_nowhere(summary):
    page = render_summary(summary | {"facts": [("CANARIES", "one"), ("no such word", "two")]})
    assert 'href="#term-canary">CANARIES</a>' in page
    assert "<dt>No such word</dt>" in page


def test_every_term_stands_on_the_page_with_its_meaning(page):
    text = text_of(page[page.index('id="glossary"') :])
    for key, term in TERMS.items():
        assert re.fullmatch(r"[a-z0-9-]+", key)
        assert f'id="term-{key}"' in page
        assert " ".join(term["meaning"].split()) in text


def test_no_spelling_is_in_two_minds():
    assert len(SPELLINGS) == sum(1 + len(term["also"]) for term in TERMS.values())
