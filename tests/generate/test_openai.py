import asyncio
import logging
import pickle
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pytest

from canarybank.errors import BudgetError, ConfigError, GenerationError, InputError
from canarybank.generate import (
    CachedGenerator,
    Cleaning,
    LlamaCppGenerator,
    OpenAIGenerator,
    Prompt,
    Request,
    ResponseCache,
    Retry,
    SpendingCeiling,
    in_order,
    make_bank,
    make_paraphrases,
)
from canarybank.generate.budget import worst_case
from canarybank.generate.llamacpp import gguf_path, start_server
from canarybank.store import Log

pytest.importorskip("openai")

QUICK = Retry(attempts=4, first=0.01, longest=0.02)
KEY = "sk-canary-5f1d0c7e9a"


def asks(count: int) -> list[Request]:
    return [Request(f"question {i}", seed=i, tokens=5) for i in range(count)]


def client(server, **options):
    return OpenAIGenerator("model", server.url, **({"api_key": KEY, "retry": QUICK, "deadline": 5.0} | options))


def test_every_request_is_answered_with_its_parameters_and_its_usage(server):
    request = Request("hello", system="be brief", seed=7, temperature=0.3, tokens=9, top_p=0.8, opening="I")
    (answer,) = in_order(client(server), [request])
    assert answer.text == "echo hello\n\nBegin your answer with: I"
    assert (answer.prompt_tokens, answer.completion_tokens, answer.finished) == (10, 5, True)
    (sent,) = server.requests
    assert (sent["seed"], sent["temperature"], sent["max_tokens"], sent["top_p"]) == (7, 0.3, 9, 0.8)
    assert [m["role"] for m in sent["messages"]] == ["system", "user"]


def test_a_server_that_continues_answers_gets_the_opening_as_one(server):
    in_order(
        client(server, prefill=True, limit="max_completion_tokens"), [Request("hello", opening="I just", tokens=3)]
    )
    assert server.requests[0]["messages"][-1] == {"role": "assistant", "content": "I just"}
    assert server.requests[0]["max_completion_tokens"] == 3


def test_at_most_so_many_requests_are_in_flight(server, behave):
    server.usual = behave.slow(0.05)
    assert [a.text for a in in_order(client(server, concurrency=3), asks(12))] == [
        f"echo question {i}" for i in range(12)
    ]
    assert 2 <= server.most_in_flight <= 3


def test_it_can_be_used_inside_a_running_event_loop(server):
    async def main() -> list[object]:
        return list(in_order(client(server), asks(2)))

    # In a thread of its own: a browser of another test may have left its loop running in this one.
    with ThreadPoolExecutor(1) as beside:
        assert len(beside.submit(asyncio.run, main()).result()) == 2


def faults(behave, completed):
    return {
        "408": behave.status(408),
        "409": behave.status(409),
        "425": behave.status(425),
        "500": behave.status(500),
        "503": behave.status(503, {"Retry-After": "0"}),
        "429": behave.status(429, {"Retry-After": "0.1"}),
        "dropped": behave.drop,
        "invalid JSON": behave.body(b'{"choices": [{"mess'),
        "no JSON object": behave.body(b"[]"),
        "no choice": behave.body(b'{"choices": []}'),
        "empty choice": behave.body(b'{"choices": [{}]}'),
        "no text": behave.body(b'{"choices": [{"message": {"content": null}}]}'),
        "too deep": behave.body(b"[" * 200_000),
        "endless tokens": behave.body(completed("hi", prompt_tokens=float("inf"))),
        "no number of tokens": behave.body(completed("hi", completion_tokens=float("nan"))),
        "huge tokens": behave.body(completed("hi", prompt_tokens=10**400)),
        "tokens of too many digits": behave.body(
            completed("hi", prompt_tokens=0).replace(b'_tokens": 0', b'_tokens": ' + b"9" * 9_000)
        ),
        "tokens in words": behave.body(completed("hi", completion_tokens="10")),
        "usage in words": behave.body(b'{"choices": [{"message": {"content": "hi"}}], "usage": "much"}'),
    }


