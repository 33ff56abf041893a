"""The top of the package: what a Python user starts with."""

import doctest
import importlib
import subprocess
import sys

import pytest

import canarybank
from canarybank.flow import foreign

NAMES = {"audit", "audit_system", "evolve", "Mechanism", "Claim", "epsilon", "open_run", "run_audit", "run_evolution"}


def test_tab_shows_what_a_user_needs_and_no_more():
    assert set(canarybank.__all__) >= NAMES
    assert dir(canarybank) == sorted(set(canarybank.__all__) - {"__version__"})
    assert len(dir(canarybank)) < 20


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_name_at_the_top_is_that_of_its_room(name):
    rooms = ("auditing", "evolution", "flow", "mechanism", "run")
    held = [getattr(importlib.import_module(f"canarybank.{room}"), name, None) for room in rooms]
    assert getattr(canarybank, name) in held


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="has no attribute 'adit'"):
        _ = canarybank.adit


@pytest.mark.parametrize("module", [canarybank, foreign], ids=lambda module: module.__name__)
def test_the_examples_run(module):
    done = doctest.testmod(module)
    assert done.attempted > 3
    assert done.failed == 0


def test_the_program_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "canarybank", "--version"], capture_output=True, text=True, check=True)
    assert canarybank.__version__ in done.stdout


def test_a_wrong_command_of_the_module_exits_with_2():
    done = subprocess.run([sys.executable, "-m", "canarybank", "adit"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "audit" in done.stderr
