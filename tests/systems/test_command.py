"""Play real programs: a Python script, a shell script with awk, and programs that fail midway."""

import shutil
import sys
import textwrap
import time

import numpy as np
import pytest

from canarybank.errors import IncompleteError, InputError, MissingError
from canarybank.systems import CommandSystem, Hypothesis, Releases, Split, Trial, read_schedule, schedule_text

ABSENT, ELIGIBLE = Hypothesis
POSITIONS = [4, 2]
TRIALS = [
    Trial(run, ELIGIBLE if run % 3 else ABSENT, "ann", Split.FIT if run < 5 else Split.JUDGE) for run in range(1, 13)
]
RNG = np.random.default_rng(1)

PYTHON = """
    import csv, sys, pathlib
    schedule, releases = sys.argv[-2:]
    with open(schedule, newline="") as file, open(pathlib.Path(releases) / "r.csv", "w") as out:
        print("run,position,value", file=out)
        for row in csv.DictReader(file):
            for position in range(6):
                shift = 10 if row["plant"] == "ann" and position == 4 else 0
                print(row["run"], position, int(row["run"]) + shift + position / 10, sep=",", file=out)
                {extra}
"""

SHELL = r"""#!/bin/sh
# Some awks take all seeds above 2^31 for the same one, and would repeat their noise in each call.
# A histogram of 8 entries with Gaussian noise of standard deviation 0.5; a planted canary adds 3 to entry 2.
set -eu
awk -F, -v seed="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')" '
    BEGIN { srand(seed % 2147483647); print "run,position,value" }
    NR > 1 {
        for (position = 0; position < 8; position++) {
            noise = sqrt(-2 * log(1 - rand())) * cos(6.283185307179586 * rand())
            printf "%d,%d,%.9g\n", $1, position, 0.5 * noise + (($3 != "" && position == 2) ? 3 : 0)
        }
    }
' "$1" > "$2/releases.csv"
"""


def script(tmp_path, extra="pass", text=PYTHON):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text).replace("{extra}", extra))
    return [sys.executable, str(path)]


def expected(run):
    return [run + 0.4 + (10 if run % 3 else 0), run + 0.2]


def test_a_python_script_is_played_and_played_once(tmp_path):
    system = CommandSystem(script(tmp_path), tmp_path / "calls", positions=POSITIONS)
    found = system.play(TRIALS, RNG)
    assert [observation[0].tolist() for observation in found] == [expected(trial.run) for trial in TRIALS]
    again = system.play(TRIALS[::-1], RNG)
    assert [observation[0].tolist() for observation in again] == [expected(trial.run) for trial in TRIALS[::-1]]
    assert [call.name for call in system._calls()] == ["call-0001"]
    assert system.recorded().sizes[3] == (6,)
    assert system.recorded().written[0] <= time.time() + 1


@pytest.mark.skipif(not (shutil.which("awk") and shutil.which("od")), reason="needs awk and od")
def test_a_shell_script_with_awk_is_a_system(tmp_path):
    path = tmp_path / "system.sh"
    path.write_text(SHELL)
    path.chmod(0o700)
    trials = [Trial(run, (ABSENT, ELIGIBLE)[run % 2], "ann", Split.JUDGE) for run in range(1, 4001)]
    system = CommandSystem([str(path)], tmp_path / "calls", positions=[2, 5], batch=1500)
    releases = Releases.of(trials, system.play(trials, RNG), sizes=system.recorded().sizes)
    absent, eligible = (releases.table("ann", hypothesis, Split.JUDGE) for hypothesis in Hypothesis)
    assert absent.shape == eligible.shape == (2000, 2)
    tolerance = 5 * 0.5 / np.sqrt(2000)
    assert np.abs(absent.mean(axis=0)).max() < tolerance
    assert np.abs(eligible.mean(axis=0) - [3, 0]).max() < tolerance
    assert np.abs(absent.std(axis=0) - 0.5).max() < tolerance
    assert len(np.unique(np.concatenate((absent, eligible)))) == 8000
    assert len(system._calls()) == 3
    assert releases.leaks() == ()


