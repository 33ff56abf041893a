"""Hold releases that others wrote to their word: every format gives the same runs, every fault its sentence."""

import csv
import json
import os
import time

import numpy as np
import polars as pl
import pytest

from canarybank.errors import CanarybankError, InputError
from canarybank.systems import Hypothesis, RecordedSystem, Releases, Split, Trial

RUNS, ROUNDS, WIDTH = 7, 2, 12
LABELS = ("neg", "pos")
POSITIONS = [("pos", 9), ("neg", 2), ("pos", 0), ("neg", 11)]


@pytest.fixture
def histograms():
    """Return made-up releases: run, round and label to whole histogram."""
    rng = np.random.default_rng(11)
    return {
        (run, number, label): rng.standard_normal(WIDTH)
        for run in range(1, RUNS + 1)
        for number in range(1, ROUNDS + 1)
        for label in LABELS
    }


def long_rows(histograms):
    return [
        {"run": run, "round": number, "label": label, "position": position, "value": float(value)}
        for (run, number, label), values in histograms.items()
        for position, value in enumerate(values)
    ]


def whole_rows(histograms):
    return [
        {"run": run, "round": number, "label": label, "release": values.tolist()}
        for (run, number, label), values in histograms.items()
    ]


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_json_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_arrays(folder, histograms):
    for run in range(1, RUNS + 1):
        for label in LABELS:
            array = np.stack([histograms[run, number, label] for number in range(1, ROUNDS + 1)])
            np.save(folder / f"{run}-{label}.npy", array)


WRITERS = {
    "csv": lambda folder, given: write_csv(folder / "all.csv", long_rows(given)),
    "jsonl": lambda folder, given: write_json_lines(folder / "all.jsonl", long_rows(given)),
    "parquet": lambda folder, given: pl.DataFrame(long_rows(given)).write_parquet(folder / "all.parquet"),
    "jsonl whole": lambda folder, given: write_json_lines(folder / "all.ndjson", whole_rows(given)),
    "parquet whole": lambda folder, given: pl.DataFrame(whole_rows(given)).write_parquet(folder / "all.parquet"),
    "npy": write_arrays,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_inspected_values_label_by_label_and_round_by_round(tmp_path, histograms, name):
    WRITERS[name](tmp_path, histograms)
    system = RecordedSystem.open(tmp_path, positions=POSITIONS, runs=range(1, RUNS + 1))
    trials = [Trial(run, Hypothesis.ABSENT, "a", Split.JUDGE) for run in (5, 1, 99)]
    found = system.play(trials, np.random.default_rng(1))
    assert found[2] is None
    for run, observation in zip((5, 1), found, strict=False):
        assert len(observation) == ROUNDS
        for number, values in enumerate(observation, 1):
            assert values.tolist() == [histograms[run, number, label][position] for label, position in POSITIONS]
    assert system.sizes == dict.fromkeys(range(1, RUNS + 1), (2 * WIDTH,) * ROUNDS)
    assert system.lost(range(1, RUNS + 3)) == (RUNS + 1, RUNS + 2)


def test_the_fingerprint_is_that_of_the_releases_and_not_of_their_files(tmp_path, histograms):
    prints = set()
    for name, write in WRITERS.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder, histograms)
        prints.add(RecordedSystem.open(folder, positions=POSITIONS).fingerprint)
    assert len(prints) == 1
    other = {key: values + (key[0] == 3) * 1e-9 for key, values in histograms.items()}
    write_csv(tmp_path / "other.csv", long_rows(other))
    assert RecordedSystem.open(tmp_path / "other.csv", positions=POSITIONS).fingerprint not in prints


def test_runs_may_be_spread_over_files_in_any_order(tmp_path, histograms):
    rows = long_rows(histograms)
    np.random.default_rng(2).shuffle(rows)
    for place in range(3):
        write_csv(tmp_path / f"part-{place}.csv", rows[place::3])
    (tmp_path / "README.md").write_text("by hand")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "part-4.csv.tmp").write_text("run,pos")
    system = RecordedSystem.open(tmp_path, positions=POSITIONS)
    assert sorted(system.observations) == list(range(1, RUNS + 1))
    assert all(system.sizes[run] == (2 * WIDTH,) * ROUNDS for run in system.sizes)
    assert len(system.files) == 3


