from dataclasses import replace

from canarybank.experiment import Axis, grid, resolve, run_sweep
from canarybank.paper import Order, Scale, make_piece, sweep_piece
from canarybank.paper.ablations import GRIDS, TRIALS, _base, _left_out


def test_a_small_figure_sweeps_over_sigma_and_q_with_one_canary(order):
    piece = make_piece("ablations", order(scale=Scale.SMALL, flags={"cohorts.canaries": 1, "audit.trials": 500}))
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


def test_at_the_papers_scale_there_are_five_million_trials_and_the_papers_point_is_in_both_grids(order):
    config = _base(order()).config
    assert config.audit.trials == 3000  # a flag beats it
    assert TRIALS == 5_000_000
    assert 1.0 in GRIDS["mechanism.sigma"]
    assert 0.1 in GRIDS["mechanism.q"]


def test_paraphrases_that_nobody_writes_are_named_as_left_out(world, tmp_path):
    asked = Order(resolve(), tmp_path, data=str(world / "users.csv"), bank=str(world / "bank.csv"))
    assert _base(asked).config.attack.names == ("ordinary", "exact", "nonce-norm")
    assert "paraphrase-mueff" in _left_out(asked)[0]
    built_in = Order(resolve(), tmp_path)
    assert "paraphrase-mueff" in _base(built_in).config.attack.names
    chosen = replace(asked, resolved=resolve(flags={"attack.names": "exact"}))
    writing = replace(asked, resolved=resolve(flags={"generator.kind": "smollm2"}))
    assert [_left_out(each) for each in (built_in, chosen, writing)] == [(), (), ()]
    server = {"generator.kind": "openai", "generator.model": "m", "generator.base_url": "http://127.0.0.1:9/v1"}
    sending = replace(asked, resolved=resolve(flags=server))
    assert _base(sending).config.attack.names == ("ordinary", "exact", "nonce-norm")
    assert "set attack.send_records to true" in _left_out(sending)[0]
    allowed = replace(asked, resolved=resolve(flags=server | {"attack.send_records": True}))
    assert "paraphrase-mueff" in _base(allowed).config.attack.names


def test_a_sweep_states_only_what_all_of_its_points_have(flags, tmp_path):
    resolved = resolve(flags=flags | {"attack.names": "nonce-norm", "cohorts.canaries": 1, "mechanism.sigma": 2.0})
    points = run_sweep(grid(resolved, [Axis("mechanism.q", (0.1, 0.3)), Axis("audit.trials", (300, 400))]), tmp_path)
    setup = sweep_piece("sweep", points, "points").setup
    assert setup["mechanism"] == "k 3, clip 0.1, sigma 2, delta 1e-05"
    assert setup["trials"].startswith("method ")
    assert setup["swept"] == "mechanism.q, audit.trials"
