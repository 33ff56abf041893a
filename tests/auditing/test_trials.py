import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binomtest

from canarybank.auditing import Counts, Literal, Projected, Shard, Tail, count, draw, draw_above, plan
from canarybank.auditing.sources import Crowd
from canarybank.auditing.trials import SHARD
from canarybank.engine import Processes, Serial, Threads
from canarybank.errors import CanarybankError
from canarybank.mechanism import Mechanism
from canarybank.score import LinearScore, Moments, RoundLaw
from canarybank.systems import BankSystem, TorchSystem


def setting(seed, users=60, coordinates=6, mechanism=None):
    rng = np.random.default_rng(seed)
    mechanism = mechanism or Mechanism(q=0.1 + 0.4 * rng.random(), sigma=0.5 + rng.random())
    dense = (rng.random((users, coordinates)) < 0.4) * rng.random((users, coordinates))
    dense *= mechanism.clip / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), mechanism.clip)
    canary = rng.random(coordinates)
    canary *= mechanism.clip / np.linalg.norm(canary)
    score = LinearScore(canary, Moments.estimate(dense, mechanism, users))
    return csr_array(dense), canary, score, mechanism


def source(kind, users, canary, score, mechanism):
    if kind in {"projected", "tail"}:
        return (Projected if kind == "projected" else Tail)(RoundLaw.of(score, users, canary, mechanism))
    system = BankSystem(users, canary, mechanism)
    return Literal(TorchSystem.of(system, "cpu") if kind == "literal-torch" else system, score)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["literal", "literal-torch", "projected"])
def test_trials_follow_the_exact_law(kind, seed):
    # 4 populations x 3 engines x 3 thresholds x 2 hypotheses = 72 exact binomial tests at 1e-6: a false alarm in
    # fewer than 1 of 10,000 runs, if the seed were not fixed.
    users, canary, score, mechanism = setting(seed)
    law = RoundLaw.of(score, users, canary, mechanism)
    trials = source(kind, users, canary, score, mechanism)
    absent, eligible = draw(trials, 60_000, seed=seed, path=(kind,))
    for threshold in (-0.5, 0.5, 2.0):
        for scores, (lower, upper) in ((absent, law.absent(threshold)), (eligible, law.eligible(threshold))):
            rate = (float(lower) + float(upper)) / 2
            assert binomtest(int((scores > threshold).sum()), len(scores), rate).pvalue > 1e-6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["literal", "literal-torch", "projected", "tail"])
def test_counts_follow_the_exact_law(kind, seed):
    # 4 populations x 4 engines x 3 thresholds x 2 hypotheses = 96 exact binomial tests at 1e-6.
    users, canary, score, mechanism = setting(seed)
    law = RoundLaw.of(score, users, canary, mechanism)
    trials = source(kind, users, canary, score, mechanism)
    for threshold in (-1.0, 1.0, 3.0):
        found = count(trials, threshold, 60_000, seed=seed, path=(kind, str(threshold)))
        for seen, (lower, upper) in ((found.fp, law.absent(threshold)), (found.tp, law.eligible(threshold))):
            assert binomtest(seen, 60_000, (float(lower) + float(upper)) / 2).pvalue > 1e-6


def test_scores_above_a_cut_are_those_of_the_counts():
    users, canary, score, mechanism = setting(5)
    trials = Tail(RoundLaw.of(score, users, canary, mechanism))
    found, above = count(trials, 1.5, 200_000, seed=3), draw_above(trials, 1.5, 200_000, seed=3)
    assert (found.fp, found.tp) == tuple(map(len, above))
    for scores in above:
        assert (np.diff(scores) >= 0).all()
        assert scores[0] > 1.5


def test_a_score_that_ignores_the_release_is_above_every_lower_cut():
    silent = Tail(RoundLaw(np.zeros(3), 0.0, 0.0, 0.25, 0.1))
    assert count(silent, -0.3, 50, seed=0) == Counts(tp=50, fp=50, n1=50, n0=50)
    assert count(silent, -0.25, 50, seed=0) == Counts(tp=0, fp=0, n1=50, n0=50)


@pytest.mark.parametrize("kind", ["literal", "literal-torch", "projected", "tail"])
def test_a_canary_that_surely_takes_part_follows_its_own_law(kind):
    users, canary, score, mechanism = setting(9)
    law = RoundLaw.of(score, users, canary, mechanism)
    trials = source(kind, users, canary, score, mechanism)
    included = count(trials.included(), 1.0, 60_000, seed=2)
    rate = float(law.included(1.0)[0])
    assert binomtest(included.tp, 60_000, rate).pvalue > 1e-5


@pytest.mark.parametrize("q", [1.0, 0.5, 0.1, 1 / 256, 1e-3, 0.9999])
def test_every_coin_falls_by_q_and_alone(q):
    # Weights that are powers of two name the users who took part. 19 users x 6 q at 1e-7 each, and one test of
    # independence each: a false alarm in fewer than 1 of 50,000 runs.
    users, size = 19, 40_000
    sums = Crowd.of(2.0 ** np.arange(users), q).toss(size, np.random.default_rng(5))
    taking = (sums.astype(np.int64)[:, None] >> np.arange(users)) & 1
    for column in taking.T:
        assert binomtest(int(column.sum()), size, q).pvalue > 1e-7
    if 0.01 < q < 0.99:
        together = int((taking[:, 0] & taking[:, 1]).sum())
        assert binomtest(together, size, q * q).pvalue > 1e-7


