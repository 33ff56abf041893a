import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from canarybank.errors import DataError, MissingError
from canarybank.users import Chitchat, Row, Skip, source


@pytest.fixture(scope="module")
def rows() -> list[Row | Skip]:
    return list(Chitchat().rows())


def test_every_message_of_every_sender(rows: Any) -> None:
    assert len(rows) == 258_145
    assert len({row.user for row in rows if isinstance(row, Row)}) >= 1300
    assert [row.line for row in rows[:3]] == [1, 2, 3]


def test_counts_of_messages_with_four_words(rows: Any) -> None:
    counts = Counter(row.user for row in rows if isinstance(row, Row) and len(row.text.split()) >= 4)
    assert sum(count >= 32 for count in counts.values()) == 450
    assert sum(count >= 64 for count in counts.values()) == 291


def test_messages_are_as_they_were_typed(rows: Any) -> None:
    assert rows[0].label is None
    assert any(row.text != row.text.strip() for row in rows if isinstance(row, Row))


def test_an_altered_file_is_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"not the file of chitchat-dataset 0\.9\.0"):
        list(Chitchat().rows(write("dataset.json", "{}")))


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chitchat_dataset", None)
    with pytest.raises(MissingError, match=r"pip install chitchat-dataset==0.9.0"):
        next(source("chitchat").rows())


def test_a_missing_file_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="force-reinstall"):
        next(Chitchat().rows(tmp_path / "dataset.json"))


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_the_bare_word_is_the_built_in_whatever_the_working_directory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "chitchat")
    monkeypatch.chdir(tmp_path)
    given = source("chitchat")
    assert given.built_in
    assert isinstance(next(given.rows()), Row)


def test_a_file_called_chitchat_is_reached_through_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chitchat").write_text("user,text\na,b\n")
    monkeypatch.chdir(tmp_path)
    assert list(source("./chitchat", "csv").rows()) == [Row(2, "a", "b")]
    copied = source("./chitchat", "chitchat")
    assert not copied.built_in
    with pytest.raises(DataError, match=r"not the file of chitchat-dataset 0\.9\.0"):
        next(copied.rows())
