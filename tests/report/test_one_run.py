"""Show the certificate of one run: the verdict first, every number as the certificate has it, nothing cut."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from drawn_figures import labelled, out_of
from shown_pages import text_of as seen

from canarybank.auditing import RunDeclaration, RunScores, family_epsilon, guess_scores, judge_run
from canarybank.mechanism import Claim, Mechanism
from canarybank.report import (
    PAGE,
    Planted,
    certificate_markdown,
    render_html,
    summarise_certificate,
    write_report,
)
from canarybank.report.certificate_figures import certificate_parts
from canarybank.run import verify

PLANTED = Planted(probes=5, bank=8192, style="nonce", votes="Of the auxiliary users' votes, 0.34% go to probes.")


def played(q, coins, rounds, canaries, *, noise=1.0, rate=None, evidence=(), mechanism=True):
    """Play one run whose noise is divided by a factor and whose sampler may have another rate, and judge it."""
    rng, claim = np.random.default_rng(15), Claim.of(Mechanism(q=q), rounds=rounds)
    if not mechanism:
        claim = Claim(claim.epsilon, claim.delta, rounds=rounds)
    declared = RunDeclaration(claim, canaries, coins, 0.95, evidence)
    eligible = rng.random(canaries) < 0.5 if coins == "fair" or q == 1 else np.ones(canaries, bool)
    took = eligible[:, None] & (rng.random((canaries, rounds)) < (rate or q))
    scores = (rng.normal(size=took.shape)) / noise + 0.95 * took
    run = RunScores(scores, eligible, took if coins == "known" else None)
    return declared, run, judge_run(declared, run)


CASES = {
    "several": played(0.1, "known", 6, 409),
    "halved": played(0.1, "known", 6, 409, noise=2.0),
    "often": played(0.1, "known", 6, 409, rate=0.16),
    "one": played(0.5, "known", 1, 81),
    "fair": played(0.5, "fair", 2, 128),
    "all": played(1.0, "known", 3, 128, evidence=("known-coins", "order-statistics", "guessing")),
    "guessed": played(1.0, "fair", 1, 409, mechanism=False),
    "broken": played(1.0, "fair", 1, 1638, noise=2.5),
    "nothing": played(0.1, "fair", 1, 81),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def epsilon(value):
    return f"{value:.3f}" if value >= 1 else f"{value:#.4g}"


def parts_of(declared, run, found):
    return certificate_parts(declared, run, found, summarise_certificate(declared, run, found, PLANTED))


def written(declared, run, found):
    return "\n".join(certificate_markdown(summarise_certificate(declared, run, found, PLANTED)))


@pytest.mark.parametrize(
    ("name", "tone", "begins"),
    [
        ("several", "stands", "No violation detected at this power: one run of 6 releases with 409 canaries shows"),
        ("halved", "refuted", "Violation detected: one run of 6 releases with 409 canaries shows"),
        ("broken", "refuted", "Violation detected: one run of 1 release with 1,638 canaries shows"),
        (
            "nothing",
            "untested",
            "The claim could not be tested at this power: so few canaries typically show nothing; one",
        ),
    ],
)
def test_the_verdict_comes_first_with_its_bound_and_its_confidence(name, tone, begins):
    declared, run, found = CASES[name]
    verdict = summarise_certificate(declared, run, found, PLANTED)["verdict"]
    best = max(found.shown, key=lambda each: each.epsilon)
    assert (verdict["tone"], verdict["sentence"][: len(begins)]) == (tone, begins)
    bound = f"an epsilon of at least {epsilon(best.epsilon)} ({best.evidence.value})"
    assert (bound if best.epsilon else "no epsilon above 0") in verdict["sentence"]
    assert f"claimed {epsilon(found.claim.epsilon)}, with 95% confidence over all evidence" in verdict["sentence"]


def test_a_sampler_that_takes_too_many_refutes_without_a_larger_epsilon():
    """A refuted certificate says so first, though its bound is below the claim."""
    declared, run, found = CASES["often"]
    lower = replace(found, shown=tuple(replace(each, epsilon=0.5) for each in found.shown))
    verdict = summarise_certificate(declared, run, lower, PLANTED)["verdict"]
    assert found.refuted
    assert verdict["sentence"].startswith("The claim is refuted: one run of 6 releases")
    assert verdict["tone"] == "refuted"
    assert "and 0.1 is claimed" in " ".join(verdict["beside"])


def test_every_kind_of_evidence_is_summarised_with_all_that_it_says(case):
    declared, run, found = case
    section, markdown = summarise_certificate(declared, run, found, PLANTED), written(declared, run, found)
    for each, row, said, power in zip(
        found.shown, section["evidence"], section["said"], section["powers"], strict=True
    ):
        expected = declared.expected(each.evidence)
        ends = f"{epsilon(expected.q05)} to {epsilon(expected.q95)}"
        told = (each.evidence.value, "refuted" if each.refuted else "not refuted", epsilon(each.epsilon))
        assert row[:3] == told
        assert row[5:] == (epsilon(expected.median), ends, f"{each.alpha:.4g}")
        assert said == (each.evidence.value, each.statement)
        assert power[:3] == (each.evidence.value, each.family, each.assumption)
        assert power[3] in declared.power
        assert f"| {each.evidence.value} | {told[1]} | {told[2]} |" in markdown
    assert section["ledger"] == [(name, f"{share:.4g}", "0.05") for name, share in declared.ledger.entries]


@pytest.mark.parametrize("name", ["halved", "known", "fair"])
def test_every_kind_of_evidence_is_shown_with_all_that_it_says(one_runs, name):
    run = one_runs[name]
    declared, found, text = run.one_run.declaration, run.one_run_results.found, seen(render_html(run))
    for each, power in zip(found.shown, declared.power, strict=True):
        for said in (each.statement, each.family, each.assumption, power):
            assert said in text
    for entry, share in declared.ledger.entries:
        assert f"{entry} {share:.4g} 0.05" in text


def test_the_ladder_has_a_rung_for_the_claim_the_mechanism_the_canaries_and_each_evidence(case):
    declared, run, found = case
    claim, rungs = found.claim, summarise_certificate(declared, run, found, PLANTED)["rungs"]
    known = [] if claim.mechanism is None else ["mechanism", "attack"]
    assert [rung["name"] for rung in rungs] == ["accounted", *known, *(["expected", "observed"] * len(found.shown))]
    assert rungs[0]["epsilon"] == claim.epsilon
    if known:
        assert rungs[1]["epsilon"] == pytest.approx(claim.epsilon, rel=1e-5)
        assert rungs[2]["epsilon"] == family_epsilon(claim.q, declared.shift, claim.rounds, claim.delta)
        assert rungs[2]["epsilon"] < rungs[1]["epsilon"]
    for each, typical, observed in zip(
        found.shown, rungs[-2 * len(found.shown) :: 2], rungs[-2 * len(found.shown) + 1 :: 2], strict=True
    ):
        expected = declared.expected(each.evidence)
        assert (typical["epsilon"], typical["low"], typical["high"]) == (expected.median, expected.q05, expected.q95)
        assert observed["epsilon"] == each.epsilon
    figure = parts_of(*case)["ladder"]
    assert [row[:3] for row in figure.rows][-1] == (
        "observed",
        f"by {each.evidence.value}",
        f"at least {epsilon(each.epsilon)}",
    )


def compared(declared, run, found):
    """Return what the figure of each comparison says: the difference of means, its bound, what the claim allows."""
    said = r"differ by (\S+), and so by at least (\S+) at this confidence; the claim allows (\S+)\.$"
    drawn = [re.search(said, figure.alternative) for figure in parts_of(declared, run, found)["scores"]]
    return [tuple(map(float, each.groups())) for each in drawn if each]


@pytest.mark.parametrize("name", ["several", "halved", "often", "one", "all"])
def test_the_rule_of_a_comparison_lies_beyond_the_claim_exactly_where_the_shift_does(name):
    declared, run, found = CASES[name]
    took = run.eligible[:, None] & np.ones_like(run.scores, bool) if run.took is None else run.took
    shifts = [shift for each in found.shown for shift in each.shifts]
    for shift, (difference, bound, allowed) in zip(shifts, compared(declared, run, found), strict=True):
        assert (bound > allowed) == (shift.lower > declared.limit)
        assert bound < difference == pytest.approx(shift.difference, abs=1e-3)
        if shift.way == "between":
            apart = run.scores[took].mean() - run.scores[~took].mean()
            assert difference == pytest.approx(apart, abs=1e-3)


def test_means_over_the_releases_are_compared_where_a_canary_is_in_all_of_them():
    declared, run, found = CASES["all"]
    (shift,) = [shift for each in found.shown for shift in each.shifts]
    figure = parts_of(declared, run, found)["scores"][0]
    inside, out = re.search(r"means over the releases of (\d+) in and (\d+) out", figure.alternative).groups()
    assert int(inside) + int(out) == 128
    ((_, bound, _),) = compared(declared, run, found)
    assert bound == pytest.approx(shift.lower * shift.deviation * 3**0.5, abs=1e-3)


def test_the_guesses_that_count_lie_at_or_beyond_the_lines():
    declared, run, found = CASES["fair"]
    rows = summarise_certificate(declared, run, found, PLANTED)["guessed"]
    scores = np.abs(guess_scores(run.scores, q=0.5, designed=declared.guessed_by))
    for each, row in zip([each for each in found.shown if each.guesses], rows, strict=True):
        least = float(row[5])
        assert (scores >= least + 1e-3).sum() <= each.guesses <= (scores >= least - 1e-3).sum()


def test_known_coins_are_counted_release_by_release_and_others_over_the_run():
    first, whole = parts_of(*CASES["several"])["curves"]
    assert first.title == "One release, given who took part"
    assert labelled(first, "counted")
    assert not labelled(whole, "counted")
    for name in ("fair", "all"):
        assert all(labelled(figure, "counted") for figure in parts_of(*CASES[name])["curves"])


def test_the_curve_at_the_bound_lies_above_the_claimed_one_exactly_where_the_claim_is_refuted():
    for name, is_above in (("several", False), ("halved", True), ("all", False)):
        for figure in parts_of(*CASES[name])["curves"]:
            for row in figure.rows[2:]:
                assert (float(row[2]) > float(row[1])) == is_above


def test_without_a_mechanism_there_is_no_family_and_no_curve():
    figures = parts_of(*CASES["guessed"])["curves"]
    assert all(labelled(figure, "_edge") and not labelled(figure, "claimed curve") for figure in figures)
    assert "claim allows" in figures[0].caption


def test_canaries_are_disclosed_with_what_they_cost(case):
    declared, run, found = case
    text = " ".join(summarise_certificate(declared, run, found, PLANTED)["disclosed"])
    probes = 5 * found.canaries
    assert f"{found.canaries:,} canaries are synthetic users that the auditor made (nonce)" in text
    assert f"{probes:,} of 8,192 entries, {100 * probes / 8192:.1f}".removesuffix(".0") in text
    assert "users' votes, 0.34% go to probes" in text
    assert "They cost real users no privacy" in text
    assert "utility was not measured" in text
    measured = replace(PLANTED, votes=None, utility=("MAUVE fell by 0.01.",))
    assert "MAUVE fell by 0.01." in summarise_certificate(declared, run, found, measured)["disclosed"]


def test_what_known_coins_say_of_the_sampler_is_said():
    declared, run, found = CASES["several"]
    sentence = summarise_certificate(declared, run, found, PLANTED)["sampler"]
    (shown,) = found.shown
    assert f"{found.took:,} of {409 * 6:,} coins" in sentence
    assert f"at least {shown.rate:.3g}" in sentence
    assert summarise_certificate(*CASES["all"], PLANTED)["sampler"] is None


@pytest.mark.parametrize("name", ["halved", "known", "fair"])
def test_a_row_for_each_kind_of_evidence_holds_its_numbers(one_runs, tmp_path, name):
    run = one_runs[name]
    declared, found = run.one_run.declaration, run.one_run_results.found
    rows = list(csv.DictReader(write_report(run, tmp_path)[2].read_text().splitlines()))
    assert [(row["evidence"], float(row["epsilon"]), row["refuted"]) for row in rows] == [
        (each.evidence.value, each.epsilon, str(each.refuted)) for each in found.shown
    ]
    medians = [declared.expected(each.evidence).median for each in found.shown]
    assert [float(row["expected_median"]) for row in rows] == medians


def test_a_run_without_any_noise_has_figures():
    """Scores out that are all alike give the largest shift that is ever said, and figures all the same."""
    took = np.arange(16)[:, None] % 2 == 0
    declared = RunDeclaration(Claim.of(Mechanism(q=1.0)), 16, "known", 1.0, ("known-coins", "guessing"))
    run = RunScores(took * 2.0, took[:, 0], took)
    found = judge_run(declared, run)
    assert found.refuted
    assert "Violation detected" in summarise_certificate(declared, run, found, PLANTED)["verdict"]["sentence"]
    assert found.shown[0].shift == 30.0
    for figure in parts_of(declared, run, found)["curves"]:
        assert "at the bound, known-coins" in figure.columns


def test_no_text_of_a_figure_runs_out_of_it(case):
    """In the widest font; the browser's test looks at what covers what."""
    parts = parts_of(*case)
    for figure in (*parts["scores"], *parts["curves"], parts["ladder"]):
        assert out_of(figure) == []


