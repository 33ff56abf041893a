import pickle
import re
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canarybank.errors import CohortError
from canarybank.users import Auxiliary, Calibration, Cohorts, CohortSizes, Evaluation, Users, draw_cohorts

SIZES = CohortSizes(auxiliary=5, calibration=6, evaluation=7, canaries=2)
ATTACKS = ("ordinary", "exact", "paraphrase")


def _roles(cohorts: Cohorts) -> dict[str, tuple[str, ...]]:
    return {
        "auxiliary": cohorts.auxiliary.users.ids,
        "calibration": cohorts.calibration.users.ids,
        "evaluation": cohorts.evaluation.users.ids,
    }


def _all_ids(cohorts: Cohorts) -> dict[str, tuple[str, ...]]:
    return _roles(cohorts) | {attack: users.ids for attack, users in cohorts.canaries.items()}


@given(seed=st.integers(0, 2**32), order=st.permutations(range(30)), shared=st.booleans())
@settings(max_examples=40)
def test_roles_do_not_depend_on_the_order_of_users(seed: int, order: list[int], *, shared: bool) -> None:
    counts = [i % 3 + 3 for i in range(30)]
    owners = np.repeat(np.arange(30), counts)
    users = Users(tuple(f"u{i}" for i in range(30)), owners, tuple(map(str, range(len(owners)))))
    draw = {"attacks": ATTACKS, "records": 4, "seed": seed, "shared": shared}
    one, other = draw_cohorts(users, SIZES, **draw), draw_cohorts(users.take(order), SIZES, **draw)
    assert _all_ids(one) == _all_ids(other)
    assert one.evaluation.users.texts == other.evaluation.users.texts
    for left, right in combinations(_roles(one).values(), 2):
        assert not set(left) & set(right)
    canaries = {name for chosen in one.canaries.values() for name in chosen.ids}
    assert not canaries & {name for ids in _roles(one).values() for name in ids}
    assert all((chosen.counts == 4).all() and len(chosen) == 2 for chosen in one.canaries.values())


def test_sizes_are_as_asked(people: Callable[..., Users]) -> None:
    cohorts = draw_cohorts(people([4] * 40), SIZES, attacks=ATTACKS, records=4, seed=1)
    assert (len(cohorts.auxiliary), len(cohorts.calibration), len(cohorts.evaluation)) == (5, 6, 7)


def test_an_attacks_canaries_do_not_depend_on_the_other_attacks(people: Callable[..., Users]) -> None:
    users = people([4] * 60)
    alone = draw_cohorts(users, SIZES, attacks=["exact"], records=4, seed=1)
    together = draw_cohorts(users, SIZES, attacks=ATTACKS, records=4, seed=1)
    assert alone.canaries["exact"].ids == together.canaries["exact"].ids
    assert len({chosen.ids for chosen in together.canaries.values()}) == 3


def test_independent_sets_may_share_a_canary_as_often_as_chance_has_it(people: Callable[..., Users]) -> None:
    # Two independent pairs out of four users are disjoint with probability 1/6: over 600 seeds 100 are expected,
    # and 60 to 145 happen with probability above 1 - 1e-4.
    users = people([4] * 4 + [3] * 18)
    draws = (draw_cohorts(users, SIZES, attacks=["a", "b"], records=4, seed=s).canaries for s in range(600))
    disjoint = sum(not set(d["a"].ids) & set(d["b"].ids) for d in draws)
    assert 60 <= disjoint <= 145


def test_every_user_is_equally_likely_to_be_a_canary(people: Callable[..., Users]) -> None:
    # 1,000 draws of 2 from 10: each user is expected 200 times with sd 12.6; 5 sd either side fails below 1e-5.
    users = people([4] * 10 + [3] * 18)
    drawn = [draw_cohorts(users, SIZES, attacks=["a"], records=4, seed=s).canaries["a"].ids for s in range(1000)]
    times = [sum(name in ids for ids in drawn) for name in users.ids[:10]]
    assert min(times) > 137
    assert max(times) < 263


def test_shared_gives_one_set_to_all(people: Callable[..., Users]) -> None:
    cohorts = draw_cohorts(people([4] * 20), SIZES, attacks=ATTACKS, records=4, seed=1, shared=True)
    assert list(cohorts.canaries) == list(ATTACKS)
    assert len({chosen.ids for chosen in cohorts.canaries.values()}) == 1


def test_seeds_differ(people: Callable[..., Users]) -> None:
    users = people([4] * 40)
    one, other = (draw_cohorts(users, SIZES, attacks=ATTACKS, records=4, seed=s) for s in (1, 2))
    assert _roles(one)["evaluation"] != _roles(other)["evaluation"]


def test_without_attacks_nobody_stands_aside(people: Callable[..., Users]) -> None:
    cohorts = draw_cohorts(people([1] * 18), SIZES, attacks=[], records=64, seed=1)
    assert cohorts.canaries == {}


def test_too_few_users_shows_the_arithmetic(people: Callable[..., Users]) -> None:
    with pytest.raises(CohortError) as caught:
        draw_cohorts(people([4] * 19), SIZES, attacks=["a"], records=4, seed=1)
    assert "19 users: 2 canaries leave 17" in str(caught.value)
    assert "5 auxiliary + 6 calibration + 7 evaluation = 18" in str(caught.value)


