import json

import polars as pl
import pytest

from canarybank.generate import CandidateBank

WRITER = ("--generator.kind", "scripted_answers:write")
TEXTS = [
    "Anna walks her dog by the old river every single morning",
    "The baker sold seven loaves before the rain began to fall",
    "My cousin repairs violins in a tiny shop behind the station",
    "Nobody remembers who painted the blue door on Maple Street",
    "We missed the last ferry and slept beside the harbour wall",
    "Her garden grows tomatoes larger than a grown man's fist",
]


@pytest.fixture
def scripted(writing):
    """Let a script stand in for the generator."""
    writing(TEXTS * 20)


def test_the_embedded_bank_can_be_looked_at(cli, golden, shape):
    document = cli("bank", "show", "--json").document
    assert document["entries"] > 1000
    document["labels"] = {}
    document["provenance"] = {}
    golden("bank.json", json.dumps(shape(document), indent=1) + "\n")
    assert "embedded:" in cli("bank", "show").out


@pytest.mark.usefixtures("scripted")
def test_a_bank_is_made_and_shown(cli, tmp_path):
    outcome = cli(
        "bank", "make", *WRITER, "--bank.size", "4", "--bank.labels", "town,country", "--out", "b.parquet", "--json"
    )
    assert outcome.code == 0, outcome.err
    assert outcome.document["entries"] == 4
    assert len(CandidateBank.read(tmp_path / "b.parquet")) == 4
    assert cli("bank", "show", "b.parquet", "--json").document["hash"] == outcome.document["hash"]


def test_what_was_stripped_is_shown_apart_from_what_was_rejected(cli, writing):
    answers = [f'"{TEXTS[0]}"', f"1. {TEXTS[1]}", f'Sure, here is one: "{TEXTS[2]}"', TEXTS[3], "Too short."]
    writing(answers * 20, "wraps")
    made = cli("bank", "make", *WRITER, "--bank.size", "4", "--bank.labels", "town", "--out", "b.parquet", "--quiet")
    assert made.code == 0, made.err
    counters = cli("bank", "show", "b.parquet", "--json").document["provenance"]["counters"]
    assert {name: n for name, n in counters.items() if name.startswith("stripped")} == {
        "stripped-quotes": 2,
        "stripped-numbering": 1,
        "stripped-preamble": 1,
    }
    told = "of those kept, stripped: 2 of quotes, 1 of numbering, 1 of preamble"
    for printed in (made.out, cli("bank", "show", "b.parquet").out):
        assert told in " ".join(printed.split())


def test_the_counters_of_an_older_bank_are_read_as_they_are(cli):
    printed = " ".join(cli("bank", "show").out.split())
    assert "2,721 asked, 2,048 kept, 353 surplus, 320 rejected (169 too-long, 74 meta" in printed
    assert "stripped" not in printed


@pytest.mark.usefixtures("scripted")
def test_bank_with_flags_alone_makes_a_bank_too(cli, tmp_path):
    flags = (*WRITER, "--bank.size", "4", "--bank.labels", "town,country", "--json")
    bare, made = cli("bank", *flags), cli("bank", "make", *flags, "--out", "other.parquet")
    assert bare.code == made.code == 0, bare.err
    assert bare.document["hash"] == made.document["hash"]
    assert len(CandidateBank.read(tmp_path / "bank.parquet")) == 4
    outcome = cli("bank")
    assert outcome.code == 2
    assert "--force" in outcome.err


@pytest.mark.usefixtures("scripted")
def test_a_bank_is_not_written_over(cli, tmp_path):
    (tmp_path / "bank.parquet").write_text("mine")
    outcome = cli("bank", "make", "--bank.size", "2", "--bank.labels", "town")
    assert outcome.code == 2
    assert "--force" in outcome.err
    assert (tmp_path / "bank.parquet").read_text() == "mine"


@pytest.mark.parametrize("name", ["x.csv", "x", "x.txt", "."])
def test_a_bank_is_written_under_a_name_that_can_be_read_back(cli, tmp_path, name):
    outcome = cli("bank", "make", "--bank.size", "2", "--bank.labels", "town", "--out", name)
    assert outcome.code == 2
    assert f"name it '{'bank' if name == '.' else 'x'}.parquet' by --out" in " ".join(outcome.err.split())
    assert not (tmp_path / name).is_file()


