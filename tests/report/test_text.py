import pytest

from canarybank.report.text import clean, counted, label
from canarybank.wording import sentence_case


@pytest.mark.parametrize("code", [0x202E, 0x2066, 0x200B, 0x061C, 0xFEFF, 0x00AD, 0xE0041, 0x0000, 0x001B, 0x009F])
def test_characters_that_hide_or_reorder_are_written_out(code):
    assert clean(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


def test_lone_surrogates_can_be_written_as_utf8():
    assert clean("a\ud800b").encode() == "a⟨U+D800⟩b".encode()


def test_white_space_becomes_single_spaces():
    assert clean(" a\n\n b\tc\u00a0\u2028 d ") == "a b c d"


@pytest.mark.parametrize("text", ["héllo wörld", "שלום", "漢字", "👩\u200d🔬", "naïve — “quoted”"])
def test_ordinary_text_of_any_script_stays(text):
    assert clean(text) == text


def test_long_text_is_cut():
    assert clean("x" * 10_000, 100) == "x" * 100 + "…"
    assert clean("x" * 100, 100) == "x" * 100


def test_the_cost_of_a_huge_text_is_that_of_its_cut():
    assert len(clean("\u202e" * 1_000_000, 10)) == 10 * len("⟨U+202E⟩") + 1


def test_piles_of_marks_are_cleared():
    assert clean("a" + "\u0301" * 50 + "b") == "a" + "\u0301" * 3 + "b"


def test_labels_are_short():
    assert len(label("u" * 500)) == 49


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("user",), "1 user"),
        (0, ("user",), "0 users"),
        (2_000, ("user",), "2,000 users"),
        (1, ("entry", "entries"), "1 entry"),
        (3, ("entry", "entries"), "3 entries"),
    ],
)
def test_one_is_singular_and_all_else_plural(number, words, said):
    assert counted(number, *words) == said


@pytest.mark.parametrize("name", ["mu_eff", "mechanism.sigma", "runs/a", "5% to 95%", ""])
def test_a_heading_begins_as_a_sentence_and_a_name_stays(name):
    assert sentence_case("exact TPR") == "Exact TPR"
    assert sentence_case(name) == name
