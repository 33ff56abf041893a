import os

import pytest

from canarybank.config import Config, decisive, differences, fields, flatten, resolve, varied
from canarybank.config.guesses import GUESSES
from canarybank.encode import ENCODERS
from canarybank.errors import ConfigError

OTHER_FILES = ("users.source", "encoder.name", "generator.model", "evolve.account")
"""What these files hold is neither published nor sent."""
NO_FILES = (
    *("users.user", "users.text", "users.label", "users.member", "users.encoding", "users.quote", "bank.text"),
    *("encoder.device", "generator.device", "generator.base_url", "generator.api_key_env", "generator.revision"),
    *(
        "evolve.kind",
        "evolve.keeper",
        "evolve.feedback",
        "evolve.parents",
        "generator.kind",
        "audit.method",
        "audit.system",
        "run.engine",
        "run.address",
        "system.attack",
        "system.name",
    ),
)
# Every other key that takes a text can name a public file: a new key stands above, or is checked below.
PUBLIC_FILES = [
    key
    for key, field in fields().items()
    if field.annotation in {str, str | None} and key not in {*OTHER_FILES, *NO_FILES}
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('[audit]\ntrials = 500\nalpha = 0.1\n[encoder]\nname = "minilm"\n')
    return path


def test_a_flag_beats_the_file_the_file_the_preset_and_the_preset_the_defaults(file):
    found = resolve(file, {"audit.trials": 7}, "paper-yelp")
    assert (found.config.audit.trials, found.origins["audit.trials"]) == (7, "flag")
    assert (found.config.audit.alpha, found.origins["audit.alpha"]) == (0.1, f"file {file}")
    assert (found.config.audit.accounted, found.origins["audit.accounted"]) == (1.695, "preset paper-yelp")
    assert (found.config.run.seed, found.origins["run.seed"]) == (0, "default")
    assert set(found.origins) == set(fields()) == set(found.values())


def test_nothing_given_is_all_defaults():
    found = resolve()
    assert found.config == Config()
    assert set(found.origins.values()) == {"default"}


def test_flags_may_be_texts():
    found = resolve(flags={"audit.trials": "12", "cohorts.shared": "true", "mechanism.q": "0.5"})
    assert (found.config.audit.trials, found.config.cohorts.shared, found.config.mechanism.q) == (12, True, 0.5)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"audit.trails": 3}, r"no key 'audit\.trails' \(from flag\); did you mean 'audit\.trials'\?"),
        ({"trials": 3}, r"did you mean 'audit\.trials'"),
        ({"audit.attacks": "exact"}, r"did you mean 'attack\.names'\?"),
        ({"canaries": 3}, r"did you mean 'cohorts\.canaries'\?"),
        ({"users.column": "x"}, r"did you mean 'users\.user' or 'users\.text'\?"),
        ({"zzz.qqq": 3}, "lists them all"),
        ({"audit.trials": "many"}, r"The value 'many' of audit\.trials \(from flag\) cannot be used"),
        ({"mechanism.sigma": -1}, r"-1 of mechanism\.sigma"),
        ({"generator.kind": "openai"}, r"generator cannot be used: a generator of kind openai needs generator\.model"),
    ],
)
def test_a_wrong_value_is_named_with_its_origin(flags, message):
    with pytest.raises(ConfigError, match=message):
        resolve(flags=flags)


def test_a_key_says_once_what_is_wrong_with_it():
    with pytest.raises(ConfigError) as caught:
        resolve(flags={"attack.names": "ordinery", "audit.trials": "ten"})
    assert str(caught.value).count("attack.names") == 1
    assert str(caught.value).count("audit.trials") == 1
    assert "'ordinary'" in str(caught.value)


def test_a_password_in_a_url_is_not_repeated():
    with pytest.raises(ConfigError) as caught:
        resolve(flags={"generator.base_url": "https://me:hunter2@host/v1"})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("content", "message"), [(b"[audit\n", "is not TOML"), (b"\xff\xfe", "is not UTF-8")])
def test_a_broken_file_is_named(tmp_path, content, message):
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        resolve(tmp_path / "bad.toml")


