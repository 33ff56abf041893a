"""Search for a canary and its probes inside an audit, and remember what was found."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from canarybank.attack import (
    SEARCH_VERSION,
    Attack,
    Canary,
    CanaryKind,
    Encode,
    Pool,
    SearchFacts,
    search,
)
from canarybank.auditing.pipeline import Auditor
from canarybank.auditing.ports import Routes
from canarybank.defend import Screen
from canarybank.store import stage_key

__all__ = ["search_canary"]


def search_canary(
    auditor: Auditor,
    attack: Attack,
    routes: Routes,
    *,
    index: int,
    records: int,
    seed: int,
    encode: Encode,
    vocabulary: Sequence[str] = (),
    encoder: str = "",
    probes: int | None = None,
    screen: Screen | None = None,
) -> tuple[Canary, Pool]:
    """Search for the canary of an index and its probes, from public things and the auxiliary users alone.

    The texts that were found are remembered where ``encoder`` is the fingerprint of what encodes. Where the bank is
    vetted, ``screen`` says which texts may be planted.

    Args:
        auditor: The audit that the canary is for.
        attack: The attack that searches.
        routes: The routes of all cohorts.
        index: The number of the canary.
        records: How many records it has.
        seed: The root of what is random.
        encode: The encoder.
        vocabulary: The encoder's own tokens, as texts.
        encoder: The encoder's fingerprint; left out, nothing is remembered.
        probes: How many of the reserved positions are this canary's; left out, all.
        screen: Says which texts may be planted; left out, all.

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
        >>> from canarybank.attack import simulated_nonces
        >>> from canarybank.auditing import Auditor, Settings, route_cohorts
        >>> auditor = Auditor(mechanism, Settings(trials=100), len(evaluation))
        >>> routes = route_cohorts(cohorts, bank, mechanism.k)
        >>> encode = simulated_nonces(bank.vectors, 1)
        >>> options = {"index": 0, "records": 3, "seed": 0, "encode": encode}
        >>> canary, pool = search_canary(auditor, ATTACKS["searched"], routes, **options)
        >>> len(pool) <= 3
        True
    """
    bank, auxiliary = routes.bank, routes.auxiliary
    make = partial(
        search,
        bank,
        auxiliary,
        auditor.mechanism,
        eligible=auditor.eligible,
        encode=encode,
        records=records,
        seed=seed,
        index=index,
        probes=probes,
        vocabulary=vocabulary,
        accept=None if screen is None else screen.accept,
        name=attack.name,
    )
    if auditor.memo is None or not encoder:
        return make()
    key = stage_key(
        "search",
        version=SEARCH_VERSION,
        attack=attack.name,
        bank=bank.hash,
        probes=probes,
        auxiliary=auxiliary.hash,
        mechanism=auditor.mechanism.to_json(),
        eligible=auditor.eligible,
        encoder=encoder,
        records=records,
        index=index,
        seed=seed,
        vetting="" if screen is None else screen.vetting.hash,
    )

    def document() -> dict[str, Any]:
        canary, pool = make()
        facts = None if pool.search is None else asdict(pool.search)
        return {"canary": list(canary.texts or ()), "probes": list(pool.texts or ()), "facts": facts}

    kept = auditor.memo.document("search", key, document)
    texts, probe_texts = tuple(kept["canary"]), tuple(kept["probes"])
    canary = Canary(encode(texts), texts, f"{attack.name}-{index}", CanaryKind.NONCE)
    return canary, Pool(encode(probe_texts), probe_texts, search=SearchFacts.from_dict(kept["facts"]))
