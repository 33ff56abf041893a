"""Run Private Evolution under user-level differential privacy, and audit it.

Audit the release of our mechanism in memory, by several attacks at once. ``audit`` takes one array of record vectors
for each user, and the vectors of the bank's entries:

>>> import canarybank
>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> people = [rng.normal(size=(6, 8)) for _ in range(40)]
>>> bank = rng.normal(size=(60, 8))
>>> mechanism = canarybank.Mechanism(k=5, clip=0.1, sigma=1.0, q=0.1, delta=1e-5)
>>> found = canarybank.audit(people, bank, mechanism, ["ordinary", "exact"], trials=1_000, canaries=1, probes=6)
>>> [row["attack"] for row in found.rows()]
['ordinary', 'exact']

Each row has the bound, its method, its confidence and the exact figures beside it; ``found.to_polars()`` and
``found.to_pandas()`` return them as a table. What the mechanism itself allows needs no trial, and neither does a claim
that is too small:

>>> round(canarybank.epsilon(mechanism), 3)
1.685
>>> canarybank.Claim(1.0, 1e-5, mechanism=mechanism).is_false
True

``audit_system`` audits anything that releases, in memory or in a folder. ``run_audit`` and ``run_evolution`` do in a
folder what `canarybank audit` and `canarybank evolve` do, from the configuration that ``resolve`` reads. ``open_run``
opens such a folder; ``verify`` and ``gate`` check it, and ``write_report`` writes its page. ``evolve`` makes the rounds
of Private Evolution themselves. Everything else is in the rooms, such as ``canarybank.attack`` or ``canarybank.score``:
``docs/architecture.md`` walks through them.
"""

from typing import TYPE_CHECKING

from canarybank.lazily import exporter

if TYPE_CHECKING:
    from canarybank.attack import ATTACKS
    from canarybank.auditing import Settings, audit
    from canarybank.config import resolve
    from canarybank.evolution import evolve
    from canarybank.flow import audit_system, run_audit, run_evolution
    from canarybank.mechanism import Claim, Mechanism, epsilon
    from canarybank.report import write_report
    from canarybank.run import gate, open_run, verify
    from canarybank.score import LinearScore

__version__ = "0.2.0.dev0"

__all__ = [
    "ATTACKS",
    "Claim",
    "LinearScore",
    "Mechanism",
    "Settings",
    "__version__",
    "audit",
    "audit_system",
    "epsilon",
    "evolve",
    "gate",
    "open_run",
    "resolve",
    "run_audit",
    "run_evolution",
    "verify",
    "write_report",
]

__getattr__, __dir__ = exporter(
    __name__,
    {
        "attack": ("ATTACKS",),
        "auditing": ("Settings", "audit"),
        "config": ("resolve",),
        "evolution": ("evolve",),
        "flow": ("audit_system", "run_audit", "run_evolution"),
        "mechanism": ("Claim", "Mechanism", "epsilon"),
        "report": ("write_report",),
        "run": ("gate", "open_run", "verify"),
        "score": ("LinearScore",),
    },
)
