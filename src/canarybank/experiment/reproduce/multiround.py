"""Make the multi-round figure: MAUVE, theory, exact and observed epsilon after each release."""

from dataclasses import replace
from typing import Any, Final

from canarybank.audit import Target, find_method
from canarybank.audit.spread import frozen_spread
from canarybank.errors import ConfigError
from canarybank.experiment.admitted import admit_users
from canarybank.experiment.evolution import run_evolution
from canarybank.experiment.evolution_results import EvolutionResults, MultiRoundRecord, PrefixRecord, UtilityRecord
from canarybank.experiment.origins import Resolved
from canarybank.experiment.presets import PRESETS
from canarybank.experiment.reproduce.piece import Cell, Piece, Span
from canarybank.experiment.reproduce.published import ROUND_THEORY, UNPUBLISHED
from canarybank.experiment.reproduce.recipe import Order, arm_a, encoder_notes, trial_notes
from canarybank.experiment.variants import filled

__all__ = ["PAPER_ROUNDS", "multiround"]

_PRESET: Final = PRESETS["paper-rounds"]
PAPER_ROUNDS: Final[dict[str, Any]] = {
    "mechanism.sigma": _PRESET["mechanism"]["sigma"],
    "cohorts.canaries": _PRESET["cohorts"]["canaries"],
    **{f"{part}.{key}": value for part in ("evolve", "audit") for key, value in _PRESET[part].items()},
}
"""The paper's parameters of several releases; it names neither its attack nor its number of canaries."""
ELIGIBLE: Final[int] = _PRESET["cohorts"]["evaluation"]
_SMALL: Final[dict[str, Any]] = {"evolve.rounds": 2, "audit.trials": 50_000}
_COHORT, _REFERENCE, _REFERENCE_SHARE = 500, 500, 10


def multiround(order: Order) -> Piece:
    """Make the multi-round figure by one evolution, simulated and audited on the banks that it realises."""
    resolved = _settings(order)
    if resolved.config.generator.kind == "none":
        raise ConfigError(
            "The multi-round figure needs a generator, for every round asks it for new candidates; set "
            "--generator.kind, such as smollm2."
        )
    run = run_evolution(resolved, order.folder / "multiround", progress=order.progress, command=order.command)
    results, audit = run.results, run.results.audit
    if audit is None:
        raise ConfigError("The multi-round figure needs an audit; leave evolve.audit as it is, or name an attack.")
    return Piece(
        name="multiround",
        title="Multi-round figure: utility and privacy against the number of releases",
        about="Mixture scores are summed over independent releases, one over each bank of this run, held fixed. The "
        "paper's theory stands "
        f"beside the exact one; its MAUVE and audit values are {UNPUBLISHED}. Bands hold 90% of the bounds that such "
        "trials would give.",
        shape="rounds",
        coordinates=("rounds",),
        unpublished=True,
        cells=tuple(_cell(prefix, audit, results) for prefix in audit.prefixes),
        setup=_facts(results, audit, resolved),
        notes=(*_notes(results, audit), *audit.notes, *results.notes),
        runs=("multiround",),
    )


def _settings(order: Order) -> Resolved:
    own = PAPER_ROUNDS | ({} if order.rounds is None else {"evolve.rounds": order.rounds})
    if order.is_small:
        own |= _SMALL
    resolved = filled(order.resolved, own, "multiround")
    base = arm_a(replace(order, resolved=resolved))
    return filled(base, _cohorts(base, order), "multiround")


