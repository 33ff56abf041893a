"""Sum an attack up over its canaries: the headline, the pooled claim beside it, and the ladder."""

import math
from collections.abc import Sequence

from canarybank.audit.forecast import expected_bound
from canarybank.audit.ladder import Ladder, Rung
from canarybank.audit.ledger import AlphaLedger
from canarybank.audit.methods import Bound
from canarybank.audit.result import AuditResult, CanaryResult
from canarybank.audit.settings import Settings, headline, pooled_bound
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism, epsilon
from canarybank.score import Interval

__all__ = ["summarise"]

WIDE = 1e-3


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
    beside = pooled_bound([canary.counts for canary in canaries], mechanism, settings)
    claim = headline([canary.bound for canary in canaries], beside, settings)
    claims = [("pooled", claim)] if settings.method.pools else [(c.canary, c.bound) for c in canaries]
    return AuditResult(
        attack=attack,
        mechanism=mechanism,
        eligible=eligible,
        trials=settings.trials,
        seed=settings.seed,
        headline=claim,
        pooled=beside,
        canaries=tuple(canaries),
        ladder=_ladder(canaries, claim, mechanism, settings, accounted),
        ledger=_ledger(attack, claims, settings),
        notes=notes,
    )


def _ledger(attack: str, claims: Sequence[tuple[str, Bound]], settings: Settings) -> AlphaLedger:
    """Enter what each claim behind the headline really spent; more than was declared is refused."""
    ledger, declared = AlphaLedger(settings.alpha), settings.alpha / len(claims)
    for name, bound in claims:
        spent = 1 - bound.confidence
        # The confidence was 1 less the share, so the last bits of the share are lost in it.
        share = declared if math.isclose(spent, declared, rel_tol=1e-9) else spent
        ledger = ledger.spend(f"{attack}/{name}", share)
    return ledger


def _shown(interval: Interval) -> float:
    """Return the middle of an interval, or the lower end of one so wide that its middle would say too much."""
    wide = WIDE * max(1.0, interval.lower) < interval.width < math.inf
    return interval.lower if wide else interval.midpoint


def _ladder(
    canaries: Sequence[CanaryResult],
    claim: Bound,
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
        attack=Rung("attack", _shown(attack), attack.lower, attack.upper, f"exact, at the best threshold, {over}"),
        rule=Rung("rule", _shown(rule), rule.lower, rule.upper, f"exact, at the frozen threshold, {over}"),
        expected=Rung(
            "expected",
            forecast.median,
            forecast.q05,
            forecast.q95,
            f"median and 5% to 95% range of the bound at {settings.trials:,} trials a hypothesis",
        ),
        observed=Rung("observed", claim.epsilon, claim.epsilon, claim.epsilon, str(claim)),
    )
