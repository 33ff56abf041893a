"""Figures of a run, and a run that gets better.

Topics stand side by side on an arc. Users write about topics 8 to 13; the first population knows 0 to 5 only. The
scripted generator moves a text to a neighbouring topic, either way, so new ground is reached only by way of votes: the
kept candidates are those nearest to the users, and every round their offspring stand one topic further. Recall,
the share of the users' text that lies among candidates, must therefore rise from nothing as long as votes decide.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from canarybank.errors import CohortError, InputError
from canarybank.evolution import (
    NOT_PRIVATE,
    Ask,
    Evolution,
    Keep,
    Population,
    Probes,
    Reference,
    Utility,
    Voted,
    audit_cost,
    evolve,
    hold_out,
    require_apart,
    utility,
)
from canarybank.generate import Request, ScriptedGenerator
from canarybank.measure import Mauve, halves, precision_recall
from canarybank.mechanism import Mechanism
from canarybank.users import Auxiliary, Calibration, Cohorts, Evaluation, Users

TOPICS = tuple(f"{a}{b}" for a in ("bren", "calo", "dimu", "fesk") for b in ("ar", "el", "ot", "ix"))
WORDS = tuple(f"{a}{b}" for a in ("river", "stone", "cloud", "paper") for b in ("song", "yard", "door", "cup", "way"))
SPREAD = 0.05
ROUNDS = 8


def text(topic: int, seed: int) -> str:
    return f"I like {TOPICS[topic]} and the {' '.join(np.random.default_rng(seed).choice(WORDS, size=6))}."


def topic_of(words: str) -> int:
    return next(i for i, topic in enumerate(TOPICS) if topic in words)


@dataclass(frozen=True)
class ArcEncoder:
    """Put a text at its topic's place on an arc, moved a little by what else it says."""

    dimension: int = 4
    name: str = "arc"
    fingerprint: str = "arc-1"

    def encode(self, texts: Sequence[str], /) -> np.ndarray:
        return np.array([self._one(each) for each in texts], dtype=np.float32)

    def _one(self, words: str) -> np.ndarray:
        angle = topic_of(words) * np.pi / 20
        seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")
        place = np.array([np.cos(angle), np.sin(angle), 0.0, 0.0])
        place += SPREAD * np.random.default_rng(seed).normal(size=self.dimension)
        return place / np.linalg.norm(place)


def neighbouring(request: Request) -> str:
    step = int(np.random.default_rng(request.seed).choice((-1, 0, 1)))
    return text(min(max(topic_of(request.prompt) + step, 0), len(TOPICS) - 1), request.seed)


def of_kept(voted: Voted, slot: int, attempt: int) -> Ask:
    parent = voted.candidates[voted.kept[slot % len(voted.kept)]]
    seed = int(voted.stream("slot", slot, attempt).integers(2**32))
    return Ask(Request(parent.text, seed=seed), "neighbouring", (parent.id,))


def people() -> tuple[Users, Reference]:
    texts = [text(8 + i % 6, 50_000 + i) for i in range(600)]
    ids = tuple(f"person-{i}" for i in range(100))
    everyone = Users(ids, np.repeat(np.arange(100), 6), texts=tuple(texts), vectors=ArcEncoder().encode(texts))
    return hold_out(everyone, 40, seed=1)


def run(sigma: float, probes: Probes | None = None, rounds: int = ROUNDS) -> Evolution:
    users, reference = people()
    require_apart(reference, users)
    start = [text(i % 6, 1_000 + i) for i in range(120)]
    mechanism = Mechanism(k=5, clip=0.2, sigma=sigma, q=0.9)
    return evolve(
        users,
        start,
        mechanism,
        ArcEncoder(),
        ScriptedGenerator(neighbouring),
        rounds,
        keep=Keep(share=0.25),
        feedback=of_kept,
        insecure_seed=11,
        probes=probes,
    )


@pytest.fixture(scope="module")
def evolution() -> Evolution:
    return run(sigma=0.3)


@pytest.fixture(scope="module")
def found(evolution: Evolution) -> Utility:
    return utility(evolution, people()[1], mauve=Mauve(restarts=1, iterations=50))


def test_evolution_works_recall_and_mauve_rise_over_the_rounds(found: Utility) -> None:
    recall, mauve = ([getattr(figures, name) for figures in found.figures] for name in ("recall", "mauve"))
    assert recall == pytest.approx([0.0, 0.004, 0.058, 0.138, 0.379, 0.458, 0.688, 0.808, 0.883], abs=0.05)
    assert (np.diff(recall) > 0).all()
    assert mauve[0] < 0.01
    assert (np.diff(mauve[3:]) > 0).all()
    assert mauve[-1] > 0.8
    assert found.figures[0].precision == 0.0
    assert found.figures[-1].precision > 0.9


