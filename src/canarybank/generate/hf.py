"""Run a Hugging Face model through transformers, in big batches on a GPU where there is one.

Needs torch, transformers and numpy only, so that a bare GPU machine can write what another machine cleans.
"""

import functools
import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canarybank.errors import ConfigError, GenerationError, InputError, MissingError
from canarybank.generate.decoding import Decoder, is_known
from canarybank.generate.protocol import Request, Response
from canarybank.seeds import GOLDEN, mixed
from canarybank.store import hash_file, hash_json

if TYPE_CHECKING:
    import torch

__all__ = ["HFGenerator", "draw_processor", "load_model"]

# What decides a folder's answers: the weights, and what turns requests into tokens and tokens into an end.
_WEIGHTS = (".safetensors", ".bin", ".gguf")
_SETTINGS = (".json", ".jinja", ".model", ".tiktoken", ".txt")
_TEMPLATES = "additional_chat_templates"
_LIKELIEST = 256  # tokens that are sorted at a step; where min_p and top_p leave more, all are


class HFGenerator:
    """Answer with a Hugging Face model: a folder, a hub name, or a GGUF file (with the ``gguf`` package).

    Requests are sorted by length and answered in batches, in bfloat16 on CUDA and float32 elsewhere. On CUDA, models
    with Llama's or Qwen2's layers are decoded by ``Decoder``, in batches as large as memory holds easily; ``batch`` is
    for the others. Each request's randomness is its own: the token drawn at a step depends on the request's seed and
    on the model's logits alone, so batch-mates and devices change an answer only through rounding in the logits.
    ``min_p`` drops tokens less likely than that share of the likeliest one's probability.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str | None = None,
        dtype: str | None = None,
        batch: int = 512,
        min_p: float = 0.05,
        revision: str | None = None,
    ) -> None:
        if batch < 1:
            raise InputError(f"A batch must hold at least one request, not {batch}.")
        if not 0 <= min_p < 1:
            raise InputError(f"min_p must lie in [0, 1), but it is {min_p}.")
        self._source, self._device, self._dtype = str(model), device, dtype
        self._batch, self._min_p, self._revision = batch, min_p, revision
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        self._decoder: Decoder | None = None
        self._fingerprint = ""

    @property
    def name(self) -> str:
        """Return the model's name, or the last part of its path."""
        return Path(self._source).stem if Path(self._source).exists() else self._source

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the model and of min_p.

        A folder stands for its weights, tokenizer, chat templates and settings; a GGUF file for its bytes, which hold
        all of these; a hub model for its name and revision.
        """
        if not self._fingerprint:
            self._fingerprint = hash_json(["transformers", _content(Path(self._source), self._revision), self._min_p])
        return self._fingerprint

    @property
    def server(self) -> None:
        """Return None: nothing leaves this process."""

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer the requests batch by batch, those of like length together."""
        model, tokenizer = self._model()
        prompts = [_tokens(tokenizer, request) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: (requests[i].tokens, len(prompts[i])))
        while order:
            size = self._batch if self._decoder is None else self._decoder.rows(max(map(len, prompts)))
            chosen, order = order[:size], order[size:]
            answers = self._answers(model, tokenizer, [prompts[i] for i in chosen], [requests[i] for i in chosen])
            yield from zip(chosen, answers, strict=True)

    def _model(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = model, tokenizer = load_model(self._source, self._device, self._dtype, self._revision)
                if model.device.type == "cuda" and is_known(model):
                    draw = functools.partial(_draw, min_p=self._min_p)
                    self._decoder = Decoder(model, draw, _ends(model, tokenizer), tokenizer.pad_token_id)
            return self._loaded

    def _answers(self, model: Any, tokenizer: Any, prompts: list[list[int]], requests: list[Request]) -> list[Response]:
        tokens, ends = max(r.tokens for r in requests), _ends(model, tokenizer)
        rows: list[list[int] | None] = [None] * len(prompts)
        if self._decoder is not None and max(map(len, prompts)) + tokens <= self._decoder.longest:
            with self._lock:
                rows = self._decoder.decode(prompts, _settings(requests, model.device), tokens)
        if left := [i for i, row in enumerate(rows) if row is None]:
            some, asked = [prompts[i] for i in left], [requests[i] for i in left]
            drawn = self._rows(model, tokenizer.pad_token_id, sorted(ends), some, asked, tokens)
            for i, row in zip(left, drawn, strict=True):
                rows[i] = row
        return [_response(tokenizer, row or [], p, r, ends) for row, p, r in zip(rows, prompts, requests, strict=True)]

    def _rows(
        self,
        model: Any,
        pad: int,
        ends: list[int],
        prompts: list[list[int]],
        requests: list[Request],
        tokens: int,
    ) -> list[list[int]]:
        """Return the tokens that transformers draws for each prompt."""
        import torch

        width = max(map(len, prompts))
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                pad_token_id=pad,
                eos_token_id=ends,
                logits_processor=[draw_processor(requests, self._min_p, model.device)],
            )
        rows: list[list[int]] = out[:, width:].tolist()
        return rows


def _settings(requests: Sequence[Request], device: Any) -> "torch.Tensor":
    """Return what each request is drawn by: seed, temperature, top_p."""
    import torch

    rows = [(r.seed, r.temperature, r.top_p) for r in requests]
    return torch.tensor(rows, dtype=torch.float64, device=device)


