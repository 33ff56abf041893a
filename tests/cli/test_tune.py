from pathlib import Path

import pytest

from canarybank.config import resolve

DECLARED = (
    "--people",
    "500",
    "--records",
    "8",
    "--epsilon",
    "4",
    "--rounds",
    "1",
    "--q",
    "0.5",
    "--q",
    "1",
    "--k",
    "2",
)


@pytest.fixture
def asked(own, world):
    """Return the words that ask for advice from the public file, where the private one is not there."""
    return (own, "--users.source", "nobody.csv", "--stand-ins", world / "users.csv", "--quiet", *DECLARED)


def test_advice_for_people_says_every_assumption_and_ends_with_what_to_paste(cli, asked, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    made, out = cli("tune", *asked, "--json").document, cli("tune", *asked).out
    best = made["recommended"]
    assert "For 500 people with 8 records each, and epsilon 4 at delta 1e-05 over one round" in out
    assert f"a bank of {best['bank']:,}, k 2, clip {best['clip']:g}, q {best['q']:g}, sigma {best['sigma']:g}" in out
    assert f"About {best['survival']:.0%} of the true top" in out
    assert "(predicted for the keeper top; error not tested at this size)" in out
    assert f"{best['survival']:.0%}: {made['tested']}" in out
    for each in made["assumptions"]:
        assert each["what"] in out
        assert each["source"] in out
    for name in ("recommended", "as configured", "by bank size", "by k", "by q", "tokens", "norms", "cost"):
        assert name in out
    assert {option["q"] for option in made["by_q"]} == {0.5, 1.0}
    assert {option["k"] for option in made["by_k"]} == {2}
    assert out.rstrip().endswith(made["toml"].splitlines()[-1])


def test_the_fragment_alone_is_toml_that_a_run_takes(cli, asked):
    outcome = cli("tune", *asked, "--toml")
    assert outcome.code == 0
    Path("tuned.toml").write_text(outcome.out)
    config = resolve("tuned.toml").config
    assert config.evolve.budget == 4.0
    assert config.mechanism.k == 2


def test_what_must_be_declared_is_asked_for(cli, own):
    outcome = cli("tune", own, "--epsilon", "1")
    assert outcome.code == 2
    assert "--people" in outcome.err
    outcome = cli("tune", own, "--people", "10")
    assert outcome.code == 2
    assert "--epsilon" in outcome.err


def test_a_plan_of_an_evolution_opens_no_users_and_says_what_noise_is_bought_for_nothing(
    cli, own, world, monkeypatch, tmp_path
):
    monkeypatch.setenv("COLUMNS", "1000")
    private = ("--users.source", "nobody.csv", "--stand-ins", world / "users.csv")
    declared = ("--evolve.population", "500", "--users.cap", "8", "--evolve.rounds", "1", "--mechanism.clip", "0.95")
    words = ("plan", own, "--evolve", "--quiet", *private, *declared)
    made, out = cli(*words, "--json").document, cli(*words).out
    assert made["option"]["spare_noise"] == pytest.approx(0.95 / made["norms"]["largest"])
    assert f"the noise is {made['option']['spare_noise']:.3g} times as large as it need be" in out
    assert f"An evolution of one round spends epsilon {made['epsilon']:.4f}" in out
    assert all(each["what"] in out for each in made["assumptions"])
    fewer, more = (*words, "--evolve.keeper", "threshold", "--evolve.threshold", "8"), ("--evolve.share", "0.5")
    made, out = cli(*fewer, *more, "--json").document, cli(*fewer, *more).out
    option = made["option"]
    assert "(predicted for the keeper threshold; " in out
    assert f"up to {option['top']:,} may stay, and about {option['kept']:,.0f} do" in out
    assert f"in every round: {option['most_requests']:,} requests, {option['most_tokens']:,} tokens)" in out
    assert f"{option['survival']:.0%}: {made['tested']}" in out
    assert not (tmp_path / "runs").exists()
