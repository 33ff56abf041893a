"""Search for a canary and its probes, against the design of nonce-mueff; and what the search gains for that time.

The ratio is the time of nonce-mueff over that of the search: at least 1/20. The built-in users, the embedded bank,
WordLlama; every text is encoded anew by both.
"""

import statistics

from canarybank.attack import ATTACKS, Design, design, nonce_canary, nonce_pool, search
from canarybank.encode import WordLlamaEncoder
from canarybank.flow.bank import embedded_bank
from canarybank.mechanism import Bank, Mechanism, Routed
from canarybank.score import RoundLaw, supremum
from canarybank.users import CohortSizes, admit, draw_cohorts
from harness import Result, measure, ratio

TARGET = 1 / 20
CANARIES = 5


def run() -> list[Result]:
    """Time one canary of each attack, and compute what five of each reach on the evaluation users."""
    encoder, mechanism = WordLlamaEncoder(), Mechanism()
    people = admit("chitchat").users
    people = people.with_vectors(encoder.encode(people.require_texts()))
    cohorts = draw_cohorts(people, CohortSizes.fit(len(people), sets=0), attacks=[], records=64, seed=0)
    texts = embedded_bank().texts
    bank = Bank(encoder.encode(texts), texts).reserve(64, 0)
    auxiliary, evaluation = (
        Routed.build(cohort, bank, mechanism.k) for cohort in (cohorts.auxiliary, cohorts.evaluation)
    )
    records, vocabulary, shared = cohorts.canary_records, encoder.vocabulary(), {"eligible": len(evaluation), "seed": 0}

    def paper(index: int) -> Design:
        canary = nonce_canary(records, encoder.encode, 0, index, "nonce-mueff")
        pool = nonce_pool(encoder.encode)
        return design(ATTACKS["nonce-mueff"], canary, bank, auxiliary, mechanism, pool=pool, **shared)

    def ours(index: int) -> Design:
        options = {"encode": encoder.encode, "records": records, "index": index, "vocabulary": vocabulary, **shared}
        canary, pool = search(bank, auxiliary, mechanism, **options)
        return design(ATTACKS["searched"], canary, bank, auxiliary, mechanism, pool=pool, **shared)

    def reached(made: Design) -> float:
        votes = evaluation.contributions(made.bank, mechanism)[:, made.inspected]
        return supremum(RoundLaw.of(made.score, votes, made.contribution, mechanism), mechanism.delta).point

    found = {
        name: [reached(one(index)) for index in range(CANARIES)] for name, one in (("paper", paper), ("ours", ours))
    }
    median = {name: statistics.median(values) for name, values in found.items()}
    note = f"median exact epsilon of {CANARIES} canaries {median['ours']:.4f}, nonce-mueff {median['paper']:.4f}"
    size = f"{len(auxiliary)} auxiliary users, bank {bank.size:,}, 64 positions"
    times = (measure(lambda one=one: one(0), repeats=3) for one in (paper, ours))
    return [ratio("search, against nonce-mueff", size, *times, TARGET, note)]
