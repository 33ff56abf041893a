"""Compare two clouds of vectors by MAUVE, from the package ``mauve-text``."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from canarybank.errors import InputError, MissingError
from canarybank.mechanism.mechanism import whole
from canarybank.mechanism.vectors import check_dimensions, check_vectors

__all__ = ["Mauve"]

FEWEST = 20


@dataclass(frozen=True, slots=True)
class Mauve:
    """MAUVE with its settings: the area under the divergence curve of two clustered clouds, 0 if apart, 1 if alike.

    Vectors are those of the run's own encoder, so a figure compares with others of the same encoder, settings and
    numbers of texts only. ``buckets`` is the number of clusters, a tenth of the smaller cloud where it is None. The
    defaults are the package's own; the same seed gives the same figure.
    """

    buckets: int | None = None
    scaling: float = 5.0
    restarts: int = 5
    iterations: int = 500
    seed: int = 25

    def __post_init__(self) -> None:
        for name in ("restarts", "iterations"):
            whole(name, getattr(self, name))
        if self.buckets is not None and whole("buckets", self.buckets) < 2:  # noqa: PLR2004, one bucket tells nothing
            raise InputError("MAUVE needs at least 2 buckets; with one all clouds are alike.")
        if not 0 < self.scaling < np.inf:
            raise InputError(f"The scaling of MAUVE must be positive and finite, not {self.scaling!r}; 5 is usual.")
        if self.seed < 0:
            raise InputError(f"A seed is a whole number of at least 0, not {self.seed}.")

    def __call__(self, generated: ArrayLike, real: ArrayLike) -> float:
        """Return the MAUVE of generated against real vectors."""
        made, truth = check_vectors(generated, "generated"), check_vectors(real, "real")
        check_dimensions(made, truth, "real vectors")
        if min(len(made), len(truth)) < FEWEST:
            raise InputError(
                f"MAUVE of {len(made)} generated against {len(truth)} real vectors says nothing; give {FEWEST} "
                "of each at least, better thousands."
            )
        return float(
            _package()
            .compute_mauve(
                p_features=truth,
                q_features=made,
                num_buckets="auto" if self.buckets is None else self.buckets,
                mauve_scaling_factor=self.scaling,
                kmeans_num_redo=self.restarts,
                kmeans_max_iter=self.iterations,
                seed=self.seed,
                verbose=False,
            )
            .mauve
        )


def _package() -> Any:
    try:
        return importlib.import_module("mauve")
    except ImportError as problem:
        raise MissingError(
            "MAUVE comes with mauve-text, which is not installed; run: pip install 'canarybank[mauve]'"
        ) from problem
