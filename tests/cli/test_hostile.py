"""Inputs that would hang, crash or drive a terminal end in one plain sentence and exit code 2."""

import os
import socket
import zipfile
from pathlib import Path

import pytest

from canarybank.errors import DataError

ESCAPE, BIDI, C1 = "\x1b[31m", "\u202e", "\x9b"


@pytest.fixture
def special(tmp_path):
    """Make a pipe that nobody writes to, a socket and a folder, each under the names that inputs have."""
    for suffix in ("", ".csv", ".npz", ".parquet", ".toml"):
        os.mkfifo(tmp_path / f"pipe{suffix}")
        (tmp_path / f"folder{suffix}").mkdir()
        (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
        yield tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "OWN", "--users.source", "zero", "--users.format", "csv"),
        ("plan", "OWN", "--users.source", "pipe.csv"),
        ("plan", "OWN", "--users.source", "folder.csv"),
        ("plan", "OWN", "--users.source", "socket", "--users.format", "csv"),
        ("plan", "OWN", "--users.source", "pipe"),
        ("plan", "OWN", "--users.source", "zero"),
        ("plan", "OWN", "--bank.source", "zero.csv"),
        ("plan", "OWN", "--bank.source", "pipe.parquet"),
        ("plan", "OWN", "--encoder.name", "pipe.npz"),
        ("plan", "OWN", "--encoder.name", "zero.parquet"),
        ("config", "show", "pipe.toml"),
        ("config", "show", "zero.toml"),
        ("bank", "show", "pipe.parquet"),
        ("evolve", "OWN", "--insecure-seed", "1", "--evolve.responses", "pipe"),
    ],
    ids=" ".join,
)
def test_only_regular_files_are_opened(cli, own, special, words):
    assert special.is_dir()
    outcome = cli(*(own if word == "OWN" else word for word in words))
    assert outcome.code == 2
    assert outcome.err.startswith("Error: ")


@pytest.mark.parametrize(
    "encoding",
    [
        "\0",
        "\ud800",
        "base64",
        "rot13",
        "idna",
        "undefined",
        "unicode_escape",
        "raw_unicode_escape",
        "punycode",
        "utf-7",
    ],
)
def test_odd_encodings_are_refused_in_words(cli, own, encoding):
    outcome = cli("plan", own, "--users.encoding", encoding)
    assert outcome.code == 2
    assert "encoding" in outcome.err


def test_a_record_without_end_is_refused(cli, own, tmp_path):
    for name, option in (("x.csv", "--users.source"), ("x.txt", "--bank.source")):
        with (tmp_path / name).open("wb") as file:
            file.truncate(200 * 2**20)
        outcome = cli("plan", own, option, tmp_path / name)
        assert outcome.code == 2
        assert "is longer than 64 MiB" in outcome.err


@pytest.mark.parametrize("name", ["aborts.parquet", "panics.parquet"])
def test_parquet_that_ends_its_reader_is_no_failed_gate(cli, own, name, capfd):
    data = Path(__file__).parents[1] / "store" / "data" / name
    for words in (("plan", own, "--users.source", data, "--users.label", "label"), ("bank", "show", data)):
        outcome = cli(*words)
        assert outcome.code == 2
        assert "cannot be read as Parquet" in outcome.err
    assert capfd.readouterr() == ("", "")


def test_no_base_exception_is_taken_for_a_failed_gate(broken):
    class Panic(BaseException):
        pass

    outcome = broken(Panic("boom"))("gate")
    assert outcome.code == 70
    assert "boom" in outcome.err


class OutOfMemoryError(RuntimeError):
    """Stands for torch's error of that name."""


def test_a_part_that_exits_does_not_end_the_command_as_done(broken):
    outcome = broken(SystemExit(0))("audit")
    assert outcome.code == 4
    assert "called sys.exit(0) before the command was done" in outcome.err


@pytest.mark.parametrize("error", [MemoryError(), OutOfMemoryError("CUDA out of memory")])
def test_too_little_memory_is_no_bug(broken, error):
    outcome = broken(error)("audit")
    assert outcome.code == 4
    assert "canarybank plan" in outcome.err


@pytest.mark.parametrize("evil", [ESCAPE, BIDI, C1, "\x07", "\u2066"])
def test_no_message_drives_the_terminal(cli, broken, own, tmp_path, evil):
    with zipfile.ZipFile(tmp_path / "users.zip", "w") as archive:
        for name in ("a", "b"):
            archive.writestr(f"{name}{evil}.csv", "user,text\n")
    (tmp_path / f"x{evil}.csv").write_text("user,words\na,b\n")
    (tmp_path / "x.toml").write_text(f'"{evil.encode("unicode_escape").decode().replace("x", "u00")}" = 1\n')
    seen = [
        cli("plan", own, "--users.source", tmp_path / "users.zip", "--users.format", "csv"),
        cli("plan", own, "--users.source", tmp_path / f"x{evil}.csv"),
        cli("config", "show", tmp_path / "x.toml"),
        cli(f"aud{evil}it"),
        cli("audit", f"--aud{evil}it", "1"),
        cli("--traceback", "plan", own, "--users.source", tmp_path / f"x{evil}.csv"),
    ]
    seen.append(broken(DataError(f"The server says {evil}."))("audit"))
    for outcome in seen:
        assert outcome.code == 2
        assert evil not in outcome.err + outcome.out


def test_a_broken_bank_is_an_input_error(cli, own, tmp_path):
    (tmp_path / "bank.jsonl").write_text('{"text": "a"}\n{"text": \n')
    outcome = cli("plan", own, "--bank.source", tmp_path / "bank.jsonl")
    assert outcome.code == 2
    assert "line 2" in outcome.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bank.txt", "one\n\none\ntwo\nthree\n \n"),
        ("bank.csv", "text\none\n\none\ntwo\nthree\n\n"),
        ("bank.jsonl", '{"text": "one"}\n\n{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n{"text": " "}\n'),
    ],
)
def test_entries_that_a_bank_file_repeats_or_leaves_blank_are_counted(cli, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    outcome = cli("bank", "show", tmp_path / name, "--json")
    assert outcome.document["entries"] == 3
    assert outcome.document["notes"] == [
        "The bank file has 6 entries: 3 are used, 1 repeated and 2 blank ones are skipped."
    ]
    assert "1 repeated and 2 blank" in " ".join(cli("bank", "show", tmp_path / name).out.split())


def test_plan_and_results_say_what_a_bank_file_skipped(cli, own, world, tmp_path):
    entries = (world / "bank.txt").read_text()
    (tmp_path / "bank.txt").write_text(entries + entries + "\n\n")
    words = (own, "--bank.source", tmp_path / "bank.txt", "--audit.trials", "500", "--json", "--folder", tmp_path / "r")
    for command in ("plan", "audit"):
        outcome = cli(command, *words)
        assert outcome.code == 0, outcome.err
        notes = " ".join(outcome.document["notes"])
        assert f"{entries.count(chr(10))} repeated and 2 blank ones are skipped" in notes


@pytest.mark.parametrize(
    ("flag", "name", "said"),
    [("--bank.examples", "pipe.csv", "is a pipe"), ("--bank.prompt", "pipe.toml", "no prompt")],
)
def test_examples_and_prompts_are_regular_files(cli, special, writing, flag, name, said):
    writing(lambda _: "A text.")
    outcome = cli("bank", "make", "--generator.kind", "scripted_answers:write", flag, special / name)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