def test_placeholders_stand_where_the_arguments_say(tmp_path):
    program = script(
        tmp_path,
        text="""
        import pathlib, sys
        assert sys.argv[1].startswith("--out=") and sys.argv[2] == "{x}" and sys.argv[3].startswith("--in="), sys.argv
        runs = pathlib.Path(sys.argv[3][5:]).read_text().splitlines()[1:]
        lines = ["run,position,value"] + [f"{line.split(',')[0]},{p},1" for line in runs for p in (4, 2)]
        pathlib.Path(sys.argv[1][6:], "r.csv").write_text("\\n".join(lines))
    """,
    )
    system = CommandSystem(
        [*program, "--out={releases}", "{x}", "--in={schedule}"], tmp_path / "c", positions=POSITIONS
    )
    assert all(observation is not None for observation in system.play(TRIALS, RNG))
    (tmp_path / "r").mkdir()
    only_one = [
        "sh",
        "-c",
        'test $# = 1 && cd "$1" && { echo run,position,value; echo 1,4,1; echo 1,2,1; } > r.csv',
        "{schedule}",
    ]
    assert CommandSystem(only_one, tmp_path / "d", positions=POSITIONS).play(TRIALS[:1], RNG)[0][0].tolist() == [1, 1]


def test_the_schedule_names_what_to_plant_and_reads_back(tmp_path):
    (tmp_path / "s.csv").write_text(schedule_text(TRIALS[::-1]))
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert lines[:4] == ["run,canary,plant,split", "1,ann,ann,fit", "2,ann,ann,fit", "3,ann,,fit"]
    assert read_schedule(tmp_path / "s.csv") == tuple(TRIALS)
    (tmp_path / "s.csv").write_text(schedule_text(TRIALS, {"ann": "bob"}))
    assert (tmp_path / "s.csv").read_text().splitlines()[3] == "3,ann,bob,fit"
    assert read_schedule(tmp_path / "s.csv") == tuple(TRIALS)


def test_names_that_a_schedule_cannot_tell_apart_are_refused(tmp_path):
    with pytest.raises(InputError, match="has no name or is its own replacement"):
        (tmp_path / "s.csv").write_text(schedule_text([Trial(1, ELIGIBLE, "", Split.FIT)]))
    with pytest.raises(InputError, match="has no name or is its own replacement"):
        (tmp_path / "s.csv").write_text(schedule_text(TRIALS, {"ann": "ann"}))
    odd = [Trial(1, ELIGIBLE, 'a,"b\x85c\nd', Split.FIT), Trial(2, ABSENT, " ", Split.JUDGE)]
    (tmp_path / "s.csv").write_text(schedule_text(odd))
    assert read_schedule(tmp_path / "s.csv") == tuple(odd)


FAILING = "if row['run'] == '8' and position == 3: out.flush(); print('no memory', file=sys.stderr); sys.exit(7)"


def test_a_failing_program_keeps_what_it_wrote_and_only_the_rest_is_asked_for(tmp_path):
    system = CommandSystem(script(tmp_path, FAILING), tmp_path / "calls", positions=POSITIONS)
    with pytest.raises(
        IncompleteError, match=r"exit status 7\. Its last lines on stderr: no memory\. 7 of 12 runs"
    ) as raised:
        system.play(TRIALS, RNG)
    assert "only the missing runs are asked for" in str(raised.value)
    script(tmp_path)
    found = system.play(TRIALS, RNG)
    assert [observation[0].tolist() for observation in found] == [expected(trial.run) for trial in TRIALS]
    asked = [[trial.run for trial in read_schedule(call / "schedule.csv")] for call in system._calls()]
    assert asked == [list(range(1, 13)), [8, 9, 10, 11, 12]]


