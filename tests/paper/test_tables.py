import json

import pytest

from canarybank.errors import CanarybankError, ConfigError, MissingError
from canarybank.experiment import Run
from canarybank.paper import Scale, make_piece, read_piece, write_piece
from canarybank.paper.tables import _short_names, encoders_table
from canarybank.store import read_checked, read_json, write_checked, write_json


def test_the_main_table_holds_every_figure_of_its_run(order):
    asked = order()
    piece = make_piece("main", asked)
    results = Run.open(asked.folder / "arm-a").results
    assert [cell.at["attack"] for cell in piece.cells] == ["ordinary", "nonce-norm"]
    for cell, record in zip(piece.cells, results.attacks, strict=True):
        assert cell.observed == record.headline.epsilon
        assert (cell.exact, cell.rule) == (record.ladder.attack.epsilon, record.ladder.rule.epsilon)
        assert cell.explained is not None
        assert cell.is_explained
    assert {value.dataset for value in piece.cells[0].paper} == {"yelp", "sentiment140"}
    assert any("scaled down" in note for note in piece.notes)
    assert "by the paper's rule" in piece.about
    assert read_piece(asked.folder / "main.json") == piece


def test_made_again_it_is_the_same_and_plays_nothing(order, monkeypatch):
    asked = order()
    first = make_piece("main", asked)
    before = (asked.folder / "main.json").read_bytes()
    monkeypatch.setattr("canarybank.paper.spreads.frozen_audit", None)
    monkeypatch.setattr("canarybank.experiment.running.play", None)
    assert make_piece("main", asked) == first
    assert (asked.folder / "main.json").read_bytes() == before


def test_an_interval_that_was_computed_in_an_earlier_way_is_computed_again(order):
    asked = order()
    piece = make_piece("main", asked)
    (kept,) = (asked.folder / "spreads").rglob("*.json")
    document = read_checked(kept)
    document["attacks"] = {name: [0.0, 9.0] for name in document["attacks"]}
    write_checked(kept, document)
    assert {cell.explained.high for cell in make_piece("main", asked).cells} == {9.0}
    write_checked(kept, document | {"way": 1})
    assert make_piece("main", asked) == piece


@pytest.mark.parametrize("broken", [[], {"attacks": {}}, {"attacks": {"ordinary": 3}}, {"attacks": None}])
def test_an_interval_whose_file_is_not_as_it_was_written_is_computed_again(order, broken):
    asked = order()
    piece = make_piece("main", asked)
    (kept,) = (asked.folder / "spreads").rglob("*.json")
    write_json(kept, read_json(kept) | broken if isinstance(broken, dict) else broken)
    assert make_piece("main", asked) == piece


def test_another_method_than_the_papers_is_said_to_be_another(order):
    other = make_piece("main", order(flags={"audit.method": "joint", "audit.threshold": "analytic"})).about
    assert "by the method joint, not the paper's rule" in other


def test_thresholds_by_law_have_an_interval_without_another_walk(order, monkeypatch):
    monkeypatch.setattr("canarybank.paper.spreads.frozen_audit", None)
    piece = make_piece("main", order(flags={"audit.threshold": "analytic"}))
    assert all(cell.is_explained for cell in piece.cells)


def test_a_bound_outside_the_interval_is_flagged(order):
    cell = make_piece("main", order()).cells[1]
    assert cell.model_copy(update={"observed": cell.explained.high + 0.1}).is_explained is False
    assert cell.explains(cell.explained.low) is True
    assert cell.explains(cell.explained.low - 0.1) is False


def test_both_arms_and_the_run_of_the_first_is_shared(order, world):
    asked = order(bank_b=str(world / "bank.csv"))
    make_piece("main", asked)
    before = (asked.folder / "arm-a" / "manifest.json").read_bytes()
    piece = make_piece("full", asked)
    assert (asked.folder / "arm-a" / "manifest.json").read_bytes() == before
    assert {cell.at["arm"] for cell in piece.cells} == {"A", "B"}
    assert [value.value for value in piece.cells[-1].paper] == [1.120, 1.063]


def test_the_bank_of_each_arm_is_stated_where_they_differ(order, tmp_path):
    (tmp_path / "other.txt").write_text("\n".join(f"soup and bread {i}" for i in range(90)) + "\n")
    setup = make_piece("full", order(bank_b=str(tmp_path / "other.txt"))).setup
    assert setup["bank"].startswith("arm A: ")
    assert setup["bank"].endswith("from bank.csv; arm B: 90 entries, 12 positions for probes, from other.txt")
    assert "sigma 1, q 0.1, delta 1e-05, exact epsilon 1.68" in setup["mechanism"]


@pytest.mark.parametrize(
    ("given", "more", "match"),
    [
        ({}, {}, "--bank-b"),
        ({"generator.kind": "smollm2"}, {}, "no labels are declared"),
        ({"bank.size": 30}, {"bank_b": "nowhere.csv"}, "nowhere"),
        ({"generator.kind": "smollm2", "bank.labels": "talk"}, {"prompt_b": "bank-label"}, "shows no examples"),
    ],
)
def test_an_arm_without_a_bank_is_refused_before_anything_is_played(order, monkeypatch, given, more, match):
    monkeypatch.setattr("canarybank.paper.tables.run_audit", None)
    with pytest.raises(CanarybankError, match=match):
        make_piece("full", order(flags={"cohorts.evaluation": 4} | given, **more))


def test_encoders_that_are_not_here_are_named(order, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    piece = encoders_table(order(encoders=("hashing", "nobody/nothing", "hashing")))
    assert {cell.at["encoder"] for cell in piece.cells} == {"hashing"}
    assert [cell.at["attack"] for cell in piece.cells] == ["ordinary", "exact", "nonce"]
    assert any("nothing is not here" in note for note in piece.notes)
    assert not any("The encoder is" in note for note in piece.notes)
    with pytest.raises(MissingError):
        encoders_table(order(encoders=("nobody/nothing",)))


def test_small_cohorts_leave_room_for_the_canaries_of_the_table_of_encoders(order):
    asked = order(encoders=("hashing",), scale=Scale.SMALL, flags={"attack.names": "nonce", "audit.trials": 300})
    assert "6 calibration, 6 auxiliary, 2 canaries an attack" in encoders_table(asked).setup["users"]


def test_a_table_of_no_encoders_is_refused(order):
    with pytest.raises(ConfigError, match="--encoders names none"):
        encoders_table(order(encoders=()))


def test_a_piece_is_the_same_bytes_however_often_it_is_written(order, tmp_path):
    piece = make_piece("main", order())
    first = write_piece(piece, tmp_path).read_bytes()
    assert write_piece(read_piece(tmp_path / "main.json"), tmp_path).read_bytes() == first
    assert json.loads(first)["statement"].startswith("This holds statistics")


def test_encoders_whose_folders_end_alike_have_names_of_their_own():
    names = ("minilm", "/a/model", "/b/model", "minilm", "/c/model")
    assert _short_names(names) == {
        "minilm": "minilm",
        "/a/model": "model",
        "/b/model": "model-2",
        "/c/model": "model-3",
    }
