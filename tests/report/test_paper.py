import csv
import hashlib
import io
import re
from itertools import pairwise, product

import pytest

from canarybank.paper import UNPUBLISHED, read_piece, write_piece
from canarybank.report import render_pieces, write_pieces
from canarybank.report.paper import (
    alternative,
    draw_piece,
    figure_bytes,
    piece_latex,
    piece_rows,
    shown_columns,
    shown_rows,
    stands_on,
)
from canarybank.report.text import epsilon


def test_the_papers_numbers_stand_by_table_and_those_that_sampling_explains_are_marked(table):
    rows = shown_rows(table)
    assert shown_columns(table)[2] == "paper (Yelp; Sentiment140)"
    assert rows[0][2] == "1.049*/1.038*; 0.300"
    assert rows[2][2] == UNPUBLISHED


def test_a_plot_of_the_paper_is_said_to_have_no_numbers_and_a_sweep_says_nothing_of_it(curves, sweep):
    plot = curves.model_copy(update={"unpublished": True})
    assert not any("paper" in head for head in (*shown_columns(plot), *shown_columns(sweep)))
    assert {len(row) for row in shown_rows(plot)} == {len(shown_columns(plot))}
    assert UNPUBLISHED in stands_on(plot)
    assert UNPUBLISHED in piece_latex(plot)
    assert {row["paper"] for row in piece_rows(plot)} == {UNPUBLISHED}
    assert UNPUBLISHED not in stands_on(sweep)
    assert "paper" not in piece_rows(sweep)[0]


def test_a_bound_that_sampling_does_not_explain_is_flagged_and_where_nothing_was_computed_nothing_is_said(
    table, curves
):
    explained = shown_columns(table).index("explained")
    assert [row[explained] for row in shown_rows(table)] == ["yes", "NO", "yes"]
    mixed = table.model_copy(update={"cells": (*table.cells, table.cells[0].model_copy(update={"explained": None}))})
    assert shown_rows(mixed)[-1][explained - 1 : explained + 1] == ("—", "—")
    assert not {"explained", "99.9% sampling"} & set(shown_columns(curves))
    assert {len(row) for row in shown_rows(curves)} == {len(shown_columns(curves))}


def test_the_mechanisms_own_epsilon_is_shown_where_rows_differ_in_it(grid, curves, rounds):
    assert shown_columns(grid)[-1] == "mechanism"
    assert [row[-1] for row in shown_rows(grid)] == [epsilon(cell.mechanism) for cell in grid.cells]
    assert "mechanism" not in (*shown_columns(curves), *shown_columns(rounds))
    cells = [
        cell.model_copy(update={"mechanism": cell.at["rounds"], "more": {"theory": cell.at["rounds"]}})
        for cell in rounds.cells
    ]
    assert "mechanism" not in shown_columns(rounds.model_copy(update={"cells": tuple(cells)}))


def test_a_grid_has_a_panel_for_each_mechanism_and_its_curves_run_from_left_to_right(grid):
    axes = draw_piece(grid).axes
    assert [ax.get_title() for ax in axes] == ["sigma 2", "sigma 0.5", "sigma 1", "sigma 4"]
    for ax, sigma in zip(axes, (2.0, 0.5, 1.0, 4.0), strict=True):
        assert ax.get_xlabel() == "mechanism.q"
        lines = {line.get_label(): line for line in ax.get_lines()}
        for cell in grid.cells:
            if cell.at["mechanism.sigma"] == sigma:
                assert (cell.at["mechanism.q"], cell.mechanism) in zip(
                    *lines["mechanism, exact"].get_data(), strict=True
                )
                assert (cell.at["mechanism.q"], cell.observed) in zip(*lines[cell.at["attack"]].get_data(), strict=True)
        for line in ax.get_lines():
            assert list(line.get_xdata()) == sorted(line.get_xdata())
    colours = [{line.get_label(): line.get_color() for line in ax.get_lines()}["nonce"] for ax in axes]
    assert len(set(colours)) == 1
    (legend,) = draw_piece(grid).legends
    assert [text.get_text() for text in legend.get_texts()].count("nonce") == 1


def test_an_attack_that_only_a_later_panel_has_stands_in_the_legend_in_a_colour_of_its_own(grid):
    cells = [cell for cell in grid.cells if (cell.at["mechanism.sigma"] == 2.0) == (cell.at["attack"] == "exact")]
    figure = draw_piece(grid.model_copy(update={"cells": tuple(cells)}))
    (legend,) = figure.legends
    assert {"exact", "nonce"} <= {text.get_text() for text in legend.get_texts()}
    colours = {line.get_label(): line.get_color() for ax in figure.axes for line in ax.get_lines()}
    assert colours["exact"] != colours["nonce"]


def test_rows_hold_numbers_as_they_are(table, rounds):
    first = piece_rows(table)[0]
    assert first["paper: yelp, full table"] == 1.038
    assert piece_rows(table)[2]["paper: yelp, full table"] is None
    assert (first["observed"], first["sampling_low"], first["explained"]) == (1.05, 0.9, True)
    assert [row["mauve"] for row in piece_rows(rounds)] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_figures_are_the_same_bytes_whatever_was_drawn_before(every, kind):
    first = [hashlib.sha256(figure_bytes(each, kind)).hexdigest() for each in every]
    assert [hashlib.sha256(figure_bytes(each, kind)).hexdigest() for each in reversed(every)] == first[::-1]
    assert len(set(first)) == len(every)