def test_a_program_that_takes_too_long_is_stopped_with_what_it_started(tmp_path):
    slow = "import subprocess, time; out.flush(); row['run'] == '3' and subprocess.run(['sleep', '600'])"
    system = CommandSystem(script(tmp_path, slow), tmp_path / "calls", positions=POSITIONS, timeout=1.0)
    started = time.monotonic()
    with pytest.raises(IncompleteError, match=r"was stopped after 1 s.* 2 of 12 runs"):
        system.play(TRIALS, RNG)
    assert time.monotonic() - started < 30
    script(tmp_path)
    assert system.play(TRIALS, RNG)[2][0].tolist() == expected(3)


def test_a_line_that_was_cut_off_is_not_read_as_a_value(tmp_path):
    cut = "if row['run'] == '3' and position == 4: out.write('3,5,1'); out.flush(); sys.exit(1)"
    system = CommandSystem(script(tmp_path, cut), tmp_path / "calls", positions=[4, 5])
    with pytest.raises(IncompleteError, match="2 of 12 runs"):
        system.play(TRIALS, RNG)


def test_a_program_that_writes_round_by_round_and_dies_loses_the_runs_that_lack_a_round(tmp_path):
    program = script(
        tmp_path,
        text="""
        import pathlib, sys
        runs = [line.split(",")[0] for line in pathlib.Path(sys.argv[1]).read_text().splitlines()[1:]]
        with open(pathlib.Path(sys.argv[2], "r.csv"), "w") as out:
            print("run,round,position,value", file=out)
            for number in (1, 2):
                for run in runs:
                    for position in (4, 2):
                        print(run, number, position, 1, sep=",", file=out)
                    if number == 2 and run == "4":
                        out.flush()
                        sys.exit(1)
    """,
    )
    system = CommandSystem(program, tmp_path / "calls", positions=POSITIONS, keep_going=True)
    found = system.play(TRIALS, RNG)
    assert [observation is not None for observation in found] == [True] * 4 + [False] * 8


def test_a_whole_call_of_one_round_of_three_is_nothing_when_rounds_are_named(tmp_path):
    once = CommandSystem(script(tmp_path, FAILING), tmp_path / "calls", positions=POSITIONS, rounds=3)
    with pytest.raises(IncompleteError, match="0 of 12 runs"):
        once.play(TRIALS, RNG)


def test_arrays_that_a_killed_program_left_half_are_asked_for_again(tmp_path):
    program = script(
        tmp_path,
        text="""
        import os, pathlib, signal, sys
        import numpy as np
        runs = [line.split(",")[0] for line in pathlib.Path(sys.argv[1]).read_text().splitlines()[1:]]
        for run in runs:
            np.save(pathlib.Path(sys.argv[2], f"{run}.npy"), np.full(5, float(run)))
            if run == "5":
                path = pathlib.Path(sys.argv[2], "6.npy")
                path.write_bytes(pathlib.Path(sys.argv[2], "5.npy").read_bytes()[:-3])
                os.kill(os.getpid(), signal.SIGKILL)
    """,
    )
    system = CommandSystem(program, tmp_path / "calls", positions=POSITIONS)
    with pytest.raises(IncompleteError, match=r"was ended by signal SIGKILL\. 5 of 12 runs"):
        system.play(TRIALS, RNG)


def test_parquet_that_a_failing_program_left_without_its_end_is_asked_for_again(tmp_path):
    program = script(
        tmp_path,
        text="""
        import pathlib, sys
        import polars as pl
        out = pathlib.Path(sys.argv[2])
        pl.DataFrame({"run": [1, 2], "release": [[1.0] * 5, [2.0] * 5]}).write_parquet(out / "1.parquet")
        (out / "2.parquet").write_bytes((out / "1.parquet").read_bytes()[:-20])
        sys.exit(1)
    """,
    )
    system = CommandSystem(program, tmp_path / "calls", positions=POSITIONS)
    with pytest.raises(IncompleteError, match=r"exit status 1\. 2 of 12 runs"):
        system.play(TRIALS, RNG)


