import re
from pathlib import Path

import pytest

from canarybank import errors
from canarybank.cli import failures
from canarybank.errors import MissingError

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_every_exit_code_stands_in_the_reference_and_in_the_module():
    codes = {getattr(errors, name).exit_code for name in errors.__all__} | {failures.BUG}
    section = REFERENCE.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    named = {int(code) for code in re.findall(r"^(\d+) ", failures.__doc__, re.MULTILINE)}
    assert codes <= listed == named
    assert "a generator that failed" in section


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("adit",), "There is no command 'adit'; did you mean 'audit'?"),
        (("config", "shw"), "There is no command 'config shw'; did you mean 'show'?"),
        (("audit", "--audit.trils", "3"), "There is no option --audit.trils; did you mean --audit.trials?"),
        (("audit", "--trials", "3"), "There is no option --trials; did you mean --audit.trials?"),
        (("audit", "--attacks", "exact"), "There is no option --attacks; did you mean --attack.names?"),
        (("audit", "--audit.attacks", "exact"), "There is no option --audit.attacks; did you mean --attack.names?"),
        (("audit", "--canaries", "3"), "There is no option --canaries; did you mean --cohorts.canaries?"),
        (("audit", "--audit.canaries", "3"), "There is no option --audit.canaries; did you mean --cohorts.canaries?"),
        (
            ("plan", "--users.column", "x"),
            "There is no option --users.column; did you mean --users.user or --users.text?",
        ),
        (("plan", "--nodes", "4.5"), "The value '4.5' of --nodes cannot be used; give a whole number."),
        (("epsilon", "--rounds", "2.5"), "The value '2.5' of --rounds cannot be used; give a whole number."),
        (("tune", "--k", "2", "3.5"), "'3.5' is no whole number; see `canarybank tune --help`."),
        (
            ("audit", "--no-encoder.keep_vectors"),
            "There is no option --no-encoder.keep_vectors; did you mean --encoder.no-keep_vectors?",
        ),
        (
            ("audit", "my.toml", "--encoder.keep_vectors", "false"),
            "There is no place for the argument 'false'; write it behind its option with =, as in --key=false.",
        ),
        (("audit", "--out", "x"), "There is no option --out; did you mean --folder?"),
        (("sweep", "--out", "x"), "There is no option --out; did you mean --folder?"),
        (("audit", "--zzz", "3"), "There is no option --zzz; see `canarybank audit --help`."),
        (("audit", "--audit.trials"), "The option --audit.trials needs a value; see `canarybank audit --help`."),
        (("audit", "a", "b"), "There is no place for the argument 'b'; see `canarybank audit --help`."),
        (
            ("audit", "--audit.method", "papr"),
            (
                "The value 'papr' of audit.method (from flag) cannot be used: there is no method 'papr'; did you mean "
                "'paper'?"
            ),
        ),
        (
            ("audit", "--audit.threshold", "zz"),
            "The value 'zz' of --audit.threshold cannot be used; choose one of calibrated, analytic.",
        ),
        (("epsilon", "--rounds", "x"), "The value 'x' of --rounds cannot be used; give a whole number."),
        (("epsilon", "--q", "1", "--q", "1"), "The option --q is given twice; give it once."),
        (
            ("audit", "--attack.names", "exact", "--attack.names", "nonce"),
            "The option --attack.names is given twice; give it once, with commas between several values.",
        ),
        (("gate", "run"), "--claimed-eps is missing; see `canarybank gate --help`."),
        (("gate", "run", "--claimed-eps", "x"), "The value 'x' of --claimed-eps cannot be used; give a number."),
        (("verify",), "RUN is missing; see `canarybank verify --help`."),
        (("ceiling", "--share", "2"), "The value 2.0 of --share cannot be used: it must be < 1."),
        (
            ("epsilon", "--sigma", "-1"),
            "The value '-1' of mechanism.sigma (from flag) cannot be used: input should be greater than 0.",
        ),
    ],
)
def test_wrong_usage_is_answered_in_one_sentence(cli, words, said):
    outcome = cli(*words)
    assert outcome.err == f"Error: {said}\n"
    assert outcome.code == 2


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("sample", "run"), "--size"),
        (("sample", "run", "--size", "9"), "--seed"),
        (("sample", "run", "--size", "9"), "--neighbours"),
        (("vet", "embedded"), "--round"),
        (("vet", "embedded"), "--k"),
        (("vet", "embedded"), "--worst"),
        (("prove", "embedded"), "--entry"),
        (("prove", "embedded"), "--round"),
        (("zoo",), "--repeats"),
        (("zoo",), "--seed"),
        (("zoo",), "--workers"),
        (("measure", "embedded"), "--neighbours"),
        (("measure", "embedded"), "--buckets"),
        (("measure", "embedded"), "--seed"),
    ],
)
def test_no_whole_number_is_rounded_to_one(cli, command, option):
    outcome = cli(*command, option, "2.5")
    assert outcome.err == f"Error: The value '2.5' of {option} cannot be used; give a whole number.\n"
    assert outcome.code == 2


def test_an_unknown_command_far_from_all_lists_them(cli):
    assert "choose one of demo, audit, evolve, sweep, reproduce, bank" in cli("zzz").err


def test_our_own_errors_speak_for_themselves(broken):
    outcome = broken(MissingError("Something is missing; run: pip install it"))("audit")
    assert (outcome.code, outcome.err) == (3, "Error: Something is missing; run: pip install it\n")


def test_a_full_disk_is_no_bug(broken):
    outcome = broken(OSError(28, "No space left on device", "/full"))("audit")
    said = "Error: The operating system refused at '/full': No space left on device.\n"
    assert (outcome.code, outcome.err) == (4, said)


def test_a_package_missing_behind_another_error_is_found(broken):
    error = ImportError("cannot import")
    error.__cause__ = ModuleNotFoundError("x", name="scipy.special")
    outcome = broken(error)("audit")
    assert outcome.code == 3
    assert "pip install scipy" in outcome.err


def test_a_missing_module_of_ours_is_a_bug(broken):
    assert broken(ModuleNotFoundError("x", name="canarybank.nothing"))("audit").code == 70


def test_the_hint_at_the_key_of_a_server_says_what_it_takes_and_shows_no_key(cli):
    outcome = cli("audit", "--generator.api-key", "sk-123")
    assert outcome.code == 2
    assert "name of the environment variable" in outcome.err
    assert "sk-123" not in outcome.err
