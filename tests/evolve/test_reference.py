import numpy as np
import pytest

from canarybank.errors import CohortError
from canarybank.evolve.reference import Reference, hold_out, require_apart
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation, Users

PEOPLE = Users.from_vectors({f"u{i}": np.full((2, 3), float(i)) for i in range(12)})


def test_held_out_users_are_in_no_other_role() -> None:
    rest, reference = hold_out(PEOPLE, 4, seed=3)
    assert len(reference) == 4
    assert len(rest) == 8
    assert set(rest.ids) | set(reference.users.ids) == set(PEOPLE.ids)
    assert [name for name in PEOPLE.ids if name in rest.ids] == list(rest.ids)
    cohorts = Cohorts(
        Auxiliary(rest.take([0, 1])),
        Calibration(rest.take([2])),
        Evaluation(rest.take([3, 4])),
        {"exact": rest.take([5])},
    )
    assert require_apart(reference, cohorts) is reference
    assert require_apart(reference, rest) is reference


def test_who_is_held_out_follows_from_seed_and_id_alone() -> None:
    first = hold_out(PEOPLE, 4, seed=3)[1]
    turned = hold_out(PEOPLE.take(range(11, -1, -1)), 4, seed=3)[1]
    assert set(first.users.ids) == set(turned.users.ids)
    assert set(first.users.ids) != set(hold_out(PEOPLE, 4, seed=4)[1].users.ids)


@pytest.mark.parametrize("role", ["auxiliary", "calibration", "evaluation", "canaries of exact"])
def test_a_shared_user_is_refused_by_the_role_it_has(role: str) -> None:
    taken = {name: PEOPLE.take([i]) for i, name in enumerate(("auxiliary", "calibration", "evaluation", "canaries"))}
    cohorts = Cohorts(
        Auxiliary(taken["auxiliary"]),
        Calibration(taken["calibration"]),
        Evaluation(taken["evaluation"]),
        {"exact": taken["canaries"]},
    )
    shared = taken[role.split(maxsplit=1)[0]]
    with pytest.raises(CohortError, match=f"{role} share 1 users, '{shared.ids[0]}'"):
        require_apart(Reference(shared), cohorts)


def test_what_is_no_reference_is_refused() -> None:
    with pytest.raises(CohortError, match="not a Evaluation"):
        require_apart(Evaluation(PEOPLE), PEOPLE)  # type: ignore[arg-type]
    with pytest.raises(CohortError, match="users of the run share 12"):
        require_apart(Reference(PEOPLE), PEOPLE)
    for size in (0, 12):
        with pytest.raises(CohortError, match="hold out at least one"):
            hold_out(PEOPLE, size, seed=0)
