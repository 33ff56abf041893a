"""Word what pages and terminal say alike."""

import math

__all__ = ["sentence_case", "shown_epsilon"]

HUGE = 1e12
"""From here on nobody reads the digits of an epsilon."""


def sentence_case(heading: str) -> str:
    """Return a heading with its first letter as a sentence begins; a name such as mu_eff, a key or a path stays."""
    return heading if any(sign in heading for sign in "_/.") else heading[:1].upper() + heading[1:]


def shown_epsilon(epsilon: float | None, decimals: int = 3) -> str:
    """Return an epsilon with three decimals, and below 1 with four significant digits; null stands for infinity.

    So what is shown is within a thousandth of the epsilon, and no positive one is shown as 0. From a million million on
    it is shown as 5.000e27.
    """
    if epsilon is None or math.isinf(epsilon):
        return "infinite"
    if epsilon >= HUGE:
        return f"{epsilon:.{decimals}e}".replace("e+", "e")
    return f"{epsilon:#.{decimals + 1}g}" if 0 < epsilon < 1 else f"{epsilon:.{decimals}f}"
