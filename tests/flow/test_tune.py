"""Advice on an evolution: from declared numbers and public people alone, and it keeps to its budget."""

import json
import math
import os
import random
import re
import sys
from pathlib import Path

import pytest
from scripted_answers import WRITER, answering

from canarybank.config import resolve
from canarybank.errors import ConfigError
from canarybank.flow import Tried, mechanism_of, outlook, plan, tune
from canarybank.mechanism import Mechanism, epsilon

WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "su", "re") for b in ("ton", "bel", "dar", "fin", "gus", "hot")]
PEOPLE, RECORDS, ENTRIES = 60, 8, 300
TRIED = Tried(sizes=(100, 200), ks=(2, 3), qs=(0.5, 1.0), goal=0.5)
TIMES = ("voting_seconds", "generating_seconds")
_GUARDED: set[str] = set()


class OpenedError(Exception):
    """A guarded file was opened."""


def _guard(event, arguments):
    if _GUARDED and event in {"open", "os.open"} and str(arguments[0]) in _GUARDED:
        raise OpenedError(str(arguments[0]))


sys.addaudithook(_guard)


@pytest.fixture
def guard():
    """Make files explode when they are opened."""
    yield lambda path: _GUARDED.add(str(path))
    _GUARDED.clear()


def sentences(seed, count):
    rng = random.Random(seed)  # noqa: S311, made-up texts
    favourites = [rng.sample(WORDS, 6) for _ in range(count)]
    return [" ".join(rng.choices(words, k=rng.randint(4, 8))) for words in favourites]


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """Write public people and a public bank."""
    folder = tmp_path_factory.mktemp("public")
    rng = random.Random(1)  # noqa: S311, made-up texts
    rows = ["user,text"]
    for person in range(PEOPLE):
        words = rng.sample(WORDS, 8)
        rows += [f"p{person},{' '.join(rng.choices(words, k=6))}" for _ in range(RECORDS)]
    (folder / "people.csv").write_text("\n".join(rows) + "\n")
    (folder / "bank.txt").write_text("\n".join(dict.fromkeys(sentences(2, ENTRIES))) + "\n")
    return folder


@pytest.fixture(scope="module")
def flags(public):
    return {
        "users.source": str(public / "nobody.csv"),
        "users.cap": RECORDS,
        "bank.source": str(public / "bank.txt"),
        "encoder.name": "hashing",
        "evolve.population": 400,
        "evolve.epsilon": 4.0,
        "evolve.rounds": 1,
    }


@pytest.fixture(scope="module")
def stand_ins(public):
    return str(public / "people.csv")


@pytest.fixture(scope="module")
def advice(flags, stand_ins):
    return tune(resolve(flags=flags), TRIED, stand_ins=stand_ins)


def timeless(made):
    """Return a result without what a clock decides."""
    return json.loads(
        json.dumps(made.model_dump(mode="json")), object_hook=lambda d: {k: v for k, v in d.items() if k not in TIMES}
    )


# --- nothing private --------------------------------------------------------------------------------------------------


def test_private_users_are_never_opened(advice, flags, stand_ins, tmp_path, guard):
    """A file that explodes when it is opened, an absent one and a pipe give the same advice, to the last figure."""
    private, pipe = tmp_path / "users.csv", tmp_path / "pipe.csv"
    private.write_text("user,text\nann,my secret is 1234\n")
    os.mkfifo(pipe)
    guard(private)
    for source in (private, pipe):
        told = resolve(flags={**flags, "users.source": str(source)})
        assert timeless(tune(told, TRIED, stand_ins=stand_ins)) == timeless(advice)
        assert outlook(told, stand_ins=stand_ins).people == 400
    with pytest.raises(OpenedError):  # the guard works: an audit's plan reads users
        plan(resolve(flags={**flags, "users.source": str(private)}), tmp_path / "run")


