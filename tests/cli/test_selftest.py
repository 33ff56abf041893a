import json

import canarybank.flow.selftests as room
from canarybank.flow import Check, SelfTest


def test_all_checks_hold_here(cli, golden, shape):
    outcome = cli("selftest", "--trials", "2000", "--json", "--quiet")
    assert outcome.code == 0
    assert outcome.document["ok"]
    golden("selftest.json", json.dumps(shape(outcome.document), indent=1) + "\n")


def test_a_check_that_fails_gives_1(cli, monkeypatch):
    failed = SelfTest(ok=False, checks=(Check(name="coverage", ok=False, detail="too often"),))
    monkeypatch.setattr(room, "selftest", lambda *_args, **_options: failed)
    outcome = cli("selftest")
    assert outcome.code == 1
    assert "1 of 1 checks fail." in outcome.out
    assert "FAILS" in outcome.out
