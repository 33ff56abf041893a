"""Refuse every connection and name look-up that would leave this machine, in the Python that starts with this."""

import socket
import sys

ADDRESSED = {"socket.connect", "socket.sendto", "socket.sendmsg"}
NAMED = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
HERE = ("127.", "::1", "localhost")


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in ADDRESSED:
        address = arguments[1]
        # A Unix socket's address is a path, and never leaves the machine.
        host = address[0] if isinstance(address, tuple) else None
    elif event in NAMED:
        host = arguments[0]
    else:
        return
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and name and not name.startswith(HERE):
        error = ConnectionRefusedError if event in ADDRESSED else socket.gaierror
        raise error(f"the tests are offline, and {name} is not this machine")


sys.addaudithook(refuse)
