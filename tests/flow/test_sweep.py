import pytest
from watched import Watched

from canarybank.config import resolve
from canarybank.errors import ConfigError, IncompleteError
from canarybank.flow import Axis, grid, read_axis, run_sweep
from canarybank.paper import sweep_piece


def test_axes_are_read_as_they_are_typed():
    assert read_axis("mechanism.sigma=0.5, 1,2") == Axis("mechanism.sigma", ("0.5", "1", "2"))
    for wrong in ("mechanism.sigma", "mechanism.sigma=", "=1"):
        with pytest.raises(ConfigError):
            read_axis(wrong)


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ([], "needs something"),
        ([Axis("mechanism.q", (0.1,)), Axis("mechanism.q", (0.2,))], "once"),
        ([Axis("mechanism.q", (0.1, 7.0))], "q"),
    ],
)
def test_a_grid_is_checked_before_anything_runs(resolved, axes, why):
    with pytest.raises(ConfigError, match=why):
        grid(resolved, axes)


def test_an_axis_has_a_key_and_different_values():
    with pytest.raises(ConfigError, match=r"no key 'mechanism.sigmo'.*did you mean 'mechanism.sigma'"):
        Axis("mechanism.sigmo", (1,))
    with pytest.raises(ConfigError, match=r"did you mean 'mechanism.sigma'"):
        Axis("sigma", (1,))
    with pytest.raises(ConfigError, match="different"):
        Axis("mechanism.sigma", (1, 1))


@pytest.mark.parametrize("typed", ["mechanism.sigma=1,1.0", "audit.trials=1e3,1000", "cohorts.shared=true,1"])
def test_values_that_mean_the_same_are_refused_before_anything_runs(resolved, typed):
    with pytest.raises(ConfigError, match="mean the same"):
        grid(resolved, [read_axis("mechanism.q=0.1,0.2"), read_axis(typed)])


def test_values_that_differ_in_late_digits_have_places_of_their_own(resolved):
    points = grid(resolved, [read_axis("mechanism.sigma=1.1088121,1.1088122,1.1088")])
    assert [point.place for point in points] == ["sigma-1.1088121", "sigma-1.1088122", "sigma-1.1088"]
    seeds = grid(resolved, [read_axis("run.seed=9007199254740993,9007199254740992")])
    assert [point.resolved.config.run.seed for point in seeds] == [9007199254740993, 9007199254740992]


def test_a_value_that_cannot_be_used_is_said_to_come_from_the_sweep(resolved):
    for value in ("x", {"a": 1}):
        with pytest.raises(ConfigError, match=r"mechanism\.sigma \(from sweep\)"):
            grid(resolved, [Axis("mechanism.sigma", (value,))])


def test_a_text_of_digits_stays_a_text_where_the_key_asks_for_one(resolved):
    points = grid(resolved, [read_axis("bank.labels=4,5"), read_axis("users.label=007,7")])
    assert [point.resolved.config.bank.labels for point in points][::2] == [("4",), ("5",)]
    assert [point.resolved.config.users.label for point in points][:2] == ["007", "7"]


def test_a_switch_is_written_as_a_word(resolved):
    points = grid(resolved, [read_axis("cohorts.shared=true,false")])
    assert [point.at["cohorts.shared"] for point in points] == ["true", "false"]


def test_every_combination_is_a_point_with_its_own_place(resolved):
    points = grid(resolved, [read_axis("mechanism.q=0.1,0.2"), read_axis("audit.trials=1e3,2000")])
    assert [dict(point.at) for point in points] == [
        {"mechanism.q": q, "audit.trials": trials} for q in (0.1, 0.2) for trials in (1000, 2000)
    ]
    assert len({point.place for point in points}) == 4
    assert points[0].resolved.origins["mechanism.q"] == "sweep"
    with pytest.raises(IncompleteError, match="not run"):
        points[0].require_run()


def test_values_with_slashes_or_of_great_length_make_places_too(resolved):
    points = grid(resolved, [Axis("encoder.name", ("a/b", "a-b", "x" * 200))])
    assert len({point.place for point in points}) == 3
    assert all("/" not in point.place and len(point.place) < 100 for point in points)


@pytest.mark.usefixtures("fresh_cache")
def test_sigma_q_clip_and_trials_encode_and_route_nothing_again(flags, tmp_path):
    names, watched = ("ordinary", "exact", "nonce-norm", "nonce-mueff"), Watched()
    resolved = resolve(flags=flags | {"audit.trials": 500, "attack.names": names})
    first = run_sweep(grid(resolved, [Axis("mechanism.sigma", (1.0,))]), tmp_path / "points", progress=watched)
    tables = 3 + 2 * len(names)  # three cohorts and two canaries an attack, each routed once
    assert first[0].require_run().manifest.stages["made"]["routes"] == tables
    assert {"encoding with hashing", "route"} <= set(watched.stages)
    watched.stages.clear()
    axes = {"mechanism.sigma": 2.0, "mechanism.q": 0.3, "mechanism.clip": 0.2, "audit.trials": 700}
    for key, value in axes.items():
        (point,) = run_sweep(grid(resolved, [Axis(key, (value,))]), tmp_path / "points", progress=watched)
        made = point.require_run().manifest.stages["made"]
        assert not {"users", "routes", "bank"} & set(made)
        assert point.require_run().manifest.stages["found"]["routes"] == tables
    assert "trials" in watched.stages
    assert not {"encoding with hashing", "route"} & set(watched.stages)


def test_a_sweep_is_one_table_of_all_points_and_attacks(flags, tmp_path):
    resolved = resolve(flags=flags | {"audit.trials": 500})
    points = run_sweep(grid(resolved, [Axis("mechanism.sigma", (0.5, 2.0))]), tmp_path)
    piece = sweep_piece("sweep", points, "points")
    assert [tuple(cell.at.values()) for cell in piece.cells] == [
        (sigma, attack) for sigma in (0.5, 2.0) for attack in ("ordinary", "nonce-norm")
    ]
    exact = {cell.at["mechanism.sigma"]: cell.exact for cell in piece.cells if cell.at["attack"] == "nonce-norm"}
    assert exact[0.5] > exact[2.0]
    assert all(cell.explained is None for cell in piece.cells)
    assert piece.runs == ("points/sigma-0.5", "points/sigma-2")
    assert sweep_piece("sweep", run_sweep(points, tmp_path), "points") == piece
    kept = [point.require_run().manifest.config["encoder.keep_vectors"] for point in points]
    assert kept == [True, True]  # the next point needs them
