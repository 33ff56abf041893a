"""Draw the picture of the README: how a server can spy on one person, and what an audit found of it.

canarybank demo
python docs/picture.py runs/demo

The figures on the right are those of the run; the scheme on the left is always the same.
"""

import sys
from pathlib import Path
from typing import Any

PICTURE = Path(__file__).parent / "images" / "overview.png"
INK, QUIET, BLUE, ORANGE, PAPER = "#1b2430", "#5b6675", "#0b5fa5", "#c2410c", "#ffffff"
BANK = ("See you at the game?", "I love this song", "qzx vbb 81-kd", "What a rainy day", "My cat is asleep")
PROBE = 2


def main() -> int:
    """Draw the picture of the run that is named."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK}
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.1), width_ratios=(1.25, 1), layout="constrained")
    figure.set_facecolor(PAPER)
    figure.get_layout_engine().set(wspace=0.06, w_pad=0.12, h_pad=0.12)
    draw_scheme(left)
    figures = found_figures(Path(sys.argv[1]))
    draw_figures(right, figures)
    figure.savefig(PICTURE, dpi=150, metadata={"Description": shown_text(figures)})
    print(f"written: {PICTURE.name}")
    return 0


def found_figures(folder: Path) -> list[tuple[str, float, str]]:
    """Return the four numbers of a verdict: their words, the epsilon, the colour."""
    import canarybank
    from canarybank.attack import ATTACKS, CanaryKind

    attacks = canarybank.open_run(folder).results.attacks
    made_up = max(each.ladder.attack.epsilon for each in attacks)
    real = max(each.ladder.attack.epsilon for each in attacks if ATTACKS[each.attack].canary is CanaryKind.REAL)
    claimed = attacks[0].ladder.mechanism.epsilon
    return [
        ("The budget: what the settings allow", claimed, QUIET),
        ("Reached on a made-up person (computed)", made_up, BLUE),
        ("Reached on the most exposed of five\nreal people (computed)", real, BLUE),
        (
            "Certified by a million trials,\nall attacks together, 95% confidence",
            canarybank.gate(folder, claimed).epsilon,
            ORANGE,
        ),
    ]


def shown_text(figures: list[tuple[str, float, str]]) -> str:
    """Return the numbers as they are drawn, which the picture's file holds too, so that a test can read them."""
    return " ".join(f"{value:.3f}" for _, value, _ in figures)


def draw_scheme(axes: Any) -> None:
    """Draw people, the bank with a planted entry, and the noisy sum."""
    from matplotlib.patches import FancyBboxPatch

    axes.set(xlim=(0, 10), ylim=(0, 7))
    axes.axis("off")
    axes.set_title("Can a server find out whether Ada took part?", loc="left", fontweight="bold", fontsize=12)

    def box(x: float, y: float, width: float, height: float, colour: str, **kind: Any) -> None:
        style = "round,pad=0,rounding_size=0.15"
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, **kind))

    for x, words in (
        (1.0, "people's texts vote\nfor the nearest"),
        (4.75, "the bank:\ntexts the server wrote"),
        (8.6, "votes, summed,\nplus noise"),
    ):
        axes.text(x, 6.05, words, ha="center", va="center", color=QUIET, fontsize=9)
    people = (("Ada", 4.4, ORANGE), ("Ben", 2.9, QUIET), ("Chi", 1.4, QUIET))
    places = [4.55 - 0.95 * row for row in range(len(BANK))]
    for name, y, colour in people:
        box(0.35, y, 1.3, 0.75, colour, edgecolor="none")
        axes.text(1.0, y + 0.375, name, ha="center", va="center", color=PAPER, fontweight="bold")
        for row in {"Ada": (1, PROBE), "Ben": (0, 3), "Chi": (3, 4)}[name]:
            end = (3.05, places[row] + 0.35)
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.8 if row == PROBE else 0.9}
            axes.annotate("", end, (1.7, y + 0.375), arrowprops=arrow)
    heights = (0.9, 0.5, 1.1, 1.3, 0.6)
    for row, (text, y) in enumerate(zip(BANK, places, strict=True)):
        is_probe = row == PROBE
        box(3.1, y, 3.3, 0.7, "#fdeee6" if is_probe else "#eef2f7", edgecolor=ORANGE if is_probe else "#c9d2de", lw=1.3)
        axes.text(4.75, y + 0.35, text, ha="center", va="center", fontsize=9, color=ORANGE if is_probe else INK)
        box(7.6, y + 0.1, 1.6 * heights[row], 0.5, ORANGE if is_probe else "#9fb3c8", edgecolor="none")
    axes.annotate(
        "a probe: planted so that\nonly Ada votes for it", (4.75, places[PROBE]), (4.75, 0.3), ha="center", va="center",
        fontsize=9, color=ORANGE, fontweight="bold",
    )  # fmt: skip
    axes.text(
        8.75, 0.3, "is this Ada,\nor only noise?", ha="center", va="center", fontsize=9, color=ORANGE, fontweight="bold"
    )


def draw_figures(axes: Any, figures: list[tuple[str, float, str]]) -> None:
    """Draw the numbers of a verdict as bars, each under its words."""
    axes.set(xlim=(0, 1.25 * max(value for _, value, _ in figures)), ylim=(-0.62, len(figures) - 0.25))
    axes.invert_yaxis()
    axes.axis("off")
    axes.set_title("What an audit found (epsilon)", loc="left", fontweight="bold", fontsize=12)
    for row, (words, value, colour) in enumerate(figures):
        axes.barh(row + 0.2, value, height=0.34, color=colour)
        axes.text(0, row - 0.02, words, va="bottom", fontsize=9.5)
        axes.text(value + 0.03, row + 0.2, f"{value:.3f}", va="center", fontweight="bold", color=colour, fontsize=12)


if __name__ == "__main__":
    sys.exit(main())
