"""Hold the ten attacks as data: whose presence is tested, which probes could be planted, which are."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from canarybank import registry
from canarybank.attack.canary import CanaryKind
from canarybank.errors import ConfigError, InputError

__all__ = ["ATTACKS", "PAPER_ATTACKS", "Attack", "PoolKind", "Selection", "find_attack"]


class PoolKind(StrEnum):
    """What the candidate probes of an attack are."""

    NONE = "none"
    RECORDS = "records"
    PARAPHRASES = "paraphrases"
    NONCES = "nonces"
    SEARCHED = "searched"


class Selection(StrEnum):
    """The built-in rules by which an attack takes its probes from its pool; ``NONE`` is for an attack without one."""

    NONE = "none"
    ALL = "all"
    SPREAD = "spread"
    UNIFORM = "uniform"
    GREEDY_NORM = "greedy-norm"
    GREEDY_MUEFF = "greedy-mueff"
    GREEDY_EXACT = "greedy-exact"


@dataclass(frozen=True, slots=True)
class Attack:
    """A recipe: the kind of canary, the pool of candidate probes, and the rule that selects among them.

    The rule is a ``Selection``, the name that a plug-in registers it by, or ``module:name``. It is imported when an
    attack is designed, not before.
    """

    name: str
    canary: CanaryKind
    pool: PoolKind
    selection: Selection | str
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.selection, str):
            raise InputError(
                f"The selection of the attack {self.name!r} is a {type(self.selection).__name__}; give the name of a "
                "registered rule, or module:name."
            )
        registry.SELECTIONS.check(self.selection, (Selection.NONE.value,))
        if self.active == (self.selection == Selection.NONE):
            raise InputError(
                f"The attack {self.name!r} joins pool {self.pool.value!r} to selection {str(self.selection)!r}; "
                f"an attack without a pool selects nothing, and one with a pool must select."
            )

    @property
    def active(self) -> bool:
        """Say whether the attack plants probes."""
        return self.pool is not PoolKind.NONE

    def pin_selection(self) -> registry.Plugin | None:
        """Return what pins the rule in a manifest, imported; None for one of canarybank's own."""
        return registry.SELECTIONS.pin(self.selection) if self.active else None


ORDINARY = Attack(
    "ordinary",
    CanaryKind.REAL,
    PoolKind.NONE,
    Selection.NONE,
    "plant nothing; inspect the entries that the canary votes for anyway",
)
EXACT = Attack(
    "exact",
    CanaryKind.REAL,
    PoolKind.RECORDS,
    Selection.ALL,
    "plant a copy of each of the canary's records",
)
PARAPHRASE = Attack(
    "paraphrase",
    CanaryKind.REAL,
    PoolKind.PARAPHRASES,
    Selection.SPREAD,
    "plant paraphrases, as many for each of the canary's records",
)
PARAPHRASE_NORM = Attack(
    "paraphrase-norm",
    CanaryKind.REAL,
    PoolKind.PARAPHRASES,
    Selection.GREEDY_NORM,
    "plant the paraphrases on which the canary's votes are most concentrated",
)
PARAPHRASE_MUEFF = Attack(
    "paraphrase-mueff",
    CanaryKind.REAL,
    PoolKind.PARAPHRASES,
    Selection.GREEDY_MUEFF,
    "plant the paraphrases on which the canary stands out most from the background",
)
PARAPHRASE_EXACT = Attack(
    "paraphrase-exact",
    CanaryKind.REAL,
    PoolKind.PARAPHRASES,
    Selection.GREEDY_EXACT,
    "plant the paraphrases that give the largest exact epsilon, one by one and then by exchange",
)
NONCE = Attack(
    "nonce",
    CanaryKind.NONCE,
    PoolKind.NONCES,
    Selection.UNIFORM,
    "plant nonces at random for a canary made of other nonces",
)
NONCE_NORM = Attack(
    "nonce-norm",
    CanaryKind.NONCE,
    PoolKind.NONCES,
    Selection.GREEDY_NORM,
    "plant the nonces on which the nonce canary's votes are most concentrated",
)
NONCE_MUEFF = Attack(
    "nonce-mueff",
    CanaryKind.NONCE,
    PoolKind.NONCES,
    Selection.GREEDY_MUEFF,
    "plant the nonces on which the nonce canary stands out most from the background",
)
SEARCHED = Attack(
    "searched",
    CanaryKind.NONCE,
    PoolKind.SEARCHED,
    Selection.ALL,
    "plant what a search over families of texts finds: probes that nobody else votes for, and decoys",
)

_PAPER = (ORDINARY, EXACT, PARAPHRASE, PARAPHRASE_NORM, PARAPHRASE_MUEFF, NONCE, NONCE_NORM, NONCE_MUEFF)
_TEN = (*_PAPER[:5], PARAPHRASE_EXACT, *_PAPER[5:], SEARCHED)
PAPER_ATTACKS = tuple(attack.name for attack in _PAPER)
"""The names of the paper's eight attacks, in its order."""
ATTACKS: Mapping[str, Attack] = MappingProxyType({attack.name: attack for attack in _TEN})
"""The ten attacks by name: the paper's eight in its order, and two that search, each after those it betters."""


def find_attack(name: str) -> Attack:
    """Return the attack of a name: one of the ten, a plug-in's by its entry point, or the one at ``module:name``.

    Results are kept by the attack's own name, so a plug-in cannot have that of one of the ten.

    Args:
        name: The attack's name, or ``module:name``.

    Example:
        >>> find_attack("nonce").name
        'nonce'
    """
    found = registry.ATTACKS.find(name)
    if not isinstance(found, Attack):
        raise ConfigError(f"The attack {name!r} is of type {type(found).__name__}; make it a canarybank.attack.Attack.")
    if name not in ATTACKS and found.name in ATTACKS:
        raise ConfigError(
            f"The plug-in {name!r} is an attack called {found.name!r}, and so is one of the ten built-in ones; give "
            "it another name."
        )
    return found
