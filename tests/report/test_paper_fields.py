"""Check single fields of what is shown, on cells in which no two numbers are alike, so that none stands for another."""

import csv
import math

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection, PathCollection
from shown_pages import alternative_of, table_of

from canarybank.paper import Cell, PaperValue, Piece, Span
from canarybank.report import draw_piece, render_pieces, write_pieces


def distinct(at, base=0.0, **more):
    """Return a cell whose numbers are all different, and different from those of a cell with another base."""
    return Cell(
        at=at,
        observed=base + 0.11,
        exact=base + 0.61,
        rule=base + 0.52,
        expected=base + 0.23,
        likely=Span(low=base + 0.17, high=base + 0.34),
        explained=Span(low=base + 0.05, high=base + 0.45),
        mechanism=base + 0.74,
        accounted=base + 0.83,
        method="joint",
        confidence=0.97,
        trials=4321,
        canaries=3,
        threshold="analytic",
        delta=2e-6,
        **more,
    )


def piece(shape, coordinates, *cells):
    return Piece(
        name="made", title="Made", about="By hand.", shape=shape, coordinates=coordinates, cells=cells, setup={}
    )


@pytest.fixture(scope="module")
def two():
    """Return a table of two cells on one arm."""
    paper = (
        PaperValue(dataset="sentiment140", table="both tables", value=0.92),
        PaperValue(dataset="yelp", table="main table", value=0.41),
    )
    return piece(
        "table",
        ("arm", "attack"),
        distinct({"arm": "A", "attack": "exact"}, paper=paper, more={"theory": 0.96}),
        distinct({"arm": "A", "attack": "nonce"}, 1.0),
    )


@pytest.fixture(scope="module")
def folder(two, tmp_path_factory):
    """Return a folder with every form of that table."""
    folder = tmp_path_factory.mktemp("two")
    write_pieces([two], folder)
    return folder