KINDS = [
    *("408", "409", "425", "429", "500", "503", "dropped", "invalid JSON", "no JSON object", "no choice"),
    *("empty choice", "no text", "too deep", "endless tokens", "no number of tokens", "huge tokens"),
    *("tokens of too many digits", "tokens in words", "usage in words"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_passing_fault_is_retried_and_a_lasting_one_reported_with_nothing_lost(
    server, behave, completed, kind, tmp_path
):
    fault = faults(behave, completed)[kind]
    server.script = [fault, fault]
    assert [a.text for a in in_order(client(server), asks(3))] == [f"echo question {i}" for i in range(3)]
    assert len(server.requests) == 5

    cache = ResponseCache(tmp_path / "responses.log")
    server.requests.clear()
    server.script = [behave.well, *[fault] * 4]
    with pytest.raises(GenerationError, match=r"4 of 4 attempts.*resume") as caught:
        in_order(CachedGenerator(client(server, concurrency=1), cache), asks(3))
    assert len(str(caught.value)) < 600
    assert len(cache) == 1
    server.requests.clear()
    again = in_order(CachedGenerator(client(server), ResponseCache(tmp_path / "responses.log")), asks(3))
    assert [a.text for a in again] == [f"echo question {i}" for i in range(3)]
    assert len(server.requests) == 2


def test_what_is_in_flight_when_another_fails_is_still_passed_on(server, behave):
    server.script = [behave.status(400), behave.slow(0.3), behave.slow(0.3)]
    cache = ResponseCache()
    with pytest.raises(GenerationError, match="400"):
        in_order(CachedGenerator(client(server, concurrency=3), cache), asks(9))
    assert len(cache) == 2
    assert len(server.requests) == 3


def test_an_answer_that_never_ends_is_given_up_and_retried(server, behave):
    server.script = [behave.endless]
    generator = client(server, deadline=0.4)
    (answer,) = in_order(generator, asks(1))
    assert answer.text == "echo question 0"
    assert len(server.requests) == 2
    assert generator.spending.tokens == 15 + sum(worst_case(asks(1)[0]))
    server.usual = behave.endless
    with pytest.raises(GenerationError, match=r"no whole answer came within 0\.2 seconds"):
        in_order(client(server, deadline=0.2, retry=Retry(attempts=2, first=0.01)), asks(1))


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_that_floods_is_hung_up_on_and_retried(server, behave, status):
    sent: list[int] = []
    server.script = [behave.flood(sent, status)]
    generator = client(server)
    (answer,) = in_order(generator, asks(1))
    assert answer.text == "echo question 0"
    assert generator.spending.tokens == 15 + sum(worst_case(asks(1)[0]))
    server.usual = behave.flood(sent, status)
    with pytest.raises(GenerationError, match=r"2 of 2 attempts: it sent more than 16 MiB"):
        in_order(client(server, retry=Retry(attempts=2, first=0.01)), asks(1))
    assert len(sent) == 3
    assert max(sent) < 128 * 2**20


@pytest.mark.parametrize(("header", "least", "most"), [("7", 7, 7), ("date", 100, 250)])
def test_retry_after_is_waited_for(server, behave, header, least, most, monkeypatch):
    slept, sleep = [], asyncio.sleep

    def asleep(seconds, *rest):
        slept.append(seconds)
        return sleep(0, *rest)

    monkeypatch.setattr(asyncio, "sleep", asleep)
    value = formatdate(time.time() + 250, usegmt=True) if header == "date" else header
    server.script = [behave.status(429, {"Retry-After": value})]
    in_order(client(server), asks(1))
    assert least <= max(slept) <= most
    assert len(server.requests) == 2


def test_a_wait_beyond_patience_is_reported_at_once(server, behave):
    server.script = [behave.status(429, {"Retry-After": "3600"})]
    with pytest.raises(
        GenerationError, match=r"after 1 of 4 attempts: it said 429.*to wait 3,600 seconds, while 300 are"
    ):
        in_order(client(server), asks(1))


def test_a_request_that_the_server_refuses_is_not_repeated(server, behave):
    server.usual = behave.status(401, said="bad key")
    with pytest.raises(GenerationError, match="it said 401"):
        in_order(client(server, concurrency=1), asks(3))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (f"no such model for {KEY}".encode(), "it said 400: 'no such model for <secret>'."),
        (b"<html>\n  <b>Bad   gateway</b>\x1b[2J</html>", r"it said 400: '<html> <b>Bad gateway</b>\x1b[2J</html>'."),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"error": "model is not loaded"}', "it said 400: 'model is not loaded'."),
        (b"x" * 199 + KEY.encode(), f"'{'x' * 199}<'."),
        (b"x" * 5000, f"'{'x' * 200}'."),
        (b"", "it said 400: Error code: 400."),
    ],
)
def test_the_body_of_an_error_is_shown_where_it_holds_no_message(server, behave, body, shown):
    server.usual = behave.body(body, 400)
    with pytest.raises(GenerationError) as caught:
        in_order(client(server), asks(1))
    assert shown in str(caught.value)
    assert "sk-" not in str(caught.value)


