import pytest

from canarybank.experiment import resolve
from canarybank.experiment.reproduce import Order


@pytest.fixture(scope="session")
def small(flags):
    """Return the flags of a tiny audit, without its files."""
    return {key: value for key, value in flags.items() if key not in {"users.source", "bank.source"}}


@pytest.fixture
def order(small, world, tmp_path):
    """Return a function that places an order for a tiny audit on a file of users and a bank."""

    def place(folder=None, **more):
        given = {"data": str(world / "users.csv"), "bank": str(world / "bank.csv")} | more.pop("files", {})
        return Order(resolve(flags=small | more.pop("flags", {})), folder or tmp_path / "rep", **given, **more)

    return place
