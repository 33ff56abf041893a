"""Turn a release into a score, and a score into exact tail probabilities."""

from canarybank.score.interval import Interval
from canarybank.score.linear import LinearScore, mixture, unmix
from canarybank.score.moments import Moments
from canarybank.score.normal import normal_scores
from canarybank.score.rounds import Rates, RoundLaw
from canarybank.score.summed import SummedLaw
from canarybank.score.tails import Bounds, both_tails, tail

__all__ = [
    "Bounds",
    "Interval",
    "LinearScore",
    "Moments",
    "Rates",
    "RoundLaw",
    "SummedLaw",
    "both_tails",
    "mixture",
    "normal_scores",
    "tail",
    "unmix",
]
