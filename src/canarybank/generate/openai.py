"""Ask any server that speaks the OpenAI protocol."""

import asyncio
import contextlib
import functools
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any

from canarybank.errors import ConfigError, GenerationError, InputError, MissingError
from canarybank.generate.budget import Spending, SpendingCeiling, worst_case
from canarybank.generate.protocol import Request, Response
from canarybank.generate.reply import UNREADABLE, read_reply
from canarybank.generate.retry import Retry, retry_after
from canarybank.generate.secret import Secret
from canarybank.generate.server import Server
from canarybank.store import hash_json

__all__ = ["KEY_VARIABLE", "OpenAIGenerator"]

KEY_VARIABLE = "OPENAI_API_KEY"
_RETRIED = frozenset({408, 409, 425, 429})
_SERVER_FAULT = 500
_REDIRECTS = range(300, 400)
_SHOWN = 300
_SHOWN_BODY = 200
_MEBIBYTE = 2**20
_LONGEST_BODY = 16 * _MEBIBYTE
# Names, because the client builds on one of several HTTP packages.
_NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})


class _FloodError(Exception):
    """A body that goes on beyond what any answer takes."""


class _Fault(Exception):  # noqa: N818, a fault may be mended by another attempt
    """One attempt that failed: why, whether another makes sense and after how long, and whether it may be billed."""

    def __init__(self, reason: str, *, again: bool = True, after: float | None = None, charged: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.again, self.after, self.charged = reason, again, after, charged


class OpenAIGenerator:
    """Answer through a server that speaks the OpenAI chat protocol, by its base URL.

    At most ``concurrency`` requests are in flight; each attempt has ``deadline`` seconds from start to end, so
    that an answer which never ends is given up as well; ``retry`` says how often an attempt is repeated.
    ``ceiling`` is checked against the worst case of a request before it is sent. The key is read from the
    environment variable ``key_variable``, or passed in memory; it reaches no log, cache, error or repr.

    Requests go to ``base_url`` alone, or to OpenAI's own server where it is left out; redirects are not followed.
    Requests that hold users' records are refused unless ``send_records`` allows them. ``server`` counts what was sent.

    ``prefill`` says that the server continues a last message of the assistant, as llama.cpp's and vLLM's do;
    otherwise a request's opening is asked for in words. ``limit`` is what the server calls the most tokens of an
    answer (``max_completion_tokens`` on some). ``revision`` marks a model that changed under its name.
    The fingerprint is of the model's name and revision, not of the server: two servers of one model share
    recorded answers.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        key_variable: str = KEY_VARIABLE,
        concurrency: int = 8,
        deadline: float = 120.0,
        retry: Retry | None = None,
        ceiling: SpendingCeiling | None = None,
        prefill: bool = False,
        limit: str = "max_tokens",
        revision: str = "",
        send_records: bool = False,
    ) -> None:
        if concurrency < 1:
            raise InputError(f"At least one request must be in flight, not {concurrency}.")
        if not deadline > 0:
            raise InputError(f"The deadline must be a positive number of seconds, but it is {deadline}.")
        self._model, self._revision, self._prefill, self._limit = model, revision, prefill, limit
        self._server, self._send_records = Server.at(base_url), send_records
        self._key = Secret.from_environment(key_variable) if api_key is None else Secret(api_key, key_variable)
        if base_url is None and not self._key.reveal():
            raise ConfigError(
                f"OpenAI's own server needs an API key: set the environment variable {key_variable}, "
                "or give the base URL of another server."
            )
        self._concurrency, self._deadline = concurrency, deadline
        self._retry = retry or Retry()
        self.spending = Spending(ceiling)

    def __repr__(self) -> str:
        return f"OpenAIGenerator({self._model!r}, {self._server.url!r})"

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._model

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the model's name and revision, and of how openings are asked for."""
        return hash_json(["openai", self._model, self._revision, self._prefill])

    @property
    def server(self) -> Server:
        """Return the server that requests are sent to, and what was sent so far."""
        return self._server

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer the requests as their answers arrive; after a failure those in flight are still passed on."""
        self._refuse_records(requests)
        answers: queue.SimpleQueue[tuple[int, Response] | Exception | None] = queue.SimpleQueue()
        worker = _Worker(self._run(requests, answers), answers)
        try:
            while (answer := answers.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            worker.stop()

    def _refuse_records(self, requests: Sequence[Request]) -> None:
        """Refuse, before anything is sent, requests that hold users' records where these may not be sent."""
        if not self._send_records and (held := sum(bool(request.records) for request in requests)):
            raise ConfigError(
                f"{held} of {len(requests)} requests to {self._server.url} hold users' records, and nothing allows "
                "sending them. Set attack.send_records to true to allow it (in Python, send_records=True), or use a "
                "generator that runs in this process."
            )

    async def _run(self, requests: Sequence[Request], answers: queue.SimpleQueue[Any]) -> None:
        waiting = iter(enumerate(requests))
        stop: list[Exception] = []
        settled = asyncio.Condition()
        async with self._client() as client:

            async def work() -> None:
                for index, request in waiting:
                    try:
                        answers.put((index, await self._answered(client, request, settled)))
                    except Exception as error:  # noqa: BLE001, the first is raised once all that is in flight has ended
                        stop.append(error)
                    if stop:
                        return

            await asyncio.gather(*(work() for _ in range(min(self._concurrency, len(requests)))))
        if stop:
            raise stop[0]

    def _client(self) -> Any:
        try:
            import openai
        except ImportError:
            raise MissingError(
                "Servers are asked through the openai package, which is not here; "
                "install it by: pip install 'canarybank[openai]'"
            ) from None
        return openai.AsyncOpenAI(
            api_key=self._key.reveal() or "none",
            base_url=self._server.url,
            timeout=self._deadline,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                event_hooks={"response": [_bounded]}, follow_redirects=False, mounts=self._server.direct
            ),
        )

    async def _answered(self, client: Any, request: Request, settled: asyncio.Condition) -> Response:
        """Try a request until it is answered, or raise why it cannot be."""
        attempt = 0
        while True:
            attempt += 1
            reserved = await self._reserved(request, settled)
            spent = (0, 0)
            try:
                response = await self._attempt(client, request)
            except _Fault as fault:
                spent = reserved if fault.charged else (0, 0)
                reason, wait = fault.reason, self._retry.wait(attempt, fault.after) if fault.again else None
            else:
                spent = (response.prompt_tokens, response.completion_tokens)
                return response
            finally:
                await self._settle(reserved, spent, settled)
            if wait is None:
                raise GenerationError(
                    f"The server {self._server.url} did not answer a request after {attempt} of {self._retry.attempts} "
                    f"attempts: {reason}. What was answered is kept; run the same command to resume."
                )
            await asyncio.sleep(wait)

    async def _reserved(self, request: Request, settled: asyncio.Condition) -> tuple[int, int]:
        """Set a request's worst case aside, waiting for those in flight where only they stand in its way."""
        need = worst_case(request)
        async with settled:
            while not self.spending.fits(*need):
                if not self.spending.in_flight:
                    raise self.spending.refusal(*need)
                await settled.wait()
            self.spending.reserve(*need)
        return need

    async def _settle(self, reserved: tuple[int, int], spent: tuple[int, int], settled: asyncio.Condition) -> None:
        async with settled:
            self.spending.settle(reserved, spent)
            settled.notify_all()

    async def _attempt(self, client: Any, request: Request) -> Response:
        import openai

        self._server.count(request.records)
        try:
            async with asyncio.timeout(self._deadline):
                raw = await client.chat.completions.with_raw_response.create(
                    model=self._model,
                    messages=request.messages(prefill=self._prefill),
                    temperature=request.temperature,
                    top_p=request.top_p,
                    seed=request.seed,
                    **{self._limit: request.tokens},
                )
                body = raw.http_response.content
        except openai.APIStatusError as error:
            fault = self._refused(error)
        except (TimeoutError, openai.APITimeoutError):
            fault = _Fault(f"no whole answer came within {self._deadline:g} seconds", charged=True)
        except _FloodError as error:
            fault = _Fault(str(error), charged=True)
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            sent = type(cause).__name__ not in _NEVER_SENT
            said = self._key.hide(str(cause))[:_SHOWN]
            fault = _Fault(
                f"the connection failed ({said}); see that it runs there, or set --generator.base-url", charged=sent
            )
        else:
            return self._read(body, request)
        # Raised out here, so that no error of the client, which holds the request's headers, hangs on to it.
        raise fault

    def _refused(self, error: Any) -> _Fault:
        status = int(error.status_code)
        again = status in _RETRIED or status >= _SERVER_FAULT
        reason = f"it said {status}: {self._said(error, status)}"
        if target := error.response.headers.get("location") if status in _REDIRECTS else None:
            reason = (
                f"it redirects to {self._key.hide(target)[:_SHOWN]!r} ({status}), and requests go to no address but "
                "generator.base_url; set it to that address if you trust it"
            )
        after = retry_after(error.response.headers.get("retry-after"))
        if again and after is not None and after > self._retry.patience:
            reason += f", and asks to wait {after:,.0f} seconds, while {self._retry.patience:,.0f} are waited at most"
        return _Fault(reason, again=again, after=after)

    def _said(self, error: Any, status: int) -> str:
        """Return what a server said of an error, from the body itself where its client found no message in it."""
        message = self._key.hide(str(error.message))[:_SHOWN]
        if message != f"Error code: {status}" or not error.body:
            return message
        return repr(" ".join(self._key.hide(str(error.body)).split())[:_SHOWN_BODY])

    def _read(self, body: bytes, request: Request) -> Response:
        try:
            response = read_reply(body, request, prefill=self._prefill)
        except UNREADABLE as error:
            said = self._key.hide(body.decode("utf-8", "replace"))[:_SHOWN]
            reason = f"it sent no readable answer ({type(error).__name__} in {said!r})"
        else:
            return replace(response, text=self._key.hide_in_answer(response.text))
        raise _Fault(reason, charged=True)


class _Worker:
    """An event loop on a thread of its own, so that callers inside a loop of theirs can wait for it too."""

    def __init__(self, work: Coroutine[Any, Any, None], answers: queue.SimpleQueue[Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(work)
        self._answers = answers
        self._thread = threading.Thread(target=self._run, name="canarybank-openai", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        end: Exception | None = None
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001, raised again in the caller's thread
            end = error
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._answers.put(end)

    def stop(self) -> None:
        """Cancel what is still in flight, and wait until its connections are closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()


async def _bounded(response: Any) -> None:
    """Have a response's body read up to a length at which it is no answer, whatever its status says."""
    response.aiter_bytes = functools.partial(_counted, response.aiter_bytes)


async def _counted(read: Callable[..., AsyncIterator[bytes]], *arguments: Any, **named: Any) -> AsyncIterator[bytes]:
    length = 0
    async for part in read(*arguments, **named):
        length += len(part)
        if length > _LONGEST_BODY:
            raise _FloodError(f"it sent more than {_LONGEST_BODY // _MEBIBYTE} MiB, which is no answer")
        yield part
