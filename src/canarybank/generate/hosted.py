"""Ask a generator that an engine holds elsewhere, loaded once on each GPU of a cluster."""

from collections.abc import Iterator, Sequence
from functools import partial

from canarybank.engine import Host
from canarybank.errors import ConfigError
from canarybank.generate.protocol import Generator, Request, Response, server_of
from canarybank.generate.server import Server

__all__ = ["HostedGenerator"]

REQUESTS = 2048
"""Requests that are answered in one place: several batches, and the same ones whatever the number of GPUs."""


class HostedGenerator:
    """A generator whose model is loaded elsewhere; batch-mates change an answer through rounding alone, as on any GPU.

    Args:
        generator: The same generator in this process, which is not asked and so loads no model.
        host: What holds generators made alike.
    """

    def __init__(self, generator: Generator, host: Host) -> None:
        self._generator, self._host = generator, host

    @property
    def name(self) -> str:
        """Return the name of the generator."""
        return self._generator.name

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the generator."""
        return self._generator.fingerprint

    @property
    def server(self) -> Server | None:
        """Return where requests go beyond the cluster, as the generator says."""
        return server_of(self._generator)

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Answer the requests, a few batches at each place."""
        starts = range(0, len(requests), REQUESTS)
        parts = [list(requests[start : start + REQUESTS]) for start in starts]
        for number, answers in self._host.run(partial(_answers, self.fingerprint), parts):
            for index, response in answers:
                yield starts[number] + index, response


def _answers(fingerprint: str, generator: Generator, requests: list[Request]) -> list[tuple[int, Response]]:
    if generator.fingerprint != fingerprint:
        raise ConfigError(
            f"The generator {generator.name!r} of a worker is not that of the run: its fingerprint is "
            f"{generator.fingerprint[:12]} and not {fingerprint[:12]}. Give all nodes the same model."
        )
    return list(generator.generate(requests))
