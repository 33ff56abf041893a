"""Encode on a GPU through Ray, and compare with the same encoder in this process.

    python tools/device_study.py pack FOLDER --texts court.parquet
    python tools/ray_study.py FOLDER [--texts 200000] [--workers 4]

Workers of a Ray cluster on this machine encode shards of texts by MiniLM-L6. The model is loaded once on each GPU, by
an actor that all workers ask. The vectors must be those of this process, to the bit, also where the actor's process is
killed in the midst. Needs torch, sentence-transformers, numpy, scipy, rich and ray, and a GPU for all of it.
"""

import argparse
import json
import lzma
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from device_study import unpack

from canarybank.encode.load import load_encoder
from canarybank.encode.recipe import EncoderRecipe
from canarybank.engine.ray import Ray

__all__ = ["gpu_processes", "main"]

SHARD = 4_096


def main() -> int:
    """Encode here and through Ray, and print what was seen; the status is 1 where a byte differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=4)
    given = parser.parse_args()
    unpack(given.folder)
    held = json.loads(lzma.decompress((given.folder / "texts.json.xz").read_bytes()))
    # Every text once: a cache would answer the second time.
    texts = [f"{held[number % len(held)]} {number // len(held) or ''}".rstrip() for number in range(given.texts)]
    name = str((given.folder / "minilm").resolve())
    encoder = load_encoder(name)
    encoder.encode(texts[:SHARD])
    began = time.perf_counter()
    expected = encoder.encode(texts)
    print(f"in this process on {encoder.device}: {given.texts / (time.perf_counter() - began):,.0f} texts/s")
    engine, same = Ray(given.workers), True
    recipe = EncoderRecipe(name, encoder.fingerprint).hosted_on(engine)
    if recipe.host is None:
        print("Ray sees no GPU here: every worker loads the model")
    for what, kill in (("through Ray", False), ("again", False), ("its actor killed in the midst", True)):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["CANARYBANK_CACHE"] = cache
            began = time.perf_counter()
            found = np.concatenate([rows for _, rows in sorted(_encoded(engine, recipe, texts, kill=kill))])
            taken = time.perf_counter() - began
        equal = int((found.view(np.uint32) == expected.view(np.uint32)).all(axis=1).sum())
        same &= equal == given.texts
        print(
            f"{what}: {given.texts / taken:,.0f} texts/s with {given.workers} workers; vectors equal to the bit "
            f"{equal:,} of {given.texts:,}; other processes on the GPU: {len(gpu_processes())}"
        )
    return 0 if same else 1


def _encoded(engine: Ray, recipe: EncoderRecipe, texts: list[str], *, kill: bool) -> Iterator[tuple[int, np.ndarray]]:
    shards = [texts[start : start + SHARD] for start in range(0, len(texts), SHARD)]
    for place, result in enumerate(engine.run(recipe.encode, shards)):
        if kill and place == len(shards) // 4:
            for process in gpu_processes():
                os.kill(process, signal.SIGKILL)
                print(f"killed process {process} after {place} of {len(shards)} shards")
        yield result


def gpu_processes() -> list[int]:
    """Return the processes of Ray's actors that hold a model on the GPU."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    return [int(line.split()[0]) for line in listed.splitlines() if "ray::_Holder" in line]


if __name__ == "__main__":
    sys.exit(main())
