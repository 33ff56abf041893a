"""Hold the known user whose presence is tested."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from canarybank.attack.vectors import column, frozen_vectors
from canarybank.users import Users

__all__ = ["Canary", "CanaryKind"]


class CanaryKind(StrEnum):
    """Where a canary comes from: a person of the data, or nobody: its texts are nonces, or what a search found."""

    REAL = "real"
    NONCE = "nonce"


@dataclass(frozen=True, slots=True, eq=False)
class Canary:
    """One user with at least one record vector, known to the auditor in full, and a member of no cohort."""

    vectors: NDArray[np.float32]
    texts: tuple[str, ...] | None = None
    id: str = "canary"
    kind: CanaryKind = CanaryKind.REAL

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", frozen_vectors(self.vectors, "canary record"))
        object.__setattr__(self, "kind", CanaryKind(self.kind))
        object.__setattr__(self, "texts", column(self.texts, len(self.vectors), "texts"))

    @classmethod
    def of(cls, users: Users, index: int) -> "Canary":
        """Return the real canary that stands at an index of some users."""
        user = users.take([index])
        return cls(vectors=user.require_vectors(), texts=user.texts, id=user.ids[0], kind=CanaryKind.REAL)

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"Canary({self.id!r}, {self.kind.value}, {len(self)} records)"
