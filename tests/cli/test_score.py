"""Walk from a design to a verdict on a system that is not ours, with recorded files and with programs, and stumble."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path

import pytest
from operators import altered, forge, operate, rows_of

from canarybank.cli import main
from canarybank.generate import CandidateBank
from canarybank.store import hash_folder, lock_folder

DOUBLES = str(Path(__file__).parents[1] / "doubles")
SETTINGS = {"mechanism.q": 1, "mechanism.sigma": 1, "system.runs": 60, "system.apart": 30}
SOURCES = ("commitment.json", "sealed.json", "results.json")

SHELL = r"""#!/bin/sh
# The claimed noise has deviation 0.1; a canary that is planted adds a vector of norm 0.1 to its own probes.
set -eu
awk -F, -v noise="${NOISE:-0.1}" '
    FNR == NR { if (FNR > 1) { owner[++n] = $1; place[n] = $3; size[$1]++ } next }
    FNR == 1 { print "run,position,value"; next }
    FNR == 2 { srand(9000 + $1) }
    {
        for (i = 1; i <= n; i++) {
            z = sqrt(-2 * log(1 - rand())) * cos(6.283185307179586 * rand())
            printf "%d,%d,%.9g\n", $1, place[i], noise * z + ($3 == owner[i] ? 0.1 / sqrt(size[$3]) : 0)
        }
    }
