"""Make the configuration of an audit from a file of users alone, and say what was assumed."""

from collections.abc import Mapping
from pathlib import Path

from canarybank.config.loading import Resolved, is_default, resolve, varied
from canarybank.errors import ConfigError

__all__ = ["assumptions", "is_users_file", "resolve_users"]

_TOLD = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
_PACKED = (".gz", ".zip", ".tgz", ".tar")


def is_users_file(path: Path | str) -> bool:
    """Say whether a path is named as a file of users is, and not as a configuration.

    Args:
        path: A path; nothing is opened.

    Example:
        >>> is_users_file("people.csv.gz"), is_users_file("my-audit.toml")
        (True, False)
    """
    name = Path(path).name.lower()
    return name.endswith((*_TOLD, *_PACKED))


def resolve_users(file: Path | str, flags: Mapping[str, object] | None = None, preset: str | None = None) -> Resolved:
    """Return the configuration of an audit of the users in a file: its columns told by their names, the rest default.

    Only the names of the columns are read. A real evolution takes a configuration instead, so that nothing in a users'
    file decides how it is read.

    Args:
        file: A file of users: CSV, TSV, JSON lines or Parquet, packed or not.
        flags: Values by dotted key, as ``resolve`` takes them.
        preset: A name in ``PRESETS``.

    Example:
        >>> resolved = resolve_users("my-users.csv", {"mechanism.sigma": 2})
        >>> resolved.config.users.user, resolved.config.users.text, resolved.origins["users.text"]
        ('user', 'text', 'file my-users.csv')
    """
    from canarybank.store import require_file
    from canarybank.users import guess_columns, source

    given = resolve(None, flags, preset)
    if not is_default(given, "users.source"):
        raise ConfigError(
            f"Two files of users are named: {str(file)!r}, and {given.config.users.source!r} by users.source. Leave "
            "one of them out."
        )
    require_file(file, "file of users")
    users = given.config.users
    told = source(file, users.format, encoding=users.encoding, member=users.member, quote=users.quote)
    columns = guess_columns(told.path, told.format)
    # A file that is called as the built-in users are keeps a folder in its name.
    found = {"users.source": str(told.path), "users.user": columns.user, "users.text": columns.text}
    chosen = {key: value for key, value in found.items() if is_default(given, key)}
    return varied(given, chosen, f"file {file}")


def assumptions(resolved: Resolved) -> str:
    """Say what an audit of a users' file takes for granted: the columns, and each thing that nobody set, with its flag.

    Args:
        resolved: What ``resolve_users`` returned.

    Example:
        >>> said = assumptions(resolve_users("my-users.csv", {"mechanism.sigma": 2}))
        >>> said.startswith("Users come from the column 'user' of my-users.csv (--users.user)")
        True
        >>> "k 5 (--mechanism.k)" in said, "--mechanism.sigma" in said
        (True, False)
    """
    users, release = resolved.config.users, resolved.config.mechanism
    values = {
        "bank.source": "the embedded bank of everyday chat",
        "encoder.name": f"the encoder {resolved.config.encoder.name}",
        "mechanism.k": f"k {release.k}",
        "mechanism.clip": f"clip {release.clip:g}",
        "mechanism.sigma": f"sigma {release.sigma:g}",
        "mechanism.q": f"q {release.q:g}",
        "mechanism.delta": f"delta {release.delta:g}",
    }
    assumed = [f"{text} (--{key})" for key, text in values.items() if is_default(resolved, key)]
    columns = (
        f"Users come from the column {users.user!r} of {users.source} (--users.user), and texts from the column "
        f"{users.text!r} (--users.text)."
    )
    if not assumed:
        return columns
    return f"{columns} Assumed: {', '.join(assumed)}. Set what your system uses."
