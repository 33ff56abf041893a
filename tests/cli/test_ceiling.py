import json

import pytest


def test_the_figure_stands_with_what_it_assumes(cli, words):
    told = ("ceiling", "--trials", "1e5", "--canaries", "1", "--alpha", "0.01")
    found, out = cli(*told, "--json").document, words(cli(*told).out)
    likely = f"{found['median']:.3f} (median; 5% to 95%: {found['q05']:.3f} to {found['q95']:.3f})"
    assert out.startswith(f"A perfect attack shows epsilon {likely} of the exact {found['exact']:.4f}")
    assert "100,000 of each hypothesis of one canary" in out
    assert "paper, 99% confidence, alpha 0.01 a bound" in out
    assert "sigma 1, q 0.1, delta 1e-05; one release" in out
    assert found["assumption"] in out
    assert f"endless trials at this threshold would show {found['rule']:.3f}" in out
    assert f"needs {found['trials_needed']:,} trials" in out


def test_the_document_holds_the_known_figures(cli, golden, shape):
    document = cli("ceiling", "--json", "--canaries", "1", "--alpha", "0.01").document
    assert document["expected"] == pytest.approx(0.990, abs=5e-4)
    assert document["rule"] == pytest.approx(1.352, abs=5e-4)
    assert document["exact"] == pytest.approx(1.684544, abs=1e-6)
    assert document["trials_needed"] > document["trials"]
    golden("ceiling.json", json.dumps(shape(document), indent=1) + "\n")


def test_alpha_is_split_over_the_canaries_unless_they_are_pooled(cli):
    assert cli("ceiling", "--json", "--trials", "1e4").document["alpha_each"] == pytest.approx(0.01)
    assert cli("ceiling", "--json", "--trials", "1e4", "--method", "pooled").document["alpha_each"] == 0.05


def test_a_smaller_share_needs_fewer_trials(cli):
    half, most = (cli("ceiling", "--json", "--share", share).document["trials_needed"] for share in ("0.5", "0.9"))
    assert half < most
