"""Install a package of somebody else's for a test: its folder and its entry points, without pip."""

import contextlib
import os
import sys
import tomllib
from pathlib import Path

import pytest

OUTSIDE = Path(__file__).parent / "outside"


def metadata_of(project):
    """Return the files that an installer writes for a project: who it is, and its entry points."""
    named = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    points = [
        line
        for group, entries in named["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in entries.items()))
    ]
    about = f"Metadata-Version: 2.1\nName: {named['name']}\nVersion: {named['version']}\n"
    return {"METADATA": about, "entry_points.txt": "\n".join(points) + "\n"}


@contextlib.contextmanager
def on_the_path(*folders):
    """Let this process, and those that it starts, import from these folders; forget what was imported at the end."""
    before, modules = os.environ.get("PYTHONPATH", ""), set(sys.modules)
    names = [str(folder) for folder in folders]
    sys.path[:0] = names
    os.environ["PYTHONPATH"] = os.pathsep.join([*names, before])
    try:
        yield
    finally:
        os.environ["PYTHONPATH"] = before
        del sys.path[: len(names)]
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(tuple(names)):
                del sys.modules[name]


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """Install the package that stands in ``outside``."""
    site = tmp_path_factory.mktemp("site")
    info = site / "outside_bank-1.2.dist-info"
    info.mkdir()
    for name, text in metadata_of(OUTSIDE).items():
        (info / name).write_text(text)
    with on_the_path(site, OUTSIDE):
        yield OUTSIDE


@pytest.fixture(scope="session")
def small(world):
    """Return the settings of a small audit."""
    return {
        "users.source": str(world / "users.csv"),
        "users.cap": 8,
        "bank.source": str(world / "bank.csv"),
        "encoder.name": "hashing",
        "cohorts.canaries": 2,
        "mechanism.k": 3,
        "attack.names": "ordinary",
        "attack.probes": 8,
        "attack.pool": 20,
        "audit.trials": 400,
        "audit.threshold": "analytic",
    }


@pytest.fixture
def importing_from():
    """Return a context in which a folder can be imported from."""
    return on_the_path
