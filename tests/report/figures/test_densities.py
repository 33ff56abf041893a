from drawn_figures import labelled

from canarybank.report import density_figure


def test_the_table_holds_both_densities(attack):
    figure = density_figure(attack, 0.1, "d")
    dense = attack["evidence"]["densities"]
    assert figure.rows[7] == tuple(f"{dense[name][7]:.4g}" for name in ("score", "absent", "participating"))
    assert "only 10% of the mass" in figure.caption


def test_the_frozen_threshold_stands_where_it_is(attack):
    (line,) = labelled(density_figure(attack, 0.1, "d"), "frozen threshold")
    assert set(line.get_xdata()) == {attack["evidence"]["densities"]["threshold"]}