def test_a_missing_file_or_preset_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="no preset 'paper'; choose one of embedded"):
        resolve(preset="paper")


def test_a_relative_path_in_a_file_means_a_place_beside_it(tmp_path, monkeypatch):
    (tmp_path / "mine.csv").touch()
    (tmp_path / "c.toml").write_text('[users]\nsource = "mine.csv"\n[encoder]\nname = "wordllama"\n')
    monkeypatch.chdir("/")
    config = resolve(tmp_path / "c.toml").config
    assert config.users.source == str(tmp_path / "mine.csv")
    assert config.encoder.name == "wordllama"


@pytest.mark.parametrize(
    ("section", "key", "word"),
    [
        ("users", "source", "chitchat"),
        ("bank", "source", "embedded"),
        *(("encoder", "name", e) for e in ENCODERS.places),
    ],
)
def test_a_word_for_what_comes_along_is_no_path_though_something_beside_the_file_has_that_name(
    tmp_path, monkeypatch, section, key, word
):
    (tmp_path / word).mkdir()
    monkeypatch.chdir(tmp_path)
    for written, read in ((word, word), (f"./{word}", f"./{word}")):
        (tmp_path / "c.toml").write_text(f'[{section}]\n{key} = "{written}"\n')
        assert resolve("c.toml").values()[f"{section}.{key}"] == read


@pytest.mark.parametrize("key", PUBLIC_FILES)
def test_the_users_own_file_is_no_public_one_by_whatever_path(tmp_path, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "users.csv").write_text("user,text\n")
    (tmp_path / "copy.csv").write_text("user,text\n")
    (tmp_path / "link.csv").symlink_to("users.csv")
    os.link("users.csv", "hard.csv")
    users = resolve(flags={"users.source": "users.csv"})
    for same in ("users.csv", "./folder/../users.csv", str(tmp_path / "users.csv"), "link.csv", "hard.csv"):
        with pytest.raises(ConfigError, match=rf"{key} is .* the file of users.* Set {key} to a public file\."):
            resolve(flags={"users.source": "users.csv", key: same})
        with pytest.raises(ConfigError, match="the file of users"):
            resolve(flags={"users.source": same, key: "users.csv"})
        with pytest.raises(ConfigError, match="the file of users"):
            varied(users, {key: same}, "sweep")
    for other in ("copy.csv", "missing.csv", "folder", "\0"):
        assert resolve(flags={"users.source": "users.csv", key: other}).values()[key] == other


@pytest.mark.parametrize("word", ["embedded", "generate"])
def test_a_bank_that_no_file_holds_is_never_the_users_own(tmp_path, monkeypatch, word):
    monkeypatch.chdir(tmp_path)
    (tmp_path / word).touch()
    assert resolve(flags={"users.source": f"./{word}", "bank.source": word}).config.bank.source == word


def test_the_hint_at_the_key_of_a_server_says_what_it_takes(tmp_path):
    (tmp_path / "c.toml").write_text('[generator]\napi_key = "sk-123"\n')
    with pytest.raises(ConfigError, match="name of the environment variable") as caught:
        resolve(tmp_path / "c.toml")
    assert "sk-123" not in str(caught.value)


def test_differences_name_key_old_and_new_and_pass_over_how_a_run_is_done():
    old = flatten(resolve().config)
    new = flatten(
        resolve(flags={"audit.trials": 5, "users.cap": 8, "run.workers": 3, "generator.max_tokens": 9}).config
    )
    assert differences(old, new) == ["users.cap: left out -> 8", "audit.trials: 1000000 -> 5"]
    assert differences(old, old) == []
    assert "run.workers" not in decisive(old)


def test_a_likely_guess_in_a_file_leads_to_the_key_that_is_meant(tmp_path):
    (tmp_path / "my.toml").write_text('[audit]\nattacks = ["exact"]\n')
    with pytest.raises(ConfigError, match=r"no key 'audit\.attacks'.*did you mean 'attack\.names'\?"):
        resolve(tmp_path / "my.toml")


def test_every_key_that_a_guess_leads_to_exists_and_no_guess_is_a_key():
    known = set(fields())
    assert {key for keys in GUESSES.values() for key in keys} <= known
    assert not set(GUESSES) & known
