import hashlib
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canarybank.errors import ColumnError, DataError, InputError
from canarybank.progress import Lines, Silent, Stage
from canarybank.users import (
    ADMISSIONS,
    Admission,
    AdmissionReport,
    Columns,
    Drop,
    Fault,
    Row,
    Source,
    admit,
    read,
    source,
)


def _csv(write: Callable[..., Path], rows: Any, name: str = "a.csv") -> Path:
    return write(name, "user,text,label\n" + "".join(f"{u},{t},{label}\n" for u, t, label in rows))


def _labelled(path: Path, **choices: Any) -> Source:
    return source(path, columns=Columns(label="label"), **choices)


def _adds_up(report: AdmissionReport) -> None:
    assert report.rows == sum(report.skipped.values()) + (
        report.records + report.records_capped + report.records_dropped
    )
    assert report.users == report.admitted + sum(report.dropped.values())
    assert report.skipped.keys() == report.first_lines.keys()
    assert 0 <= report.full <= report.admitted


def _rank(seed: int, user: str, text: str, label: str | None) -> bytes:
    """Return what the place of a record follows from, by its definition."""
    return hashlib.sha256(f"{seed}\0{user}\0{label or ''}\0{text}".encode()).digest()[:16]


def _naive(rows: Any, rule: Admission) -> Any:
    """Hold everything in memory: group, drop, sort, cut."""
    groups = {}
    for user, text, label in rows:
        usable = len(text.split()) >= rule.minimum_words and (rule.labels is None or label in rule.labels)
        groups.setdefault(user, []).extend([(text, label)] if usable else [])
    kept = {}
    for user in sorted(groups):
        count = len(groups[user])
        if count < rule.minimum or count > (rule.maximum or count):
            continue
        copies = Counter()
        numbered = []
        for text, label in groups[user]:
            numbered.append((copies[text, label], _rank(rule.seed, user, text, label), text, label))
            copies[text, label] += 1
        kept[user] = [(text, label) for *_, text, label in sorted(numbered)[: rule.cap]]
    return kept


_ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcde"), st.sampled_from(["x", "x y", "x y z", "y z", "z y x w"]), st.sampled_from("01")
    ),
    min_size=1,
    max_size=60,
)


@given(
    rows=_ROWS,
    rule=st.builds(
        Admission,
        minimum=st.integers(1, 4),
        maximum=st.none() | st.integers(4, 9),
        cap=st.integers(1, 6),
        minimum_words=st.integers(1, 3),
        labels=st.none() | st.just(frozenset("1")),
        seed=st.integers(0, 3),
    ),
    shuffler=st.randoms(),
)
@settings(max_examples=150)
def test_equals_the_naive_admission_and_adds_up(
    tmp_path_factory: pytest.TempPathFactory, rows: Any, rule: Admission, shuffler: random.Random
) -> None:
    path = tmp_path_factory.mktemp("admit") / "a.csv"
    wanted = _naive(rows, rule)
    for _ in range(2):
        path.write_text("user,text,label\n" + "".join(f"{u},{t},{label}\n" for u, t, label in rows))
        if not wanted:
            with pytest.raises(DataError, match="No user of"):
                admit(_labelled(path), rule)
            return
        users, report = (admitted := admit(_labelled(path), rule)).users, admitted.report
        assert users.ids == tuple(wanted)
        assert list(zip(users.texts, users.labels, strict=True)) == [r for own in wanted.values() for r in own]
        _adds_up(report)
        assert (report.rows, report.users) == (len(rows), len({user for user, *_ in rows}))
        assert report.full == sum(len(own) == rule.cap for own in wanted.values())
        shuffler.shuffle(rows)


def test_copies_of_a_record_wait_for_all_that_differ(write: Callable[..., Path]) -> None:
    path = write("a.csv", "user,text\n" + "u,a\n" * 50 + "u,b\nu,c\n")
    assert sorted(admit(source(path), Admission(cap=3)).users.texts) == ["a", "b", "c"]
    assert sorted(admit(source(path), Admission(cap=5)).users.texts) == ["a", "a", "a", "b", "c"]


