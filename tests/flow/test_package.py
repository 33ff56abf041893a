import pytest

from canarybank import experiment


def test_all_is_what_is_exported_and_sorted_as_elsewhere():
    assert all(getattr(experiment, name) is not None for name in experiment.__all__)
    assert set(experiment.__all__) == set(experiment._MODULE_OF)
    assert dir(experiment) == sorted(experiment.__all__)


def test_what_is_not_there_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'audits'"):
        _ = experiment.audits
