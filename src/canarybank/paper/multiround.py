"""Make the multi-round figure: MAUVE, theory, exact and observed epsilon after each release."""

from dataclasses import replace
from typing import Any, Final

from canarybank.audit import Method, Target
from canarybank.audit.spread import frozen_spread
from canarybank.errors import ConfigError
from canarybank.experiment.admitted import admit_users
from canarybank.experiment.config import CohortsConfig
from canarybank.experiment.evolution import run_evolution
from canarybank.experiment.evolution_results import EvolutionResults, MultiRoundRecord, PrefixRecord
from canarybank.experiment.origins import Resolved
from canarybank.experiment.presets import PRESETS
from canarybank.experiment.variants import filled
from canarybank.paper.piece import Cell, Piece, Span
from canarybank.paper.published import ROUND_THEORY, UNPUBLISHED
from canarybank.paper.runs import bank_note, encoder_note, trials_note, true_notes, true_rates
from canarybank.paper.settings import Order, arm_a, preset_values

__all__ = ["PAPER_ROUNDS", "cohort_shares", "multiround", "prefix_cell"]

PAPER_ROUNDS: Final[dict[str, Any]] = {
    "mechanism.sigma": PRESETS["paper-rounds"]["mechanism"]["sigma"],
    "cohorts.canaries": PRESETS["paper-rounds"]["cohorts"]["canaries"],
    **preset_values("paper-rounds", "evolve", "audit"),
}
"""The paper's parameters of several releases; it names neither its attack nor its number of canaries."""
_ELIGIBLE: Final[int] = PRESETS["paper-rounds"]["cohorts"]["evaluation"]


def multiround(order: Order) -> Piece:
    """Make the multi-round figure by one evolution, simulated and audited on the banks that it realises."""
    if order.resolved.config.generator.kind == "none":
        raise ConfigError(
            "The multi-round figure needs a generator, for every round asks it for new candidates; set "
            "--generator.kind, such as smollm2."
        )
    own = PAPER_ROUNDS | ({} if order.rounds is None else {"evolve.rounds": order.rounds})
    if order.small:
        own |= {"evolve.rounds": 2, "audit.trials": 50_000}
    resolved = arm_a(replace(order, resolved=filled(order.resolved, own, "multiround")))
    config = resolved.config
    users = len(admit_users(config.users, config.cohorts, order.cache, order.progress).users)
    resolved = filled(resolved, cohort_shares(config.cohorts, users), "multiround")
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
        cells=tuple(prefix_cell(prefix, audit, results) for prefix in audit.prefixes),
        setup=_facts(results, audit, resolved),
        notes=(*_notes(results, audit), *audit.notes, *results.notes),
        runs=("multiround",),
    )


def cohort_shares(config: CohortsConfig, users: int) -> dict[str, int]:
    """Share so many users out: a reference for utility, the paper's cohorts, and up to 8,000 eligible ones."""
    given = (config.canaries, config.auxiliary, config.calibration, config.evaluation)
    reference = max(0, min(500, users // 10, users - sum(size or 0 for size in given)))
    left = users - reference - config.canaries
    cohort = config.auxiliary or min(500, left // 4)
    return {
        "evolve.reference": reference,
        "cohorts.auxiliary": cohort,
        "cohorts.calibration": cohort,
        "cohorts.evaluation": min(_ELIGIBLE, left - 2 * cohort),
    }


def prefix_cell(prefix: PrefixRecord, audit: MultiRoundRecord, results: EvolutionResults) -> Cell:
    """Return the cell of the first releases of an audited evolution."""
    mechanism, more = results.mechanism, {"theory": prefix.theory}
    for each in () if results.utility is None else results.utility.figures:
        if each.after == prefix.rounds and each.mauve is not None:
            more["mauve"] = each.mauve
    is_paper = (mechanism.sigma, mechanism.q, mechanism.delta) == (PAPER_ROUNDS["mechanism.sigma"], 0.1, 1e-5)
    if is_paper and prefix.rounds <= len(ROUND_THEORY):
        more["paper theory"] = ROUND_THEORY[prefix.rounds - 1]
    explained = None
    if audit.method != Method.STRATIFIED:
        target = Target(audit.trials, mechanism.delta, 1 - prefix.bound.confidence, Method(audit.method))
        interval = frozen_spread([true_rates(prefix)], target)
        explained = Span(low=interval.lower, high=interval.upper)
    return Cell(
        at={"rounds": prefix.rounds},
        observed=prefix.bound.epsilon,
        exact=prefix.exact,
        rule=prefix.rule.lower,
        expected=prefix.expected,
        likely=Span(low=prefix.expected_low, high=prefix.expected_high),
        explained=explained,
        mechanism=prefix.theory,
        accounted=more.get("paper theory", prefix.accounted),
        method=audit.method,
        confidence=prefix.bound.confidence,
        trials=audit.trials,
        canaries=1,
        threshold=prefix.threshold.mode,
        delta=mechanism.delta,
        more=more,
    )


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


def _notes(results: EvolutionResults, audit: MultiRoundRecord) -> list[str]:
    """Say what differs from the paper, where utility began, and where precision and recall went."""
    releases, paper = len(results.rounds), len(ROUND_THEORY)
    notes = true_notes(
        (audit.eligible != _ELIGIBLE, f"N is {audit.eligible:,} eligible users; the paper has {_ELIGIBLE:,}."),
        bank_note(results.rounds[0].entries),
        (releases != paper, f"There are {releases} releases; the paper has {paper}."),
        trials_note(audit.trials, PAPER_ROUNDS["audit.trials"]),
        encoder_note(results.encoder),
    )
    if results.utility is not None:
        first, *_, last = results.utility.figures
        start = "" if first.mauve is None else f"MAUVE was {first.mauve:.3f} before any release. "
        notes.append(
            f"{start}From the first population to the last, precision (candidates that lie among held-out texts) went "
            f"from {first.precision:.3f} to {last.precision:.3f}, and recall (held-out texts that lie among "
            f"candidates) from {first.recall:.3f} to {last.recall:.3f}."
        )
    return notes
