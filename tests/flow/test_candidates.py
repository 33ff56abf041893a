import json

import pytest

from canarybank.config import BankConfig, Config, UsersConfig
from canarybank.errors import CanarybankError, ConfigError, DataError
from canarybank.flow import embedded_bank, gather, read_bank
from canarybank.generate import CandidateBank, ScriptedGenerator
from canarybank.store import StageCache

FILES = ("a.parquet", "b.parquet", "c.txt")
TEXTS = ("one, two", "three \u2028 four", "five")


@pytest.fixture
def users():
    return UsersConfig()


@pytest.fixture
def cache(tmp_path):
    return StageCache(tmp_path / "stages")


def read_texts(path, column="text"):
    return read_bank(path, column)[0].texts


def gather_candidates(bank, users, generator, cache):
    return gather(Config(bank=bank, users=users), cache, generator).candidates


def test_texts_are_read_from_every_format_once_and_in_order(tmp_path):
    rows = [*TEXTS, TEXTS[0]]
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(rows)))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": t}, ensure_ascii=False) for t in rows) + "\n\n")
    (tmp_path / "a.txt").write_text("\ufeffone, two\n\nfive\n")
    CandidateBank(TEXTS, ("",) * 3).write(tmp_path / "a.parquet")
    assert (
        read_texts(tmp_path / "a.csv")
        == read_texts(tmp_path / "a.jsonl")
        == read_texts(tmp_path / "a.parquet")
        == TEXTS
    )
    assert read_texts(tmp_path / "a.txt") == ("one, two", "five")


def test_another_column_may_be_named(tmp_path):
    import polars as pl

    (tmp_path / "a.csv").write_text("body\nhello\n")
    pl.DataFrame({"body": ["hello", None, "hello"]}).write_parquet(tmp_path / "a.parquet")
    assert read_texts(tmp_path / "a.csv", "body") == read_texts(tmp_path / "a.parquet", "body") == ("hello",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "label,text\nwarm,one\ncold,two\n,three\n"),
        ("a.jsonl", '{"text":"one","label":"warm"}\n{"text":"two","label":"cold"}\n{"text":"three"}\n'),
    ],
)
def test_a_bank_file_has_the_labels_that_it_gives(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    bank, _ = read_bank(tmp_path / name)
    assert dict(zip(bank.texts, bank.labels, strict=True)) == {"one": "warm", "two": "cold", "three": ""}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"body\nhello\n", r"no column 'text'; it has 'body'\. .*name it by --bank\.text"),
        ("a.jsonl", b'{"text": 3}\n', "Line 1 of .* holds no text"),
        ("a.jsonl", b"{\n", "line 1.* is not JSON"),
        ("a.csv", b"text\n\n", "holds no texts"),
        ("a.csv", b"text\n\xff\n", "is not UTF-8"),
        ("a.csv", b"id,text\n1,one\n2,well, yes\n", r"row on line 3 of .* has 3 fields instead of 2; quote .* comma"),
        ("a.csv", b"id,text\n1,one\n2\n", r"row on line 3 of .* has 1 fields instead of 2"),
        ("a.csv", b'text\none\n"two\nthree\n', r"quote opened on line 3 of .* is never closed.* write the quote twice"),
        ("a.csv", b'text\n"' + b"x\n" * 99_999, r"quote opened on line 2 of .* is not closed by .* the quote twice"),
        ("a.csv", b"text,text\none,two\n", r"2 columns named 'text'; rename"),
        ("a.csv", b"text" + b"x" * 140_000 + b"\n", r"row on line 1 of .* cannot be read: field larger"),
        ("a.csv", b"", "is empty"),
        ("a.xls", b"text\n", "does not tell its format"),
        ("a.parquet", b"text\n", "cannot be read as Parquet"),
    ],
)
def test_a_file_that_is_no_bank_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CanarybankError, match=message):
        read_texts(tmp_path / name)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_line_ends_part_the_texts_of_a_plain_file(tmp_path, end):
    texts = ("one \u2028 two", "three \x0c four", "five \x85 six", "seven \x1c eight")
    (tmp_path / "a.txt").write_text(end.join(texts), encoding="utf-8", newline="")
    assert read_texts(tmp_path / "a.txt") == texts


def test_examples_are_read_as_strictly_as_a_bank(tmp_path, users, cache):
    (tmp_path / "a.csv").write_text("text\nwell, yes\n")
    config = BankConfig(source="generate", labels=("cats",), examples=str(tmp_path / "a.csv"))
    with pytest.raises(DataError, match="2 fields instead of 1"):
        gather_candidates(config, users, ScriptedGenerator(["I saw a cat."]), cache)


@pytest.mark.parametrize("column", ["text", "body"])
def test_a_parquet_bank_that_is_none_is_named(tmp_path, column):
    import polars as pl

    path = tmp_path / "v[1].parquet"
    pl.DataFrame({column: [1, 2]}).write_parquet(path)
    with pytest.raises(DataError, match=rf"column '{column}' of .*v\[1\]\.parquet' holds Int64, not text"):
        read_texts(path, column)
    pl.DataFrame({column: []}, schema={column: pl.String}).write_parquet(path)
    with pytest.raises(DataError, match="holds no texts"):
        read_texts(path, column)
    pl.DataFrame({column: ["one"]}).write_parquet(path)
    assert read_texts(path, column) == ("one",)


