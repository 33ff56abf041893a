"""Read the built-in users: real people's chat messages, from the chitchat-dataset package."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from canarybank.errors import DataError, MissingError
from canarybank.progress import SILENT, Progress
from canarybank.users.rows import Columns, Row, Skip, as_row

__all__ = ["BUILT_IN", "Chitchat"]

BUILT_IN = Path("chitchat")
"""The word that stands for the installed file, whatever the working directory holds."""

_COLUMNS = Columns("sender", "text")
_SHA256 = "d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a"


@dataclass(frozen=True, slots=True)
class Chitchat:
    """The messages of the BYU Chit-Chat Challenge, version 0.9.0: a user is a sender, a record is one message.

    Messages are taken as they were typed, one for each press of the return key, and carry no label.
    """

    name: str = "chitchat"
    columns: Columns = _COLUMNS
    encoding: str | None = None
    member: str | None = None

    def rows(
        self,
        path: Path = BUILT_IN,
        *,
        strict: bool = True,
        isolated: bool = False,
        progress: Progress = SILENT,
        work: str = "read",
    ) -> Iterator[Row | Skip]:
        """Yield every message, numbered in the order of the file: the installed one, or a copy at a path."""
        del strict, isolated  # the file is known to the byte
        conversations = json.loads(_content(_installed() if path == BUILT_IN else path))
        line = 0
        with progress.stage(f"{work} chitchat", len(conversations), "conversations") as stage:
            for conversation in conversations.values():
                stage.advance()
                for message in _messages(conversation):
                    line += 1
                    yield as_row(line, message["sender"], message["text"])


def _messages(conversation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for turn in conversation["messages"]:
        yield from turn


def _installed() -> Path:
    # Found without being run: the package's own loader leaves its file open.
    spec = find_spec("chitchat_dataset")
    if spec is None or spec.origin is None:
        raise MissingError("The built-in users are not installed; run: pip install chitchat-dataset==0.9.0")
    return Path(spec.origin).with_name("dataset.json")


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MissingError(
            f"The built-in users cannot be read ({error}); run: pip install --force-reinstall chitchat-dataset==0.9.0"
        ) from error
    if (found := hashlib.sha256(content).hexdigest()) != _SHA256:
        raise DataError(
            f"{path} is not the file of chitchat-dataset 0.9.0: its sha256 is {found}, not {_SHA256}; "
            f"run: pip install --force-reinstall chitchat-dataset==0.9.0"
        )
    return content