' "$PLANT/probes.csv" "$1" > "$2/releases.csv"
"""


def flags(**settings):
    """Return settings as flags; sections and keys are joined by two underscores."""
    given = SETTINGS | {key.replace("__", "."): value for key, value in settings.items()}
    return [str(word) for key, value in given.items() for word in (f"--{key}", *([value] if value is not True else []))]


def more(text):
    """Return a text whose last number is larger."""
    *_, last = re.finditer(r"\d+(?:\.\d+)?", text)
    return f"{text[: last.start()]}{float(last[0]) + 1.5}{text[last.end() :]}"


def design(cli, own, folder, **settings):
    outcome = cli("design", own, "-o", folder, *flags(**settings))
    assert outcome.code == 0, outcome.err
    return folder


@pytest.fixture(scope="module")
def designed(own, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plants") / "plant"
    assert main(["design", str(own), "-o", str(folder), *flags()]) == 0
    return folder


@pytest.fixture
def plant(designed, tmp_path):
    return shutil.copytree(designed, tmp_path / "plant")


@pytest.fixture(scope="module")
def judged(designed, tmp_path_factory):
    """Score honest releases once; tests that change the folder take a copy."""
    folder = tmp_path_factory.mktemp("judged")
    plant = shutil.copytree(designed, folder / "plant")
    operate(plant, folder / "releases.csv")
    assert main(["score", str(plant), str(folder / "releases.csv")]) == 0
    return folder


@pytest.fixture
def scored(judged, tmp_path):
    return shutil.copytree(judged, tmp_path / "judged")


@pytest.fixture
def shell(tmp_path, plant, monkeypatch):
    program = tmp_path / "system.sh"
    program.write_text(SHELL)
    monkeypatch.setenv("PLANT", str(plant))
    return program


def test_a_shell_script_is_audited_from_recorded_files(cli, plant, shell, tmp_path):
    (tmp_path / "releases").mkdir()
    subprocess.run(["sh", shell, plant / "schedule.csv", tmp_path / "releases"], check=True)  # noqa: S607
    outcome = cli("score", plant, "releases", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.document["found"]["verdict"] == "stands"
    assert "at this power" in outcome.document["found"]["statement"]
    assert Path(outcome.document["report"]).is_file()
    assert cli("verify", plant).code == 0
    assert cli("gate", plant, "--claimed-eps", "4.4").code == 0


def test_a_shell_script_that_draws_a_third_of_its_noise_is_refuted_as_a_program(cli, plant, shell, monkeypatch):
    monkeypatch.setenv("NOISE", "0.033")
    outcome = cli("score", plant, "--run", f"sh {shell}", "--json")
    assert outcome.code == 1, outcome.err
    shown = {(each["score"], each["evidence"]): each for each in outcome.document["found"]["shown"]}
    assert set(shown) == {(score, each) for score in ("designed", "fitted") for each in ("bound", "curve")}
    assert {each["alpha"] for each in shown.values()} == {0.0125}
    assert shown["designed", "curve"]["refuted"]
    assert shown["designed", "curve"]["refutes"] == "this is the claimed mechanism"
    assert cli("verify", plant).code == 0
    assert cli("gate", plant, "--claimed-eps", "4.4").code == 1
    assert cli("score", plant, "--run", f"sh {shell}").code == 1  # finished: the program is not called again
    assert len(list((plant / "calls").glob("call-*"))) == 2


CLAIMS = {
    "two canaries": {"system__canaries": 2},
    "three rounds": {"system__rounds": 3},
    "replace": {"system__neighbours": "replace", "audit__accounted": 9},
    "no mechanism": {"system.no-mechanism": True, "audit__accounted": 4.4},
    "betting, two canaries and rounds": {
        "system__rounds": 2,
        "system__canaries": 2,
        "mechanism__q": 0.5,
        "system__evidence": "betting",
    },
}


@pytest.mark.parametrize("name", CLAIMS)
def test_every_kind_of_true_claim_stands(name, cli, own, tmp_path):
    settings = CLAIMS[name]
    plant = design(cli, own, tmp_path / "plant", **settings)
    rounds, q = settings.get("system__rounds", 1), settings.get("mechanism__q", 1.0)
    operate(plant, tmp_path / "releases.csv", rounds=rounds, q=q)
    outcome = cli("score", plant, "releases.csv", "--json")
    assert outcome.code == 0, outcome.err + outcome.out
    found = outcome.document["found"]
    assert found["runs"] == len(rows_of(plant / "schedule.csv"))
    assert (found["claim"]["mechanism"] is None) == (name == "no mechanism")
    assert cli("verify", plant).code == 0


@pytest.mark.parametrize("name", CLAIMS)
def test_every_kind_of_false_claim_is_refuted(name, cli, own, tmp_path):
    settings = CLAIMS[name] | {"audit__accounted": 1, "mechanism__q": 1}
    plant = design(cli, own, tmp_path / "plant", **settings)
    operate(plant, tmp_path / "releases.csv", rounds=settings.get("system__rounds", 1), noise=0.05)
    found = cli("score", plant, "releases.csv", "--json").document["found"]
    assert found["verdict"] == "refuted"
    assert any(each["refuted"] for each in found["shown"])


def test_each_canary_has_probes_of_its_own_and_both_show_what_is_wrong_with_one(cli, own, tmp_path):
    plant = design(cli, own, tmp_path / "plant", system__canaries=2)
    probes = rows_of(plant / "probes.csv")
    assert len({(each["label"], each["position"]) for each in probes}) == len(probes)

    def louder(row, line):
        """Let canary-2 alone count five times."""
        own = {each["position"] for each in probes if each["canary"] == row["plant"] == "canary-2"}
        return [*line[:4], repr(float(line[4]) + 0.1 * (line[3] in own))]

    operate(plant, tmp_path / "releases.csv", change=louder)
    found = cli("score", plant, "releases.csv", "--json").document["found"]
    assert found["verdict"] == "refuted"
    counts = next(each["counts"] for each in found["shown"] if each["evidence"] == "curve" and each["refuted"])
    assert counts[1]["tp"] - counts[1]["fp"] > counts[0]["tp"] - counts[0]["fp"]


def test_banks_by_label_are_read_by_label(cli, world, tmp_path):
    lines = [text for text in (world / "bank.txt").read_text().splitlines() if text]
    labels = tuple(("warm", "cold")[i % 2] for i in range(len(lines)))
    CandidateBank(tuple(lines), labels).write(tmp_path / "bank.parquet")
    bank = {"bank__source": tmp_path / "bank.parquet", "system__by_label": True}
    plant = design(cli, world / "own.toml", tmp_path / "plant", **bank)
    probes = rows_of(plant / "probes.csv")
    assert {each["label"] for each in probes} == {"warm", "cold"}
    assert {each["label"] for each in map(json.loads, (plant / "canaries.jsonl").read_text().splitlines())} == {
        "warm",
        "cold",
    }
    operate(plant, tmp_path / "one.csv", change=lambda _, line: None if line[2] == "warm" else line)
    outcome = cli("score", plant, "one.csv")
    assert (outcome.code, "no release with the label 'warm'" in outcome.err) == (2, True)
    operate(plant, tmp_path / "releases.csv", noise=0.3)
    assert cli("score", plant, "releases.csv").code == 1


def test_a_claim_below_its_own_mechanism_is_refuted_without_a_violation_by_the_system(cli, own, tmp_path):
    plant = design(cli, own, tmp_path / "plant", audit__accounted=2)
    operate(plant, tmp_path / "releases.csv")
    outcome = cli("score", plant, "releases.csv", "--json")
    assert outcome.code == 1
    assert outcome.document["found"]["statement"].startswith("The claim is too small")


# What operators get wrong


def repeated(_plant, releases):
    with releases.open("a") as file:
        file.write(releases.read_text().splitlines()[1] + "\n")


def extra(_plant, releases):
    with releases.open("a") as file:
        file.write("9999,1,,3,0.5\n")


def spoilt(change):
    return lambda plant, releases: operate(plant, releases, change=change)


def older(_plant, releases):
    os.utime(releases, (1e9, 1e9))


def column(_plant, releases):
    lines = releases.read_text().splitlines()
    releases.write_text("\n".join([lines[0] + ",clean_count", *(line + ",1" for line in lines[1:])]) + "\n")


def larger(_plant, releases):
    with releases.open("a") as file:
        file.writelines(f"1,1,,{position},0.1\n" for position in range(5000, 5200))


BAD = {
    "a value that is no number": (
        spoilt(lambda row, line: [*line[:4], "nan"] if row["run"] == "7" else line),
        2,
        "not a finite number",
    ),
    "a run that is missing": (spoilt(lambda row, line: None if row["run"] == "7" else line), 4, "1 of 180 runs are"),
    "runs from the middle on": (
        spoilt(lambda row, line: None if int(row["run"]) > 90 else line),
        4,
        "90 of 180 runs are not among the releases: 91, 92, 93, 94, 95, ...",
    ),
    "a run that stands twice": (repeated, 2, "Run 1 stands twice"),
    "a run that was not asked for": (extra, 2, "not in the schedule (9999)"),
    "no runs at all": (lambda _, releases: releases.write_text("run,position,value\n"), 2, "holds no runs"),
    "other positions": (
        spoilt(lambda _, line: [*line[:3], 10**6 + int(line[3]), line[4]]),
        2,
        "none of the inspected positions",
    ),
    "another bank": (larger, 2, "releases of another bank"),
    "files from before the commitment": (older, 2, "written before the commitment"),
    "a column before noise": (column, 2, "Un-noised values must not leave the system"),
    "a release of two rounds in one": (
        spoilt(lambda _, line: [line[0], 0, *line[2:]]),
        2,
        "Rounds count from 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_releases_is_said_and_nothing_is_lost(name, cli, plant, tmp_path):
    change, code, said = BAD[name]
    releases = operate(plant, tmp_path / "releases.csv")
    before = hash_folder(plant)
    change(plant, releases)
    outcome = cli("score", plant, "releases.csv")
    assert (outcome.code, said in " ".join(outcome.err.split())) == (code, True), outcome.err
    assert hash_folder(plant) == before
    operate(plant, releases)
    assert cli("score", plant, "releases.csv").code == 0


def test_releases_beside_the_commitment_of_another_plant_are_refused(cli, own, plant, tmp_path):
    other = design(cli, own, tmp_path / "other", run__seed=5)
    (tmp_path / "releases").mkdir()
    operate(plant, tmp_path / "releases" / "r.csv")
    shutil.copy(other / "commitment.json", tmp_path / "releases")
    outcome = cli("score", plant, "releases")
    assert (outcome.code, "commitment of another plant" in outcome.err) == (2, True)
    shutil.copy(plant / "commitment.json", tmp_path / "releases")
    assert cli("score", plant, "releases").code == 0


def test_old_releases_are_taken_where_the_auditor_says_so_and_the_result_says_so_too(cli, plant, tmp_path):
    os.utime(operate(plant, tmp_path / "releases.csv"), (1e9, 1e9))
    outcome = cli("score", plant, "releases.csv", "--any-time", "--json")
    assert outcome.code == 0
    assert outcome.document["notes"] == [
        "It was not checked that the releases were written after the commitment: the auditor asked for that."
    ]
    assert cli("verify", plant).code == 0


def test_a_mistake_in_the_form_of_releases_can_be_mended(cli, own, tmp_path):
    """Nothing was fitted or judged yet, so the right releases are taken after the wrong ones."""
    plant = design(cli, own, tmp_path / "plant")
    first = rows_of(plant / "probes.csv")[0]["position"]
    operate(plant, tmp_path / "r.csv", change=lambda _, line: None if line[3] == first else line)
    outcome = cli("score", plant, "r.csv")
    assert (outcome.code, "release the inspected positions" in outcome.err) == (2, True)
    operate(plant, tmp_path / "r.csv")
    assert cli("score", plant, "r.csv").code == 0


def test_a_claim_over_several_releases_takes_no_single_one(cli, own, tmp_path):
    plant = design(cli, own, tmp_path / "plant", system__rounds=3, system__scores="fitted")
    outcome = cli("score", plant, operate(plant, tmp_path / "r.csv"))
    assert (outcome.code, "A run made 1 release, and the claim is about 3" in outcome.err) == (2, True)
    assert cli("score", plant, operate(plant, tmp_path / "r.csv", rounds=3)).code == 0


def test_failures_that_depend_on_the_canary_give_5_and_no_verdict(cli, plant, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import pathlib, sys
sys.path.insert(0, {DOUBLES!r})
from operators import operate, rows_of
schedule, releases = map(pathlib.Path, sys.argv[1:])
rows = rows_of(schedule)
planted = [row["run"] for row in rows if row["plant"]]
done = len(list(pathlib.Path({str(plant)!r}, "calls").iterdir()))
stop = planted[0] if planted and done < 20 else None
operate(pathlib.Path({str(plant)!r}), releases / "r.csv", schedule=schedule,
        change=lambda row, line: None if stop and int(row["run"]) >= int(stop) else line)
sys.exit(7 if stop else 0)
"""
    )
    run = ("--run", f"{sys.executable} {program}")
    codes = [cli("score", plant, *run).code for _ in range(20)]
    assert codes[0] == 4
    outcome = cli("score", plant, *run)
    assert (outcome.code, "Failures depend on the canary" in outcome.err) == (5, True)
    assert not (plant / "results.json").exists()


