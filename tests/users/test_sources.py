import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import canarybank.users as room
from canarybank.errors import ColumnError, DataError, InputError
from canarybank.users import FORMATS, Columns, Delimited, Fault, Row, Skip, Source, infer_format, read, source


def test_yelp_as_distributed(write: Callable[..., Path], tmp_path: Path, yelp_line: Callable[..., str]) -> None:
    texts = ['If you decide to eat here, just be aware it\'s "slow".\n\nStill.', "Crème brûlée \u2764"]
    content = "".join(yelp_line(f"mh_-eMZ6K5RLWhZyISBhw{i}", text, i + 4.0) + "\n" for i, text in enumerate(texts))
    wanted = [Row(i + 1, f"mh_-eMZ6K5RLWhZyISBhw{i}", text, str(i + 4)) for i, text in enumerate(texts)]
    plain = write("yelp_academic_dataset_review.json", content)
    packed = write("yelp_academic_dataset_review.json.gz", gzip.compress(content.encode()))
    bundle = tmp_path / "yelp_dataset.tar"
    with tarfile.open(bundle, "w:gz") as archive:
        archive.add(write("yelp_academic_dataset_business.json", "{}\n"), "yelp_academic_dataset_business.json")
        archive.add(plain, "yelp_academic_dataset_review.json")
    download = tmp_path / "Yelp-JSON.zip"
    with zipfile.ZipFile(download, "w") as archive:
        archive.writestr("Yelp JSON/Yelp Dataset Agreement.pdf", "%PDF")
        archive.write(bundle, "Yelp JSON/yelp_dataset.tar")
    for path in (plain, packed, bundle, download):
        assert infer_format(path) == "yelp"
        assert list(read(path)) == wanted


def test_sentiment140_as_distributed(
    write: Callable[..., Path], tmp_path: Path, sentiment_line: Callable[..., str]
) -> None:
    texts = ["@switchfoot http://twitpic.com/2y1zl - Awww, that's a bummer. ;D", 'caf\xe9 "so, good" &amp; \xbd off']
    content = "".join(sentiment_line("_TheSpecialOne_", text, 4 * i) + "\n" for i, text in enumerate(texts))
    wanted = [Row(i + 1, "_TheSpecialOne_", text, str(4 * i)) for i, text in enumerate(texts)]
    raw = content.encode("latin-1")
    name = "training.1600000.processed.noemoticon.csv"
    plain, packed = write(name, raw), write(f"{name}.gz", gzip.compress(raw))
    download = tmp_path / "trainingandtestdata.zip"
    with zipfile.ZipFile(download, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("testdata.manual.2009.06.14.csv", '"4","3","date","q","tester","not this"\n')
        archive.writestr(name, raw)
    for path in (plain, packed, download):
        assert infer_format(path) == "sentiment140"
        assert list(read(path)) == wanted


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a.csv", "csv"),
        ("A.CSV.GZ", "csv"),
        ("a.csv.zip", "csv"),
        ("a.tsv", "tsv"),
        ("a.tab.gz", "tsv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.json.gz", "jsonl"),
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("my_yelp_reviews.json", "yelp"),
        ("Training.1600000.processed.noemoticon.csv.gz", "sentiment140"),
    ],
)
def test_names_tell_the_format(name: str, known: str) -> None:
    assert infer_format(name) == known


def test_a_zip_tells_by_what_is_in_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("folder/a.tsv", "user\ttext\na\tb\n")
    assert infer_format(tmp_path / "archive.zip") == "tsv"
    assert list(read(tmp_path / "archive.zip")) == [Row(2, "a", "b")]


def test_a_zip_cut_short_tells_by_its_name(write: Callable[..., Path]) -> None:
    path = write("a.csv.zip", b"PK\x03\x04 and no more")
    assert infer_format(path) == "csv"
    with pytest.raises(DataError, match="damaged or cut short"):
        list(read(path))
    with pytest.raises(DataError, match="does not tell its format"):
        infer_format(write("a.zip", b"PK\x03\x04 and no more"))


def test_a_name_that_tells_nothing(write: Callable[..., Path]) -> None:
    path = write("data.txt", "user,text\na,b\n")
    with pytest.raises(DataError, match=r"does not tell its format.*chitchat, csv, jsonl, parquet, sentiment140, tsv"):
        read(path)
    assert list(read(path, "csv")) == [Row(2, "a", "b")]
    assert list(read(path, Delimited())) == [Row(2, "a", "b")]


def test_an_explicit_format_beats_the_name(write: Callable[..., Path]) -> None:
    path = write("a.csv", '{"user": "a", "text": "b"}\n')
    assert list(read(path, "jsonl")) == [Row(1, "a", "b")]
    with pytest.raises(InputError, match="no format 'xml'"):
        read(path, "xml")


