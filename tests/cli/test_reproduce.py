import pytest

FLAGS = {
    "--encoder.name": "hashing",
    "--mechanism.k": 3,
    "--attack.names": "ordinary,nonce-norm",
    "--attack.probes": 12,
    "--attack.pool": 40,
    "--cohorts.canaries": 2,
    "--audit.trials": 1000,
}


BY_LAW = ("--audit.threshold", "analytic")
"""Thresholds whose intervals need no other calibrations: the first test has the calibrated ones."""


@pytest.fixture
def files(world):
    return (
        "--data",
        world / "users.csv",
        "--bank",
        world / "bank.txt",
        *(word for pair in FLAGS.items() for word in pair),
    )


def test_the_main_table_is_printed_beside_the_papers_numbers(cli, files, tmp_path):
    outcome = cli("reproduce", "main", *files, "--json")
    assert outcome.code == 0, outcome.err
    (piece,) = outcome.document["pieces"]
    assert [value["value"] for value in piece["cells"][0]["paper"]] == [0.268, 0.247, 0.252, 0.475]
    folder = tmp_path / "runs" / "reproduce"
    assert {path.name for path in folder.iterdir()} >= {"main.csv", "main.tex", "main.svg", "main.pdf", "index.html"}


def test_finished_work_gives_the_same_bytes_again(cli, files, tmp_path):
    assert cli("reproduce", "main", *files, *BY_LAW).code == 0
    folder = tmp_path / "runs" / "reproduce"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    outcome = cli("reproduce", "main", *files, *BY_LAW)
    assert outcome.code == 0
    assert "1.110" in outcome.out
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_all_makes_what_it_can_and_names_the_rest(cli, files, tmp_path):
    outcome = cli("reproduce", "all", *files, *BY_LAW, "--scale", "small", "--encoders", "hashing", "--json")
    assert outcome.code == 0, outcome.err
    assert [piece["name"] for piece in outcome.document["pieces"]] == ["main", "ablations", "encoders"]
    assert [line.partition(" ")[0] for line in outcome.document["left_out"]] == ["full", "multiround"]
    page = (tmp_path / "runs" / "reproduce" / "index.html").read_text()
    assert all(f'id="{name}"' in page for name in ("main", "ablations", "encoders"))


def test_a_piece_that_lacks_something_is_refused(cli, files):
    outcome = cli("reproduce", "multiround", *files)
    assert outcome.code == 2
    assert "generator" in outcome.err


def test_an_unknown_piece_is_refused(cli):
    outcome = cli("reproduce", "mian")
    assert outcome.code == 2
    assert "'main'" in outcome.err


def test_help_names_the_generator(cli):
    assert "--generator " in cli("reproduce", "main", "--help").out