def _cohorts(base: Resolved, order: Order) -> dict[str, Any]:
    """Share the users out: a reference for utility, the paper's cohorts, and up to 8,000 eligible ones."""
    config = base.config
    users = len(admit_users(config.users, config.cohorts, order.cache, order.progress).users)
    given = (config.cohorts.auxiliary, config.cohorts.calibration, config.cohorts.evaluation)
    free = users - config.cohorts.canaries - sum(size or 0 for size in given)
    reference = max(0, min(_REFERENCE, users // _REFERENCE_SHARE, free))
    left = users - reference - config.cohorts.canaries
    cohort = config.cohorts.auxiliary or min(_COHORT, left // 4)
    return {
        "evolve.reference": reference,
        "cohorts.auxiliary": cohort,
        "cohorts.calibration": cohort,
        "cohorts.evaluation": min(ELIGIBLE, left - 2 * cohort),
    }


def _cell(prefix: PrefixRecord, audit: MultiRoundRecord, results: EvolutionResults) -> Cell:
    mechanism, worth = results.mechanism, _mauve(results, prefix.rounds)
    paper = _is_paper(results) and prefix.rounds <= len(ROUND_THEORY)
    return Cell(
        at={"rounds": prefix.rounds},
        observed=prefix.bound.epsilon,
        exact=prefix.exact,
        rule=prefix.rule.lower,
        expected=prefix.expected,
        likely=Span(low=prefix.expected_low, high=prefix.expected_high),
        explained=_explained(prefix, audit, mechanism.delta),
        mechanism=prefix.theory,
        accounted=ROUND_THEORY[prefix.rounds - 1] if paper else prefix.accounted,
        method=audit.method,
        confidence=prefix.bound.confidence,
        trials=audit.trials,
        canaries=1,
        threshold=prefix.threshold.mode,
        delta=mechanism.delta,
        more={"theory": prefix.theory, **worth, **({"paper theory": ROUND_THEORY[prefix.rounds - 1]} if paper else {})},
    )


def _explained(prefix: PrefixRecord, audit: MultiRoundRecord, delta: float) -> Span:
    """Return where sampling alone puts a prefix's bound, its threshold being the frozen one."""
    rates = [
        0.5 * (float(each.lower or 0) + float(each.upper or 0)) for each in (prefix.eligible_rate, prefix.absent_rate)
    ]
    target = Target(audit.trials, delta, 1 - prefix.bound.confidence, find_method(audit.method))
    interval = frozen_spread([(rates[0], rates[1])], target)
    return Span(low=interval.lower, high=interval.upper)


def _mauve(results: EvolutionResults, rounds: int) -> dict[str, float]:
    figures = () if results.utility is None else results.utility.figures
    found = [each.mauve for each in figures if each.after == rounds and each.mauve is not None]
    return {"mauve": found[0]} if found else {}


def _is_paper(results: EvolutionResults) -> bool:
    mechanism = results.mechanism
    return (mechanism.sigma, mechanism.q, mechanism.delta) == (PAPER_ROUNDS["mechanism.sigma"], 0.1, 1e-5)


def _facts(results: EvolutionResults, audit: MultiRoundRecord, resolved: Resolved) -> dict[str, str]:
    mechanism, first = results.mechanism, results.rounds[0]
    return {
        "users": f"{audit.eligible:,} eligible (N), {resolved.config.cohorts.auxiliary or 0:,} auxiliary",
        "bank": f"{first.entries:,} entries, {first.probes} probes, {first.kept:,} kept after each round",
        "attack": f"{audit.attack}, one canary, method {audit.method}, alpha {audit.alpha:g} for each prefix",
        "encoder": results.encoder,
        "generator": results.generator,
        "mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}, "
        f"delta {mechanism.delta:g}",
        "trials": f"{audit.trials:,} of each hypothesis",
    }


def _notes(results: EvolutionResults, audit: MultiRoundRecord) -> tuple[str, ...]:
    notes = []
    if audit.eligible != ELIGIBLE:
        notes.append(f"N is {audit.eligible:,} eligible users; the paper has {ELIGIBLE:,}.")
    if results.rounds[0].entries != 8192:  # noqa: PLR2004, the paper's bank
        notes.append(f"The bank has {results.rounds[0].entries:,} entries; the paper's has 8,192.")
    if len(results.rounds) != len(ROUND_THEORY):
        notes.append(f"There are {len(results.rounds)} releases; the paper has {len(ROUND_THEORY)}.")
    notes += [*trial_notes(audit.trials, PAPER_ROUNDS["audit.trials"]), *encoder_notes(results.encoder)]
    if results.utility is not None:
        notes.append(_worth(results.utility))
    return tuple(notes)


def _worth(utility: UtilityRecord) -> str:
    """Say where utility began, and where nearness to the held-out texts and variety went."""
    first, *_, last = utility.figures
    start = "" if first.mauve is None else f"MAUVE was {first.mauve:.3f} before any release. "
    return (
        f"{start}From the first population to the last, precision (candidates that lie among held-out texts) went from "
        f"{first.precision:.3f} to {last.precision:.3f}, and recall (held-out texts that lie among candidates) from "
        f"{first.recall:.3f} to {last.recall:.3f}."
    )
