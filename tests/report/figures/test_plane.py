from drawn_figures import words

from canarybank.report import map_figure


def test_every_point_is_in_the_table(attack):
    plane = attack["evidence"]["map"]
    rows = map_figure(attack, "m").rows
    counts = {what: sum(row[0] == what for row in rows) for what in ("canary record", "probe", "bank entry")}
    assert counts == {
        "canary record": len(plane["canary"]),
        "probe": len(plane["probes"]),
        "bank entry": len(plane["bank"]),
    }


def test_a_passive_attack_has_no_probes_in_its_key(summary):
    passive, active = summary["attacks"][:2]

    assert "probe" not in words(map_figure(passive, "m"))
    assert "probe" in words(map_figure(active, "m"))
