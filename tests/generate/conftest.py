import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Behaviour = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def reply(
    handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def completion(text: str | None, prompt_tokens: Any = 10, completion_tokens: Any = 5) -> bytes:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return json.dumps({"choices": [choice], "usage": usage, "object": "chat.completion"}).encode()


class Behave:
    """The ways in which the server answers one request."""

    @staticmethod
    def well(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
        reply(handler, completion(f"echo {asked['messages'][-1]['content']}"))

    @staticmethod
    def status(code: int, headers: dict[str, str] | None = None, said: str = "trouble") -> Behaviour:
        def behave(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
            del asked
            reply(handler, json.dumps({"error": {"message": said}}).encode(), code, headers)

        return behave

    @staticmethod
    def drop(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
        del asked
        handler.close_connection = True
        handler.connection.close()

    @staticmethod
    def endless(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
        del asked
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        for _ in range(400):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    @staticmethod
    def flood(sent: list[int], status: int = 200) -> Behaviour:
        """Send a gigabyte, and note in ``sent`` how many bytes left before the other side hung up."""

        def behave(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
            del asked
            handler.close_connection = True
            handler.send_response(status)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Connection", "close")
            handler.end_headers()
            sent.append(0)
            for _ in range(1024):
                handler.wfile.write(b" " * 2**20)
                sent[-1] += 2**20

        return behave

    @staticmethod
    def body(data: bytes, status: int = 200) -> Behaviour:
        def behave(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
            del asked
            reply(handler, data, status)

        return behave

    @staticmethod
    def slow(seconds: float) -> Behaviour:
        def behave(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
            time.sleep(seconds)
            Behave.well(handler, asked)

        return behave


class LoopbackServer:
    """A real HTTP server that answers by a script and keeps what reaches it.

    ``traffic`` holds each request in full: its line, headers and body, the body also with its escapes resolved.
    """

    def __init__(self) -> None:
        self.script: list[Behaviour] = []
        self.usual: Behaviour = Behave.well
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.traffic: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                asked = json.loads(body)
                outer.traffic.append(
                    f"{self.requestline}\n{self.headers}\n{body}\n{json.dumps(asked, ensure_ascii=False)}"
                )
                behave = outer._enter(asked, self.headers.get("Authorization"))
                try:
                    behave(self, asked)
                except OSError:
                    self.close_connection = True
                finally:
                    outer._leave()

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def forward_to(self, address: str) -> None:
        def behave(handler: BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
            headers = {"Content-Type": "application/json", "Authorization": handler.headers["Authorization"]}
            request = urllib.request.Request(  # noqa: S310, a loopback address
                address + handler.path, json.dumps(asked).encode(), headers
            )
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310, a loopback address
                reply(handler, response.read())

        self.usual = behave

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _enter(self, asked: dict[str, Any], key: str | None) -> Behaviour:
        with self._lock:
            self.requests.append(asked)
            self.keys.append(key)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            return self.script.pop(0) if self.script else self.usual

    def _leave(self) -> None:
        with self._lock:
            self.in_flight -= 1


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    running = LoopbackServer()
    yield running
    running.close()


@pytest.fixture
def elsewhere() -> Iterator[LoopbackServer]:
    """Return a second server, which nothing should reach."""
    running = LoopbackServer()
    yield running
    running.close()


@pytest.fixture
def behave() -> type[Behave]:
    return Behave


@pytest.fixture
def completed() -> Callable[..., bytes]:
    return completion
