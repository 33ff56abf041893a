import pytest

from canarybank.config import resolve
from canarybank.errors import ConfigError, DataError, IncompleteError
from canarybank.flow import run_audit
from canarybank.run import Run
from canarybank.store import hash_folder


def test_other_settings_are_refused_with_what_differs(flags, copied):
    other = resolve(flags={**flags, "mechanism.sigma": 2.0, "audit.trials": 9, "run.workers": 7})
    before = hash_folder(copied)
    with pytest.raises(ConfigError) as caught:
        run_audit(other, copied)
    lines = str(caught.value).splitlines()
    assert lines[1:] == ["  mechanism.sigma: 1.0 -> 2.0", "  audit.trials: 3000 -> 9"]
    assert "another run, with an alpha of its own" in lines[0]
    assert hash_folder(copied) == before


def test_other_workers_are_no_other_settings(flags, copied):
    assert run_audit(resolve(flags={**flags, "run.workers": 2}), copied).is_finished


def test_an_unfinished_run_says_so(resolved, tmp_path):
    with Run.held(resolved, tmp_path / "run", "", "audit"):
        pass
    run = Run.open(tmp_path / "run")
    assert not run.is_finished
    with pytest.raises(IncompleteError, match=r"no results\.json yet; run the same command again"):
        _ = run.results
    with pytest.raises(IncompleteError, match=r"no commitment\.json yet"):
        _ = run.commitment_hash


def test_a_start_that_could_come_to_nothing_does_not_hold_the_folder_against_the_corrected_command(
    flags, resolved, tmp_path
):
    wrong = resolve(flags={**flags, "users.source": str(tmp_path / "typo.csv")})
    with pytest.raises(DataError, match="no file of users"):
        run_audit(wrong, tmp_path / "run")
    with Run.held(resolved, tmp_path / "run", "", "audit"):
        assert Run.open(tmp_path / "run").manifest.config == resolved.values()


def test_a_run_that_stands_is_kept_when_a_later_start_fails(resolved, tmp_path):
    with Run.held(resolved, tmp_path / "run", "", "audit"):
        pass
    with pytest.raises(DataError), Run.held(resolved, tmp_path / "run", "", "audit"):
        raise DataError("The file of users went away.")
    assert not Run.open(tmp_path / "run").is_finished