def test_columns_encoding_and_member_replace_the_formats_own(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write("a.csv", "who,what\nme,café\n".encode("latin-1"))
    assert list(read(path, columns=Columns("who", "what"), encoding="latin-1")) == [Row(2, "me", "café")]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("x.csv", "user,text\nx,x\n")
        archive.writestr("y.csv", "user,text\ny,y\n")
    assert list(read(tmp_path / "b.zip", member="y.csv")) == [Row(2, "y", "y")]


def test_a_member_that_is_asked_for_must_be_there_once_and_a_formats_own_name_is_a_hint(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("only.json", '{"user_id": "a", "text": "b", "stars": 4}\n')
    assert list(read(tmp_path / "one.zip", "yelp")) == [Row(1, "a", "b", "4")]
    with pytest.raises(DataError, match=r"no file that matches 'nothere\.json'; say which .* of: only\.json"):
        list(read(tmp_path / "one.zip", "yelp", member="nothere.json"))
    with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
        archive.writestr("x.csv", "user,text\nx,x\n")
        archive.writestr("y.csv", "user,text\ny,y\n")
    with pytest.raises(DataError, match=r"2 files that match '\*\.csv'; say which .* of: x\.csv, y\.csv"):
        list(read(tmp_path / "two.csv.zip", member="*.csv"))


STRAY = 'user{0}text\na{0}"open\nb{0}mine\nc{0}"shut\n'
LITERAL = [Row(2, "a", '"open'), Row(3, "b", "mine"), Row(4, "c", '"shut')]


def test_tsv_takes_quotes_as_any_other_character_and_csv_does_not(write: Callable[..., Path]) -> None:
    assert list(read(write("a.tsv", STRAY.format("\t")))) == LITERAL
    assert list(read(write("b.tsv", 'user\ttext\na\t"said"\n'))) == [Row(2, "a", '"said"')]
    assert list(read(write("a.csv", 'user,text\na,"said, so"\n'))) == [Row(2, "a", "said, so")]


def test_quoting_can_be_switched_on_and_off(write: Callable[..., Path]) -> None:
    tabs = write("a.tsv", 'user\ttext\na\t"one\ttwo\nlines"\n')
    assert list(read(tabs, quote='"')) == [Row(2, "a", "one\ttwo\nlines")]
    assert list(read(write("a.csv", STRAY.format(",")), quote="")) == LITERAL
    assert list(read(write("b.csv", "user,text\na,'x, y'\n"), quote="'")) == [Row(2, "a", "x, y")]


def test_choices_that_a_format_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chitchat has no choice of columns; leave --users"):
        source("chitchat", columns=Columns())
    with pytest.raises(InputError, match="jsonl has no choice of quote"):
        source(tmp_path / "a.jsonl", quote="")
    with pytest.raises(InputError, match=r"leave --users\.encoding out"):
        source(tmp_path / "a.parquet", encoding="latin-1")


def test_a_source_can_be_read_again(write: Callable[..., Path]) -> None:
    again = source(write("a.csv", "user,text\na,b\n"))
    assert isinstance(again, Source)
    assert list(again.rows()) == list(again.rows())
    assert not again.labelled
    assert source("x_yelp_review.json").labelled


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "user,text\n"), ("a.csv.gz", gzip.compress(b"user,text\n", mtime=0)), ("t.tsv", "user\ttext")],
)
def test_a_file_without_rows(write: Callable[..., Path], name: str, content: str | bytes) -> None:
    with pytest.raises(DataError, match="holds no rows"):
        list(read(write(name, content)))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "yelp_review.json", "t.tsv"])
def test_an_empty_file(write: Callable[..., Path], name: str) -> None:
    with pytest.raises(DataError, match="is empty"):
        list(read(write(name, "")))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_missing_columns_are_told_with_those_that_exist_and_how_to_name_them(
    write: Callable[..., Path], name: str
) -> None:
    frame = pl.DataFrame({"who": ["a"], "text": ["hello"]})
    made = {
        "a.csv": frame.write_csv(),
        "a.tsv": frame.write_csv(separator="\t"),
        "a.jsonl": frame.write_ndjson(),
        "a.parquet": b"",
    }
    path = write(name, made[name])
    if name == "a.parquet":
        frame.write_parquet(path)
    with pytest.raises(ColumnError) as error:
        list(read(path))
    assert "has no column 'user'. The columns that exist are: 'who', 'text'." in str(error.value)
    assert str(error.value).endswith("by columns=Columns(user=..., text=...).")
    assert [row[1:3] for row in read(path, columns=Columns(user="who"))] == [("a", "hello")]


def test_malformed_lines_can_be_counted(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", '{"user": "a", "text": "b"}\n{\n')
    assert list(read(path, strict=False)) == [Row(1, "a", "b"), Skip(2, Fault.MALFORMED)]


def test_progress_is_shown(write: Callable[..., Path]) -> None:
    from canarybank.progress import Lines

    shown = io.StringIO()
    list(read(write("a.csv", "user,text\na,b\n"), progress=Lines(shown, short=0)))
    assert "read a.csv: done" in shown.getvalue()


def test_formats_are_named_as_they_are_filed() -> None:
    assert all(name == form.name for name, form in FORMATS.items())


def test_public_names_are_sorted_and_there() -> None:
    assert list(room.__all__) == sorted(room.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert all(hasattr(room, name) for name in room.__all__)
