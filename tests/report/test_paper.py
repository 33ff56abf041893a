import csv
import io
import re
from itertools import pairwise, product

import pytest
from shown_pages import alternative_of, caption_of, table_of

from canarybank.paper import UNPUBLISHED, read_piece, write_piece
from canarybank.report import draw_piece, render_pieces, write_pieces


@pytest.fixture(scope="module")
def folder(every, tmp_path_factory):
    """Return a folder with every form of a piece of every shape."""
    folder = tmp_path_factory.mktemp("pieces")
    write_pieces(every, folder)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    """Return the page of those pieces."""
    return (folder / "index.html").read_text()


def rows_of(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_papers_numbers_stand_by_table_and_those_that_sampling_explains_are_marked(page):
    columns, rows = table_of(page, "table-main")
    assert columns[2] == "Paper (Yelp; Sentiment140)"
    assert rows[0][2] == "1.049*/1.038*; 0.300"
    assert rows[2][2] == UNPUBLISHED


def test_a_plot_of_the_paper_is_said_to_have_no_numbers_and_a_sweep_says_nothing_of_it(curves, folder, page, tmp_path):
    plot = write_pieces([curves.model_copy(update={"unpublished": True})], tmp_path).read_text()
    columns, rows = table_of(plot, "table-ablations")
    assert not any("aper" in head for head in (*columns, *table_of(page, "table-sweep")[0]))
    assert {len(row) for row in rows} == {len(columns)}
    assert UNPUBLISHED in caption_of(plot, "ablations")
    assert UNPUBLISHED in (tmp_path / "ablations.tex").read_text()
    assert {row["paper"] for row in rows_of(tmp_path, "ablations")} == {UNPUBLISHED}
    assert UNPUBLISHED not in caption_of(page, "sweep")
    assert "paper" not in rows_of(folder, "sweep")[0]


def test_a_bound_that_sampling_does_not_explain_is_flagged_and_where_nothing_was_computed_nothing_is_said(table, page):
    columns, rows = table_of(page, "table-main")
    explained = columns.index("Explained")
    assert [row[explained] for row in rows] == ["yes", "NO", "yes"]
    mixed = table.model_copy(update={"cells": (*table.cells, table.cells[0].model_copy(update={"explained": None}))})
    _, rows = table_of(render_pieces([mixed]), "table-main")
    assert rows[-1][explained - 1 : explained + 1] == ("—", "—")
    columns, rows = table_of(page, "table-ablations")
    assert not {"Explained", "99.9% sampling"} & set(columns)
    assert {len(row) for row in rows} == {len(columns)}


def test_the_mechanisms_own_epsilon_is_shown_where_rows_differ_in_it(grid, rounds, page):
    cells = [
        cell.model_copy(update={"mechanism": cell.at["rounds"], "more": {"theory": cell.at["rounds"]}})
        for cell in rounds.cells
    ]
    differing = render_pieces([grid, rounds.model_copy(update={"cells": tuple(cells)})])
    columns, rows = table_of(differing, "table-sweep")
    assert columns[-1] == "Mechanism"
    assert [float(row[-1]) for row in rows] == pytest.approx([cell.mechanism for cell in grid.cells], rel=1e-3)
    heads = [table_of(page, f"table-{name}")[0] for name in ("ablations", "multiround")]
    assert not any("Mechanism" in head for head in (*heads, table_of(differing, "table-multiround")[0]))


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


def test_rows_hold_numbers_as_they_are(folder):
    first, _, third = rows_of(folder, "main")
    assert first["paper: yelp, full table"] == "1.038"
    assert third["paper: yelp, full table"] == ""
    assert (first["observed"], first["sampling_low"], first["explained"]) == ("1.05", "0.9", "True")
    assert [row["mauve"] for row in rows_of(folder, "multiround")] == ["0.1", "0.2", "0.3"]


def test_a_legend_lies_within_its_figure_however_narrow(every):
    pieces = (*every, every[0].model_copy(update={"cells": every[0].cells[:1]}))
    for each, across in product(pieces, (1, 2, 3)):
        figure = draw_piece(each, across)
        figure.savefig(io.BytesIO(), format="png")
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width


def test_a_piece_that_was_written_and_read_gives_the_same_bytes_whatever_was_drawn_before(every, folder, tmp_path):
    read = [read_piece(write_piece(each, tmp_path / "kept")) for each in every]
    for piece, made in zip(read, every, strict=True):
        assert [list(cell.at) for cell in piece.cells] == [list(made.coordinates)] * len(made.cells)
    for piece in reversed(read):
        write_pieces([piece], tmp_path / "again")
    write_page = render_pieces(read)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    after = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert after | {"index.html": write_page.encode()} == before
    assert set(before) == {"index.html"} | {
        f"{each.name}.{kind}" for each in every for kind in ("csv", "tex", "svg", "pdf")
    }
    assert len(set(before.values())) == len(before)


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


def test_figures_name_no_day_and_no_machine(folder):
    assert b"<dc:date>" not in (folder / "main.svg").read_bytes()
    assert b"CreationDate" not in (folder / "main.pdf").read_bytes()


def test_what_is_drawn(table, curves, sweep, rounds, page):
    assert [ax.get_title() for ax in draw_piece(table).axes] == ["arm A", "arm B"]
    assert [ax.get_xlabel() for ax in draw_piece(curves).axes] == ["sigma", "q"]
    for ax, name in zip(draw_piece(sweep).axes, ("minilm", "mpnet"), strict=True):
        assert (ax.get_title(), ax.get_lines()[0].get_label()) == (f"name {name}", "observed")
        assert list(ax.get_lines()[0].get_xdata()) == ["exact", "nonce"]
    left, right = draw_piece(rounds).axes
    assert list(left.get_lines()[0].get_ydata()) == [0.1, 0.2, 0.3]
    assert right.get_ylabel() == "epsilon"
    assert "nonce: observed 1.050" in alternative_of(page, "main")


def test_latex_escapes_and_says_what_it_stands_on(table, folder):
    text = (folder / "main.tex").read_text()
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    assert "1,000,000 trials of each hypothesis" in text
    assert not [
        line for line in text.splitlines()[3:] if re.search(r"(?<!\\)[$&#_](?![^$]*\$)", line.replace(" & ", ""))
    ]
    assert all(line.startswith("%") for line in text.splitlines()[: 1 + len(table.notes)])


def test_the_page_has_a_section_for_each_piece_and_nothing_foreign(every, page, hostile):
    assert re.findall(r'<section id="([a-z]+)"', page) == [*(each.name for each in every), "glossary"]
    assert hostile not in page
    assert "<script>window" not in page
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "not differentially private" in page


def test_what_it_stands_on_names_method_confidence_and_trials(page):
    assert "by the method paper at 95% confidence" in caption_of(page, "main")
    assert "asterisk" in caption_of(page, "main")
    assert "asterisk" not in caption_of(page, "ablations")
    assert "Explained" not in caption_of(page, "ablations")


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
    pieces = [
        curves.model_copy(update={"name": f"p{index}", "cells": (first, second.model_copy(update={field: value}))})
        for index, (field, value) in enumerate(said)
    ]
    page = render_pieces(pieces)
    for piece, (changed, words) in zip(pieces, said.items(), strict=True):
        assert words in caption_of(page, piece.name), changed
