from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from canarybank.config import CohortsConfig, Config, UsersConfig
from canarybank.errors import ColumnError, ConfigError, DataError
from canarybank.flow import gather
from canarybank.progress import Silent
from canarybank.store import StageCache
from canarybank.users import ADMISSIONS, Admission, admit, source

COHORTS = CohortsConfig(canaries=2)


def gathered(users, cohorts=COHORTS, cache=None):
    return gather(Config(users=users, cohorts=cohorts), cache or StageCache(), None)


def admit_users(users, cohorts, cache):
    return gathered(users, cohorts, cache).people


@pytest.fixture
def uneven(tmp_path):
    """Forty users with one to forty records each."""
    rng = np.random.default_rng(3)
    rows = [f"u{i:02d},text {i} {j} {rng.random()}" for i in range(40) for j in range(i + 1)]
    rng.shuffle(rows)
    path = tmp_path / "uneven.csv"
    path.write_text("\n".join(["user,text", *rows]) + "\n")
    return path


class Growing(Silent):
    """Let a file grow between its hash and its reading."""

    def __init__(self, path):
        self.path = path

    @contextmanager
    def stage(self, name, total=None, unit=""):
        if name.startswith(("count users of", "read users of")):
            with self.path.open("a") as file:
                file.write("".join(f"newcomer,some words {i}\n" for i in range(40)))
        with super().stage(name, total, unit) as stage:
            yield stage


@pytest.mark.parametrize("shards", [0, 2])
def test_a_file_that_grows_after_it_was_hashed_is_not_kept_under_that_hash(uneven, tmp_path, shards):
    config, content = (
        Config(users=UsersConfig(source=str(uneven)), cohorts=COHORTS, run={"shards": shards}),
        uneven.read_bytes(),
    )
    cache = StageCache(tmp_path / "cache")
    with pytest.raises(DataError, match="changed while it was read"):
        _ = gather(config, cache, None, Growing(uneven)).people
    uneven.write_bytes(content)
    assert "newcomer" not in set(gather(config, cache, None).people.users.ids)


def test_a_second_admission_of_the_same_file_reads_nothing(world, tmp_path):
    config, again = UsersConfig(source=str(world / "users.csv")), StageCache(tmp_path)
    first = admit_users(config, COHORTS, StageCache(tmp_path))
    second = admit_users(config, COHORTS, again)
    assert again.found["users"]
    assert not again.made
    assert first.users.hash == second.users.hash
    assert first.report == second.report
    assert second.report["admitted"] == 30


def test_who_was_admitted_otherwise_or_from_other_bytes_is_admitted_afresh(uneven, tmp_path):
    def is_admitted(cohorts=COHORTS, **choices):
        return gathered(UsersConfig(source=str(uneven), **choices), cohorts, StageCache(tmp_path)).is_admitted

    admit_users(UsersConfig(source=str(uneven)), COHORTS, StageCache(tmp_path))
    assert is_admitted()
    for other in ({"cap": 3}, {"minimum": 2}, {"minimum_words": 2}, {"strict": False}, {"limit": 5}):
        assert not is_admitted(**other)
    assert not is_admitted(CohortsConfig(canaries=2, seed=1))
    uneven.write_text(uneven.read_text() + "u00,more\n")
    assert not is_admitted()


def test_a_cap_that_nobody_chose_is_lowered_until_canaries_can_be_drawn(uneven, tmp_path):
    people = admit_users(UsersConfig(source=str(uneven)), COHORTS, StageCache(tmp_path))
    cap = int(people.users.counts.max())
    assert (people.users.counts == cap).sum() >= 4 * COHORTS.canaries
    assert f"cut to {cap} records" in people.notes[0]
    assert people.users.hash == admit(uneven, Admission(cap=cap)).users.hash


def test_a_cap_that_was_chosen_stays(uneven, tmp_path):
    people = admit_users(UsersConfig(source=str(uneven), cap=39), COHORTS, StageCache(tmp_path))
    assert people.users.counts.max() == 39
    assert people.notes == ()


def test_a_cap_that_nobody_reaches_is_told(world, tmp_path):
    def notes(cohorts=COHORTS, **choices):
        return admit_users(UsersConfig(source=str(world / "users.csv"), **choices), cohorts, StageCache(tmp_path)).notes

    assert notes(cap=8) == notes(cap=7) == ()
    (note,) = notes(cap=64)
    assert note.startswith("No user has 64 records")
    assert note.endswith("the largest has 8, and canaries have 8.")
    (note,) = notes(CohortsConfig(canaries=1, fixed=("u01",)), cap=9)
    assert note.endswith("the largest has 8.")


