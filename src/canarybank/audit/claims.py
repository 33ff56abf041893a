"""Make the claims that counts buy: each canary's bound, the bound over all canaries, and the declared headline."""

from collections.abc import Sequence
from dataclasses import replace

from canarybank.audit.bounds import Bound
from canarybank.audit.methods.pooled import POOLED
from canarybank.audit.settings import Settings
from canarybank.audit.trials import Counts
from canarybank.errors import InputError
from canarybank.mechanism import Mechanism

__all__ = ["attack_bound", "canary_bound", "headline", "pooled_bound"]


def attack_bound(counts: Sequence[Counts], mechanism: Mechanism, settings: Settings) -> Bound:
    """Return an attack's headline from its canaries' counts.

    With probability at least 1 - alpha it does not exceed the epsilon of the mechanism that gave the counts.
    """
    bounds = [canary_bound(each, mechanism, settings, len(counts)) for each in counts]
    return headline(bounds, pooled_bound(counts, mechanism, settings), settings)


def canary_bound(counts: Counts, mechanism: Mechanism, settings: Settings, canaries: int) -> Bound:
    """Return one canary's bound at its share of alpha: by the declared method, or what it shows of a canary alone."""
    share = settings.alpha / canaries
    return settings.method.single.bound([counts], delta=mechanism.delta, alpha=share, q=mechanism.q)


def pooled_bound(counts: Sequence[Counts], mechanism: Mechanism, settings: Settings) -> Bound | None:
    """Return the bound over all canaries at all of alpha; none of included canaries' counts, or beyond its proof."""
    method = settings.method if settings.method.pools else POOLED
    if not settings.method.pools and (settings.method.included or settings.alpha > method.largest_alpha):
        return None
    return method.bound(counts, delta=mechanism.delta, alpha=settings.alpha, q=mechanism.q)


def headline(bounds: Sequence[Bound], over_all: Bound | None, settings: Settings) -> Bound:
    """Return the one claim that all of alpha buys: the pooled bound, or the largest of the canaries' own."""
    if not bounds:
        raise InputError("An audit needs at least one canary.")
    if settings.method.pools and over_all is not None:
        return over_all
    best = max(bounds, key=lambda bound: bound.epsilon)
    if len(bounds) == 1:
        return best
    union = f"{best.assumption}; the largest of {len(bounds)} canaries' bounds, alpha split evenly over them"
    return replace(best, confidence=1 - settings.alpha, assumption=union)
