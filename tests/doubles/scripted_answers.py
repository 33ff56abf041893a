"""A generator for tests, named in a configuration as ``WRITER``: a script answers that the test hands over.

Without a script it is a generator that is not installed.
"""

import contextlib

from canarybank.errors import MissingError
from canarybank.generate import ScriptedGenerator

WRITER = "scripted_answers:write"
_WRITERS = []


@contextlib.contextmanager
def answering(script, name="scripted"):
    """Let a script answer; yield the generator, which remembers what it was asked."""
    made = ScriptedGenerator(script, name)
    _WRITERS.append(made)
    try:
        yield made
    finally:
        _WRITERS.remove(made)


class _Write:
    in_process = True

    def __call__(self, _section):
        if not _WRITERS:
            raise MissingError("The model is not here.")
        return _WRITERS[-1]


write = _Write()