def test_under_noise_that_drowns_the_votes_nothing_is_learnt(found: Utility) -> None:
    blind = utility(run(sigma=1e4), people()[1], mauve=found.mauve)
    assert blind.figures[-1].mauve < 0.05
    assert blind.figures[-1].recall < 0.5 * found.figures[-1].recall
    assert utility(run(sigma=1e4, rounds=1), people()[1], mauve=None).figures[-1].mauve is None


def test_figures_are_those_of_each_population(evolution: Evolution, found: Utility) -> None:
    real, half = people()[1].users.vectors, halves(people()[1].users)[1].vectors
    populations = [*(each.population for each in evolution.rounds), evolution.population]
    assert [figures.round for figures in found.figures] == list(range(ROUNDS + 1))
    for figures, population in zip(found.figures, populations, strict=True):
        covered = precision_recall(population.vectors, real)
        assert (figures.precision, figures.recall) == (covered.precision, covered.recall)
        assert figures.candidates == len(population) == 120
        assert figures.mauve == Mauve(buckets=6, restarts=1, iterations=50)(population.vectors, half)
    spread = [figures.concentration for figures in found.figures]
    assert spread[-1] is None
    # First all votes go to the few candidates on the users' side; once candidates are where users are, to all of them.
    assert spread[0].kept_share > 0.9
    assert spread[0].effective < 10
    assert spread[-2].effective > 40
    assert found.figures[-1].variety.duplicates == 0.0


def test_every_population_stands_beside_real_text_at_one_size(evolution: Evolution, found: Utility) -> None:
    compared, reference = found.compared, people()[1].users
    populations = [*(each.population for each in evolution.rounds), evolution.population]
    assert (compared.size, compared.users, len(compared.sets)) == (120, 40, ROUNDS + 1)
    second = halves(reference)[1].vectors
    for worth, population in zip(compared.sets, populations, strict=True):
        assert worth.coverage == precision_recall(population.vectors, second).coverage
    # The first population, on which nobody has voted, is nowhere near real text; the last nearly is.
    assert compared.sets[0].coverage == 0.0
    assert 0.6 * compared.real.coverage < compared.sets[-1].coverage <= compared.real.coverage + 0.1
    # All 120 texts of the first population are measured: there is no other cut of it, and the notes say so.
    assert compared.chance == ()
    assert "Several seeds" in compared.notes[-1]


def cut(population: Population, size: int) -> Population:
    return replace(population, candidates=population.candidates[:size], vectors=population.vectors[:size])


class CountingMauve(Mauve):
    """MAUVE that counts how often it is asked, and answers at once."""

    asked: ClassVar[list[tuple[int, int]]] = []

    def __call__(self, generated, real):  # type: ignore[no-untyped-def]
        self.asked.append((len(generated), len(real)))
        return float(np.mean(generated))


def test_mauve_is_computed_once_for_a_population_and_all_show_that_figure(evolution: Evolution) -> None:
    CountingMauve.asked.clear()
    first, last = evolution.rounds[0].population, evolution.population
    shrunk = replace(evolution, rounds=evolution.rounds[:1], population=cut(last, 50))
    assert len(first) == 120
    found = utility(shrunk, people()[1], mauve=CountingMauve(buckets=70))
    # Real text, the two populations, and what chance gives: each once, at the size of the smallest.
    assert CountingMauve.asked == [(50, 50)] * (1 + 2 + len(found.compared.chance))
    assert [each.mauve for each in found.figures] == [each.mauve for each in found.compared.sets]
    assert found.mauve == found.compared.mauve == CountingMauve(buckets=50)  # as asked, but no more than texts
    assert len({each.mauve for each in found.compared.chance}) > 1
    # Buckets follow the size, so they may differ between a run with probes and one without.
    cost = audit_cost(replace(found, probes=3), replace(found, mauve=replace(found.mauve, buckets=9)))
    assert [each.mauve for each in cost] == [0.0, 0.0]


def test_without_a_comparison_all_populations_are_clustered_alike(evolution: Evolution) -> None:
    CountingMauve.asked.clear()
    shrunk = replace(evolution, rounds=evolution.rounds[:1], population=cut(evolution.population, 50))
    one = Reference(people()[1].users.take([0]))
    found = utility(shrunk, one, mauve=CountingMauve())
    assert (found.compared, found.mauve.buckets) == (None, 2)
    assert CountingMauve.asked == [(120, 6), (50, 6)]


def test_a_reference_that_cannot_be_split_is_compared_with_nothing(evolution: Evolution) -> None:
    reference = people()[1].users
    one = utility(replace(evolution, rounds=()), Reference(reference.take([0])), mauve=None)
    assert one.compared is None
    few = reference.keep_records(np.flatnonzero(np.isin(reference.owners, [0, 1]))[[0, 1, 2, 6, 7, 8]])
    assert utility(replace(evolution, rounds=()), Reference(few), mauve=None).compared is None


def test_the_figures_say_that_they_are_not_private(found: Utility) -> None:
    assert "not differentially private" in found.statement
    assert found.statement == NOT_PRIVATE
    assert (found.reference_users, found.reference_records, found.insecure_seed) == (40, 240, 11)