def test_too_few_full_users_shows_the_arithmetic(people: Callable[..., Users]) -> None:
    with pytest.raises(CohortError, match="There are 1 users with exactly 4 records, but a set of canaries needs 2"):
        draw_cohorts(people([4] + [3] * 40), SIZES, attacks=["a"], records=4, seed=1)


def test_an_attack_named_twice_is_refused(people: Callable[..., Users]) -> None:
    with pytest.raises(CohortError, match="twice"):
        draw_cohorts(people([4] * 40), SIZES, attacks=["a", "a"], records=4, seed=1)


@pytest.mark.parametrize("name", ["auxiliary", "calibration", "evaluation", "canaries"])
def test_a_cohort_holds_somebody(name: str) -> None:
    with pytest.raises(CohortError, match=f"The {name} cohort needs at least one user, not 0"):
        CohortSizes(**{name: 0})


def test_fit_takes_the_largest_that_there_is_room_for(people: Callable[..., Users]) -> None:
    assert CohortSizes.fit(450) == CohortSizes(111, 111, 222, 5)
    assert CohortSizes.fit(450, sets=5) == CohortSizes(106, 106, 212, 5)
    assert CohortSizes.fit(10**6) == CohortSizes()
    sizes = CohortSizes.fit(22, canaries=2, sets=3)
    assert sizes == CohortSizes(4, 4, 8, 2)
    draw_cohorts(people([4] * 22), sizes, attacks=ATTACKS, records=4, seed=1)
    with pytest.raises(CohortError, match="8 users less 1 sets of 5 canaries leave 3"):
        CohortSizes.fit(8)


@pytest.mark.parametrize(
    ("users", "canaries", "sets", "fix"),
    [
        (8, 5, 1, "use at least 9 users, or fewer canaries: --cohorts.canaries 4."),
        (10, 5, 2, "use at least 14 users, or fewer canaries: --cohorts.canaries 3."),
        (3, 5, 2, "use at least 14 users, or at least 6 with one canary in each set: --cohorts.canaries 1."),
        (3, 1, 2, "use at least 6 users."),
        (3, 5, 0, "use at least 4 users."),
    ],
)
def test_too_few_users_are_told_what_would_do(users: int, canaries: int, sets: int, fix: str) -> None:
    with pytest.raises(CohortError) as caught:
        CohortSizes.fit(users, canaries=canaries, sets=sets)
    assert str(caught.value).endswith(f"; {fix}")
    least = int(re.search(r"at least (\d+) users", fix)[1])  # type: ignore[index]
    assert CohortSizes.fit(least, canaries=canaries, sets=sets).evaluation == 2
    if fewer := re.search(r"fewer canaries: --cohorts.canaries (\d+)", fix):
        assert CohortSizes.fit(users, canaries=int(fewer[1]), sets=sets).canaries == int(fewer[1])


def test_a_cohort_never_plays_anothers_role(people: Callable[..., Users]) -> None:
    users = people([1] * 3)
    one, two, three = (users.take([i]) for i in range(3))
    with pytest.raises(CohortError, match="auxiliary cohort must be of type Auxiliary, not Evaluation"):
        Cohorts(Evaluation(one), Calibration(two), Evaluation(three))  # type: ignore[arg-type]
    with pytest.raises(CohortError, match="cohorts auxiliary and evaluation share 1 users, 'u000'"):
        Cohorts(Auxiliary(one), Calibration(two), Evaluation(one))
    with pytest.raises(CohortError, match="canaries of exact and the cohort calibration share 1 users"):
        Cohorts(Auxiliary(one), Calibration(two), Evaluation(three), {"exact": two})


def test_cohorts_travel_between_processes(people: Callable[..., Users]) -> None:
    cohorts = draw_cohorts(people([4] * 40), SIZES, attacks=ATTACKS, records=4, seed=1)
    assert _all_ids(pickle.loads(pickle.dumps(cohorts))) == _all_ids(cohorts)  # noqa: S301, our own bytes


def test_only_those_who_play_a_role_are_encoded_each_with_their_own_vectors() -> None:
    owners = np.repeat(np.arange(40), 4)
    users = Users(tuple(f"u{i}" for i in range(40)), owners, tuple(f"{i}" for i in range(160)))
    cohorts = draw_cohorts(users, SIZES, attacks=ATTACKS, records=4, seed=1)
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray:
        asked.extend(texts)
        return np.array([[float(text), 1.0] for text in texts])

    encoded = cohorts.encoded(encode)
    assert _all_ids(encoded) == _all_ids(cohorts)
    members = {name for ids in _all_ids(cohorts).values() for name in ids}
    assert set(asked) == {text for text, i in zip(users.require_texts(), owners, strict=True) if f"u{i}" in members}
    assert 0 < len(members) < 40
    for group in (encoded.auxiliary.users, encoded.evaluation.users, *encoded.canaries.values()):
        assert group.require_vectors()[:, 0].tolist() == [float(text) for text in group.require_texts()]
