"""A broken evolution is refuted by its own single run, at 409 canaries and six rounds; a correct one is not.

The users are the built-in ones, with real text and their real encoder. Every round is released over one bank: what
candidates evolve to makes no difference to the probes, which stand alike in all of them.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from broken_evolutions import BROKEN, HONEST
from scripted_answers import answering

from canarybank.auditing import clopper_pearson
from canarybank.config import resolve
from canarybank.evolution import Canaries, Drawn, EvolutionPlan, Voters
from canarybank.flow import gather, run_evolution
from canarybank.flow.carried import Carried, carry_canaries
from canarybank.mechanism import Bank, Mechanism
from canarybank.run import OneRunPlant, gate, verify
from canarybank.seeds import stream
from canarybank.store import StageCache

CANARIES, ROUNDS, ENTRIES, ALPHA = 409, 6, 8192, 0.05
MECHANISM = Mechanism(q=0.1, sigma=1.0)


@dataclass(frozen=True, eq=False)
class Place:
    """What releases are drawn from, and how they are read."""

    voters: Voters
    carried: Carried
    plant: OneRunPlant

    def certificate(self, make, seed):
        """Return what one run shows that draws by some releaser."""
        releaser = make(self.voters, EvolutionPlan(MECHANISM, ROUNDS, insecure_seed=seed))
        drawn = [Drawn.of(releaser.release(number, self.carried.planted)) for number in range(ROUNDS)]
        values = np.array([each.histogram[self.carried.reading.positions] for each in drawn])
        return self.plant.judged(values, np.column_stack([each.took for each in drawn]))


@cache
def place():
    """Plant the canaries in a bank of the embedded texts, and of halves of them put together."""
    flags = {"one_run.share": 0.25, "evolve.audit_one_run": True, "evolve.rounds": ROUNDS, "audit.alpha": ALPHA}
    config = resolve(preset="embedded", flags=flags).config
    inputs, rng = gather(config, StageCache(), None), stream(0, "bank")
    texts = tuple(inputs.candidates.texts)
    found = dict.fromkeys(texts)
    while len(found) < ENTRIES:
        one, other = (texts[each].split() for each in rng.integers(len(texts), size=2))
        found[" ".join([*one[: len(one) // 2], *other[len(other) // 2 :]])] = None
    chosen = tuple(found)[:ENTRIES]
    carried = carry_canaries(config, Bank(inputs.encoder.encode(chosen), chosen), MECHANISM, inputs.encoder)
    everybody = np.ones(len(carried.many), dtype=np.bool_)
    facts = {"system": "", "settings_hash": "", "seed": None, "style": "nonce", "bank_size": ENTRIES, "bank_hash": ""}
    plant = OneRunPlant.of(carried.declared, carried.reading, everybody, {}, votes_taken=0.0, **facts)
    canaries = carried.canaries(plant)
    assert len(canaries) == CANARIES
    return Place(Voters(inputs.cohorts.evaluation.users, 16, canaries), carried, plant)


def refuted(make, seeds):
    return sum(place().certificate(make, seed).refuted for seed in seeds)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_evolution_is_refuted_by_its_own_single_run(name, count):
    # Its power says so: noise divided by 1.14 or q multiplied by 1.15 is refuted half of the time, and these are worse.
    for seed in range(3):
        found = place().certificate(BROKEN[name], seed)
        assert found.refuted, seed
        (shown,) = found.shown
        by_rate = shown.rate > MECHANISM.q
        assert by_rate == (name == "q ignored")
        between, within = (each.lower > place().plant.declaration.limit for each in shown.shifts)
        assert (between, within) == {
            "sigma halved": (True, True),
            "q ignored": (False, False),
            "clip skipped": (True, True),
            "noise reused": (False, True),
        }[name]
    count("broken evolutions of one run", refuted=3)


def test_a_correct_evolution_is_refuted_no_more_often_than_its_alpha(count):
    # At alpha 5%, more than 5 of 12 have a chance of 1e-5; seeds are fixed.
    alarms = refuted(HONEST, range(12))
    assert alarms <= 5
    count("correct evolutions of one run", made=12, refuted=alarms)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_rate_of_false_alarms_over_many_runs(count):
    runs = 400
    alarms = refuted(HONEST, range(1000, 1000 + runs))
    assert clopper_pearson(alarms, runs, 1e-4)[0] <= ALPHA
    count("correct evolutions of one run", made=runs, refuted=alarms)


def test_its_power_says_what_it_can_refute():
    (power,) = place().plant.declaration.power
    assert "409 canaries" in power
    assert "would refute noise divided by 1.14 or q multiplied by 1.15" in power


def test_coins_of_an_auditor_who_leaves_canaries_out_leave_them_out_of_the_votes():
    here = place()
    chosen = np.arange(CANARIES) % 2 == 0
    some = Voters(here.voters.users, 16, Canaries(here.voters.canaries.users, chosen))
    drawn = some.simulate(here.carried.planted, Mechanism(q=1.0, sigma=0.01), np.random.default_rng(0))
    scores = here.carried.reading.scores(drawn.histogram)
    assert np.array_equal(drawn.took, chosen)
    assert scores[chosen].min() > scores[~chosen].max()


# --- whole evolutions, from users to gate ----------------------------------------------------------------------------

SMALL = {
    "encoder.name": "hashing",
    "mechanism.q": 0.1,
    "bank.size": 2400,
    "generator.kind": "scripted_answers:write",
    "evolve.rounds": ROUNDS,
    "evolve.keep": 200,
    "evolve.near": 1,
    "evolve.insecure_seed": 5,
    "evolve.audit_one_run": True,
    "one_run.canaries": CANARIES,
    "run.workers": 1,
}
WORDS = (
    "river",
    "stone",
    "cloud",
    "paper",
    "song",
    "yard",
    "door",
    "cup",
    "coat",
    "way",
    "hill",
    "lamp",
    "boat",
    "key",
)


def sentence(seed):
    return f"I saw the {' '.join(WORDS[(seed // 14**i) % 14] for i in range(6))} today."


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    rows = [f"u{i},{sentence(7919 * (5 * i + j))}" for i in range(150) for j in range(5)]
    (folder / "users.csv").write_text("\n".join(["user,text", *rows]) + "\n")
    texts = dict.fromkeys(sentence(104_729 * i + 1) for i in range(3000))
    (folder / "bank.txt").write_text("\n".join(list(texts)[:2400]) + "\n")
    return SMALL | {"users.source": str(folder / "users.csv"), "bank.source": str(folder / "bank.txt")}


@pytest.mark.parametrize("name", [None, *BROKEN])
def test_a_whole_run_ends_with_its_own_verdict_and_the_gate_follows_it(name, small, tmp_path):
    with answering(lambda request: sentence(request.seed)):
        run = run_evolution(resolve(flags=small), tmp_path / "run", releaser=HONEST if name is None else BROKEN[name])
    found = run.results.evolution.certificate
    assert found.refuted == (name is not None)
    assert found.canaries == CANARIES
    assert found.claim.rounds == ROUNDS
    assert found.claim.epsilon == run.results.epsilon
    run.seal()
    assert verify(run.folder).findings == ()
    outcome = gate(run.folder, run.results.epsilon + 0.01)
    assert outcome.ok == (name is None)
    if name is None:
        assert "would refute noise divided by" in outcome.statement
    else:
        # The claimed mechanism is refuted, so no epsilon that was computed for it holds; a large one neither.
        assert not gate(run.folder, 1e6).ok
