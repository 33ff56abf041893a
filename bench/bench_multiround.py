"""Six rounds at once: trials on one number a user and round, against whole releases; and the whole audit's time.

The baseline of the trials is batched dense numpy: for every round a participation matrix times the full contributions,
a noise vector for every coordinate of the bank, then the mixture score of the probes. A sample of it is timed and
extrapolated. The second line sets two minutes beside the time of six rounds of a perfect canary with five million
trials of each hypothesis, exact figures included.
"""

from functools import partial

import numpy as np
from scipy.sparse import csr_array

from canarybank.attack import ATTACKS
from canarybank.auditing import Auditor, Case, MemoryTally, Settings, Summed, ThresholdMode
from canarybank.auditing.trials import count_shard, plan
from canarybank.engine import Threads
from canarybank.mechanism import Mechanism, epsilon
from canarybank.score import LinearScore, Moments, RoundLaw, mixture
from canarybank.systems import BankSystem
from harness import Result, measure, ratio

USERS, BANK, PROBES, ACTIVE, ROUNDS = 1_000, 2_048, 64, 100, 6
BATCH, TRIALS = 128, 1 << 20
MECHANISM = Mechanism(sigma=1.1088)
SETTINGS = Settings(trials=5_000_000, alpha=0.01, threshold=ThresholdMode.ANALYTIC)
EXACT = (1.3346819, 1.5299039, 1.6717347, 1.7901618, 1.8947278, 1.9898194)


def run() -> list[Result]:
    """Time trials both ways, and the audit of a perfect canary."""
    return [_trials(), _whole()]


def _trials() -> Result:
    rounds = [_round(t) for t in range(ROUNDS)]
    rng = np.random.default_rng(0)

    def literal() -> None:
        total = np.zeros(BATCH)
        for users, _, score in rounds:
            taking = (rng.random((BATCH, USERS)) < MECHANISM.q).astype(np.float64)
            releases = taking @ users + rng.normal(0.0, MECHANISM.noise, (BATCH, BANK))
            total += mixture(score.llr(releases[:, :PROBES]), MECHANISM.q)

    laws = [RoundLaw.of(score, users[:, :PROBES], canary, MECHANISM) for users, canary, score in rounds]
    work = partial(count_shard, Summed.of(laws), (1.0,) * ROUNDS, 0, ())

    def ours() -> None:
        for _ in Threads().run(work, plan(TRIALS // 2)):
            pass

    baseline, mine = measure(literal) / BATCH, measure(ours, repeats=3) / TRIALS
    size = f"{ROUNDS} rounds, N={USERS:,} ({ACTIVE} active), {PROBES} probes, bank {BANK:,}"
    note = f"{1e9 * mine:,.0f} ns a trial of all prefixes, all cores"
    return ratio("summed trials, 1M", size, 1e6 * baseline, 1e6 * mine, 200, note)


def _whole() -> Result:
    canary, nobody = np.array([MECHANISM.clip]), np.zeros((1, 1))
    score = LinearScore(canary, Moments.estimate(nobody, MECHANISM, 1))
    case = Case(ATTACKS["nonce"], 0, "perfect", (score,) * ROUNDS, address=("perfect",), summed=True)
    epsilon(MECHANISM)

    def systems(_: Case) -> list[BankSystem]:
        return [BankSystem(csr_array(nobody), canary, MECHANISM)] * ROUNDS

    def ours() -> None:
        auditor, tally = Auditor(MECHANISM, SETTINGS, 1), MemoryTally()
        frozen = auditor.freeze([case], systems)
        auditor.play(frozen, systems, tally)
        found = auditor.judge(frozen, systems, tally)
        assert all(abs(each.canaries[0].exact - truth) < 1e-5 for each, truth in zip(found, EXACT, strict=True))

    mine = measure(ours, repeats=1, warm=False)
    size = f"{ROUNDS} rounds, perfect canary, {SETTINGS.trials:,} trials a hypothesis"
    return ratio("multi-round audit in two minutes", size, 120.0, mine, 1.25, "at most 120 s on two cores")


def _round(seed: int) -> tuple[np.ndarray, np.ndarray, LinearScore]:
    rng = np.random.default_rng(seed)
    users = np.zeros((USERS, BANK))
    for row in users:
        row[rng.choice(np.arange(PROBES, BANK), 60, replace=False)] = rng.random(60)
    users[:ACTIVE, :PROBES] = (rng.random((ACTIVE, PROBES)) < 0.05) * rng.random((ACTIVE, PROBES))
    users[:ACTIVE, 0] += 1e-3
    users *= MECHANISM.clip / np.linalg.norm(users, axis=1, keepdims=True)
    canary = np.full(PROBES, MECHANISM.clip / np.sqrt(PROBES))
    return users, canary, LinearScore(canary, Moments.estimate(users[:, :PROBES], MECHANISM, USERS))
