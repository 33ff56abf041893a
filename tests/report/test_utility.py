"""The tables of what texts are worth: no figure without real text beside it, and chance beside what labels give."""

from dataclasses import asdict, replace

from canarybank.measure import Agreement, Compared, Task, Variety, Worth
from canarybank.report import render_html, summarise_run
from canarybank.report.evolution import round_rows
from canarybank.report.evolution_figures import utility_figure
from canarybank.report.text import UNKNOWN
from canarybank.report.utility import MEASURES, compared_by_measure, compared_by_round, compared_notes, compared_part
from canarybank.report.worth import chance_range, figures_by_round
from canarybank.run import Run


def worth(base: float, *, labelled: bool = True) -> Worth:
    """Figures that differ from one another and from those of another base."""
    return Worth(
        mauve=base + 0.01,
        precision=base + 0.02,
        recall=base + 0.03,
        density=base + 0.04,
        coverage=base + 0.05,
        frechet=base + 0.06,
        effective=base + 7,
        variety=Variety(base, base + 0.08, base, base, base + 0.09),
        labelled=40 if labelled else 0,
        agreement=Agreement(base + 0.1, base + 0.11) if labelled else None,
        task=Task(base + 0.12, base + 0.13, base + 0.14, 5) if labelled else None,
    )


COMPARED = Compared(
    size=60,
    users=12,
    labels=("a", "b"),
    expected_coverage=0.8767,
    real=worth(0.8),
    sets=(worth(0.1), worth(0.3), worth(0.5)),
    mauve=None,
    neighbours=3,
    seed=0,
    notes=("Something to know.",),
)
BARE = replace(
    COMPARED, labels=(), real=worth(0.8, labelled=False), sets=(worth(0.1, labelled=False), worth(0.3, labelled=False))
)


def test_every_population_has_a_row_and_real_text_the_last() -> None:
    columns, rows = compared_by_round(asdict(COMPARED))
    assert columns == ("texts", *(name for name, _ in MEASURES))
    assert [row[0] for row in rows] == ["first population", "after round 1", "after round 2", "real text"]
    assert all(cell != UNKNOWN for row in rows for cell in row)
    assert rows[0][1:4] == ("0.110", "0.120", "0.130")
    assert rows[-1][columns.index("coverage")] == "0.850"
    assert rows[-1][columns.index("effective texts")] == "7.8"
    assert rows[1][columns.index("agreement, shuffled labels")] == "0.410"
    assert rows[1][columns.index("task, shuffled labels")] == "0.440"


CUT = replace(COMPARED, chance=(worth(0.2), worth(0.0), worth(0.25)))


def test_chance_is_a_range_between_the_populations_and_real_text() -> None:
    columns, rows = compared_by_round(asdict(CUT))
    assert [row[0] for row in rows][-3:] == ["after round 2", "chance alone", "real text"]
    assert rows[-2][1:3] == ("0.010 to 0.260", "0.020 to 0.270")
    assert rows[-2][columns.index("effective texts")] == "7.0 to 7.2"
    heads, measures = compared_by_measure(asdict(CUT), ["x", "y", "z"], [0, 2])
    assert heads == ("measure", "x", "z", "chance alone", "real text")
    assert measures[0] == ("MAUVE", "0.110", "0.510", "0.010 to 0.260", "0.810")
    notes = " ".join(compared_notes(asdict(CUT)))
    assert "3 other cuts of the first population to 60 texts" in notes
    assert "in 1 case of 4" in notes
    assert "votes and generation together" in notes
    assert "Chance alone" not in " ".join(compared_notes(asdict(COMPARED)))
    unknown = replace(CUT, chance=(replace(CUT.chance[0], mauve=None),))
    assert chance_range(asdict(unknown), "mauve") is chance_range(asdict(COMPARED), "recall") is None


def test_no_word_gives_to_votes_alone_what_generation_may_have_done(evolved: Run) -> None:
    page = render_html(evolved)
    assert "a later one is worth what it adds" not in page
    assert "votes and generation together" in page


