import pytest

from canarybank import attack
from canarybank.attack import ATTACKS, Attack, CanaryKind, Objective, PoolKind, Selection
from canarybank.errors import InputError


def test_the_eight_stand_in_the_order_of_the_paper() -> None:
    rows = {
        "ordinary": ("real", "none", "none"),
        "exact": ("real", "records", "all"),
        "paraphrase": ("real", "paraphrases", "spread"),
        "paraphrase-norm": ("real", "paraphrases", "greedy-norm"),
        "paraphrase-mueff": ("real", "paraphrases", "greedy-mueff"),
        "nonce": ("nonce", "nonces", "uniform"),
        "nonce-norm": ("nonce", "nonces", "greedy-norm"),
        "nonce-mueff": ("nonce", "nonces", "greedy-mueff"),
    }
    assert {name: (a.canary, a.pool, a.selection) for name, a in ATTACKS.items()} == rows
    assert list(ATTACKS) == list(rows)
    assert all(a.name == name and a.description for name, a in ATTACKS.items())
    assert [name for name, a in ATTACKS.items() if not a.active] == ["ordinary"]


def test_the_mapping_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ATTACKS["ordinary"] = ATTACKS["exact"]  # type: ignore[index]


def test_greedy_selections_know_their_objective() -> None:
    assert Selection.GREEDY_NORM.objective is Objective.NORM
    assert Selection.GREEDY_MUEFF.objective is Objective.MUEFF
    assert Selection.UNIFORM.objective is None


def test_a_recipe_that_cannot_run_is_refused() -> None:
    for pool, selection in ((PoolKind.NONE, Selection.ALL), (PoolKind.NONCES, Selection.NONE)):
        with pytest.raises(InputError, match="'odd' joins pool"):
            Attack("odd", CanaryKind.REAL, pool, selection)


def test_the_public_names_are_those_exported() -> None:
    assert all(hasattr(attack, name) for name in attack.__all__)
