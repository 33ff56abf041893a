import json

# A bound whose ends fail ten times as often as they may.
BOLD = """\
from canarybank.auditing import Method

BOLD = Method("bold", "nothing", tails=0.1)
"""


def test_all_checks_hold_here(cli, golden, shape):
    outcome = cli("selftest", "--trials", "2000", "--json", "--quiet")
    assert outcome.code == 0
    assert outcome.document["ok"]
    golden("selftest.json", json.dumps(shape(outcome.document), indent=1) + "\n")


def test_a_method_of_somebody_else_whose_bounds_are_too_large_is_found_and_gives_1(cli, tmp_path, monkeypatch):
    about = tmp_path / "bold_bound-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bold-bound\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[canarybank.methods]\nbold = bold_bound:BOLD\n")
    (tmp_path / "bold_bound.py").write_text(BOLD)
    monkeypatch.syspath_prepend(tmp_path)
    outcome = cli("selftest", "--trials", "2000", "--audit.method", "bold", "--quiet")
    assert outcome.code == 1, outcome.err
    assert "checks fail." in outcome.out
    assert "FAILS" in outcome.out
