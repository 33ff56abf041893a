import json


def test_a_report_is_written_again_to_the_byte(cli, copied):
    before = (copied / "report.html").read_bytes()
    (copied / "report.html").unlink()
    outcome = cli("report", copied)
    assert outcome.code == 0
    assert (copied / "report.html").read_bytes() == before
    assert cli("verify", copied).code == 0


def test_a_report_may_go_elsewhere_and_leave_the_run_alone(cli, copied, tmp_path):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    document = cli("report", copied, "--out", tmp_path / "other", "--json").document
    assert document["report"] == str(tmp_path / "other" / "report.html")
    assert (tmp_path / "other" / "report.html").read_bytes() == before["report.html"]
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_the_page_is_opened_when_asked_for(cli, copied, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    cli("report", copied, "--open")
    assert opened == [(copied / "report.html").as_uri()]


def test_no_run_is_2(cli):
    outcome = cli("report", "nowhere")
    assert outcome.code == 2
    assert "There is no run in 'nowhere'" in outcome.err


def test_the_table_of_attacks_fits_80_columns_with_every_number_whole(cli, finished, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = cli("report", finished, "--out", "again").out
    assert all(len(line) <= 80 for line in out.splitlines())
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if line.startswith((" ordinary", " nonce-norm"))
    }
    assert set(rows) == {"ordinary", "nonce-norm"}
    for row in rows.values():
        assert len(row) == 7  # exact, rule, low to high, observed, at its share
        assert all(float(cell) >= 0 for cell in row if cell != "to")
    (joint,) = (line.split() for line in out.splitlines() if line.startswith(" both together"))
    assert joint[-1] == max((row[-1] for row in rows.values()), key=float)
    assert json.loads((finished / "manifest.json").read_text())["files"]["commitment.json"] in out.split()
