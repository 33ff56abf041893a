"""Measure routing, encoding and literal trials on a GPU, and compare what they give with the CPU.

    python tools/device_study.py pack FOLDER --texts court.parquet [--count 50000] [--peers PEERS]
    python tools/device_study.py run FOLDER [--out OUT] [--device cuda] [--scale 1.0] [--steps machine,ties,votes,...]

``pack`` puts into a folder of some 50 MB what a machine without a network needs: texts of a Parquet file with a column
``text`` whose tokens are among the 9,000 most frequent, the weights of MiniLM-L6 as far as these texts use them (other
rows of the word embeddings are set to zero, which changes no vector of these texts), and DPSDA's histogram. ``run``
needs torch, tokenizers, transformers, sentence-transformers, numpy, scipy and rich. Every step has a time limit of its
own and prints what it measured; all of it is written to ``device_study.json``. ``--scale 0.0005 --device cpu`` is a dry
run.
"""

import argparse
import contextlib
import importlib
import json
import lzma
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from canarybank.encode import EncoderRecipe, Precision, SentenceEncoder
from canarybank.encode.fixed_shapes import BertLayers, FixedShapes, SplitLayers, Tokens, plain_products
from canarybank.encode.low_precision import answer_texts
from canarybank.engine import Threads
from canarybank.mechanism import Ask, Bank, Mechanism, route
from canarybank.mechanism.device_routing import DeviceRouter, Product
from canarybank.mechanism.streamed import ShardVotes

__all__ = ["Study", "pack", "run"]

BANK, DIMENSION, K = 8_192, 384, 5
SHARD = 1 << 16
WORDS = "embeddings.word_embeddings.weight"
SMALL_FILES = ("*.json", "*.txt", "1_Pooling/config.json")
PEER_FILES = ("histogram", "constant/data.py", "logging")
COMMON = 9_000
TRIAL_TEXTS = ("A cat sat on the mat.", "ok")


# What travels


