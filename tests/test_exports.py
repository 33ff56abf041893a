"""Hold every package to its word: what it exports is what its ``__all__`` says, in order."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import canarybank

PACKAGES = ["canarybank", *(m.name for m in pkgutil.walk_packages(canarybank.__path__, "canarybank.") if m.ispkg)]
MODULES = [m.name for m in pkgutil.walk_packages(canarybank.__path__, "canarybank.") if not m.name.endswith("__main__")]


def in_order(name):
    """Sort constants first, then classes, then functions, each by name."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def bound(tree):
    """Return the public names that a package's module binds for others, and those among them that it must export.

    It must export its own names, and of ours that it imports those that its own code does not use.
    """
    own, imported = set(), set()
    guarded = [inner for outer in tree.body if isinstance(outer, ast.If) for inner in outer.body]
    for node in [*tree.body, *guarded]:
        if isinstance(node, ast.ImportFrom) and node.module == "canarybank.lazily":
            continue  # how a package exports, and nothing that it exports
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("canarybank"):
            imported |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own |= {target.id for target in targets if isinstance(target, ast.Name)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    private = {name for name in own | imported if name.startswith("_") and name != "__version__"}
    return (own | imported) - private, (own | (imported - used)) - private


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_exports_what_it_says(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    names, due = bound(tree)
    assert due <= set(package.__all__) <= names


@pytest.mark.parametrize("name", MODULES)
def test_all_is_sorted_and_every_name_in_it_is_there(name):
    module = importlib.import_module(name)
    if not hasattr(module, "__all__"):
        pytest.skip("it exports nothing")
    assert list(module.__all__) == sorted(set(module.__all__), key=in_order)
    assert [missing for missing in module.__all__ if not hasattr(module, missing)] == []


def test_a_missing_or_extra_name_would_be_seen():
    tree = ast.parse("from canarybank.errors import InputError\n__all__ = ['InputError']\ndef extra(): ...\n")
    assert bound(tree) == ({"InputError", "extra"},) * 2
    helped = ast.parse("from canarybank.lazily import exporter\nexporter()\nONE: int = 1\n")
    assert bound(helped) == ({"ONE"}, {"ONE"})
