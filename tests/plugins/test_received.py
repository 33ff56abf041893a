"""What a received folder names is never imported: a module that leaves a mark when it is imported leaves none."""

import json
import shutil

import pytest

from canarybank.cli import main
from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow import run_audit
from canarybank.registry import METHODS, REGISTRIES
from canarybank.report import write_report
from canarybank.run import Run, compare, list_runs, verify

EVIL = "evil_module:thing"
NAMED = ("attack.names", "audit.method", "audit.system", "encoder.name", "evolve.audit", "generator.kind", "run.engine")


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    """Return the folder of a small finished audit."""
    return run_audit(resolve(flags=small), tmp_path_factory.mktemp("made") / "run").folder


@pytest.fixture
def mark(tmp_path, importing_from):
    """Put a module on the path that leaves a mark when it is imported; return the mark."""
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\nthing = None\n")
    with importing_from(tmp_path):
        yield tmp_path / "mark"
    METHODS._named.discard(EVIL)


@pytest.fixture
def received(made, tmp_path):
    """Return a copy of the run in which all that could name a plug-in names the module."""
    place = tmp_path / "runs" / "received"
    shutil.copytree(made, place)
    for name in ("manifest.json", "results.json", "commitment.json"):
        path = place / name
        document = json.loads(path.read_text())
        if name == "manifest.json":
            document["config"] |= {key: [EVIL] if key == "attack.names" else EVIL for key in NAMED}
            document["plugins"] = [{"kind": "attack", "name": EVIL, "package": "evil 1", "sha256": ""}]
        path.write_text(json.dumps(named(document)))
    return place


def named(document):
    """Return a document in which every attack, method, system and encoder is the module's."""
    if isinstance(document, list):
        return [named(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        key: EVIL if key in {"attack", "method", "system", "encoder"} and isinstance(value, str) else named(value)
        for key, value in document.items()
    }


def test_the_mark_shows_an_import(mark):
    assert not mark.exists()
    METHODS.find(EVIL)
    assert mark.exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("verify", "runs/received"), 4),
        (("gate", "runs/received", "--claimed-eps", "5"), 4),
        (("report", "runs/received"), 4),
        (("report", "runs/received", "--out", "page"), 4),
        (("runs", "list"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_no_command_on_a_received_folder_imports_what_it_names(words, code, received, mark, capsys, monkeypatch):
    monkeypatch.chdir(received.parents[1])
    assert main(list(words)) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "bug of canarybank" not in said.err
    if words[0] == "verify":
        assert f"is installed here, add --trust {EVIL}" in " ".join(said.out.split())
    assert not mark.exists()


@pytest.fixture
def by_plugin(made, tmp_path):
    """Return a copy of the run whose results alone are by a method of somebody else's."""
    place = tmp_path / "runs" / "by-plugin"
    shutil.copytree(made, place)
    path = place / "results.json"
    results = json.loads(path.read_text())
    results["audit"]["method"] = EVIL
    path.write_text(json.dumps(results))
    return place


@pytest.mark.parametrize("judge", [lambda run: compare(run, 5.0), lambda run: write_report(run, run.folder.parent)])
def test_bounds_by_a_method_that_nobody_named_are_not_made_again(judge, by_plugin, mark):
    with pytest.raises(ConfigError, match=f"The method '{EVIL}' is a plug-in.*add --trust {EVIL}"):
        judge(Run.open(by_plugin))
    assert not mark.exists()


def test_verify_notes_what_it_could_not_check(by_plugin, mark):
    found = verify(by_plugin)
    beginning = "The bounds were not made again from the counts. The method 'evil_module:thing'"
    assert any(note.startswith(beginning) for note in found.notes)
    assert not any("bounds of" in finding for finding in found.findings)
    assert not mark.exists()


def test_a_listing_says_why_it_states_no_bound(by_plugin, mark):
    (entry,) = list_runs(by_plugin.parent)
    assert entry.largest is None
    assert entry.reason
    assert not mark.exists()


@pytest.mark.parametrize(
    "words", [("verify",), ("gate", "--claimed-eps", "5"), ("report",)], ids=lambda words: words[0]
)
def test_a_plugin_that_the_user_names_is_imported(words, by_plugin, mark):
    assert main([words[0], str(by_plugin), *words[1:], "--trust", EVIL])  # it is no method after all
    assert mark.exists()


@pytest.mark.parametrize("kind", REGISTRIES)
def test_only_built_in_entries_come_out_of_a_folder_unasked(kind, mark):
    registry = REGISTRIES[kind]
    for look in (registry.received, registry.built_in, registry.permit):
        with pytest.raises(ConfigError, match=r"not imported here|nothing is imported because a folder names it"):
            look(EVIL)
    assert registry.check(EVIL) == EVIL
    assert not mark.exists()
