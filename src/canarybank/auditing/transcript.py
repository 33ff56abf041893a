"""Score what one run of several rounds released: its transcript."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.attack import Design
from canarybank.score import mixture

__all__ = ["transcript_scores"]


def transcript_scores(designs: Sequence[Design], releases: Sequence[ArrayLike], q: float) -> NDArray[np.float64]:
    """Return the sums of the rounds' mixture scores after each round, the releases being over whole banks.

    The t-th is log p1(y_1..y_t) / p0(y_1..y_t), of an eligible canary against an absent one, if each round's score is
    the true conditional log-likelihood ratio. Releases may be tables of many over the same banks; so are the sums then.

    Args:
        designs: The design of each round.
        releases: The release of each round, over its whole bank.
        q: The probability that the canary takes part in a round.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.attack import design
        >>> from canarybank.mechanism import Bank, Mechanism, Routed
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> people = Users.from_vectors(rng.normal(size=(8, 3, 4)))
        >>> routed = Routed.build(Auxiliary(people), bank, mechanism.k)
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> one = design(ATTACKS["exact"], canary, bank, routed, mechanism, eligible=8, seed=0)
        >>> transcript_scores([one, one], [np.zeros(30), np.zeros(30)], mechanism.q).shape
        (2,)
    """
    scores = [
        mixture(each.score.llr(np.asarray(release)[..., each.inspected]), q)
        for each, release in zip(designs, releases, strict=True)
    ]
    return np.asarray(np.cumsum(scores, axis=0), dtype=np.float64)
