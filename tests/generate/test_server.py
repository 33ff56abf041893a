import pytest

from canarybank.errors import ConfigError, GenerationError
from canarybank.generate import (
    CachedGenerator,
    OpenAIGenerator,
    Request,
    ResponseCache,
    Retry,
    ScriptedGenerator,
    Server,
    in_order,
    make_paraphrases,
    server_of,
)

pytest.importorskip("openai")

ONCE = Retry(attempts=1)
RECORD = "my sister moved to the harbour street in spring"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """Begin without any variable that leads requests elsewhere."""
    for name in (*PROXIES, *map(str.lower, PROXIES), "OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


def client(base_url, **options):
    return OpenAIGenerator("model", base_url, **({"api_key": "k-1234567890", "retry": ONCE, "deadline": 5.0} | options))


def asks(*prompts):
    return [Request(prompt, tokens=5) for prompt in prompts]


def test_a_variable_of_the_environment_does_not_choose_the_server(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with pytest.raises(ConfigError, match=r"OPENAI_BASE_URL names a server.*Set generator\.base_url"):
        in_order(client(None), asks("hello"))
    assert server.traffic == []


def test_the_server_that_is_named_is_asked_whatever_the_environment_says(server, elsewhere, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", elsewhere.url)
    assert in_order(client(server.url), asks("hello"))[0].text == "echo hello"
    assert elsewhere.traffic == []


def test_without_a_url_it_is_openais_own():
    assert client(None).server.url == "https://api.openai.com/v1"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_takes_no_request_to_another_server(server, elsewhere, behave, status):
    server.usual = behave.status(status, {"Location": f"{elsewhere.url}/chat/completions"})
    with pytest.raises(GenerationError, match=rf"redirects to .* \({status}\).*set it to that address if you trust it"):
        in_order(client(server.url), asks("hello"))
    assert elsewhere.traffic == []
    assert len(server.traffic) == 1


def test_a_header_of_the_environment_cannot_name_another_host(server, monkeypatch):
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: a\n host : elsewhere.example")
    with pytest.raises(ConfigError, match="header Host"):
        in_order(client(server.url), asks("hello"))
    assert server.traffic == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_a_server_on_this_machine_is_asked_without_a_proxy(server, elsewhere, monkeypatch, variable):
    monkeypatch.setenv(variable, elsewhere.url.removesuffix("/v1"))
    generator = client(server.url)
    assert in_order(generator, asks("hello"))[0].text == "echo hello"
    assert generator.server.proxy is None
    assert elsewhere.traffic == []


def test_a_proxy_of_the_environment_is_used_and_told_without_its_password(elsewhere, monkeypatch):
    host = elsewhere.url.removeprefix("http://").removesuffix("/v1")
    monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@{host}")
    generator = client("http://far.example/v1")
    assert generator.server.proxy == f"http://{host}"
    assert in_order(generator, asks("hello"))[0].text == "echo hello"
    assert elsewhere.traffic[0].startswith("POST http://far.example/v1/chat/completions")


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("https://far.example/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://far.example/v1", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://far.example/v1", {"ALL_PROXY": "socks5://p:1"}, "socks5://p:1"),
        ("https://far.example/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "far.example"}, None),
        ("https://far.example/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://far.example:8/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "near.example"}, "http://p:1"),
        *((f"http://{host}:8/v1", {"HTTP_PROXY": "http://p:1"}, None) for host in ("localhost", "127.3.2.1", "[::1]")),
    ],
)
def test_the_proxy_that_is_told_is_the_one_that_the_client_takes(monkeypatch, url, variables, proxy):
    import openai

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    server = Server.at(url)
    assert server.proxy == proxy
    if proxy is not None and proxy.startswith("socks"):
        return  # the client needs another package to take this one
    http = openai.DefaultAsyncHttpxClient(mounts=server.direct)
    pool = http._transport_for_url(type(http.base_url)(url))._pool
    taken = getattr(pool, "_proxy_url", None) or getattr(getattr(pool, "_proxy", None), "url", None)
    assert (taken is None) == (proxy is None)


def test_requests_that_hold_records_are_refused_as_a_whole_where_nobody_allowed_them(server):
    held = Request(f"Reword: {RECORD}", records=(RECORD,))
    with pytest.raises(ConfigError, match=r"1 of 2 requests to http://127.* hold users' records.*attack\.send_records"):
        in_order(client(server.url), [*asks("hello"), held])
    with pytest.raises(ConfigError, match="send_records=True"):
        make_paraphrases(CachedGenerator(client(server.url), ResponseCache()), [RECORD], 1)
    assert server.traffic == []


def test_what_is_sent_is_counted(server, behave):
    server.script = [behave.status(500)]
    generator = client(server.url, send_records=True, retry=Retry(attempts=2, first=0.0, longest=0.0))
    cached = CachedGenerator(generator, ResponseCache())
    held = [Request(f"Reword {i}: {RECORD}", records=(RECORD,)) for i in range(2)]
    for _ in range(2):
        in_order(cached, [*asks("hello"), *held])
    sent = cached.server
    assert (sent.requests, len(sent.records)) == (4, 1) == (len(server.traffic), 1)  # one was tried again
    assert sent.requests_with_records == sum(RECORD in each for each in server.traffic)


def test_records_beside_a_request_change_neither_its_name_nor_what_is_sent(server):
    plain, held = Request("a", tokens=5), Request("a", tokens=5, records=(RECORD,))
    assert plain.key("model") == held.key("model")
    in_order(client(server.url, send_records=True), [held])
    assert RECORD not in server.traffic[0]


def test_a_generator_in_this_process_has_no_server_and_one_that_does_not_say_has_one():
    assert server_of(ScriptedGenerator(["a"])) is None
    assert server_of(CachedGenerator(ScriptedGenerator(["a"]), ResponseCache())) is None

    class Silent:
        name = fingerprint = "silent"

    assert "does not name" in server_of(Silent()).url
    assert "does not name" in CachedGenerator(Silent(), ResponseCache()).server.url
