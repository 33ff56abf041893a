"""Where an evolution's answers come from: a recorded file first, then this machine's cache, then the model."""

import pytest

from canarybank.config import resolve
from canarybank.errors import DataError, MissingError
from canarybank.flow import run_evolution
from canarybank.generate import ResponseCache


@pytest.fixture
def answers(evolving, answering, fresh_cache, tmp_path):
    """Run an evolution, and export what it was answered into a file."""
    with answering() as writer:
        first = run_evolution(resolve(flags=evolving), tmp_path / "first")
    assert writer.asked
    (kept,) = (fresh_cache / "responses").glob("*.log")
    ResponseCache(kept).export(tmp_path / "answers.gz")
    return first, tmp_path / "answers.gz"


def test_what_was_answered_before_on_this_machine_is_not_asked_again(evolving, answers, answering, tmp_path):
    with answering() as writer:
        again = run_evolution(resolve(flags=evolving), tmp_path / "again")
    assert writer.asked == []
    assert again.results.text() == answers[0].results.text()


def test_recorded_answers_of_a_file_are_used_first(evolving, answers, answering, tmp_path, monkeypatch):
    first, file = answers
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "another"))
    told = evolving | {"evolve.responses": str(file)}
    with answering() as writer:
        run = run_evolution(resolve(flags=told), tmp_path / "recorded")
    assert writer.asked == []
    assert [each.bank for each in run.results.evolution.rounds] == [
        each.bank for each in first.results.evolution.rounds
    ]
    with answering() as writer:  # what is not in the file is asked for
        run_evolution(resolve(flags=told | {"evolve.insecure_seed": 4}), tmp_path / "other")
    assert writer.asked


def test_a_missing_model_is_an_error_where_nothing_was_recorded(evolving, tmp_path):
    with pytest.raises(MissingError, match="not here"):
        run_evolution(resolve(flags=evolving), tmp_path / "run")


@pytest.mark.usefixtures("scripted")
def test_a_file_that_is_not_there_is_named(evolving, tmp_path):
    told = evolving | {"evolve.responses": str(tmp_path / "nothing.gz")}
    with pytest.raises(DataError, match=r"evolve\.responses"):
        run_evolution(resolve(flags=told), tmp_path / "run")
