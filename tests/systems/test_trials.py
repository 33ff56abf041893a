"""Hold what a schedule of trials released to its word: order, lost runs, rounds, canaries, and lengths that tell."""

import itertools

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import fisher_exact

from canarybank.errors import InputError
from canarybank.systems import Hypothesis, Leak, LengthCount, Releases, Split, Trial, playing

ABSENT, ELIGIBLE = Hypothesis
FIT, JUDGE = Split


def schedule(hypotheses, canary="a", split=JUDGE, start=1):
    return [Trial(run, hypothesis, canary, split) for run, hypothesis in enumerate(hypotheses, start)]


def always(make):
    def release(eligible, size, rng):
        del eligible, rng
        return make(size)

    return release


def numbered(eligible, size, rng):
    del rng
    return np.arange(size)[:, None] + (100.0 if eligible else 0.0)


def test_a_trial_takes_words_for_its_enumerations_and_no_others():
    assert Trial(1, "eligible", "a", "fit") == Trial(1, ELIGIBLE, "a", FIT)
    assert Trial(1, "eligible", "a", "fit").hypothesis is ELIGIBLE
    with pytest.raises(InputError, match="absent or eligible, and fit or judge"):
        Trial(1, "present", "a", "fit")
    with pytest.raises(InputError, match="at least 1"):
        Trial(0, ABSENT, "a", FIT)


def test_a_function_is_called_once_for_each_hypothesis_and_the_order_is_kept():
    calls = []

    def release(eligible, size, rng):
        calls.append((eligible, size))
        return numbered(eligible, size, rng)

    trials = schedule([ELIGIBLE, ABSENT, ABSENT, ELIGIBLE, ABSENT])
    found = playing(release).play(trials, np.random.default_rng(1))
    assert [observation[0][0] for observation in found] == [100, 0, 1, 101, 2]
    assert sorted(calls) == [(False, 3), (True, 2)]


def test_a_thing_with_play_is_played_as_it_is_and_one_with_release_is_adapted():
    class Plays:
        def play(self, trials, rng):
            del rng
            return [None for _ in trials]

    class ReleasesOnly:
        release = staticmethod(numbered)

    system = Plays()
    assert playing(system) is system
    trials = schedule([ABSENT, ELIGIBLE])
    assert playing(ReleasesOnly()).play(trials, np.random.default_rng(1))[1][0][0] == 100
    with pytest.raises(InputError, match="Plays is a class"):
        playing(Plays)
    with pytest.raises(InputError, match="neither play"):
        playing(3)


def test_a_block_is_rounds_and_a_list_may_be_ragged_and_hold_lost_runs():
    trials = schedule([ABSENT, ABSENT, ABSENT])
    block = playing(always(lambda size: np.ones((size, 2, 4)))).play(trials, np.random.default_rng(1))
    assert [tuple(map(len, found)) for found in block] == [(4, 4)] * 3
    ragged = playing(always(lambda _: [[1, 2], None, (np.ones(3), [4.0])]))
    found = Releases.of(trials, ragged.play(trials, np.random.default_rng(1)))
    assert found.lengths == ((2,), None, (3, 1))
    assert [trial.run for trial in found.lost] == [2]


def test_one_number_a_run_is_one_round_of_one_value():
    trials = schedule([ABSENT, ABSENT])
    found = playing(always(np.arange)).play(trials, np.random.default_rng(1))
    assert Releases.of(trials, found).table("a", ABSENT, JUDGE).tolist() == [[0], [1]]


def test_release_is_not_told_which_canary_so_two_are_refused():
    trials = schedule([ELIGIBLE]) + schedule([ELIGIBLE], canary="b", start=2)
    with pytest.raises(InputError, match=r"plant 2 canaries \(a, b\)"):
        playing(numbered).play(trials, np.random.default_rng(1))
    absent = schedule([ABSENT]) + schedule([ABSENT], canary="b", start=2)
    assert len(playing(numbered).play(absent, np.random.default_rng(1))) == 2