def test_a_run_that_stopped_before_its_next_bank_counts_no_population_twice(evolution: Evolution) -> None:
    last = evolution.rounds[-1]
    stopped = replace(evolution, population=last.population)
    assert len(utility(stopped, people()[1], mauve=None).figures) == ROUNDS
    assert utility(replace(evolution, rounds=()), people()[1], mauve=None).probes == 0


def planted(count: int = 30) -> Probes:
    """Probes where the users are: they take votes from the candidates."""
    texts = tuple(text(8 + i % 6, 90_000 + i) for i in range(count))
    return Probes(tuple(range(0, 3 * count, 3)), ArcEncoder().encode(texts), texts)


def test_the_cost_of_auditing_is_a_number(found: Utility) -> None:
    audited = utility(run(sigma=0.3, probes=planted()), people()[1], mauve=Mauve(restarts=1, iterations=50))
    assert audited.probes == 30
    assert audited.figures[0].concentration.probe_share > 0.9
    assert audited.figures[0].recall == 0.0  # probes stand where users are, and count for nothing here
    cost = audit_cost(audited, found)
    assert [each.round for each in cost] == list(range(ROUNDS + 1))
    for each, here, there in zip(cost, audited.figures, found.figures, strict=True):
        assert each.recall == there.recall - here.recall
        assert each.mauve == there.mauve - here.mauve
        assert each.distinct_2 == there.variety.distinct_2 - here.variety.distinct_2
    # With the candidates' votes gone to probes, noise decides who stays: the audited run learns less.
    assert cost[-1].recall > 0
    assert "two single runs" in cost[0].note
    with pytest.raises(InputError, match="audited run first"):
        audit_cost(found, audited)
    for change in ({"neighbours": 5}, {"mauve": None}, {"reference_records": 3}):
        with pytest.raises(InputError, match="not measured alike"):
            audit_cost(audited, replace(found, **change))
    with pytest.raises(InputError, match="populations"):
        audit_cost(audited, replace(found, figures=found.figures[:2]))


def test_only_a_reference_serves_as_real_text(evolution: Evolution) -> None:
    with pytest.raises(CohortError, match="against a Reference"):
        utility(evolution, Evaluation(people()[1].users))  # type: ignore[arg-type]
    bare = Users(("a",), np.zeros(3, dtype=int), texts=("x", "y", "z"))
    with pytest.raises(InputError, match="no vectors"):
        utility(evolution, Reference(bare))


PEOPLE = Users.from_vectors({f"u{i}": np.full((2, 3), float(i)) for i in range(12)})


def test_held_out_users_are_in_no_other_role() -> None:
    rest, reference = hold_out(PEOPLE, 4, seed=3)
    assert len(reference) == 4
    assert len(rest) == 8
    assert set(rest.ids) | set(reference.users.ids) == set(PEOPLE.ids)
    assert [name for name in PEOPLE.ids if name in rest.ids] == list(rest.ids)
    cohorts = Cohorts(
        Auxiliary(rest.take([0, 1])),
        Calibration(rest.take([2])),
        Evaluation(rest.take([3, 4])),
        {"exact": rest.take([5])},
    )
    assert require_apart(reference, cohorts) is reference
    assert require_apart(reference, rest) is reference


def test_who_is_held_out_follows_from_seed_and_id_alone() -> None:
    first = hold_out(PEOPLE, 4, seed=3)[1]
    turned = hold_out(PEOPLE.take(range(11, -1, -1)), 4, seed=3)[1]
    assert set(first.users.ids) == set(turned.users.ids)
    assert set(first.users.ids) != set(hold_out(PEOPLE, 4, seed=4)[1].users.ids)


@pytest.mark.parametrize("role", ["auxiliary", "calibration", "evaluation", "canaries of exact"])
def test_a_shared_user_is_refused_by_the_role_it_has(role: str) -> None:
    taken = {name: PEOPLE.take([i]) for i, name in enumerate(("auxiliary", "calibration", "evaluation", "canaries"))}
    cohorts = Cohorts(
        Auxiliary(taken["auxiliary"]),
        Calibration(taken["calibration"]),
        Evaluation(taken["evaluation"]),
        {"exact": taken["canaries"]},
    )
    shared = taken[role.split(maxsplit=1)[0]]
    with pytest.raises(CohortError, match=f"{role} share 1 users, '{shared.ids[0]}'"):
        require_apart(Reference(shared), cohorts)


def test_what_is_no_reference_is_refused() -> None:
    with pytest.raises(CohortError, match="not a Evaluation"):
        require_apart(Evaluation(PEOPLE), PEOPLE)  # type: ignore[arg-type]
    with pytest.raises(CohortError, match="users of the run share 12"):
        require_apart(Reference(PEOPLE), PEOPLE)
    for size in (0, 12):
        with pytest.raises(CohortError, match="hold out at least one"):
            hold_out(PEOPLE, size, seed=0)
