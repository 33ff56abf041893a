import pytest

from canarybank.errors import InputError
from canarybank.score import Interval


def test_an_interval_knows_its_width_middle_and_members() -> None:
    interval = Interval(1.0, 1.5)
    assert interval.width == 0.5
    assert interval.midpoint == 1.25
    assert interval.contains(1.0)
    assert interval.contains(1.5)
    assert not interval.contains(1.6)
    assert str(interval) == "[1, 1.5]"


@pytest.mark.parametrize("ends", [(1.0, 0.5), (float("nan"), 1.0), (0.0, float("nan"))])
def test_ends_that_are_no_interval_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="at most the upper"):
        Interval(*ends)
