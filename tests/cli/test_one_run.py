"""Walk from the design of one run to its certificate, with both protocols, and stumble on the way."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from one_run_operator import contributions_of, operate_once
from operators import altered, forge, rows_of

from canarybank.cli import main
from canarybank.run import Run
from canarybank.store import hash_file, hash_folder

WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
CANARIES, ROUNDS = 100, 3
KNOWN = {"mechanism.q": 0.5, "system.rounds": ROUNDS}
FAIR = {"one_run.coins": "fair", "mechanism.q": 1, "mechanism.sigma": 2}
SURE = {"mechanism.q": 1}


def flags(settings):
    """Return settings as flags; coins come from a seed unless it is None, so that tests repeat."""
    given = {"one_run.canaries": CANARIES, "mechanism.sigma": 1, "audit.alpha": 0.01, "run.seed": 1} | settings
    pairs = [(key, value) for key, value in given.items() if value is not None]
    return [str(word) for key, value in pairs for word in (f"--{key}", *([value] if value is not True else []))]


@pytest.fixture(scope="module")
def place(world, tmp_path_factory):
    """Write a larger bank beside the users."""
    folder, rng = shutil.copytree(world, tmp_path_factory.mktemp("one") / "world"), random.Random(4)  # noqa: S311

    def sentence():
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(4, 9)))

    (folder / "bank.txt").write_text("\n".join(dict.fromkeys(sentence() for _ in range(500))) + "\n")
    return folder


@pytest.fixture(scope="module")
def design(place, tmp_path_factory):
    """Design plants, each of them once; tests take copies."""
    made = {}

    def designed(to, **settings):
        given = tuple(sorted((key.replace("__", "."), value) for key, value in settings.items()))
        if given not in made:
            made[given] = tmp_path_factory.mktemp("plants") / "plant"
            words = ["design", str(place / "own.toml"), "--one-run", "-o", str(made[given]), "--quiet"]
            assert main([*words, *flags(dict(given))]) == 0
        return shutil.copytree(made[given], to / "plant")

    return designed


def settings_of(values):
    return {key.replace(".", "__"): value for key, value in values.items()}


@pytest.fixture(scope="module")
def judged(design, tmp_path_factory):
    """Score an honest run with known coins once."""
    folder = tmp_path_factory.mktemp("judged")
    plant = design(folder, **settings_of(KNOWN))
    releases, took = operate_once(plant, folder, rounds=ROUNDS, q=0.5)
    assert main(["score", str(plant), str(releases), "--coins", str(took), "--quiet"]) == 0
    return folder


@pytest.fixture
def scored(judged, tmp_path):
    return shutil.copytree(judged, tmp_path / "judged")


@pytest.fixture
def known(design, tmp_path):
    """Return a plant with known coins, not scored."""
    return design(tmp_path, **settings_of(KNOWN))


@pytest.fixture
def fair(design, tmp_path):
    """Return a plant with fair coins, not scored."""
    return design(tmp_path / "fair", **settings_of(FAIR))


def test_an_honest_system_with_known_coins_stands_in_every_command(cli, scored, tmp_path):
    plant = scored / "plant"
    outcome = cli("score", plant, scored / "releases.csv", "--coins", scored / "took.csv", "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.document["found"]
    (shown,) = found["shown"]
    assert (found["verdict"], found["canaries"], found["eligible"]) == ("stands", CANARIES, CANARIES)
    assert found["took"] == len(rows_of(scored / "took.csv"))
    assert (shown["evidence"], shown["refuted"], len(shown["shifts"])) == ("known-coins", False, 2)
    assert 0 < shown["epsilon"] < found["claim"]["epsilon"]
    assert 0 < shown["shift"] < 1
    assert 0.3 < shown["rate"] < 0.5
    assert cli("verify", plant).code == 0
    assert cli("verify", plant, "--commitment", hash_file(plant / "commitment.json")).code == 0
    assert cli("verify", plant, "--commitment", "0" * 64).code == 4
    gate = cli(
        "gate", plant, "--claimed-eps", found["claim"]["epsilon"] + 0.1, "--junit", "j.xml", "--markdown", "m.md"
    )
    assert gate.code == 0, gate.out
    assert "one run with 100 canaries" in gate.out
    assert "one run with 100 canaries" in (tmp_path / "m.md").read_text()
    assert cli("gate", plant, "--claimed-eps", shown["epsilon"] / 2).code == 1
    before = {path.name: path.read_bytes() for path in plant.iterdir() if path.is_file()}
    report = cli("report", plant)
    assert report.code == 0
    assert report.out.startswith("One run of 3 releases with 100 canaries shows an epsilon of at least ")
    assert {path.name: path.read_bytes() for path in plant.iterdir() if path.is_file()} == before
    page, markdown = (plant / "report.html").read_text(), (plant / "summary.md").read_text()
    assert "No violation detected at this power" in page
    assert "No violation detected at this power" in markdown
    assert "known-coins" in page


def test_a_scored_plant_and_one_that_is_not_are_listed(cli, scored, known):
    shutil.copytree(known, scored / "later")
    later, plant = cli("runs", "list", scored, "--json").document["runs"]
    assert (plant["state"], plant["ok"]) == ("finished", True)
    assert plant["largest"]["method"] == "known-coins"
    assert (later["state"], later["ok"]) == ("waiting", None)
    assert "run the system once, then: canarybank score" in later["reason"]
    assert "--coins TOOK" in later["reason"]
    assert cli("runs", "list", scored).code == 0


def test_a_plant_that_is_not_scored_says_so_in_every_command(cli, known):
    for words in (("verify", known), ("report", known), ("gate", known, "--claimed-eps", "1")):
        outcome = cli(*words)
        assert (outcome.code, "it is designed; run the system once" in outcome.err) == (4, True)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"noise": 0.5}, "there is less noise, or a larger contribution"),
        ({"q": 0.75}, "a canary takes part with probability"),
        ({"reuse_noise": True}, "there is less noise, or a larger contribution"),
    ],
)
def test_a_broken_system_with_known_coins_is_refuted_by_one_run(broken, said, cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, **{"q": 0.5} | broken)
    outcome = cli("score", known, releases, "--coins", took, "--json")
    assert outcome.code == 1, outcome.err
    assert said in outcome.document["found"]["statement"]
    assert cli("verify", known).code == 0
    gate = cli("gate", known, "--claimed-eps", "100", "--json")
    assert gate.code == 1
    assert "curve" in {cause["kind"] for cause in gate.document["causes"]}
    assert cli("report", known).code == 0


def test_where_everybody_takes_part_half_are_left_out_and_no_coins_are_asked_for(cli, design, tmp_path):
    plant = design(tmp_path, **settings_of(SURE))
    those_in = {row["canary"] for row in rows_of(plant / "eligible.csv") if row["in"] == "1"}
    assert 25 < len(those_in) < 75  # fair coins: 5 deviations
    assert set(contributions_of(plant)) == those_in
    releases, took = operate_once(plant, tmp_path, rounds=1)
    outcome = cli("score", plant, releases, "--coins", took)
    assert (outcome.code, "q is 1, so all did; leave it out" in outcome.err) == (2, True)
    outcome = cli("score", plant, releases, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.document["found"]["eligible"] == outcome.document["found"]["took"] == len(those_in)
    assert 0 < outcome.document["epsilon"] < 4.4


def test_halved_noise_where_everybody_takes_part_is_refuted(cli, design, tmp_path):
    plant = design(tmp_path, **settings_of(SURE))
    releases, _ = operate_once(plant, tmp_path, rounds=1, noise=0.5)
    assert cli("score", plant, releases).code == 1


def test_fair_coins_are_guessed_and_an_honest_system_stands(cli, fair, tmp_path):
    releases, took = operate_once(fair, tmp_path, rounds=1, noise=2)
    outcome = cli("score", fair, releases, "--coins", took)
    assert (outcome.code, "nobody says who took part; leave it out" in outcome.err) == (2, True)
    outcome = cli("score", fair, releases, "--json")
    assert outcome.code == 0, outcome.err
    shown = outcome.document["found"]["shown"]
    assert [each["evidence"] for each in shown] == ["order-statistics", "guessing"]
    assert all(each["guesses"] >= each["correct"] for each in shown)
    assert cli("verify", fair).code == 0
    assert cli("report", fair).code == 0


def test_fair_coins_refute_a_system_without_noise_even_without_a_mechanism(cli, design, tmp_path):
    claim = {"system__no-mechanism": True, "audit__accounted": 1}
    plant = design(tmp_path, one_run__coins="fair", **claim)
    releases, _ = operate_once(plant, tmp_path, rounds=1, noise=0.05)
    outcome = cli("score", plant, releases, "--json")
    assert outcome.code == 1, outcome.err
    (shown,) = outcome.document["found"]["shown"]
    assert (shown["evidence"], shown["family"]) == ("guessing", "any system")
    assert cli("gate", plant, "--claimed-eps", "1").code == 1
    assert cli("gate", plant, "--claimed-eps", "50").code == 0


@pytest.mark.parametrize("style", ["adaptive", "ordinary"])
def test_other_canaries_do_as_well_and_their_design_says_how_far_they_shift_scores(style, cli, design, tmp_path):
    plant = design(tmp_path, **settings_of(KNOWN | {"one_run.style": style}))
    made = json.loads((plant / "commitment.json").read_text())
    assert made["style"] == style
    assert made["shift"] == pytest.approx(np.mean(made["shifts"]))
    assert max(made["shifts"]) <= 1
    assert (made["shift"] > 0.99) == (style == "adaptive")
    releases, took = operate_once(plant, tmp_path, rounds=ROUNDS, q=0.5)
    assert cli("score", plant, releases, "--coins", took).code == 0
    assert cli("verify", plant).code == 0


def test_the_folder_holds_what_an_operator_needs(known, fair):
    for plant, coins in ((known, True), (fair, False)):
        readme = (plant / "README.md").read_text()
        commitment = hash_file(plant / "commitment.json")
        assert commitment in readme
        assert ("`canary,round`" in readme) == ("--coins TOOK.csv" in readme) == coins
        assert all(len(line) <= 120 for line in readme.splitlines() if commitment not in line)
        probes, told = rows_of(plant / "probes.csv"), rows_of(plant / "eligible.csv")
        assert [row["canary"] for row in told] == [f"canary-{number + 1}" for number in range(CANARIES)]
        assert len({row["position"] for row in probes}) == len({row["text"] for row in probes}) == 3 * CANARIES
        assert np.load(plant / "probes.npy").shape[0] == 3 * CANARIES
        records = [json.loads(line) for line in (plant / "canaries.jsonl").read_text().splitlines()]
        assert {each["canary"] for each in records} == {row["canary"] for row in told if row["in"] == "1"}
        assert {each["text"] for each in records} <= {row["text"] for row in probes}
        assert len(np.load(plant / "canaries.npy")) == len(records)


def test_the_same_design_again_leaves_a_plant_as_it_is_its_coins_too(cli, place, design, tmp_path):
    drawn = FAIR | {"run.seed": None}
    plant = design(tmp_path, **settings_of(drawn))
    before = hash_folder(plant)
    words = ("design", place / "own.toml", "--one-run", "-o", plant)
    assert cli(*words, *flags(drawn)).code == 0
    assert hash_folder(plant) == before
    outcome = cli(*words, *flags(drawn | {"one_run.canaries": 99}))
    assert (outcome.code, "one_run.canaries: 100 -> 99" in outcome.err) == (2, True)


def test_coins_come_from_the_operating_system_or_from_a_seed_that_was_set(cli, place, tmp_path):
    told = []
    for name, seed in (("a", None), ("b", None), ("c", 3), ("d", 3), ("e", 4)):
        words = ("design", place / "own.toml", "--one-run", "-o", tmp_path / name)
        assert cli(*words, *flags(FAIR | {"one_run.evidence": "guessing", "run.seed": seed})).code == 0
        told.append((tmp_path / name / "eligible.csv").read_bytes())
        assert json.loads((tmp_path / name / "commitment.json").read_text())["seed"] == seed
    assert told[2] == told[3]
    assert len(set(told)) == 4  # by chance 2^-100


def test_canaries_and_probes_do_not_depend_on_users(cli, place, known, tmp_path):
    other = shutil.copytree(place, tmp_path / "other")
    lines = (other / "users.csv").read_text().splitlines()
    (other / "users.csv").write_text("\n".join([lines[0], *(f"{line} and some more" for line in lines[1:])]) + "\n")
    assert cli("design", other / "own.toml", "--one-run", "-o", "another", *flags(KNOWN)).code == 0
    for name in ("canaries.jsonl", "probes.csv", "probes.npy", "canaries.npy"):
        assert (tmp_path / "another" / name).read_bytes() == (known / name).read_bytes()


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        (
            {"system.neighbours": "replace", "audit.accounted": 2},
            2,
            "one run shows what adding or removing a user does",
        ),
        ({"system.by_label": True}, 2, "share one bank"),
        ({"system.no-mechanism": True, "audit.accounted": 2}, 2, "choose fair coins"),
        ({"one_run.canaries": 1000}, 2, "1,000 canaries with 3 probes each need 3,000"),
        ({"one_run.canaries": 7}, 2, "one_run.canaries"),
        ({"one_run.evidence": "guessing"}, 2, "choose fair coins"),
    ],
)
def test_what_one_run_cannot_do_is_refused_and_leaves_the_folder_free(settings, code, said, cli, place, tmp_path):
    words = ("design", place / "own.toml", "--one-run", "-o", "plant")
    outcome = cli(*words, *flags(settings))
    assert (outcome.code, said in " ".join(outcome.err.split())) == (code, True), outcome.err
    assert not (tmp_path / "plant" / "manifest.json").exists()


def rewritten(path, change):
    """Write the lines of a CSV file again, each changed, or left out where it becomes None."""
    head, *lines = path.read_text().splitlines()
    kept = [made for number, line in enumerate(lines) if (made := change(number, line.split(","))) is not None]
    path.write_text("\n".join([head, *(",".join(each) for each in kept)]) + "\n")


RELEASES = {
    "a round is missing": (lambda _, line: None if line[0] == "2" else line, 4, "round 2 (0 of 300 positions)"),
    "the last round is missing": (lambda _, line: None if line[0] == "3" else line, 4, "round 3 (0 of 300 positions)"),
    "a position is missing": (lambda number, line: line if number else None, 4, "round 1 (299 of 300 positions)"),
    "a round too many": (lambda _, line: ["4", *line[1:]] if line[0] == "3" else line, 2, "holds 4 rounds"),
    "no number": (lambda _, line: [*line[:2], "nan"], 2, "write the number that was released: one run cannot"),
    "all in one round": (lambda _, line: ["1", *line[1:]], 2, "stands twice"),
}


@pytest.mark.parametrize("case", RELEASES)
def test_releases_that_are_not_those_of_this_run_are_refused_and_nothing_is_judged(case, cli, known, tmp_path):
    change, code, said = RELEASES[case]
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    whole = releases.read_text()
    rewritten(releases, change)
    outcome = cli("score", known, releases, "--coins", took)
    assert (outcome.code, said in " ".join(outcome.err.split())) == (code, True), outcome.err
    assert not (known / "results.json").exists()
    releases.write_text(whole)
    assert cli("score", known, releases, "--coins", took).code == 0


COINS = {
    "no canary": ("canary,round\ncanary-101,1\n", "Line 2 of took.csv names 'canary-101'"),
    "no round": ("canary,round\ncanary-1,4\n", "rounds are whole numbers from 1 to 3"),
    "twice": ("canary,round\ncanary-1,1\ncanary-1,01\n", "Line 3 of took.csv has canary-1 in round 01 a second time"),
    "perhaps": ("canary,round,took\ncanary-1,1,perhaps\n", "write 1 or 0"),
    "no columns": ("a,b\n1,2\n", "its first line must be canary,round"),
    "empty": ("", "has the columns none"),
    "no number": (f"canary,round\ncanary-1,{'1' * 5000}\n", "rounds are whole numbers from 1 to 3"),
    "nobody": (
        "canary,round\n",
        "no canary took part in any round, and at the claimed q of 0.5 about 150 of 300 coins",
    ),
    "no CSV": ("canary,round\n" + "x" * 200_000, "of took.csv cannot be read as CSV"),
    "old line ends": ("canary,round\rcanary-101,1\r", "Line 2 of took.csv names 'canary-101'"),
}


@pytest.mark.parametrize("case", COINS)
def test_coins_that_cannot_be_are_refused(case, cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    content, said = COINS[case]
    took.write_text(content)
    outcome = cli("score", known, releases, "--coins", "took.csv")
    assert (outcome.code, said in " ".join(outcome.err.split())) == (2, True), outcome.err


def test_known_coins_need_who_took_part(cli, known, tmp_path):
    releases, _ = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    outcome = cli("score", known, releases)
    assert (outcome.code, "--coins TOOK.csv" in outcome.err) == (2, True)
    outcome = cli("score", known, releases, "--coins", "none.csv")
    assert (outcome.code, "no file 'none.csv'" in outcome.err) == (2, True)


def test_coins_may_say_of_everybody_whether_it_took_part(cli, scored, known, tmp_path):
    took = {(row["canary"], row["round"]) for row in rows_of(scored / "took.csv")}
    pairs = [(f"canary-{i}", str(t)) for i in range(1, CANARIES + 1) for t in range(1, ROUNDS + 1)]
    lines = [f"{canary},{number},{int((canary, number) in took)}" for canary, number in pairs]
    (tmp_path / "all.csv").write_text("\n".join(["canary,round,took", *lines]) + "\n")
    os.utime(scored / "releases.csv")
    assert cli("score", known, scored / "releases.csv", "--coins", "all.csv").code == 0
    one, other = (json.loads((each / "results.json").read_text()) for each in (scored / "plant", known))
    assert one["found"] == other["found"]


def test_other_forms_of_the_same_releases_are_judged_alike(cli, scored, design, tmp_path):
    rows = rows_of(scored / "releases.csv")
    (tmp_path / "forms").mkdir()
    named = [{"run": "7", **row} for row in rows]
    (tmp_path / "run.csv").write_text("\n".join(["run,round,position,value", *(",".join(r.values()) for r in named)]))
    lines = [json.dumps({k: float(v) if k == "value" else int(v) for k, v in row.items()}) for row in rows]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines) + "\n")
    size = json.loads((scored / "plant" / "commitment.json").read_text())["bank_size"]
    whole = np.zeros((ROUNDS, size))
    for row in rows:
        whole[int(row["round"]) - 1, int(row["position"])] = float(row["value"])
    np.save(tmp_path / "forms" / "1.npy", whole)
    histograms = [json.dumps({"round": t + 1, "release": each.tolist()}) for t, each in enumerate(whole)]
    (tmp_path / "histograms.jsonl").write_text("\n".join(histograms) + "\n")
    expected = json.loads((scored / "plant" / "results.json").read_text())["found"]
    for place in ("run.csv", "lines.jsonl", "forms", "histograms.jsonl"):
        plant = design(tmp_path / f"of-{place}", **settings_of(KNOWN))
        outcome = cli("score", plant, tmp_path / place, "--coins", scored / "took.csv", "--any-time")
        assert outcome.code == 0, outcome.err
        assert json.loads((plant / "results.json").read_text())["found"] == expected


def test_several_runs_or_too_many_values_are_refused(cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    head, *lines = releases.read_text().splitlines()
    releases.write_text("\n".join([f"run,{head}", *(f"{1 + line.startswith('3')},{line}" for line in lines)]) + "\n")
    outcome = cli("score", known, releases, "--coins", took)
    assert (outcome.code, "holds 2 runs, and this plant is for one" in outcome.err) == (2, True)
    more = [f"1,{place},0.1" for place in range(10_000, 11_000)]
    releases.write_text("\n".join([head, *lines, *more]) + "\n")
    outcome = cli("score", known, releases, "--coins", took)
    assert (outcome.code, "releases of another bank" in " ".join(outcome.err.split())) == (2, True)


@pytest.mark.parametrize("early", ["releases.csv", "took.csv"])
def test_what_was_written_before_the_commitment_is_refused_unless_the_auditor_asks(early, cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    os.utime(tmp_path / early, (1, 1))
    outcome = cli("score", known, releases, "--coins", took)
    assert (outcome.code, "was written before the commitment" in outcome.err) == (2, True)
    outcome = cli("score", known, releases, "--coins", took, "--any-time", "--json")
    assert outcome.code == 0
    assert outcome.document["notes"]
    assert cli("verify", known).code == 0


def test_a_plant_is_judged_once(cli, scored, tmp_path):
    plant = scored / "plant"
    before = hash_folder(plant)
    assert cli("score", plant, scored / "releases.csv", "--coins", scored / "took.csv").code == 0
    assert hash_folder(plant) == before
    shutil.copytree(plant, tmp_path / "copy")
    releases, took = operate_once(plant, tmp_path, rounds=ROUNDS, q=0.5, seed=9)
    for given in ((releases, scored / "took.csv"), (scored / "releases.csv", took)):
        outcome = cli("score", plant, given[0], "--coins", given[1])
        assert (outcome.code, "its alpha is spent" in outcome.err) == (2, True)
    assert hash_folder(plant) == before


@pytest.mark.parametrize("words", [("--run", "sh x"), ("--stop-when-refuted",), ("--missing-are-lost",)])
def test_what_is_for_many_runs_is_refused(words, cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    given = () if "--run" in words else (releases,)
    outcome = cli("score", known, *given, "--coins", took, *words)
    assert (outcome.code, "This plant is for one run" in outcome.err) == (2, True)


def test_releases_of_another_plant_are_refused(cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    (tmp_path / "there").mkdir()
    shutil.move(releases, tmp_path / "there")
    shutil.copy2(known / "commitment.json", tmp_path / "there")
    altered(tmp_path / "there" / "commitment.json", lambda value: value.update(system="another"))
    outcome = cli("score", known, "there", "--coins", took)
    assert (outcome.code, "is the commitment of another plant" in outcome.err) == (2, True)


@pytest.mark.parametrize("name", ["probes.csv", "eligible.csv", "canaries.jsonl", "probes.npy", "canaries.npy"])
def test_a_plant_that_was_altered_is_not_scored(name, cli, known, tmp_path):
    releases, took = operate_once(known, tmp_path, rounds=ROUNDS, q=0.5)
    (known / name).write_bytes((known / name).read_bytes() + b"\n")
    outcome = cli("score", known, releases, "--coins", took)
    assert (outcome.code, f"{name} in" in outcome.err) == (4, True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("commitment.json", lambda v: v.update(alpha=0.1)),
        ("commitment.json", lambda v: v.update(shift=0.5)),
        ("commitment.json", lambda v: v["offsets"].__setitem__(0, 0.1)),
        ("commitment.json", lambda v: v["eligible"].__setitem__(0, False)),
        ("results.json", lambda v: v["found"].update(verdict="refuted")),
        ("results.json", lambda v: v["found"]["shown"][0].update(epsilon=0.5)),
        ("results.json", lambda v: v["found"]["shown"][0].update(alpha=0.5)),
        ("results.json", lambda v: v["found"]["shown"][0]["shifts"][0].update(lower=0.9)),
        ("results.json", lambda v: v["found"].update(statement="All is well.")),
        ("results.json", lambda v: v["found"]["claim"].update(epsilon=9.0)),
        ("results.json", lambda v: v["found"].update(took=3)),
        ("results.json", lambda v: v.update(system="another system")),
        ("results.json", lambda v: v.update(statement="This file is private.")),
        ("results.json", lambda v: v.update(notes=["Checked by a regulator."])),
        ("results.json", lambda v: v.update(releases="0" * 64)),
        ("manifest.json", lambda v: v["config"].update({"one_run.style": "ordinary"})),
        ("manifest.json", lambda v: v["config"].update({"system.rounds": 2})),
    ],
)
def test_what_was_altered_after_scoring_is_found(name, change, cli, scored):
    """Also by a forger who enters the new hash into the manifest."""
    plant = scored / "plant"
    forge(plant, name, change)
    outcome = cli("verify", plant)
    assert outcome.code == 4, outcome.out
    assert cli("gate", plant, "--claimed-eps", "100").code == 4
    assert cli("report", plant).code == 4


@pytest.mark.parametrize("name", ["values.npy", "took.npy"])
def test_releases_and_coins_that_were_altered_torn_or_lost_are_found(name, cli, scored):
    plant = scored / "plant"
    path = plant / "releases" / name
    whole, kept = path.read_bytes(), np.load(path)
    other = np.zeros_like(kept)
    for spoilt in (whole[:-9], other, None):
        if isinstance(spoilt, np.ndarray):
            np.save(path, spoilt)
        elif spoilt is None:
            path.unlink()
        else:
            path.write_bytes(spoilt)
        if path.exists():
            altered(plant / "manifest.json", lambda v: v["files"].update({f"releases/{name}": hash_file(path)}))
        assert cli("verify", plant).code == 4
    path.write_bytes(whole)
    altered(plant / "manifest.json", lambda v: v["files"].update({f"releases/{name}": hash_file(path)}))
    assert cli("verify", plant).code == 0


KILLER = """
import os, pathlib, signal, sys
number, replace = int(sys.argv[1]), pathlib.Path.replace
def replaced(self, target):
    global number
    number -= 1
    if not number:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(self, target)
