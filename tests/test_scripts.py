"""Keep benchmarks and tools, which no test runs, from naming what is gone."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((*ROOT.glob("bench/*.py"), *ROOT.glob("tools/*.py"), *ROOT.glob("docs/*.py")))


def missing(source):
    """Return every name that a script imports from canarybank and that is not there."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if (node.module or "").partition(".")[0] == "canarybank"]
    return [
        f"{node.module}.{each.name}" for node in ours for each in node.names if not is_there(node.module, each.name)
    ]


def is_there(module, name):
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_only_what_is_there(script):
    assert missing(script.read_text(encoding="utf-8")) == []


def test_a_name_that_is_gone_would_be_seen():
    assert missing("from canarybank.mechanism import Mechanism, Gone\nfrom canarybank.gone import Away\n") == [
        "canarybank.mechanism.Gone",
        "canarybank.gone.Away",
    ]
