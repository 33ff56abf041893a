"""The tables of what texts are worth: no figure without real text beside it, and chance beside what labels give."""

import csv
from dataclasses import asdict, replace

import pytest
from shown_pages import table_of, text_of

from canarybank.measure import Agreement, Compared, Task, Variety, Worth
from canarybank.report import render_html, summarise_run, utility_figure, write_report
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


CUT = replace(COMPARED, chance=(worth(0.2), worth(0.0), worth(0.25)))


@pytest.fixture
def page(evolved):
    """Return a function that gives the page of the evolution with other figures at one size, or with none."""

    def show(compared):
        run, facts = Run(evolved.folder), evolved.results.evolution
        utility = replace(facts.utility, compared=compared)
        if compared is not None:
            utility = replace(utility, figures=utility.figures[: len(compared.sets)])
        evolution = facts.model_copy(update={"utility": utility})
        run.__dict__["results"] = evolved.results.model_copy(update={"evolution": evolution})
        return render_html(run)

    return show


def test_every_population_has_a_row_and_real_text_the_last(page) -> None:
    columns, rows = table_of(page(COMPARED), "compared")
    assert [row[0] for row in rows] == ["first population", "after round 1", "after round 2", "real text"]
    assert all(cell != "—" for row in rows for cell in row)
    assert rows[0][1:4] == ("0.110", "0.120", "0.130")
    assert rows[-1][columns.index("Coverage")] == "0.850"
    assert rows[-1][columns.index("Effective texts")] == "7.8"
    assert rows[1][columns.index("Agreement, shuffled labels")] == "0.410"
    assert rows[1][columns.index("Task, shuffled labels")] == "0.440"
    # Every figure of a set is shown: of its variety two, of its agreement two, of its task three.
    assert len(columns) - 1 == len(set(asdict(worth(0.1))) - {"labelled"}) + 4


def test_chance_is_a_range_between_the_populations_and_real_text(page) -> None:
    html = page(CUT)
    columns, rows = table_of(html, "compared")
    assert [row[0] for row in rows][-3:] == ["after round 2", "chance alone", "real text"]
    assert rows[-2][1:3] == ("0.010 to 0.260", "0.020 to 0.270")
    assert rows[-2][columns.index("Effective texts")] == "7.0 to 7.2"
    text = text_of(html)
    assert "3 other cuts of the first population to 60 texts" in text
    assert "in 1 case of 4" in text
    assert "votes and generation together" in text
    assert "Chance alone is" not in text_of(page(COMPARED))
    unknown = replace(CUT, chance=(replace(CUT.chance[0], mauve=None),))
    assert table_of(page(unknown), "compared")[1][-2][1] == "—"


def test_no_word_gives_to_votes_alone_what_generation_may_have_done(evolved: Run) -> None:
    page = render_html(evolved)
    assert "a later one is worth what it adds" not in page
    assert "votes and generation together" in page


def test_page_table_and_figure_show_the_figures_at_one_size(evolved: Run, tmp_path) -> None:
    """One population has one figure of each measure, wherever it stands."""
    utility = evolved.results.evolution.utility
    sets = utility.compared.sets
    # The case tells both kinds of figures apart.
    assert [each.recall for each in utility.figures] != [each.recall for each in sets]
    rows = list(csv.DictReader(write_report(evolved, tmp_path)[5].read_text().splitlines()))
    for name in ("precision", "recall"):
        assert [float(row[name]) for row in rows] == [getattr(each, name) for each in sets[1:]]
    assert [float(row["distinct_2"]) for row in rows] == [each.variety.distinct_2 for each in sets[1:]]
    figure = utility_figure(summarise_run(evolved)["evolution"])
    columns, table = table_of(render_html(evolved), "compared")
    for name in ("precision", "recall", "distinct pairs"):
        shown = [row[figure.columns.index(name)] for row in figure.rows]
        assert shown == [row[columns.index(name.capitalize())] for row in table[: len(sets)]]
    assert figure.caption.startswith(f"{utility.compared.size} texts of every population")
    (chance,) = [each for each in figure.figure.axes[0].containers if each.has_yerr]
    assert len(chance.lines[2][0].get_segments()) == len(sets)
    assert "chance alone" in figure.caption


def test_an_older_run_shows_the_figures_of_whole_populations(evolved: Run, page) -> None:
    recalls = [f"{each.recall:.3f}" for each in evolved.results.evolution.utility.figures]
    html = page(None)
    columns, rows = table_of(html, "data-utility")
    assert [row[columns.index("Recall")] for row in rows] == recalls
    assert 'id="compared"' not in html


def test_without_labels_no_column_of_labels_is_shown(page) -> None:
    html = page(BARE)
    assert not [name for name in table_of(html, "compared")[0] if "label" in name.lower() or "task" in name.lower()]
    assert "label" not in text_of(html[html.index('id="compared"') : html.index("What auditing cost</h3>")])


def test_the_notes_say_sizes_chance_and_what_else_is_to_know(page) -> None:
    text = text_of(page(COMPARED))
    assert "60 texts of each set are measured against 60 records of one half of 12 reference users" in text
    assert "coverage of 0.877" in text
    assert "learnt 2 labels" in text
    assert "Something to know." in text


def test_the_page_shows_the_table_of_a_run_after_the_warning(evolved: Run) -> None:
    utility = evolved.results.evolution.utility
    html = render_html(evolved)
    assert f"{utility.compared.real.coverage:.3f}" in table_of(html, "compared")[1][-1]
    assert html.index("Not private.") < html.index('id="compared"')


def test_results_of_an_older_version_are_read(evolved: Run) -> None:
    document = evolved.results.model_dump(mode="json")
    assert document["evolution"]["utility"].pop("compared") is not None
    read = type(evolved.results).model_validate(document)
    assert read.evolution.utility.compared is None
    assert read.evolution.utility.figures == evolved.results.evolution.utility.figures
