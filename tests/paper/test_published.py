import pytest

from canarybank.experiment.config import ATTACK_NAMES
from canarybank.mechanism import Mechanism, epsilon
from canarybank.paper.published import ROUND_THEORY, THEORY, encoder_values, table_values


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
        for attack in ATTACK_NAMES
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
