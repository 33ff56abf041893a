"""Files in the exact published formats, and users to draw from."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from canarybank.users import Users


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the caches, empty."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CANARYBANK_CACHE", str(folder))
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def people() -> Callable[..., Users]:
    """Make users u000, u001, ... with this many records each."""

    def make(counts: list[int]) -> Users:
        ids = tuple(f"u{i:03d}" for i in range(len(counts)))
        owners = np.repeat(np.arange(len(counts)), counts)
        texts = tuple(f"{ids[o]} says {i}" for i, o in enumerate(owners))
        return Users(ids, owners, texts, labels=tuple(str(i % 2) for i in range(len(owners))))

    return make


@pytest.fixture
def yelp_line() -> Callable[..., str]:
    """Write one line as the Yelp Open Dataset's review file does."""

    def line(user: str, text: str, stars: float = 5.0) -> str:
        return json.dumps(
            {
                "review_id": "KU_O5udG6zpxOg-VcAEodg",
                "user_id": user,
                "business_id": "XQfwVwDr-v0ZS3_CbbE5Xw",
                "stars": stars,
                "useful": 0,
                "funny": 0,
                "cool": 0,
                "text": text,
                "date": "2018-07-07 22:09:11",
            },
            separators=(",", ":"),
        )

    return line


@pytest.fixture
def sentiment_line() -> Callable[..., str]:
    """Write one line as Sentiment140's training file does: every field quoted, no header."""

    def line(user: str, text: str, target: int = 0) -> str:
        fields = (str(target), "1467810369", "Mon Apr 06 22:19:45 PDT 2009", "NO_QUERY", user, text)
        return ",".join('"' + field.replace('"', '""') + '"' for field in fields)

    return line