def test_the_gate_fails_an_epsilon_that_the_bets_refuted(cli, own, tmp_path):
    claim = {"audit__accounted": 0.5, "system.no-mechanism": True, "system__evidence": "betting"}
    plant = design(cli, own, tmp_path / "plant", system__batch=2, **claim)
    recorded = operate(plant, tmp_path / "r.csv", noise=0.1)
    outcome = cli("score", plant, recorded, "--stop-when-refuted", "--json")
    shown = [each["epsilon"] for each in outcome.document["found"]["shown"]]
    assert outcome.code == 1
    assert cli("gate", plant, "--claimed-eps", "0.5").code == 1
    assert cli("gate", plant, "--claimed-eps", max(shown)).code == 1


def test_the_same_releases_again_give_the_same_and_others_are_refused(cli, scored):
    plant, releases = scored / "plant", scored / "releases.csv"
    before = [(plant / name).read_bytes() for name in SOURCES]
    assert cli("score", plant, releases).code == 0
    operate(plant, releases, seed=1)
    outcome = cli("score", plant, releases)
    assert (outcome.code, "its alpha is spent" in outcome.err) == (2, True)
    assert [(plant / name).read_bytes() for name in SOURCES] == before


def test_other_releases_are_refused_once_the_first_batch_was_read(cli, own, tmp_path):
    """Else the rules would be fitted on one set of releases, and another be judged by them."""
    plant = design(cli, own, tmp_path / "plant", system__evidence="betting", system__batch=30)
    operate(plant, tmp_path / "some.csv", change=lambda row, line: line if int(row["run"]) <= 100 else None)
    outcome = cli("score", plant, "some.csv", "--stop-when-refuted")
    assert (outcome.code, "not judged yet" in outcome.err) == (4, True)
    operate(plant, tmp_path / "others.csv", seed=1)
    assert cli("score", plant, "others.csv", "--stop-when-refuted").code == 2
    operate(plant, tmp_path / "all.csv")
    outcome = cli("score", plant, "all.csv", "--stop-when-refuted", "--json")
    assert outcome.code == 0
    assert (outcome.document["found"]["lost"], outcome.document["found"]["judged"]) == (0, 60)


