"""Reduce a frozen attack to the data of its figures: plain numbers and excerpts, the same bytes on every rerun.

Rates and densities are exact, from the law of the score on the evaluation cohort; traffic comes from the auxiliary
cohort. Floats keep six significant digits, so that the last bits of a linear algebra library do not show.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canarybank.attack import Design, canary_contribution
from canarybank.auditing.ports import Case
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.score import RoundLaw
from canarybank.seeds import stream
from canarybank.users import Auxiliary

__all__ = [
    "EXCERPT",
    "density_evidence",
    "evidence",
    "map_evidence",
    "principal_axes",
    "roc_evidence",
    "rounded",
    "vote_evidence",
]

EXCERPT = 200
"""How many characters of a bank entry are kept."""


def evidence(
    case: Case, law: RoundLaw, auxiliary: Routed[Auxiliary], mechanism: Mechanism, seed: int
) -> dict[str, Any]:
    """Return the figure data of one canary's frozen rule, as values that JSON holds unchanged.

    Args:
        case: A canary with its frozen rule.
        law: The law of its score.
        auxiliary: The auxiliary users, routed.
        mechanism: The parameters of the release.
        seed: The root of what is random.

    Example:
        >>> import numpy as np
        >>> from canarybank.attack import ATTACKS, Canary
        >>> from canarybank.mechanism import Bank, Mechanism
        >>> from canarybank.users import Auxiliary, Users
        >>> rng = np.random.default_rng(0)
        >>> bank = Bank(rng.normal(size=(30, 4))).reserve(3, seed=0)
        >>> mechanism = Mechanism(k=2)
        >>> from canarybank.users import Calibration, Cohorts, Evaluation
        >>> people = [{f"{role}{i}": rng.normal(size=(3, 4)) for i in range(8)} for role in "ace"]
        >>> auxiliary, calibration, evaluation = map(Users.from_vectors, people)
        >>> cohorts = Cohorts(Auxiliary(auxiliary), Calibration(calibration), Evaluation(evaluation), {})
        >>> from canarybank.auditing import Auditor, Settings, route_cohorts
        >>> routes = route_cohorts(cohorts, bank, mechanism.k)
        >>> auditor = Auditor(mechanism, Settings(trials=1000, threshold="analytic"), len(evaluation))
        >>> canary = Canary(rng.normal(size=(3, 4)))
        >>> designed = Case.of(0, auditor.design(ATTACKS["exact"], canary, None, routes, 0))
        >>> (case,) = auditor.freeze([designed], auditor.calibration([routes]))
        >>> law = auditor.law(case, auditor.evaluation([routes])(case))
        >>> sorted(evidence(case, law, routes.auxiliary, mechanism, seed=0))
        ['canary', 'densities', 'map', 'roc', 'votes']
    """
    design, threshold = case.designs[-1], case.thresholds[-1].value
    return {
        "canary": design.canary.id,
        "roc": roc_evidence(law, threshold),
        "densities": density_evidence(law, threshold),
        "votes": vote_evidence(design, auxiliary, mechanism),
        "map": map_evidence(design, seed),
    }


def roc_evidence(law: RoundLaw, threshold: float) -> dict[str, Any]:
    """Return the exact rates of the rule "score > threshold" over a grid of 200 thresholds that holds the frozen one.

    The rates run down to 1e-7. ``fpr`` and ``tpr`` are the middles of certified ends, the canary absent against
    eligible; ``frozen`` is the index of the frozen threshold.
    """
    low, high = law.reach(1e-7)
    grid = np.linspace(min(low, threshold), max(high, threshold), 199)
    at = int(np.searchsorted(grid, threshold))
    thresholds = np.insert(grid, at, threshold)
    fpr, tpr = law.point(thresholds)
    return {"threshold": rounded(thresholds), "fpr": rounded(fpr), "tpr": rounded(tpr), "frozen": at}


def density_evidence(law: RoundLaw, threshold: float) -> dict[str, Any]:
    """Return the mean density of the score over each cell of a grid, the canary absent and surely participating.

    Each value is the probability of a cell, from the exact tail at both its edges, divided by the cell's width.
    A mass of 1e-4 on either side is not shown.
    """
    low, high = law.reach(1e-4)
    edges = np.linspace(min(low, threshold), max(high, threshold), 161)
    width = edges[1] - edges[0]
    absent, included = (0.5 * (ends.lower + ends.upper) for ends in (law.absent(edges), law.included(edges)))
    return {
        "score": rounded(0.5 * (edges[1:] + edges[:-1])),
        "absent": rounded(np.maximum(-np.diff(absent), 0.0) / width),
        "participating": rounded(np.maximum(-np.diff(included), 0.0) / width),
        "threshold": _round(threshold),
    }


def vote_evidence(design: Design, auxiliary: Routed[Auxiliary], mechanism: Mechanism) -> dict[str, Any]:
    """Return where the canary's votes went, and how much traffic those entries get from the auxiliary users.

    A share is a part of one user's votes; traffic is the mean share over the auxiliary users, and ``voters`` the part
    of them who vote for the entry at all. Entries are the inspected ones with the most votes of the canary.
    """
    unclipped = replace(mechanism, clip=2.0, entry_cap=None)  # votes sum to 1, so this leaves them as they are
    own = canary_contribution(design.table, design.bank, unclipped)[design.inspected]
    others = design.restrict(auxiliary.contributions(design.bank, unclipped)).tocsc()
    traffic = np.asarray(others.sum(axis=0)).ravel() / others.shape[0]
    voters = np.diff(others.indptr) / others.shape[0]
    return {
        "inspected": len(design.inspected),
        "voted": int(np.count_nonzero(own)),
        "share": _round(own.sum()),
        "traffic": _round(traffic.sum()),
        "auxiliary": int(others.shape[0]),
        "entries": [
            {
                "position": int(design.inspected[i]),
                "share": _round(own[i]),
                "traffic": _round(traffic[i]),
                "voters": _round(voters[i]),
                "text": _excerpt(design.bank, int(design.inspected[i])),
            }
            for i in np.lexsort((design.inspected, -own))[:12]
        ],
    }


def map_evidence(design: Design, seed: int) -> dict[str, Any]:
    """Return a sample of the bank, the probes and the canary's records in the plane of the bank's first two axes.

    The axes are the principal ones of the sample alone, which is drawn by seed from the entries that are never
    reserved: they are the same for every attack and canary on one bank. ``explained`` is each axis' part of the
    sample's variance.
    """
    bank = design.bank
    drawn = stream(seed, "evidence", "map").permutation(len(bank.base))[:400]
    sample = bank.vectors[bank.base[np.sort(drawn)]].astype(np.float64)
    centre = sample.mean(axis=0)
    axes, explained = principal_axes(sample - centre)
    probes = bank.vectors[design.inspected] if design.attack.active else np.empty((0, bank.dimension))

    def plane(vectors: NDArray[Any]) -> list[list[float]]:
        return [rounded(point) for point in (vectors.astype(np.float64) - centre) @ axes.T]

    return {
        "bank": plane(sample),
        "probes": plane(probes),
        "canary": plane(design.canary.vectors),
        "explained": rounded(explained),
    }


def _excerpt(bank: Bank, position: int) -> str | None:
    if bank.texts is None:
        return None
    text = bank.texts[position]
    return (text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…").encode("utf-8", "replace").decode()


def principal_axes(centred: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first two principal axes as rows, the largest entry positive, and their parts of the variance."""
    values, vectors = np.linalg.eigh(centred.T @ centred)
    axes, strength = vectors[:, ::-1][:, :2].T, np.maximum(values[::-1][:2], 0.0)
    missing = 2 - len(axes)
    axes, strength = np.pad(axes, ((0, missing), (0, 0))), np.pad(strength, (0, missing))
    largest = axes[np.arange(2), np.abs(axes).argmax(axis=1)]
    total = float(np.square(centred).sum())
    return axes * np.where(largest < 0, -1.0, 1.0)[:, None], strength / total if total > 0 else strength


def rounded(values: Iterable[float]) -> list[float]:
    """Return numbers with six digits."""
    return [_round(value) for value in values]


def _round(value: float) -> float:
    # Adding 0.0 turns a negative zero into zero.
    return float(f"{float(value):.6g}") + 0.0
