"""Run folders that somebody else made or altered: every file of them, by every command that opens one."""

import json
import os
import random
import shutil

import pytest

from canarybank.cli import main

BLOCK = 20
COMMANDS = (
    ["verify", "RUN"],
    ["gate", "RUN", "--claimed-eps", "1"],
    ["gate", "RUN", "--claimed-eps", "1", "--junit", "gate.xml", "--markdown", "gate.md"],
    ["gate", "RUN", "--claimed-eps", "50", "--junit", "gate.xml", "--markdown", "gate.md"],
    ["report", "RUN"],
    ["runs", "list", "."],
    ["audit", "own.toml", "--folder", "RUN", "--quiet"],
    ["plan", "own.toml", "--folder", "RUN"],
)
ODD = (None, True, -1, 10**400, 1e308, "", "\x1b[31mred", "\u202e", "\ud800", [], {}, [[]], {"a": 1}, "9" * 5000, 0.5)


@pytest.fixture(scope="session")
def finished(template, tmp_path_factory):
    """Run the tiny audit once."""
    home, folder = os.getcwd(), tmp_path_factory.mktemp("finished")  # noqa: PTH109
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(folder / "cache"))
        os.chdir(template)
        try:
            assert main(["audit", "own.toml", "--folder", str(folder / "run"), "--quiet"]) == 0
        finally:
            os.chdir(home)
    return folder / "run"


def odd_value(document, rng):
    """Replace, remove or rename one value somewhere in a JSON document."""
    place = document
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(list(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.35:
            if isinstance(place, dict) and rng.random() < 0.2:
                place[f"{key}\x1b[2J"] = place.pop(key)
            elif rng.random() < 0.2:
                del place[key]
            else:
                place[key] = rng.choice(ODD)
            return
        place = inner


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(i * BLOCK, (i + 1) * BLOCK), id=str(i * BLOCK), marks=[pytest.mark.slow] if i >= 5 else [])
        for i in range(70)
    ],
)
def test_run_folders(fuzz, mutated, finished, seeds):
    def make(world, rng):
        run = world.folder / "run"
        shutil.copytree(finished, run)
        names = sorted(path.name for path in run.iterdir() if path.is_file() and not path.name.startswith("."))
        path = run / rng.choice([*names, "manifest.json", "results.json", "commitment.json", "trials.log"])
        action = rng.random()
        if not path.exists():
            path.write_bytes(rng.randbytes(20))
        elif action < 0.1:
            path.unlink()
        elif action < 0.15:
            path.unlink()
            os.mkfifo(path)
        elif action < 0.2:
            path.unlink()
            path.mkdir()
        elif path.suffix == ".json" and action < 0.7:
            document = json.loads(path.read_text())
            odd_value(document, rng)
            path.write_text(json.dumps(document))
        else:
            path.write_bytes(mutated(path.read_bytes(), rng))
        return [str(run) if word == "RUN" else word for word in rng.choice(COMMANDS)]

    fuzz("run folders", make, seeds, gates=True)


def test_odd_values_change_a_document():
    document = {"a": {"b": [1, 2]}}
    odd_value(document, random.Random(1))  # noqa: S311
    assert document != {"a": {"b": [1, 2]}}
