import json
import sys

import pytest

from canarybank.mechanism import Mechanism, epsilon, prv_epsilon


def test_the_figure_stands_with_its_method(cli, words):
    found, out = cli("epsilon", "--no-opacus", "--json").document, words(cli("epsilon", "--no-opacus").out)
    assert out.startswith("epsilon 1.684544 at delta 1e-05 for one release with sigma 1 and q 0.1")
    assert f"method {found['method']} assumption {found['assumption']}" in out
    assert "computed, not sampled: no trials" in out


def test_the_document_holds_the_figure_in_full(cli, golden, shape):
    document = cli("epsilon", "--json", "--no-opacus").document
    assert document["epsilon"] == pytest.approx(1.6845438, abs=1e-6)
    assert document["closed_form"] == document["epsilon"]
    golden("epsilon.json", json.dumps(shape(document), indent=1) + "\n")


def test_several_releases_have_no_closed_form(cli):
    document = cli("epsilon", "--json", "--no-opacus", "--sigma", "1.1088", "--rounds", "6").document
    assert document["epsilon"] == pytest.approx(1.9898194, abs=1e-6)
    assert document["closed_form"] is None
    assert "6 releases" in cli("epsilon", "--no-opacus", "--rounds", "6").out


def test_a_file_gives_the_mechanism(cli, own):
    mechanism = cli("epsilon", own, "--json", "--no-opacus").document["mechanism"]
    assert mechanism == {"sigma": 0.5, "q": 0.5, "delta": 1e-5}


def test_opacus_stands_beside_with_its_slack(cli):
    pytest.importorskip("opacus")
    stated = cli("epsilon", "--json").document["opacus"]
    assert stated["epsilon"] == prv_epsilon(Mechanism())
    assert stated["slack"] == stated["epsilon"] - epsilon(Mechanism())
    assert stated["slack"] == pytest.approx(0.01, abs=1e-3)
    assert f"slack {stated['slack']:.3f}" in cli("epsilon").out


def test_without_opacus_its_figure_is_left_out(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    assert cli("epsilon", "--json").document["opacus"] is None
    assert "Opacus" not in cli("epsilon").out
    asked = cli("epsilon", "--opacus")
    assert asked.code == 3
    assert "pip install 'canarybank[opacus]'" in asked.err


@pytest.mark.parametrize("sigma", ["0.02", "0.001", "1e-12"])
def test_what_opacus_cannot_state_does_not_fail_the_command(cli, sigma):
    pytest.importorskip("opacus")
    words = ("epsilon", "--mechanism.sigma", sigma, "--mechanism.q", "0.5", "--rounds", "2")
    outcome = cli(*words, "--json")
    assert outcome.code == 0
    assert outcome.err == ""
    stated = outcome.document["opacus"]
    assert (stated["epsilon"], stated["slack"]) == (None, None)
    assert "states no epsilon for this mechanism" in stated["reason"]
    assert "states no epsilon for this mechanism" in " ".join(cli(*words).out.split())