def rows_of(folder):
    with (folder / "made.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_number_of_a_row_for_machines_is_of_its_own_field(folder):
    expected = {
        "arm": "A",
        "attack": "exact",
        "paper: sentiment140, both tables": 0.92,
        "paper: yelp, main table": 0.41,
        "observed": 0.11,
        "exact": 0.61,
        "exact_rule": 0.52,
        "expected": 0.23,
        "expected_05": 0.17,
        "expected_95": 0.34,
        "sampling_low": 0.05,
        "sampling_high": 0.45,
        "explained": True,
        "mechanism": 0.74,
        "accounted": 0.83,
        "claim": None,
        "method": "joint",
        "confidence": 0.97,
        "trials": 4321,
        "canaries": 3,
        "threshold": "analytic",
        "delta": 2e-6,
        "theory": 0.96,
    }
    assert rows_of(folder)[0] == {name: "" if value is None else str(value) for name, value in expected.items()}


def test_every_word_of_a_row_for_people_stands_under_its_head(folder):
    page, latex = ((folder / name).read_text() for name in ("index.html", "made.tex"))
    columns, rows = table_of(page, "table-made")
    assert dict(zip(columns, rows[0], strict=True)) == {
        "Arm": "A",
        "Attack": "exact",
        "Paper (Sentiment140; Yelp)": "0.920; 0.410*",
        "Observed": "0.1100",
        "Exact": "0.6100",
        "At rule": "0.5200",
        "Expected": "0.2300",
        "5% to 95%": "0.1700 to 0.3400",
        "99.9% sampling": "0.05000 to 0.4500",
        "Explained": "yes",
        "Theory": "0.960",
    }
    assert "exact & 0.920; 0.410* & 0.1100 & 0.6100 & 0.5200 & 0.2300" in latex
    assert "A, exact: observed 0.110, exact 0.610; A, nonce: observed 1.110, exact 1.610." in alternative_of(
        page, "made"
    )


def marks(ax):
    """Return where the marks of each name stand."""
    found = [each for each in ax.collections if isinstance(each, PathCollection)]
    return {each.get_label(): np.asarray(each.get_offsets()).round(9).tolist() for each in found}


def lines(ax):
    """Return the height of each named line, and of those without a name in their order."""
    found = [(each.get_label(), np.round(np.asarray(each.get_ydata(), float), 9).tolist()) for each in ax.get_lines()]
    named = {label: ys for label, ys in found if not label.startswith("_")}
    return named, [ys for label, ys in found if label.startswith("_")]


def bands(ax):
    """Return the heights that each band with content goes through."""
    polygons = [each for each in ax.collections if isinstance(each, FillBetweenPolyCollection) and each.get_paths()]
    made = [np.concatenate([path.vertices for path in each.get_paths()]).round(9) for each in polygons]
    return [{(x, y) for x, y in vertices.tolist()} for vertices in made if len(vertices) and np.ptp(vertices[:, 0])]


def test_every_mark_of_a_table_stands_at_its_own_field(two):
    (ax,) = draw_piece(two).axes
    assert marks(ax) == {
        "paper, Yelp": [[0.41, 0]],
        "paper, Sentiment140": [[0.92, 0]],
        "exact": [[0.61, 0], [1.61, 1]],
        "frozen rule": [[0.52, 0], [1.52, 1]],
        "observed": [[0.11, 0], [1.11, 1]],
    }
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    assert bars == [pytest.approx((0.17, 0.34)), pytest.approx((1.17, 1.34))]
    *sampling, mechanism = [np.asarray(line.get_xdata(), float).tolist() for line in ax.get_lines()]
    assert sampling == [pytest.approx([0.05, 0.45]), pytest.approx([1.05, 1.45])]
    assert mechanism == pytest.approx([0.74, 0.74])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["exact", "nonce"]


def test_every_line_of_curves_goes_through_its_own_field():
    at = {"axis": "sigma", "attack": "nonce"}
    made = piece(
        "curves",
        ("axis", "value", "attack"),
        distinct({**at, "value": 0.5}, 1.0),
        distinct({**at, "value": 2.0}),
    )
    (ax,) = draw_piece(made).axes
    named, nameless = lines(ax)
    assert named == {"nonce": [1.11, 0.11], "mechanism, exact": [1.74, 0.74], "attack, exact": []}
    assert nameless == [[1.61, 0.61]]
    (band,) = bands(ax)
    assert band == {(0.5, 1.17), (0.5, 1.34), (2.0, 0.17), (2.0, 0.34)}
    assert {tuple(line.get_xdata()) for line in ax.get_lines() if len(line.get_xdata())} == {(0.5, 2.0)}


def test_every_line_of_rounds_goes_through_its_own_field():
    made = piece(
        "rounds",
        ("rounds",),
        distinct({"rounds": 1}, more={"mauve": 0.91}),
        distinct({"rounds": 2}, 1.0, more={"mauve": 0.87}),
    )
    left, right = draw_piece(made).axes
    assert lines(left)[1] == [[0.91, 0.87]]
    assert lines(right) == (
        {
            "theory, paper": [0.83, 1.83],
            "theory, exact": [0.74, 1.74],
            "attack, exact": [0.61, 1.61],
            "observed": [0.11, 1.11],
        },
        [],
    )
    (band,) = bands(right)
    assert band == {(1.0, 0.17), (1.0, 0.34), (2.0, 1.17), (2.0, 1.34)}


def test_an_infinite_figure_is_shown_alike_as_a_number_and_as_null(table, curves, sweep, rounds, tmp_path):
    def endless(piece, value):
        figures = dict.fromkeys(("exact", "rule", "expected"), value)
        ends = Span(low=0.1, high=1.0).model_copy(update={"high": value})
        cells = [cell.model_copy(update={**figures, "likely": ends, "explained": ends}) for cell in piece.cells]
        return piece.model_copy(update={"cells": tuple(cells)})

    shown = []
    for name, value in (("null", None), ("number", math.inf)):
        write_pieces([endless(table.model_copy(update={"name": "made"}), value)], tmp_path / name)
        forms = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        shown.append((forms, render_pieces([endless(piece, value) for piece in (curves, sweep, rounds)])))
    assert shown[0] == shown[1]
    assert {row["exact"] for row in rows_of(tmp_path / "null")} == {"inf"}
    assert "∞" in table_of(shown[0][1], "table-sweep")[1][0]
