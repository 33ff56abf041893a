import polars as pl
import pytest

from canarybank.errors import DataError, GenerationError, InputError
from canarybank.generate import CandidateBank, Prompt, ScriptedGenerator, bank_plan, load_prompt, make_bank

NOUNS = [
    "dog",
    "cat",
    "tea",
    "rain",
    "snow",
    "song",
    "film",
    "book",
    "bike",
    "train",
    "boat",
    "cake",
    "soup",
    "shoe",
    "hat",
    "lamp",
    "desk",
    "door",
    "wall",
    "road",
]
EXAMPLES = [f"The {noun} of my uncle is really old." for noun in NOUNS[:6]]


def varied(request):
    i = request.seed
    a, b, c = (NOUNS[(i // 20**j) % 20] for j in range(3))
    return f"I saw a {a} beside the {b} under my {c}."


def test_a_bank_has_exactly_the_size_unique_candidates_and_even_labels():
    bank = make_bank(ScriptedGenerator(varied), 60, ["rain", "tea", "work"], prompt="bank-chat", seed=5)
    assert len(bank) == len(set(bank.texts)) == 60
    assert [bank.labels.count(x) for x in ("rain", "tea", "work")] == [20, 20, 20]
    assert bank.provenance["prompt_hash"] == load_prompt("bank-chat").hash
    assert bank.provenance["counters"]["kept"] == 60
    assert bank.provenance["generator"] == "scripted"
    assert set(bank.parents) == {()}


def test_a_seed_gives_the_same_bank_and_another_seed_another():
    def make(seed):
        return make_bank(ScriptedGenerator(varied), 20, ["tea"], seed=seed)

    assert make(1) == make(1)
    assert make(1).hash == make(1).hash != make(2).hash


def test_a_label_only_bank_asks_in_big_batches():
    class Counting(ScriptedGenerator):
        calls = 0

        def generate(self, requests):
            self.calls += 1
            return super().generate(requests)

    generator = Counting(varied)
    make_bank(generator, 300, ["a", "b"], near=1.0)
    assert generator.calls <= 3


def test_examples_are_shown_drawn_anew_and_remembered_as_parents():
    generator = ScriptedGenerator(varied)
    bank = make_bank(generator, 12, ["old things"], prompt="bank-examples", examples=EXAMPLES, seed=3)
    shown = [[e for e in EXAMPLES if f"- {e}" in r.prompt] for r in generator.asked]
    assert all(len(s) == 3 for s in shown)
    assert len({tuple(s) for s in shown}) > 3
    assert all(len(set(p)) == 3 and max(p) < 6 for p in bank.parents)
    plan = bank_plan(12, ["old things"], prompt="bank-examples", examples=EXAMPLES, seed=3)
    assert all(f"- {EXAMPLES[i]}" in plan.request(0, 0).prompt for i in bank.parents[0])


def test_continuation_shows_what_was_liked_and_what_was_not():
    generator = ScriptedGenerator(varied)
    liked, others = {"a": EXAMPLES[:3]}, {"a": EXAMPLES[3:]}
    make_bank(generator, 5, ["a"], prompt="continue", examples=liked, negatives=others)
    before, after = generator.asked[0].prompt.split("People did not care")
    assert all(e in before for e in liked["a"])
    assert all(e in after for e in others["a"])


def test_no_candidate_repeats_an_example_or_an_existing_text():
    known = "I will keep this very text."
    replies = [known, EXAMPLES[0], EXAMPLES[5], "A new text about something else.", *[""] * 20]
    shown = {"prompt": "continue", "examples": EXAMPLES[:3], "negatives": EXAMPLES[3:]}
    bank = make_bank(ScriptedGenerator(replies), 1, ["x"], existing=[known], tries=20, **shown)
    assert bank.texts == ("A new text about something else.",)


def test_too_few_candidates_fail_and_say_why():
    with pytest.raises(GenerationError, match=r"wrote 1 of 4 candidates.*duplicate"):
        make_bank(ScriptedGenerator(lambda _: "I always say the same thing."), 4, ["x"], tries=3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"labels": []}, "different labels"),
        ({"labels": ["a", "a"]}, "different labels"),
        ({"tries": 0.5}, "At least one answer"),
        ({"tries": float("inf")}, "1,000 at most on average, not inf"),
        ({"tries": 1e308}, r"1,000 at most on average, not 1e\+308"),
        ({"tries": float("nan")}, "At least one answer"),
        ({"prompt": "bank-examples"}, "none are given"),
        ({"prompt": "continue", "examples": EXAMPLES}, "not liked"),
        ({"examples": EXAMPLES}, "shows no examples"),
        ({"prompt": Prompt("own", "{topic}")}, "topic"),
    ],
)
def test_what_cannot_be_made_is_refused(options, match):
    with pytest.raises(InputError, match=match):
        make_bank(ScriptedGenerator(varied), 4, **({"labels": ["a"]} | options))


def test_a_bank_survives_parquet_with_its_provenance(tmp_path):
    bank = make_bank(ScriptedGenerator(varied), 8, ["tea", "rain"])
    bank.write(tmp_path / "bank.parquet")
    read = CandidateBank.read(tmp_path / "bank.parquet")
    assert (read.texts, read.labels, read.provenance) == (bank.texts, bank.labels, bank.provenance)
    assert read.hash == bank.hash


def test_a_file_that_is_no_bank_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(DataError, match="There is no file"):
        CandidateBank.read(path)
    path.write_bytes(b"junk" * 10)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        CandidateBank.read(path)
    pl.DataFrame({"words": ["a"]}).write_parquet(path)
    with pytest.raises(DataError, match="no column 'text'"):
        CandidateBank.read(path)
    pl.DataFrame({"text": ["a", "b"]}).write_parquet(path)
    assert CandidateBank.read(path).labels == ("", "")


@pytest.mark.parametrize("held", ["[]", "3", '"x"', "null"])
def test_provenance_that_is_no_object_is_refused(tmp_path, held):
    pl.DataFrame({"text": ["a"]}).write_parquet(tmp_path / "x.parquet", metadata={"canarybank": held})
    with pytest.raises(DataError, match=r"metadata 'canarybank' of .*x\.parquet' is .*, not a JSON object"):
        CandidateBank.read(tmp_path / "x.parquet")


def test_a_text_that_stands_twice_is_told_with_the_file(tmp_path):
    pl.DataFrame({"text": ["a", "a"]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet' is no bank: .* twice: 'a'\. Keep one"):
        CandidateBank.read(tmp_path / "x.parquet")


def test_a_bank_checks_itself():
    with pytest.raises(InputError, match="twice: 'a'"):
        CandidateBank(("a", "a"), ("", ""))
    with pytest.raises(InputError, match="2 texts but 1 labels"):
        CandidateBank(("a", "b"), ("",))