def test_terminal_page_and_table_show_the_figures_at_one_size(evolved: Run) -> None:
    """One population has one figure of each measure, wherever it stands."""
    utility = evolved.results.evolution.utility
    sets = utility.compared.sets
    # The case tells both kinds of figures apart.
    assert [each.recall for each in utility.figures] != [each.recall for each in sets]
    rows = round_rows(evolved.results)
    for name in ("mauve", "precision", "recall"):
        assert [row[name] for row in rows] == [getattr(each, name) for each in sets[1:]]
    assert [row["distinct_2"] for row in rows] == [each.variety.distinct_2 for each in sets[1:]]
    figure = utility_figure(summarise_run(evolved)["evolution"])
    columns, table = compared_by_round(asdict(utility.compared))
    for name in ("precision", "recall", "distinct pairs"):
        shown = [row[figure.columns.index(name)] for row in figure.rows]
        assert shown == [row[columns.index(name)] for row in table[: len(sets)]]
    assert figure.caption.startswith(f"{utility.compared.size} texts of every population")
    assert figure.svg.count("whisker-observed") == 3 * len(sets)  # a bar and its two ends
    assert "chance alone" in figure.caption
    # Runs of older versions have the figures of whole populations alone.
    older = figures_by_round(asdict(replace(utility, compared=None)))
    assert [each["recall"] for each in older] == [each.recall for each in utility.figures]
    assert figures_by_round(None) == []


def test_every_field_of_a_worth_that_is_a_figure_is_shown() -> None:
    shown = {path.split("/")[0] for _, path in MEASURES}
    assert shown == set(asdict(worth(0.1))) - {"labelled"}


def test_by_measure_every_row_ends_with_real_text() -> None:
    columns, rows = compared_by_measure(asdict(COMPARED), ["x", "y", "z" * 90], [0, 2])
    assert columns == ("measure", "x", "z" * 40 + "…", "real text")
    assert rows[0] == ("MAUVE", "0.110", "0.510", "0.810")
    assert len(rows) == len(MEASURES)
    assert [len(row) for row in compared_by_measure(asdict(COMPARED), ["x", "y", "z"])[1]] == [5] * len(MEASURES)


def test_without_labels_no_row_or_column_of_labels_is_shown() -> None:
    assert not [name for name in compared_by_round(asdict(BARE))[0] if "label" in name or "task" in name]
    assert not [row for row in compared_by_measure(asdict(BARE), ["x", "y"])[1] if "label" in row[0]]
    assert "label" not in " ".join(compared_notes(asdict(BARE)))


def test_the_notes_say_sizes_chance_and_what_else_is_to_know() -> None:
    text = " ".join(compared_notes(asdict(COMPARED)))
    assert "60 texts of each set are measured against 60 records of one half of 12 reference users" in text
    assert "coverage of 0.877" in text
    assert "learnt 2 labels" in text
    assert text.endswith("Something to know.")


def test_the_page_shows_the_table_and_leaves_it_out_where_an_older_run_has_none(evolved: Run) -> None:
    utility = evolved.results.evolution.utility
    page = render_html(evolved)
    table = page[page.index('id="compared"') : page.index("What auditing cost</h3>")]
    for name in ("first population", "after round 2", "real text", "coverage"):
        assert name in table
    assert f"{utility.compared.real.coverage:.3f}" in table
    assert page.index("Not private.") < page.index('id="compared"')
    older = Run(evolved.folder)
    facts = evolved.results.evolution.model_copy(update={"utility": replace(utility, compared=None)})
    older.__dict__["results"] = evolved.results.model_copy(update={"evolution": facts})
    assert 'id="compared"' not in render_html(older)
    assert compared_part(None) is compared_part({"figures": ()}) is None


def test_results_of_an_older_version_are_read(evolved: Run) -> None:
    document = evolved.results.model_dump(mode="json")
    assert document["evolution"]["utility"].pop("compared") is not None
    read = type(evolved.results).model_validate(document)
    assert read.evolution.utility.compared is None
    assert read.evolution.utility.figures == evolved.results.evolution.utility.figures