def test_records_are_chosen_evenly(write: Callable[..., Path]) -> None:
    # 2,000 users keep 2 of the same 10: each is expected 400 times with sd 17.9; 5 sd either side fails below 1e-5.
    rows = "".join(f"u{user},text {number}\n" for user in range(2000) for number in range(10))
    times = Counter(admit(source(write("a.csv", f"user,text\n{rows}")), Admission(cap=2)).users.texts)
    assert len(times) == 10
    assert min(times.values()) > 310
    assert max(times.values()) < 490


def test_the_hash_does_not_depend_on_the_order_of_rows(
    write: Callable[..., Path], yelp_line: Callable[..., str]
) -> None:
    lines = [yelp_line(f"u{i % 3}", f"review number {i // 3}", i % 5 + 1) for i in range(300)]
    one = admit(write("yelp_review.json", "\n".join(lines)))
    random.Random(1).shuffle(lines)  # noqa: S311, not for secrets
    other = admit(write("yelp_review_again.json", "\n".join(lines)))
    assert one.users.hash == other.users.hash
    assert one.users.counts.tolist() == [64, 64, 64]
    assert admit(source(write("b_yelp_review.json", "\n".join(lines))), Admission(seed=1)).users.hash != one.users.hash


def test_yelp_admits_users_with_the_cap_and_cuts_them_to_it(
    write: Callable[..., Path], yelp_line: Callable[..., str]
) -> None:
    counts = {"few": 63, "just": 64, "many": 200}
    lines = [yelp_line(user, f"text {i}", 4) for user, count in counts.items() for i in range(count)]
    admitted = admit(write("yelp_academic_dataset_review.json", "\n".join(lines)))
    assert admitted.users.ids == ("just", "many")
    assert admitted.users.counts.tolist() == [64, 64]
    assert set(admitted.users.labels) == {"4"}
    assert admitted.report.dropped == {Drop.FEW: 1}
    assert admitted.report.records_capped == 136
    assert admitted.report.full == 2


def test_sentiment140_admits_from_32_and_cuts_to_64(
    write: Callable[..., Path], sentiment_line: Callable[..., str]
) -> None:
    counts = {"few": 31, "some": 32, "most": 64, "many": 65}
    lines = [sentiment_line(user, f"tweet \xe9 {i}", 4) for user, count in counts.items() for i in range(count)]
    path = write("training.1600000.processed.noemoticon.csv", "\n".join(lines).encode("latin-1"))
    admitted = admit(path)
    assert dict(zip(admitted.users.ids, admitted.users.counts.tolist(), strict=True)) == {
        "some": 32,
        "most": 64,
        "many": 64,
    }
    assert admitted.report.full == 2


def test_chitchat_admits_450_users_of_whom_291_are_full() -> None:
    admitted = admit("chitchat")
    assert len(admitted.users) == admitted.report.admitted == 450
    assert admitted.report.full == 291
    assert admitted.report.users == 1315
    assert admitted.users.labels is None
    assert admitted.users.hash == "77742c5a41d14b05dd8ba399c3674016201a802ae3199f7770b8e64bf62d7c69"
    _adds_up(admitted.report)


def test_defaults_are_the_papers() -> None:
    assert ADMISSIONS["yelp"] == Admission(minimum=64, cap=64)
    assert ADMISSIONS["sentiment140"] == Admission(minimum=32, cap=64)
    assert ADMISSIONS["chitchat"] == Admission(minimum=32, cap=64, minimum_words=4)


