import json
from dataclasses import replace

import pytest
from watched import Watched

from canarybank.config import resolve
from canarybank.errors import CanarybankError, CohortError, ConfigError, MissingError
from canarybank.flow import Axis, grid, run_sweep
from canarybank.paper import PIECES, Order, finished_pieces, make_all, make_piece, read_piece, sweep_piece, write_piece
from canarybank.paper.pieces import GRIDS, ablation_settings, published_name, short_names
from canarybank.run import Run
from canarybank.store import read_checked, read_json, write_checked, write_json

ALONE = {"attack.names": "nonce-norm", "cohorts.canaries": 1}
BY_LAW = {"audit.threshold": "analytic"}
"""Thresholds whose intervals need no other calibrations, where the interval is not what is tested."""


@pytest.fixture(scope="module")
def main_table(flags, tmp_path_factory):
    """Make the main table once: the order, the piece, and the stages that were seen."""
    watched, given = Watched(), {"data": flags["users.source"], "bank": flags["bank.source"]}
    asked = Order(resolve(flags=flags), tmp_path_factory.mktemp("main") / "rep", **given, progress=watched)
    piece = make_piece("main", asked)
    return asked, piece, set(watched.stages)


def test_the_main_table_holds_every_figure_of_its_run(main_table):
    asked, piece, _ = main_table
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


def test_made_again_it_is_the_same_and_plays_nothing(main_table):
    asked, first, stages = main_table
    assert {"trials", "sampling"} <= stages
    before, watched = (asked.folder / "main.json").read_bytes(), Watched()
    assert make_piece("main", replace(asked, progress=watched)) == first
    assert not {"trials", "sampling"} & set(watched.stages)
    assert (asked.folder / "main.json").read_bytes() == before


def test_an_interval_that_was_computed_in_an_earlier_way_is_computed_again(order):
    asked = order(flags=ALONE)
    piece = make_piece("main", asked)
    (kept,) = (asked.folder / "spreads").rglob("*.json")
    document = read_checked(kept)
    document["attacks"] = {name: [0.0, 9.0] for name in document["attacks"]}
    write_checked(kept, document)
    assert {cell.explained.high for cell in make_piece("main", asked).cells} == {9.0}
    write_checked(kept, document | {"way": 1})
    assert make_piece("main", asked) == piece


@pytest.mark.parametrize("broken", [[], {"attacks": {"nonce-norm": 3}}])
def test_an_interval_whose_file_is_not_as_it_was_written_is_computed_again(order, broken):
    asked = order(flags=ALONE)
    piece = make_piece("main", asked)
    (kept,) = (asked.folder / "spreads").rglob("*.json")
    write_json(kept, read_json(kept) | broken if isinstance(broken, dict) else broken)
    assert make_piece("main", asked) == piece


def test_another_method_than_the_papers_is_said_to_be_another(order):
    other = make_piece("main", order(flags=ALONE | BY_LAW | {"audit.method": "joint"})).about
    assert "by the method joint, not the paper's rule" in other


def test_thresholds_by_law_have_an_interval_without_another_walk(order):
    watched = Watched()
    piece = make_piece("main", order(flags={"audit.threshold": "analytic"}, progress=watched))
    assert all(cell.is_explained for cell in piece.cells)
    assert "sampling" not in watched.stages


def test_a_bound_outside_the_interval_is_flagged(main_table):
    cell = main_table[1].cells[1]
    assert cell.model_copy(update={"observed": cell.explained.high + 0.1}).is_explained is False
    assert cell.explains(cell.explained.low) is True
    assert cell.explains(cell.explained.low - 0.1) is False


def test_both_arms_and_the_run_of_the_first_is_shared(order, world):
    asked = order(bank_b=str(world / "bank.csv"), flags=BY_LAW)
    make_piece("main", asked)
    before = (asked.folder / "arm-a" / "manifest.json").read_bytes()
    piece = make_piece("full", asked)
    assert (asked.folder / "arm-a" / "manifest.json").read_bytes() == before
    assert {cell.at["arm"] for cell in piece.cells} == {"A", "B"}
    assert [value.value for value in piece.cells[-1].paper] == [1.120, 1.063]


