"""Sum an attack up over its canaries: the headline, the pooled claim beside it, and the ladder."""

from collections.abc import Sequence
from dataclasses import replace

from canarybank.audit.bounds import Bound, Method, pooled
from canarybank.audit.forecast import expected_bound
from canarybank.audit.ladder import Ladder, Rung
from canarybank.audit.ledger import AlphaLedger
from canarybank.audit.result import AuditResult, CanaryResult
from canarybank.audit.settings import Settings
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, epsilon

__all__ = ["summarise"]


def summarise(
    attack: str,
    canaries: Sequence[CanaryResult],
    mechanism: Mechanism,
    settings: Settings,
    *,
    eligible: int,
    accounted: float | None = None,
    notes: tuple[str, ...] = (),
) -> AuditResult:
    """Return the result of an attack from those of its canaries.

    The headline is the maximum over canaries, each at its share of alpha, or the pooled bound at all of alpha where
    that was the method declared: with probability at least 1 - alpha it does not exceed the mechanism's epsilon.
    """
    if not canaries:
        raise InputError("An audit needs at least one canary.")
    beside = _pooled(canaries, mechanism, settings)
    headline = beside if settings.method is Method.POOLED and beside else _largest(canaries, settings)
    claims = ["pooled"] if settings.method is Method.POOLED else [f"{attack}/{c.canary}" for c in canaries]
    return AuditResult(
        attack=attack,
        mechanism=mechanism,
        eligible=eligible,
        trials=settings.trials,
        seed=settings.seed,
        headline=headline,
        pooled=beside,
        canaries=tuple(canaries),
        ladder=_ladder(canaries, headline, mechanism, settings, accounted),
        ledger=AlphaLedger.split(settings.alpha, claims),
        notes=notes,
    )


def _largest(canaries: Sequence[CanaryResult], settings: Settings) -> Bound:
    """Return the largest of the canaries' bounds, as the one claim that all of alpha buys."""
    best = max((canary.bound for canary in canaries), key=lambda bound: bound.epsilon)
    if len(canaries) == 1:
        return best
    union = f"{best.assumption}; the largest of {len(canaries)} canaries' bounds, alpha split evenly over them"
    return replace(best, confidence=1 - settings.alpha, assumption=union)


def _pooled(canaries: Sequence[CanaryResult], mechanism: Mechanism, settings: Settings) -> Bound | None:
    if settings.method is Method.STRATIFIED:
        return None
    counts = [canary.counts for canary in canaries]
    return pooled(
        [c.tp for c in counts],
        [c.fp for c in counts],
        [c.n1 for c in counts],
        [c.n0 for c in counts],
        delta=mechanism.delta,
        alpha=settings.alpha,
    )


def _ladder(
    canaries: Sequence[CanaryResult],
    headline: Bound,
    mechanism: Mechanism,
    settings: Settings,
    accounted: float | None,
) -> Ladder:
    exact = epsilon(mechanism)
    claimed = exact if accounted is None else accounted
    attack = max((c.supremum for c in canaries), key=lambda interval: interval.lower)
    rule = max((c.rule for c in canaries), key=lambda interval: interval.lower)
    forecast = expected_bound(
        [c.eligible_rate.midpoint for c in canaries],
        [c.absent_rate.midpoint for c in canaries],
        settings.trials,
        delta=mechanism.delta,
        method=settings.method,
        alpha=settings.share(len(canaries)),
        q=mechanism.q,
    )
    over = f"the best of {len(canaries)} canaries" if len(canaries) > 1 else "one canary"
    source = (
        "no accountant's figure was given: the mechanism's own" if accounted is None else "the operator's accountant"
    )
    return Ladder(
        accounted=Rung("accounted", claimed, claimed, claimed, source),
        mechanism=Rung(
            "mechanism", exact, exact, exact, "the exact epsilon of one release, by its privacy loss distribution"
        ),
        attack=Rung("attack", attack.midpoint, attack.lower, attack.upper, f"exact, at the best threshold, {over}"),
        rule=Rung("rule", rule.midpoint, rule.lower, rule.upper, f"exact, at the frozen threshold, {over}"),
        expected=Rung(
            "expected",
            forecast.median,
            forecast.q05,
            forecast.q95,
            f"median and 5% to 95% range of the bound at {settings.trials:,} trials a hypothesis",
        ),
        observed=Rung("observed", headline.epsilon, headline.epsilon, headline.epsilon, str(headline)),
    )
