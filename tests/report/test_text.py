from dataclasses import replace

import pytest

from canarybank.report import summarise_run
from canarybank.wording import sentence_case

HIDING = (0x202E, 0x2066, 0x200B, 0x061C, 0xFEFF, 0x00AD, 0xE0041, 0x0000, 0x001B, 0x009F, 0xD800)
NOTE = 600


@pytest.fixture
def shown(changed):
    """Return a function that gives notes of a run as its summary shows them."""

    def show(*notes):
        return summarise_run(changed(attacks=(), notes=notes))["notes"][-len(notes) :]

    return show


def test_characters_that_hide_or_reorder_are_written_out(shown):
    assert shown(*(f"a{chr(code)}b" for code in HIDING)) == [f"a⟨U+{code:04X}⟩b" for code in HIDING]


def test_white_space_becomes_single_spaces(shown):
    assert shown(" a\n\n b\tc\u00a0\u2028 d ") == ["a b c d"]


def test_ordinary_text_of_any_script_stays(shown):
    texts = ["héllo wörld", "שלום", "漢字", "👩\u200d🔬", "naïve — “quoted”"]
    assert shown(*texts) == texts


def test_long_text_is_cut(shown):
    assert shown("x" * 10_000, "x" * NOTE) == ["x" * NOTE + "…", "x" * NOTE]


def test_the_cost_of_a_huge_text_is_that_of_its_cut(shown):
    assert [len(each) for each in shown("\u202e" * 1_000_000)] == [NOTE * len("⟨U+202E⟩") + 1]


def test_piles_of_marks_are_cleared(shown):
    assert shown("a" + "\u0301" * 50 + "b") == ["a" + "\u0301" * 3 + "b"]


def test_names_are_short(changed, run):
    first, *others = run.results.attacks
    canaries = (replace(first.canaries[0], canary="u" * 500), *first.canaries[1:])
    named = changed(attacks=(replace(first, canaries=canaries), *others))
    assert summarise_run(named)["attacks"][0]["canaries"][0]["id"] == "u" * 48 + "…"


def test_one_is_singular_and_all_else_plural(changed, run):
    sizes = {"bank": 1, "probes": 3, "evaluation": 1}
    one = dict(summarise_run(changed(setup=run.results.setup.model_copy(update=sizes)))["facts"])
    assert one["Bank"] == "1 entry, 3 positions for probes"
    assert one["Records"].endswith("1 user eligible")
    sizes = {"bank": 2_000, "probes": 1, "evaluation": 0}
    many = dict(summarise_run(changed(setup=run.results.setup.model_copy(update=sizes)))["facts"])
    assert many["Bank"] == "2,000 entries, 1 position for probes"
    assert many["Records"].endswith("0 users eligible")


@pytest.mark.parametrize("name", ["mu_eff", "mechanism.sigma", "runs/a", "5% to 95%", ""])
def test_a_heading_begins_as_a_sentence_and_a_name_stays(name):
    assert sentence_case("exact TPR") == "Exact TPR"
    assert sentence_case(name) == name
