"""The text of an evolution: who stayed, was written and was dropped in each round, and where a candidate comes from."""

import json
import shutil

import numpy as np
import pytest

from canarybank.errors import StoreError
from canarybank.evolution import Candidate, Evolution, FolderArchive, Population, Published
from canarybank.report import render_html, render_summary, summarise_run
from canarybank.report.lineage import (
    FINAL,
    NODES,
    ROUNDS,
    SAMPLES,
    TREES,
    History,
    last_texts,
    lineage_trees,
    read_history,
    round_samples,
    sample_texts,
)
from canarybank.run import Run
from canarybank.run.folder import EVOLUTION
from canarybank.store import hash_file, read_checked, write_checked

FIRST = (Candidate("a", "first a", "tea"), Candidate("b", "first b"), Candidate("c", "first c"))
SECOND = (FIRST[2], FIRST[0], Candidate("d", "second d", "", 1, ("c", "b"), "continue"))
THIRD = (SECOND[2], Candidate("e", "third e", "", 2, ("d", "c"), "vary"), Candidate("f", "third f", "", 2))


def population(candidates):
    return Population(candidates, np.eye(len(candidates), 4))


@pytest.fixture
def history():
    votes = (np.array([0.2, -0.1, 0.5]), np.array([0.1, np.nan, 0.4]))
    return History(tuple(map(population, (FIRST, SECOND, THIRD))), votes)


def test_a_round_says_who_stayed_who_was_dropped_and_what_was_written(history):
    assert (history.stayed(0), history.dropped(0)) == ([2, 0], [1])
    assert (history.stayed(1), history.dropped(1)) == ([2], [0, 1])
    assert [each.id for each in history.written(0)] == ["d"]
    assert [each.id for each in history.written(1)] == ["e", "f"]
    samples = round_samples(history)
    assert samples["left_out"] == []
    first, second = samples["rounds"]
    assert first["counts"] == {"stayed": 2, "written": 1, "dropped": 1}
    assert [line["about"] for line in first["parts"][0]["lines"]] == [
        ["c", "votes +0.500", "of the first population"],
        ["a", "tea", "votes +0.200", "of the first population"],
    ]
    assert first["parts"][1]["lines"] == [
        {"text": "second d", "about": ["d", "by the prompt continue, showing 2 candidates"]}
    ]
    assert [line["about"][1:] for line in second["parts"][2]["lines"]] == [
        ["votes +0.100", "of the first population"],
        ["tea", "barred by vetting", "of the first population"],
    ]


def test_where_nobody_is_carried_over_a_round_says_whom_the_generator_was_shown(history):
    after = (Candidate("g", "g", "", 1, ("b",), "vary"), Candidate("h", "h", "", 1, ("c", "b"), "vary"))
    found = round_samples(History((population(FIRST), population(after)), history.votes[:1]))["rounds"][0]
    assert found["counts"] == {"stayed": 0, "written": 2, "dropped": 3}
    first = found["parts"][0]
    assert (first["name"], first["total"]) == ("Shown to the generator", 2)
    assert [line["about"][0] for line in first["lines"]] == ["c", "b"]


def test_a_candidate_has_its_votes_by_round(history):
    assert history.standings["c"] == [(1, 0.5, True), (2, 0.1, False)]
    assert history.standings["b"] == [(1, -0.1, False)]
    assert history.standings["e"] == []


def test_a_tree_holds_those_that_prompts_showed_each_opened_once(history):
    trees = {tree["id"]: tree for tree in lineage_trees(history)}
    assert list(trees) == ["e", "f", "d"]
    tree = trees["e"]
    assert (tree["ancestors"], tree["shown"]) == (3, 3)
    d, c = tree["parents"]
    assert d["about"] == [
        "written in round 1 by the prompt continue, showing 2 candidates",
        "round 2: votes +0.400, stayed",
    ]
    assert [each["id"] for each in d["parents"]] == ["c", "b"]
    assert d["parents"][0]["about"] == ["opened elsewhere in this tree"]
    assert c["about"] == [
        "of the first population",
        "round 1: votes +0.500, stayed",
        "round 2: votes +0.100, dropped",
    ]
    assert trees["f"]["parents"] == []


def nodes(tree):
    return 1 + sum(map(nodes, tree["parents"]))


def opened(tree):
    own = 0 if "opened elsewhere in this tree" in tree["about"] else 1
    return own + sum(map(opened, tree["parents"]))


def ancestors(history, name):
    """Return the ids of all ancestors, the slow way: again until nothing is new."""
    found = set(history.candidates[name].parents)
    while True:
        more = found.union(*(history.candidates[each].parents for each in found))
        if more == found:
            return found
        found = more


@pytest.fixture(scope="module")
def large(hostile):
    """Return a run of many rounds, candidates and parents, whose texts, labels and prompts are long and hostile."""
    rng, made = np.random.default_rng(3), []
    candidates = [Candidate(f"r0-{i:05d}", f"{i} {hostile * 50}", hostile) for i in range(300)]
    for number in range(1, 22):
        made.append(population(candidates))
        kept = candidates[:100]
        candidates = [*kept]
        for i in range(200):
            parents = tuple(kept[j].id for j in rng.permutation(100)[:6])
            text = f"{number} {i} {hostile * 50}"
            candidates.append(Candidate(f"r{number}-{i:05d}", text, hostile, number, parents, hostile))
        candidates = [candidates[j] for j in rng.permutation(300)]
    return History((*made, population(candidates)), tuple(rng.normal(size=300) for _ in made))


