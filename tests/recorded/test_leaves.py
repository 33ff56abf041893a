"""Four commands give the figures that were recorded, from the seed addresses that were recorded."""

import copy
import json
import math

import pytest

from . import leaves

FIXTURES = {name: leaves.HERE / f"{name}.json" for name in leaves.COMMANDS}
SMALL = {
    "leaves": {"results.json/epsilon": 1.6845438143284648, "results.json/attacks/nonce/counts/tp": 313},
    "seeds": ["seeds/#0/nonce/#0/evaluation/absent/#0"],
}


@pytest.mark.parametrize("name", leaves.COMMANDS)
def test_every_recorded_leaf_and_seed_address_is_as_recorded(name, tmp_path):
    recorded, found = leaves.read_fixture(FIXTURES[name]), leaves.run(name, tmp_path)
    assert leaves.compare(recorded, found) == []
    differences = leaves.compare(recorded, found, changed={})
    idle = [pattern for pattern in leaves.CHANGED if leaves.concerns(pattern, recorded)]
    assert [pattern for pattern in idle if not leaves.excuses(pattern, differences)] == []


@pytest.mark.parametrize("name", leaves.COMMANDS)
def test_every_single_float_and_count_is_watched_to_the_last_bit(name):
    recorded = leaves.read_fixture(FIXTURES[name])
    mutant = recorded | {"leaves": {path: _next(value) for path, value in recorded["leaves"].items()}}
    assert _named(leaves.compare(recorded, mutant, renamed={}, exact=True)) == list(recorded["leaves"])


def _named(lines):
    return [line.partition(": was ")[0] for line in lines]


def _next(value):
    """Return a leaf with one number moved by the least that there is."""
    if isinstance(value, list):
        return [*value[:-1], _next(value[-1])]
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    return 0 if value is None else value + 1


@pytest.mark.parametrize("name", leaves.COMMANDS)
def test_on_any_machine_a_count_by_one_and_the_twelfth_digit_are_seen(name):
    recorded = leaves.read_fixture(FIXTURES[name])
    sharp = {
        path: value
        for path, value in recorded["leaves"].items()
        if isinstance(value, int) or (isinstance(value, float) and value and leaves.tolerance(path) <= 1e-12)
    }
    assert {type(value) for value in sharp.values()} == {int, float}
    mutant = recorded | {"leaves": recorded["leaves"] | {path: value + _unit(value) for path, value in sharp.items()}}
    assert _named(leaves.compare(recorded, mutant, renamed={}, exact=False)) == list(sharp)


def _unit(value):
    """Return one in the twelfth digit of a float, and one for a count."""
    return 1 if isinstance(value, int) else 10.0 ** (math.floor(math.log10(abs(value))) - 11)


def test_a_leaf_that_is_gone_is_named_and_a_new_one_is_no_difference():
    found = copy.deepcopy(SMALL)
    del found["leaves"]["results.json/epsilon"]
    found["leaves"]["results.json/new"] = 3
    assert leaves.compare(SMALL, found) == ["results.json/epsilon: was 1.6845438143284648, and is not written now"]


def test_a_seed_address_that_comes_or_goes_is_named():
    found = SMALL | {"seeds": ["seeds/#0/nonce/#0/evaluation/absent/#1"]}
    assert leaves.compare(SMALL, found) == [
        "seeds/#0/nonce/#0/evaluation/absent/#0: no longer asked for",
        "seeds/#0/nonce/#0/evaluation/absent/#1: asked for now, and not before",
    ]
    assert leaves.compare(SMALL, found, changed={"seeds/*/absent/*": "shards are counted from one"}) == []


def test_a_renamed_key_is_found_under_its_new_name():
    renamed = {"attacks/*/counts": "attacks/*/evidence/counts", "nonce/#0": "canary/nonce/#0"}
    found = {
        "leaves": {"results.json/epsilon": 1.6845438143284648, "results.json/attacks/nonce/evidence/counts/tp": 313},
        "seeds": ["seeds/#0/canary/nonce/#0/evaluation/absent/#0"],
    }
    assert leaves.compare(SMALL, found, renamed=renamed) == []
    assert len(leaves.compare(SMALL, found, renamed={})) == 3
    assert leaves.rename("results.json/nonce-norm/x", {"nonce": "other"}) == "results.json/nonce-norm/x"


def test_the_items_of_a_list_that_was_taken_apart_are_found_one_by_one():
    recorded = {"leaves": {"results.json/mu_eff": [0.5, 0.25]}, "seeds": []}
    renamed = {"mu_eff": "attacks/[i]/mu_eff"}
    found = {"leaves": {"results.json/attacks/0/mu_eff": 0.5, "results.json/attacks/1/mu_eff": 0.75}, "seeds": []}
    assert leaves.compare(recorded, found, renamed=renamed) == ["results.json/attacks/1/mu_eff: was 0.25, is 0.75"]
    del found["leaves"]["results.json/attacks/0/mu_eff"]
    assert len(leaves.compare(recorded, found, renamed=renamed)) == 2


@pytest.mark.parametrize("name", ["demo", "reproduce", "sweep"])
def test_the_names_of_audits_stay(name):
    recorded = leaves.read_fixture(FIXTURES[name])
    assert [path for path in recorded["leaves"] if leaves.rename(path, leaves.RENAMED) != path] == []


def test_a_figure_that_is_changed_on_purpose_is_excused_and_no_other():
    found = copy.deepcopy(SMALL)
    found["leaves"] = dict.fromkeys(found["leaves"], 2)
    (line,) = leaves.compare(SMALL, found, changed={"*/counts/tp": "the trials are drawn otherwise"})
    assert line.startswith("results.json/epsilon: was ")
    assert leaves.excuses("*/epsilon", [line])
    assert not leaves.excuses("*/counts/tp", [line])


def test_leaves_are_numbers_and_nulls_and_items_go_by_their_names():
    document = {
        "attacks": [{"attack": "exact", "epsilon": math.inf}, {"attack": "nonce", "epsilon": None}],
        "cells": [{"at": {"arm": "A", "attack": "exact"}, "rule": 1.5}],
        "counts": [[1, 2], [3]],
        "pairs": [["exact", 0.05]],
        "complete": True,
        "method": "paper",
    }
    assert dict(leaves.leaves(document, "d.json")) == {
        "d.json/attacks/exact/epsilon": math.inf,
        "d.json/attacks/nonce/epsilon": None,
        "d.json/cells/A,exact/rule": 1.5,
        "d.json/counts": [[1, 2], [3]],
        "d.json/pairs/0/1": 0.05,
    }


def test_a_fixture_holds_every_float_as_it_is_and_equal_lists_once(tmp_path):
    numbers = [0.1 + 0.2, math.inf, -math.inf, 5e-324, 7]
    recording = {"leaves": {"a": numbers, "b": numbers, "c": None, "d": math.nan}, "seeds": ["seeds/#0/x"]}
    leaves.write_fixture(tmp_path / "f.json", recording)
    read = leaves.read_fixture(tmp_path / "f.json")
    assert leaves.compare(recording, read, exact=True) == []
    assert read["leaves"]["b"] == numbers
    json.loads((tmp_path / "f.json").read_text(), parse_constant=pytest.fail)
