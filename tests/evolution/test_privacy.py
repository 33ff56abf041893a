"""Search everything that a run writes or says for what it must not: the histogram without its noise, and people."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from canarybank.evolution import Probes, evolve
from canarybank.mechanism import contributions, route
from canarybank.progress import Lines
from canarybank.seeds import stream

SEED = 6


def clean_histograms(world: Any, rounds: Any) -> list[np.ndarray]:
    """Return each round's sum of contributions without noise, from the seeded coins."""
    found = []
    for done in rounds:
        coins = stream(SEED, "evolve", "release", done.number).random(len(world.users))
        present = world.users.take(np.flatnonzero(coins < world.mechanism.q))
        routes = route(present.vectors, done.bank, world.mechanism.k)
        table = contributions(routes, present.owners, len(present), done.bank.size, world.mechanism.clip)
        found.append(np.asarray(table.sum(axis=0)))
    return found


def forms(value: float) -> list[bytes]:
    """Return the ways in which a value may be written: both widths, both byte orders, and as text."""
    binary = [np.array(value, dtype=kind).tobytes() for kind in ("<f8", ">f8", "<f4", ">f4")]
    return [*binary, repr(float(value)).encode(), f"{value:.7g}".encode(), f"{value:.6f}".encode()]


def everything(folder: Path) -> bytes:
    """Return all bytes under a folder, the columns of parquet files unpacked, and every file's name."""
    parts = []
    for path in sorted(folder.rglob("*")):
        parts.append(str(path.relative_to(folder)).encode())
        if path.is_file():
            parts.append(path.read_bytes())
        if path.suffix == ".parquet":
            parts.append(pl.read_parquet(path).write_ndjson().encode())
    return b"\0".join(parts)


def found_in(haystack: bytes, clean: list[np.ndarray]) -> list[float]:
    values = {float(v) for histogram in clean for v in histogram if v > 0 and v != round(v, 3)}
    assert len(values) > 20
    return [value for value in values if any(form in haystack for form in forms(value))]


@pytest.fixture
def searched(world: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> tuple[bytes, list[np.ndarray]]:
    probes = Probes((3, 11), world.users.vectors[:2], ("a planted text", "another planted text"))
    settings = {"keep": world.keep, "insecure_seed": SEED, "probes": probes, "progress": Lines(sys.stderr, every=0.0)}
    result = evolve(*world.arguments, 3, **settings, folder=tmp_path)
    said = "".join(capfd.readouterr())
    assert "epsilon" in said
    return everything(tmp_path) + said.encode(), clean_histograms(world, result.rounds)


def test_nothing_without_noise_is_written_or_said(searched: tuple[bytes, list[np.ndarray]]) -> None:
    haystack, clean = searched
    assert found_in(haystack, clean) == []


def test_the_search_finds_what_it_looks_for(searched: tuple[bytes, list[np.ndarray]]) -> None:
    haystack, clean = searched
    target = clean[1]
    for leak in (target.tobytes(), target.astype(np.float32).tobytes(), str(target.tolist()).encode()):
        assert found_in(haystack + leak, clean)


def test_the_releases_are_the_clean_histograms_and_noise(world: Any, tmp_path: Path) -> None:
    # The clean histograms above are the right ones: what is left of the releases has the size of the noise.
    result = evolve(*world.arguments, 3, keep=world.keep, insecure_seed=SEED, folder=tmp_path)
    clean = clean_histograms(world, result.rounds)
    for done, histogram in zip(result.rounds, clean, strict=True):
        rng = stream(SEED, "evolve", "release", done.number)
        rng.random(len(world.users))
        noise = world.mechanism.noise * rng.standard_normal(done.bank.size)
        assert np.allclose(done.release - noise, histogram, rtol=0, atol=world.mechanism.noise / 4096)


def test_no_person_is_named_and_no_record_quoted(world: Any, searched: tuple[bytes, list[np.ndarray]]) -> None:
    haystack, _ = searched
    assert b"secret" not in haystack
    assert not any(text.split()[0].encode() in haystack for text in world.users.texts)
    assert world.users.hash.encode() not in haystack


# Coins and noise of two rounds; OpenDP draws its noise from the operating system by itself.
@pytest.mark.parametrize(("noise", "least"), [("discrete", 2), ("float", 4)])
def test_a_real_run_keeps_no_seed(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str, least: int
) -> None:
    drawn: list[bytes] = []
    real = os.urandom

    def recorded(count: int) -> bytes:
        drawn.append(real(count))
        return drawn[-1]

    monkeypatch.setattr(os, "urandom", recorded)
    evolve(*world.arguments, 2, keep=world.keep, noise=noise, folder=tmp_path)
    haystack = everything(tmp_path)
    entropy = [block for block in drawn if len(block) >= 8 * len(world.users) or len(block) == 8 * 24]
    assert len(entropy) >= least
    for block in entropy:
        words = [block[i : i + 8] for i in range(0, len(block), 8)]
        assert not any(word in haystack or word.hex().encode() in haystack for word in words)


def test_every_output_of_an_insecure_run_says_so(world: Any, tmp_path: Path) -> None:
    result = evolve(*world.arguments, 2, keep=world.keep, insecure_seed=77, folder=tmp_path)
    assert "INSECURE, seeded with 77" in repr(result)
    for name in ("run.json", "evolution.json", "ledger.log", "rounds/000/bank.json", "rounds/002/bank.json"):
        assert '"insecure_seed"' in (tmp_path / name).read_text(), name
        assert "77" in (tmp_path / name).read_text(), name
    assert {path.name for path in tmp_path.rglob("release*")} == {"release.insecure.npy"}
    for name in ("population.jsonl", "population.csv"):
        assert all("77" in line for line in (tmp_path / name).read_text().splitlines()[1:])


def test_a_real_run_bears_no_such_stamp(world: Any, tmp_path: Path) -> None:
    result = evolve(*world.arguments, 1, keep=world.keep, folder=tmp_path)
    assert "INSECURE" not in repr(result)
    assert {path.name for path in tmp_path.rglob("release*")} == {"release.npy"}
    assert "insecure_seed" not in (tmp_path / "population.jsonl").read_text()