def test_a_row_without_a_text_is_named(tmp_path, users, cache):
    import polars as pl

    pl.DataFrame({"text": ["one", None]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"Row 2 of .*a\.parquet' has no text in the column 'text'"):
        gather_candidates(BankConfig(source=str(tmp_path / "a.parquet")), users, None, cache)


def test_a_bank_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file of texts .*none\.csv"):
        read_texts(tmp_path / "none.csv")


def test_a_file_gives_its_first_entries(tmp_path, users, cache):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    assert gather_candidates(BankConfig(source=str(tmp_path / "a.txt"), size=2), users, None, cache).texts == (
        "one",
        "two",
    )
    with pytest.raises(ConfigError, match=r"bank\.size is 4, but .* has 3"):
        gather_candidates(BankConfig(source=str(tmp_path / "a.txt"), size=4), users, None, cache)


def test_the_embedded_bank_for_other_users_is_noted(users, cache):
    assert gather_candidates(BankConfig(), users, None, cache).notes == ()
    assert (
        "these users are others"
        in gather_candidates(BankConfig(), UsersConfig(source="mine.csv"), None, cache).notes[0]
    )


def test_the_embedded_bank_may_be_cut_to_some_labels(users, cache):
    some = gather_candidates(BankConfig(labels=("pizza",)), users, None, cache)
    whole = gather_candidates(BankConfig(), users, None, cache)
    assert 0 < len(some.texts) < len(whole.texts)
    assert set(some.texts) < set(whole.texts)
    with pytest.raises(ConfigError, match="no label 'piza'"):
        gather_candidates(BankConfig(labels=("piza",)), users, None, cache)


def test_labels_of_a_bank_file_are_kept(tmp_path, users, cache):
    CandidateBank(TEXTS, ("sad", "glad", "sad")).write(tmp_path / "a.parquet")
    CandidateBank(TEXTS, ("",) * 3).write(tmp_path / "b.parquet")
    found = [
        gather_candidates(BankConfig(source=str(tmp_path / f"{name}.parquet"), size=2), users, None, cache)
        for name in "ab"
    ]
    assert [each.labels for each in found] == [("sad", "glad"), None]


def test_a_bank_is_generated_once(users, cache):
    config = BankConfig(source="generate", size=4, labels=("cats", "dogs"), near=1.0)
    generator = ScriptedGenerator(lambda r: f"I saw number {r.seed} of them in the garden today.", name="numbers")
    texts = gather_candidates(config, users, generator, cache).texts
    asked = len(generator.asked)
    assert len(set(texts)) == 4
    assert gather_candidates(config, users, generator, cache).texts == texts
    assert len(generator.asked) == asked
    other = gather_candidates(config.model_copy(update={"seed": 1}), users, generator, cache).texts
    assert other != texts


def test_what_became_of_the_answers_is_kept_with_a_generated_bank(users, cache, tmp_path):
    config = BankConfig(source="generate", size=4, labels=("cats", "dogs"), near=1.0)
    generator = ScriptedGenerator(lambda r: f'"I saw number {r.seed} of them in the garden today."', name="quotes")
    made = gather_candidates(config, users, generator, cache)
    assert made.counters["kept"] == made.counters["stripped-quotes"] == 4
    assert made.counters["asked"] == len(generator.asked)
    assert gather_candidates(config, users, generator, cache) == made
    CandidateBank(TEXTS, ("",) * 3, provenance={"counters": {"asked": 5}}).write(tmp_path / "a.parquet")
    CandidateBank(TEXTS, ("",) * 3).write(tmp_path / "b.parquet")
    (tmp_path / "c.txt").write_text("one\n")
    read = [gather_candidates(BankConfig(source=str(tmp_path / n)), users, None, cache) for n in FILES]
    assert [each.counters for each in read] == [{"asked": 5}, {}, {}]


def test_the_embedded_bank_has_its_counters(users, cache):
    counters = gather_candidates(BankConfig(), users, None, cache).counters
    assert counters == embedded_bank().provenance["counters"]
    assert counters["asked"] > counters["kept"] == len(embedded_bank())


def test_generating_needs_a_generator_and_labels(users, cache):
    with pytest.raises(ConfigError, match=r"set generator\.kind"):
        gather_candidates(BankConfig(source="generate", labels=("cats",)), users, None, cache)
    with pytest.raises(ConfigError, match=r"no labels are declared\. Set bank\.labels"):
        gather_candidates(BankConfig(source="generate"), UsersConfig(label="topic"), None, cache)


@pytest.mark.parametrize(("declared", "labels"), [((), {"sad", "glad"}), (("cats",), {"cats"})])
def test_labels_are_those_that_the_configuration_declares(cache, declared, labels):
    allowed = UsersConfig(label="topic", labels=("sad", "glad"))
    generator = ScriptedGenerator(lambda r: f"I saw number {r.seed} of them in the garden today.")
    config = BankConfig(source="generate", size=2, labels=declared, near=1.0)
    assert set(gather_candidates(config, allowed, generator, cache).labels) == labels
