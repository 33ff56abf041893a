"""Make the multi-round figure: MAUVE, theory, exact and observed epsilon after each release."""

from dataclasses import replace
from typing import Any, Final

from canarybank.auditing import AttackResult, Target, find_method
from canarybank.auditing.spread import frozen_spread
from canarybank.config.loading import Resolved, filled
from canarybank.config.model import CohortsConfig
from canarybank.config.presets import PRESETS
from canarybank.errors import ConfigError
from canarybank.flow.evolution import run_evolution
from canarybank.flow.users import admit_users
from canarybank.paper.piece import Cell, Piece, Span
from canarybank.paper.published import ROUND_THEORY, UNPUBLISHED
from canarybank.paper.runs import bank_note, encoder_note, forecast, trials_note, true_notes, true_rates
from canarybank.paper.settings import Order, arm_a, preset_values
from canarybank.run.results import EvolutionFacts, Results

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
    results, evolution = run.results, run.results.evolution
    if evolution is None or not results.attacks:
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
        cells=tuple(prefix_cell(each, results) for each in results.attacks if each.attack == results.attacks[0].attack),
        setup=_facts(results, evolution, resolved),
        notes=(*_notes(results, evolution), *results.notes),
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


def prefix_cell(shown: AttackResult, results: Results) -> Cell:
    """Return the cell of the first releases of an audited evolution."""
    mechanism, ladder, rounds = results.mechanism, shown.ladder, shown.rounds
    canary = shown.canaries[shown.headline_canary]
    more = {"theory": ladder.mechanism.epsilon}
    utility = None if results.evolution is None else results.evolution.utility
    for each in () if utility is None else utility.figures:
        if each.round == rounds and each.mauve is not None:
            more["mauve"] = each.mauve
    is_paper = (mechanism.sigma, mechanism.q, mechanism.delta) == (PAPER_ROUNDS["mechanism.sigma"], 0.1, 1e-5)
    if is_paper and rounds <= len(ROUND_THEORY):
        more["paper theory"] = ROUND_THEORY[rounds - 1]
    level = 1 - canary.bound.confidence
    target = Target(results.audit.trials, mechanism.delta, level, find_method(results.audit.method), 1, mechanism.q)
    interval = frozen_spread([true_rates(each) for each in shown.canaries], target)
    return Cell(
        at={"rounds": rounds},
        observed=shown.headline.epsilon,
        exact=canary.exact,
        rule=None if ladder.rule is None else ladder.rule.low,
        **forecast(ladder),
        explained=Span(low=interval.lower, high=interval.upper),
        mechanism=ladder.mechanism.epsilon,
        accounted=more.get("paper theory", ladder.accounted.epsilon),
        method=results.audit.method,
        confidence=shown.headline.confidence,
        trials=results.audit.trials,
        canaries=len(shown.canaries),
        threshold=canary.threshold.mode,
        delta=mechanism.delta,
        more=more,
    )


def _facts(results: Results, evolution: EvolutionFacts, resolved: Resolved) -> dict[str, str]:
    mechanism, audit, setup, first = results.mechanism, results.audit, results.require_setup(), evolution.rounds[0]
    canaries = "one canary" if setup.canaries == 1 else f"{setup.canaries} canaries"
    return {
        "users": f"{setup.evaluation:,} eligible (N), {resolved.config.cohorts.auxiliary or 0:,} auxiliary",
        "bank": f"{first.entries:,} entries, {first.probes} probes, {first.kept:,} kept after each round",
        "attack": f"{results.attacks[0].attack}, {canaries}, method {audit.method}, alpha {audit.alpha:g} for each "
        "prefix",
        "encoder": evolution.encoder,
        "generator": evolution.generator,
        "mechanism": f"k {mechanism.k}, clip {mechanism.clip:g}, sigma {mechanism.sigma:g}, q {mechanism.q:g}, "
        f"delta {mechanism.delta:g}",
        "trials": f"{audit.trials:,} of each hypothesis",
    }


def _notes(results: Results, evolution: EvolutionFacts) -> list[str]:
    """Say what differs from the paper, where utility began, and where precision and recall went."""
    releases, paper, eligible = len(evolution.rounds), len(ROUND_THEORY), results.require_setup().evaluation
    notes = true_notes(
        (eligible != _ELIGIBLE, f"N is {eligible:,} eligible users; the paper has {_ELIGIBLE:,}."),
        bank_note(evolution.rounds[0].entries),
        (releases != paper, f"There are {releases} releases; the paper has {paper}."),
        trials_note(results.audit.trials, PAPER_ROUNDS["audit.trials"]),
        encoder_note(evolution.encoder),
    )
    if evolution.utility is not None:
        first, *_, last = evolution.utility.figures
        start = "" if first.mauve is None else f"MAUVE was {first.mauve:.3f} before any release. "
        notes.append(
            f"{start}From the first population to the last, precision (candidates that lie among held-out texts) went "
            f"from {first.precision:.3f} to {last.precision:.3f}, and recall (held-out texts that lie among "
            f"candidates) from {first.recall:.3f} to {last.recall:.3f}."
        )
    return notes
