import pytest
from markdown_it import MarkdownIt

from canarybank.report import gate_markdown, summary_markdown
from canarybank.run import gate


def tokens(text):
    flat = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        flat += [token, *(token.children or [])]
    return flat


def shown(text):
    return "".join(token.content for token in tokens(text) if token.type in {"text", "text_special"})


@pytest.fixture
def named(summary):
    """Return a function that gives what the table of attacks calls an attack of some name."""

    def name(text):
        written = summary_markdown(summary | {"attacks": [summary["attacks"][0] | {"name": text}]})
        table = written.partition("## Epsilon by attack")[2].partition("\n| --- |")[2]
        return table.splitlines()[1].removeprefix("| ").partition(" | ")[0]

    return name


@pytest.mark.parametrize(
    "text",
    ["a|b", "<b>x</b>", "*x* _y_ ~z~", "[x](http://y)", "![x](y)", "`code`", "$x$", "&lt;", "a\\b", "# x", "@me"],
)
def test_plain_text_is_shown_as_it_is(named, text):
    line = f"| a |\n| --- |\n| {named(text)} |"
    kinds = {token.type for token in tokens(line)}
    assert not kinds & {"html_inline", "link_open", "image", "em_open", "strong_open", "code_inline", "s_open"}
    assert shown(line) == f"a{text}"


def test_hosts_make_no_links_or_mentions_of_it(named):
    assert named("http://x.y www.x.y a@b") == r"http\://x.y www\.x.y a\@b"


def test_the_summary_holds_verdict_ladders_and_hashes(summary):
    text = summary_markdown(summary)
    assert summary["verdict"]["sentence"] in shown(text)
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