def test_a_plain_table_needs_run_position_and_value_only(tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes(b'\xef\xbb\xbf"Run", Position,VALUE,host\r\n1e+05,3,.5,a\r\n\r\n 1, 3,-2,"b,c"\r\n1,0,7,\r\n')
    system = RecordedSystem.open(path, positions=[3])
    assert {run: values[0].tolist() for run, values in system.observations.items()} == {1: [-2.0], 100000: [0.5]}
    assert system.ignored_columns == ("host",)
    assert system.sizes[1] == (2,)


def test_a_run_that_lacks_positions_is_shorter_and_its_length_is_a_leak(tmp_path):
    path = tmp_path / "r.csv"
    lines = ["run,position,value"]
    for run in range(1, 41):
        kept = (0, 1, 2) if run % 2 else (0, 2)
        lines += [f"{run},{position},{run}.{position}" for position in kept]
    path.write_text("\n".join(lines))
    system = RecordedSystem.open(path, positions=[2, 1, 0])
    assert system.observations[1][0].tolist() == [1.2, 1.1, 1.0]
    assert system.observations[2][0].tolist() == [2.2, 2.0]
    trials = [
        Trial(run, Hypothesis.ELIGIBLE if run % 2 else Hypothesis.ABSENT, "a", Split.JUDGE) for run in range(1, 41)
    ]
    leaks = Releases.of(trials, system.play(trials, np.random.default_rng(1)), sizes=system.sizes).leaks()
    assert [(leak.what, leak.is_certain) for leak in leaks] == [("inspected values", True), ("values", True)]


def test_whole_histograms_of_different_lengths_are_seen_though_the_probes_are_there(tmp_path):
    path = tmp_path / "r.jsonl"
    write_json_lines(path, [{"run": run, "release": [0.5] * (10 + run % 2)} for run in range(1, 41)])
    system = RecordedSystem.open(path, positions=[1, 2])
    trials = [
        Trial(run, Hypothesis.ELIGIBLE if run % 2 else Hypothesis.ABSENT, "a", Split.JUDGE) for run in range(1, 41)
    ]
    releases = Releases.of(trials, system.play(trials, np.random.default_rng(1)), sizes=system.sizes)
    assert not releases.is_ragged("a")
    (leak,) = releases.leaks()
    assert leak.what == "values"
    assert leak.is_certain


def test_a_position_beyond_the_end_of_one_histogram_makes_that_run_shorter(tmp_path):
    write_json_lines(tmp_path / "r.jsonl", [{"run": 1, "release": [1, 2, 3]}, {"run": 2, "release": [1, 2]}])
    system = RecordedSystem.open(tmp_path, positions=[2, 0])
    assert [len(system.observations[run][0]) for run in (1, 2)] == [2, 1]


def test_a_run_without_any_inspected_value_is_there_and_a_missing_round_is_empty(tmp_path):
    (tmp_path / "r.csv").write_text("run,round,position,value\n1,1,5,1\n2,2,3,1\n1,2,3,4\n2,1,3,0\n3,2,3,1\n")
    system = RecordedSystem.open(tmp_path, positions=[3])
    assert [values.tolist() for values in system.observations[1]] == [[], [4.0]]
    assert [values.tolist() for values in system.observations[3]] == [[], [1.0]]
    assert system.sizes[3] == (0, 1)


def test_when_files_were_written_is_told(tmp_path):
    for run, moment in ((1, 1000.0), (2, 2000.0)):
        np.save(tmp_path / f"{run}.npy", np.ones(3))
        os.utime(tmp_path / f"{run}.npy", (moment, moment))
    system = RecordedSystem.open(tmp_path, positions=[0])
    assert system.written == (1000.0, 2000.0)
    assert [file.path.name for file in system.files_before(1500.0)] == ["1.npy"]


CSV_FAULTS = {
    "text": (
        "run,position,value\n1,3,0.5\n2,3,abc\n",
        r"Line 3 of .*r\.csv has the value 'abc', which is not a finite",
    ),
    "nan": ("run,position,value\n1,3,NaN\n", r"Line 2 of .* has the value 'NaN'"),
    "infinite": ("run,position,value\n1,3,1e999\n", r"Line 2 of .* has the value '1e999'"),
    "no value": ("run,position,value\n1,3,\n", r"Line 2 of .* has the value ''"),
    "short row": ("run,position,value\n1,3,1\n\n1,4\n", r"Line 4 of .* has the value ''"),
    "long row": (
        "run,position,value\n1,3,1\n1,4,0,5\n",
        r"Line 3 of .* has 4 fields instead of 3; .* point, not a comma",
    ),
    "half a run": ("run,position,value\n1.5,3,1\n", r"Line 2 of .* has the run '1.5'; .* whole number"),
    "run 0": ("run,position,value\n0,3,1\n", "has the run '0'.*Runs count from 1"),
    "position -1": ("run,position,value\n1,-1,1\n", "has the position '-1'.*Positions count from 0"),
    "round 0": ("run,round,position,value\n1,0,3,1\n", "has the round '0'.*Rounds count from 1"),
    "version": ("run,position,value,version\n1,3,1,2\n", "Line 2 of .* is of version 2"),
    "no run": ("trial,position,value\n1,3,1\n", "no column 'run' .*trial, position, value"),
    "semicolons": ("run;position;value\n1;3;1\n", "no column 'run' .*separated by commas"),
    "no position": ("run,value\n1,3\n", "no column 'position'"),
    "two runs": ("run,Run,position,value\n1,1,3,1\n", "two columns 'run'"),
    "lists": ("run,release\n1,[1 2]\n", "a list does not fit into CSV"),
    "both": ("run,release,value\n1,[1 2],3\n", "mixes two forms"),
    "twice": (
        "run,position,value\n1,3,1\n2,3,1\n1,3,2\n",
        r"Run 1 stands twice: position 3 of round 1 is twice in .*r\.csv",
    ),
    "other positions": ("run,position,value\n1,7,1\n", "none of the inspected positions"),
    "extra run": ("run,position,value\n9,3,1\n", r"1 runs that are not in the schedule \(9\)"),
    "nothing": ("", "is empty; its first line"),
    "header only": ("run,position,value\n", "holds no runs"),
    "labels": ("run,position,value,label\n1,3,1,a\n1,3,2,b\n", r"Line 3 of .* has the label 'b', .* name no labels"),
    "quote": ('run,position,value\n1,3,"1\n', r"Line 2 of .* cannot be read"),
    "clean": ("run,position,value,clean\n1,3,1,1\n", "the column 'clean', which looks like values before noise"),
    "raw": ("run,position,value,rawValue\n1,3,1,1\n", "the column 'rawValue'"),
    "true count": ("run,position,value,TRUE_COUNT\n1,3,1,1\n", "the column 'TRUE_COUNT'"),
    "un-noised": ("run,position,value,un-noised\n1,3,1,1\n", "Un-noised values must not leave the system"),
    "noise": ("run,position,value,noise\n1,3,1,1\n", "the column 'noise'"),
    "seed": ("run,position,value,seed\n1,3,1,1\n", "the column 'seed'"),
}


@pytest.mark.parametrize("name", CSV_FAULTS)
def test_a_fault_in_csv_is_a_sentence_with_file_and_line(tmp_path, name):
    text, message = CSV_FAULTS[name]
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        RecordedSystem.open(tmp_path / "r.csv", positions=[3], runs=range(1, 5))


def test_noisy_counts_are_not_taken_for_clean_ones(tmp_path):
    (tmp_path / "r.csv").write_text("run,position,value,noisy_count\n1,3,1,1\n")
    assert RecordedSystem.open(tmp_path, positions=[3]).ignored_columns == ("noisy_count",)


def test_encodings_that_are_not_utf8_are_named(tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes("run,label,position,value\n1,é,3,1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"Line 2 of .* is not UTF-8"):
        RecordedSystem.open(path, positions=[3])
    path.write_bytes("run,position,value\n1,3,1\n".encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16"):
        RecordedSystem.open(path, positions=[3])


JSON_FAULTS = {
    "text": (
        '{"run": 1, "position": 3, "value": 1}\n\n{"run": 2, "position": 3, "value": "1"}\n',
        "Line 3 of .* value '1'",
    ),
    "true": ('{"run": 1, "position": 3, "value": true}\n', "value True"),
    "nan": ('{"run": 1, "position": 3, "value": NaN}\n', "value nan"),
    "no value": ('{"run": 1, "position": 3, "value": 1}\n{"run": 1, "position": 4}\n', r"Line 2 .*\(nothing\)"),
    "broken": ('{"run": 1, "position": 3, "value": 1}\n{"run": 1,\n', "Line 2 of .* is not JSON"),
    "list": ("[1, 2]\n", "Line 1 of .* is a JSON list"),
    "two a line": (
        '{"run": 1, "position": 3, "value": 1},{"run": 1, "position": 4, "value": 1}\n',
        "Line 1 of .* is not JSON",
    ),
    "huge": ('{"run": 1, "position": 3, "value": 1' + "0" * 400 + "}\n", "not a finite number"),
    "no list": ('{"run": 1, "release": 3}\n', "Line 1 of .* has a release that is no list"),
    "text in list": ('{"run": 1, "release": [1, "x"]}\n', "has 'x' at position 1"),
    "nan in list": ('{"run": 1, "release": [1, 2, NaN, 4]}\n', "Line 1 of .* has the value nan at position 2"),
    "null in list": ('{"run": 1, "release": [1, 2, null, 4]}\n', "has None at position 2"),
    "clean": ('{"run": 1, "release": [1, 2, 3, 4], "clean": [1, 2, 3, 4]}\n', "the column 'clean'"),
    "mixed": ('{"run": 1, "release": [1, 2, 3, 4]}\n{"run": 1, "position": 3, "value": 1}\n', "mixes two forms"),
    "short": (
        '{"run": 1, "release": [1, 2, 3]}\n',
        "Position 3 is inspected, and the longest histogram .* has 3 values",
    ),
    "twice": ('{"run": 1, "release": [1, 2, 3, 4]}\n{"run": 1, "release": [1, 2, 3, 4]}\n', "Run 1 stands twice"),
    "version": ('{"run": 1, "version": 3, "release": [1, 2, 3, 4]}\n', "Line 1 of .* is of version 3"),
    "half a round": ('{"run": 1, "round": 1.5, "release": [1, 2, 3, 4]}\n', "has the round 1.5"),
}


@pytest.mark.parametrize("name", JSON_FAULTS)
def test_a_fault_in_json_lines_is_a_sentence_with_file_and_line(tmp_path, name):
    text, message = JSON_FAULTS[name]
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        RecordedSystem.open(tmp_path / "r.jsonl", positions=[3])


PARQUET_FAULTS = {
    "text": (
        {"run": [1], "position": [3], "value": ["1"]},
        "The column 'value' of .* holds String; write it as numbers",
    ),
    "nan": ({"run": [1, 2], "position": [3, 3], "value": [1.0, float("nan")]}, "Row 2 of .* has the value nan"),
    "null": ({"run": [1, None], "position": [3, 3], "value": [1.0, 2.0]}, "Row 2 of .* has the run None"),
    "null list": ({"run": [1, 2], "release": [[1.0] * 4, None]}, "Row 2 of .* has no release"),
    "null in list": (
        {"run": [1, 2], "release": [[], [1.0, None, 3.0, 4.0]]},
        "Row 2 of .* has the value nan at position 1",
    ),
    "text in list": ({"run": [1], "release": [["a"]]}, "write it as lists of numbers"),
    "raw": ({"run": [1], "release": [[1.0] * 4], "raw_votes": [[1.0] * 4]}, "the column 'raw_votes'"),
}


@pytest.mark.parametrize("name", PARQUET_FAULTS)
def test_a_fault_in_parquet_is_a_sentence_with_file_and_row(tmp_path, name):
    columns, message = PARQUET_FAULTS[name]
    pl.DataFrame(columns).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=message):
        RecordedSystem.open(tmp_path / "r.parquet", positions=[3])


def test_an_empty_list_in_parquet_is_a_run_of_no_values(tmp_path):
    pl.DataFrame({"run": [1, 2, 3], "release": [[], [1, 2], []]}).write_parquet(tmp_path / "r.parquet")
    system = RecordedSystem.open(tmp_path / "r.parquet", positions=[1])
    assert [system.observations[run][0].tolist() for run in (1, 2, 3)] == [[], [2.0], []]


def test_faults_of_arrays_are_sentences(tmp_path):
    def refused(name, array, message, **options):
        path = tmp_path / name
        if isinstance(array, bytes):
            path.write_bytes(array)
        else:
            np.save(path, array, **options)
        with pytest.raises(InputError, match=message):
            RecordedSystem.open(tmp_path, positions=[3])
        path.unlink()

    refused("first.npy", np.ones(4), "not named after its run")
    refused("0.npy", np.ones(4), "not named after its run")
    refused("1.npy", np.ones((2, 2, 4)), r"has the shape \(2, 2, 4\)")
    refused("1.npy", np.float64(3), r"has the shape \(\)")
    refused("1.npy", np.array([1, 2, 3, np.inf]), r"Round 1 of .*1\.npy has the value inf at position 3")
    refused("1.npy", np.array(["a"] * 4), "holds <U1, not numbers")
    refused("1.npy", np.array([1j] * 4), "holds complex128, not numbers")
    refused("1.npy", np.array([{}]), "cannot be read as an npy array", allow_pickle=True)
    refused("1.npy", b"\x93NUMPY", "cannot be read as an npy array")
    refused("1.npy", np.ones(3), "the longest histogram")
    np.save(tmp_path / "1.npy", np.ones(4))
    refused("01.npy", np.ones(4), "Run 1 stands twice")
    refused("2-clean.npy", np.ones(4), "has the label 'clean'")


def test_labels_that_are_inspected_must_be_there(tmp_path):
    write_csv(tmp_path / "r.csv", [{"run": 1, "position": 3, "value": 1}])
    with pytest.raises(InputError, match=r"Line 2 of .* has no label"):
        RecordedSystem.open(tmp_path, positions=[("a", 3)])
    write_csv(tmp_path / "r.csv", [{"run": 1, "label": "b", "position": 3, "value": 1}])
    with pytest.raises(InputError, match="no release with the label 'a'; its labels are 'b'"):
        RecordedSystem.open(tmp_path, positions=[("a", 3)])
    write_csv(tmp_path / "r.csv", [{"run": 1, "label": label, "position": 3, "value": 1} for label in ("a", "clean")])
    with pytest.raises(InputError, match="the label 'clean', which looks like values before noise"):
        RecordedSystem.open(tmp_path, positions=[("a", 3)])


def test_folders_that_are_no_releases_are_refused(tmp_path):
    with pytest.raises(InputError, match="There is no file or folder"):
        RecordedSystem.open(tmp_path / "none", positions=[3])
    with pytest.raises(InputError, match="holds no releases"):
        RecordedSystem.open(tmp_path, positions=[3])
    (tmp_path / "r.csv").write_text("run,position,value\n1,3,1\n")
    (tmp_path / "log.txt").write_text("x")
    with pytest.raises(InputError, match=r"log\.txt is no file of releases"):
        RecordedSystem.open(tmp_path, positions=[3])
    (tmp_path / "log.txt").unlink()
    np.save(tmp_path / "2.npy", np.ones(4))
    with pytest.raises(InputError, match=r"mixes \.csv and \.npy files"):
        RecordedSystem.open(tmp_path, positions=[3])
    (tmp_path / "2.npy").unlink()
    write_csv(tmp_path / "s.csv", [{"run": 1, "position": 3, "value": 1}])
    with pytest.raises(InputError, match=r"Run 1 stands twice: .* is in .*r\.csv and in .*s\.csv"):
        RecordedSystem.open(tmp_path, positions=[3])
    (tmp_path / "s.csv").unlink()
    (tmp_path / "more").mkdir()
    with pytest.raises(InputError, match="holds a folder 'more'"):
        RecordedSystem.open(tmp_path, positions=[3])


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([], "No positions"),
        ([-1], "is no inspected position"),
        ([True], "is no inspected position"),
        ([("a", 1), 2], "Some inspected positions have labels"),
        ([1, 1], "Position 1 is inspected twice"),
        ([("a", 1, 2)], "is no inspected position"),
    ],
)
def test_positions_are_checked(tmp_path, positions, message):
    with pytest.raises(InputError, match=message):
        RecordedSystem.open(tmp_path, positions=positions)


def test_damaged_bytes_are_refused_or_read_never_a_crash(tmp_path, histograms, count):
    """Cut and change each format at random places: what is raised is ours."""
    rng = np.random.default_rng(17)
    for name, write in WRITERS.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder, histograms)
        path = min(folder.iterdir())
        whole = path.read_bytes()
        refused = 0
        trials = 6 if path.suffix == ".parquet" else 60  # each Parquet file is read by a child process first
        for _ in range(trials):
            damaged = bytearray(whole[: int(rng.integers(len(whole)))] if rng.random() < 0.3 else whole)
            for _ in range(int(rng.integers(1, 4))):
                if damaged:
                    damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
            path.write_bytes(bytes(damaged))
            try:
                RecordedSystem.open(folder, positions=POSITIONS)
            except CanarybankError:
                refused += 1
        count("damaged releases", files=trials, refused=refused)