def test_nothing_listening_is_reported_and_charged_nothing():
    generator = OpenAIGenerator("model", "http://127.0.0.1:9/v1", retry=Retry(attempts=2, first=0.01))
    with pytest.raises(GenerationError, match="connection failed"):
        in_order(generator, asks(1))
    assert generator.spending.tokens == 0


def test_closing_early_ends_what_is_in_flight(server, behave):
    server.script = [behave.well]
    server.usual = behave.endless
    answers = client(server, concurrency=2, deadline=3600.0).generate(asks(4))
    next(answers)
    answers.close()  # or this test runs into its time limit
    assert len(server.requests) <= 3


def test_the_token_ceiling_stops_before_it_is_passed_and_the_run_resumes(server, tmp_path):
    worst = sum(worst_case(asks(1)[0]))
    path = tmp_path / "responses.log"
    generator = client(server, ceiling=SpendingCeiling(tokens=worst + 3 * 15), concurrency=4)
    with pytest.raises(BudgetError, match=r"60 of 1\d\d tokens.*resume"):
        in_order(CachedGenerator(generator, ResponseCache(path)), asks(20))
    assert generator.spending.tokens == 15 * len(server.requests) == 60
    server.requests.clear()
    in_order(CachedGenerator(client(server), ResponseCache(path)), asks(20))
    assert len(server.requests) == 16


def test_the_cost_ceiling_counts_both_prices(server):
    ceiling = SpendingCeiling(cost=1.0, prompt_price=1000.0, completion_price=2000.0)
    generator = client(server, ceiling=ceiling)
    with pytest.raises(BudgetError, match="in money"):
        in_order(generator, asks(100))
    spent = len(server.requests) * (10 * 0.001 + 5 * 0.002)
    assert generator.spending.cost == pytest.approx(spent)
    assert 0.8 < spent <= 1.0


def test_a_lost_answer_is_charged_in_full_and_a_refused_one_not(server, behave):
    generator = client(server)
    server.script = [behave.drop]
    in_order(generator, asks(1))
    assert generator.spending.tokens == 15 + sum(worst_case(asks(1)[0]))
    server.script = [behave.status(500)]
    in_order(generator, asks(1))
    assert generator.spending.tokens == 30 + sum(worst_case(asks(1)[0]))


@pytest.mark.parametrize("usage", [(0, 0), (-500, -500), (None, None), (1, 1)])
def test_a_report_of_nothing_used_is_charged_the_worst_case(server, behave, completed, usage):
    server.usual = behave.body(completed("x" * 100, *usage))
    generator = client(server, ceiling=SpendingCeiling(tokens=1000))
    requests = [Request(f"question {i} of {'many ' * 10}", seed=i, tokens=5) for i in range(60)]
    with pytest.raises(BudgetError):
        in_order(generator, requests)
    worst = sum(worst_case(requests[10]))
    assert generator.spending.tokens == pytest.approx(worst * len(server.requests), abs=60)
    assert 1000 - worst < generator.spending.tokens <= 1000


