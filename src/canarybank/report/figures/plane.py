"""Draw a map of bank, probes and canary in the plane."""

from typing import Any

from canarybank.report.numbers import percent
from canarybank.report.svg import Canvas, Figure, linear

__all__ = ["map_figure"]

_WIDTH, _HEIGHT, _EDGE, _TOP = 820.0, 500.0, 4.0, 34.0
_ROOM = 0.05


def map_figure(attack: dict[str, Any], key: str) -> Figure:
    """Draw a sample of the bank, the probes and the canary's records on the bank's two principal axes."""
    plane = attack["evidence"]["map"]
    bank, probes, canary = plane["bank"], plane["probes"], plane["canary"]
    title = f"Map of bank, probes and canary in {attack['name']}"
    first, second = (percent(part) for part in plane["explained"])
    alternative = (
        f"{len(bank)} entries of the bank, {len(probes)} probes and {len(canary)} records of the canary on the bank's "
        f"two principal axes, which hold {first} and {second} of the variance of the sample shown."
    )
    canvas = Canvas(key, _WIDTH, _HEIGHT, title, alternative)
    canvas.rect((_EDGE, _TOP), _WIDTH - 2 * _EDGE, _HEIGHT - _TOP - _EDGE, "map-frame", 4)
    place = _places([*bank, *probes, *canary])
    canvas.dots([place(point) for point in bank], "dot-bank")
    for point in probes:
        canvas.circle(place(point), 4.4, "mark-probe")
    canvas.dots([place(point) for point in canary], "dot-canary")
    _legend(canvas, planted=bool(probes))
    return Figure(
        key=key,
        title=title,
        caption=(
            f"The axes are the principal ones of {len(bank)} entries of the bank, drawn by seed, and hold {first} and "
            f"{second} of their variance: near in the plane is not always near in the space where records are routed."
        ),
        alternative=alternative,
        svg=canvas.markup(),
        columns=("what", "first axis", "second axis"),
        rows=tuple(
            (what, f"{point[0]:.3f}", f"{point[1]:.3f}")
            for what, points in (("canary record", canary), ("probe", probes), ("bank entry", bank))
            for point in points
        ),
    )


def _places(points: list[list[float]]) -> Any:
    """Return the map from the plane to the canvas, the same scale on both axes, all points inside."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    width, height = _WIDTH - 2 * _EDGE, _HEIGHT - _TOP - _EDGE
    unit = max((max(xs) - min(xs)) / width, (max(ys) - min(ys)) / height) * (1 + 2 * _ROOM) or 1.0
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    across = linear(-width / 2, width / 2, _EDGE, _WIDTH - _EDGE)
    down = linear(-height / 2, height / 2, _HEIGHT - _EDGE, _TOP)
    return lambda point: (across((point[0] - middle[0]) / unit), down((point[1] - middle[1]) / unit))


def _legend(canvas: Canvas, *, planted: bool) -> None:
    keys = [
        (4.0, lambda at: canvas.dots([(at + 2, 16)], "dot-bank"), "bank entry"),
        (7.0, lambda at: canvas.dots([(at + 3.5, 16)], "dot-canary"), "canary record"),
        (9.0, lambda at: canvas.circle((at + 4.4, 16), 4.4, "mark-probe"), "probe"),
    ]
    canvas.keys(_EDGE + 6, 20, keys if planted else keys[:2])