def test_every_kind_of_fault_is_counted_with_its_first_line(write: Callable[..., Path]) -> None:
    records = [
        {"user": "a", "text": "one two", "label": 1},
        {"user": None, "text": "x", "label": 1},
        {"user": [], "text": "x", "label": 1},
        {"user": "b", "text": "", "label": 1},
        {"user": "b", "text": " ", "label": 1},
        {"user": "c", "text": 7, "label": 1},
        {"user": "c", "text": "a\0", "label": 1},
        {"user": "c", "text": "\ud800", "label": 1},
        {"user": "d", "text": "one two", "label": None},
        {"user": "d", "text": "one", "label": 1},
        {"user": "e", "text": "one two", "label": 2},
    ]
    path = write("a.jsonl", "\n".join(map(json.dumps, records)) + "\n\n{")
    admitted = admit(_labelled(path, strict=False), Admission(minimum_words=2, labels=frozenset("1")))
    report = admitted.report
    assert admitted.users.ids == ("a",)
    assert report.first_lines == {
        Fault.NO_USER: 2,
        Fault.BAD_USER: 3,
        Fault.EMPTY: 4,
        Fault.NOT_TEXT: 6,
        Fault.NUL: 7,
        Fault.ENCODING: 8,
        Fault.NO_LABEL: 9,
        Fault.WORDS: 10,
        Fault.LABEL: 11,
        Fault.BLANK: 12,
        Fault.MALFORMED: 13,
    }
    assert report.skipped[Fault.EMPTY] == 2
    assert (report.rows, report.users, report.dropped) == (13, 5, {Drop.FEW: 4})
    _adds_up(report)


def test_a_user_with_more_than_a_million_records(write: Callable[..., Path]) -> None:
    body = "".join(f"bot,message {i % 1000}\n" for i in range(1_000_001))
    path = write("a.csv", "user,text\n" + body + "me,hello\n")
    admitted = admit(path, Admission(cap=64))
    assert admitted.users.ids == ("bot", "me")
    assert admitted.users.counts.tolist() == [64, 1]
    assert admitted.report.records_capped == 1_000_001 - 64


def test_users_above_the_maximum_are_dropped(write: Callable[..., Path]) -> None:
    path = _csv(write, [("bot", f"message {i}", "1") for i in range(11)] + [("me", "hello", "1")])
    admitted = admit(path, Admission(cap=64, maximum=10))
    assert admitted.users.ids == ("me",)
    assert admitted.report.dropped == {Drop.MANY: 1}
    assert admitted.report.records_dropped == 11


def test_a_user_with_exactly_the_maximum_or_the_minimum_is_admitted(write: Callable[..., Path]) -> None:
    path = _csv(write, [(user, f"message {i}", "1") for user, n in (("a", 4), ("b", 5), ("c", 10)) for i in range(n)])
    assert admit(path, Admission(minimum=5, maximum=10)).users.ids == ("b", "c")


