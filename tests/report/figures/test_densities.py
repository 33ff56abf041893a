from copy import deepcopy

from canarybank.report import density_figure


def test_the_table_holds_both_densities(attack):
    figure = density_figure(attack, 0.1, "d")
    dense = attack["evidence"]["densities"]
    assert figure.rows[7] == tuple(f"{dense[name][7]:.4g}" for name in ("score", "absent", "participating"))
    assert "only 10% of the mass" in figure.caption


def test_the_threshold_is_named_on_the_side_with_room(attack):
    early = deepcopy(attack)
    early["evidence"]["densities"]["threshold"] = early["evidence"]["densities"]["score"][0]
    late = deepcopy(attack)
    late["evidence"]["densities"]["threshold"] = late["evidence"]["densities"]["score"][-1]
    assert 'text-anchor="end">frozen threshold' in density_figure(late, 0.1, "d").svg
    assert 'text-anchor="end">frozen threshold' not in density_figure(early, 0.1, "d").svg
