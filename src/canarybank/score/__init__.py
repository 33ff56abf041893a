"""Turn a release into a score, and a score into exact tail probabilities."""

from canarybank.score.epsilon import Branch, Law, Supremum, epsilon_at, quick_epsilon, supremum
from canarybank.score.interval import Interval
from canarybank.score.linear import LinearScore, mixture, unmix
from canarybank.score.moments import Moments
from canarybank.score.normal import normal_scores
from canarybank.score.rounds import Rates, RoundLaw
from canarybank.score.summed import SummedLaw
from canarybank.score.tails import Bounds, both_tails, tail

__all__ = [
    "Bounds",
    "Branch",
    "Interval",
    "Law",
    "LinearScore",
    "Moments",
    "Rates",
    "RoundLaw",
    "SummedLaw",
    "Supremum",
    "both_tails",
    "epsilon_at",
    "mixture",
    "normal_scores",
    "quick_epsilon",
    "supremum",
    "tail",
    "unmix",
]
