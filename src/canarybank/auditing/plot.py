"""Draw a result with matplotlib, for notebooks and papers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from canarybank.auditing.result import AuditResult

__all__ = ["plot_ladder"]

_EXACT, _TRIALS = "#0b5fa5", "#c2410c"
_COLOURS = {"accounted": "#7c8696", "expected": "#e0957a", "observed": _TRIALS}


def plot_ladder(result: "AuditResult", ax: "Axes | None" = None) -> "Axes":
    """Draw a result's ladder as bars, top to bottom, the range of each rung as a whisker."""
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    rungs = result.ladder.rungs
    values = [rung.epsilon for rung in rungs]
    below = [max(0.0, rung.epsilon - rung.low) for rung in rungs]
    above = [max(0.0, rung.high - rung.epsilon) for rung in rungs]
    bars = ax.barh(
        [rung.name for rung in rungs],
        values,
        xerr=[below, above],
        color=[_COLOURS.get(rung.name, _EXACT) for rung in rungs],
        error_kw={"elinewidth": 1.2, "capsize": 3},
    )
    ax.bar_label(bars, labels=[f"{value:.3f}" for value in values], padding=6)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.set_xlabel(f"epsilon at delta {result.mechanism.delta:g}")
    ax.set_title(f"{result.attack}, {result.trials:,} trials a hypothesis, {result.headline.method}")
    return ax
