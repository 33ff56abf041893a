import pytest

from canarybank import attack
from canarybank.attack import ATTACKS, Attack, CanaryKind, PoolKind, Selection
from canarybank.errors import ConfigError, InputError
from canarybank.registry import SELECTIONS


def test_the_ten_stand_in_the_order_of_the_paper_and_each_new_one_after_those_it_betters() -> None:
    rows = {
        "ordinary": ("real", "none", "none"),
        "exact": ("real", "records", "all"),
        "paraphrase": ("real", "paraphrases", "spread"),
        "paraphrase-norm": ("real", "paraphrases", "greedy-norm"),
        "paraphrase-mueff": ("real", "paraphrases", "greedy-mueff"),
        "paraphrase-exact": ("real", "paraphrases", "greedy-exact"),
        "nonce": ("nonce", "nonces", "uniform"),
        "nonce-norm": ("nonce", "nonces", "greedy-norm"),
        "nonce-mueff": ("nonce", "nonces", "greedy-mueff"),
        "searched": ("nonce", "searched", "all"),
    }
    assert {name: (a.canary, a.pool, a.selection) for name, a in ATTACKS.items()} == rows
    assert list(ATTACKS) == list(rows)
    assert all(a.name == name and a.description for name, a in ATTACKS.items())
    assert [name for name, a in ATTACKS.items() if not a.active] == ["ordinary"]


def test_the_mapping_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ATTACKS["ordinary"] = ATTACKS["exact"]  # type: ignore[index]


def test_the_selections_are_the_built_in_rules() -> None:
    assert [each.value for each in Selection if each is not Selection.NONE] == list(SELECTIONS.places)
    assert all(a.pin_selection() is None for a in ATTACKS.values())


def test_a_rule_is_a_member_a_name_or_a_place() -> None:
    member = Attack("odd", CanaryKind.REAL, PoolKind.NONCES, Selection.UNIFORM)
    assert member == Attack("odd", CanaryKind.REAL, PoolKind.NONCES, "uniform")
    assert Attack("odd", CanaryKind.REAL, PoolKind.NONCES, "no_module:rule").selection == "no_module:rule"
    with pytest.raises(ConfigError, match=r"There is no selection 'unifrom'; did you mean 'uniform'\?"):
        Attack("odd", CanaryKind.REAL, PoolKind.NONCES, "unifrom")
    with pytest.raises(InputError, match="is a builtin_function_or_method; give the name of a registered rule"):
        Attack("odd", CanaryKind.REAL, PoolKind.NONCES, sorted)  # type: ignore[arg-type]


def test_a_recipe_that_cannot_run_is_refused() -> None:
    for pool, selection in ((PoolKind.NONE, Selection.ALL), (PoolKind.NONCES, Selection.NONE)):
        with pytest.raises(InputError, match="'odd' joins pool"):
            Attack("odd", CanaryKind.REAL, pool, selection)


def test_the_public_names_are_those_exported() -> None:
    assert all(hasattr(attack, name) for name in attack.__all__)
