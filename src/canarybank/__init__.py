"""Run Private Evolution under user-level differential privacy, and audit it.

The rooms of the house are the stages, in the order in which data walks through them: ``store``,
``engine``, ``users``, ``encode``, ``generate``, ``mechanism``, ``score``, ``attack``, ``audit``, ``evolve``,
``experiment``, ``report``, ``cli``. Import names from their room, for example
``from canarybank.auditing import audit``.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
