"""Break files of caches and run folders between two runs: no broken byte ever counts, and no file fails every run.

`make test` breaks several hundred files and `make test-slow` thousands; the report ends with the counts.
"""

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from canarybank.config import resolve
from canarybank.encode import CachedEncoder, HashingEncoder, VectorCache
from canarybank.flow import run_audit
from canarybank.generate import Response, ResponseCache
from canarybank.store import StageCache
from canarybank.users import Users, pack_users, unpack_users

REFUSALS = {2, 3, 4, 5}
WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")


def flip(data, rng, _):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def truncate(data, rng, _):
    return data[: rng.randrange(len(data))]


def extend(data, rng, _):
    return data + rng.randbytes(rng.randrange(1, 100))


def zero(data, rng, _):
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.randrange(1, 200))
    return data[:start] + bytes(stop - start) + data[stop:]


def empty(*_):
    return b""


def swap_halves(data, rng, _):
    at = rng.randrange(len(data))
    return data[at:] + data[:at]


def swap_blocks(data, rng, _):
    size = rng.randrange(1, max(2, len(data) // 4))
    one, two = sorted((rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)))
    two = max(two, one + size)
    return data[:one] + data[two : two + size] + data[one + size : two] + data[one : one + size] + data[two + size :]


def shuffle_lines(data, rng, _):
    lines = data.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def digit(data, rng, _):
    places = [at for at, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if not places:
        return flip(data, rng, None)
    at = rng.choice(places)
    return data[:at] + bytes([0x30 + (data[at] - 0x30 + rng.randrange(1, 10)) % 10]) + data[at + 1 :]


def another(_, rng, others):
    return rng.choice(others).read_bytes()


BYTES = (flip, truncate, extend, zero, empty, swap_halves, swap_blocks, shuffle_lines, digit, another)
FORMS = ("folder", "loop", "nowhere", "locked")


def corrupt(path, rng, others):
    """Break a file in one of many ways, and say which; a whole file of the same kind may take its place."""
    how = rng.choice((*BYTES, *BYTES, rng.choice(FORMS)))
    if how in FORMS:
        path.unlink()
        if how == "folder":
            path.mkdir()
            (path / "inside").write_text("x")
        elif how == "locked":
            path.touch(mode=0)
        else:
            path.symlink_to(path if how == "loop" else path.with_name("nowhere at all"))
        return how
    others = [each for each in others if each != path] or [path]
    data = how(path.read_bytes(), rng, others) if path.stat().st_size else b"x"
    path.write_bytes(data)
    return how.__name__


def stored(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


# ---- each cache by itself


@dataclass(frozen=True)
class Made:
    """What a cache must give back, and a function that asks it anew."""

    folder: Path
    clean: object
    ask: object


def users_cache(folder):
    people = [
        Users((f"u{n}", f"v{n}"), np.array([0, 0, 1]), tuple(f"text {n} {i}" for i in range(3)), tuple("aba"))
        for n in range(4)
    ]

    def ask():
        cache = StageCache(folder)
        return [
            cache.packed("users", f"{n:064d}", lambda n=n: people[n], pack_users, unpack_users).hash for n in range(4)
        ]

    return Made(folder, [each.hash for each in people], ask)


def document_cache(folder):
    values = [{"texts": [f"text {n} {i}" for i in range(20)], "number": 0.1 * n} for n in range(4)]

    def ask():
        cache = StageCache(folder)
        return [cache.document("bank", f"{n:064d}", lambda n=n: values[n]) for n in range(4)]

    return Made(folder, values, ask)


def array_cache(folder):
    rng = np.random.default_rng(0)
    values = [{"rows": rng.integers(0, 99, 50), "shares": rng.random((5, 6))} for _ in range(4)]

    def ask():
        cache = StageCache(folder)
        found = [cache.arrays("routes", f"{n:064d}", lambda n=n: values[n]) for n in range(4)]
        return [{name: array.tolist() for name, array in each.items()} for each in found]

    return Made(folder, [{name: array.tolist() for name, array in each.items()} for each in values], ask)


def vector_cache(folder):
    texts = [f"text number {n}" for n in range(40)]

    def ask():
        return CachedEncoder(HashingEncoder(16), VectorCache(folder)).encode(texts).tolist()

    for part in (texts[:10], texts[10:25], texts[25:]):
        CachedEncoder(HashingEncoder(16), VectorCache(folder)).encode(part)
    CachedEncoder(HashingEncoder(24), VectorCache(folder)).encode(texts)  # another encoder's, of the same texts
    return Made(folder, HashingEncoder(16).encode(texts).tolist(), ask)


def response_cache(folder):
    answers = {f"key {n}": Response(f"answer {n}", n, 2 * n) for n in range(30)}

    def ask():
        cache = ResponseCache(folder / "one.log")
        for key, answer in answers.items():
            if key not in cache:
                cache.put(key, answer)
        return {key: cache.get(key) for key in answers}

    other = ResponseCache(folder / "two.log")
    other.put("another key", Response("another answer"))
    return Made(folder, answers, ask)


CACHES = {
    "users": users_cache,
    "documents": document_cache,
    "arrays": array_cache,
    "vectors": vector_cache,
    "responses": response_cache,
}


def break_cache(kind, folder, cases, count):
    """Break one file after another, and ask for everything each time: it must be as it was."""
    made = CACHES[kind](folder / "original")
    assert made.ask() == made.clean
    silent = []
    for case in range(cases):
        rng = random.Random(f"{kind} {case}")  # noqa: S311, places to break
        place = folder / "broken"
        shutil.copytree(made.folder, place)
        files = stored(place)
        how = corrupt(rng.choice(files), rng, files)
        try:
            again = CACHES[kind](place)
            # Twice, for what was made again must be good too.
            if not again.ask() == again.ask() == made.clean:
                silent.append((case, how))
        finally:
            shutil.rmtree(place)
    count(f"corruption of the cache of {kind}", files_broken=cases, silently_different=len(silent))
    assert silent == []


@pytest.mark.parametrize("kind", CACHES)
def test_a_broken_file_of_a_cache_is_made_again(kind, tmp_path, count):
    break_cache(kind, tmp_path, 40, count)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CACHES)
def test_thousands_of_broken_files_of_a_cache_are_made_again(kind, tmp_path, count):
    break_cache(kind, tmp_path, 1000, count)


# ---- whole runs


@pytest.fixture
def scripted(writing):
    """Let a script write the bank, behind the cache of its answers."""

    def script(request):
        rng = random.Random(request.seed)  # noqa: S311, made-up texts
        return " ".join(rng.choice(WORDS) for _ in range(6)) + "."

    writing(script)


SMALL = {
    "bank.source": "generate",
    "bank.size": 60,
    "bank.labels": ("weather", "food"),
    "bank.near": 1.0,
    "generator.kind": "scripted_answers:write",
    "attack.names": ("ordinary", "nonce-norm"),
    "audit.trials": 200,
    "audit.threshold": "analytic",
    "run.workers": 1,
}


def is_sentence(outcome):
    """Say whether a command was refused in words: an exit code of its own, and no traceback."""
    said = outcome.err.strip()
    return outcome.code in REFUSALS and said.startswith("Error: ") and "Traceback" not in said and "bug of" not in said


def break_caches(own, folder, cases, count, monkeypatch):
    """Break files of the caches between two runs: the second gives the same results to the byte."""
    resolved = resolve(own, flags=SMALL)
    monkeypatch.setenv("CANARYBANK_CACHE", str(folder / "clean"))
    run_audit(resolved, folder / "first")
    clean = (folder / "first" / "results.json").read_bytes()
    broken, remade = 0, 0
    for case in range(cases):
        rng = random.Random(case)  # noqa: S311, places to break
        cache = folder / "cache"
        shutil.copytree(folder / "clean", cache)
        monkeypatch.setenv("CANARYBANK_CACHE", str(cache))
        files = stored(cache)
        hows = []
        for path in rng.sample(files, rng.randrange(1, 4)):
            others = [each for each in files if each.suffix == path.suffix and each.is_file()]
            hows.append((path.parent.name, corrupt(path, rng, others)))
        broken += len(hows)
        # What the second run made again must serve a third.
        for run in (folder / "second", folder / "third")[: 1 + (case % 4 == 0)]:
            made = run_audit(resolved, run)
            assert (run / "results.json").read_bytes() == clean, (case, hows)
            remade += sum(made.manifest.stages["made"].values())
            shutil.rmtree(run)
        shutil.rmtree(cache)
    count("corruption of caches between runs", files_broken=broken, pieces_made_again=remade, different_results=0)


@pytest.mark.usefixtures("scripted")
def test_broken_caches_never_change_a_result(own, tmp_path, count, monkeypatch):
    break_caches(own, tmp_path, 8, count, monkeypatch)


@pytest.mark.slow
@pytest.mark.usefixtures("scripted")
def test_hundreds_of_broken_caches_never_change_a_result(own, tmp_path, count, monkeypatch):
    break_caches(own, tmp_path, 500, count, monkeypatch)


RUN = ("--audit.trials", 200, "--audit.threshold", "analytic", "--run.workers", 1, "--quiet")
FREE = {"started", "finished", "surroundings", "stages", "command", "origins", "statement", "canarybank"}
"""What a manifest says that no result stands on."""


def harmless(name, before, after):
    """Say whether a file differs only where nothing is read from: free words of the manifest, or what is not sealed."""
    if name != "manifest.json":
        return False
    try:
        old, new = json.loads(before), json.loads(after)
    except ValueError:
        return False
    return isinstance(new, dict) and {key for key in {*old, *new} if old.get(key) != new.get(key)} <= FREE


def break_run(cli, own, run, folder, cases, count, *, finished):
    """Break a file of a run folder: the same command ends with the same results or refuses, and verify accepts none."""
    clean = (run / "results.json").read_bytes()
    outcomes = dict.fromkeys(("same_results", "refused", "accepted_by_verify", "silent"), 0)
    for case in range(cases):
        rng = random.Random(f"{finished} {case}")  # noqa: S311, places to break
        place = folder / "copy"
        shutil.copytree(run, place)
        if not finished:
            cut_short(place, rng)
        files = stored(place)
        path = rng.choice(files)
        before = path.read_bytes()
        how = corrupt(path, rng, files)
        same = path.is_file() and not path.is_symlink() and path.read_bytes() == before
        after = b"" if not path.is_file() else path.read_bytes()
        if finished and cli("verify", place).code == 0 and not same and not harmless(path.name, before, after):
            outcomes["accepted_by_verify"] += 1
        outcome = cli("audit", own, *RUN, "--folder", place)
        if outcome.code == 0 and (place / "results.json").read_bytes() == clean:
            outcomes["same_results"] += 1
        elif is_sentence(outcome):
            outcomes["refused"] += 1
        else:
            outcomes["silent"] += 1
            pytest.fail(f"case {case}: {path.name}, {how}: exit code {outcome.code}, {outcome.err}")
        shutil.rmtree(place)
    count(f"corruption of {'finished' if finished else 'unfinished'} runs", files_broken=cases, **outcomes)
    assert outcomes["accepted_by_verify"] == 0


def cut_short(place, rng):
    """Make a finished run one that was killed somewhere among its trials."""
    manifest = json.loads((place / "manifest.json").read_text()) | {"state": "started", "finished": None, "files": {}}
    (place / "manifest.json").write_text(json.dumps(manifest))
    lines = (place / "trials.log").read_bytes().splitlines(keepends=True)
    (place / "trials.log").write_bytes(b"".join(lines[: rng.randrange(1, len(lines) + 1)]))
    for path in stored(place):
        if path.name not in {"manifest.json", "commitment.json", "trials.log"}:
            path.unlink()


@pytest.fixture
def small(cli, own, tmp_path):
    outcome = cli("audit", own, *RUN, "--folder", tmp_path / "small")
    assert outcome.code == 0, outcome.err
    return tmp_path / "small"


@pytest.mark.parametrize("finished", [True, False])
def test_a_broken_run_is_refused_or_gives_the_same_results(cli, own, small, tmp_path, count, finished):
    break_run(cli, own, small, tmp_path, 16, count, finished=finished)


@pytest.mark.slow
@pytest.mark.parametrize("finished", [True, False])
def test_hundreds_of_broken_runs_are_refused_or_give_the_same_results(cli, own, small, tmp_path, count, finished):
    break_run(cli, own, small, tmp_path, 1000, count, finished=finished)


EVOLVE = (
    *("--bank.size", 40, "--generator.kind", "scripted_answers:write", "--evolve.rounds", 2, "--evolve.share", 0.5),
    *("--evolve.near", 1, "--run.workers", 1, "--insecure-seed", 0, "--quiet"),
)


def break_evolution(cli, own, folder, cases, count):
    """Break a file of an evolution that was killed before its results: it goes on to the same ones, or refuses."""
    outcome = cli("evolve", own, *EVOLVE, "--folder", folder / "whole")
    assert outcome.code == 0, outcome.err
    clean = (folder / "whole" / "results.json").read_bytes()
    outcomes = {"same_results": 0, "refused": 0}
    for case in range(cases):
        rng = random.Random(f"evolution {case}")  # noqa: S311, places to break
        place = folder / "copy"
        shutil.copytree(folder / "whole", place)
        manifest = json.loads((place / "manifest.json").read_text()) | {"state": "started", "files": {}}
        (place / "manifest.json").write_text(json.dumps(manifest))
        for path in stored(place):
            if path.parent == place and path.name != "manifest.json":
                path.unlink()
        files = stored(place / "evolution")
        path = rng.choice(files)
        how = corrupt(path, rng, [each for each in files if each.name == path.name])
        outcome = cli("evolve", own, *EVOLVE, "--folder", place)
        if outcome.code == 0 and (place / "results.json").read_bytes() == clean:
            outcomes["same_results"] += 1
        else:
            where = f"case {case}: {path.relative_to(place)}, {how}"
            assert is_sentence(outcome), f"{where}: exit code {outcome.code}, {outcome.err}"
            outcomes["refused"] += 1
        shutil.rmtree(place)
    count("corruption of unfinished evolutions", files_broken=cases, **outcomes, silent=0)


@pytest.fixture
def evolving(writing):
    def script(request):
        return f"I saw the {' '.join(WORDS[(request.seed // 14**i) % 14] for i in range(5))} today."

    writing(script)


@pytest.mark.usefixtures("evolving")
def test_a_broken_evolution_is_refused_or_gives_the_same_results(cli, own, tmp_path, count):
    break_evolution(cli, own, tmp_path, 12, count)


@pytest.mark.slow
@pytest.mark.usefixtures("evolving")
def test_hundreds_of_broken_evolutions_are_refused_or_give_the_same_results(cli, own, tmp_path, count):
    break_evolution(cli, own, tmp_path, 500, count)