def test_an_audit_ends_when_the_bets_refute_and_reads_no_more(cli, own, tmp_path):
    claim = {"audit__accounted": 0.5, "system.no-mechanism": True, "system__evidence": "betting"}
    plant = design(cli, own, tmp_path / "plant", system__batch=20, **claim)
    recorded = operate(
        plant, tmp_path / "some.csv", noise=0.1, change=lambda r, line: line if int(r["run"]) < 121 else None
    )
    outcome = cli("score", plant, recorded, "--stop-when-refuted", "--json")
    assert outcome.code == 1, outcome.err
    assert outcome.document["found"]["judged"] < 30
    (listed,) = cli("runs", "list", tmp_path, "--json").document["runs"]
    assert listed["trials"] == outcome.document["found"]["judged"]
    assert cli("score", plant, recorded).code == 1  # the same releases, and nothing is missing any more
    assert cli("verify", plant).code == 0


def test_only_betting_may_stop_an_audit(cli, plant, tmp_path):
    operate(plant, tmp_path / "releases.csv")
    outcome = cli("score", plant, "releases.csv", "--stop-when-refuted")
    assert (outcome.code, "Only betting may stop" in outcome.err) == (2, True)


# Runs that are lost, of other lengths, or not independent


def test_lost_runs_count_against_a_refutation(cli, plant, tmp_path):
    lost = {row["run"] for row in rows_of(plant / "schedule.csv")[60::10]}
    operate(plant, tmp_path / "r.csv", noise=0.01, change=lambda row, line: None if row["run"] in lost else line)
    assert cli("score", plant, "r.csv").code == 4
    found = cli("score", plant, "r.csv", "--missing-are-lost", "--json").document["found"]
    assert found["lost"] == len(lost) == 12
    rows = [row for row in rows_of(plant / "schedule.csv") if row["run"] in lost]
    misses, hits = (sum((row["plant"] != "") is planted for row in rows) for planted in (True, False))
    for each in found["shown"]:
        (counts,) = each["counts"]
        assert (counts["tp"], counts["n1"], counts["n0"]) == (60 - misses, 60, 60)  # the noise hides nothing
        assert counts["fp"] == hits if each["evidence"] == "bound" else counts["fp"] >= hits