def test_a_formats_own_cap_that_nobody_reaches_is_told_too(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("".join(f'"0","1","d","q","a","text {i}"\n' for i in range(40)))
    people = admit_users(UsersConfig(source=str(path), format="sentiment140"), COHORTS, StageCache(tmp_path / "cache"))
    assert people.notes[0].startswith("No user has 64 records")
    assert people.notes[0].endswith("canaries have 40.")


def test_users_of_equal_size_are_left_as_they_are(world, tmp_path):
    people = admit_users(UsersConfig(source=str(world / "users.csv")), COHORTS, StageCache(tmp_path))
    assert set(people.users.counts) == {8}
    assert people.notes == ()


def test_given_values_replace_the_formats_own_and_the_rest_stays(tmp_path):
    own, path = ADMISSIONS["sentiment140"], tmp_path / "x.csv"
    sizes = {"few": own.minimum, "some": own.minimum + 1, "many": own.cap + 1}
    path.write_text("".join(f'"0","1","d","q","{u}","text {i} of {u}"\n' for u, n in sizes.items() for i in range(n)))
    config = UsersConfig(source=str(path), format="sentiment140", minimum=own.minimum + 1)
    people = admit_users(config, CohortsConfig(canaries=1, seed=4), StageCache(tmp_path / "cache"))
    assert dict(zip(people.users.ids, people.users.counts, strict=True)) == {"some": own.minimum + 1, "many": own.cap}
    asked = source(path, "sentiment140"), replace(own, minimum=own.minimum + 1, seed=4)
    assert people.users.hash == admit(*asked).users.hash


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_the_word_chitchat_means_the_built_in_users_beside_a_folder_or_file_of_that_name(tmp_path, monkeypatch, kind):
    built_in = gathered(UsersConfig(source="chitchat")).people.users  # kept for all tests of this folder
    monkeypatch.chdir(tmp_path)
    if kind == "folder":
        (tmp_path / "chitchat").mkdir()
    else:
        (tmp_path / "chitchat").write_text("user,text\na,hello\n")
    assert gathered(UsersConfig(source="chitchat")).people.users.hash == built_in.hash
    if kind == "file":
        assert gathered(UsersConfig(source="./chitchat", format="csv")).people.users.texts == ("hello",)


def test_columns_may_be_named(tmp_path):
    (tmp_path / "x.csv").write_text("who,said\na,hello\na,bye\n")
    people = admit_users(
        UsersConfig(source=str(tmp_path / "x.csv"), user="who", text="said"),
        CohortsConfig(canaries=1),
        StageCache(tmp_path),
    )
    assert sorted(people.users.texts) == ["bye", "hello"]


def test_quotes_of_a_file_are_read_as_the_configuration_says(tmp_path):
    (tmp_path / "x.tsv").write_text('user\ttext\na\t"one"\na\t"two\n')
    (tmp_path / "x.csv").write_text('user,text\na,"one"\na,two\n')
    cohorts, cache = CohortsConfig(canaries=1), StageCache(tmp_path / "cache")

    def texts(name, quote):
        config = UsersConfig(source=str(tmp_path / name), quote=quote)
        return sorted(admit_users(config, cohorts, cache).users.texts)

    assert texts("x.tsv", None) == ['"one"', '"two']
    assert texts("x.csv", None) == ["one", "two"]
    assert texts("x.csv", "") == ['"one"', "two"]
    with pytest.raises(DataError, match="never closed"):
        texts("x.tsv", '"')


def test_a_preset_without_its_file_says_which_key_to_set():
    with pytest.raises(ConfigError, match=r"name it by users\.source"):
        _ = gathered(UsersConfig(format="yelp")).people


def test_a_file_that_is_not_there_is_named(tmp_path):
    config = UsersConfig(source=str(tmp_path / "none.csv"))
    with pytest.raises(DataError, match=r"none\.csv"):
        admit_users(config, COHORTS, StageCache(tmp_path))


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.parquet"])
def test_a_missing_column_is_told_with_the_keys_that_name_columns(tmp_path, name):
    frame = pl.DataFrame({"who": ["a", "a"], "said": ["hello", "bye"]})
    path = tmp_path / name
    writers = {
        "x.csv": frame.write_csv,
        "x.tsv": lambda file: frame.write_csv(file, separator="\t"),
        "x.jsonl": frame.write_ndjson,
        "x.parquet": frame.write_parquet,
    }
    writers[name](path)
    config, cohorts, cache = UsersConfig(source=str(path)), CohortsConfig(canaries=1), StageCache(tmp_path / "cache")
    with pytest.raises(ColumnError) as error:
        admit_users(config, cohorts, cache)
    told = str(error.value)
    assert f"{path} has no column 'user'. The columns that exist are: 'who', 'said'. Set users.user and users" in told
    assert all(word in told for word in ("users.user", "users.text", "--users.user", "--users.text"))
    assert "Columns(" not in told
    named = config.model_copy(update={"user": "who", "text": "said"})
    assert sorted(admit_users(named, cohorts, cache).users.texts) == ["bye", "hello"]


def test_wrong_columns_of_lines_that_are_skipped_are_told_with_the_keys_too(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"who": "a", "said": "b"}\n')
    config = UsersConfig(source=str(tmp_path / "x.jsonl"), strict=False)
    with pytest.raises(
        ColumnError, match=r"No user .* is admitted.*exist are: 'who', 'said'\. Set users\.user and users"
    ):
        admit_users(config, COHORTS, StageCache(tmp_path / "cache"))


def test_a_column_of_numbers_for_text_is_told_with_the_keys_too(tmp_path):
    pl.DataFrame({"user": ["a"], "text": [1.5]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(ColumnError, match=r"holds Float64, not text\. Set users\.user and users\.text"):
        admit_users(UsersConfig(source=str(tmp_path / "x.parquet")), COHORTS, StageCache(tmp_path / "cache"))
