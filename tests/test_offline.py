import socket
import subprocess
import sys
import urllib.request

import pytest

# An address set aside for documentation, so that nothing answers there even if a test leaks.
ELSEWHERE = "192.0.2.1"


def test_no_test_can_leave_this_machine():
    with socket.socket() as plain, pytest.raises(ConnectionRefusedError, match="tests are offline"):
        plain.connect((ELSEWHERE, 80))
    with socket.socket() as plain, pytest.raises(ConnectionRefusedError, match="tests are offline"):
        plain.connect_ex((ELSEWHERE, 80))
    with pytest.raises(socket.gaierror, match="tests are offline"):
        socket.getaddrinfo("huggingface.co", 443)
    with pytest.raises(OSError, match="tests are offline"):
        urllib.request.urlopen("https://huggingface.co", timeout=5)


def test_no_python_that_a_test_starts_can_either():
    code = f"import socket; socket.create_connection(({ELSEWHERE!r}, 80), timeout=5)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "tests are offline" in done.stderr


def test_this_machine_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        assert near.getpeername() == server.getsockname()
