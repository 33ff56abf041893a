import pytest

from canarybank.auditing import Ladder, Rung

VALUES = {"accounted": 1.695, "mechanism": 1.6845, "attack": 1.60, "rule": 1.30, "expected": 0.95, "observed": 1.02}


def ladder():
    return Ladder(**{name: Rung(name, value, value - 0.1, value, "a source") for name, value in VALUES.items()})


def test_steps_are_the_gaps_from_top_to_bottom():
    assert ladder().steps == pytest.approx((0.0105, 0.0845, 0.30, 0.35, -0.07))


def test_every_rung_is_shown_with_its_range_and_source():
    lines = str(ladder()).splitlines()
    assert lines[3] == "rule 1.300 (1.200 to 1.300): a source"
    assert len(lines) == 6


def test_a_range_too_narrow_to_see_is_not_shown():
    assert str(Rung("rule", 1.3, 1.2999, 1.3, "exact")) == "rule 1.300: exact"
