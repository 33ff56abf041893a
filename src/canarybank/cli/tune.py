"""Recommend clip, k, bank size, q and sigma for a budget, from public data."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph, table
from canarybank.cli.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canarybank.flow import Advice
    from canarybank.flow.stand_ins import Assumption, Norms, Option

__all__ = [
    "StandInsFlag",
    "TokenRate",
    "assumption_rows",
    "command",
    "cost_text",
    "norms_text",
    "rounds_text",
    "survival_text",
]

SHOWN = (
    "evolve.population",
    "users.cap",
    "evolve.epsilon",
    "mechanism.delta",
    "evolve.rounds",
    "evolve.share",
    "bank.source",
    "bank.size",
)
SHORT = {
    "evolve.population": "--people",
    "users.cap": "--records",
    "evolve.epsilon": "--epsilon",
    "mechanism.delta": "--delta",
    "evolve.rounds": "--rounds",
}
MINUTE, HOUR = 60.0, 3600.0
HEADERS = ("", "bank", "k", "clip", "q", "sigma", "survival", "by chance", "people a round", "tokens", "time")

StandInsFlag = Annotated[
    str,
    Parameter(
        name="--stand-ins",
        help="Public people who stand in for yours: chitchat (built in), or a file that is read as users.* says.",
        metavar="FILE",
    ),
]
TokenRate = Annotated[
    float | None,
    Parameter(
        name="--tokens-per-second",
        help="How fast your generator writes, where you know it.",
        metavar="X",
        validator=validators.Number(gt=0),
    ),
]


@configured(shown=SHOWN, short=SHORT)
def command(
    given: Given,
    *,
    stand_ins: StandInsFlag = "chitchat",
    survival: Annotated[
        float,
        Parameter(
            help="The share of the true top that should survive; the largest bank that reaches it is recommended.",
            metavar="X",
            validator=validators.Number(gt=0, lte=1),
        ),
    ] = 0.7,
    participation: Annotated[
        tuple[float, ...],
        Parameter(
            name="--q",
            consume_multiple=True,
            negative="",
            show_default=False,
            help="A value of mechanism.q to try, or several; left out, 0.05 to 1.",
            metavar="X",
            validator=validators.Number(gt=0, lte=1),
        ),
    ] = (),
    k: Annotated[
        tuple[int, ...],
        Parameter(
            name="--k",
            converter=whole_numbers,
            consume_multiple=True,
            negative="",
            show_default=False,
            help="A value of mechanism.k to try, or several; left out, 1 to 8.",
            metavar="N",
            validator=validators.Number(gte=1),
        ),
    ] = (),
    tokens_per_second: TokenRate = None,
    measure: Annotated[
        bool, Parameter(negative="", show_default=False, help="Ask the generator for a few public texts, to time it.")
    ] = False,
    toml: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print only the part of a configuration to paste.")
    ] = False,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """Recommend clip, k, bank size, q and sigma for a number of people and a privacy budget.

    The advice comes from what you declare and from public people who stand in for yours: your users are never opened.
    It says which share of the entries that people really want would stay in spite of the noise, what a run costs, and
    what each figure rests on. For example: `canarybank tune --people 4000 --records 32 --epsilon 2 --rounds 6`.
    """
    from canarybank.flow import Tried, tune

    usual = Tried()
    made = tune(
        given.resolved,
        Tried(ks=k or usual.ks, qs=participation or usual.qs, goal=survival),
        stand_ins=stand_ins,
        tokens_per_second=tokens_per_second,
        measure=measure,
        progress=output.progress,
    )
    if toml:
        output.result("tune", made.model_dump(mode="json"), paragraph(made.toml))
        return
    output.result(
        "tune",
        made.model_dump(mode="json"),
        paragraph(_headline(made), "bold"),
        table(HEADERS, _rows(made)),
        facts(_facts(made)),
        table(["assumption", "where it comes from"], assumption_rows(made.assumptions), text=2),
        paragraph("To paste into a configuration file:\n", "bold"),
        paragraph(made.toml),
    )


def _headline(made: "Advice") -> str:
    best = made.recommended
    return (
        f"For {made.people:,} people with {made.records:,} records each, and epsilon {made.budget:g} at delta "
        f"{made.delta:g} over {rounds_text(made.rounds)}: a bank of {best.bank:,}, k {best.k}, clip {best.clip:g}, q "
        f"{best.q:g}, sigma {best.sigma:g}. About {survival_text(best, made.tested_error)}."
    )


def _rows(made: "Advice") -> "Iterable[list[str]]":
    groups = (
        ("recommended", (made.recommended,)),
        ("as configured", (made.configured,)),
        ("by bank size", made.by_bank),
        ("by k", made.by_k),
        ("by q", made.by_q),
    )
    for name, options in groups:
        for place, option in enumerate(options):
            yield ["" if place else name, *_cells(option)]


def _cells(option: "Option") -> list[str]:
    return [
        f"{option.bank:,}",
        f"{option.k}",
        f"{option.clip:.3g}",
        f"{option.q:g}",
        f"{option.sigma:.4g}",
        f"{option.survival:.0%}",
        f"{option.chance:.0%}",
        f"{option.voters:,.0f}",
        f"{option.tokens:,}",
        _time(option),
    ]


def _facts(made: "Advice") -> dict[str, str]:
    best = made.recommended
    lines = {
        "epsilon": f"{made.epsilon:.4f} at delta {made.delta:g} for all rounds, computed",
        "survival": f"{best.survival:.0%}: {made.tested}",
        "norms": norms_text(made.norms, best),
        "cost": cost_text(best),
        "choice": f"the largest bank with a survival of {made.goal:.0%} or more; settings within 2 points count as "
        "equal, and then fewer people a round and a smaller k win; of each, the clip that is best for the keeper top",
    }
    return lines | ({"notes": " ".join(made.notes)} if made.notes else {})


def rounds_text(count: int) -> str:
    """Return a number of rounds in words."""
    return "one round" if count == 1 else f"{count:,} rounds"


def survival_text(option: "Option", tested_error: float | None) -> str:
    """Say which share of the true top would stay, of which keeper that is, and how far off it may be."""
    error = "error not tested at this size" if tested_error is None else f"error up to {tested_error:g} in tests of top"
    return (
        f"{option.survival:.0%} of the true top {option.top:,} would stay in the first round, {option.chance:.0%} by "
        f"chance (predicted for the keeper {option.keeper}; {error})"
    )


def norms_text(norms: "Norms", option: "Option") -> str:
    """Say how large people's votes are before they are clipped, and whom an option's clip scales down."""
    return (
        f"of people's votes: 5% up to {norms.low:.3g}, half up to {norms.median:.3g}, 95% up to {norms.high:.3g}, the "
        f"largest {norms.largest:.3g}; the clip scales {option.clipped:.0%} of people down"
    )


def cost_text(option: "Option") -> str:
    """Say what an option costs over all rounds."""
    money = "" if option.cost is None else f", {option.cost:,.2f} at your prices"
    known = option.generating_seconds
    speed = "its time is not known, give --tokens-per-second" if known is None else f"about {_duration(known)}"
    more = ""
    if option.most_requests > option.requests:
        most_money = "" if option.most_cost is None else f", {option.most_cost:,.2f}"
        more = (
            f" (where the keeper keeps a single candidate in every round: {option.most_requests:,} requests, "
            f"{option.most_tokens:,} tokens{most_money})"
        )
    return (
        f"about {option.requests:,} requests to the generator with {option.tokens:,} tokens{money}, if answers have "
        f"full length{more}: {speed}; encoding and routing: about {_duration(option.voting_seconds)} here"
    )


def _time(option: "Option") -> str:
    """Return the time of an option: all of it, or where the generator's is not known, what comes on top of that."""
    if option.generating_seconds is None:
        return f"{_duration(option.voting_seconds)} + generator"
    return _duration(option.voting_seconds + option.generating_seconds)


def assumption_rows(assumptions: "Iterable[Assumption]") -> list[list[str]]:
    """Return assumptions as the rows of a table."""
    return [[each.what, each.source] for each in assumptions]


def _duration(seconds: float) -> str:
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:,.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:,.1f} h"
