from drawn_figures import labelled

from canarybank.report import overview_figure


def test_the_table_has_a_row_for_each_attack(summary):
    figure = overview_figure(summary["attacks"], 1.6845, 1.695)
    assert [row[0] for row in figure.rows] == [attack["name"] for attack in summary["attacks"]]
    assert float(figure.rows[0][1]) == float(f"{summary['attacks'][0]['headline']['epsilon']:.4g}")


def test_the_claim_is_drawn_only_where_it_differs(summary):
    def lines(accounted):
        return labelled(overview_figure(summary["attacks"], 1.6845, accounted), "claim")

    assert [set(line.get_xdata()) for line in lines(1.695)] == [{1.695}]
    assert lines(1.6845) == []
