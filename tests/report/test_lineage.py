"""The text of an evolution: who stayed, was written and was dropped in each round, and where a candidate comes from."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from canarybank.errors import StoreError
from canarybank.evolution import Candidate, Evolution, FolderArchive, Population, Published
from canarybank.report import render_html, render_summary, summarise_run
from canarybank.run import Run
from canarybank.store import hash_file, read_checked, write_checked

FIRST = (Candidate("a", "first a", "tea"), Candidate("b", "first b"), Candidate("c", "first c"))
SECOND = (FIRST[2], FIRST[0], Candidate("d", "second d", "", 1, ("c", "b"), "continue"))
THIRD = (SECOND[2], Candidate("e", "third e", "", 2, ("d", "c"), "vary"), Candidate("f", "third f", "", 2))


def population(candidates):
    return Population(candidates, np.eye(len(candidates), 4))


@pytest.fixture(scope="module")
def summarised(evolved, tmp_path_factory):
    """Return a function that gives what the page shows of an evolution with these populations and votes.

    A vote that is not a number is of a candidate that vetting barred.
    """

    def summarise(populations, votes):
        folder = shutil.copytree(evolved.folder, tmp_path_factory.mktemp("made") / "run")
        shutil.rmtree(folder / "evolution")
        archive = FolderArchive(folder / "evolution", evolved.results.evolution.insecure_seed)
        for number, made in enumerate(populations):
            barred = tuple(np.flatnonzero(np.isnan(votes[number])).tolist()) if number < len(votes) else ()
            archive.put_bank(number, Published.of(made, None, barred=barred))
            if number < len(votes):
                archive.put_release(number, np.nan_to_num(votes[number], nan=0.25))
        facts = evolved.results.evolution
        rounds = tuple(replace(facts.rounds[0], round=number + 1) for number in range(len(votes)))
        run = Run(folder)
        bare = {"attacks": (), "commitment": None, "setup": None}
        evolution = facts.model_copy(update={"rounds": rounds, "utility": None, "plain": None, "cost": ()})
        run.__dict__["results"] = evolved.results.model_copy(update={"evolution": evolution, **bare})
        return summarise_run(run)

    return summarise


VOTES = (np.array([0.2, -0.1, 0.5]), np.array([0.1, np.nan, 0.4]))


@pytest.fixture(scope="module")
def shown(summarised):
    return summarised(tuple(map(population, (FIRST, SECOND, THIRD))), VOTES)["evolution"]


def test_a_round_says_who_stayed_who_was_dropped_and_what_was_written(shown):
    assert shown["samples"]["left_out"] == []
    first, second = shown["samples"]["rounds"]
    assert first["counts"] == {"stayed": 2, "written": 1, "dropped": 1}
    assert second["counts"] == {"stayed": 1, "written": 2, "dropped": 2}
    assert [line["about"] for line in first["parts"][0]["lines"]] == [
        ["c", "votes +0.500", "of the first population"],
        ["a", "tea", "votes +0.200", "of the first population"],
    ]
    assert first["parts"][1]["lines"] == [
        {"text": "second d", "about": ["d", "by the prompt continue, showing 2 candidates"]}
    ]
    assert [line["about"][0] for line in second["parts"][1]["lines"]] == ["e", "f"]
    assert [line["about"][1:] for line in second["parts"][2]["lines"]] == [
        ["votes +0.100", "of the first population"],
        ["tea", "barred by vetting", "of the first population"],
    ]


def test_where_nobody_is_carried_over_a_round_says_whom_the_generator_was_shown(summarised):
    after = (Candidate("g", "g", "", 1, ("b",), "vary"), Candidate("h", "h", "", 1, ("c", "b"), "vary"))
    found = summarised((population(FIRST), population(after)), VOTES[:1])["evolution"]["samples"]["rounds"][0]
    assert found["counts"] == {"stayed": 0, "written": 2, "dropped": 3}
    first = found["parts"][0]
    assert (first["name"], first["total"]) == ("Shown to the generator", 2)
    assert [line["about"][0] for line in first["lines"]] == ["c", "b"]


def test_a_tree_holds_those_that_prompts_showed_each_opened_once(shown):
    trees = {tree["id"]: tree for tree in shown["lineage"]}
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
    assert d["parents"][1]["about"] == ["of the first population", "round 1: votes −0.100, dropped"]
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


def ancestors(candidates, name):
    """Return the ids of all ancestors, the slow way: again until nothing is new."""
    found = set(candidates[name].parents)
    while True:
        more = found.union(*(candidates[each].parents for each in found))
        if more == found:
            return found
        found = more


@pytest.fixture(scope="module")
def large(hostile):
    """Return the populations of many rounds, whose texts, labels and prompts are long and hostile."""
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
    return (*made, population(candidates))


@pytest.fixture(scope="module")
def crowded(summarised, large):
    """Return what the page shows of such a run."""
    rng = np.random.default_rng(4)
    return summarised(large, [rng.normal(size=300) for _ in large[1:]])


def test_a_tree_stays_small_and_counts_what_it_leaves_out(large, crowded):
    everybody = {each.id: each for made in large for each in made.candidates}
    trees = crowded["evolution"]["lineage"]
    assert 2 <= len(trees) <= 10
    for tree in trees:
        assert tree["ancestors"] == len(ancestors(everybody, tree["id"])) > tree["shown"]
        assert opened(tree) == tree["shown"] + 1 <= 50
        assert nodes(tree) <= 6 * opened(tree) + 1


def test_lists_stay_small_and_say_of_how_many(crowded):
    samples = crowded["evolution"]["samples"]
    shown = [each["round"] for each in samples["rounds"]]
    assert len(shown) <= 10
    assert sorted([*shown, *samples["left_out"]]) == list(range(1, 22))
    assert max(len(part["lines"]) for each in samples["rounds"] for part in each["parts"]) <= 10
    assert all(each["counts"]["stayed"] + each["counts"]["dropped"] == 300 for each in samples["rounds"])
    assert len(crowded["evolution"]["final"]["texts"]) <= 20


def test_the_page_of_a_large_run_stays_small_and_holds_no_markup_of_its_texts(crowded):
    plain = {"final": None, "samples": None, "lineage": []}
    without = render_summary(crowded | {"evolution": crowded["evolution"] | plain})
    page = render_summary(crowded)
    assert len(page) - len(without) < 300_000
    assert page.count("<script") == without.count("<script") == 1
    assert "<img" not in page
    assert "Left out for brevity: rounds 2, 3" in page
    assert "left out for brevity." in page
    assert f"{crowded['evolution']['lineage'][0]['shown']} of " in page


def test_lineage_that_leads_round_in_a_circle_ends(summarised):
    circle = (Candidate("x", "x", "", 1, ("y",), "p"), Candidate("y", "y", "", 1, ("x", "gone"), "p"))
    found = summarised((population(FIRST), population(circle)), VOTES[:1])["evolution"]["lineage"]
    assert [nodes(tree) for tree in found] == [4, 4]
    assert "not in this run's banks" in json.dumps(found)


def test_a_run_without_releases_has_texts_and_no_lineage(summarised):
    alone = summarised((population(FIRST),), ())["evolution"]
    assert alone["lineage"] == []
    assert alone["samples"] == {"left_out": [], "rounds": []}
    assert [line["text"] for line in alone["final"]["texts"]] == ["first a", "first b", "first c"]


def test_what_is_shown_is_what_the_run_did(evolved):
    rounds = Evolution.load(evolved.folder / "evolution").rounds
    shown = summarise_run(evolved)["evolution"]["samples"]["rounds"]
    for made, each in zip(rounds, shown, strict=True):
        kept = [made.population.ids[index] for index in made.kept_candidates]
        first = each["parts"][0]
        assert [line["about"][0] for line in first["lines"]] == kept[: len(first["lines"])]
        assert each["counts"] == {
            "stayed": len(kept),
            "written": each["counts"]["written"],
            "dropped": len(made.population.ids) - len(kept),
        }
        votes = dict(zip(made.population.ids, made.votes, strict=True))
        for line, name in zip(first["lines"], kept, strict=False):
            assert f"votes {votes[name]:+.3f}".replace("-", "−") in line["about"]


@pytest.fixture
def copied(evolved, tmp_path):
    return shutil.copytree(evolved.folder, tmp_path / "run")


def test_the_terminal_shows_texts_of_the_last_population(evolved, printed):
    texts = Evolution.load(evolved.folder / "evolution").population.texts
    lines = printed(evolved)
    start = next(number for number, line in enumerate(lines) if "texts of the last population" in line[0])
    listed = [line[1] for line in lines[start + 1 : start + 6]]
    assert (listed[0], listed[-1]) == (texts[0], texts[-1])


def test_a_folder_without_its_banks_shows_the_newest_text(copied):
    shutil.rmtree(copied / "evolution" / "rounds")
    page = render_html(Run.open(copied))
    assert "The newest text" in page
    assert 'id="lineage"' not in page
    assert 'id="figure-clouds"' in page  # the map of a simulation with a reference is in its results


def test_an_old_folder_has_a_map_without_real_records(copied):
    results = json.loads((copied / "results.json").read_text())
    assert len(results["evolution"].pop("clouds")["real"]) > 10
    (copied / "results.json").write_text(json.dumps(results))
    page = render_html(Run.open(copied))
    assert ">there before<" in page
    assert ">held-out, real<" not in page


@pytest.mark.parametrize("change", [{"prompt": 7}, {"born": "1"}, {"parents": [3]}, {"label": None}, {"id": 9}])
def test_lineage_that_was_altered_is_refused(copied, change):
    place = copied / "evolution" / "rounds" / "001"
    rows = [json.loads(line) for line in (place / "bank.jsonl").read_text().splitlines()]
    rows[3] |= change
    (place / "bank.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = read_checked(place / "bank.json")
    write_checked(
        place / "bank.json", record | {"files": record["files"] | {"bank.jsonl": hash_file(place / "bank.jsonl")}}
    )
    with pytest.raises(StoreError, match="no lineage that can be read"):
        render_html(Run.open(copied))
