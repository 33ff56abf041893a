"""Shape the bank: canaries, pools of candidate probes, their selection, and the ten attacks as data."""

from canarybank.attack.attacks import ATTACKS, PAPER_ATTACKS, Attack, PoolKind, Selection, find_attack
from canarybank.attack.canary import Canary, CanaryKind
from canarybank.attack.contribution import canary_contribution
from canarybank.attack.covariance import pool_covariance
from canarybank.attack.design import Design, design, follow
from canarybank.attack.facts import phrase_facts
from canarybank.attack.families import FAMILIES, Family
from canarybank.attack.findings import SearchFacts, predicted_epsilon
from canarybank.attack.greedy import select_probes
from canarybank.attack.nonce import NONCE_ALPHABET, NONCE_LENGTH, Encode, nonce_canary, nonce_pool, nonces
from canarybank.attack.objective import Mueff, Norm, Objective
from canarybank.attack.planted import (
    CanaryStyle,
    CanaryWeights,
    ManyCanaries,
    canary_scores,
    exact_scores,
    make_canaries,
    record_votes,
    share_of_votes,
)
from canarybank.attack.pool import Pool, PoolFacts, PoolSource, Similarity
from canarybank.attack.search import SEARCH_VERSION, Accept, search, searched_texts
from canarybank.attack.selection import SelectionContext, SelectionRule
from canarybank.attack.simulated import simulated_nonces, simulated_paraphrases

__all__ = [
    "ATTACKS",
    "FAMILIES",
    "NONCE_ALPHABET",
    "NONCE_LENGTH",
    "PAPER_ATTACKS",
    "SEARCH_VERSION",
    "Accept",
    "Attack",
    "Canary",
    "CanaryKind",
    "CanaryStyle",
    "CanaryWeights",
    "Design",
    "Encode",
    "Family",
    "ManyCanaries",
    "Mueff",
    "Norm",
    "Objective",
    "Pool",
    "PoolFacts",
    "PoolKind",
    "PoolSource",
    "SearchFacts",
    "Selection",
    "SelectionContext",
    "SelectionRule",
    "Similarity",
    "canary_contribution",
    "canary_scores",
    "design",
    "exact_scores",
    "find_attack",
    "follow",
    "make_canaries",
    "nonce_canary",
    "nonce_pool",
    "nonces",
    "phrase_facts",
    "pool_covariance",
    "predicted_epsilon",
    "record_votes",
    "search",
    "searched_texts",
    "select_probes",
    "share_of_votes",
    "simulated_nonces",
    "simulated_paraphrases",
]
