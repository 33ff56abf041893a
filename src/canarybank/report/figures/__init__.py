"""Draw the figures of the page, one module a figure: summary values in, a drawing with its alternatives out."""

from canarybank.report.figures.canaries import canary_figure
from canarybank.report.figures.densities import density_figure
from canarybank.report.figures.ladder import ladder_figure
from canarybank.report.figures.overview import overview_figure
from canarybank.report.figures.plane import map_figure
from canarybank.report.figures.roc import roc_figure
from canarybank.report.figures.votes import vote_figure

__all__ = [
    "canary_figure",
    "density_figure",
    "ladder_figure",
    "map_figure",
    "overview_figure",
    "roc_figure",
    "vote_figure",
]