def test_runs_that_a_successful_call_left_out_are_lost_and_not_tried_again(tmp_path):
    leaving_out = "if row['run'] == '4' and position == 5: next(file)"
    system = CommandSystem(script(tmp_path, leaving_out), tmp_path / "calls", positions=POSITIONS)
    for _ in range(2):
        found = system.play(TRIALS, RNG)
        assert [trial.run for trial, each in zip(TRIALS, found, strict=True) if each is None] == [5]
    assert len(system._calls()) == 1


def test_batches_follow_the_runs_numbers_and_a_failed_one_is_completed_by_itself(tmp_path):
    system = CommandSystem(script(tmp_path, FAILING), tmp_path / "calls", positions=POSITIONS, batch=5, keep_going=True)
    found = system.play(TRIALS, RNG)
    assert [each is None for each in found] == [False] * 7 + [True] * 3 + [False] * 2
    script(tmp_path)
    assert None not in system.play(TRIALS, RNG)
    asked = [[trial.run for trial in read_schedule(call / "schedule.csv")] for call in system._calls()]
    assert asked == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12], [8, 9, 10]]


def test_what_cannot_be_a_release_is_set_aside_and_does_not_count(tmp_path):
    bad = "if row['run'] == '3': print('3,4,?', file=out)"
    system = CommandSystem(script(tmp_path, bad), tmp_path / "calls", positions=POSITIONS)
    with pytest.raises(InputError, match=r"has the value '\?'.* set aside in '.*refused'"):
        system.play(TRIALS, RNG)
    script(tmp_path, "if row['run'] == '3' and position == 1: print('99,4,1', file=out)")
    with pytest.raises(InputError, match=r"not in the schedule \(99\)"):
        system.play(TRIALS, RNG)
    script(tmp_path)
    assert None not in system.play(TRIALS, RNG)
    nothing = CommandSystem(["true"], tmp_path / "other", positions=POSITIONS)
    with pytest.raises(InputError, match="holds no releases"):
        nothing.play(TRIALS, RNG)


def test_a_folder_of_another_schedule_is_refused(tmp_path):
    system = CommandSystem(script(tmp_path), tmp_path / "calls", positions=POSITIONS)
    system.play(TRIALS, RNG)
    other = [Trial(1, ABSENT, "ann", Split.FIT)]
    with pytest.raises(InputError, match="run 1 planted 'ann' there and '' here"):
        system.play(other, RNG)


def test_programs_that_cannot_be_run_are_named(tmp_path):
    with pytest.raises(MissingError, match="There is no program 'no-such-program'"):
        CommandSystem(["no-such-program"], tmp_path / "a", positions=POSITIONS).play(TRIALS, RNG)
    (tmp_path / "text").write_text("x")
    with pytest.raises(InputError, match="may not be run"):
        CommandSystem([str(tmp_path / "text")], tmp_path / "b", positions=POSITIONS).play(TRIALS, RNG)
    with pytest.raises(InputError, match="must be a list"):
        CommandSystem("sh system.sh", tmp_path / "c", positions=POSITIONS)


def test_the_program_has_the_users_environment_and_no_seed(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_USER", "yes")
    program = script(
        tmp_path,
        text="""
        import os, pathlib, sys
        pathlib.Path(sys.argv[1]).with_name("seen").write_text(os.environ["OF_THE_USER"] + " ".join(sys.argv[1:]))
        pathlib.Path(sys.argv[2], "r.csv").write_text("run,position,value\\n1,4,1\\n1,2,1\\n")
    """,
    )
    CommandSystem(program, tmp_path / "calls", positions=POSITIONS).play(TRIALS[:1], np.random.default_rng(987654321))
    call = tmp_path / "calls" / "call-0001"
    assert (call / "seen").read_text() == f"yes{(call / 'schedule.csv').resolve()} {(call / 'releases').resolve()}"
    assert all("987654321" not in path.read_text() for path in call.iterdir() if path.is_file())
