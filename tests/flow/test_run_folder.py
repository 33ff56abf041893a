import json
import shutil
from pathlib import Path

import pytest

from canarybank.errors import ConfigError, InputError, StoreError
from canarybank.flow import run_audit
from canarybank.run import Run
from canarybank.store import hash_file, read_json


def test_a_folder_with_something_else_in_it_is_left_alone(resolved, tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"holds 'thesis\.tex' but no run"), Run.held(resolved, tmp_path, "", "audit"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_is_held_by_one(resolved, tmp_path):
    with (
        Run.held(resolved, tmp_path / "run", "first", "audit"),
        pytest.raises(StoreError, match=r"in use by process .* running first"),
        Run.held(resolved, tmp_path / "run", "second", "audit"),
    ):
        pass


def test_a_file_that_cannot_be_read_because_the_folder_is_gone_says_that_the_folder_is_gone(resolved, tmp_path):
    def read_after(remove):
        with Run.held(resolved, tmp_path / "run", "", "audit") as run:
            remove(run.folder)
            read_json(run.folder / "lost.json")

    with pytest.raises(StoreError, match=r"'.*run' was removed while its run went on.*start anew"):
        read_after(shutil.rmtree)
    with pytest.raises(StoreError, match=r"Cannot read '.*lost\.json': it is not there"):
        read_after(Path.exists)


def test_a_run_that_goes_on_says_that_its_folder_is_gone(copied):
    def read_after(remove):
        with Run.again(copied, Run.open(copied).kind) as run:
            remove(run.folder)
            read_json(run.folder / "lost.json")

    with pytest.raises(StoreError, match=r"Cannot read '.*lost\.json': it is not there"):
        read_after(Path.exists)
    with pytest.raises(StoreError, match=r"was removed while its run went on.*start anew"):
        read_after(shutil.rmtree)


def test_a_path_under_a_file_cannot_be_written(resolved, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"is a file, not a folder.*Name another folder for the run by --folder\."):
        run_audit(resolved, tmp_path / "file" / "run")


def test_what_is_no_run_is_no_run(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="no run in"):
            Run.open(path)


@pytest.mark.parametrize("kept", ["results.json", "commitment.json"])
def test_a_run_that_lost_its_manifest_was_altered(copied, kept):
    for path in copied.iterdir():
        if path.name != kept:
            path.unlink()
    with pytest.raises(StoreError, match=rf"has its {kept} but no manifest\.json: it was altered"):
        Run.open(copied)


def test_sealing_lists_every_file_but_the_manifest(copied):
    run = Run.open(copied)
    assert set(run.manifest.files) == {"commitment.json", "results.json", "trials.log"}
    (copied / "report.html").write_text("<p>")
    digest = run.seal()
    assert Run.open(copied).manifest.files["report.html"] == hash_file(copied / "report.html")
    assert digest == hash_file(copied / "manifest.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value | {"schema_version": 99}, "has layout 99, and this canarybank reads up to 2"),
        (lambda value: value | {"extra": 1}, "extra: extra inputs"),
        (lambda value: value | {"attacks": "none"}, "attacks: "),
        (lambda value: [value], "is not what canarybank writes"),
    ],
)
def test_a_document_that_does_not_fit_its_schema_is_named(copied, change, message):
    path = copied / "results.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(StoreError, match=message):
        _ = Run.open(copied).results


def test_a_value_that_refuses_itself_is_a_document_that_was_altered(copied):
    path = copied / "results.json"
    value = json.loads(path.read_text())
    value["attacks"][0]["ledger"]["entries"][0][1] = 0.9
    path.write_text(json.dumps(value))
    with pytest.raises(StoreError, match=r"asks for alpha 0\.9.*it was altered, so restore it"):
        _ = Run.open(copied).results
