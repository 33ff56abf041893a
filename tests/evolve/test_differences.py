from canarybank.evolve.differences import differences


def test_equal_values_do_not_differ() -> None:
    assert differences({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}) == []


def test_each_differing_key_is_named_with_both_values() -> None:
    before = {"mechanism": {"sigma": 1.0, "q": 0.1}, "rounds": 3, "gone": "x"}
    now = {"mechanism": {"sigma": 2.0, "q": 0.1}, "rounds": 3, "new": None, "added": 5}
    assert differences(before, now) == [
        "added was None and is now 5",
        "gone was 'x' and is now None",
        "mechanism.sigma was 1.0 and is now 2.0",
    ]