def test_a_hypothesis_whose_fitted_runs_are_all_lost_gives_a_sentence(cli, plant, tmp_path):
    operate(plant, tmp_path / "r.csv", change=lambda row, line: line if row["plant"] else None)
    outcome = cli("score", plant, "r.csv", "--missing-are-lost")
    assert (outcome.code, "0 absent and 30 eligible" in outcome.err) == (2, True)


def bounds_in(value):
    """Return every key that could hold a bound, but those of the claim itself."""
    if isinstance(value, dict):
        own = [key for key in value if key in {"bound", "curve", "betting", "epsilon_lower", "epsilon"}]
        return own + [each for key, inner in value.items() if key != "claim" for each in bounds_in(inner)]
    return [each for inner in value for each in bounds_in(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("what", ["repeated", "lost"])
def test_dependent_runs_give_5_and_no_bound_anywhere(what, cli, plant, tmp_path):
    def change(row, line):
        if what == "lost":
            return None if row["plant"] and row["split"] == "judge" else line
        return line

    schedule = None
    if what == "repeated":  # a generator that restarts: run 31 releases what run 1 did
        rows = [
            f"{int(row['run']) % 30 + 1},{row['canary']},{row['plant']},fit" for row in rows_of(plant / "schedule.csv")
        ]
        schedule = tmp_path / "restarted.csv"
        schedule.write_text("run,canary,plant,split\n" + "\n".join(rows) + "\n")
    operate(plant, tmp_path / "r.csv", noise=0.3, change=change, schedule=schedule)
    if schedule:
        lines, probes = (tmp_path / "r.csv").read_text().splitlines(), len(rows_of(plant / "probes.csv"))
        numbered = [f"{i // probes + 1},{line.split(',', 1)[1]}" for i, line in enumerate(lines[1:])]
        (tmp_path / "r.csv").write_text("\n".join([lines[0], *numbered]) + "\n")
    outcome = cli("score", plant, "r.csv", "--missing-are-lost", "--json")
    assert outcome.code == 5, outcome.err + outcome.out
    assert outcome.document["found"]["verdict"] == "dependent"
    assert bounds_in(outcome.document["found"]) == []
    assert bounds_in(json.loads((plant / "results.json").read_text())["found"]) == []
    assert cli("gate", plant, "--claimed-eps", "4.4").code == 5
    assert cli("verify", plant).code == 0


@pytest.mark.parametrize("inspected", [True, False])
def test_a_length_that_depends_on_the_canary_is_a_leak_and_refutes(inspected, cli, plant, tmp_path):
    """Noise hides no length: neither that of the inspected values, nor that of all that was released."""
    first = rows_of(plant / "probes.csv")[0]["position"]
    others = {each["position"] for each in rows_of(plant / "probes.csv")}
    beside = next(place for place in range(100) if str(place) not in others)

    def change(row, line):
        return None if row["plant"] and line[3] == (first if inspected else str(beside)) else line

    operate(plant, tmp_path / "r.csv", noise=30, change=change)
    if not inspected:  # one more entry, which no canary looks at, and which is there without the canary only
        with (tmp_path / "r.csv").open("a") as file:
            rows = [row for row in rows_of(plant / "schedule.csv") if not row["plant"]]
            file.writelines(f"{row['run']},1,,{beside},0.5\n" for row in rows)
    outcome = cli("score", plant, "r.csv", "--json")
    assert outcome.code == 1, outcome.err
    found = outcome.document["found"]
    (leak,) = [each for each in found["leaks"] if each["what"] == ("inspected values" if inspected else "values")]
    assert [(each["absent"], each["eligible"]) for each in leak["counts"]] in ([(0, 90), (90, 0)], [(90, 0), (0, 90)])
    assert {each["score"] for each in found["shown"] if each["refuted"]} == {"length"}
    assert {round(6 * each["alpha"], 9) for each in found["shown"]} == {0.05}
    assert cli("verify", plant).code == 0


# Kills, locks and alterations

PROGRAM = """
import os, pathlib, signal, sys
sys.path.insert(0, {doubles!r})
from operators import operate
schedule, releases = map(pathlib.Path, sys.argv[-2:])
operate(pathlib.Path({plant!r}), releases / "r.csv", schedule=schedule)
flag = pathlib.Path({flag!r})
if not flag.exists() and {at} in [int(line.split(",")[0]) for line in schedule.read_text().splitlines()[1:]]:
    flag.touch()
    lines = (releases / "r.csv").read_text().splitlines(keepends=True)
    (releases / "r.csv").write_text("".join(lines[: len(lines) // 2])[:-3])
    os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("at", [5, 170])
def test_a_scoring_that_is_killed_during_a_call_ends_with_the_same_bytes(at, cli, own, tmp_path):
    plant = design(cli, own, tmp_path / "plant", system__batch=40)
    whole = shutil.copytree(plant, tmp_path / "whole")
    (tmp_path / "program.py").write_text(
        textwrap.dedent(PROGRAM).format(doubles=DOUBLES, plant=str(plant), flag=str(tmp_path / "killed"), at=at)
    )
    run = ("--run", f"{sys.executable} {tmp_path / 'program.py'}")
    words = [sys.executable, "-m", "canarybank", "score", str(plant), *run]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert not (plant / "results.json").exists()
    assert cli("score", plant, *run).code == 0
    assert cli("score", whole, *run).code == 0  # the flag is there: nothing is killed
    for name in (*SOURCES, *(f"releases/{path.name}" for path in (whole / "releases").iterdir())):
        assert (plant / name).read_bytes() == (whole / name).read_bytes(), name
    assert cli("verify", plant).code == 0


def test_a_program_that_fails_midway_keeps_its_runs(cli, plant, tmp_path):
    program = tmp_path / "program.py"
    text = textwrap.dedent(PROGRAM).format(doubles=DOUBLES, plant=str(plant), flag=str(tmp_path / "failed"), at=9)
    program.write_text(text.replace("os.kill(os.getppid(), signal.SIGKILL)", "sys.exit('no space left')"))
    run = ("--run", f"{sys.executable} {program}")
    outcome = cli("score", plant, *run)
    assert (outcome.code, "no space left" in outcome.err, "of 60 runs are written and kept" in outcome.err) == (
        4,
        True,
        True,
    )
    outcome = cli("score", plant, *run, "--json")
    assert (outcome.code, outcome.document["found"]["lost"], len(outcome.document["notes"])) == (0, 0, 1)
    assert cli("verify", plant).code == 0
    assert len(rows_of(plant / "calls" / "call-0002" / "schedule.csv")) < 60


def test_a_program_that_is_not_there_is_said(cli, plant):
    outcome = cli("score", plant, "--run", "no-such-program-here")
    assert (outcome.code, "no program 'no-such-program-here'" in outcome.err) == (3, True)


def test_a_plant_is_scored_by_one_process_at_a_time(plant, tmp_path):
    operate(plant, tmp_path / "releases.csv")
    with lock_folder(plant, "scoring"):
        code = "import sys; from canarybank.cli import main; sys.exit(main(sys.argv[1:]))"
        words = [sys.executable, "-c", code, "score", str(plant), str(tmp_path / "releases.csv")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert not (plant / "sealed.json").exists()


@pytest.mark.parametrize("name", ["probes.csv", "schedule.csv", "canaries.jsonl", "probes.npy"])
def test_a_plant_that_was_altered_is_not_scored(name, cli, plant, tmp_path):
    operate(plant, tmp_path / "releases.csv")
    with (plant / name).open("ab") as file:
        file.write(b"\n")
    outcome = cli("score", plant, "releases.csv")
    assert (outcome.code, f"{name} in" in outcome.err, "since it was committed to" in outcome.err) == (
        4,
        True,
        True,
    )


def test_a_plant_of_a_newer_layout_is_not_misread(cli, plant, tmp_path):
    operate(plant, tmp_path / "releases.csv")
    altered(plant / "commitment.json", lambda value: value.update(schema_version=99))
    outcome = cli("score", plant, "releases.csv")
    assert (outcome.code, "install a newer canarybank" in outcome.err) == (4, True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("commitment.json", lambda v: v.update(alpha=0.1)),
        ("commitment.json", lambda v: v.update(trials=50)),
        ("sealed.json", lambda v: v["fitted"]["rules"][0]["thresholds"].update(bound=0.0)),
        ("sealed.json", lambda v: v.update(fitted_on="0" * 64)),
        ("results.json", lambda v: v["found"].update(verdict="refuted")),
        ("results.json", lambda v: v["found"]["shown"][0].update(epsilon=0.5)),
        ("results.json", lambda v: v["found"].update(statement="All is well.")),
        ("results.json", lambda v: v["found"]["shown"][0].update(power="Everything would be seen.")),
        ("results.json", lambda v: v["found"]["shown"][0]["counts"][0].update(tp=1)),
        ("results.json", lambda v: v["found"]["claim"].update(epsilon=9.0)),
        ("results.json", lambda v: v["found"].update(statement=more(v["found"]["statement"]))),
        ("results.json", lambda v: v["found"]["shown"][0].update(power=more(v["found"]["shown"][0]["power"]))),
        ("results.json", lambda v: v["found"]["shown"][0]["bound"].update(epsilon=0.7)),
        ("results.json", lambda v: v["found"]["shown"][1]["curve"].update(p_value=1e-3)),
        ("results.json", lambda v: v["found"]["shown"][1]["curve"].update(rate=0.99)),
        ("results.json", lambda v: v["found"]["independence"].update(tests=1)),
        ("results.json", lambda v: v["found"]["independence"].update(alpha=0.5)),
        ("results.json", lambda v: v.update(system="another system")),
        ("results.json", lambda v: v.update(statement="This file is private.")),
        ("results.json", lambda v: v.update(notes=["Checked by a regulator."])),
        ("results.json", lambda v: v.update(releases="0" * 64)),
        ("manifest.json", lambda v: v["config"].update({"audit.alpha": 0.2})),
    ],
)
def test_what_was_altered_after_scoring_is_found(name, change, cli, scored):
    """Also by a forger who enters the new hash into the manifest."""
    plant = scored / "plant"
    forge(plant, name, change)
    outcome = cli("verify", plant)
    assert outcome.code == 4, outcome.out
    assert cli("gate", plant, "--claimed-eps", "4.4").code == 4


@pytest.mark.parametrize(("by", "code"), [(1, 0), (2, 4)])
def test_only_the_last_digit_of_a_decimal_is_not_taken_for_altered(cli, scored, by, code):
    """Another machine may print a figure rounded the other way."""
    plant = scored / "plant"

    def nudge(document):
        shown = document["found"]["shown"][0]
        decimal = re.search(r"\d+\.\d+", shown["power"])[0]
        other = Decimal(decimal) + by * Decimal(1).scaleb(Decimal(decimal).as_tuple().exponent)
        shown["power"] = shown["power"].replace(decimal, str(other), 1)

    forge(plant, "results.json", nudge)
    outcome = cli("verify", plant)
    assert outcome.code == code, outcome.out


def test_an_altered_missing_or_torn_batch_is_found(cli, scored):
    plant = scored / "plant"
    first, second = sorted((plant / "releases").iterdir())
    whole = first.read_bytes(), second.read_bytes()
    for spoilt, data in ((first, whole[0][:-40]), (second, whole[0]), (second, None)):
        if data is None:
            spoilt.unlink()
        else:
            spoilt.write_bytes(data)
        outcome = cli("verify", plant)
        assert outcome.code in {1, 4}, outcome.out
        assert "releases/" in outcome.out + outcome.err or "batch-" in outcome.out + outcome.err
        first.write_bytes(whole[0])
        second.write_bytes(whole[1])
    assert cli("verify", plant).code == 0


def test_a_torn_batch_of_an_unfinished_scoring_is_said(cli, own, tmp_path):
    plant = design(cli, own, tmp_path / "plant", system__evidence="betting", system__batch=30)
    operate(plant, tmp_path / "some.csv", change=lambda row, line: line if int(row["run"]) <= 100 else None)
    assert cli("score", plant, "some.csv", "--stop-when-refuted").code == 4
    torn = max((plant / "releases").iterdir())
    torn.write_bytes(torn.read_bytes()[:100])
    outcome = cli("score", plant, "some.csv", "--stop-when-refuted")
    assert (outcome.code, "cannot be read as releases" in outcome.err) == (4, True)


def test_a_folder_that_is_no_plant_is_said(cli, finished, tmp_path):
    for folder, said in ((finished, "is of the kind audit"), (tmp_path, "no run")):
        outcome = cli("score", folder, tmp_path)
        assert (outcome.code, said in outcome.err) == (2, True)
    outcome = cli("score", finished)
    assert (outcome.code, "Give the releases that were recorded, or a program" in outcome.err) == (2, True)


def test_the_same_design_again_leaves_a_plant_as_it_is_and_another_is_refused(cli, own, plant):
    before = hash_folder(plant)
    design(cli, own, plant)
    assert hash_folder(plant) == before
    outcome = cli("design", own, "-o", plant, *flags(system__canaries=2))
    assert (outcome.code, "system.canaries: 1 -> 2" in outcome.err) == (2, True)
