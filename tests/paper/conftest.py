import pytest

from canarybank.config import resolve
from canarybank.flow import run_audit
from canarybank.paper import Order

FLAGS = {
    "encoder.name": "hashing",
    "mechanism.k": 3,
    "attack.names": ("ordinary", "nonce-norm"),
    "attack.probes": 12,
    "attack.pool": 40,
    "cohorts.canaries": 2,
    "audit.trials": 3000,
    "run.workers": 1,
}


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    """Keep every cache of these tests in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARYBANK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def flags(world):
    """Return the flags of a tiny audit on a file of users and a bank."""
    return FLAGS | {"users.source": str(world / "users.csv"), "bank.source": str(world / "bank.csv")}


@pytest.fixture(scope="session")
def finished(flags, tmp_path_factory):
    """Return a finished run of that audit."""
    return run_audit(resolve(flags=flags), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def order(world, tmp_path):
    """Return a function that places an order for a tiny audit on a file of users and a bank."""

    def place(folder=None, **more):
        given = {"data": str(world / "users.csv"), "bank": str(world / "bank.csv")} | more.pop("files", {})
        return Order(resolve(flags=FLAGS | more.pop("flags", {})), folder or tmp_path / "rep", **given, **more)

    return place


@pytest.fixture
def bare(tmp_path):
    """Return a function that places an order in which nothing is given but its flags."""

    def place(flags=None, **more):
        return Order(resolve(flags=flags or {}), tmp_path / "rep", **more)

    return place