def test_the_key_reaches_the_server_and_nothing_else(server, behave, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "httpx", "httpx2", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    path = tmp_path / "responses.log"
    generator = OpenAIGenerator("model", server.url, key_variable="MY_KEY", retry=QUICK)
    cache = ResponseCache(path)
    in_order(CachedGenerator(generator, cache), asks(2))
    cache.export(tmp_path / "shipped.gz")
    shown = [repr(generator), str(vars(generator)), generator.fingerprint]
    for fault in (behave.status(401, said=f"Incorrect API key: {KEY}"), behave.body(KEY.encode())):
        server.usual = fault
        with pytest.raises(GenerationError) as caught:
            in_order(CachedGenerator(generator, cache), asks(5))
        shown += ["".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())]
        shown += [str(caught.value), repr(caught.value.__context__), repr(caught.value.__cause__)]
    with pytest.raises(ConfigError, match="not written to files"):
        pickle.dumps(generator._key)
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert caplog.records
    held = [f.read_bytes().decode("latin-1") for f in Path(tmp_path).iterdir()]
    for text in (*shown, *held, caplog.text):
        assert KEY not in text
    assert Log(path).records()


@pytest.mark.parametrize("before", [0, 279, 281, 290, 299, 300, 301])
@pytest.mark.parametrize("escaped", [False, True])
def test_no_part_of_the_key_is_left_where_an_error_is_cut(server, behave, before, escaped):
    key = KEY.replace("-", "\\u002D") if escaped else KEY
    server.usual = behave.body(b"x" * before + key.encode() + b" and more")
    with pytest.raises(GenerationError) as caught:
        in_order(client(server), asks(1))
    assert "sk" not in str(caught.value)
    server.usual = behave.status(400, said="x" * before + KEY)
    with pytest.raises(GenerationError) as caught:
        in_order(client(server), asks(1))
    assert "sk-" not in str(caught.value)


def test_an_answer_that_repeats_the_key_is_kept_without_it(server, behave, completed, tmp_path):
    spelled = completed(f"my key is {KEY}.").replace(b"canary", b"c\\u0061nary")
    server.script = [behave.body(completed(f"my key is {KEY}.")), behave.body(spelled)]
    answers = in_order(CachedGenerator(client(server), ResponseCache(tmp_path / "responses.log")), asks(2))
    assert [answer.text for answer in answers] == ["my key is <secret>."] * 2
    assert KEY.encode() not in (tmp_path / "responses.log").read_bytes()


def test_a_word_that_a_local_server_takes_for_a_key_stays_in_answers(server, behave, completed):
    server.usual = behave.body(completed("the test went well"))
    (answer,) = in_order(client(server, api_key="test"), asks(1))
    assert answer.text == "the test went well"


@pytest.mark.parametrize("said", ['Hello you." I hope', 'New: "Hello you." I hope', '\nNew: "Hello you." I hope'])
def test_a_continued_answer_has_its_opening_whether_or_not_the_server_repeats_it(server, behave, completed, said):
    server.usual = behave.body(completed(said))
    request = Request("x", opening='New: "', tokens=5)
    (answer,) = in_order(client(server, prefill=True), [request])
    assert Prompt("p", "x", opening='New: "', keep_opening=False).answer(request, answer).text == "Hello you."
    (plain,) = in_order(client(server), [request])
    assert plain.text == said


