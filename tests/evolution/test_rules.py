"""Parents, variations, mixtures and schedules: each against a naive twin or a law."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from canarybank.errors import InputError
from canarybank.evolution import (
    Candidate,
    EvolutionPlan,
    FillBlanks,
    Fresh,
    InContext,
    Keep,
    MixedFeedback,
    NeighbouringParents,
    ParaphraseKept,
    ParentsByVotes,
    ParentsEvenly,
    ParentsInTurn,
    Vary,
    Voted,
)
from canarybank.evolution.feedback import interleave, share_out
from canarybank.evolution.schedules import at_round
from canarybank.generate import Prompt, Response, load_prompt
from canarybank.mechanism import Mechanism
from canarybank.registry import FEEDBACKS

TEXTS = tuple(f"The {i} red cats of house number {i} sleep in the warm sun." for i in range(12))


def make(labels="aaaaaabbbbbb", kept=(3, 7, 0, 9), wanted=20, **more) -> Voted:
    candidates = tuple(Candidate(f"c{i}", TEXTS[i], label) for i, label in enumerate(labels))
    rng = np.random.default_rng(5)
    votes, vectors = rng.normal(size=len(candidates)), rng.normal(size=(len(candidates), 3)).astype(np.float32)
    weights = np.array([4.0, 3.0, 1.0, 1.0])[: len(kept)]
    return Voted(**{"round": 1, "candidates": candidates, "votes": votes, "kept": kept, "wanted": wanted}
                 | {"seed": 2, "weights": weights, "vectors": vectors, "noise": 0.1} | more)  # fmt: skip


def drawn(rule, voted, count=1, slots=None, attempts=1):
    found = []
    for slot in range(voted.wanted) if slots is None else slots:
        found += [tuple(rule(voted, slot, a, count, voted.stream("t", slot, a))) for a in range(attempts)]
    return found


def test_parents_in_turn_have_equally_many_children_of_every_label():
    voted = make(labels="aaaabbbbbbbb", kept=(3, 7, 0, 9, 5), weights=np.ones(5), wanted=30)
    seen = Counter(parent for (parent,) in drawn(ParentsInTurn(), voted))
    assert seen == {3: 5, 0: 5, 7: 7, 9: 7, 5: 6}  # of 30 slots 10 are for a
    # A rule that fills every third slot alone goes round all the same.
    some = replace(voted, slots=tuple(range(0, 30, 3)))
    seen = Counter(parent for (parent,) in drawn(ParentsInTurn(), some, slots=some.slots))
    assert seen == {3: 2, 0: 2, 7: 2, 9: 2, 5: 2}
    assert ParentsInTurn()(voted, 0, 1, 2, voted.stream()) == [0, 3]


def test_parents_by_votes_are_drawn_in_proportion_to_their_weights():
    voted = make(labels="a" * 12, wanted=9000)
    seen = Counter(parent for (parent,) in drawn(ParentsByVotes(), voted))
    # The largest deviation is 47 draws: 4.5 of them are passed with probability 3e-5 in all.
    assert all(abs(seen[i] - 1000 * weight) < 212 for i, weight in zip(voted.kept, voted.weights, strict=True))
    assert sum(seen.values()) == 9000


def test_neighbours_are_the_nearest_kept_ones_of_the_drawn_parent():
    voted = make(labels="a" * 12, kept=tuple(range(9)), weights=np.arange(9) * 1.0)
    for slot, found in enumerate(drawn(NeighbouringParents(), voted, count=4)):
        (first,) = ParentsByVotes()(voted, slot, 0, 1, voted.stream("t", slot, 0))
        distances = {i: float(np.linalg.norm(voted.vectors[i] - voted.vectors[first])) for i in voted.kept}
        assert list(found) == sorted(distances, key=lambda i: (distances[i], i))[:4]
        assert found[0] == first


@pytest.mark.parametrize("rule", [ParentsEvenly(), ParentsInTurn(), ParentsByVotes(), NeighbouringParents()])
def test_parents_have_the_slots_label_where_a_kept_candidate_has_it(rule):
    voted = make()
    for slot, found in enumerate(drawn(rule, voted, count=3)):
        label = voted.slot_label(slot)
        assert {voted.candidates[i].label for i in found} == {label}
    nobody = make(kept=(3, 0), weights=np.array([0.0, 0.0]))
    assert {i for found in drawn(rule, nobody, count=2) for i in found} == {0, 3}


def test_shares_are_rounded_by_the_largest_remainders():
    assert share_out([0.5, 0.5], 5) == (3, 2)
    assert share_out([0.425, 0.425, 0.15], 100) == (43, 42, 15)
    assert share_out([1, 2], 9) == (3, 6)
    assert share_out([0.1] * 10, 3) == (1, 1, 1, 0, 0, 0, 0, 0, 0, 0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares, slots = rng.random(rng.integers(1, 6)).round(3) + 0.001, int(rng.integers(1, 50))
        counts, total = share_out(shares.tolist(), slots), sum(Fraction(str(s)) for s in shares.tolist())
        assert sum(counts) == slots
        quotas = [Fraction(str(s)) * slots / total for s in shares.tolist()]
        assert all(abs(count - quota) < 1 for count, quota in zip(counts, quotas, strict=True))
        up = [q % 1 for c, q in zip(counts, quotas, strict=True) if c > q]
        down = [q % 1 for c, q in zip(counts, quotas, strict=True) if c < q]
        assert min(up, default=1) >= max(down, default=0)
    for bad in ([], [0.0], [-1.0, 2.0]):
        with pytest.raises(InputError, match="Shares must"):
            share_out(bad, 3)


@pytest.mark.parametrize("counts", [(10, 10), (43, 42, 15), (1, 30), (7,), (0, 4)])
def test_what_is_interleaved_is_spread_over_every_stretch(counts):
    turns, total = interleave(counts), sum(counts)
    assert Counter(turns) == {i: count for i, count in enumerate(counts) if count}
    for end in range(total + 1):
        for part, count in enumerate(counts):
            assert abs(turns[:end].count(part) - end * count / total) <= 1


def test_a_mixture_gives_every_label_its_part_of_every_rule():
    mixed = MixedFeedback(((InContext(high=2, low=0), 0.5), (Vary(), 0.25), (Fresh(), 0.25)))
    voted = make(wanted=40)
    asks = [mixed(voted, slot, 0) for slot in range(40)]
    seen = Counter((ask.label, ask.prompt_name) for ask in asks)
    assert seen == {(label, name): count for label in "ab" for name, count in
                    (("continue", 10), ("vary", 5), ("bank-label", 5))}  # fmt: skip
    # A rule's questions are those that it asks alone.
    assert asks[0].request in {rule(voted, 0, 0).request for rule in mixed.rules}
    assert len({ask.request for ask in asks}) == 40
    assert mixed.settings()["parts"][1] == {**Vary().settings(), "share": 0.25}


@pytest.mark.parametrize(("distance", "levels"), [(0.0, {"near"}), (0.5, {"middle"}), (1.0, {"far"})])
def test_how_far_a_variation_goes_is_scheduled(distance, levels):
    voted = make(wanted=60)
    found = distances(Vary(distance=distance), voted)
    assert set(found) == levels
    later = distances(Vary(distance=(0.5, distance)), replace(voted, round=7))
    assert set(later) == levels
    assert set(distances(Vary(distance=(0.5, distance)), replace(voted, round=0))) == {"middle"}


def distances(rule, voted):
    """Return, of every slot, whose phrases its question holds."""
    phrases = {name: load_prompt("vary").vary[name] for name in ("near", "middle", "far")}
    prompts = [rule(voted, slot, 0).request.prompt for slot in range(voted.wanted)]
    return [next(name for name in phrases if any(each in prompt for each in phrases[name])) for prompt in prompts]


def test_between_two_distances_each_is_drawn_so_that_the_mean_is_right():
    found = Counter(distances(Vary(distance=0.65), make(wanted=1000)))
    assert set(found) == {"middle", "far"}
    assert 230 < found["far"] < 370  # 300 with a deviation of 14.5


def test_a_variation_shows_its_one_parent_and_keeps_its_label():
    voted = make(labels="xxxxxxyyyyyy")
    for slot in range(voted.wanted):
        ask = Vary(parents=ParentsByVotes())(voted, slot, 0)
        (parent,) = (each for each in voted.candidates if each.id == ask.parents[0])
        assert parent.text in ask.request.prompt
        assert (ask.label, ask.request.label) == (parent.label, parent.label)
        assert ask.read(Response(f'{ask.request.opening}A new one." And more')).text == "A new one."


def test_a_prompt_with_some_distances_only_is_refused():
    prompt = Prompt("mine", "{text} {change}", vary={"near": ("a",), "far": ("b",)})
    with pytest.raises(InputError, match="near, far only"):
        Vary(prompt)(make(), 0, 0)
    plain = Prompt("mine", "Vary: {text} {mood}", vary={"mood": ("kindly",)})
    assert Vary(plain)(make(), 0, 0).request.prompt.endswith("kindly")


def test_words_are_blanked_with_the_probability_of_the_round_and_one_at_least():
    prompt = Prompt("mine", "{blanked}")
    voted = make(wanted=400)

    def shown(distance, round_number=1):
        rule, then = FillBlanks(prompt, distance), replace(voted, round=round_number)
        return [rule(then, slot, 0) for slot in range(voted.wanted)]

    words = [word for ask in shown(0.3) for word in ask.request.prompt.split()]
    assert 0.26 < words.count("_") / len(words) < 0.34  # 4,800 words: a deviation of .007
    assert {ask.request.prompt.split().count("_") for ask in shown(0.0)} == {1}
    assert {word for ask in shown((0.2, 0.4, 1.0), 5) for word in ask.request.prompt.split()} == {"_"}
    for ask in shown(0.5):
        (parent,) = (each.text.split() for each in voted.candidates if each.id == ask.parents[0])
        assert all(word in {"_", own} for word, own in zip(ask.request.prompt.split(), parent, strict=True))


def test_an_answer_that_still_has_a_blank_is_none():
    ask = FillBlanks()(make(), 0, 0)
    assert ask.read(Response(f'{ask.request.opening}The _ cats sleep."')).text == ""
    assert ask.read(Response(f'{ask.request.opening}The old cats sleep."')).text == "The old cats sleep."
    assert Vary()(make(), 0, 0).read(Response("a _ b")).text == "a _ b"


@pytest.mark.parametrize(
    ("text", "is_left"),
    [
        ("The _ cats sleep.", True),
        ("They sleep in the _.", True),
        ('He said (_, "_") and left.', True),
        ("___ sleep.", True),
        ("Call snake_case here.", False),
        ("So nice ^_^ today.", False),
        ("It is _really_ warm.", False),
        ("Bored -_- again.", False),
    ],
)
def test_a_blank_is_left_only_where_it_stands_as_a_word(text, is_left):
    ask = replace(FillBlanks()(make(), 0, 0), prompt="mine")
    assert ask.read(Response(text)).text == ("" if is_left else text)


def test_a_fresh_candidate_has_no_parents_and_nobodys_votes_decide_it():
    one, other = make(), make(kept=(1, 2), weights=np.array([1.0, 9.0]), votes=np.arange(12.0))
    rule = Fresh("bank-examples", examples=("A public one.", "Another one.", "A third."), shots=2)
    for slot in range(one.wanted):
        ask = rule(one, slot, 0)
        assert ask.request == rule(other, slot, 0).request
        assert ask.parents == ()
        assert ask.label == one.slot_label(slot)
        assert sum(example in ask.request.prompt for example in rule.examples) == 2


@pytest.mark.parametrize("paraphrase", [ParaphraseKept(), ParaphraseKept(parents=ParentsInTurn())])
def test_a_paraphrase_in_a_mixture_reaches_every_kept_candidate(paraphrase):
    mixed = MixedFeedback(((paraphrase, 0.5), (Fresh(), 0.5)))
    voted = make(labels="a" * 12, wanted=16)
    parents = Counter(ask.parents for slot in range(16) if (ask := mixed(voted, slot, 0)).parents)
    assert parents == {(voted.candidates[i].id,): 2 for i in voted.kept}


@pytest.mark.parametrize("name", FEEDBACKS.places)
def test_the_default_settings_of_a_rule_say_what_decides_it(name):
    rule = FEEDBACKS.find(name)
    assert rule().settings()["prompt"] == load_prompt(rule().prompt).hash
    assert rule().settings() == rule().settings()
    assert rule(prompt="bank-yelp").settings() != rule().settings()


@pytest.mark.parametrize("rule", [InContext, ParaphraseKept, Vary, FillBlanks])
def test_the_parent_rule_is_among_the_settings_and_today_s_are_unchanged(rule):
    assert rule(parents=ParentsByVotes()).settings()["parents"] == {"rule": "votes"}
    if rule in {InContext, ParaphraseKept}:
        assert "parents" not in rule().settings()


def test_a_schedule_is_one_value_for_each_round_and_the_last_repeats():
    assert [at_round((0.5, 0.2, 0.1), number) for number in range(5)] == [0.5, 0.2, 0.1, 0.1, 0.1]
    assert [at_round(0.3, number) for number in range(3)] == [0.3] * 3
    assert [Keep((0.5, 0.25)).of(100, number) for number in range(3)] == [50, 25, 25]
    plan = EvolutionPlan(Mechanism(), 3, keep=Keep((0.5, 0.25)))
    assert [plan.sizes(100, 0, number) for number in range(3)] == [(50, 50), (25, 75), (25, 75)]
    assert Keep((0.4,)) == Keep(0.4)
    assert (Vary(distance=[0.5]).distance, Vary(distance=[0.5, 1]).distance) == (0.5, (0.5, 1))


@pytest.mark.parametrize("bad", [(), (0.5, 0.0), (0.5, 1.2), float("nan")])
def test_a_schedule_of_shares_is_checked(bad):
    with pytest.raises(InputError, match="share of candidates"):
        Keep(bad)


@pytest.mark.parametrize("bad", [-0.1, 1.1, (0.5, 2.0), ()])
def test_distances_and_temperatures_are_checked(bad):
    for rule in (Vary, FillBlanks):
        with pytest.raises(InputError, match="distance"):
            rule(distance=bad)
    if bad != 1.1:
        with pytest.raises(InputError, match="temperature"):
            EvolutionPlan(Mechanism(), 1, temperature=bad if bad != (0.5, 2.0) else (0.5, 2.1))
