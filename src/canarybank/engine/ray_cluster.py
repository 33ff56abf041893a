"""Start a Ray cluster on this machine, or join one that runs; there is one connection in a process at a time.

A cluster of ours listens on this machine only, asks for a token that nobody else knows, and keeps its files (objects
that do not fit in memory among them) in a folder of its own that others cannot read. It ends with this process, and the
folder with it; where the process was killed, the next cluster that is started here removes the folder. A cluster that
was joined is left running. Usage statistics are never sent.
"""

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from canarybank.errors import MissingError, StoreError
from canarybank.store.files import open_private
from canarybank.store.locks import LOCK_NAME, flocked

__all__ = ["connect", "disconnect", "load_ray", "require_ray"]

LOCAL = "local"
"""The word by which Ray starts a cluster of its own, whatever other cluster runs on this machine."""

_QUIET: Mapping[str, str | None] = {"RAY_USAGE_STATS_ENABLED": "0"}
"""What the environment says while Ray is loaded and started."""
_SYSTEM = {"enable_metrics_collection": False, "metrics_report_interval_ms": 0}
"""What a cluster of ours is told: nobody reads its metrics."""
_STEM = "canarybank-ray"
_MAKING = 60.0
"""Seconds within which whoever makes a folder has locked it."""
_LONGEST = 24
"""Letters of a temporary folder's path that leave room for the names of Ray's sockets, which the system cuts short."""
_PATIENCE = 10.0
"""Seconds to wait for an answer from a cluster's address."""


@dataclass(frozen=True, slots=True)
class _Connection:
    """What this process is connected to; ``folder`` holds the files of a cluster that it started, and is locked."""

    address: str
    cores: int
    folder: Path | None
    lock: int = -1


_connections: list[_Connection] = []
"""The connection that this module made, if there is one."""


def require_ray() -> None:
    """Say how to install Ray where it is not, without loading it."""
    if find_spec("ray") is None:
        raise _missing()


def load_ray() -> Any:
    """Return the module ray, or say how to install it."""
    with _environment(_QUIET):
        try:
            import ray
        except ImportError as error:
            raise _missing() from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _missing() -> MissingError:
    return MissingError("The engine 'ray' needs Ray; run: pip install 'canarybank[ray]'")


def connect(address: str | None, workers: int) -> Any:
    """Connect this process to a cluster, unless it is connected to it already, and return the module ray.

    Args:
        address: Where the cluster runs, or ``auto`` for the one on this machine; None starts one here, or keeps the
            connection that the program around us made.
        workers: The cores that a cluster started here offers.
    """
    ray = load_ray()
    wanted = LOCAL if address is None else address
    if not ray.is_initialized():
        _connections.clear()
    if _connections:
        now = _connections[0]
        if now.address == wanted and (now.folder is None or now.cores >= workers):
            return ray
        disconnect()
    elif ray.is_initialized() and address is None:
        return ray
    elif ray.is_initialized():
        raise MissingError(
            f"This program is connected to a Ray cluster already, so it cannot join {address!r}. Leave the address "
            "out to use that cluster, or call ray.shutdown() first."
        )
    _connections.append(_start(ray, workers) if address is None else _join(ray, address))
    _print_reports(ray, wanted=False)
    return ray


def disconnect() -> None:
    """Leave the cluster that ``connect`` joined, or stop the one that it started and remove its files."""
    while _connections:
        made = _connections.pop()
        ray = load_ray()
        ray.shutdown()
        _forget_token(ray)
        _print_reports(ray, wanted=True)
        if made.folder is not None:
            _remove(made.folder, made.lock)


def _start(ray: Any, workers: int) -> _Connection:
    folder, lock = _locked_folder()
    is_chosen = any(name.startswith("RAY_AUTH_") for name in os.environ)
    token = {} if is_chosen else {"RAY_AUTH_MODE": None, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        with _environment({**_QUIET, **token}), _this_machine_only(ray), _own_signals():
            ray.init(
                LOCAL,
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder / "ray"),  # which Ray opens to everybody
                _system_config=dict(_SYSTEM),
            )
    except BaseException as error:
        ray.shutdown()
        _forget_token(ray)
        _remove(folder, lock)
        if not isinstance(error, Exception):  # an interruption
            raise
        # Ray raises whatever failed below it.
        raise MissingError(
            f"Ray could not start on this machine ({_first_line(error)}). Set run.engine to threads or processes, or "
            "run.address to a cluster that runs."
        ) from error
    atexit.register(disconnect)
    return _Connection(LOCAL, workers, folder, lock)


def _locked_folder() -> tuple[Path, int]:
    """Make a folder that nobody else can read, at a path that is short enough for sockets, and lock it."""
    usual = tempfile.gettempdir()
    short = "/tmp" if len(usual) > _LONGEST and os.path.isdir("/tmp") else usual  # noqa: PTH112, S108, a private folder
    _sweep(Path(short))
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{_STEM}-{os.getpid()}-", dir=short))
        lock = open_private(folder / LOCK_NAME, os.O_RDWR)
        try:
            is_ours = flocked(lock, folder, wait=False)
        except StoreError:  # there are no locks here, and nobody sweeps
            is_ours = True
        if is_ours and folder.exists():  # nobody took it for a folder that was left
            return folder, lock
        os.close(lock)


def _sweep(place: Path) -> None:
    """Remove our folders of clusters whose process was killed: nobody holds their locks.

    One without a lock is a folder that a dying node made anew after it was removed, or one that is being made.
    """
    for folder in place.glob(f"{_STEM}-*"):
        with contextlib.suppress(OSError, StoreError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if not (folder / LOCK_NAME).exists():
                if time.time() - found.st_mtime > _MAKING:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW)
            if flocked(lock, folder, wait=False):
                _remove(folder, lock)
            else:
                os.close(lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


@contextlib.contextmanager
def _this_machine_only(ray: Any) -> Iterator[None]:
    """Have Ray listen to this machine alone: on Linux it would listen to the network, even for itself."""
    constants = ray._private.ray_constants  # noqa: SLF001, its variable is read once, when it is imported
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        with _environment({"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}):
            yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _join(ray: Any, address: str) -> _Connection:
    try:
        _knock(address)
        with _environment({**_QUIET, "RAY_gcs_server_port_wait_time_s": "1"}), _own_signals():
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # as above
        raise MissingError(
            f"No Ray cluster could be joined at {address!r} ({_first_line(error)}). Check run.address and that the "
            "cluster runs, or leave run.address out to start one on this machine."
        ) from error
    return _Connection(address, 0, None)


def _forget_token(ray: Any) -> None:
    """Have the next cluster asked for its own token: Ray keeps a process's first one, and that a token is needed."""
    ray._raylet.Config.initialize("")  # noqa: SLF001, as Ray's own tests do
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()  # noqa: SLF001, as above


def _print_reports(ray: Any, *, wanted: bool) -> None:
    """Say whether Ray prints what its nodes report: it does so on standard output, where our results stand."""
    ray._private.worker._worker_logs_enabled = wanted  # noqa: SLF001, there is no other switch


def _knock(address: str) -> None:
    """Raise an OSError where nobody listens at host:port; Ray would try for many minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}".rstrip(": .")


@contextlib.contextmanager
def _environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or take out those that are None; and put back afterwards what stood there."""
    before = {name: os.environ.get(name) for name in values}
    _put(values)
    try:
        yield
    finally:
        _put(before)


def _put(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces by one that leaves without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