def test_every_score_is_in_a_histogram(case):
    figures = parts_of(*case)["scores"]
    assert figures
    for figure in figures:
        for name in ("in", "out"):
            (share,) = [each.get_data().values for each in labelled(figure, name)]
            assert share.sum() == pytest.approx(100)


@pytest.mark.parametrize("name", ["halved", "known", "fair"])
def test_the_report_of_one_run_has_all_its_forms_the_same_to_the_byte(one_runs, tmp_path, name):
    first, second = (write_report(one_runs[name], tmp_path / place) for place in "ab")
    assert [path.name for path in first] == [PAGE, "summary.md", "results.csv", "results.parquet"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(("name", "begins"), [("halved", "Violation detected: "), ("known", "No violation detected")])
def test_the_page_of_one_run_says_first_what_its_certificate_says(one_runs, tmp_path, name, begins):
    run, found = one_runs[name], one_runs[name].one_run_results.found
    html, text = render_html(run), write_report(run, tmp_path)[1].read_text()
    top = seen(html[: html.index("<h2")])
    assert begins in top
    assert found.refuted == (name == "halved")
    for each in found.shown:
        assert epsilon(each.epsilon) in top
        assert each.statement in seen(html)
        assert f"| {epsilon(each.epsilon)} |" in text
    assert text.index(begins.partition(":")[0]) < text.index("## ")
    assert f"{found.canaries:,} canaries are synthetic users" in seen(html)
    assert re.search(r"Of the auxiliary users' votes, [\d.]+% go to probes", seen(html))


@pytest.mark.parametrize("name", ["halved", "known", "fair"])
def test_scores_are_made_again_from_what_the_folder_keeps(one_runs, name):
    """To verify a run is to judge its releases again."""
    assert verify(one_runs[name].folder).ok


def test_the_page_of_an_evolution_shows_its_certificate_first_and_what_it_spent_after(certified, tmp_path):
    page, *others = write_report(certified, tmp_path)
    facts, html = certified.results.evolution, page.read_text()
    top = seen(html[: html.index("<h2")])
    assert "one run of 2 releases with 10 canaries" in top
    assert top.index("violation") < top.index("2 rounds of Private Evolution")
    assert [path.name for path in others] == [
        "summary.md",
        *(f"{name}.{kind}" for name in ("results", "rounds") for kind in ("csv", "parquet")),
    ]
    text = seen(html)
    for each in facts.certificate.shown:
        assert each.statement in text
        assert each.statement.replace(":", r"\:") in others[0].read_text()
    assert "What the probes cost in utility, after round 2" in text
    assert f"recall {facts.cost[-1].recall:+.3f}" in text
    assert "went to probes" in text


@pytest.mark.parametrize("name", ["halved", "fair"])
def test_no_name_breaks_out_of_the_page_of_one_run(one_runs, tmp_path, name, hostile):
    html, text = render_html(one_runs[name]), write_report(one_runs[name], tmp_path)[1].read_text()
    assert hostile not in html
    assert html.count("<script") == 1
    assert "<img" not in html
    assert "\u202e" not in html
    assert not re.search(r"(?<!\\)<", text)
