"""Whole runs by every rule: sizes, folders, resumes, and what is declared."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from canarybank.errors import ConfigError, InputError, StoreError
from canarybank.evolution import (
    Evolution,
    EvolutionPlan,
    FillBlanks,
    Fresh,
    InContext,
    Keep,
    KeepAboveNoise,
    KeepByVotes,
    KeepClusters,
    KeepProjected,
    KeepTop,
    MixedFeedback,
    ParentsByVotes,
    ParentsEvenly,
    ParentsInTurn,
    Population,
    Published,
    Taking,
    Vary,
    evolve,
)
from canarybank.generate import Prompt, ScriptedGenerator

KEEPERS = (KeepTop(), KeepByVotes(), KeepAboveNoise(1.0), KeepClusters(0.5), KeepProjected())
MIXED = MixedFeedback(((InContext(high=2, low=1, parents=ParentsByVotes()), 0.5), (Vary(), 0.3), (Fresh(), 0.2)))
FEW = Taking(similarity=1.0)


def run(world, rounds=3, **more):
    return evolve(*world.arguments, rounds, **{"keep": Keep(0.25), "insecure_seed": 1, "taking": FEW} | more)


@pytest.mark.parametrize("keeper", KEEPERS, ids=lambda keeper: keeper.settings()["rule"])
def test_banks_keep_the_plans_sizes_whoever_stays_and_a_folder_holds_the_same_run(keeper, world, tmp_path):
    probes, _ = world.planted(2)
    given = {"keeper": keeper, "probes": probes, "feedback": MIXED, "keep": Keep((0.4, 0.2))}
    made = run(world, folder=tmp_path, **given)
    read, free = Evolution.load(tmp_path), run(world, **given)
    assert [len(each.population) for each in made.rounds] == [24, 24, 24]
    for loaded in (read, free):
        assert loaded.population.texts == made.population.texts
        for one, other in zip(loaded.rounds, made.rounds, strict=True):
            assert one.kept.tolist() == other.kept.tolist()
            assert one.weights.tolist() == other.weights.tolist()
    for done, after in pairwise([*(each.population for each in made.rounds), made.population]):
        assert set(done.ids) & set(after.ids)
    for done, limit in zip(made.rounds, (12, 6, 6), strict=True):
        assert 1 <= len(done.kept) <= limit  # 40% and 20% of 30 entries
    stored = sorted(path.parent.name for path in tmp_path.glob("rounds/*/kept.json"))
    assert stored == ([] if keeper == KeepTop() else ["000", "001", "002"])


def test_where_a_keeper_keeps_fewer_more_candidates_are_new(world):
    made = run(world, keeper=KeepAboveNoise(50.0))
    assert [len(each.kept) for each in made.rounds] == [1, 1, 1]
    assert [len(each.population) for each in made.rounds] == [24, 24, 24]
    assert len(made.population) == 24


def test_a_run_that_carries_nothing_on_has_new_candidates_alone(world):
    made = run(world, keep=Keep(1.0), keeper=KeepAboveNoise(0.0), carry=False, feedback=Vary(parents=ParentsByVotes()))
    populations = [*(each.population for each in made.rounds), made.population]
    for number, (done, after) in enumerate(pairwise(populations)):
        assert not set(done.ids) & set(after.ids)
        assert len(after) == 24
        assert {each.born for each in after.candidates} == {number + 1}
        kept = {done.ids[i] for i in made.rounds[number].kept_candidates}
        assert {parent for each in after.candidates for parent in each.parents} <= kept


def test_a_child_may_resemble_a_parent_that_does_not_stay(world):
    """Generators that say the parent again: refused beside it, and welcome in its place."""
    texts = [f"{word} one two three four five." for word in "abcdefghijklmnopqrstuvwx"]
    prompt = Prompt("mine", "{text}")
    given = (world.users, texts, world.mechanism, world.encoder, ScriptedGenerator(lambda asked: asked.prompt), 1)
    settings = {"keep": Keep(1.0), "insecure_seed": 0, "taking": FEW, "feedback": Vary(prompt, parents=ParentsInTurn())}
    made = evolve(*given, **settings, carry=False)
    assert sorted(made.population.texts) == sorted(texts)
    with pytest.raises(Exception, match="rejected"):
        evolve(*given, **{**settings, "keep": Keep(0.5)})


def test_a_temperature_by_round_stands_in_place_of_the_prompts_own(world):
    seen = []

    def answer(asked):
        seen.append(asked.temperature)
        return world.generator._script(asked)

    given = (*world.arguments[:4], ScriptedGenerator(answer), 3)
    evolve(*given, keep=Keep(0.5), insecure_seed=0, taking=FEW, temperature=(1.3, 0.4))
    assert seen == [1.3] * 12 + [0.4] * 24
    seen.clear()
    evolve(*given, keep=Keep(0.5), insecure_seed=0, taking=FEW)
    assert set(seen) == {0.7, 0.8, 0.9, 1.0}


def declared(world, **more):
    first = Published.of(Population.start(world.start, world.encoder.encode(world.start)), None)
    plan = EvolutionPlan(world.mechanism, 2, **more)
    return json.loads(json.dumps(plan.declaration(first, world.encoder, world.generator)))


def test_defaults_are_declared_as_before_there_were_rules(world):
    assert set(declared(world)) == {
        *("version", "mechanism", "rounds", "new", "cap", "budget", "seed", "insecure_seed", "keep", "feedback"),
        *("taking", "encoder", "generator", "first_bank", "noise", "account"),
    }
    assert declared(world)["keep"] == {"share": 0.05, "count": None}
    assert set(declared(world)["feedback"]) == {"rule", "high", "low", "kind", "prompt"}


def test_what_is_not_the_default_is_declared(world):
    found = declared(world, keeper=KeepClusters(1.5), carry=False, temperature=(1.0, 0.5), keep=Keep((0.5, 0.1)))
    assert found["keeper"] == {"rule": "clusters", "threshold": 1.5}
    assert found["carry"] is False
    assert found["temperature"] == [1.0, 0.5]
    assert found["keep"]["share"] == [0.5, 0.1]


@pytest.mark.parametrize(
    "changed",
    [
        {"keeper": KeepByVotes()},
        {"carry": False},
        {"temperature": 0.5},
        {"keep": Keep((0.25, 0.5))},
        {"feedback": MIXED},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_resume_by_another_rule_is_refused(changed, world, tmp_path):
    run(world, 1, folder=tmp_path)
    with pytest.raises(ConfigError, match=next(iter(changed))):
        run(world, 1, folder=tmp_path, **changed)


class Unusable:
    """A keeper that keeps nobody."""

    def __call__(self, choice):
        return KeepTop()(replace(choice, size=0))


@pytest.mark.parametrize(
    ("broken", "wrong"),
    [
        ({"feedback": InContext(prompt=Prompt("p", "{record}"))}, "field {record}"),
        ({"feedback": MixedFeedback(((InContext(), 0.999), (Vary(Prompt("p", "{mood}")), 0.001)))}, "field {mood}"),
        ({"feedback": FillBlanks(Prompt("p", "{text}"))}, "field {text}"),
        ({"keeper": Unusable()}, "0 candidates cannot stay"),
        ({"feedback": Vary(parents=lambda *_: [99])}, r"returned \[99\]; return 1 to 1 different"),
        ({"feedback": InContext(parents=lambda voted, *_: [*voted.kept, 0])}, "return 1 to 3 different"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_before_anything_is_spent(broken, wrong, world, tmp_path):
    with pytest.raises(InputError, match=wrong):
        run(world, folder=tmp_path, insecure_seed=None, **broken)
    assert not (tmp_path / "ledger.log").exists()


class Choosy:
    """A rule that fails on some votes, as keeper, parent rule and feedback; it keeps and asks as our own do."""

    def __init__(self, fails):
        self.fails = fails

    def __call__(self, given, *more):
        if self.fails(given.votes):
            raise ValueError("these votes are not for me.")
        if not more:
            return KeepTop()(given)
        return InContext()(given, *more) if len(more) == 2 else ParentsInTurn()(given, *more)


FAILING = {
    "noise": lambda votes: 0 < (votes > 0).mean() < 1 < len(set(votes)) - 1,
    "all negative": lambda votes: (votes < 0).all(),
    "one large": lambda votes: votes.max() > 100,
}
PLACES = {
    "keeper": lambda rule: {"keeper": rule},
    "parent rule": lambda rule: {"feedback": Vary(parents=rule)},
    "feedback": lambda rule: {"feedback": MixedFeedback(((InContext(), 0.9), (rule, 0.1)))},
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("votes", FAILING)
def test_rules_are_rehearsed_on_every_kind_of_votes_before_anything_is_spent(kind, votes, world, tmp_path):
    with pytest.raises(InputError, match=rf"^The {kind} '.*Choosy' raised ValueError: these votes are not for me\. It"):
        run(world, folder=tmp_path, **PLACES[kind](Choosy(FAILING[votes])))
    assert not (tmp_path / "ledger.log").exists()


@pytest.mark.parametrize("kind", PLACES)
def test_a_rule_that_fails_after_a_release_is_named_and_its_correction_uses_that_release(kind, world, tmp_path):
    calls = []  # the rehearsal makes four
    late = PLACES[kind](Choosy(lambda votes: calls.append(votes) or len(calls) > 4))
    with pytest.raises(InputError, match=rf"The {kind} .* correct its code and run the same command again"):
        run(world, 2, folder=tmp_path, **late)
    before = (tmp_path / "rounds/000/release.insecure.npy").read_bytes()
    made = run(world, 2, folder=tmp_path, **PLACES[kind](Choosy(lambda _: False)))
    assert (tmp_path / "rounds/000/release.insecure.npy").read_bytes() == before
    assert (len(made.rounds), made.spent.releases) == (2, 2)


def test_a_feedback_that_asks_nothing_is_refused_by_name(world):
    with pytest.raises(InputError, match=r"The feedback '.*' returned a NoneType; return a canarybank.evolution.Ask"):
        run(world, feedback=lambda *_: None)


def test_an_error_of_our_own_rule_stays_what_it_is(world, monkeypatch):
    monkeypatch.setattr(KeepTop, "__call__", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(world)


def test_who_stayed_is_refused_where_its_file_was_altered(world, tmp_path):
    run(world, 1, folder=tmp_path, keeper=KeepByVotes())
    path = tmp_path / "rounds/000/kept.json"
    whole = path.read_text()
    path.write_text(whole.replace('"round":0', '"round":1'))
    with pytest.raises(StoreError):
        Evolution.load(tmp_path)
    path.unlink()
    assert Evolution.load(tmp_path).rounds == ()  # a keeper that a folder names is not imported
    resumed = run(world, 1, folder=tmp_path, keeper=KeepByVotes())
    assert len(resumed.rounds) == 1


def test_the_selection_of_dpsda_is_a_matter_of_settings(world):
    """Every next candidate is a variation of one drawn by its votes above a threshold, with replacement."""
    made = run(world, 1, keep=Keep(1.0), keeper=KeepAboveNoise(0.5), carry=False, new=2000,
               feedback=Vary(Prompt("p", "{text}"), parents=ParentsByVotes()))  # fmt: skip
    (done,) = made.rounds
    above = np.maximum(done.votes - 0.5 * world.mechanism.noise, 0)
    children = np.array(
        [sum(each.parents == (name,) for each in made.population.candidates) for name in done.population.ids]
    )
    expected = 2000 * above / above.sum()
    # Multinomial counts: a deviation is at most sqrt(expected), and 5 of them are passed with probability 2e-5 in all.
    assert (abs(children - expected) <= 5 * np.sqrt(expected) + 1e-9).all()


def test_the_selection_of_aug_pe_is_a_matter_of_settings(world):
    """The most voted stay, and each has the same number of variations beside it."""
    made = run(world, 1, keep=Keep(0.25), feedback=FillBlanks(parents=ParentsInTurn()))
    (done,) = made.rounds
    ids = [done.population.ids[i] for i in np.argsort(-done.votes, kind="stable")[:6]]
    assert list(made.population.ids[:6]) == ids
    assert [each.parents for each in made.population.candidates[6:]] == [(name,) for name in ids] * 3


def test_rules_are_values():
    assert ParentsEvenly() == ParentsEvenly()
    assert KeepClusters(1.0) == KeepClusters(1.0) != KeepClusters(2.0)
    assert replace(MIXED) == MIXED
