"""Draw the figures of the page: summary values in, a drawing with its alternatives out."""

from canarybank.report.figures.evidence import density_figure, map_figure, roc_figure, vote_figure
from canarybank.report.figures.ladders import canary_figure, ladder_figure, overview_figure
from canarybank.report.figures.rounds import epsilon_figure, utility_figure

__all__ = [
    "canary_figure",
    "density_figure",
    "epsilon_figure",
    "ladder_figure",
    "map_figure",
    "overview_figure",
    "roc_figure",
    "utility_figure",
    "vote_figure",
]
