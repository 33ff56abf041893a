import pytest

from canarybank.mechanism import Account, epsilon

OPEN = ("--population", "patients of 2026", "--epsilon", 2, "--q", 0.1, "--sigma", 1.1088)


def test_an_account_is_opened_and_shown(cli, tmp_path):
    outcome = cli("budget", "open", "people.log", *OPEN)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("patients of 2026: epsilon 0.0000 of 2 spent at delta 1e-05; 6 more releases")
    account = Account(tmp_path / "people.log")
    for run, number in (("a" * 32, 0), ("b" * 32, 0), ("a" * 32, 1)):
        with account.held():
            account.debit(run, number, "bank", 1e-12)
            if number == 0:
                account.seal(run, number, "release")
    shown = cli("budget", "people.log")
    assert shown.code == 0, shown.err
    assert f"epsilon {epsilon(account.opening.mechanism, 3):.4f} of 2 spent at delta 1e-05 + " in shown.out
    assert "3 more releases" in shown.out
    assert "q 0.1, sigma 1.1088" in shown.out
    assert [line.split() for line in shown.out.splitlines() if "aaaa" in line or "bbbb" in line] == [
        ["a" * 12, "2", "1"],
        ["b" * 12, "1", "1"],
    ]
    assert "cannot be detected" in " ".join(shown.out.split())


def test_the_document_holds_everything(cli):
    cli("budget", "open", "people.log", *OPEN, "--delta", 1e-6)
    document = cli("budget", "show", "people.log", "--json").document
    assert document["command"] == "budget show"
    assert (document["population"], document["epsilon"], document["delta"]) == ("patients of 2026", 2.0, 1e-6)
    assert (document["q"], document["sigma"], document["neighbours"]) == (0.1, 1.1088, "add-remove")
    assert (document["spent"], document["slack"], document["releases"], document["runs"]) == (0.0, 0.0, 0, [])
    assert document["left"] > 0


def test_an_account_is_never_opened_twice(cli):
    cli("budget", "open", "people.log", *OPEN)
    again = cli("budget", "open", "people.log", *OPEN)
    assert again.code == 2
    assert "already a file" in again.err


@pytest.mark.parametrize(
    ("words", "code", "phrase"),
    [
        (("budget", "nothing.log"), 2, "There is no budget account 'nothing.log'"),
        (("budget", "damaged.log"), 4, "does not fit its checksum"),
        (("budget", "empty.log"), 4, "is no budget account"),
        (("budget", "users.csv"), 4, "'users.csv' is no budget account"),
        (("budget", "open", "new.log", *OPEN[:-1], -1), 2, "sigma must be positive"),
        (("budget", "open", "new.log", "--population", "x"), 2, "--epsilon"),
        (("budget",), 2, "FILE is missing"),
    ],
)
def test_what_cannot_be_shown_or_opened_is_said_in_words(cli, tmp_path, words, code, phrase):
    cli("budget", "open", "damaged.log", *OPEN)
    whole = (tmp_path / "damaged.log").read_bytes()
    (tmp_path / "damaged.log").write_bytes(whole.replace(b"patients", b"patience"))
    (tmp_path / "empty.log").touch()
    (tmp_path / "users.csv").write_text("id,text\n1,hello\n")
    outcome = cli(*words)
    assert outcome.code == code
    assert phrase in outcome.err
    assert not (tmp_path / "new.log").exists()


def test_an_incomplete_last_line_is_said(cli, tmp_path):
    cli("budget", "open", "people.log", *OPEN)
    assert "incomplete" not in cli("budget", "people.log").out
    account = Account(tmp_path / "people.log")
    with account.held():
        account.debit("a" * 32, 0, "bank", 0.0)
    account.path.write_bytes(account.path.read_bytes()[:-1])
    shown = cli("budget", "people.log")
    assert shown.code == 0
    assert "last line is incomplete" in " ".join(shown.out.split())
    assert cli("budget", "people.log", "--json").document["torn"] is True


def test_a_large_budget_is_shown_without_counting_to_its_end(cli):
    shown = cli("budget", "open", "people.log", "--population", "x", "--epsilon", 100, "--q", 0.1, "--sigma", 1)
    assert shown.code == 0
    assert "1,000 or more releases can be paid" in " ".join(shown.out.split())
