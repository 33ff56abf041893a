import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.mechanism import Bank, Mechanism, Routed, RouteTable, contributions, route
from canarybank.users import Auxiliary, Evaluation, Users

MECHANISM = Mechanism(k=3, clip=0.2)


@pytest.fixture
def cohort() -> Auxiliary:
    rng = np.random.default_rng(1)
    return Auxiliary(Users.from_vectors([rng.normal(size=(rng.integers(1, 9), 4)) for _ in range(12)]))


@pytest.fixture
def bank() -> Bank:
    return Bank(np.random.default_rng(2).normal(size=(40, 4))).reserve(8, 3)


def test_keeps_the_cohort_and_its_role(cohort: Auxiliary, bank: Bank) -> None:
    routed = Routed.build(cohort, bank, 3)
    assert routed.cohort is cohort
    assert len(routed) == 12
    assert type(Routed.build(Evaluation(cohort.users), bank, 3).cohort) is Evaluation


def test_contributions_are_those_of_a_new_search(cohort: Auxiliary, bank: Bank) -> None:
    routed = Routed.build(cohort, bank, 3)
    for planted in (bank, bank.with_probes(np.random.default_rng(4).normal(size=(8, 4)))):
        users = cohort.users
        expected = contributions(route(users.vectors, planted, 3), users.owners, 12, 40, 0.2)
        assert np.array_equal(routed.contributions(planted, MECHANISM).toarray(), expected.toarray())


def test_a_longer_table_serves_a_smaller_k(cohort: Auxiliary, bank: Bank) -> None:
    longer, fitting = Routed.build(cohort, bank, 7), Routed.build(cohort, bank, 3)
    planted = bank.with_probes(np.random.default_rng(5).normal(size=(8, 4)))
    assert np.array_equal(
        longer.contributions(planted, MECHANISM).toarray(), fitting.contributions(planted, MECHANISM).toarray()
    )


def test_extended_routes_over_the_base_and_what_stands_behind_the_bank(cohort: Auxiliary, bank: Bank) -> None:
    pool = np.random.default_rng(6).normal(size=(15, 4)).astype(np.float32)
    found = Routed.build(cohort, bank, 3).extended(pool, MECHANISM).toarray()
    users = cohort.users
    routes = route(users.vectors, np.concatenate((bank.vectors[bank.base], pool)), 3)
    expected = contributions(routes, users.owners, 12, 32 + 15, 0.2).toarray()
    assert found.shape == (12, 55)
    assert np.array_equal(found[:, [*bank.base, *range(40, 55)]], expected)
    assert not found[:, list(bank.reserved)].any()


def test_refuses_a_table_of_other_records(cohort: Auxiliary, bank: Bank) -> None:
    table = RouteTable.build(np.ones((2, 4)), bank, 3)
    with pytest.raises(InputError, match="holds 2 records but the cohort has"):
        Routed(cohort, table)


def test_refuses_a_mechanism_that_needs_more_entries(cohort: Auxiliary, bank: Bank) -> None:
    routed = Routed.build(cohort, bank, 2)
    with pytest.raises(InputError, match="k = 3 entries but the table keeps 2; build it with k = 3"):
        routed.contributions(bank, MECHANISM)
    with pytest.raises(InputError, match="build it with k = 3"):
        routed.extended(np.ones((1, 4)), MECHANISM)


def test_refuses_users_without_vectors(bank: Bank) -> None:
    users = Users(ids=("a",), owners=np.array([0]), texts=("hello",))
    with pytest.raises(InputError, match="have no vectors"):
        Routed.build(Auxiliary(users), bank, 3)
