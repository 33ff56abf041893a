import shutil


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


def test_a_file_says_what_to_sweep_over(cli, own, tmp_path):
    file = shutil.copytree(own.parent, tmp_path / "world") / "grid.toml"
    file.write_text(own.read_text() + '\n[sweep]\nmechanism.sigma = [0.5, 1]\n"mechanism.q" = [0.1, 0.2]\n')
    outcome = cli("sweep", file, "--audit.trials", 500, "--over", "mechanism.q=0.3", "--json")
    assert outcome.code == 0, outcome.err
    (piece,) = outcome.document["pieces"]
    places = [(cell["at"]["mechanism.sigma"], cell["at"]["mechanism.q"]) for cell in piece["cells"]]
    assert list(dict.fromkeys(places)) == [(0.5, 0.3), (1.0, 0.3)]
    assert cli("config", "show", file, "--json").document["sweep"] == {
        "mechanism.sigma": [0.5, 1],
        "mechanism.q": [0.1, 0.2],
    }
    shown = cli("config", "show", file)
    assert "Swept over" in shown.out
    assert "0.5,1" in shown.out


def test_a_grid_is_refused_by_a_command_that_makes_one_run(cli, own, tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(own.read_text() + "\n[sweep]\nmechanism.sigma = [0.5, 1]\n")
    outcome = cli("audit", file)
    assert outcome.code == 2
    assert "canarybank sweep" in outcome.err


def test_a_section_that_is_no_grid_is_refused(cli, own, tmp_path):
    file = tmp_path / "grid.toml"
    for section, said in (
        ("[sweep]\nmechanism.sigma = 1", "lists of values"),
        ("[sweep]\nmechanism.sigmo = [1]", "sigma"),
        ("[sweep]\nmechanism.sigma = [1, 1]", "different"),
        ("[sweep]\nmechanism.sigma = []", "at least one"),
    ):
        file.write_text(f"{own.read_text()}\n{section}\n")
        outcome = cli("sweep", file)
        assert outcome.code == 2, section
        assert said in outcome.err
    file.write_text(f"sweep = 3\n{own.read_text()}")
    assert "lists of values" in cli("sweep", file).err
