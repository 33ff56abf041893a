"""Draw where the canary's votes went, and how much traffic those entries get from others."""

from typing import Any

from canarybank.report.numbers import percent
from canarybank.report.svg import Canvas, Figure, Frame, linear, shortened
from canarybank.report.text import clean

__all__ = ["vote_figure"]

_ROW, _TOP, _LEFT, _RIGHT, _WIDTH = 34.0, 34.0, 330.0, 780.0, 820.0
_WORDS = 42


def vote_figure(attack: dict[str, Any], key: str) -> Figure:
    """Draw two bars an entry: the canary's share of votes, and the mean share of the auxiliary users."""
    votes = attack["evidence"]["votes"]
    entries = votes["entries"]
    title = f"Votes of the canary in {attack['name']}"
    alternative = _alternative(attack, votes)
    bottom = _TOP + _ROW * max(len(entries), 1)
    canvas = Canvas(key, _WIDTH, bottom + 44, title, alternative)
    highest = max((max(entry["share"], entry["traffic"]) for entry in entries), default=0.0) or 1.0
    x = linear(0.0, 100 * highest * 1.12, _LEFT, _RIGHT)
    Frame(_LEFT, _TOP, _RIGHT, bottom).axes(canvas, x, None, "% of one user's votes")
    for index, entry in enumerate(entries):
        _entry(canvas, x, entry, _TOP + _ROW * index)
    canvas.keys(
        _LEFT + 4,
        17,
        [
            (18, lambda at: canvas.rect((at, 8), 18, 10, "bar-canary"), "the canary"),
            (18, lambda at: canvas.rect((at, 8), 18, 10, "bar-others"), "auxiliary users, on average"),
        ],
    )
    return Figure(
        key=key,
        title=title,
        caption=(
            f"The {len(entries)} inspected entries with most of the canary's votes, of {votes['inspected']} inspected. "
            f"All inspected entries hold {percent(votes['share'])} of the canary's votes and on average "
            f"{percent(votes['traffic'])} of an auxiliary user's: a quiet place is what an attacker looks for."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=("position", "canary's share", "traffic", "voters", "text"),
        rows=tuple(
            (e["position"], percent(e["share"]), percent(e["traffic"]), percent(e["voters"]), e["text"] or "—")
            for e in entries
        ),
    )


def _entry(canvas: Canvas, x: Any, entry: dict[str, Any], top: float) -> None:
    middle = top + _ROW / 2
    text = f"#{entry['position']}" + (f"  {clean(entry['text'], _WORDS)}" if entry["text"] else "")
    canvas.text((_LEFT - 12, middle + 4), shortened(text, _LEFT - 12, "entry-name"), "entry-name", anchor="end")
    for name, css, y in (("share", "bar-canary", middle - 11), ("traffic", "bar-others", middle + 1)):
        width = x(100 * entry[name]) - _LEFT
        canvas.rect((_LEFT, y), max(width, 0.8), 10, css)
        canvas.text((_LEFT + max(width, 0.8) + 6, y + 9), percent(entry[name]), "small")


def _alternative(attack: dict[str, Any], votes: dict[str, Any]) -> str:
    return (
        f"The canary gives {percent(votes['share'])} of its votes to the {votes['inspected']} inspected entries, and "
        f"votes for {votes['voted']} of them; the {votes['auxiliary']} auxiliary users give them "
        f"{percent(votes['traffic'])} on average. Shown are the {len(votes['entries'])} entries of {attack['name']} "
        "with most of the canary's votes."
    )
