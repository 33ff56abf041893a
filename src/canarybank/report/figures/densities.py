"""Draw the exact density of a score with the canary absent and with it participating."""

from typing import Any

from canarybank.report.numbers import rate
from canarybank.report.svg import Canvas, Figure, Frame, linear

__all__ = ["density_figure"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440.0, 420.0, 54.0, 428.0, 34.0, 370.0


def density_figure(attack: dict[str, Any], q: float, key: str) -> Figure:
    """Draw the two densities and the frozen threshold."""
    dense, roc = attack["evidence"]["densities"], attack["evidence"]["roc"]
    canary = attack["canaries"][attack["shown"]]
    title = f"Score densities of {attack['name']}"
    alternative = (
        f"Density of the score on canary {canary['id']}, absent and participating, whose separation mu_eff is "
        f"{canary['mu_eff']:.3f}. The frozen threshold {dense['threshold']:.3f} is exceeded with probability "
        f"{rate(roc['fpr'][roc['frozen']])} when the canary is absent."
    )
    canvas = Canvas(key, _WIDTH, _HEIGHT, title, alternative)
    scores = dense["score"]
    highest = max(*dense["absent"], *dense["participating"], 1e-12)
    x, y = linear(scores[0], scores[-1], _LEFT, _RIGHT), linear(0.0, highest * 1.08, _BOTTOM, _TOP, count=4)
    Frame(_LEFT, _TOP, _RIGHT, _BOTTOM).axes(canvas, x, y, "score (log-likelihood ratio)", "density")
    for name in ("absent", "participating"):
        points = [(x(score), y(value)) for score, value in zip(scores, dense[name], strict=True)]
        canvas.curve([(_LEFT, _BOTTOM), *points, (_RIGHT, _BOTTOM)], f"area-{name}", closed=True)
        canvas.curve(points, f"curve-{name}")
    _threshold(canvas, x(dense["threshold"]))
    canvas.keys(
        _LEFT + 4,
        18,
        [
            (24, lambda at: canvas.line((at, 14), (at + 24, 14), "curve-absent"), "canary absent"),
            (24, lambda at: canvas.line((at, 14), (at + 24, 14), "curve-participating"), "canary participating"),
        ],
    )
    return Figure(
        key=key,
        title=title,
        caption=(
            f"Exact densities over the evaluation users. An eligible canary participates with probability {q:g}, so "
            f"under the test's second hypothesis only {100 * q:g}% of the mass comes from the second curve."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=("score", "absent", "participating"),
        rows=tuple(
            (f"{s:.4g}", f"{a:.4g}", f"{p:.4g}")
            for s, a, p in zip(scores, dense["absent"], dense["participating"], strict=True)
        ),
    )


def _threshold(canvas: Canvas, at: float) -> None:
    canvas.line((at, _TOP - 4), (at, _BOTTOM), "limit-rule")
    left = at > (_LEFT + _RIGHT) / 2
    canvas.text((at - 6 if left else at + 6, _TOP + 8), "frozen threshold", "key", anchor="end" if left else "start")