def test_without_a_generator_it_says_which_flag_to_set(cli):
    outcome = cli("bank", "make", "--bank.labels", "town")
    assert outcome.code == 2
    assert "--generator.kind" in outcome.err


@pytest.mark.usefixtures("scripted")
def test_without_labels_it_says_how_to_name_them(cli, own):
    outcome = cli("bank", "make", own, *WRITER, "--quiet")
    assert outcome.code == 2
    assert "bank.labels" in outcome.err


def test_a_mistyped_command_is_told_from_a_missing_file(cli):
    outcome = cli("bank", "shwo")
    assert outcome.code == 2
    assert "'shwo' is neither a command here nor a configuration file; the commands are make and show." in " ".join(
        outcome.err.split()
    )
    assert "cannot be read" in cli("bank", "none.toml").err


def test_a_file_that_is_no_bank_is_refused(cli, tmp_path):
    (tmp_path / "x.parquet").write_text("no")
    assert cli("bank", "show", "x.parquet").code == 2


@pytest.mark.parametrize(
    ("texts", "held", "message"),
    [
        (["a", None], "{}", "Row 2 of 'x.parquet' has no text"),
        ([1, 2], "{}", "holds Int64, not text"),
        ([b"a"], "{}", "holds Binary, not text"),
        ([["a"]], "{}", "holds List(String), not text"),
        (["a"], "[1]", "is [1], not a JSON object"),
    ],
)
def test_a_table_that_is_no_bank_is_explained(cli, tmp_path, texts, held, message):
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "x.parquet", metadata={"canarybank": held})
    outcome = cli("bank", "show", "x.parquet")
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


@pytest.mark.parametrize("counters", [[1, 2], {"kept": "many"}, "none", 3])
def test_counters_that_are_none_are_not_recorded(cli, tmp_path, counters):
    CandidateBank(("a",), ("",), provenance={"generator": "g", "counters": counters}).write(tmp_path / "x.parquet")
    outcome = cli("bank", "show", "x.parquet")
    assert outcome.code == 0, outcome.err
    assert "not recorded" in outcome.out


@pytest.mark.parametrize("name", ["nothere.parquet", "folder"])
def test_a_bank_that_is_not_there_is_plainly_named(cli, tmp_path, name):
    (tmp_path / "folder").mkdir()
    outcome = cli("bank", "show", name)
    assert outcome.code == 2
    said = "'folder' is a folder" if name == "folder" else f"There is no file of texts {name!r}"
    assert said in outcome.err
    assert "disk" not in outcome.err


@pytest.mark.parametrize("name", ["bank.csv", "bank.jsonl", "bank.parquet", "bank.txt"])
def test_show_reads_the_file_and_column_that_bank_source_reads(cli, tmp_path, name):
    texts = ["hello there", "good day to you", "hello there"]
    (tmp_path / "bank.csv").write_text("id,entry\n" + "".join(f"1,{text}\n" for text in texts))
    (tmp_path / "bank.jsonl").write_text("".join(f'{{"entry": "{text}"}}\n' for text in texts))
    pl.DataFrame({"entry": texts}).write_parquet(tmp_path / "bank.parquet")
    (tmp_path / "bank.txt").write_text("".join(f"{text}\n" for text in texts))
    shown = cli("bank", "show", name, "--bank.text", "entry", "--json").document
    assert (shown["entries"], shown["sample"]) == (2, texts[:2])
    assert any("1 " in note for note in shown["notes"])


def test_show_names_the_flag_of_another_column_and_the_command_that_writes_a_bank(cli, tmp_path):
    (tmp_path / "bank.csv").write_text("id,entry\n1,hello\n")
    assert "name it by --bank.text" in " ".join(cli("bank", "show", "bank.csv").err.split())
    assert "canarybank bank make" in cli("bank", "show", "generate").err
    assert "did you mean 'bank.csv'?" in cli("bank", "show", "bnak.csv").err
