"""Search everything that we say for claims that an audit can never support."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".html", ".js", ".md", ".toml", ".txt", ".json", ".tex", ".jinja", ".j2"}

_BEING = r"(?:is|are|was|were|be|being|stays?|remains?|keeps?\s+\w+|makes?\s+\w+|proven|proved|certified|now)"
_VERY = r"(?:\s+(?:\w+ly|now|all|thus|therefore|itself|themselves|completely|\(?epsilon,?\s*delta\)?-))?"
CLAIMS = re.compile(
    rf"\b{_BEING}{_VERY}\s+(?:private|safe|secure|anonymous|harmless)\b(?!\s+(?:to\s+say|text|users|records|data))"
    r"|\bpass(?:es|ed|ing)?\s+(?:the|this|our|an|its)\s+(?:privacy\s+)?(?:audit|gate)\b"
    r"|\baudit\s+(?:was\s+|has\s+)?(?:passed|succeeded|successful)\b"
    r"|\b(?:guarantee[sd]?|ensure[sd]?|prove[sd]?|proven)\s+(?:\w+\s+)?(?:privacy|safety|anonymity)\b"
    r"|\bprivacy\s+(?:is|was)\s+(?:guaranteed|ensured|proven|preserved)\b"
    r"|\bsafe\s+to\s+(?:release|publish|ship|launch|share)\b"
    r"|\bno\s+(?:privacy\s+)?leak(?:age|s)?\b"
    r"|\bleaks?\s+nothing\b",
    re.IGNORECASE,
)
NEGATION = re.compile(r"\b(?:not|no|never|nor|neither|nothing|cannot|without)\b|n't\b", re.IGNORECASE)
WORDS_BEFORE = 6


def sources():
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for folder in ("src", "docs", "examples"):
        pages += sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return [path for path in pages if path.is_file() and "/data/" not in path.as_posix()]


def flat(text):
    """Join what a line break, a string's end or a tag keeps apart."""
    joined = re.sub(r"""["']\s*\n\s*[rfb]{0,2}["']""", "", text)
    return re.sub(r"\s+", " ", re.sub(r"<[^<>\n]*>|\n\s*#|[*_`]", " ", joined))


def claims(text):
    """Return the claims in a text that are not denied in the same sentence, shortly before or inside."""
    plain = flat(text)
    found = []
    for match in CLAIMS.finditer(plain):
        sentence = re.split(r"[.;:!?]\s", plain[: match.start()])[-1]
        nearby = " ".join([*sentence.split()[-WORDS_BEFORE:], match.group()])
        own_negation = match.group().lower().startswith(("no ", "leak"))
        if own_negation or not NEGATION.search(nearby):
            found.append(plain[max(0, match.start() - 40) : match.end() + 20])
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_claims_what_an_audit_cannot_show(path):
    assert claims(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "Your mechanism is private.",
        "the release is provably safe",
        '"The model passed "\n    "the audit."',
        "This guarantees privacy.",
        "it ensures user privacy",
        "The data\nis\nsafe.",
        "The synthetic text is <strong>private</strong>.",
        "The audit passed.",
        "It is safe to publish the text.",
        "There is no leakage.",
        "Not a word was lost. The mechanism is private.",
        "# the bank\n# is private",
    ],
)
def test_a_claim_is_found(text):
    assert claims(text)


@pytest.mark.parametrize(
    "text",
    [
        "This page is not differentially private.",
        "A bound below the claim never means that a mechanism is private.",
        "No violation detected at this power.",
        "They are not private.",
        "It does not pass the audit to show little.",
        "private text stays on the server",
    ],
)
def test_a_denial_is_no_claim(text):
    assert not claims(text)


def test_the_search_sees_code_templates_and_documents():
    names = {path.suffix for path in sources()}
    assert {".py", ".html", ".md"} <= names
    assert len(sources()) > 100
