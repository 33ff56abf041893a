"""Tell the name of an environment variable from a key that was pasted in its place."""

import re

__all__ = ["is_variable_name"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# How the keys of well-known services begin, as far as they could be names at all.
_PREFIXES = re.compile(r"(sk|pk|rk|hf|gsk|csk|xai|pplx|nvapi|r8|fw|tgp|gh[opsu]|github_pat|glpat)_|AKIA[A-Z0-9]{16}$")
_PREFIXED = re.compile(r"[a-z]{2,5}_[A-Za-z0-9]{20,}")
_LONG = 20


def is_variable_name(value: str) -> bool:
    """Say whether a text can be the name of an environment variable and does not look like a key.

    Names are mostly of capitals and underscores; a long text that mixes small letters with capitals or digits, or that
    has digits and no underscore, is taken for a key.
    """
    if not _NAME.fullmatch(value) or _PREFIXES.match(value) or _PREFIXED.fullmatch(value):
        return False
    small, capital, digit = (any(map(test, value)) for test in (str.islower, str.isupper, str.isdigit))
    mixed = small and (capital or digit)
    return len(value) < _LONG or not (mixed or (digit and "_" not in value))
