from collections import defaultdict

import pytest

from canarybank.flow import embedded_bank, embedded_canaries
from canarybank.generate import CachedGenerator, ResponseCache, ScriptedGenerator, bank_plan, fold, load_prompt
from canarybank.generate.distinct import words
from canarybank.generate.embedded import chat_topics, embedded_requests, make_embedded, prefetch
from canarybank.generate.prompts import fill
from canarybank.users import Row, admit, read

CANARIES = [["I love my old red bike.", "the rain will not stop"], ["we met in the old town", "my cat hates the snow"]]
SIZES = {"bank_size": 200, "pool_size": 6}
SHORTEST = 4
"""The words of a message that could be somebody's own; shorter ones are everybody's."""


def writer(request):
    tail = f"n{request.seed % 997} t{request.seed % 991} k{request.seed % 983}"
    if "record" in request.label or '"' in request.prompt:
        return f'{request.opening}{request.prompt.split(chr(34))[1].rstrip(".")} {tail}"'
    return f"{request.opening} saw it with {tail} today."


def test_topics_are_many_and_different():
    assert len(chat_topics()) == len(set(chat_topics())) >= 128


def test_everything_is_asked_for_beforehand_and_made_from_the_answers_alone(tmp_path):
    requests = embedded_requests(CANARIES, **SIZES)
    path = tmp_path / "answers.gz"
    assert prefetch(ScriptedGenerator(writer), requests, path) == len(set(requests))
    cache = ResponseCache()
    cache.load(path)
    mute = ScriptedGenerator([])
    bank, pools = make_embedded(CachedGenerator(mute, cache), CANARIES, minimum=0.1, **SIZES)
    assert len(bank) == 200
    assert [len(pool) for pool in pools] == [6, 6]
    assert mute.asked == []


@pytest.fixture(scope="module")
def facts():
    return dict(embedded_bank().provenance)


@pytest.fixture(scope="module")
def records():
    """Return the real records of each fixed canary."""
    users = admit("chitchat").users
    return [users.take([users.ids.index(name)]).require_texts() for name in embedded_canaries()]


@pytest.fixture(scope="module")
def requests(records):
    """Return what the package's own bank was made from, and some of what its pools were."""
    return embedded_requests(records, pool_size=64)


@pytest.fixture(scope="module")
def bank_requests(requests):
    return [request for request in requests if request.label]


@pytest.fixture(scope="module")
def messages():
    """Return every message of four words or more that any built-in user wrote, folded into words."""
    folded = {tuple(words(row.text)) for row in read("chitchat") if isinstance(row, Row)}
    return {message for message in folded if len(message) >= SHORTEST}


def shown(requests):
    """Return every text that reaches the model with these requests, folded into words."""
    return {tuple(words(text)) for each in requests for text in (each.system or "", each.prompt, each.opening)}


def found_in(messages, texts):
    """Return the messages that stand somewhere in the texts."""
    beginnings = defaultdict(set)
    for text in texts:
        for start in range(len(text) - SHORTEST + 1):
            beginnings[text[start : start + SHORTEST]].add(text[start:])
    return {
        message
        for message in messages
        if any(rest[: len(message)] == message for rest in beginnings.get(message[:SHORTEST], ()))
    }


def test_the_bank_is_asked_for_as_the_package_records(bank_requests, facts):
    assert tuple(facts["labels"]) == chat_topics()
    assert facts["prompt_hash"] == load_prompt(facts["prompt"]).hash
    assert [facts[kind] for kind in ("examples", "negatives", "existing", "shots")] == [None, None, None, 0]
    recorded = bank_plan(
        len(embedded_bank()), facts["labels"], prompt=facts["prompt"], seed=facts["seed"], tries=facts["tries"]
    )
    assert bank_requests == recorded.requests()


def test_every_embedded_candidate_begins_as_a_request_of_its_topic_asked(bank_requests):
    openings = defaultdict(set)
    for request in bank_requests:
        openings[request.label].add(request.opening)
    bank = embedded_bank()
    for text, label in zip(bank.texts, bank.labels, strict=True):
        assert text.startswith(tuple(openings[label])), (label, text)


def test_a_bank_prompt_is_the_prompt_file_filled_with_a_topic_and_nothing_else(bank_requests, facts):
    prompt = load_prompt(facts["prompt"])
    possible = {
        fill(prompt.user, {"way": way, "label": topic}) for way in prompt.vary["way"] for topic in chat_topics()
    }
    assert {request.prompt for request in bank_requests} <= possible
    assert {request.system for request in bank_requests} == {prompt.system}
    assert {request.opening for request in bank_requests} <= set(prompt.vary["opening"])


def test_no_message_of_a_built_in_user_stands_in_a_bank_prompt(bank_requests, messages, facts):
    assert len(messages) > 150_000
    found = {" ".join(message) for message in found_in(messages, shown(bank_requests))}
    # The prompt file's own phrases hold these two, which people type as well.
    assert found == {"tell me about your day", "what do you think"}
    own = [fold(phrase) for phrases in load_prompt(facts["prompt"]).vary.values() for phrase in phrases]
    assert all(any(text in phrase for phrase in own) for text in found)


def test_a_message_that_stood_in_a_prompt_would_be_found(requests, records, messages):
    asked = {tuple(words(text)) for own in records for text in own}
    assert len(asked) > 250
    assert asked <= messages
    assert asked <= found_in(messages, shown(request for request in requests if not request.label))