def draw_processor(requests: Sequence[Request], min_p: float, device: Any) -> Any:
    """Return a logits processor that leaves the drawn token alone, so that the arg max is a sample."""
    import torch

    settings, steps = _settings(requests, device), itertools.count()

    def process(_: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        step = torch.tensor([next(steps)], device=scores.device)
        chosen, settled = _draw(scores, settings, step, min_p=min_p)
        if not bool(settled.all()):
            rest = ~settled
            chosen[rest], _ = _draw(scores[rest], settings[rest], step, min_p=min_p, count=scores.shape[-1])
        return torch.full_like(scores, float("-inf")).scatter(-1, chosen[:, None], 0.0)

    return process


def _draw(
    logits: "torch.Tensor", settings: "torch.Tensor", step: "torch.Tensor", *, min_p: float, count: int = _LIKELIEST
) -> "tuple[torch.Tensor, torch.Tensor]":
    """Draw a token for each row among its ``count`` likeliest, and say in which rows no other could be drawn.

    It is drawn by adding Gumbel noise from the row's own seed. Out are tokens beyond the smallest set of mass top_p,
    and those less likely than min_p times the likeliest.
    """
    import torch

    seeds, temperatures, top_p = settings[:, 0].long(), settings[:, 1:2].float(), settings[:, 2:3].float()
    scaled = logits.float() / temperatures.clamp(min=1e-3)
    top, tokens = scaled.topk(min(count, scaled.shape[-1]), dim=-1)
    mass = torch.exp(top - torch.logsumexp(scaled, dim=-1, keepdim=True))
    out = (mass.cumsum(dim=-1) - mass >= top_p) | (mass < min_p * mass[:, :1]) | (temperatures == 0)
    out[:, 0] = False
    noisy = top.masked_fill(out, float("-inf")) + _gumbel(seeds, step, top.shape[-1])
    settled = out[:, -1] | (top.shape[-1] == scaled.shape[-1])
    return tokens.gather(-1, noisy.argmax(dim=-1, keepdim=True))[:, 0], settled


def _gumbel(seeds: "torch.Tensor", step: "torch.Tensor", count: int) -> "torch.Tensor":
    """Return Gumbel noise for the ranks of a step: of each row from its own seed alone, alike on every device."""
    import torch

    streams = mixed(mixed(seeds * GOLDEN + GOLDEN) + step)[:, None]
    words = mixed(streams + GOLDEN * torch.arange(1, count + 1, device=seeds.device))
    uniform = (((words >> 11) & (2**53 - 1)).double() + 0.5) * 2.0**-53
    return -torch.log(-torch.log(uniform)).float()


def _tokens(tokenizer: Any, request: Request) -> list[int]:
    asked = [message for message in request.messages() if message["role"] != "assistant"]
    try:
        text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is the model's own program, and may raise anything
        raise GenerationError(
            f"The model's chat template refuses a request ({error}); some take no system message, so try a prompt "
            "without one."
        ) from error
    return list(tokenizer(text + request.opening, add_special_tokens=False)["input_ids"])


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    found = model.generation_config.eos_token_id
    more = found if isinstance(found, list) else [found]
    return frozenset(int(i) for i in (*more, tokenizer.eos_token_id) if i is not None)


def _response(tokenizer: Any, row: list[int], prompt: list[int], request: Request, ends: frozenset[int]) -> Response:
    row = row[: request.tokens]
    length = next((i for i, token in enumerate(row) if token in ends), None)
    text = tokenizer.decode(row[:length], skip_special_tokens=True)
    return Response(
        text=request.opening + text,
        prompt_tokens=len(prompt),
        completion_tokens=len(row) if length is None else length + 1,
        finished=length is not None,
    )


def load_model(source: str, device: str | None, dtype: str | None, revision: str | None) -> tuple[Any, Any]:
    """Return a model and its tokenizer: from a folder, a hub name, or a GGUF file."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise MissingError(
            "Hugging Face models run through torch and transformers, which are not here; "
            "install them by: pip install 'canarybank[transformers]'"
        ) from None
    device = _usable(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    kind = getattr(torch, dtype) if dtype else torch.bfloat16 if device.startswith("cuda") else torch.float32
    path = Path(source)
    where = {"pretrained_model_name_or_path": source} | ({} if revision is None else {"revision": revision})
    if path.suffix == ".gguf":
        where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(**where)
        model: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=kind)
        model = model.to(device).eval()
    except ImportError as error:
        raise MissingError(
            f"The model {source!r} needs another package: {error}; for GGUF files: pip install gguf"
        ) from error
    except Exception as error:  # each reader of weights and settings raises its own, and they have no common root
        raise MissingError(
            f"The model {source!r} cannot be loaded ({str(error)[:200]}); download it to a folder and give its path."
        ) from error
    if not tokenizer.chat_template:
        raise ConfigError(
            f"The model {source!r} has no chat template, so it does not know how to be asked; choose its instruct or "
            "chat version."
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def _usable(device: str) -> str:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        why = str(error).partition("\n")[0]
        raise ConfigError(
            f"The device {device!r} cannot be used here ({why}); leave generator.device out to use the best one."
        ) from error
    return device


def _content(path: Path, revision: str | None) -> Any:
    if path.is_file():
        return hash_file(path)
    if path.is_dir():
        return [(file.relative_to(path).as_posix(), hash_file(file)) for file in _deciding(path)]
    return [str(path), revision]


def _deciding(folder: Path) -> list[Path]:
    """Return the files of a model's folder on which its answers depend."""
    found = [file for file in folder.iterdir() if file.suffix in (*_WEIGHTS, *_SETTINGS)]
    found += (folder / _TEMPLATES).glob("*.jinja")
    return sorted(file for file in found if file.is_file() and not file.name.startswith("."))