def test_too_few_releases_are_refused_in_words():
    with pytest.raises(InputError, match="returned 1 releases for 2 absent runs"):
        playing(always(lambda _: np.ones((1, 3)))).play(schedule([ABSENT] * 2), np.random.default_rng(1))


def test_tables_are_in_schedule_order_by_canary_hypothesis_and_split_with_rounds_joined():
    rng = np.random.default_rng(5)
    parts = itertools.product("ab", Hypothesis, Split, range(4))
    trials = [Trial(run, hypothesis, canary, split) for run, (canary, hypothesis, split, _) in enumerate(parts, 1)]
    mixed = [trials[place] for place in rng.permutation(len(trials))]
    releases = Releases.of(mixed, [(np.array([t.run, 0.5]), np.array([-t.run, 2.0])) for t in mixed])
    assert releases.canaries == ("a", "b")
    for canary, hypothesis, split in itertools.product("ab", Hypothesis, Split):
        runs = [t.run for t in trials if (t.canary, t.hypothesis, t.split) == (canary, hypothesis, split)]
        assert releases.table(canary, hypothesis, split).tolist() == [[run, 0.5, -run, 2.0] for run in runs]
        assert [t.run for t in releases.trials_of(canary, hypothesis, split)] == runs
    assert releases.leaks() == ()


def test_lost_runs_leave_no_row_and_are_listed():
    trials = schedule([ABSENT, ELIGIBLE, ABSENT])
    releases = Releases.of(trials, [None, np.array([1.0]), np.array([2.0])])
    assert releases.lost == (trials[0],)
    assert releases.table("a", ABSENT, JUDGE).tolist() == [[2.0]]
    assert releases.table("a", ABSENT, FIT).shape == (0, 1)
    everything_lost = Releases.of(trials, [None] * 3)
    assert everything_lost.table("a", ABSENT, JUDGE).shape == (0, 0)
    assert everything_lost.leaks() == ()


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ([np.array([1.0])], "1 observations of 2 trials"),
        ([np.array([1.0]), np.array([np.nan])], "Run 2 released NaN"),
        ([np.array([1.0]), (np.array([1.0]), np.array([np.inf]))], "Run 2 released NaN or an infinite"),
        ([np.array([1.0]), ["x"]], "Run 2 released something that is not a number"),
        ([np.ones((1, 1, 1)), np.array([1.0])], "Run 1 has shape"),
        ([(np.ones((1, 1)),), np.array([1.0])], "A round of run 1 has shape"),
    ],
)
def test_what_is_no_release_is_refused_with_its_run(observations, message):
    with pytest.raises(InputError, match=message):
        Releases.of(schedule([ABSENT, ELIGIBLE]), observations)


def test_a_run_that_stands_twice_is_refused():
    with pytest.raises(InputError, match="Run 1 stands more than once"):
        Releases.of(schedule([ABSENT]) * 2, [np.array([1.0])] * 2)


def test_ragged_runs_are_filled_with_zeros_to_the_width_of_their_own_canary():
    trials = schedule([ABSENT, ELIGIBLE]) + schedule([ABSENT, ELIGIBLE], canary="b", start=3)
    short, whole = (np.ones(2), np.ones(1)), (np.ones(2), np.ones(3))
    releases = Releases.of(trials, [short, whole, (np.ones(1),), (np.ones(1),)])
    assert releases.table("a", ABSENT, JUDGE).tolist() == [[1, 1, 1, 0, 0]]
    assert releases.table("a", ELIGIBLE, JUDGE).tolist() == [[1, 1, 1, 1, 1]]
    assert releases.table("b", ABSENT, JUDGE).tolist() == [[1]]
    assert [leak.canary for leak in releases.leaks()] == ["a"]


