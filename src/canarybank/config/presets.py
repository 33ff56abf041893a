"""Hold configurations with a name: the embedded audit and evolution, and the settings of the paper's tables."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["PRESETS"]

_EIGHT = (
    *("ordinary", "exact", "paraphrase", "paraphrase-norm", "paraphrase-mueff"),
    *("nonce", "nonce-norm", "nonce-mueff"),
)
_PAPER: Mapping[str, Any] = {
    "cohorts": {"auxiliary": 500, "calibration": 500, "evaluation": 1000, "canaries": 5},
    "encoder": {"name": "minilm"},
    "mechanism": {"k": 5, "clip": 0.1, "sigma": 1.0, "q": 0.1, "delta": 1e-5},
    "attack": {"names": _EIGHT, "probes": 64, "pool": 512},
    "audit": {"trials": 1_000_000, "alpha": 0.05, "method": "paper", "threshold": "calibrated", "accounted": 1.695},
}

_YELP: Mapping[str, Any] = {"format": "yelp", "minimum": 64, "cap": 64}
_YELP_BANK: Mapping[str, Any] = {
    "source": "generate",
    "size": 8192,
    "prompt": "bank-yelp",
    "labels": ("1", "2", "3", "4", "5"),
}

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "embedded": {
            "users": {"source": "chitchat"},
            "cohorts": {"fixed": ("embedded",)},
            "encoder": {"name": "wordllama"},
            "bank": {"source": "embedded"},
            "attack": {"names": ("all",)},
            "audit": {"threshold": "analytic"},
        },
        # It starts from texts of all topics of the embedded bank. Votes choose among them, and few texts are new: at a
        # constant size of 100 or 200, with 30% to 75% new texts a round, what a model of 135M parameters writes costs
        # more variety than votes gain, and MAUVE does not rise.
        # At one size its precision, density and coverage rise by more than chance; MAUVE and recall do not with every
        # seed (docs/evolution.md has the figures).
        "embedded-evolution": {
            "users": {"source": "chitchat"},
            "cohorts": {"fixed": ("embedded",)},
            "encoder": {"name": "wordllama"},
            "bank": {"source": "embedded", "size": 600, "prompt": "bank-chat"},
            "generator": {"kind": "smollm2", "threads": 1},
            "mechanism": {"k": 1, "q": 0.5, "sigma": 1.5},
            "attack": {"probes": 16, "pool": 128},
            "audit": {"threshold": "analytic"},
            "evolve": {
                "rounds": 2,
                "keeper": "clusters",
                "threshold": 0.0,
                "share": 0.6,
                "new": 40,
                "feedback": "in-context:0.5,fresh:0.5",
                "prompt": "continue-list",
                "kind": "everyday life",
                "high": 3,
                "low": 1,
                "tries": 20,
                "reference": 100,
                "responses": "embedded",
            },
        },
        "paper-yelp": {**_PAPER, "users": _YELP, "bank": _YELP_BANK},
        "paper-rounds": {
            **_PAPER,
            "users": _YELP,
            "bank": _YELP_BANK,
            "cohorts": {"auxiliary": 500, "calibration": 500, "evaluation": 8000, "canaries": 1},
            "mechanism": {"k": 5, "clip": 0.1, "sigma": 1.1088, "q": 0.1, "delta": 1e-5},
            "audit": {"trials": 5_000_000, "alpha": 0.01, "method": "paper", "threshold": "analytic"},
            "evolve": {"rounds": 6, "share": 0.05, "audit": ("nonce-norm",), "insecure_seed": 0, "compare": False},
        },
        "paper-sentiment140": {
            **_PAPER,
            "users": {"format": "sentiment140", "minimum": 32, "cap": 64},
            "bank": {"source": "generate", "size": 8192, "prompt": "bank-sentiment140", "labels": ("0", "4")},
        },
    }
)
"""Presets by name; the paper's lack the file of users and the generator, which everybody brings."""
