"""The study of vetting sets thresholds by the rule that it states."""

import math
import runpy
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from canarybank.defend import LEVELS, Measure, Vetting
from canarybank.generate import Response

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(TOOLS))
    try:
        yield lambda name: runpy.run_path(str(TOOLS / f"{name}.py"))
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def study(tools):
    return tools("vet_study")


def test_an_exponential_tail_gives_the_quantile_back(study):
    places = (np.arange(20_000) + 0.5) / 20_000
    ratios = 1.5 - 0.4 * np.log(1 - places)  # from 1.5 on, exponential of mean 0.4
    for alpha in (0.1, 0.01, 0.0005):
        assert study["allowed"](ratios, alpha) == pytest.approx(1.5 - 0.4 * math.log(alpha), abs=0.01)


def test_a_bank_with_an_exponential_tail_has_ratios_of_about_one(study):
    values = -np.log(1 - (np.arange(4096) + 0.5) / 4096) - math.log(5)
    ratios = study["level_ratios"](values)
    assert list(ratios) == list(LEVELS)
    for j, ratio in ratios.items():
        assert ratio == pytest.approx(math.log(0.2 * 4096 / (j - 0.5)) / math.log(0.2 * 4096 / j), rel=1e-3)


def test_fewer_banks_than_alpha_are_blamed_by_the_thresholds_that_they_set(study):
    """Half of a measure's share is for one entry, so of 400 honest banks its two parts together blame about alpha."""
    rng = np.random.default_rng(0)
    banks = [{Measure.SURPRISE: rng.exponential(size=2048) - math.log(5)} for _ in range(400)]
    factors = study["fit_factors"](banks)
    check = Vetting(factors, {})
    blamed = sum(
        bool(check._finding(Measure.SURPRISE, bank[Measure.SURPRISE], bank[Measure.SURPRISE]).levels) for bank in banks
    )
    assert blamed <= 6  # Binomial(400, 0.002) exceeds 6 once in 5e4 draws
    assert factors[Measure.SURPRISE][0] > factors[Measure.SURPRISE][-1] > 1


def test_the_spread_of_equal_banks_is_their_own_quantile(study):
    values = np.arange(101.0)  # 10% quantile 10, median 50
    assert study["fit_spreads"]([values] * 7) == pytest.approx((45 / 40, 1, 30 / 40, 15 / 40))


def test_no_text_of_a_bank_that_judges_stands_in_another_bank(tools):
    """Of what comes with canarybank: built-in users, grammars and rewordings."""
    banks = tools("vet_banks")
    found = [*banks["_built_in"](), *banks["_reworded"]()]
    judged = {bank.name: set(bank.texts) for bank in found if bank.role == "judged"}
    setting = set().union(*(bank.texts for bank in found if bank.role == "set"))
    assert len(judged) >= 10
    assert not any(texts & setting for name, texts in judged.items() if name.startswith("chitchat"))
    assert all(len(texts & setting) < 0.02 * len(texts) for texts in judged.values())
    public = set(found[0].public)
    assert not any(set(bank.texts) & public for bank in found if bank.name.startswith("chitchat"))


def test_the_record_names_every_bank_once_and_by_its_hash():
    import json
    from importlib import resources

    record = json.loads((resources.files("canarybank.defend") / "data" / "vetting.json").read_text("utf-8"))
    roles = [role for role, *_ in record["banks"]]
    assert len({(name, digest) for _, name, _, digest in record["banks"]}) == len(roles)
    assert all(each["banks"] == roles.count("judged") for each in record["judged"].values())
    assert all(len(record["alarmed"][name]) == each["alarms"] for name, each in record["judged"].items())


class Writer:
    """Answers with sentences of its own, each request another one."""

    name = fingerprint = "writer"
    server = None

    def generate(self, requests):
        for number, request in enumerate(requests):
            rng = np.random.default_rng(request.seed)
            words = rng.choice(["the", "river", "was", "old", "and", "my", "coat", "is", "blue", "we", "ran"], 9)
            yield number, Response(f"{request.opening} {' '.join(words)} {request.seed % 997}.")


def test_every_recipe_writes_a_bank_of_its_size(tools):
    written = tools("write_banks")
    recipes = tomllib.loads(written["RECIPES"].read_text("utf-8"))
    few = [dict(each, size=40) for each in recipes["banks"] if each["name"] in {"email-1", "chat-3-loose"}]
    few.append({"role": "set", "name": "later", "of": "email-1", "how": "continue-list", "size": 12})
    few.append({"role": "set", "name": "other", "of": "email-1", "how": "paraphrase", "size": 12})
    made = list(written["write_banks"](Writer(), {**recipes, "banks": few}, "set"))
    assert [(each["name"], len(each["texts"])) for each in made] == [
        ("chat-3-loose", 40),
        ("email-1", 40),
        ("later", 12),
        ("other", 12),
    ]
    prompts = {each.get("prompt") for each in recipes["banks"]}
    assert set(recipes["prompts"]) <= prompts
