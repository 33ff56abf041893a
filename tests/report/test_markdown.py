import pytest
from markdown_it import MarkdownIt

from canarybank.report import gate_markdown, summary_markdown
from canarybank.report.tables import plain
from canarybank.run import gate


def tokens(text):
    flat = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        flat += [token, *(token.children or [])]
    return flat


def shown(text):
    return "".join(token.content for token in tokens(text) if token.type in {"text", "text_special"})


@pytest.mark.parametrize(
    "text",
    ["a|b", "<b>x</b>", "*x* _y_ ~z~", "[x](http://y)", "![x](y)", "`code`", "$x$", "&lt;", "a\\b", "# x", "@me"],
)
def test_plain_text_is_shown_as_it_is(text):
    line = f"| a |\n| --- |\n| {plain(text)} |"
    kinds = {token.type for token in tokens(line)}
    assert not kinds & {"html_inline", "link_open", "image", "em_open", "strong_open", "code_inline", "s_open"}
    assert shown(line) == f"a{text}"


def test_hosts_make_no_links_or_mentions_of_it():
    assert plain("http://x.y www.x.y a@b") == r"http\://x.y www\.x.y a\@b"


def test_the_summary_holds_verdict_ladders_and_hashes(summary):
    text = summary_markdown(summary)
    assert summary["verdict"]["sentence"] in text
    assert text.count("| ordinary |") == 1
    assert summary["provenance"]["hashes"][0][1] in text
    assert not {"html_block", "html_inline", "image", "link_open"} & {token.type for token in tokens(text)}
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("claimed", "words"), [(1.695, "no violation detected at this power"), (0.0, "violation detected")]
)
def test_the_gate_says_what_it_found(run, claimed, words):
    outcome = gate(run, claimed)
    text = gate_markdown(outcome)
    assert text.splitlines()[0] == f"### Privacy audit gate: {words}"
    assert outcome.statement in text
    assert outcome.attacks[0].bound.assumption in text
    assert all(f"| {each.attack} |" in text for each in outcome.attacks)
