"""A generator for tests that stands for one behind a server, named in a configuration as ``served_answers:ask``.

It counts what it would send, as such a generator must; a script answers that the test hands over.
"""

import contextlib

from canarybank.generate import ScriptedGenerator, Server

_GENERATORS = []


class Served(ScriptedGenerator):
    """Answer from a script, and count each request as one that was sent to a server."""

    def __init__(self, script, url):
        self._to = Server(url)

        def sent(request):
            self._to.count(request.records)
            return script(request)

        super().__init__(sent, "served")

    @property
    def server(self):
        """Return the server."""
        return self._to


@contextlib.contextmanager
def serving(script, url):
    """Let a script answer as the server at a URL."""
    made = Served(script, url)
    _GENERATORS.append(made)
    try:
        yield made
    finally:
        _GENERATORS.remove(made)


def ask(_section):
    """Build the generator from its section of a configuration."""
    return _GENERATORS[-1]