def test_a_round_that_is_missing_is_a_leak_and_no_error():
    trials = schedule([ABSENT, ELIGIBLE] * 10)
    observations = [(np.ones(2),) if trial.hypothesis is ABSENT else (np.ones(2), np.ones(2)) for trial in trials]
    releases = Releases.of(trials, observations)
    assert releases.table("a", ABSENT, JUDGE).tolist() == [[1, 1, 0, 0]] * 10
    (leak,) = releases.leaks()
    assert leak.is_certain
    assert "absent runs released 2 values (10 runs), eligible runs 2+2 values (10 runs)" in leak.statement


def leak_of(absent, eligible, alpha=0.05):
    counts = [LengthCount((length,), a, e) for length, (a, e) in enumerate(zip(absent, eligible, strict=True), 1)]
    return Leak("a", tuple(counts), alpha)


def test_two_lengths_are_fishers_exact_test():
    leak = leak_of([12, 3], [4, 11])
    # Twice the smaller tail, of which Fisher's own two-sided value sums the less likely outcomes only.
    one_sided = fisher_exact([[12, 3], [4, 11]], alternative="greater").pvalue
    assert leak.p_value == pytest.approx(2 * one_sided, rel=1e-12)
    assert leak.depends_on_canary
    assert not leak.is_certain


def test_lengths_that_never_overlap_are_certain_only_when_runs_are_enough():
    assert leak_of([20, 0], [0, 20]).is_certain
    assert "gives canary 'a' away" in leak_of([20, 0], [0, 20]).statement
    few = leak_of([1, 0], [0, 1])
    assert few.p_value == 1.0
    assert not few.is_certain
    assert "do not show" in few.statement


def test_the_test_keeps_its_level_exactly_whatever_the_lengths(count):
    """Over all ways to plant 5 of 10 runs, lengths being as they are, at most alpha are called dependent."""
    for lengths in (
        [1, 1, 1, 1, 1, 2, 2, 2, 2, 2],
        [1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
        list(range(10)),
        [1] * 7 + [2, 3, 4],
    ):
        chosen = list(itertools.combinations(range(10), 5))
        leaks = []
        for planted in chosen:
            trials = schedule([ELIGIBLE if place in planted else ABSENT for place in range(10)])
            leaks += Releases.of(trials, [np.ones(length) for length in lengths]).leaks(0.05)
        p_values = np.array([leak.p_value for leak in leaks])
        assert [leak.depends_on_canary for leak in leaks] == (p_values <= 0.05).tolist()
        for alpha in (0.01, 0.05, 0.2, 0.5):
            called = int((p_values <= alpha).sum())
            assert called <= alpha * len(chosen)
            count("length tests enumerated", plantings=len(chosen), called=called)


def test_a_shift_over_many_lengths_is_seen():
    rng = np.random.default_rng(3)
    trials = schedule([ABSENT, ELIGIBLE] * 500)
    sizes = [int(rng.integers(100, 400)) + (150 if trial.hypothesis is ELIGIBLE else 0) for trial in trials]
    (leak,) = Releases.of(trials, [np.ones(size) for size in sizes]).leaks()
    assert leak.depends_on_canary
    assert not leak.is_certain
    assert "other numbers" in leak.statement


def test_alpha_is_shared_by_the_canaries_and_a_leak_is_plain_data():
    trials = schedule([ABSENT, ELIGIBLE] * 2) + schedule([ABSENT, ELIGIBLE], canary="b", start=5)
    releases = Releases.of(trials, [np.ones(1), np.ones(2), np.ones(1), np.ones(2), np.ones(4), np.ones(4)])
    (leak,) = releases.leaks(alpha=0.05)
    assert leak.alpha == 0.025
    assert leak.counts == (LengthCount((1,), 2, 0), LengthCount((2,), 0, 2))
    adapter = TypeAdapter(Leak)
    assert adapter.validate_json(adapter.dump_json(leak)) == leak
