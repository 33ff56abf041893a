"""A file of users in the place of a configuration."""

import json
import shutil

import pytest

SMALL = (
    *("--encoder.name", "hashing", "--attack.names", "ordinary", "--attack.probes", "12", "--attack.pool", "40"),
    *("--cohorts.canaries", "1", "--audit.trials", "500"),
)


@pytest.fixture
def people(world, tmp_path):
    """Return a file of users whose columns have other names, beside where commands are called."""
    header, rows = (world / "users.csv").read_text().split("\n", 1)
    assert header == "user,text"
    (tmp_path / "people.csv").write_text(f"Author,body\n{rows}")
    shutil.copy(world / "bank.txt", tmp_path)
    return "people.csv"


def test_an_audit_of_a_users_file_runs_and_says_what_it_assumed(cli, people, tmp_path):
    outcome = cli("audit", people, "--bank.source", "bank.txt", *SMALL, "--json")
    assert outcome.code == 0, outcome.err
    said = " ".join(outcome.err.split())
    assert "the column 'Author' of people.csv (--users.user), and texts from the column 'body' (--users.text)" in said
    assert "sigma 1 (--mechanism.sigma)" in said
    assert "bank" not in said.partition("Assumed:")[2].partition("Set what")[0]  # it was given
    manifest = json.loads((tmp_path / "runs" / "people" / "manifest.json").read_text())
    assert manifest["origins"]["users.user"] == f"file {people}"
    assert cli("verify", tmp_path / "runs" / "people").code == 0


def test_flags_beat_what_names_tell(cli, people):
    outcome = cli("audit", people, "--users.user", "body", "--users.text", "Author", *SMALL)
    assert "the column 'body' of people.csv (--users.user), and texts from the column 'Author'" in outcome.err
    assert "the embedded bank of everyday chat (--bank.source)" in outcome.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("audit", "poeple.csv"), "There is no file of users 'poeple.csv'; did you mean 'people.csv'?"),
        (("audit", "people.csv", "--users.source", "b.csv"), "Two files of users are named"),
        (("evolve", "people.csv"), "Name the file by --users.source"),
        (("bank", "make", "people.csv"), "Name the file by --users.source"),
        (("plan", "people.csv", "--evolve"), "--evolve.population"),
    ],
)
def test_what_cannot_be_audited_so_is_refused_with_the_flag(cli, people, words, message):
    del people
    outcome = cli(*words)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.csv", b"user,text\na,caf\xe9\n", "--users.encoding latin-1"),
        ("people.txt", b"user,text\n", "--users.format"),
        ("tabs.csv", b"user,text\na\tb,c,d\n", "--users.format tsv"),
        ("other.csv", b"id,entry\n1,hello\n", "--users.user and --users.text"),
        ("open.csv", b'user,text\na,"b\n', '--users.quote ""'),
    ],
)
def test_an_unreadable_file_names_the_flag_that_reads_it(cli, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    outcome = cli("audit", "--users.source", name)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("audit", "--bank.labels", "piza"), "did you mean 'pizza'?"),
        (("verify", "runs/peple"), "did you mean 'runs/people'?"),
        (("audit", "onw.toml"), "did you mean 'own.toml'?"),
        (("audit", "nowhere/own.toml"), "there is no folder 'nowhere' either"),
    ],
)
def test_errors_name_what_is_nearest(cli, own, tmp_path, words, message):
    shutil.copy(own, tmp_path)
    (tmp_path / "runs" / "people").mkdir(parents=True)
    assert message in " ".join(cli(*words).err.split())


@pytest.mark.parametrize("command", ["audit", "plan", "sweep"])
def test_nothing_is_said_of_columns_before_the_file_is_found_readable(cli, people, tmp_path, command):
    (tmp_path / "bytes.csv").write_bytes(b"\xea\x80,\xff\n\xea,\xff\n")
    for words in ((people, "--users.text", "nope"), ("bytes.csv",)):
        outcome = cli(command, *words)
        assert outcome.code == 2
        assert outcome.err.startswith("Error: ")
        assert "Users come from" not in outcome.err


def test_a_failed_start_leaves_no_folder_that_it_made_itself(cli, people, tmp_path):
    too_many = ("--cohorts.canaries", "500", "--users.cap", "3")
    outcome = cli("audit", people, *SMALL[:-4], *too_many)
    assert outcome.code == 2, outcome.err
    assert not (tmp_path / "runs" / "people").exists()
    (tmp_path / "mine").mkdir()
    assert cli("audit", people, *SMALL[:-4], *too_many, "--folder", "mine").code == 2
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("folder", ["/proc/x", "people.csv", "people.csv/run"])
def test_a_folder_that_cannot_be_made_is_wrong_usage_of_its_flag(cli, people, folder):
    outcome = cli("audit", people, *SMALL, "--folder", folder)
    assert outcome.code == 2
    assert f"Error: Cannot make the folder '{folder}': " in outcome.err
    assert "Name another folder for the run by --folder." in outcome.err
