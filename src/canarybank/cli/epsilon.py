"""State the exact epsilon of a mechanism."""

from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from canarybank.cli.flags import Given, configured
from canarybank.cli.output import Output, facts, paragraph
from canarybank.cli.whole_numbers import whole_number
from canarybank.errors import MissingError

if TYPE_CHECKING:
    from canarybank.mechanism import Mechanism

__all__ = ["command"]

ASSUMPTION = (
    "each user takes part with probability q, independently in every release; contributions are clipped; the noise is "
    "Gaussian; neighbours add or remove one user"
)
COMPOSED = "privacy loss distribution, discretised upwards, by less than 1e-6 or a millionth of the figure"
CLOSED_FORM = "closed form of one release"
SUMMED = "the rounds' closed forms added up, an upper bound: sigma is below 1e-3"
OPACUS = "Opacus PRVAccountant, eps_error 0.01: the upper end of its band"


@configured(only=("mechanism.sigma", "mechanism.q", "mechanism.delta"))
def command(
    given: Given,
    *,
    rounds: Annotated[int, Parameter(converter=whole_number, help="The releases that are composed.", metavar="N")] = 1,
    opacus: Annotated[
        bool | None, Parameter(help="Whether to ask Opacus too; left out, where it is installed.")
    ] = None,
    output: Output = Output(),  # noqa: B008, a frozen value
) -> None:
    """State the exact epsilon of a mechanism over one or more releases, with the method behind it.

    Where Opacus is installed, its accountant's figure and the slack in it stand beside the exact one.
    """
    from canarybank.flow import mechanism_of
    from canarybank.mechanism import epsilon
    from canarybank.mechanism.accounting import LEAST_SIGMA

    mechanism = mechanism_of(given.config)
    if opacus and find_spec("opacus") is None:
        raise MissingError("--opacus asks Opacus, which is not installed; run: pip install 'canarybank[opacus]'")
    exact = epsilon(mechanism, rounds)
    finite = exact < inf
    document: dict[str, Any] = {
        "epsilon": exact if finite else None,
        "method": CLOSED_FORM if rounds == 1 else COMPOSED if mechanism.sigma >= LEAST_SIGMA else SUMMED,
        "assumption": ASSUMPTION,
        "confidence": 1.0,
        "trials": None,
        "mechanism": {"sigma": mechanism.sigma, "q": mechanism.q, "delta": mechanism.delta},
        "rounds": rounds,
        "closed_form": exact if finite and rounds == 1 else None,
        "opacus": _opacus(mechanism, rounds, exact) if opacus is not False and finite else None,
    }
    output.result("epsilon", document, paragraph(_headline(document), "bold"), facts(_facts(document)))


def _opacus(mechanism: "Mechanism", rounds: int, exact: float) -> dict[str, Any] | None:
    if find_spec("opacus") is None:
        return None
    from canarybank.errors import CanarybankError
    from canarybank.mechanism import prv_epsilon

    try:
        stated = prv_epsilon(mechanism, rounds)
    except CanarybankError as error:
        return {"epsilon": None, "slack": None, "method": OPACUS, "reason": str(error)}
    return {"epsilon": stated, "slack": stated - exact, "method": OPACUS, "reason": None}


def _headline(document: dict[str, Any]) -> str:
    from canarybank.wording import shown_epsilon

    mechanism, rounds = document["mechanism"], document["rounds"]
    over = "one release" if rounds == 1 else f"{rounds:,} releases"
    figure = shown_epsilon(document["epsilon"], 6)
    return (
        f"epsilon {figure} at delta {mechanism['delta']:g} for {over} with sigma {mechanism['sigma']:g} and q "
        f"{mechanism['q']:g}"
    )


def _facts(document: dict[str, Any]) -> dict[str, str]:
    lines = {"method": document["method"], "assumption": ASSUMPTION, "confidence": "computed, not sampled: no trials"}
    if document["opacus"] is not None:
        stated = document["opacus"]
        lines["Opacus"] = stated["reason"] or f"{stated['epsilon']:.6f}, slack {stated['slack']:.6f}; {OPACUS}"
    return lines
