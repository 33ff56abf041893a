from email.utils import formatdate

import pytest

from canarybank.errors import InputError
from canarybank.generate import Retry
from canarybank.generate.retry import retry_after


def test_the_wait_doubles_up_to_the_longest_and_ends_with_the_attempts():
    retry = Retry(attempts=5, first=1.0, longest=3.0)
    for attempt, full in ((1, 1.0), (2, 2.0), (3, 3.0), (4, 3.0)):
        for _ in range(20):
            wait = retry.wait(attempt)
            assert wait is not None
            assert 0.75 * full <= wait <= full
    assert retry.wait(5) is None


def test_the_servers_wish_comes_before_our_own_until_patience_ends():
    retry = Retry(attempts=3, first=1.0, patience=10.0)
    assert retry.wait(1, 7.5) == 7.5
    assert retry.wait(1, 10.5) is None
    assert retry.wait(3, 0.0) is None


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-4", 0.0),
        ("soon", None),
        ("nan", None),
        (formatdate(1060, usegmt=True), 60.0),
        (formatdate(900, usegmt=True), 0.0),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date(header, seconds):
    assert retry_after(header, now=1000.0) == seconds


def test_settings_are_checked():
    with pytest.raises(InputError, match="at least once"):
        Retry(attempts=0)
    with pytest.raises(InputError, match="first <= longest"):
        Retry(first=5.0, longest=1.0)
