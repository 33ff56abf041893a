"""Each promise of the threat model names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def promises():
    """Return the rows of the table of promises: the promise, and the tests that it names."""
    section = PAGE.read_text(encoding="utf-8").partition("## What is promised\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    return {promise.strip(): NAMED.findall(tests) for promise, tests in rows}


def test_every_promise_names_a_test_that_exists():
    found = promises()
    assert len(found) > 10
    for promise, tests in found.items():
        assert tests, promise
        for file, name in tests:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (promise, name)


def test_the_page_says_that_it_is_no_proof_and_the_readme_leads_to_it():
    assert "tests, not a proof" in PAGE.read_text(encoding="utf-8")
    assert "docs/threat-model.md" in (ROOT / "README.md").read_text(encoding="utf-8")
