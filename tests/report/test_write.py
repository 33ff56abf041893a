import pytest

from canarybank import report
from canarybank.errors import StoreError
from canarybank.report import PAGE, write_report
from canarybank.run import Run

NAMES = [PAGE, "summary.md", "results.tex", "results.csv", "results.parquet"]


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    first, second = write_report(run, tmp_path / "a"), write_report(run, tmp_path / "b")
    assert [path.name for path in first] == NAMES
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_the_report_goes_to_the_runs_own_folder(run):
    paths = write_report(Run.open(run.folder))
    assert all(path.parent == run.folder and path.stat().st_size for path in paths)


def test_a_run_without_its_results_has_no_report(run, tmp_path):
    (tmp_path / "manifest.json").write_bytes((run.folder / "manifest.json").read_bytes())
    with pytest.raises(StoreError, match="results"):
        write_report(Run.open(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_public_names_are_exported_and_sorted():
    assert all(hasattr(report, name) for name in report.__all__)
    assert sorted(report.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)) == report.__all__