@pytest.mark.parametrize("q", [1.0, 0.5, 0.1, 1 / 256, 1e-3, 0.9999])
def test_every_pattern_of_eight_coins_has_its_exact_probability(q):
    coins = Crowd.of(np.zeros(0), q)
    settled = np.bincount(coins.settled[: coins.open], minlength=256)
    found = (settled + np.diff(coins.remainders, prepend=0.0)) / 65_536
    taking = [pattern.bit_count() for pattern in range(256)]
    assert found == pytest.approx([q**n * (1 - q) ** (8 - n) for n in taking], abs=1e-15)
    assert coins.open + coins.remainders[-1] == pytest.approx(65_536, abs=1e-9)


def tossed_at_once(crowd, size, rng):
    """Toss coins from one draw of all random bits: the definition."""
    count = len(crowd.sums) * size
    values = rng.integers(0, 1 << 64, size=-(-count // 4), dtype=np.uint64).view(np.uint16)[:count]
    patterns, undecided = crowd.settled[values], np.flatnonzero(values >= crowd.open)
    fresh = rng.random(len(undecided)) * crowd.remainders[-1]
    patterns[undecided] = np.searchsorted(crowd.remainders, fresh, side="right")
    total = np.zeros(size)
    for sums, pattern in zip(crowd.sums, patterns.reshape(-1, size), strict=True):
        total += sums[pattern]
    return total


@pytest.mark.parametrize(("users", "size"), [(0, 5), (1, 7), (9, 4096), (2100, 4096), (4000, 4001)])
def test_coins_tossed_in_blocks_are_those_of_one_draw(users, size):
    crowd = Crowd.of(np.random.default_rng(users).normal(size=users), 0.3)
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    assert np.array_equal(crowd.toss(size, one), tossed_at_once(crowd, size, other))
    assert one.random() == other.random()


def test_memory_of_a_batch_grows_by_a_byte_for_eight_coins():
    def peak(users):
        crowd = Crowd.of(np.ones(users), 0.1)
        tracemalloc.start()
        crowd.toss(4096, np.random.default_rng(0))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # Of 4,096 trials and eight more users, a byte a trial and the few that are undecided; in one draw, it was 11.
    assert (peak(32_000) - peak(16_000)) / (16_000 // 8 * 4096) < 1.5


def test_no_users_leave_the_noise_alone():
    _, canary, score, mechanism = setting(3)
    law = RoundLaw.of(score, csr_array((0, len(canary))), canary, mechanism)
    scores, _ = draw(Projected(law), 20_000, seed=1)
    assert abs(scores.mean() + law.offset) < 5 * law.noise / np.sqrt(20_000)


@pytest.mark.parametrize("engine", [Serial(), Threads(2), Threads(7), Processes(2)], ids=repr)
@pytest.mark.parametrize("kind", ["projected", "tail"])
def test_counts_do_not_depend_on_the_workers(engine, kind):
    users, canary, score, mechanism = setting(1)
    trials = source(kind, users, canary, score, mechanism)
    counts = count(trials, 1.0, 300_000, seed=11, path=("exact", 0), engine=engine)
    assert counts == count(trials, 1.0, 300_000, seed=11, path=("exact", 0), engine=Serial())
    assert counts.n0 == counts.n1 == 300_000


def test_other_addresses_and_seeds_give_other_counts():
    users, canary, score, mechanism = setting(1)
    trials = Projected(RoundLaw.of(score, users, canary, mechanism))
    draws = [(1, ("a", 0)), (1, ("a", 1)), (2, ("a", 0)), (1, ("b", 0))]
    assert len({count(trials, 0.0, 50_000, seed=seed, path=path) for seed, path in draws}) == 4


def test_scores_in_ascending_order_are_those_that_were_drawn():
    source, number = Projected(RoundLaw(np.array([0.5, -1.0]), 1.0, 1.0, 0.5, 0.3)), SHARD + 1000
    drawn, ordered = draw(source, number, seed=3), draw(source, number, seed=3, ascending=True)
    for each, sorted_each in zip(drawn, ordered, strict=True):
        assert np.array_equal(np.sort(each), sorted_each)
        assert not np.array_equal(each, sorted_each)


def test_the_hypotheses_share_no_randomness():
    # Were the noise shared, scores of the same shard would be almost perfectly correlated; independent ones exceed
    # 0.03 in absolute correlation over 40,000 pairs with probability below 1e-8.
    users, canary, score, mechanism = setting(2)
    for trials in (
        Projected(RoundLaw.of(score, users, canary, mechanism)),
        Literal(BankSystem(users, canary, mechanism), score),
    ):
        absent, eligible = draw(trials, 40_000, seed=4)
        assert abs(np.corrcoef(absent, eligible)[0, 1]) < 0.03


def test_shards_add_up_to_the_trials_in_any_order():
    shards = plan(1_000, size=300)
    assert sum(s.size for s in shards if s.eligible) == sum(s.size for s in shards if not s.eligible) == 1_000
    assert len({(s.eligible, s.block) for s in shards}) == len(shards) == 8
    counted = [(shard, shard.block + 10 * shard.eligible) for shard in shards]
    assert Counts.gather(counted) == Counts.gather(reversed(counted)) == Counts(tp=46, fp=6, n1=1_000, n0=1_000)


def test_no_trials_are_refused():
    with pytest.raises(CanarybankError, match="at least one trial"):
        plan(0)


def test_a_shard_has_one_stream_for_each_address():
    shard = Shard(eligible=True, block=3, size=10)
    same = partial(shard.stream, 5)
    assert same(("a",)).random() == same(("a",)).random() != same(("b",)).random()
    assert same(("a",)).random() != Shard(eligible=False, block=3, size=10).stream(5, ("a",)).random()