def test_the_private_file_is_refused_as_a_stand_in_by_whatever_path(flags, stand_ins, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(stand_ins)
    told = resolve(flags={**flags, "users.source": stand_ins})
    for path in (stand_ins, str(link)):
        with pytest.raises(ConfigError, match="file of users itself"):
            tune(told, TRIED, stand_ins=path)


# --- the budget -------------------------------------------------------------------------------------------------------


def test_every_option_spends_the_budget_and_no_more(advice):
    for option in (advice.recommended, *advice.by_bank, *advice.by_k, *advice.by_q):
        spent = epsilon(Mechanism(k=option.k, clip=option.clip, sigma=option.sigma, q=option.q))
        assert 0.999 * 4.0 < spent <= 4.0
    assert advice.epsilon <= advice.budget == 4.0


def test_rounds_share_the_budget(flags, stand_ins):
    """Where everybody takes part, three Gaussian releases are one with a third of the variance: a closed form."""
    told = {**flags, "evolve.rounds": 3, "mechanism.q": 1.0}
    made = tune(resolve(flags=told), Tried(sizes=(), ks=(2,), qs=(1.0,)), stand_ins=stand_ins)
    spent = epsilon(Mechanism(sigma=made.recommended.sigma / 3**0.5, q=1.0))
    assert spent == pytest.approx(made.epsilon, rel=1e-5)
    assert 0.999 * 4.0 < made.epsilon <= 4.0


@pytest.mark.parametrize("capped", [{}, {"mechanism.entry_cap": 0.06}, {"evolve.keeper": "votes"}])
def test_what_is_pasted_is_what_was_recommended(flags, stand_ins, tmp_path, capped):
    """The fragment is a configuration: a run of it has the recommended mechanism, and its outlook the same figures."""
    given = {**flags, **capped}
    advice = tune(resolve(flags=given), TRIED, stand_ins=stand_ins)
    (tmp_path / "pasted.toml").write_text(advice.toml)
    told = resolve(tmp_path / "pasted.toml", {key: value for key, value in given.items() if key != "evolve.epsilon"})
    best, mechanism = advice.recommended, mechanism_of(told.config)
    assert (mechanism.k, mechanism.clip, mechanism.q, mechanism.sigma) == (best.k, best.clip, best.q, best.sigma)
    assert told.config.bank.size == best.bank
    seen = outlook(told, stand_ins=stand_ins)
    assert seen.option.survival == best.survival
    assert (seen.option.tokens, seen.option.most_tokens) == (best.tokens, best.most_tokens)
    assert seen.option.keeper == best.keeper == given.get("evolve.keeper", "top")
    assert seen.tested == advice.tested
    assert (seen.epsilon, seen.affordable) == (advice.epsilon, 1)
    assert seen.norms == advice.norms


# --- what is recommended ----------------------------------------------------------------------------------------------


def test_the_largest_bank_that_reaches_the_goal_is_recommended(advice, flags, stand_ins):
    sizes = [option.bank for option in advice.by_bank]
    assert sizes == [100, 200, len((Path(flags["bank.source"])).read_text().splitlines())]
    assert advice.reached == (advice.recommended.survival >= 0.5)
    reaching = [option.bank for option in advice.by_bank if option.survival >= 0.5]
    assert advice.recommended.bank == max(reaching)
    strict = tune(resolve(flags=flags), Tried((100, 200), (2,), (1.0,), goal=1.0), stand_ins=stand_ins)
    assert not strict.reached
    assert strict.recommended.survival == max(option.survival for option in strict.by_bank)
    assert "No setting that was tried reaches" in " ".join(strict.notes)


def test_a_bank_size_that_is_set_stays(flags, stand_ins):
    made = tune(resolve(flags={**flags, "bank.size": 150}), TRIED, stand_ins=stand_ins)
    assert [option.bank for option in made.by_bank] == [150]
    assert made.recommended.top == math.floor(0.05 * 150)


def test_a_clip_above_all_norms_is_called_by_its_exact_factor(flags, stand_ins):
    seen = outlook(resolve(flags={**flags, "mechanism.clip": 0.9}), stand_ins=stand_ins)
    assert seen.option.spare_noise == 0.9 / seen.norms.largest > 1
    assert f"{seen.option.spare_noise:.3g} times as large" in " ".join(seen.notes)
    assert seen.option.clipped == 0
    between = (seen.norms.high + seen.norms.largest) / 2
    wide = outlook(resolve(flags={**flags, "mechanism.clip": between}), stand_ins=stand_ins)
    assert f"its noise is {between / seen.norms.high:.3g} times smaller" in " ".join(wide.notes)
    assert f"would be {between / seen.norms.median:.3g} times smaller" in " ".join(wide.notes)
    close = outlook(resolve(flags={**flags, "mechanism.clip": seen.norms.median}), stand_ins=stand_ins)
    assert close.option.spare_noise == 1
    assert not any("clip" in note for note in close.notes)
    assert 0.3 < close.option.clipped <= 0.5


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_requests_are_those_of_every_round_and_of_a_bank_that_is_written(flags, stand_ins):
    """Three rounds ask for what did not stay, three quarters of answers pass; a generated bank is asked for too."""
    told = {**flags, "bank.size": 200, "evolve.rounds": 3, "evolve.share": "0.25,0.1", "mechanism.sigma": 1.0}
    del told["evolve.epsilon"]
    new = [200 - 50, 200 - 20, 200 - 20]
    assert outlook(resolve(flags=told), stand_ins=stand_ins).option.requests == round(sum(new) / 0.75)
    written = {**told, "bank.source": "generate", "bank.labels": "food,travel"}
    seen = outlook(resolve(flags=written), stand_ins=stand_ins)
    assert seen.option.requests == round((200 + sum(new)) / 0.75)
    assert "embedded bank stands in" in " ".join(seen.notes)


@pytest.mark.parametrize("carry", [True, False])
def test_a_keeper_that_keeps_fewer_asks_for_more(flags, stand_ins, carry):
    """Banks keep their size: where one entry stays, 199 are generated; where none is carried on, 200 in any case."""
    told = {**flags, "bank.size": 200, "evolve.rounds": 3, "evolve.share": "0.25,0.1", "mechanism.sigma": 1.0}
    told |= {"evolve.carry": carry, "generator.completion_price": 1.0}
    del told["evolve.epsilon"]

    def option(**changes):
        return outlook(resolve(flags={**told, **changes}), stand_ins=stand_ins).option

    usual = option()
    assert (usual.kept, usual.most_requests, usual.most_tokens) == (50, usual.requests, usual.tokens)
    one = option(**{"evolve.keeper": "threshold", "evolve.threshold": 1000.0})
    assert (one.kept, one.keeper) == (1, "threshold")
    assert one.most_requests == one.requests == round(3 * (199 if carry else 200) / 0.75)
    some = option(**{"evolve.keeper": "threshold", "evolve.threshold": 2.0})
    share = some.kept / 50
    assert 1 / 50 < share < 1
    wanted = 600 - carry * share * (50 + 20 + 20)
    assert some.requests == round(wanted / 0.75)
    assert some.most_requests == one.most_requests
    if carry:
        assert usual.requests < some.requests < some.most_requests
        assert usual.tokens < some.tokens < some.most_tokens
        assert usual.cost < some.cost < some.most_cost


def test_prices_and_speeds_turn_tokens_into_money_and_time(flags, stand_ins):
    free = outlook(resolve(flags=flags), stand_ins=stand_ins).option
    assert (free.cost, free.generating_seconds) == (None, None)
    priced = {**flags, "generator.prompt_price": 2.0, "generator.completion_price": 2.0}
    paid = outlook(resolve(flags=priced), stand_ins=stand_ins, tokens_per_second=100.0).option
    assert paid.cost == pytest.approx(free.tokens * 2.0 / 1e6, rel=1e-4)
    answers = (
        outlook(resolve(flags={**priced, "generator.prompt_price": 0.0}), stand_ins=stand_ins).option.cost * 1e6 / 2
    )
    assert paid.generating_seconds == pytest.approx(answers / 100.0)
    assert 0 < answers < free.tokens


@pytest.mark.parametrize("feedback", ["paraphrase", "in-context:0.5,vary:0.5", "blanks", "fresh"])
def test_every_feedback_has_a_cost(flags, stand_ins, feedback):
    seen = outlook(resolve(flags={**flags, "evolve.feedback": feedback}), stand_ins=stand_ins)
    assert seen.option.tokens > 20 * seen.option.requests


def test_a_generator_is_timed_on_public_texts_only(flags, stand_ins):
    told = resolve(flags={**flags, "generator.kind": WRITER})
    with answering(lambda _: "a text", "timed") as writer:
        made = tune(told, Tried((100,), (2,), (1.0,)), stand_ins=stand_ins, measure=True)
        assert len(writer.asked) == 9
        assert made.recommended.generating_seconds > 0
        assert any("requests a second" in each.what for each in made.assumptions)
    with pytest.raises(ConfigError, match=r"set generator\.kind"):
        tune(resolve(flags=flags), Tried((100,), (2,), (1.0,)), stand_ins=stand_ins, measure=True)


# --- whom it is about -------------------------------------------------------------------------------------------------


def test_the_survival_is_that_of_the_configured_keeper(advice, flags, stand_ins):
    assert advice.recommended.keeper == advice.configured.keeper == "top"
    made = tune(resolve(flags={**flags, "evolve.keeper": "votes"}), TRIED, stand_ins=stand_ins)
    for option in (made.recommended, made.configured, *made.by_bank, *made.by_k, *made.by_q):
        assert option.keeper == "votes"
        assert option.error > 0
    assert made.configured.survival < advice.configured.survival
    assert "simulated with the keeper votes" in made.tested
    assert "the keeper top alone" in made.tested
    assert any("the keeper votes keeps" in each.what for each in made.assumptions)


def test_a_keeper_that_fails_is_named_and_top_stands_in(advice, flags, stand_ins, tmp_path, monkeypatch):
    (tmp_path / "failing_rules.py").write_text(
        "class Late:\n    def __call__(self, choice):\n        raise ValueError('no more')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    told = resolve(flags={**flags, "evolve.keeper": "failing_rules:Late"})
    for made, option in (
        (outlook(told, stand_ins=stand_ins), "option"),
        (tune(told, TRIED, stand_ins=stand_ins), "configured"),
    ):
        notes = " ".join(made.notes)
        assert "'failing_rules.Late' failed on simulated votes: ValueError: no more. So the survival" in notes
        assert "predicted for the keeper top" in notes
        assert getattr(made, option).keeper == "top"
        assert getattr(made, option).survival == advice.configured.survival
        assert getattr(made, option).most_requests > getattr(made, option).requests


def test_a_keeper_sees_the_labels_of_the_bank(flags, stand_ins, tmp_path, monkeypatch):
    (tmp_path / "labelled_rules.py").write_text(
        "from canarybank.evolution import Kept\n\n\nclass ByLabel:\n    def __call__(self, choice):\n"
        "        first = [choice.labels.index(each) for each in sorted(set(choice.labels))]\n"
        "        return Kept(first, [1.0] * len(first))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    told = {**flags, "bank.source": "generate", "bank.labels": "food,travel", "bank.size": 100, "evolve.share": 0.9}
    seen = outlook(resolve(flags={**told, "evolve.keeper": "labelled_rules:ByLabel"}), stand_ins=stand_ins)
    assert seen.option.keeper == "labelled_rules.ByLabel"
    assert 1 < seen.option.kept < 90


def test_the_error_is_stated_for_the_size_at_hand(advice):
    """60 stand-ins for 400 people: no test had so few for so many, and each that there is is named."""
    assert advice.tested_error is None
    assert advice.tested.startswith("not tested for 400 people with 60 stand-ins; the largest errors in tests were ")
    assert len(re.findall(r"0\.\d+ with \d", advice.tested)) > 1


def test_a_tested_size_has_its_error(flags, stand_ins):
    made = outlook(resolve(flags={**flags, "evolve.population": 300}), stand_ins=stand_ins)
    assert made.tested_error == 0.13
    assert made.tested == (
        "within 0.13 of simulated releases over other people in tests with 50 stand-ins for 300 people on three user "
        "sets, for the keeper top with a share of 0.05"
    )


# --- what it needs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evolve.population": None}, r"set evolve\.population"),
        ({"evolve.epsilon": None}, r"set evolve\.epsilon"),
        ({"mechanism.share": 0.5}, r"set mechanism\.share to 1"),
        ({"users.cap": 9}, "admit"),
    ],
)
def test_what_is_missing_is_named_with_its_key(flags, stand_ins, changes, message):
    told = {key: value for key, value in {**flags, **changes}.items() if value is not None}
    with pytest.raises(Exception, match=message):
        tune(resolve(flags=told), TRIED, stand_ins=stand_ins)


@pytest.mark.parametrize("ask", [tune, outlook])
def test_a_bank_that_nobody_could_write_is_refused_before_anything_is_read(flags, ask):
    told = resolve(flags={**flags, "bank.source": "generate"})
    with pytest.raises(ConfigError, match=r"Set bank\.labels"):
        ask(told, stand_ins="absent.csv")


def test_few_stand_ins_are_said_to_be_few(advice):
    assert "60 stand-ins are few for 400 people" in " ".join(advice.notes)


def test_each_assumption_has_a_source(advice):
    said = {each.what: each.source for each in advice.assumptions}
    assert said["400 people"] == "declared: evolve.population"
    assert any("60 people of" in source for source in said.values())
    assert all(source.strip() for source in said.values())