def test_numeric_ids_meet_in_one_user(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", '{"user": 7, "text": "x"}\n{"user": 7.0, "text": "y"}\n{"user": "7", "text": "z"}\n')
    assert admit(path).users.ids == ("7",)


def test_a_number_of_users_is_drawn_by_seed_whatever_the_order(write: Callable[..., Path]) -> None:
    rows = [(f"u{i:02d}", "hello you", "1") for i in range(30)]
    rule = Admission(users=10, seed=3)
    one = admit(_csv(write, rows), rule)
    other = admit(_csv(write, rows[::-1]), rule)
    assert one.users.ids == other.users.ids
    assert one.report.admitted == 10
    assert one.report.dropped == {Drop.UNDRAWN: 20}
    assert one.users.ids != admit(_csv(write, rows), Admission(users=10, seed=4)).users.ids
    assert len(admit(_csv(write, rows), Admission(users=99)).users) == 30
    _adds_up(one.report)


def test_nobody_admitted_shows_the_arithmetic(write: Callable[..., Path]) -> None:
    path = _csv(write, [("a", "x", "1"), ("a", "y", "1"), ("b", "x", "1"), ("b", " ", "1")])
    with pytest.raises(DataError) as caught:
        admit(path, Admission(minimum=3))
    message = str(caught.value)
    assert "of 2 users in 4 rows, 2 had fewer usable records than the minimum" in message
    assert "1 rows with empty text" in message
    assert "The largest has 2 usable records, and the minimum is 3" in message


def test_where_no_record_has_a_label_that_was_asked_for_those_that_exist_are_told(write: Callable[..., Path]) -> None:
    path = _csv(write, [("a", "x", "4.0"), ("a", "y", "4.0"), ("b", "x", "1.0"), ("b", " ", "2.0")])
    with pytest.raises(DataError, match=r"3 rows with label not asked for.* a label of \['4'\]; ") as caught:
        admit(_labelled(path), Admission(labels=frozenset("4")))
    assert "the labels that exist are '4.0' (2 rows), '1.0' (1 rows). Ask for labels exactly" in str(caught.value)
    assert "minimum is" not in str(caught.value)
    path = _csv(write, [("a", "x", str(i)) for i in range(2000)])
    with pytest.raises(DataError, match=r"'7' \(1 rows\) and others\. Ask"):
        admit(_labelled(path), Admission(labels=frozenset("x")))


def test_rows_of_which_none_can_be_used(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="of 0 users in 1 rows, none had a usable record; skipped 1 rows with no user"):
        admit(write("a.csv", "user,text\n,x\n"))


def test_a_file_that_changes_while_it_is_read(write: Callable[..., Path]) -> None:
    path = write("a.csv", "user,text\na,x\nb,y\n")

    class Growing(Silent):
        @contextmanager
        def stage(self, name: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
            with super().stage(name, total, unit) as stage:
                yield stage
            path.write_text("user,text\na,x\na,y\n")

    with pytest.raises(DataError, match="changed while it was read"):
        admit(path, progress=Growing())


def test_labels_need_a_label_column(write: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match=r"Labels \['1'\] are asked for, but no column"):
        admit(_csv(write, [("a", "x", "1")]), Admission(labels=frozenset("1")))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"minimum": 0}, "minimum must be at least 1, not 0"),
        ({"cap": 0}, "cap must be at least 1, not 0"),
        ({"minimum_words": 0}, "minimum_words must be at least 1"),
        ({"users": 0}, "users must be at least 1"),
        ({"minimum": 5, "maximum": 4}, "at least 5 and at most 4"),
        ({"labels": frozenset()}, "empty set of labels"),
    ],
)
def test_choices_validate_themselves(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Admission(**choice)


def test_both_readings_are_shown(write: Callable[..., Path]) -> None:
    shown = io.StringIO()
    admit(_csv(write, [("a", "x", "1")]), progress=Lines(shown, short=0))
    assert "count users of a.csv: done" in shown.getvalue()
    assert "choose records of a.csv: done" in shown.getvalue()


def test_a_row_is_a_record_only_with_enough_words() -> None:
    rule = Admission(minimum_words=3)
    assert rule.fault(Row(1, "u", " one  two ")) is Fault.WORDS
    assert rule.fault(Row(1, "u", " one two\tthree ")) is None
    assert rule.fault(Row(1, "u", "a b c d e f")) is None


def test_rows_read_are_all_the_rows_there_are(write: Callable[..., Path]) -> None:
    path = _csv(write, [("a", "x", "1")] * 5 + [("", "x", "1")])
    assert admit(path).report.rows == len(list(read(path)))


def test_when_nobody_is_admitted_the_first_malformed_line_says_why(write: Callable[..., Path]) -> None:
    path = write("a.jsonl", '\n{"who": "a", "said": "b"}\n{"who": "a", "said": "c"}\n')
    with pytest.raises(ColumnError) as caught:
        admit(source(path, strict=False))
    assert "skipped 2 rows with malformed line, 1 rows with blank line. Line 2 of" in str(caught.value)
    assert "no column 'user'. The columns that exist are: 'who', 'said'. Say which" in str(caught.value)
    with pytest.raises(DataError, match=r"malformed line\. .* holds one JSON array.*jq -c '\.\[\]'\.$"):
        admit(source(write("b.json", '[{"user": "a", "text": "b"}]\n'), strict=False))
    path = write("c.jsonl", '{"who": "a"}\n{"user": "a", "text": "b"}\n')
    with pytest.raises(DataError, match=r"malformed line\. The largest has 1 usable records, and the minimum is 2"):
        admit(source(path, strict=False), Admission(minimum=2))
