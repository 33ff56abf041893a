"""Encoders for tests that fail on some texts, each in its own way; a configuration names them as ``odd_encoders:...``.

On all other texts they are the hashing encoder.
"""

import numpy as np

from canarybank.encode import HashingEncoder


class Panic(BaseException):
    """What a library in Rust raises, which is no ``Exception``."""


class OutOfMemoryError(RuntimeError):
    """Stands for torch's error of that name."""


class Fussy(HashingEncoder):
    """Fail on texts with the words refuse, panic, full card or interrupt; one with nan has no finite vector."""

    def encode(self, texts, /):
        """Return a vector for each text."""
        errors = {"refuse": ValueError, "panic": Panic, "full card": OutOfMemoryError, "interrupt": KeyboardInterrupt}
        for word, error in errors.items():
            if any(word in text for text in texts):
                raise error(texts)
        vectors = super().encode(texts).copy()
        vectors[[i for i, text in enumerate(texts) if "nan" in text]] = np.nan
        return vectors


class Tempting(HashingEncoder):
    """An encoder that is not cheap, and has a fast one beside it that must not be asked."""

    cheap = False

    class _Never:
        least_texts = 0

        @property
        def drift(self):
            raise AssertionError("The fast encoder was asked for its drift.")

        def encode(self, _texts, /):
            raise AssertionError("The fast encoder was asked for vectors.")

    fast_encoder = _Never()


class Costly(HashingEncoder):
    """An encoder that takes its time, so that keeping vectors would pay."""

    cheap = False


class Mixing(HashingEncoder):
    """An encoder that does not promise that a vector depends on its own text alone."""

    isolated = False
