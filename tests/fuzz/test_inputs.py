"""Users, banks, vectors and whatever else is read from a file that somebody else wrote."""

import gzip
import io
import json
import random
import tarfile
import zipfile

import numpy as np
import polars as pl
import pytest

BLOCK = 12
ENCODINGS = ("utf-8", "latin-1", "utf-16", "utf-7", "base64", "rot13", "idna", "undefined", "unicode_escape", "\0", "x")
EACH = ("zstd", "snappy", "uncompressed", "gzip")


def blocks(few, many):
    """Return the seeds of the cases of one run, and of the long run."""
    quick = [range(start * BLOCK, (start + 1) * BLOCK) for start in range(few)]
    slow = [range(start * BLOCK, (start + 1) * BLOCK) for start in range(few, many)]
    marked = [pytest.param(block, marks=pytest.mark.slow, id=f"{block.start}") for block in slow]
    return [*(pytest.param(block, id=f"{block.start}") for block in quick), *marked]


def rows_of(world):
    lines = (world.folder / "users.csv").read_text().splitlines()[1:]
    return [line.split(",", 1) for line in lines]


def parquet(columns, rng):
    made = io.BytesIO()
    pl.DataFrame(columns).write_parquet(made, compression=rng.choice(EACH), row_group_size=rng.choice((5, 100)))
    return made.getvalue()


def footer(data, rng, mutated):
    """Mutate the end of a file, where Parquet keeps its lengths."""
    cut = max(0, len(data) - 1500)
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        made[rng.randrange(cut, len(made))] ^= 1 << rng.randrange(8)
    return bytes(made) if rng.random() < 0.7 else mutated(data, rng)


def zipped(names, rng):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, data in names:
            archive.writestr(name, data)
    return made.getvalue()


def tarred(name, data):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


@pytest.mark.parametrize("seeds", blocks(3, 110))
def test_users(fuzz, mutated, seeds):
    def make(world, rng):
        rows = rows_of(world)
        plain = (world.folder / "users.csv").read_bytes()
        users = [user for user, _ in rows]
        texts = [text for _, text in rows]
        extra = []
        match rng.choice(("csv", "csv", "tsv", "jsonl", "jsonl", "parquet", "parquet", "gz", "zip", "tgz", "encoding")):
            case "csv":
                name, data = "fuzzed.csv", mutated(plain, rng)
            case "tsv":
                name, data = "fuzzed.tsv", mutated(plain.replace(b",", b"\t"), rng)
            case "jsonl":
                lines = [json.dumps({"user": user, "text": text}) for user, text in rows]
                name, data = "fuzzed.jsonl", mutated("\n".join(lines).encode(), rng)
            case "parquet":
                column = users if rng.random() < 0.7 else list(range(len(users)))
                name, data = "fuzzed.parquet", footer(parquet({"user": column, "text": texts}, rng), rng, mutated)
            case "gz":
                name, data = "fuzzed.csv.gz", mutated(gzip.compress(plain), rng)
            case "zip":
                inner = rng.choice(("users.csv", "\x1b[31mred.csv", "../users.csv", "a/b.csv"))
                names = [(inner, plain), *([("other\u202e.csv", plain)] if rng.random() < 0.4 else [])]
                name, data = "fuzzed.zip", mutated(zipped(names, rng), rng)
            case "tgz":
                name, data = "fuzzed.tgz", mutated(tarred("users.csv", plain), rng)
            case _:
                name, data = "fuzzed.csv", mutated(plain, rng)
                extra = ["--users.encoding", rng.choice(ENCODINGS)]
        if rng.random() < 0.3:
            extra += ["--no-users.strict"]
        return ["audit", "own.toml", "--users.source", world.write(name, data), "--folder", "run", *extra]

    fuzz("users", make, seeds)


@pytest.mark.parametrize("seeds", blocks(2, 90))
def test_banks(fuzz, mutated, seeds):
    def make(world, rng):
        texts = (world.folder / "bank.txt").read_text().splitlines()
        match rng.choice(("txt", "csv", "jsonl", "parquet", "parquet")):
            case "txt":
                name, data = "fuzzed.txt", mutated("\n".join(texts).encode(), rng)
            case "csv":
                name, data = "fuzzed.csv", mutated("\n".join(["text", *texts]).encode(), rng)
            case "jsonl":
                name = "fuzzed.jsonl"
                data = mutated("\n".join(json.dumps({"text": text}) for text in texts).encode(), rng)
            case _:
                labels = rng.choice((["x"] * len(texts), list(range(len(texts)))))
                name, data = "fuzzed.parquet", footer(parquet({"text": texts, "label": labels}, rng), rng, mutated)
        path = world.write(name, data)
        if rng.random() < 0.5:
            return ["bank", "show", path]
        return ["audit", "own.toml", "--bank.source", path, "--folder", "run", "--quiet"]

    fuzz("banks", make, seeds)


@pytest.mark.parametrize("seeds", blocks(2, 40))
def test_vectors_prompts_and_answers(fuzz, mutated, seeds):
    def make(world, rng):
        texts = [text for _, text in rows_of(world)] + (world.folder / "bank.txt").read_text().splitlines()
        vectors = np.random.default_rng(0).normal(size=(len(texts), 8)).astype(np.float32)
        match rng.choice(("npz", "npz", "parquet", "prompt", "answers")):
            case "npz":
                made = io.BytesIO()
                np.savez(made, vectors=vectors, texts=np.array(texts))
                path = world.write("fuzzed.npz", mutated(made.getvalue(), rng))
            case "parquet":
                data = parquet({"text": texts, "vector": vectors.tolist()}, rng)
                path = world.write("fuzzed.parquet", footer(data, rng, mutated))
            case "prompt":
                path = world.write("fuzzed.toml", mutated(b'[prompt]\nuser = "Write {label}."\n', rng))
                return ["plan", "own.toml", "--bank.source", "generate", "--bank.labels", "x", "--bank.prompt", path]
            case _:
                head = {"format": "canarybank responses", "version": 1, "responses": 1}
                data = gzip.compress((json.dumps(head) + "\n{}\n").encode(), mtime=0)
                path = world.write("fuzzed.gz", mutated(data, rng))
                return ["evolve", "own.toml", "--insecure-seed", "1", "--evolve.responses", path, "--folder", "run"]
        return ["audit", "own.toml", "--encoder.name", path, "--folder", "run", "--quiet"]

    fuzz("vectors, prompts and answers", make, seeds)


def test_a_mutation_is_the_same_for_the_same_seed(mutated):
    data = b"some bytes that are changed" * 9
    assert mutated(data, random.Random(4)) == mutated(data, random.Random(4)) != data  # noqa: S311


@pytest.mark.parametrize(
    ("code", "err", "native", "fault"),
    [
        (70, "Error: This is a bug.", "", "exit code 70"),
        (1, "Error: x", "", "exit code 1"),
        (2, "", "", "no sentence"),
        (2, "Error: \x1b[31m", "", "control characters"),
        (2, "Error: \u202e", "", "control characters"),
        (2, "Error: x", "thread 'a' panicked at b.rs", "panic"),
        (2, "Traceback (most recent call last)", "", "traceback"),
    ],
)
def test_the_judge_sees_every_fault(judge, code, err, native, fault):
    assert any(fault in each for each in judge(code, "", err, native, gates=False))


def test_the_judge_lets_a_sentence_pass(judge):
    assert judge(2, "", "Error: There is no file 'x'; check the path.\n", "", gates=False) == []
    assert judge(1, "", "Error: The gate failed.\n", "", gates=True) == []
