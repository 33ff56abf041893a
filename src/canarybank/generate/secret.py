"""Hold an API key so that it reaches the server and nothing else."""

import os
import re
from typing import NoReturn

from canarybank.errors import ConfigError
from canarybank.variables import is_variable_name

__all__ = ["Secret"]

_SHOWN_AS = "<secret>"
# Local servers take any word for a key, and a short one stands in honest answers.
_TELLING = 8


class Secret:
    """A key that shows itself to nobody who does not ask by name."""

    __slots__ = ("_escaped", "_value")

    def __init__(self, value: str, variable: str) -> None:
        self._value = _checked(value, variable)
        self._escaped = re.compile("".join(map(_spellings, self._value)))

    @classmethod
    def from_environment(cls, variable: str) -> "Secret":
        """Read the key from an environment variable; it is empty where there is none."""
        if not is_variable_name(variable):
            raise ConfigError(
                "The name of the environment variable that holds the API key must be of letters, digits and "
                "underscores, such as OPENAI_API_KEY; what was given is not shown, for it may be the key itself."
            )
        return cls(os.environ.get(variable, ""), variable)

    def __repr__(self) -> str:
        return _SHOWN_AS

    def __reduce__(self) -> NoReturn:
        raise ConfigError("An API key is not written to files; make the generator anew where it is needed.")

    def reveal(self) -> str:
        """Return the key."""
        return self._value

    def hide(self, text: str) -> str:
        """Return a text without the key, be it spelled plainly or with the escapes of JSON and Python."""
        if not self._value:
            return text
        # Escapes go first: the key within its own escaped spelling would leave a backslash behind.
        text = self._escaped.sub(_SHOWN_AS, text) if "\\" in text else text
        return text.replace(self._value, _SHOWN_AS)

    def hide_in_answer(self, text: str) -> str:
        """Return an answer without the key, unless the key is so short that it may be a word of the answer's own."""
        return self.hide(text) if len(self._value) >= _TELLING else text


def _spellings(letter: str) -> str:
    return rf"(?:\\u00(?i:{ord(letter):02x})|\\?{re.escape(letter)})"


def _checked(key: str, variable: str) -> str:
    # A key that no header can carry would be shown, escaped, by the client's own error and log.
    key = key.strip()
    if not all("!" <= letter <= "~" for letter in key):
        raise ConfigError(
            f"The API key holds a space, a control character or a letter beyond ASCII; set {variable} to the key alone."
        )
    return key
