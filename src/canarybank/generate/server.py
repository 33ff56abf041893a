"""Say where a generator's requests go: the server, the proxy on the way to it, and how much was sent there."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from canarybank.errors import ConfigError

__all__ = ["OPENAI_URL", "Server"]

OPENAI_URL = "https://api.openai.com/v1"
_URL_VARIABLE = "OPENAI_BASE_URL"
_HEADERS_VARIABLE = "OPENAI_CUSTOM_HEADERS"


@dataclass(slots=True)
class Server:
    """The server that requests are sent to, and how much was sent there so far.

    ``requests`` counts every attempt that left this process, ``requests_with_records`` those that held a user's record,
    and ``records`` holds the different records in them. ``proxy`` is the proxy of the environment that stands between,
    without its password; None where there is none.
    """

    url: str
    proxy: str | None = None
    requests: int = 0
    requests_with_records: int = 0
    records: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, base_url: str | None) -> "Server":
        """Return the server at a URL, or OpenAI's own; refuse what would send requests anywhere else."""
        if base_url is None and os.environ.get(_URL_VARIABLE, "").strip():
            raise ConfigError(
                f"The environment variable {_URL_VARIABLE} names a server, and generator.base_url does not. Set "
                f"generator.base_url to the server that requests may go to, or unset {_URL_VARIABLE}."
            )
        names = [line.partition(":")[0] for line in os.environ.get(_HEADERS_VARIABLE, "").splitlines()]
        if "host" in {name.strip().lower() for name in names}:
            raise ConfigError(
                f"The environment variable {_HEADERS_VARIABLE} sets the header Host, which can lead requests to "
                "another server; remove it there, and set generator.base_url."
            )
        url = OPENAI_URL if base_url is None else _checked(base_url)
        return cls(url, _proxy(url))

    @property
    def direct(self) -> dict[str, None]:
        """Return the mounts of an HTTP client that keep a proxy away from this server where none is recorded."""
        host = urlsplit(self.url).hostname or ""
        return {} if self.proxy else {f"all://[{host}]" if ":" in host else f"all://{host}": None}

    def count(self, records: Sequence[str]) -> None:
        """Count a request that is about to be sent, and the users' records in it."""
        self.requests += 1
        self.requests_with_records += bool(records)
        self.records.update(records)


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        raise ConfigError(
            "The base URL cannot be read; it must be like http://host:port/v1, with a port of at most 65535."
        ) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError("The base URL must be like http://host:port/v1; it lacks http(s) or a host.")
    if parts.username or parts.password or parts.query:
        raise ConfigError("The base URL holds a user, a password or a query; keys belong in an environment variable.")
    return base_url


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment puts before a URL; a server on this machine has none."""
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(url), getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or _is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc):
        return None
    # What stands before the last @ may be a password.
    return found if "@" not in found else f"{found.partition('://')[0]}://{found.rpartition('@')[2]}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
