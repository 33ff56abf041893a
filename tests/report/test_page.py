import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

from canarybank.report import render_html, render_summary

VOID = {"meta", "link", "input", "br", "img"}


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.ids, self.attributes, self.text, self.handlers = [], [], [], [], [], []
        self.raw = {"style": [], "script": []}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.raw.get(self.open[-1] if self.open else "", self.text).append(data)


@pytest.fixture(scope="module")
def html(run):
    return render_html(run)


@pytest.fixture(scope="module")
def page(html):
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_the_same_run_gives_the_same_bytes(run, html):
    assert render_html(run) == html


def test_the_page_is_one_small_file(html):
    assert html.startswith("<!DOCTYPE html>")
    assert len(html.encode()) < 600_000


def test_the_page_points_nowhere(page):
    targets = [value for _, name, value in page.attributes if name in {"href", "src", "action", "data", "xlink:href"}]
    assert all(target == "data:," or target.startswith("#") for target in targets)
    assert {target[1:] for target in targets if target.startswith("#")} <= set(page.ids)
    assert not re.search(r"url\(|@import|https?://", "".join(page.raw["style"] + page.raw["script"]))


def test_the_policy_allows_our_own_style_and_script_alone(page):
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and "default-src" in (value or ""))
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        content = "".join(page.raw[tag])
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"


def test_hostile_text_adds_no_markup(page, hostile):
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert any(hostile.split("\u202e", maxsplit=1)[0] in text for text in page.text)
    assert not any("\u202e" in text for text in page.text)


def test_ids_are_unique_and_labels_point_to_them(page):
    assert len(page.ids) == len(set(page.ids))
    named = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert {part for value in named for part in value.split()} <= set(page.ids)


def test_every_figure_has_a_text_alternative_and_its_numbers(html, summary):
    figures = re.findall(r"<figure.*?</figure>", html, flags=re.DOTALL)
    assert len(figures) == 3 + 4 * len(summary["attacks"])
    for figure in figures:
        assert figure.count('role="img"') == figure.count("<desc") == figure.count("<table") == 1


def test_the_order_is_that_of_the_questions(html):
    places = [
        html.index(f'id="{name}"')
        for name in ("verdict", "audited", "ladder", "epsilon", "evidence", "standing", "provenance")
    ]
    assert places == sorted(places)
    within = [html.index(f'id="figure-{name}-0"') for name in ("roc", "densities", "votes", "map")]
    assert within == sorted(within)


def test_what_must_be_said_is_said(page, summary):
    text = " ".join(" ".join(page.text).split())
    assert summary["verdict"]["sentence"] in text
    assert "This page is not differentially private." in text
    assert all(line in text for line in [*summary["assumptions"], *summary["limits"]])
    assert summary["provenance"]["hashes"][0][1] in text


def test_one_attack_needs_no_choice(summary):
    alone = summary | {"attacks": summary["attacks"][:1], "strongest": 0}
    html = render_summary(alone)
    assert 'id="choice"' not in html
    assert 'id="figure-overview"' not in html


def test_attacks_without_evidence_have_no_panel(summary):
    bare = summary | {"attacks": [attack | {"evidence": {}} for attack in summary["attacks"]]}
    assert 'id="evidence"' not in render_summary(bare)


def themes():
    style = resources.files("canarybank.report").joinpath("style.css").read_text(encoding="utf-8")
    found = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r"\{[^{}]*--paper:[^{}]*\}", style)
    ]
    assert len(found) == 4
    return found


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("index", range(4))
def test_text_and_marks_stand_out_in_every_theme(index):
    theme = themes()[index]
    texts = [
        ("ink", "paper"),
        ("soft", "paper"),
        ("ink", "sheet"),
        ("soft", "sheet"),
        ("exact", "paper"),
        ("care", "paper"),
    ]
    texts += [
        ("ink", "calm-sheet"),
        ("alarm", "alarm-sheet"),
        ("ink", "alarm-sheet"),
        ("ink", "care-sheet"),
        ("paper", "exact"),
    ]
    assert [pair for pair in texts if contrast(theme[pair[0]], theme[pair[1]]) < 4.5] == []
    marks = [
        ("canary", "paper"),
        ("exact", "paper"),
        ("other", "paper"),
        ("canary", "exact-soft"),
        ("calm", "calm-sheet"),
    ]
    assert [pair for pair in marks if contrast(theme[pair[0]], theme[pair[1]]) < 3.0] == []


def test_both_ways_to_dark_are_the_same():
    _, system, chosen, _ = themes()
    assert system == chosen


def test_a_run_that_is_called_as_what_it_is_is_named_once(summary):
    assert '<span class="run">audit</span>' in render_summary(summary | {"name": "audit"})
    assert '<span class="run">audit <bdi>mine</bdi></span>' in render_summary(summary | {"name": "mine"})
