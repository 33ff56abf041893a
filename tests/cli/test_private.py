"""Whatever a command leaves, only its owner may read, under every umask; what may be shared is asked for by name."""

import os
import stat

import pytest

from canarybank.store import atomic_writer

WORDS = ("cat", "dog", "sun", "rain", "soup", "bread", "walk", "run", "blue", "green", "tall", "sad", "music", "train")
EVOLVE = (
    *("--bank.size", 40, "--generator.kind", "scripted_answers:write", "--evolve.rounds", 2, "--evolve.share", 0.5),
    *("--evolve.near", 1, "--run.workers", 1, "--audit", "nonce-norm", "--audit.trials", 500),
    *("--audit.threshold", "analytic", "--cohorts.canaries", 1, "--evolve.reference", 4, "--evolve.mauve=false"),
    *("--attack.probes", 6, "--attack.pool", 12, "--insecure-seed", 0),
)
REPRODUCE = (
    *("--encoder.name", "hashing", "--mechanism.k", 3, "--attack.names", "ordinary,nonce-norm"),
    *("--attack.probes", 12, "--attack.pool", 40, "--cohorts.canaries", 2, "--audit.trials", 500, "--scale", "small"),
)


@pytest.fixture(params=[0o000, 0o022], ids="umask {:03o}".format)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def scripted(writing):
    def script(request):
        return f"I saw the {' '.join(WORDS[(request.seed // 14**i) % 14] for i in range(5))} today."

    writing(script)


def modes(folder):
    return {path: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in (folder, *folder.rglob("*"))}


def wider(folder):
    """Return all under a folder, and itself, that somebody else may read."""
    return {path: mode for path, mode in modes(folder).items() if mode != ("700" if path.is_dir() else "600")}


# Under a umask of 000 nothing but canarybank itself keeps a file private.
@pytest.mark.parametrize(
    "umask", [0o000, pytest.param(0o022, marks=pytest.mark.slow)], indirect=True, ids="{:03o}".format
)
@pytest.mark.usefixtures("scripted", "umask")
def test_every_command_leaves_private_files(cli, own, world, tmp_path, monkeypatch, count):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache" / "deep"))
    files = ("--data", world / "users.csv", "--bank", world / "bank.txt")
    commands = {
        "audit": ("audit", own, "--folder", "runs/audit", "--audit.trials", 500),
        "evolve": ("evolve", own, *EVOLVE, "--folder", "runs/evolve"),
        "sweep": ("sweep", own, "--over", "mechanism.sigma=0.5,1", "--audit.trials", 500, "--folder", "runs/sweep"),
        "reproduce": ("reproduce", "main", *files, *REPRODUCE, "--folder", "runs/reproduce"),
        "report": ("report", "runs/audit", "--out", "page"),
        "gate": ("gate", "runs/audit", "--claimed-eps", 9, "--junit", "ci/junit.xml", "--markdown", "ci/gate.md"),
    }
    for command, words in commands.items():
        outcome = cli(*words)
        assert outcome.code == 0, (command, outcome.err)
    left = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*")}
    assert left == {"cache", "ci", "page", "runs"}
    checked = 0
    for name in left:
        assert wider(tmp_path / name) == {}
        checked += len(modes(tmp_path / name))
    assert checked > 100
    count("modes", files_and_folders=checked, readable_by_others=0)


@pytest.mark.usefixtures("umask")
def test_a_run_and_a_cache_of_an_earlier_version_are_tightened_where_they_are_written(cli, own, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    assert cli("audit", own, "--folder", "runs/one", "--audit.trials", 500).code == 0
    ours = [tmp_path / "runs" / "one", tmp_path / "cache" / "vectors", tmp_path / "cache" / "stages"]
    ours += [path for folder in ours[1:] for path in folder.iterdir()]
    theirs = [tmp_path, tmp_path / "runs", tmp_path / "cache"]
    for folder in (*ours, *theirs):
        folder.chmod(0o755)
    changed = ("--bank.size", 90, "--users.cap", 7, "--audit.trials", 500)
    assert cli("audit", own, "--folder", "runs/other", *changed).code == 0
    assert cli("audit", own, "--folder", "runs/one", "--audit.trials", 500).code == 0
    touched = {path.parent for path in tmp_path.rglob("*") if path.is_file()} & {*ours}
    assert {path.name for path in touched} >= {"one", "users"}
    assert [path for path in (*ours[:3], *touched) if modes(path)[path] != "700"] == []
    assert [path for path in theirs if modes(path)[path] != "755"] == []


@pytest.mark.usefixtures("umask")
def test_a_report_is_shareable_only_where_that_is_asked_for(cli, finished, tmp_path):
    assert cli("report", finished, "--out", "deep/mine").code == 0
    assert wider(tmp_path / "deep") == {}
    assert cli("report", finished, "--out", "public/page", "--shareable").code == 0
    found = modes(tmp_path / "public")
    assert len(found) == 7
    assert found == {path: "755" if path.is_dir() else "644" for path in found}
    refused = cli("report", finished, "--shareable")
    assert refused.code == 2
    assert "--out" in refused.err
    assert wider(finished) == {}


def test_a_bank_and_a_starter_file_follow_the_umask(cli, tmp_path, umask):
    from canarybank.generate import CandidateBank

    assert cli("config", "init", "mine.toml").code == 0
    CandidateBank(("a", "b"), ("x", "y")).write(tmp_path / "bank.parquet")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o666 & ~umask}


def test_prune_all_removes_what_a_killed_writer_left(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path / "cache"))
    folders = [tmp_path / "cache" / kind / "deep" for kind in ("vectors", "stages", "responses")]
    for folder in folders:
        child = os.fork()
        if child == 0:
            with atomic_writer(folder / "piece") as file:
                file.write(b"what a user wrote")
                file.flush()
                os._exit(9)
        os.waitpid(child, 0)
        with atomic_writer(folder / "mine") as file:
            assert cli("cache", "prune", "vectors", "stages", "responses", "--all").code == 0
            (left,) = folder.iterdir()
            assert left.name.startswith(".mine.")
            file.write(b"x")
        assert cli("cache", "prune", "vectors", "stages", "responses", "--all").code == 0
        assert [path for path in folder.iterdir() if path.name.startswith(".")] == []
