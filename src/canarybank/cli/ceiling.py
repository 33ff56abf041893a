"""State what a perfect attack certifies with so many trials."""

from math import inf
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph

if TYPE_CHECKING:
    from canarybank.auditing import Ceiling

__all__ = ["command"]

ASSUMPTION = (
    "a perfect attack: the score sees the canary's whole contribution where nobody else votes; best threshold for so "
    "many trials, known beforehand"
)


@configured(
    only=(
        "mechanism.sigma",
        "mechanism.q",
        "mechanism.delta",
        "audit.trials",
        "audit.alpha",
        "audit.method",
        "cohorts.canaries",
    )
)
def command(
    given: Given,
    *,
    share: Annotated[
        float,
        Parameter(
            help="The share of the exact epsilon to count trials for.",
            metavar="X",
            validator=validators.Number(gt=0, lt=1),
        ),
    ] = 0.9,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """State the bound that a perfect attack shows with so many trials, and the trials that a share of epsilon needs.

    No attack on one release does better. It is a typical value, not a maximum: the bound falls above its median half
    of the time.
    """
    from canarybank.auditing import ceiling, trials_needed
    from canarybank.flow import mechanism_of, settings_of

    mechanism, settings, canaries = mechanism_of(given.config), settings_of(given.config), given.config.cohorts.canaries
    alpha = settings.share(canaries)
    law = ceiling(mechanism, settings.trials, method=settings.method, alpha=alpha, canaries=canaries)
    # No number of trials shows a share of an exact epsilon that is infinite, as at delta 0, or 0.
    has_end = law.exact < inf
    goal: dict[str, Any] = {"method": settings.method, "alpha": alpha, "canaries": canaries}
    needed = trials_needed(mechanism, share * law.exact, **goal) if 0 < law.exact < inf else None
    document: dict[str, Any] = {
        "median": law.median,
        "q05": law.q05,
        "q95": law.q95,
        "expected": law.expected,
        "rule": law.rule if law.rule < inf else None,
        "exact": law.exact if has_end else None,
        "threshold": law.threshold,
        "method": str(law.method),
        "assumption": ASSUMPTION,
        "confidence": 1 - settings.alpha,
        "alpha_each": alpha,
        "trials": settings.trials,
        "canaries": canaries,
        "mechanism": {"sigma": mechanism.sigma, "q": mechanism.q, "delta": mechanism.delta},
        "share": share,
        "trials_needed": needed,
    }
    output.result("ceiling", document, paragraph(_headline(law), "bold"), facts(_facts(document)))


def _headline(law: "Ceiling") -> str:
    return (
        f"A perfect attack shows epsilon {law.median:.3f} (median; 5% to 95%: {law.q05:.3f} to {law.q95:.3f}) of the "
        f"exact {f'{law.exact:.4f}' if law.exact < inf else 'epsilon, which is infinite'}"
    )


def _facts(document: dict[str, Any]) -> dict[str, str]:
    mechanism, canaries = document["mechanism"], document["canaries"]
    over = "one canary" if canaries == 1 else f"each of {canaries} canaries"
    level, needed = _percent(document["confidence"]), document["trials_needed"]
    lines = {
        "trials": f"{document['trials']:,} of each hypothesis of {over}",
        "method": f"{document['method']}, {level} confidence, alpha {document['alpha_each']:g} a bound",
        "mechanism": f"sigma {mechanism['sigma']:g}, q {mechanism['q']:g}, delta {mechanism['delta']:g}; one release",
        "assumption": ASSUMPTION,
        "at its rule": f"endless trials at this threshold would show {_shown(document['rule'])}",
    }
    if needed is not None:
        goal = f"{_percent(document['share'])} of the exact epsilon, {document['share'] * document['exact']:.3f}"
        lines["to show more"] = f"{goal}, needs {needed:,} trials of each hypothesis of {over}"
    return lines


def _shown(epsilon: float | None) -> str:
    return "an infinite epsilon" if epsilon is None else f"{epsilon:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:g}%"
