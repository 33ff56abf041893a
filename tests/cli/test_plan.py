import json
import re

import pytest


def test_a_plan_says_what_a_run_takes_and_could_show(cli, own, golden, shape):
    document = cli("plan", own, "--json", "--quiet").document
    assert document["state"] == "new"
    assert document["ceiling"] < document["epsilon"]
    assert document["trials_for_goal"] > 3000
    assert document["generator"]["calls"] == 0
    golden("plan.json", json.dumps(shape(document), indent=1) + "\n")


@pytest.mark.usefixtures("finished")  # so that its users and vectors are cached
def test_a_plan_for_people_names_its_assumptions(cli, own, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # no line is broken
    found, out = cli("plan", own, "--json", "--quiet").document, words(cli("plan", own, "--quiet").out)
    assert out.startswith(f"A new run in {found['run']}: about ")
    for stage in found["stages"]:
        assert f"{stage['stage']} {'cached' if stage['cached'] else 'new'} {words(stage['detail'])}" in out
    assert {stage["stage"] for stage in found["stages"] if stage["cached"]} == {"users", "vectors", "bank"}
    assert all(each in out for each in found["assumed"])
    low, high = found["ceiling_range"]
    likely = re.search(r"a median bound of (\S+) and (\S+) to (\S+) in 90% of such runs", out).groups()
    assert [float(each.strip(",;")) for each in likely] == pytest.approx([found["ceiling"], low, high], abs=6e-3)
    assert (
        "by the paper method, 95% confidence over 2 attacks, 3,000 trials of each hypothesis of each of 2 canaries"
        in out
    )
    assert "nothing: no request leaves this machine" in out
    assert f"{found['trials_for_goal']:,} trials of each hypothesis of each canary would typically show" in out


def test_a_plan_runs_nothing(cli, own, tmp_path):
    cli("plan", own)
    assert not (tmp_path / "runs").exists()


def test_a_plan_knows_a_finished_run(cli, own, finished):
    document = cli("plan", own, "--folder", finished, "--json").document
    assert (document["state"], document["trials"]) == ("finished", 0)


def test_a_plan_refuses_other_settings_as_the_run_would(cli, own, finished):
    assert cli("plan", own, "--folder", finished, "--audit.trials", "10").code == 2


def test_what_a_perfect_attack_would_show_is_called_a_median_and_no_maximum(cli, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    made = cli("plan", own, "--json", "--quiet").document
    out = cli("plan", own, "--quiet").out
    low, high = made["ceiling_range"]
    assert f"median bound of {made['ceiling']:.3f}, and {low:.3f} to {high:.3f} in 90% of such runs" in out
    assert "at most" not in out


def test_a_plan_of_one_run_names_both_protocols_and_what_they_would_show(cli, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    words = ("plan", own, "--quiet", "--evolve.audit-one-run", "--one-run.share", "0.4", "--one-run.coins", "fair")
    made, out = cli(*words, "--json").document["one_run"], cli(*words).out
    assert made["statement"] in out
    assert made["cost"] in out
    for each in made["expected"]:
        said = f"{each['evidence']} median {each['median']:.3f}, 5% to 95% {each['low']:.3f} to {each['high']:.3f}"
        assert said in out
    assert "fair coins, chosen" in out
    assert "known coins " in out


def test_a_plan_sets_a_cluster_and_its_price_beside_this_machine(cli, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    words = ("plan", own, "--quiet", "--nodes", 4, "--price", 2.5, "--run.workers", 1)
    machines = cli(*words, "--json").document["machines"]
    assert [(each["nodes"], each["workers"]) for each in machines] == [(1, 1), (4, 4)]
    assert machines[1]["cost"] == pytest.approx(2.5 * 4 * machines[1]["seconds"] / 3600)
    out = cli(*words).out
    for said in ("this machine", "4 nodes like it", "measured", "assumed", "nodes are like this machine"):
        assert said in out
    assert cli("plan", own, "--nodes", 0).code == 2


def test_a_plan_of_an_evolution_refuses_a_cluster_and_its_price(cli, own):
    for flag, value in (("--nodes", 4), ("--price", 2.5)):
        outcome = cli("plan", own, "--evolve", "--evolve.population", 100, flag, value)
        assert outcome.code == 2
        assert "leave --evolve out" in outcome.err