pathlib.Path.replace = replaced
from canarybank.cli import main
sys.exit(main(sys.argv[2:]))
"""


def killed(number, *words):
    """Run a command that is killed at its so-many-th durable write."""
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(number), *map(str, words)], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_scoring_that_is_killed_ends_with_the_same_bytes(number, cli, scored, known):
    words = ("score", known, scored / "releases.csv", "--coins", scored / "took.csv")
    for name in ("releases.csv", "took.csv"):
        os.utime(scored / name)
    killed(number, *words)
    assert cli(*words).code == 0
    assert (known / "results.json").read_bytes() == (scored / "plant" / "results.json").read_bytes()
    assert cli("verify", known).code == 0


@pytest.mark.parametrize("number", [1, 4, 8])
def test_a_design_that_is_killed_is_finished_by_the_same_command(number, cli, place, tmp_path):
    words = ("design", place / "own.toml", "--one-run", "-o", tmp_path / "plant", *flags(FAIR))
    killed(number, *words)
    assert cli(*words).code == 0
    whole = ("design", place / "own.toml", "--one-run", "-o", tmp_path / "whole", *flags(FAIR))
    assert cli(*whole).code == 0
    names = {"commitment.json", "eligible.csv", "probes.csv", "canaries.jsonl", "README.md"}
    assert all((tmp_path / "plant" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes() for name in names)


def test_the_page_escapes_what_a_system_is_called(cli, design, tmp_path):
    plant = design(tmp_path, **settings_of(SURE | {"system.name": "<script>alert(1)</script>"}))
    releases, _ = operate_once(plant, tmp_path, rounds=1)
    assert cli("score", plant, releases).code == 0
    assert "<script>alert" not in (plant / "report.html").read_text()
    assert Run.open(plant).one_run_results.system == "<script>alert(1)</script>"
