import pytest

from canarybank.config import PRESETS, resolve
from canarybank.generate import load_prompt


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_configuration(name):
    assert resolve(preset=name).config


@pytest.mark.parametrize("name", ["paper-yelp", "paper-sentiment140"])
def test_the_papers_presets_hold_its_settings(name):
    config = resolve(preset=name).config
    sizes = config.cohorts
    assert (sizes.auxiliary, sizes.calibration, sizes.evaluation, sizes.canaries) == (500, 500, 1000, 5)
    assert (config.mechanism.sigma, config.mechanism.q, config.mechanism.delta, config.mechanism.k) == (1, 0.1, 1e-5, 5)
    assert (config.bank.size, config.attack.probes, config.attack.pool) == (8192, 64, 512)
    assert (config.audit.trials, config.audit.method, config.audit.accounted) == (1_000_000, "paper", 1.695)
    assert set(config.bank.labels) <= set(load_prompt(config.bank.prompt).labels)


def test_the_papers_rounds():
    config = resolve(preset="paper-rounds").config
    sizes = config.cohorts
    assert (sizes.auxiliary, sizes.calibration, sizes.evaluation) == (500, 500, 8000)
    assert (config.mechanism.sigma, config.mechanism.q, config.mechanism.delta, config.mechanism.k) == (
        1.1088,
        0.1,
        1e-5,
        5,
    )
    assert (config.evolve.rounds, config.evolve.share, config.audit.trials) == (6, 0.05, 5_000_000)
    assert (config.bank.size, config.attack.probes, config.attack.pool) == (8192, 64, 512)


def test_the_embedded_preset_fixes_all_but_the_trials():
    config = resolve(preset="embedded").config
    assert config.cohorts.fixed == ("embedded",)
    assert config.generator.kind == "none"
    assert config.attack.names == ("all",)