def test_blocks_end_anywhere_and_lines_are_still_counted(tmp_path, histograms, monkeypatch):
    whole = {}
    for name in ("csv", "jsonl"):
        WRITERS[name](tmp_path, histograms)
        whole[name] = RecordedSystem.open(tmp_path / f"all.{name}", positions=POSITIONS).fingerprint
    for size in (64, 501):
        monkeypatch.setattr("canarybank.systems.release_files.BLOCK_BYTES", size)
        for name, fingerprint in whole.items():
            assert RecordedSystem.open(tmp_path / f"all.{name}", positions=POSITIONS).fingerprint == fingerprint
        path = tmp_path / f"bad-{size}.csv"
        lines = (tmp_path / "all.csv").read_text().splitlines()
        lines[201] = lines[201].rsplit(",", 1)[0] + ",x"
        path.write_text("\n".join(lines))
        with pytest.raises(InputError, match=r"Line 202 of .* has the value 'x'"):
            RecordedSystem.open(path, positions=POSITIONS)


def test_a_hundred_thousand_runs_in_csv_take_seconds(tmp_path):
    runs, positions = 100_000, 30
    values = np.random.default_rng(1).standard_normal(runs * positions).round(6)
    frame = pl.DataFrame(
        {
            "run": np.arange(1, runs + 1).repeat(positions),
            "position": np.tile(np.arange(100, 100 + positions), runs),
            "value": values,
        }
    )
    frame.write_csv(tmp_path / "r.csv")
    started = time.perf_counter()
    system = RecordedSystem.open(tmp_path / "r.csv", positions=range(100, 130))
    assert time.perf_counter() - started < 30  # 3 s on two cores
    assert len(system.observations) == runs
    assert np.array_equal(system.observations[77_777][0], values[77_776 * positions : 77_777 * positions])