def test_a_tree_stays_small_and_counts_what_it_leaves_out(large):
    trees = lineage_trees(large)
    assert len(trees) == TREES
    for tree in trees:
        everybody = ancestors(large, tree["id"])
        assert tree["ancestors"] == len(everybody) > tree["shown"]
        assert opened(tree) == tree["shown"] + 1 == NODES
        assert nodes(tree) <= 6 * NODES + 1


def test_lists_stay_small_and_say_of_how_many(large):
    samples = round_samples(large)
    shown = [each["round"] for each in samples["rounds"]]
    assert len(shown) == ROUNDS
    assert sorted([*shown, *samples["left_out"]]) == list(range(1, 22))
    assert {len(part["lines"]) for each in samples["rounds"] for part in each["parts"]} == {SAMPLES}
    assert all(each["counts"]["stayed"] + each["counts"]["dropped"] == 300 for each in samples["rounds"])
    assert len(sample_texts(large)["texts"]) == FINAL


def test_the_page_of_a_large_run_stays_small_and_holds_no_markup_of_its_texts(evolved, large):
    summary = summarise_run(evolved)
    plain = {"final": None, "samples": None, "lineage": []}
    own = {"final": sample_texts(large), "samples": round_samples(large), "lineage": lineage_trees(large)}
    without, page = (render_summary(summary | {"evolution": summary["evolution"] | each}) for each in (plain, own))
    assert len(page) - len(without) < 300_000
    assert page.count("<script") == without.count("<script") == 1
    assert "<img" not in page
    assert "Left out for brevity: rounds 2, 3" in page
    assert "left out for brevity." in page
    assert f"{NODES - 1} of " in page


def test_lineage_that_leads_round_in_a_circle_ends(history):
    circle = (Candidate("x", "x", "", 1, ("y",), "p"), Candidate("y", "y", "", 1, ("x", "gone"), "p"))
    found = lineage_trees(History((population(FIRST), population(circle)), history.votes[:1]))
    assert [nodes(tree) for tree in found] == [4, 4]
    assert "not in this run's banks" in json.dumps(found)


def test_a_run_without_releases_has_texts_and_no_lineage():
    alone = History((population(FIRST),), ())
    assert lineage_trees(alone) == []
    assert round_samples(alone) == {"left_out": [], "rounds": []}
    assert [line["text"] for line in sample_texts(alone)["texts"]] == ["first a", "first b", "first c"]


def test_what_is_read_is_what_the_run_did(evolved):
    history, evolution = read_history(evolved), Evolution.load(evolved.folder / EVOLUTION)
    assert [each.ids for each in history.populations] == [
        *(each.population.ids for each in evolution.rounds),
        evolution.population.ids,
    ]
    for index, made in enumerate(evolution.rounds):
        np.testing.assert_array_equal(history.votes[index], made.votes)
        assert history.stayed(index) == list(made.kept_candidates)


def test_a_barred_candidate_is_read_without_votes(evolved, tmp_path):
    facts = evolved.results.evolution
    archive = FolderArchive(tmp_path / EVOLUTION, facts.insecure_seed)
    archive.put_bank(0, Published.of(population(FIRST), None, barred=(1,)))
    archive.put_release(0, np.array([0.5, 0.25, -0.5]))
    archive.put_bank(1, Published.of(population(SECOND), None))
    run = Run(tmp_path)
    run.__dict__["results"] = evolved.results.model_copy(
        update={"evolution": facts.model_copy(update={"rounds": facts.rounds[:1]})}
    )
    np.testing.assert_array_equal(read_history(run).votes[0], [0.5, np.nan, -0.5])


@pytest.fixture
def copied(evolved, tmp_path):
    shutil.copytree(evolved.folder, tmp_path / "run")
    return tmp_path / "run"


def test_the_terminal_shows_texts_of_the_last_population(evolved):
    population = Evolution.load(evolved.folder / EVOLUTION).population
    texts = last_texts(evolved, 5)
    assert len(texts) == 5
    assert texts[0] == population.texts[0]
    assert texts[-1] == population.texts[-1]


def test_a_folder_without_its_banks_shows_the_newest_text(copied):
    shutil.rmtree(copied / EVOLUTION / "rounds")
    run = Run.open(copied)
    page = render_html(run)
    assert "The newest text" in page
    assert 'id="lineage"' not in page
    assert 'id="figure-clouds"' in page  # the map of a simulation with a reference is in its results
    assert last_texts(run, 3)[0] == run.results.evolution.examples[0]


def test_an_old_folder_has_a_map_without_real_records(copied):
    results = json.loads((copied / "results.json").read_text())
    assert len(results["evolution"].pop("clouds")["real"]) > 10
    (copied / "results.json").write_text(json.dumps(results))
    page = render_html(Run.open(copied))
    assert 'class="dot-new"' in page
    assert 'class="dot-real"' not in page


@pytest.mark.parametrize("change", [{"prompt": 7}, {"born": "1"}, {"parents": [3]}, {"label": None}, {"id": 9}])
def test_lineage_that_was_altered_is_refused(copied, change):
    place = copied / EVOLUTION / "rounds" / "001"
    rows = [json.loads(line) for line in (place / "bank.jsonl").read_text().splitlines()]
    rows[3] |= change
    (place / "bank.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = read_checked(place / "bank.json")
    write_checked(
        place / "bank.json", record | {"files": record["files"] | {"bank.jsonl": hash_file(place / "bank.jsonl")}}
    )
    with pytest.raises(StoreError, match="no lineage that can be read"):
        read_history(Run.open(copied))