@pytest.mark.parametrize("key", [f"{KEY}\n", f"  {KEY} \r\n"])
def test_space_around_a_key_is_not_part_of_it(server, key):
    in_order(client(server, api_key=key), asks(1))
    assert server.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("key", [f"{KEY}\r\nX: y", f"{KEY}\0", f"{KEY}é", f"{KEY} {KEY}"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key, monkeypatch):
    monkeypatch.setenv("MY_KEY", key.replace("\0", "\x7f"))
    for given in ({"api_key": key}, {"key_variable": "MY_KEY"}):
        with pytest.raises(ConfigError, match="beyond ASCII") as caught:
            OpenAIGenerator("model", "http://127.0.0.1:1/v1", **given)
        assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://host", "localhost:80", f"http://user:{KEY}@host/v1", f"http://host/v1?key={KEY}"),
        *("http://127.0.0.1:99999/v1", "http://host:abc/v1", f"http://user:{KEY}/v1", "http://[::1/v1"),
    ],
)
def test_a_base_url_that_cannot_be_used_or_holds_a_secret_is_refused(url):
    with pytest.raises(ConfigError) as caught:
        OpenAIGenerator("model", url)
    assert KEY not in str(caught.value)


def test_settings_are_checked(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAIGenerator("model")
    for key in (KEY, "pT9xQabcdefghijklmnopqrstuvw0123"):
        with pytest.raises(ConfigError, match="may be the key itself") as caught:
            OpenAIGenerator("model", key_variable=key)
        assert key not in str(caught.value)
    with pytest.raises(InputError, match="in flight"):
        OpenAIGenerator("model", "http://host/v1", concurrency=0)
    with pytest.raises(InputError, match="deadline"):
        OpenAIGenerator("model", "http://host/v1", deadline=0)


def test_the_fingerprint_is_of_the_model_and_not_of_the_server():
    first = OpenAIGenerator("model", "http://one/v1")
    assert first.fingerprint == OpenAIGenerator("model", "http://two/v1", api_key="x").fingerprint
    assert first.fingerprint != OpenAIGenerator("model", "http://one/v1", revision="2").fingerprint
    assert first.fingerprint != OpenAIGenerator("other", "http://one/v1").fingerprint


@pytest.mark.models
def test_a_real_server_writes_a_bank_and_a_pool_once(server, tmp_path):
    pytest.importorskip("xllamacpp")
    llama = start_server(gguf_path("smollm2"), threads=1, parallel=2, context=512, key="key-of-a-test")
    server.forward_to(llama.listening_address)
    path = tmp_path / "responses.log"
    records = ["I just checked the leaderboard.", "we could set up a meeting place tomorrow"]

    def write():
        generator = OpenAIGenerator(
            "smollm2", server.url, api_key="key-of-a-test", concurrency=2, prefill=True, send_records=True
        )
        cached = CachedGenerator(generator, ResponseCache(path))
        bank = make_bank(cached, 4, ["coffee", "rain"], prompt="bank-chat", seed=1, cleaning=Cleaning(longest=40))
        return bank, make_paraphrases(cached, records, 2, seed=1, minimum=0.2)

    bank, pool = write()
    assert len(set(bank.texts)) == 4
    assert bank.labels.count("rain") == 2
    assert len(set(pool.texts)) == 2
    assert not {t.strip(".").lower() for t in pool.texts} & {r.strip(".").lower() for r in records}
    assert len(server.requests) >= 6
    server.requests.clear()
    again, pool_again = write()
    assert (again.texts, pool_again.texts) == (bank.texts, pool.texts)
    assert server.requests == []
    del llama


@pytest.mark.models
def test_the_same_model_in_process_answers_and_is_named_by_its_file():
    pytest.importorskip("xllamacpp")
    generator = LlamaCppGenerator(threads=1, parallel=2, context=256)
    requests = [Request("Say hello.", seed=i, tokens=6, opening="I") for i in range(3)]
    answers = in_order(generator, requests)
    assert generator.name == "SmolLM2-135M-Instruct.Q4_1"
    assert all(a.text.startswith("I") and a.completion_tokens <= 7 for a in answers)
    with pytest.raises(GenerationError, match="context"):
        in_order(generator, [Request("long " * 400)])
