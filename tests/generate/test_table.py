import polars as pl
import pytest

from canarybank.errors import DataError
from canarybank.generate.table import label_column, read_table, text_column


@pytest.mark.parametrize("name", ["bank[1].parquet", "b*.parquet", "b?.parquet"])
def test_a_name_is_no_pattern(tmp_path, name):
    pl.DataFrame({"text": ["a"]}).write_parquet(tmp_path / name, metadata={"own": "x"})
    pl.DataFrame({"text": ["b"]}).write_parquet(tmp_path / "bx.parquet")
    frame, metadata = read_table(tmp_path / name)
    assert frame["text"].to_list() == ["a"]
    assert metadata["own"] == "x"


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "x.parquet").write_bytes(b"junk" * 10)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_table(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2], "Int64"), ([b"a"], "Binary"), ([["a"]], r"List\(String\)"), ([None, None], "Null"), ([1.5], "Float64")],
)
def test_texts_are_strings(values, kind):
    with pytest.raises(DataError, match=rf"column 'text' of 'x.parquet' holds {kind}, not text; .* --bank\.text"):
        text_column(pl.DataFrame({"text": values}), "text", "x.parquet")


def test_a_missing_column_says_which_there_are():
    with pytest.raises(DataError, match=r"no column 'text'; it has 'a', 'b'\. Rename .* --bank\.text"):
        text_column(pl.DataFrame({"a": [1], "b": [2]}), "text", "x.parquet")


def test_a_row_without_a_text_is_named_or_left_out():
    frame = pl.DataFrame({"text": ["a", "b", None, "c", None]})
    with pytest.raises(DataError, match=r"Row 3 of 'x.parquet' has no text in the column 'text', as 2 of 5 rows; drop"):
        text_column(frame, "text", "x.parquet")
    assert text_column(frame, "text", "x.parquet", gaps=True) == ["a", "b", "c"]
    with pytest.raises(DataError, match="Row 1 of"):
        text_column(pl.DataFrame({"text": [None]}, schema={"text": pl.String}), "text", "x.parquet")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 1, None], ["0", "1", ""]),
        ([0.0, 2.5, None], ["0", "2.5", ""]),
        ([False, True, None], ["false", "true", ""]),
        (["", "0", None], ["", "0", ""]),
        ([None, None], ["", ""]),
    ],
)
def test_a_label_of_zero_is_a_label(values, labels):
    assert label_column(pl.DataFrame({"label": values}), "x.parquet") == labels


def test_categories_are_text():
    frame = pl.DataFrame({"text": ["a"], "label": ["b"]}, schema={"text": pl.Categorical, "label": pl.Categorical})
    assert text_column(frame, "text", "x") + label_column(frame, "x") == ["a", "b"]


@pytest.mark.parametrize("value", [b"a", ["a"], {"a": 1}])
def test_labels_that_are_no_texts_are_refused(value):
    with pytest.raises(DataError, match=r"column 'label' of 'x.parquet' holds .* as strings"):
        label_column(pl.DataFrame({"label": [value]}), "x.parquet")
