"""Hold what stands beside our cells: which numbers of the paper, of which table, in which order."""

import pytest

from canarybank.mechanism import Mechanism, epsilon
from canarybank.paper import DATASETS
from canarybank.paper.piece import ROUND_THEORY, THEORY, encoder_values, table_values

ATTACKS = (
    "ordinary",
    "exact",
    "paraphrase",
    "paraphrase-norm",
    "paraphrase-mueff",
    "nonce",
    "nonce-norm",
    "nonce-mueff",
)


def test_users_of_neither_dataset_are_shown_the_values_of_both_in_order():
    for attack in ATTACKS:
        for arm in "AB":
            apart = [value for dataset in DATASETS for value in table_values(dataset, arm, attack)]
            assert list(table_values(None, arm, attack)) == apart
    assert [(v.dataset, v.value) for v in encoder_values(None, "minilm-l12", "exact")] == [
        ("yelp", 0.357),
        ("sentiment140", 0.341),
    ]


def values(*found):
    return [value.value for value in found]


@pytest.mark.parametrize(
    ("dataset", "attack", "both"),
    [
        ("yelp", "ordinary", [0.268, 0.247]),
        ("yelp", "exact", [0.371, 0.313]),
        ("yelp", "nonce", [1.049, 1.038]),
        ("sentiment140", "ordinary", [0.252, 0.475]),
        ("sentiment140", "nonce", [1.052, 1.018]),
    ],
)
def test_where_the_tables_differ_both_stand(dataset, attack, both):
    found = table_values(dataset, "A", attack)
    assert values(*found) == both
    assert [value.table for value in found] == ["main table", "full table"]


def test_elsewhere_one_number_stands_for_both_tables():
    single = [
        attack
        for dataset in ("yelp", "sentiment140")
        for attack in ATTACKS
        if len(table_values(dataset, "A", attack)) == 1
    ]
    assert len(single) == 11
    assert values(*table_values("yelp", "A", "nonce-norm")) == [1.110]


def test_arm_b_stands_in_the_full_table_alone():
    assert values(*table_values("sentiment140", "B", "paraphrase-mueff")) == [0.932]
    assert values(*table_values("yelp", "B", "nonce-mueff")) == [0.958]


def test_other_users_are_shown_both_datasets():
    assert {value.dataset for value in table_values(None, "A", "exact")} == {"yelp", "sentiment140"}


def test_encoders():
    assert values(*encoder_values("sentiment140", "mpnet", "exact")) == [0.245]
    assert values(*encoder_values("yelp", "minilm-l12", "nonce")) == [1.105]
    assert encoder_values("yelp", "minilm", "nonce-norm") == ()
    assert encoder_values("yelp", "wordllama", "nonce") == ()


def test_the_theory_is_the_exact_epsilon_plus_an_accountants_band_of_a_hundredth():
    assert pytest.approx(epsilon(Mechanism()) + 0.0105, abs=1e-3) == THEORY
    exact = [epsilon(Mechanism(sigma=1.1088), rounds) for rounds in range(1, 7)]
    assert list(ROUND_THEORY) == pytest.approx([value + 0.0103 for value in exact], abs=1e-3)


def test_an_attack_that_the_paper_does_not_have_has_no_number():
    assert table_values(None, "A", "ninth") == table_values("yelp", "B", "ninth") == ()
    assert encoder_values(None, "minilm", "ninth") == ()
