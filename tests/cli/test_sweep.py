def test_a_sweep_prints_a_table_and_leaves_a_figure(cli, own, tmp_path):
    outcome = cli("sweep", own, "--over", "mechanism.sigma=0.5,1", "--audit.trials", 500, "--json")
    assert outcome.code == 0, outcome.err
    (piece,) = outcome.document["pieces"]
    assert [cell["at"]["mechanism.sigma"] for cell in piece["cells"]] == [0.5, 0.5, 1.0, 1.0]
    folder = tmp_path / "runs" / "sweep-own"
    assert {path.name for path in folder.iterdir()} >= {
        "sweep.csv",
        "sweep.svg",
        "sweep.pdf",
        "sweep.tex",
        "index.html",
    }
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    again = cli("sweep", own, "--over", "mechanism.sigma=0.5,1", "--audit.trials", 500)
    assert again.code == 0
    assert "Sweep over mechanism.sigma" in again.out
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_sweep_over_nothing_is_refused(cli, own):
    outcome = cli("sweep", own)
    assert outcome.code == 2
    assert "--over" in outcome.err


def test_a_sweep_over_an_unknown_key_is_refused(cli, own):
    outcome = cli("sweep", own, "--over", "mechanism.sigmo=1")
    assert outcome.code == 2
    assert "sigmo" in outcome.err
