"""Word what pages and terminal say alike."""

__all__ = ["sentence_case"]


def sentence_case(heading: str) -> str:
    """Return a heading with its first letter as a sentence begins; a name such as mu_eff, a key or a path stays."""
    return heading if any(sign in heading for sign in "_/.") else heading[:1].upper() + heading[1:]
