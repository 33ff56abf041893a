import canarybank.store as room


def test_the_room_exports_what_it_says_sorted() -> None:
    assert room.__all__ == sorted(room.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(room, name) for name in room.__all__)