def pack(folder: Path, texts_file: Path, count: int, peers: Path | None) -> None:
    """Write texts, weights and DPSDA's histogram into a folder."""
    import polars as pl
    from safetensors.numpy import load_file, save_file
    from tokenizers import Tokenizer

    from canarybank.encode import find_model

    column = pl.read_parquet(texts_file)["text"].unique(maintain_order=True)
    texts = column.sample(min(5 * count, len(column)), seed=0, shuffle=True).to_list()
    model = find_model("minilm")
    target = folder / "minilm"
    for pattern in SMALL_FILES:
        for path in model.glob(pattern):
            (target / path.relative_to(model)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target / path.relative_to(model))
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    rows = [each.ids for each in tokenizer.encode_batch(texts)]
    often = np.argsort(-np.bincount(np.concatenate(rows), minlength=tokenizer.get_vocab_size()), kind="stable")
    common = set(often[:COMMON].tolist())
    # As many words as texts have at large: texts of common words alone are shorter.
    fitting: dict[int, list[tuple[str, list[int]]]] = {}
    for text, row in zip(texts, rows, strict=True):
        if common.issuperset(row):
            fitting.setdefault(len(text.split()), []).append((text, row))
    wanted = [len(text.split()) for text in texts[:count]]
    texts, rows = zip(*(fitting[words].pop() for words in wanted if fitting.get(words)), strict=True)
    used = {number for row in rows for number in row}
    used |= {number for each in tokenizer.encode_batch(list(TRIAL_TEXTS)) for number in each.ids}
    used |= {tokenizer.token_to_id(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    weights = load_file(model / "model.safetensors")
    kept = np.zeros(len(weights[WORDS]), dtype=bool)
    kept[sorted(used)] = True
    weights[WORDS] = np.where(kept[:, None], weights[WORDS], np.float32(0))
    save_file(weights, target / "model.safetensors")
    raw = (target / "model.safetensors").read_bytes()
    (target / "model.safetensors").unlink()
    # The bytes of one weight apart, those of all weights' exponents together: only those can be compressed.
    planes = np.frombuffer(raw + bytes(-len(raw) % 4), dtype=np.uint8).reshape(-1, 4).T.tobytes()
    (folder / "weights.xz").write_bytes(lzma.compress(len(raw).to_bytes(8, "big") + planes, preset=1))
    (folder / "texts.json.xz").write_bytes(lzma.compress(json.dumps(texts).encode(), preset=6))
    if peers is not None:
        for name in PEER_FILES:
            source, there = peers / "DPSDA" / "pe" / name, folder / "peers" / "pe" / name
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, there, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")) if (
                source.is_dir()
            ) else shutil.copy(source, there)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{len(texts):,} texts, {kept.sum():,} of {len(kept):,} rows of word embeddings, {size / 2**20:.1f} MiB")


def unpack(folder: Path) -> None:
    """Put the weights back as they were."""
    target = folder / "minilm" / "model.safetensors"
    if not target.exists():
        packed = lzma.decompress((folder / "weights.xz").read_bytes())
        planes = np.frombuffer(packed[8:], dtype=np.uint8).reshape(4, -1)
        target.write_bytes(planes.T.tobytes()[: int.from_bytes(packed[:8], "big")])


# The study


class Study:
    """One run: where it computes, how large its steps are, and what they found."""

    def __init__(self, folder: Path, device: str, scale: float) -> None:
        import torch

        self.torch, self.folder, self.device, self.scale = torch, folder, device, scale
        self.found: dict[str, Any] = {}
        self.limits: dict[str, float] = {}

    @property
    def on_gpu(self) -> bool:
        """Say whether the device is a GPU."""
        return self.device.startswith("cuda")

    def size(self, whole: int, least: int = 64) -> int:
        """Return the size of something at this study's scale."""
        return max(least, int(whole * self.scale))

    def seconds(self, work: Callable[[], object], repeats: int = 3, *, warm: bool = True) -> float:
        """Return the median time of some work, to the end of all that it started on the device."""
        times = []
        for repeat in range(repeats + warm):
            self.settle()
            began = time.perf_counter()
            work()
            self.settle()
            if repeat or not warm:
                times.append(time.perf_counter() - began)
        return statistics.median(times)

    def settle(self) -> None:
        """Wait for the device."""
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def peak(self, work: Callable[[], object]) -> float:
        """Return the device memory in GB that some work takes above what is held before it."""
        if not self.on_gpu:
            work()
            return 0.0
        self.settle()
        self.torch.cuda.empty_cache()
        self.torch.cuda.reset_peak_memory_stats()
        before = self.torch.cuda.memory_allocated()
        work()
        self.settle()
        return (self.torch.cuda.max_memory_allocated() - before) / 1e9

    def note(self, **figures: Any) -> None:
        """Print figures and keep them."""
        for name, value in figures.items():
            shown = f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
            print(f"  {name:44} {shown}", flush=True)
        self.found.setdefault(self.found["step"], {}).update(figures)

    def units(self, count: int, seed: int) -> Any:
        """Return unit vectors on the device, made there."""
        torch = self.torch
        generator = torch.Generator(self.device).manual_seed(seed)
        vectors = torch.empty((count, DIMENSION), dtype=torch.float32, device=self.device)
        for start in range(0, count, 1 << 20):
            part = vectors[start : start + (1 << 20)]
            part.normal_(generator=generator)
            part /= torch.linalg.vector_norm(part, dim=1, keepdim=True)
        return vectors


def machine(study: Study) -> None:
    """Measure the card's own limits: copies, and products in the formats that are used."""
    torch = study.torch
    name = torch.cuda.get_device_name() if study.on_gpu else platform.processor() or "cpu"
    study.note(device=name, cores=os.cpu_count(), torch=torch.__version__, python=platform.python_version())
    if study.on_gpu:
        with contextlib.suppress(OSError):
            query = [
                "nvidia-smi",
                "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit",
                "--format=csv,noheader",
            ]
            study.note(card=subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip())  # noqa: S603
    side = study.size(8192, 128)
    for kind in ("float16", "bfloat16", "float32"):
        left, right = (torch.randn(side, side, device=study.device).to(getattr(torch, kind)) for _ in range(2))
        with plain_products():
            study.limits[kind] = 2 * side**3 / study.seconds(partial(torch.matmul, left, right), 10)
        study.note(**{f"{kind} products, TFLOP/s": study.limits[kind] / 1e12})
    host = torch.empty(study.size(1 << 30), dtype=torch.uint8)
    host = host.pin_memory() if study.on_gpu else host
    there = torch.empty_like(host, device=study.device)
    other = torch.empty_like(there)
    for label, work, moved in (
        ("copy to the device", lambda: there.copy_(host, non_blocking=True), 1),
        ("copy from the device", lambda: host.copy_(there, non_blocking=True), 1),
        ("copy on the device, read and written", lambda: other.copy_(there), 2),
    ):
        study.limits[label] = moved * len(host) / study.seconds(work, 5)
        study.note(**{f"{label}, GB/s": study.limits[label] / 1e9})


def ties(study: Study) -> None:
    """Compare routes with the CPU's on records with ties and without."""
    torch, rng = study.torch, np.random.default_rng(1)
    count, bank = study.size(100_000, 300), study.size(BANK, 200)
    for label, records, entries in tied_cases(rng, count, bank):
        began = time.perf_counter()
        expected = route(records, entries, K)
        on_cpu = time.perf_counter() - began
        for product in Product:
            router = DeviceRouter(entries, K, study.device, product)
            there = torch.from_numpy(records).to(study.device)
            found = router.route(there).cpu().numpy()
            same = int((found == expected).all(axis=1).sum())
            study.note(
                **{f"{label}, {product}: equal of {len(records):,}": same, f"{label}, {product}: by": router.seen}
            )
            if same != len(records):
                raise AssertionError(f"{len(records) - same} routes differ from the CPU's")
        study.note(**{f"{label}: CPU seconds": on_cpu})
    margins(study, rng)


def tied_cases(
    rng: np.random.Generator, count: int, bank: int
) -> Iterator[tuple[str, NDArray[np.float32], NDArray[np.float32]]]:
    """Yield records and entries: exact ties between unequal entries, copies of entries, and near ties."""
    entries = unit(rng.standard_normal((bank, DIMENSION), dtype=np.float32))
    records = unit(rng.standard_normal((count, DIMENSION), dtype=np.float32))
    half = entries[: bank // 2].copy()
    mirrored = half.copy()
    mirrored[:, 0] *= -1
    level = records.copy()
    level[: count // 2, 0] = 0  # as far from an entry as from its mirror image
    yield "mirrored entries", level, np.concatenate((half, mirrored))[rng.permutation(2 * len(half))]
    yield "copied entries", records, entries[rng.integers(0, bank, bank)]
    coarse = np.round(records * 16) / 16
    yield "coarse lattice", coarse.astype(np.float32), (np.round(entries * 16) / 16).astype(np.float32)
    near = unit(entries[rng.integers(0, bank // 8, bank)] + np.float32(1e-4) * entries)
    yield "near ties", records, near


def margins(study: Study, rng: np.random.Generator) -> None:
    """Compare the errors of scores with their margins: the share that the worst of many takes."""
    torch = study.torch
    router_entries = unit(rng.standard_normal((study.size(4096, 64), DIMENSION), dtype=np.float32))
    records = unit(rng.standard_normal((study.size(4096, 64), DIMENSION), dtype=np.float32))
    for product in (Product.SPLIT, Product.SINGLE):
        router = DeviceRouter(router_entries, K, study.device, product)
        with torch.inference_mode(), plain_products():
            share = router.largest_error(torch.from_numpy(records).to(study.device))
        study.note(**{f"worst error of a score as a share of its margin, {product}": share})


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to length one."""
    scaled: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def votes(study: Study) -> None:
    """Time the votes of ten million records from vectors on the device, all in all and user by user."""
    torch = study.torch
    count, bank = study.size(10_000_000, 2000), study.size(BANK, 500)
    records, entries = study.units(count, 1), study.units(bank, 2).cpu().numpy()
    owners = torch.arange(count, device=study.device) // 32
    for product in (Product.SPLIT, Product.SINGLE):
        router = DeviceRouter(entries, K, study.device, product)
        router.route(records[: 1 << 17])
        router.seen = dict.fromkeys(router.seen, 0)
        routes: list[Any] = []

        def cast(router: DeviceRouter = router, routes: list[Any] = routes) -> None:
            routes[:] = [router.route(records)]
            torch.bincount(routes[0].flatten(), minlength=bank)

        study.note(**{f"{product}: device memory above the vectors, GB": study.peak(cast)})
        study.note(**{f"{product}: settled": dict(router.seen)})
        taken = study.seconds(cast, 3, warm=False)
        flops = 2 * count * bank * DIMENSION
        study.note(**{f"{product}: seconds": taken, f"{product}: useful TFLOP/s": flops / taken / 1e12})

        profile(study, product.value, lambda router=router: router.route(records[: 1 << 20]))

        def by_user(routes: list[Any] = routes) -> Any:
            return torch.unique(owners[:, None] * bank + routes[0], return_counts=True)

        study.note(**{f"{product}: seconds to count each user's votes": study.seconds(by_user, 2)})
    part = study.size(20_000, 200)
    expected = route(records[:part].cpu().numpy(), entries, K)
    study.note(
        **{f"equal to the CPU's of {part:,}": int((routes[0][:part].cpu().numpy() == expected).all(axis=1).sum())}
    )


def encoders(study: Study) -> tuple[Any, list[str], dict[str, FixedShapes]]:
    """Return the library's model, the texts, and our encoders of three arithmetics, which share their tokens."""
    from sentence_transformers import SentenceTransformer

    unpack(study.folder)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    model = SentenceTransformer(str(study.folder / "minilm"), device=study.device, local_files_only=True).eval()
    network, tokenizer = model[0].auto_model, model.tokenizer.backend_tokenizer
    tokens = Tokens(tokenizer, model.max_seq_length, study.device, rows=None if study.on_gpu else 2)
    made = {
        "float32": FixedShapes(BertLayers(network, Precision.FLOAT32, study.device), tokens, study.device),
        "split": FixedShapes(SplitLayers(network, study.device), tokens, study.device),
    }
    if study.on_gpu:
        made["float16"] = FixedShapes(BertLayers(network, Precision.FLOAT16, study.device), tokens, study.device)
    texts = json.loads(lzma.decompress((study.folder / "texts.json.xz").read_bytes()))
    return model, texts, made


def encode(study: Study) -> None:
    """Time MiniLM on short texts, end to end and step by step; compare routes with float32's."""
    model, held, made = encoders(study)
    bank, count = study.size(BANK, 16), study.size(500_000, 24)
    fresh = held[bank:]
    texts = (fresh * (1 + count // len(fresh)))[:count]
    study.note(texts=count, different=len(set(texts)), words=float(np.mean([len(text.split()) for text in fresh])))
    exact = made["float32"]
    library = texts[: study.size(20_000, 4)]
    plain = study.seconds(
        lambda: model.encode(library, batch_size=256, show_progress_bar=False, convert_to_tensor=True), 1
    )
    study.note(**{"the library's own encode, float32, texts/s": len(library) / plain})
    for shapes in made.values():  # record the graphs
        shapes.encode(texts[: study.size(40_000, 4)])
    entries = exact.encode(held[:bank])
    kernels(study, made, texts[: study.size(100_000, 8)])
    tokenising(study, exact.tokens, texts)
    for name, shapes in made.items():
        taken = study.seconds(lambda shapes=shapes: shapes.encode(texts), 1, warm=False)
        study.note(**{f"{name}: end to end to vectors in memory, texts/s": count / taken})
    expected = np.sort(route(exact.encode(texts), entries, K), axis=1)
    neighbours(study, made, fresh[: study.size(20_000, 6)])
    if "float16" in made:
        some = texts[: study.size(100_000, 24)]
        moved = made["float16"].encode(some[:2048]).astype(np.float64) - exact.encode(some[:2048])
        half = SimpleNamespace(encode=made["float16"].encode, drift=4 * np.linalg.norm(moved, axis=1).max())
        low_precision(study, "float16", half, exact.encode, entries, some, expected[: len(some)])
    # As a pass over users in shards does it: an encoder by its name, blocks of a shard's size, two workers.
    encoder = SentenceEncoder(str(study.folder / "minilm"), device=study.device)
    if encoder.shapes is None:  # a dry run on a CPU
        encoder.shapes = exact
    began = time.perf_counter()
    drift = getattr(encoder.fast_encoder, "drift", np.nan)
    study.note(**{"split: seconds to bound the drift, with its graphs": time.perf_counter() - began})
    encoder.fast_encoder.encode(texts[: study.size(40_000, 4)])
    encoder.encode(texts[: study.size(40_000, 4)])
    full_precision(study, encoder.encode, entries, texts, expected)
    low_precision(study, "split", encoder.fast_encoder, encoder.encode, entries, texts, expected)
    # All texts, not only those that are encoded twice.
    moved = np.linalg.norm(encoder.fast_encoder.encode(texts).astype(np.float64) - exact.encode(texts), axis=1)
    study.note(**{"split: largest drift of all texts, as a share of its bound": float(moved.max()) / drift})


def low_precision(
    study: Study, name: str, fast: Any, exact: Callable[[Sequence[str]], Any], entries: Any, texts: Any, expected: Any
) -> None:
    """Route texts in low precision first, in blocks on two workers, and compare with float32's routes."""
    again: list[int] = []
    lock = threading.Lock()

    def full(some: Sequence[str]) -> Any:
        again.append(len(some))
        with lock:
            return exact(some)

    def fast_encode(some: Sequence[str]) -> Any:
        with lock:
            return fast.encode(some)

    votes, first = votes_over(entries), SimpleNamespace(encode=fast_encode, drift=fast.drift)
    routes, taken = block_routes(study, texts, lambda some: answer_texts(some, first, full, votes.routes)[0])
    study.note(
        **{
            f"{name} first: texts to routes, texts/s": len(texts) / taken,
            f"{name} first: routes equal to float32's of {len(texts):,}": int((routes == expected).all(axis=1).sum()),
            f"{name} first: texts encoded again": sum(again),
            f"{name} first: bound on the drift": fast.drift,
        }
    )


def full_precision(
    study: Study, exact: Callable[[Sequence[str]], Any], entries: Any, texts: Any, expected: Any
) -> None:
    """Route the texts by their float32 vectors alone, in the same blocks on the same workers."""
    votes, lock = votes_over(entries), threading.Lock()

    def routes_of(some: Sequence[str]) -> Any:
        with lock:
            vectors = exact(some)
        ((found, _),) = votes.routes(vectors, 0.0)
        return found

    routes, taken = block_routes(study, texts, routes_of)
    study.note(
        **{
            "float32: texts to routes, texts/s": len(texts) / taken,
            f"float32: routes equal to the CPU's of {len(texts):,}": int((routes == expected).all(axis=1).sum()),
        }
    )


def votes_over(entries: Any) -> ShardVotes:
    """Return what a pass does with a shard's vectors."""
    recipe = EncoderRecipe("study", "study", keep=False)
    return ShardVotes.of([Ask(Bank(entries), np.arange(1))], Mechanism(k=K), recipe)


def block_routes(study: Study, texts: Any, routes_of: Callable[[Sequence[str]], Any]) -> tuple[NDArray[Any], float]:
    """Return the sorted routes of all texts, in blocks of a shard's size on two workers, and the seconds it took."""
    blocks = [texts[start : start + SHARD] for start in range(0, len(texts), SHARD)]
    found: list[tuple[int, Any]] = []
    taken = study.seconds(lambda: found.extend(Threads(2).run(routes_of, blocks)), 1, warm=False)
    return np.sort(np.concatenate([rows for _, rows in sorted(found)]), axis=1), taken


def kernels(study: Study, made: dict[str, FixedShapes], texts: Sequence[str]) -> None:
    """Time the layers alone, on tokens that are on the device, and say what share of the card's limit that is."""
    batches = list(made["float32"].tokens.batches(texts))
    padded = sum(batch.shape[0] * batch.shape[1] for batch in batches)
    filled = sum(int(batch.lengths[: len(batch.positions)].sum()) for batch in batches)
    layers, width = 6, DIMENSION
    flops = padded * layers * 2 * (4 * width**2 + 8 * width**2)
    study.note(**{"tokens of a text": filled / len(texts), "tokens with padding and dummies": padded / len(texts)})
    for name, shapes in made.items():
        taken = study.seconds(lambda shapes=shapes: [shapes.forward(batch) for batch in batches], 2)
        factor, limit = (3, "float16") if name == "split" else (1, name)
        study.note(
            **{
                f"{name}: kernels alone, texts/s": len(texts) / taken,
                f"{name}: matrix products, TFLOP/s": factor * flops / taken / 1e12,
                f"{name}: share of the card's {limit} limit": factor * flops / taken / study.limits.get(limit, np.inf),
            }
        )
    for name, shapes in made.items():
        part = batches[: max(1, len(batches) // 4)]
        profile(study, name, lambda shapes=shapes, part=part: [shapes.forward(batch) for batch in part])


def profile(study: Study, name: str, work: Callable[[], object]) -> None:
    """Print the kernels that take the time of some work."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    if not study.on_gpu:
        return
    with watch(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        study.settle()
    rows = sorted(seen.key_averages(), key=lambda row: -row.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows) or 1.0
    for row in rows[:10]:
        print(f"    {name:10} {row.self_device_time_total / total:6.1%} {row.count:6} {row.key[:100]}", flush=True)
    found = {row.key[:160]: round(row.self_device_time_total / total, 4) for row in rows[:10]}
    study.found[study.found["step"]][f"{name}: kernels by share of time"] = found
    study.note(**{f"{name}: time of kernels, s": total / 1e6})


def tokenising(study: Study, tokens: Tokens, texts: Sequence[str]) -> None:
    """Time the tokeniser alone, and the copies alone."""
    blocks = [texts[start : start + (1 << 14)] for start in range(0, min(len(texts), 1 << 17), 1 << 14)]
    taken = study.seconds(lambda: [tokens.tokenise(block) for block in blocks], 1)
    number = sum(map(len, blocks))
    study.note(**{"tokeniser alone, texts/s": number / taken})
    taken = study.seconds(lambda: list(tokens.batches(texts[:number])), 1)
    study.note(**{"tokeniser with batches and copies to the device, texts/s": number / taken})
    if study.on_gpu:
        rate = study.limits.get("copy from the device", np.inf) / (4 * DIMENSION)
        study.note(**{"copies of vectors to memory alone, texts/s": rate})


def neighbours(study: Study, made: dict[str, FixedShapes], texts: Sequence[str]) -> None:
    """Encode texts in another order and in other company, and compare bits."""
    order = np.random.default_rng(5).permutation(len(texts))
    some = order[: len(order) // 3]
    for name, shapes in made.items():
        whole = shapes.encode(texts)
        moved = shapes.encode([texts[place] for place in order])
        alone = shapes.encode([texts[place] for place in some])
        same = (moved == whole[order]).all(axis=1).sum() + (alone == whole[some]).all(axis=1).sum()
        study.note(**{f"{name}: vectors equal to the bit of {len(order) + len(some):,}": int(same)})


def dpsda(study: Study) -> None:
    """Time DPSDA's histogram by its torch back end and ours, from the same vectors in the computer's memory."""
    sys.path.insert(0, str(study.folder / "peers"))
    search = importlib.import_module("pe.histogram.nearest_neighbor_backend.torch").search
    histogram = importlib.import_module("pe.histogram").NearestNeighbors
    count, bank = study.size(1_000_000, 500), study.size(BANK, 100)
    records, entries = study.units(count, 3).cpu().numpy(), study.units(bank, 4).cpu().numpy()
    theirs_found: list[Any] = []
    ours_found: list[Any] = []

    def theirs() -> None:
        theirs_found[:] = [search(entries, records, K, "l2")[1]]

    def ours() -> None:
        ours_found[:] = [DeviceRouter(entries, K, study.device).route_host(records)]

    memory = study.peak(theirs), study.peak(ours)
    taken = study.seconds(theirs, 3), study.seconds(ours, 3)
    same = (np.sort(theirs_found[0], axis=1) == np.sort(ours_found[0], axis=1)).all(axis=1).mean()
    study.note(
        **{
            "search: DPSDA, s": taken[0],
            "search: ours, s": taken[1],
            "search: times as fast": taken[0] / taken[1],
            "search: DPSDA, device GB": memory[0],
            "search: ours, device GB": memory[1],
            "search: rows with the same neighbours": float(same),
        }
    )
    there, few = SimpleNamespace(column_name="v", compute_embedding=lambda data: data), study.size(200_000, 500)
    made = histogram(embedding=there, mode="l2", lookahead_degree=0, num_nearest_neighbors=K, backend="torch")

    def whole() -> Any:
        private = SimpleNamespace(data_frame={"v": SimpleNamespace(values=records[:few])})
        public = SimpleNamespace(data_frame=_Frame(v=SimpleNamespace(values=entries)))
        return made.compute_histogram(private, public)[1].data_frame["PE.CLEAN_HISTOGRAM"]

    def our_whole() -> Any:
        routes = DeviceRouter(entries, K, study.device).route_host(records[:few])
        return np.bincount(routes.ravel(), minlength=bank) / np.sqrt(K)

    difference = float(np.abs(whole() - our_whole()).max())
    taken = study.seconds(whole, 3), study.seconds(our_whole, 3)
    study.note(
        **{
            f"histogram of {few:,}: DPSDA, s": taken[0],
            f"histogram of {few:,}: ours, s": taken[1],
            f"histogram of {few:,}: times as fast": taken[0] / taken[1],
            "histogram: largest difference": difference,
        }
    )


class _Frame(dict[str, Any]):
    """A table with the column that DPSDA asks for under a name of its own."""

    def __init__(self, **columns: Any) -> None:
        super().__init__(columns)

    def __len__(self) -> int:
        return len(self["v"].values)


def literal(study: Study) -> None:
    """Time literal trials on the device and by numpy, and compare rates with the exact law."""
    from scipy.sparse import csr_array, random_array

    from canarybank.auditing.sources import Literal
    from canarybank.mechanism.mechanism import Mechanism
    from canarybank.score import LinearScore, Moments, RoundLaw
    from canarybank.systems.mechanism import BankSystem
    from canarybank.systems.torch_mechanism import TorchSystem

    mechanism, coordinates, eligible = Mechanism(), 64, True
    canary = np.full(coordinates, mechanism.clip / coordinates**0.5)
    for users in (study.size(5_000, 50), study.size(20_000, 80)):
        rng = np.random.default_rng(6)
        table = csr_array(random_array((users, coordinates), density=0.01, rng=rng))
        table.data *= mechanism.clip / 4
        score = LinearScore(canary, Moments.estimate(table.toarray(), mechanism, users))
        law = RoundLaw.of(score, table, canary, mechanism)
        system = BankSystem(table, canary, mechanism)
        there, size = Literal(TorchSystem.of(system, study.device), score), study.size(1 << 18, 500)
        drawn: list[Any] = []
        taken = study.seconds(
            lambda there=there, size=size, drawn=drawn, rng=rng: drawn.append(there.scores(eligible, size, rng)), 2
        )
        by_numpy, few = Literal(system, score), study.size(4096, 100)
        slow = study.seconds(
            lambda by_numpy=by_numpy, few=few, rng=rng: by_numpy.scores(eligible, few, rng), 1, warm=False
        )
        scores = np.concatenate(drawn)
        rate, expected = float((scores > 1.0).mean()), float(law.eligible(1.0)[0])
        study.note(
            **{
                f"{users:,} users: trials/s on the device": size / taken,
                f"{users:,} users: trials/s by numpy": few / slow,
                f"{users:,} users: rate above 1, seen": rate,
                f"{users:,} users: rate above 1, exact": expected,
                f"{users:,} users: standard errors apart": (rate - expected)
                / (expected * (1 - expected) / len(scores)) ** 0.5,
            }
        )


STEPS: dict[str, tuple[Callable[[Study], None], int]] = {
    "machine": (machine, 40),
    "ties": (ties, 100),
    "votes": (votes, 60),
    "encode": (encode, 240),
    "dpsda": (dpsda, 60),
    "literal": (literal, 45),
}


def run(folder: Path, out: Path, device: str, scale: float, names: Sequence[str]) -> bool:
    """Run the steps, each under its limit of seconds; return whether all ended well."""
    study, ended = Study(folder, device, scale), True
    began = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        work, limit = STEPS[name]
        study.found["step"] = name
        print(f"{name} ({(work.__doc__ or '').splitlines()[0]})", flush=True)
        start = time.perf_counter()
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(limit)
        try:
            work(study)
        except Exception:  # noqa: BLE001, one step that fails must not cost the others
            ended = False
            traceback.print_exc(file=sys.stdout)
            study.note(failed=traceback.format_exc(limit=-3))
        finally:
            signal.alarm(0)
        study.note(**{"seconds of this step": time.perf_counter() - start})
        if study.on_gpu:
            study.torch.cuda.empty_cache()
        (out / "device_study.json").write_text(json.dumps(study.found, indent=2, default=str) + "\n")
    print(f"all steps: {time.perf_counter() - began:.1f} s, {'all well' if ended else 'SOME FAILED'}")
    return ended


def _too_long(*_: object) -> None:
    raise TimeoutError("the step took longer than its limit")


def main(argv: Sequence[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing, running = commands.add_parser("pack"), commands.add_parser("run")
    packing.add_argument("folder", type=Path)
    packing.add_argument("--texts", type=Path, required=True)
    packing.add_argument("--count", type=int, default=50_000)
    packing.add_argument("--peers", type=Path)
    running.add_argument("folder", type=Path)
    running.add_argument("--out", type=Path, default=Path())
    running.add_argument("--device", default="cuda")
    running.add_argument("--scale", type=float, default=1.0)
    running.add_argument("--steps", default=",".join(STEPS))
    told = parser.parse_args(argv)
    if told.command == "pack":
        pack(told.folder, told.texts, told.count, told.peers)
        return 0
    return 0 if run(told.folder, told.out, told.device, told.scale, told.steps.split(",")) else 1


if __name__ == "__main__":
    sys.exit(main())