def test_the_bank_of_each_arm_is_stated_where_they_differ(order, tmp_path):
    (tmp_path / "other.txt").write_text("\n".join(f"soup and bread {i}" for i in range(90)) + "\n")
    setup = make_piece("full", order(bank_b=str(tmp_path / "other.txt"), flags=BY_LAW)).setup
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
def test_an_arm_without_a_bank_is_refused_before_anything_is_played(order, given, more, match):
    asked = order(flags={"cohorts.evaluation": 4} | given, **more)
    with pytest.raises(CanarybankError, match=match):
        make_piece("full", asked)
    assert not (asked.folder / "arm-a").exists()


def test_encoders_that_are_not_here_are_named(order, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    piece = make_piece("encoders", order(encoders=("hashing", "nobody/nothing", "hashing"), flags=BY_LAW))
    assert {cell.at["encoder"] for cell in piece.cells} == {"hashing"}
    assert [cell.at["attack"] for cell in piece.cells] == ["ordinary", "exact", "nonce"]
    assert any("nothing is not here" in note for note in piece.notes)
    assert not any("The encoder is" in note for note in piece.notes)
    with pytest.raises(MissingError):
        make_piece("encoders", order(encoders=("nobody/nothing",)))


def test_small_cohorts_leave_room_for_the_canaries_of_the_table_of_encoders(order):
    asked = order(encoders=("hashing",), small=True, flags={"attack.names": "nonce", "audit.trials": 300})
    assert "6 calibration, 6 auxiliary, 2 canaries an attack" in make_piece("encoders", asked).setup["users"]


def test_a_table_of_no_encoders_is_refused(order):
    with pytest.raises(ConfigError, match="--encoders names none"):
        make_piece("encoders", order(encoders=()))


def test_a_piece_is_the_same_bytes_however_often_it_is_written(main_table, tmp_path):
    first = write_piece(main_table[1], tmp_path).read_bytes()
    assert write_piece(read_piece(tmp_path / "main.json"), tmp_path).read_bytes() == first
    assert json.loads(first)["statement"].startswith("This holds statistics")


def test_encoders_whose_folders_end_alike_have_names_of_their_own():
    names = ("minilm", "/a/model", "/b/model", "minilm", "/c/model", "/d/model-2")
    assert short_names(names) == {
        "minilm": "minilm",
        "model": "/a/model",
        "model-2": "/b/model",
        "model-3": "/c/model",
        "model-2-2": "/d/model-2",
    }


def test_the_pieces_stand_in_the_papers_order():
    assert list(PIECES) == ["main", "full", "ablations", "multiround", "encoders"]


def test_nothing_is_finished_before_it_is_made(order):
    assert finished_pieces(order()) == ()


def test_all_names_what_it_leaves_out_but_not_when_nothing_can_be_made(order, tmp_path):
    asked = order(encoders=(), small=True, flags=BY_LAW | {"cohorts.canaries": 1, "audit.trials": 300})
    pieces, left = make_all(asked)
    assert [each.name for each in pieces] == ["main", "ablations"]
    assert [note.partition(" ")[0] for note in left] == ["full", "multiround", "encoders"]
    assert left[0].startswith("full was left out: Arm B is a bank")
    assert [each.name for each in finished_pieces(asked)] == ["main", "ablations"]
    with pytest.raises(CohortError):
        make_all(order(tmp_path / "none", flags={"cohorts.evaluation": 10**6}))


def test_a_small_figure_sweeps_over_sigma_and_q_with_one_canary(order):
    piece = make_piece("ablations", order(small=True, flags={"cohorts.canaries": 1, "audit.trials": 500}))
    places = {(cell.at["axis"], cell.at["value"]) for cell in piece.cells}
    assert places == {("sigma", 0.5), ("sigma", 1.0), ("sigma", 2.0), ("q", 0.05), ("q", 0.1), ("q", 0.3)}
    assert {cell.canaries for cell in piece.cells} == {1}
    sigmas = [cell for cell in piece.cells if cell.at["axis"] == "sigma"]
    nonce = {cell.at["value"]: cell.exact for cell in sigmas if cell.at["attack"] == "nonce-norm"}
    assert nonce[0.5] > nonce[1.0] > nonce[2.0]
    assert all(cell.is_explained for cell in piece.cells)
    assert "not published as a number" in piece.about
    assert piece.unpublished
    assert "sigma 0.5, 1, 2" in piece.about
    assert piece.setup["mechanism"] == "k 3, clip 0.1, delta 1e-05"
    assert any("the paper has 5,000,000" in note for note in piece.notes)
    assert piece.setup["swept"] == "sigma at q 0.1, q at sigma 1"


def test_the_papers_point_is_in_both_grids():
    assert 1.0 in GRIDS["sigma"]
    assert 0.1 in GRIDS["q"]


def test_ablations_are_by_one_canary_and_five_million_trials_without_a_claim(bare):
    config = ablation_settings(bare())[0].config
    assert (config.audit.trials, config.cohorts.canaries, config.audit.accounted) == (5_000_000, 1, None)
    assert (config.mechanism.sigma, config.mechanism.q, config.audit.method) == (1.0, 0.1, "paper")
    small = ablation_settings(bare(small=True))[0].config
    assert (small.audit.trials, small.cohorts.canaries, small.audit.accounted) == (50_000, 1, None)


SERVER = {"generator.kind": "openai", "generator.model": "m", "generator.base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    ("flags", "is_built_in", "attacks", "why"),
    [
        ({}, True, ("ordinary", "exact", "paraphrase-mueff", "nonce-norm"), None),
        ({}, False, ("ordinary", "exact", "nonce-norm"), "set generator.kind to create them"),
        ({"attack.names": "exact"}, False, ("exact",), None),
        ({"generator.kind": "smollm2"}, False, ("ordinary", "exact", "paraphrase-mueff", "nonce-norm"), None),
        (SERVER, False, ("ordinary", "exact", "nonce-norm"), "set attack.send_records to true"),
        (
            SERVER | {"attack.send_records": True},
            False,
            ("ordinary", "exact", "paraphrase-mueff", "nonce-norm"),
            None,
        ),
    ],
)
def test_ablations_skip_paraphrases_that_nobody_writes_and_say_so(bare, world, flags, is_built_in, attacks, why):
    files = {} if is_built_in else {"data": str(world / "users.csv"), "bank": str(world / "bank.csv")}
    resolved, skipped = ablation_settings(bare(flags, **files))
    assert resolved.config.attack.names == attacks
    assert bool(skipped) == bool(why)
    assert all("paraphrase-mueff" in note and why in note for note in skipped)


def test_a_sweep_states_only_what_all_of_its_points_have(flags, tmp_path):
    resolved = resolve(flags=flags | {"attack.names": "nonce-norm", "cohorts.canaries": 1, "mechanism.sigma": 2.0})
    points = run_sweep(grid(resolved, [Axis("mechanism.q", (0.1, 0.3)), Axis("audit.trials", (300, 400))]), tmp_path)
    setup = sweep_piece("sweep", points, "points").setup
    assert setup["mechanism"] == "k 3, clip 0.1, sigma 2, delta 1e-05"
    assert setup["trials"].startswith("method ")
    assert setup["swept"] == "mechanism.q, audit.trials"


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("minilm", "minilm"),
        ("all-MiniLM-L6-v2", "minilm"),
        ("minilm-l12", "minilm-l12"),
        ("all-MiniLM-L12-v2", "minilm-l12"),
        ("mpnet", "mpnet"),
        ("all-mpnet-base-v2", "mpnet"),
        ("wordllama", "wordllama"),
    ],
)
def test_an_encoder_stands_beside_the_papers_encoder_of_its_name(short, name):
    assert published_name(short) == name