def test_a_legend_lies_within_its_figure_however_narrow(every):
    pieces = (*every, every[0].model_copy(update={"cells": every[0].cells[:1]}))
    for each, across in product(pieces, (1, 2, 3)):
        figure = draw_piece(each, across)
        figure.savefig(io.BytesIO(), format="png")
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width


def test_the_panels_of_a_narrow_figure_stand_below_each_other(grid):
    figure = draw_piece(grid, 1)
    figure.savefig(io.BytesIO(), format="png")
    boxes = [ax.get_tightbbox() for ax in figure.axes]
    assert len(boxes) == 4
    assert all(below.y1 < above.y0 for above, below in pairwise(boxes))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)


def test_a_long_title_of_a_panel_is_wrapped_not_cut(grid):
    cells = [cell.model_copy(update={"at": {"bank.source": "a bank of my own " * 4} | cell.at}) for cell in grid.cells]
    figure = draw_piece(grid.model_copy(update={"cells": tuple(cells)}))
    figure.savefig(io.BytesIO(), format="png")
    boxes = [ax.title.get_window_extent() for ax in figure.axes]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)


def test_a_piece_comes_back_from_its_file_with_its_coordinates_in_order(every, tmp_path):
    for each in every:
        back = read_piece(write_piece(each, tmp_path))
        assert shown_rows(back) == shown_rows(each)
        assert figure_bytes(back, "svg") == figure_bytes(each, "svg")
        assert [list(cell.at) for cell in back.cells] == [list(each.coordinates)] * len(each.cells)


def test_figures_name_no_day_and_no_machine(table):
    assert b"<dc:date>" not in figure_bytes(table, "svg")
    assert b"CreationDate" not in figure_bytes(table, "pdf")


def test_what_is_drawn(table, curves, sweep, rounds):
    assert [ax.get_title() for ax in draw_piece(table).axes] == ["arm A", "arm B"]
    assert [ax.get_xlabel() for ax in draw_piece(curves).axes] == ["sigma", "q"]
    for ax, name in zip(draw_piece(sweep).axes, ("minilm", "mpnet"), strict=True):
        assert (ax.get_title(), ax.get_lines()[0].get_label()) == (f"name {name}", "observed")
        assert list(ax.get_lines()[0].get_xdata()) == ["exact", "nonce"]
    left, right = draw_piece(rounds).axes
    assert list(left.get_lines()[0].get_ydata()) == [0.1, 0.2, 0.3]
    assert right.get_ylabel() == "epsilon"
    assert "nonce: observed 1.050" in alternative(table)


def test_latex_escapes_and_says_what_it_stands_on(table):
    text = piece_latex(table)
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    assert "1,000,000 trials of each hypothesis" in text
    assert not [
        line for line in text.splitlines()[3:] if re.search(r"(?<!\\)[$&#_](?![^$]*\$)", line.replace(" & ", ""))
    ]
    assert all(line.startswith("%") for line in text.splitlines()[: 1 + len(table.notes)])


def test_the_page_has_a_section_for_each_piece_and_nothing_foreign(every, hostile):
    html = render_pieces(every)
    assert re.findall(r'<section id="([a-z]+)"', html) == [*(each.name for each in every), "glossary"]
    assert hostile not in html
    assert "<script>window" not in html
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", html)
    assert "not differentially private" in html
    assert render_pieces(every) == html


def test_all_forms_are_written_and_written_again_the_same(every, tmp_path):
    page = write_pieces(every, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {page.name} | {
        f"{each.name}.{kind}" for each in every for kind in ("csv", "tex", "svg", "pdf")
    }
    write_pieces(every, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with (tmp_path / "main.csv").open(newline="") as file:
        assert [row["attack"] for row in csv.DictReader(file)] == ["nonce", "exact", "nonce"]


def test_what_it_stands_on_names_method_confidence_and_trials(table, curves):
    assert "by the method paper at 95% confidence" in stands_on(table)
    assert "asterisk" in stands_on(table)
    assert "asterisk" not in stands_on(curves)
    assert "Explained" not in stands_on(curves)


def test_what_differs_between_rows_is_said_of_each(curves):
    first, second, *_ = curves.cells
    said = {
        ("method", "joint"): "by the method paper or the largest over 5 canaries by the method joint",
        ("confidence", 0.99): "95% or 99% confidence",
        ("delta", 1e-3): "delta 1e-05 or 0.001,",
        ("canaries", 1): "the largest over 5 canaries by the method paper or of one canary by the method paper",
        ("threshold", "analytic"): "thresholds calibrated or analytic.",
        ("trials", 7): f"7 or {first.trials:,} trials",
        ("method", "pooled"): "or from the counts of 5 canaries together by the method pooled",
    }
    for (field, value), words in said.items():
        cells = (first, second.model_copy(update={field: value}))
        assert words in stands_on(curves.model_copy(update={"cells": cells})), field
