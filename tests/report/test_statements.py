from dataclasses import replace

import pytest

from canarybank.attack import PoolFacts, SearchFacts, Similarity
from canarybank.report import generator_line, render_html, summarise_run, summary_markdown, written_lines
from canarybank.run import GeneratorRecord
from canarybank.score import Interval

COUNTERS = {"asked": 60, "kept": 40, "surplus": 2, "refusal": 3, "meta": 7, "too-long": 2, "verbatim": 6}


def similarity(median, measure="x cosine"):
    return Similarity(measure=measure, smallest=median / 2, low=0.4, median=median, high=0.9, largest=0.95)


@pytest.fixture
def written(run, changed):
    """Return a function that gives the run with these pools of its first attack's two canaries, and bank counters."""

    def change(*pools, bank=()):
        first, *others = run.results.attacks
        canaries = [replace(c, pool=pool) for c, pool in zip(first.canaries, pools, strict=True)]
        attack = replace(first, canaries=tuple(canaries))
        setup = run.results.setup.model_copy(update={"bank_counters": dict(bank)})
        return changed(attacks=(attack, attack, *others), setup=setup)

    return change


def test_a_run_without_written_text_says_nothing_of_it(run):
    assert written_lines(run.results) == {}


def test_shared_pools_count_once_and_the_most_frequent_reasons_are_named(written):
    pools = [PoolFacts(size=40, similarity=similarity(median), counters=COUNTERS) for median in (0.8, 0.7)]
    assert written_lines(written(*pools).results) == {
        "paraphrases": "40 a canary, x cosine to their records 0.35 to 0.95, medians 0.70 to 0.80; answers: 120 asked, "
        "80 kept, 4 surplus, 36 rejected (14 meta, 12 verbatim, 6 refusal, 4 for other reasons)"
    }


def test_what_is_not_known_is_left_out(written):
    assert written_lines(written(PoolFacts(size=40), None).results) == {"paraphrases": "40 a canary"}
    same = [PoolFacts(size=40, similarity=similarity(0.7))] * 2
    assert written_lines(written(*same).results) == {
        "paraphrases": "40 a canary, x cosine to their records 0.35 to 0.95, median 0.70"
    }


def test_page_and_summary_show_the_lines_with_no_power_in_them(written, hostile):
    pools = [PoolFacts(size=40, similarity=similarity(0.7, hostile), counters=COUNTERS)] * 2
    run = written(*pools, bank={"asked": 9, "kept": 8, hostile: 1, "stripped-quotes": 5})
    facts = dict(summarise_run(run)["facts"])
    assert facts["Bank answers"].endswith("; of those kept, stripped: 5 of quotes")
    assert "median 0.70; answers: 120 asked" in facts["Paraphrases"]
    page, text = render_html(run), summary_markdown(summarise_run(run))
    for shown in (page, text):
        assert "of those kept, stripped" in shown
        assert "\u202e" not in shown
    assert "<script>window.hacked" not in page
    assert "<script>" not in text.replace(r"\<script\>", "")


URL = "https://far.example/v1"
COUNTED = {"requests": 12, "requests_with_records": 10, "records": 3}


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"server": None}, "m, in the run's own process: nothing was sent"),
        ({"server": URL}, f"m at {URL}: no request is made from users' records"),
        ({"server": URL, "requests": 40}, f"m at {URL}: 40 requests sent, none to paraphrase a user's record"),
        (
            {"server": URL, "proxy": "p:1", **COUNTED},
            f"m at {URL} through the proxy p:1: 12 requests sent, 10 of them with a user's record (3 different ones)",
        ),
    ],
)
def test_the_server_and_what_it_was_sent_are_told(run, facts, told):
    record = GeneratorRecord(kind="openai", model="m", **facts)
    assert generator_line(run.manifest.model_copy(update={"generators": (record,)})) == told
    both = run.manifest.model_copy(update={"generators": (record, record)})
    assert generator_line(both) == f"{told}; {told}"


def test_a_run_from_before_says_nothing_of_its_server(run):
    assert generator_line(run.manifest.model_copy(update={"generators": ()})) is None


def test_the_declared_method_and_its_assumption_are_named(run, summary):
    text = " ".join(summary["assumptions"])
    assert run.results.attacks[0].headline.assumption in text
    assert "adding or removing one user" in text


def test_a_search_is_told_by_its_weakest_canary(run):
    facts = SearchFacts(
        family="yi", examples=("a",), probes=5, decoys=3, votes=(3, 9), voters=4, users=30, background=0.1,
        concentration=1.0, epsilon=1.0, expected=Interval(0.9, 1.1), level=0.95, limit=1.6846, candidates=1200,
    )  # fmt: skip
    found = [replace(facts, epsilon=epsilon) for epsilon in (1.5, 1.0, 1.6)]
    attack = run.results.attacks[0]
    canaries = tuple(replace(attack.canaries[0], search=each) for each in found)
    results = run.results.model_copy(update={"attacks": (replace(attack, canaries=canaries),)})
    line = written_lines(results)["search"]
    assert line.startswith("the weakest of 3: Found among 1,200 texts (yi): 1.000 of 1.685 (59%) on 30 held-out users")
    assert "What is in the way: 4 of the 30 users vote for the probes, 3 to 9 records a probe" in line
    assert "search" not in written_lines(run.results)


def test_nonces_are_named_as_no_people_only_where_there_are_any(run, summary, changed):
    assert any("Nonce" in line for line in summary["limits"])
    real = summarise_run(changed(attacks=run.results.attacks[:2]))
    assert not any("Nonce" in line for line in real["limits"])
