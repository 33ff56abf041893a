"""Know where caches live when nobody says otherwise."""

import os
from pathlib import Path

__all__ = ["CACHE_VARIABLE", "cache_root"]

CACHE_VARIABLE = "CANARYBANK_CACHE"


def cache_root() -> Path:
    """Return the folder of all caches: $CANARYBANK_CACHE, else $XDG_CACHE_HOME/canarybank, else ~/.cache/canarybank.

    The second and third are the XDG rules (https://specifications.freedesktop.org/basedir-spec/latest/).

    Example:
        >>> os.environ["CANARYBANK_CACHE"] = "my-cache"
        >>> cache_root().name
        'my-cache'
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules say that a relative path there is to be ignored.
    folder = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return folder / "canarybank"
