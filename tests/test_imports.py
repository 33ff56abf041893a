"""Keep the first contact light: what is loaded, and what it costs."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import canarybank

HEAVY = {
    "chitchat_dataset",
    "dp_accounting",
    "jinja2",
    "matplotlib",
    "openai",
    "opacus",
    "polars",
    "ray",
    "scipy",
    "sentence_transformers",
    "torch",
    "transformers",
    "wordllama",
    "xllamacpp",
}
HELP_CPU_SECONDS = 0.5


def loaded_after(code):
    program = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_canarybank_loads_nothing_heavy():
    assert not loaded_after("import canarybank") & (HEAVY | {"numpy", "pydantic", "rich", "cyclopts"})


def test_a_name_at_the_top_loads_its_room_alone():
    assert not loaded_after("import canarybank\ncanarybank.Mechanism, canarybank.Claim") & (HEAVY - {"scipy"})
    loaded = loaded_after("import canarybank\ndir(canarybank)\ncanarybank.__version__")
    assert not loaded & (HEAVY | {"numpy", "pydantic"})


def test_help_loads_nothing_heavy():
    loaded = loaded_after("from canarybank.cli import main\nassert main(['--help']) == 0")
    assert "cyclopts" in loaded
    assert not loaded & (HEAVY | {"numpy", "pydantic"})


@pytest.mark.parametrize("command", ["audit", "plan", "epsilon", "gate", "config", "tune"])
def test_help_of_a_command_loads_nothing_heavy(command):
    loaded = loaded_after(f"from canarybank.cli import main\nassert main(['{command}', '--help']) == 0")
    assert not loaded & (HEAVY | {"numpy"})


def test_showing_a_configuration_loads_nothing_heavy():
    assert not loaded_after("from canarybank.cli import main\nassert main(['config', 'show']) == 0") & HEAVY


def test_a_room_loads_heavy_packages_only_when_it_needs_them():
    # In one process, for none loads any: the first room after which a heavy package is there is the one that does.
    rooms = sorted(each.name for each in Path(canarybank.__file__).parent.iterdir() if (each / "__init__.py").exists())
    assert len(rooms) > 18
    code = """
import importlib
rooms, heavy = {rooms}, {heavy}
for room in rooms:
    importlib.import_module(f"canarybank.{{room}}")
    found = heavy & {{name.partition(".")[0] for name in sys.modules}}
    assert not found, (room, found)
"""
    loaded_after(code.format(rooms=rooms, heavy=HEAVY - {"scipy"}))


def test_an_unknown_command_loads_nothing_heavy():
    assert not loaded_after("from canarybank.cli import main\nassert main(['adit']) == 2") & (HEAVY | {"numpy"})


def test_help_costs_less_than_half_a_second_of_cpu():
    # The least of five, for a busy machine makes CPU time dearer, never cheaper.
    assert min(_cpu_of_help() for _ in range(5)) < HELP_CPU_SECONDS


def _cpu_of_help():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "canarybank.cli", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
