"""Say what to do after a verdict: what would certify more, what would make the budget smaller, and which defences help.

Each step is a sentence or two: what to change, to which value, and what that does. Figures are computed from the run's
own mechanism and strongest attack.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from scipy.optimize import brentq

from canarybank.auditing import trials_needed
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, one_round_epsilon
from canarybank.report.text import epsilon
from canarybank.report.verdicts import Tone
from canarybank.run.gating import GateOutcome
from canarybank.run.results import Results
from canarybank.run.verification import declared

__all__ = ["audit_steps", "halving_sigma", "one_run_steps", "system_steps", "trials_to_certify"]

GOAL = 0.9
"""The share of what an attack reaches that more trials should certify."""
_PRECISION = 0.02
"""The trials that are advised may be this share too many: they are shown with two digits."""
_MOST_NOISE = 1e3
_DEPLOYED = "Do not deploy under this claim."


def audit_steps(results: Results, outcome: GateOutcome, tone: Tone) -> Iterator[str]:
    """Return what to do after the audit of a mechanism, the most urgent first."""
    mechanism = results.mechanism
    if tone is Tone.REFUTED:
        yield _state_or_mend(outcome)
    if (needed := _more_trials(results, outcome)) is not None:
        yield needed
    if mechanism.q < 1 and math.isfinite(results.epsilon) and (sigma := halving_sigma(mechanism)) is not None:
        yield (
            f"To halve the budget of a release to epsilon {epsilon(one_round_epsilon(mechanism) / 2)}, raise "
            f"mechanism.sigma from {mechanism.sigma:g} to {sigma:.3g}. With mechanism.clip lowered from "
            f"{mechanism.clip:g} to {mechanism.clip * mechanism.sigma / sigma:.3g} beside it, the noise on an entry "
            "stays what it is. Either costs text quality: canarybank tune says how much."
        )
    if mechanism.share == 1:
        yield (
            "To leave less of the budget to a server that shapes the bank, let each client vote within a secret part "
            "of it (mechanism.share = 0.25). The formal epsilon stays; what the known attacks reach falls."
        )
    if any(attack.plants for attack in results.final):
        yield (
            "To keep planted entries out, check every bank before the vote: canarybank vet BANK, or bank.vet in the "
            "configuration."
        )


def _state_or_mend(outcome: GateOutcome) -> str:
    """Say what to do about a claim that fails: state more, or look for the fault where trials show it."""
    if any(cause.kind == "trials" for cause in outcome.causes) or outcome.ok:
        return (
            f"{_DEPLOYED} Something spends more than was accounted for: compare clip, noise and sampling of the "
            "system with its accountant. canarybank zoo shows what such faults look like."
        )
    most = max([each.epsilon for each in outcome.causes if each.epsilon is not None], default=math.inf)
    return f"{_DEPLOYED} State at least epsilon {epsilon(most)}, or add noise until the claim holds."


def _more_trials(results: Results, outcome: GateOutcome) -> str | None:
    """Say how many trials would certify most of what the strongest attack reaches; None where that is not known."""
    if results.rounds > 1 or not math.isfinite(results.epsilon) or outcome.frozen_power is None:
        return None
    strongest = max((canary.mu_eff, len(attack.canaries)) for attack in results.final for canary in attack.canaries)
    settings, (separation, canaries) = declared(results), strongest
    share = replace(settings, alpha=settings.alpha / len(results.final)).share(canaries)
    needed = trials_to_certify(results.mechanism, separation, str(settings.method), share, canaries)
    if needed is None or needed <= outcome.trials:
        return None
    return (
        f"To certify {GOAL:.0%} of what the strongest attack reaches, play about {_rounded(needed):,} trials instead "
        f"of {outcome.trials:,} (audit.trials, as a new run). That makes the proof stronger; the risk is the same."
    )


@lru_cache(maxsize=64)
def trials_to_certify(
    mechanism: Mechanism, separation: float, method: str, alpha: float, canaries: int, share: float = GOAL
) -> int | None:
    """Return how many trials of each hypothesis typically certify a share of what an attack reaches in one release.

    Args:
        mechanism: The mechanism of the release.
        separation: The attack's mu_eff; an attack with 1/sigma is perfect. Its background is taken as Gaussian.
        method: The method of the bound.
        alpha: The share of alpha that each canary has.
        canaries: The canaries of the attack.
        share: The share of the attack's exact epsilon that the expected bound should reach.

    Returns:
        Trials, at most two percent too many; None where no number of trials is enough.
    """
    if separation <= 0:
        return None
    attack = replace(mechanism, sigma=max(1 / separation, mechanism.sigma))
    with suppress(InputError):
        return trials_needed(
            attack,
            share * one_round_epsilon(attack),
            method=method,
            alpha=alpha,
            canaries=canaries,
            precision=_PRECISION,
        )
    return None


def _rounded(number: int) -> int:
    """Return a number rounded up to two significant digits."""
    step = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // step) * step


def halving_sigma(mechanism: Mechanism) -> float | None:
    """Return the noise multiplier that halves the exact epsilon of one release; None where there is no such number."""
    half = one_round_epsilon(mechanism) / 2

    def above(sigma: float) -> float:
        return one_round_epsilon(replace(mechanism, sigma=sigma)) - half

    if not 0 < half < math.inf or above(most := _MOST_NOISE * mechanism.sigma) > 0:
        return None
    return float(brentq(above, mechanism.sigma, most, xtol=1e-4 * mechanism.sigma))


def system_steps(tone: Tone, *, dependent: bool) -> Iterator[str]:
    """Return what to do after the audit of somebody else's system."""
    if dependent:
        yield (
            "Make the runs independent: draw new noise and new participants in every run, and do not fix a seed. Then "
            "design and run the audit again."
        )
    elif tone is Tone.REFUTED:
        yield (
            f"{_DEPLOYED} Compare clip, noise and sampling of the system with what its accountant assumes; canarybank "
            "zoo shows what such faults look like. Audit again after the change, as a new design."
        )
    elif tone is Tone.UNTESTED:
        yield (
            "Declare more runs: so few cannot refute this claim, whatever the system does. canarybank design takes "
            "audit.trials and says what they could show."
        )
    else:
        yield (
            "A claim that stands is not proved. More runs and stronger canaries would show smaller violations: the "
            "table of assumptions and power says which ones these runs would have shown."
        )


def one_run_steps(tone: Tone) -> Iterator[str]:
    """Return what to do after one run was judged by its own canaries."""
    if tone is Tone.REFUTED:
        yield (
            f"{_DEPLOYED} Compare clip, noise and sampling of the system with what its accountant assumes, and do not "
            "spend more of the population's budget before the cause is known."
        )
    else:
        yield (
            "To show more in one run, plant more canaries (one_run.share); to show much more, audit the mechanism by "
            "simulated trials: canarybank audit."
        )
