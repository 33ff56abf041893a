import pytest

from canarybank.errors import DataError
from canarybank.users.members import Member, visible

TWO = ["a.csv", "folder/b.csv"]


def test_what_was_asked_for_must_be_there_once() -> None:
    with pytest.raises(DataError, match=r"x\.zip holds 2 files that match '\*\.csv'.*of: a\.csv, folder/b\.csv\."):
        Member("*.csv").choose("x.zip", TWO)
    with pytest.raises(DataError, match=r"x\.zip holds no file that matches 'nothere\.csv'.*of: a\.csv\."):
        Member("nothere.csv").choose("x.zip", ["a.csv"])
    with pytest.raises(DataError, match=r"no file that matches 'nothere\.csv'.*of: a\.csv\.gz\."):
        Member("nothere.csv").choose("x.zip", ["a.csv.gz"])
    with pytest.raises(DataError, match="no file that matches"):
        Member("c.csv").choose("x.zip", ["a.tar", "b.tar"])


@pytest.mark.parametrize("asked", ["b.csv", "b*", "folder/b.csv", "*/b.csv"])
def test_a_file_is_asked_for_by_its_name_or_its_path(asked: str) -> None:
    assert Member(asked).choose("x.zip", TWO) == "folder/b.csv"


def test_a_whole_name_beats_the_patterns_that_it_is_one_of() -> None:
    assert Member("b.csv").choose("x.zip", ["folder/b.csv", "b.csv"]) == "b.csv"
    assert Member("a[1].csv").choose("x.zip", ["a1.csv", "a[1].csv"]) == "a[1].csv"


def test_packing_does_not_hide_a_name_and_an_archive_may_hold_it() -> None:
    assert Member("b.csv").choose("x.zip", ["a.csv", "b.csv.gz"]) == "b.csv.gz"
    assert Member("b.csv").choose("x.zip", ["agreement.pdf", "all.tar"]) == "all.tar"


def test_a_usual_name_is_a_hint() -> None:
    assert Member(usual="*.csv").choose("x.zip", TWO) == "a.csv"
    assert Member(usual="*review*").choose("x.zip", ["other.json"]) == "other.json"
    assert Member(usual="*review*").choose("x.zip", ["review/business.json", "all.gz"]) == "all.gz"
    assert Member("a.csv", usual="b*").choose("x.zip", TWO) == "a.csv"
    with pytest.raises(DataError, match=r"no file that matches 'c\*'"):
        Member(usual="c*").choose("x.zip", TWO)


def test_nothing_asked_and_nothing_usual_needs_an_archive_of_one_file() -> None:
    assert Member().choose("x.zip", ["a.csv"]) == "a.csv"
    assert not Member().takes("a.csv")
    with pytest.raises(DataError, match="more than one file"):
        Member().choose("x.zip", [*TWO, "c.gz"])
    with pytest.raises(DataError, match="without files"):
        Member("a").choose("x.zip", [])


def test_what_archivers_add_is_not_seen() -> None:
    assert visible(["d/", "d/a.csv", "__MACOSX/a", "d/.DS_Store"]) == ["d/a.csv"]
