"""Hold the round loop to a literal twin of the paper's algorithm, and to what must survive a failure."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from canarybank.encode import HashingEncoder
from canarybank.errors import BudgetError, ConfigError, GenerationError, InputError, StoreError
from canarybank.evolution import Evolution, EvolutionLoop, EvolutionPlan, Keep, ParaphraseKept, Probes, evolve
from canarybank.generate import CandidateBank, Request, Response, ScriptedGenerator
from canarybank.mechanism import Bank, Mechanism, epsilon
from canarybank.progress import Lines
from canarybank.seeds import stream
from canarybank.store import Log, read_json

Vector = np.ndarray


# --- the twin -------------------------------------------------------------------------------------------------------


def twin_contribution(records: Vector, bank: Vector, k: int, clip: float) -> Vector:
    """Vote, normalise and clip one user's records, entry by entry."""
    histogram = [0.0] * len(bank)
    for record in records:
        distances = [sum((float(a) - float(b)) ** 2 for a, b in zip(record, entry, strict=True)) for entry in bank]
        for j in sorted(range(len(bank)), key=lambda j: (distances[j], j))[:k]:
            histogram[j] += 1
    normalised = [h / (len(records) * k) for h in histogram]
    norm = math.sqrt(sum(h * h for h in normalised))
    return np.array([h * min(1.0, clip / norm) for h in normalised])


def twin(world: Any, rounds: int, kept: int, seed: int) -> list[Vector]:
    """Run the paper's pseudocode literally, with the seeded streams, and return the releases."""
    m, users = world.mechanism, world.users
    texts, releases = list(world.start), []
    ids = [f"r0-{i:05d}" for i in range(len(texts))]
    for t in range(rounds):
        rng = stream(seed, "evolve", "release", t)
        coins = rng.random(len(users.ids))
        noise = rng.standard_normal(len(texts)) * m.sigma * m.clip
        bank = world.encoder.encode(texts)
        total = np.zeros(len(texts))
        for u in range(len(users.ids)):
            if coins[u] < m.q:
                total += twin_contribution(users.vectors[users.owners == u], bank, m.k, m.clip)
        grid = 2.0 ** math.floor(math.log2(m.sigma * m.clip / 4096))
        noisy = np.array([round(float(y) / grid) * grid for y in total + noise])
        releases.append(noisy)
        order = sorted(range(len(texts)), key=lambda j: (-noisy[j], j))
        chosen = order[:kept]
        new = []
        prompts = ParaphraseKept()
        for slot in range(len(texts) - kept):
            for attempt in range(20):
                parent = chosen[(slot + attempt) % kept]
                text = world.generator._script(prompt_request(prompts, texts[parent], t, slot // kept, attempt))
                if text not in new and text not in [texts[j] for j in chosen]:
                    new.append(text)
                    break
        texts = [texts[j] for j in chosen] + new
        ids = [ids[j] for j in chosen] + [f"r{t + 1}-{i:05d}" for i in range(len(new))]
    return [*releases, np.array(ids)]


def prompt_request(rule: ParaphraseKept, text: str, t: int, turn: int, attempt: int) -> Request:
    return rule._loaded.request({"record": text}, seed=0, path=("evolve", t, text, turn, attempt))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_loop_makes_the_releases_of_the_literal_algorithm(world: Any, seed: int) -> None:
    *releases, ids = twin(world, 3, 6, seed)
    result = evolve(*world.arguments, 3, keep=Keep(0.25), feedback=ParaphraseKept(), insecure_seed=seed)
    for t, expected in enumerate(releases):
        assert np.array_equal(result.rounds[t].release, expected)
    assert result.population.ids == tuple(ids)


# --- selection under little and much noise --------------------------------------------------------------------------


def test_with_next_to_no_noise_the_most_voted_stay(world: Any) -> None:
    quiet = replace(world.mechanism, sigma=1e-6, q=1.0)
    result = evolve(
        world.users, world.start, quiet, world.encoder, world.generator, 2, keep=Keep(0.25), insecure_seed=0
    )
    for done in result.rounds:
        records, owners = world.users.vectors, world.users.owners
        votes = sum(
            twin_contribution(records[owners == u], done.bank.vectors, 3, quiet.clip) for u in range(len(world.users))
        )
        assert done.kept.tolist() == sorted(range(24), key=lambda j: (-round(votes[j], 6), j))[:6]


def test_with_huge_noise_the_choice_is_uniform(world: Any) -> None:
    loud = replace(world.mechanism, sigma=1e6)
    counts = np.zeros(12)
    plan = EvolutionPlan(loud, 1, keep=Keep(0.25), cap=1, new=1)
    for seed in range(400):
        seeded = replace(plan, insecure_seed=seed)
        with EvolutionLoop(world.users, world.start[:12], seeded, world.encoder, world.generator) as run:
            counts[run.advance().kept] += 1
    # 400 times 3 of 12 without replacement: the statistic below is chi-square with 11 degrees in the limit; the false
    # alarm rate is 1e-5.
    expected, share = 400 * 3 / 12, 3 / 12
    statistic = ((counts - expected) ** 2).sum() / (expected * (1 - share)) * (11 / 12)
    assert statistic < stats.chi2.isf(1e-5, 11)


# --- what a run is made of ------------------------------------------------------------------------------------------


def test_new_candidates_carry_lineage_and_kept_ones_keep_theirs(world: Any) -> None:
    result = evolve(*world.arguments, 3, keep=world.keep, insecure_seed=1)
    known = {candidate.id for done in result.rounds for candidate in done.population.candidates}
    for candidate in result.population.candidates:
        assert (candidate.born == 0) == (not candidate.parents)
        assert set(candidate.parents) <= known
        assert candidate.prompt == ("continue" if candidate.born else "")
    assert {candidate.born for candidate in result.population.candidates} > {3}
    assert len(result.population) == 24


def test_only_new_candidates_are_encoded(world: Any) -> None:
    seen: list[str] = []

    @dataclass(frozen=True)
    class Counting(HashingEncoder):
        def encode(self, texts: Sequence[str], /) -> Vector:
            seen.extend(texts)
            return super().encode(texts)

    evolve(world.users, world.start, world.mechanism, Counting(32), world.generator, 2, keep=world.keep)
    assert len(seen) == len(set(seen)) == 24 + 18 + 18


def test_a_run_in_memory_and_one_in_a_folder_are_the_same(world: Any, tmp_path: Path) -> None:
    kept = evolve(*world.arguments, 2, keep=world.keep, insecure_seed=3, folder=tmp_path / "run")
    free = evolve(*world.arguments, 2, keep=world.keep, insecure_seed=3)
    loaded = Evolution.load(tmp_path / "run")
    for other in (free, loaded):
        assert other.population.candidates == kept.population.candidates
        assert other.spent == kept.spent
        for one, two in zip(kept.rounds, other.rounds, strict=True):
            assert np.array_equal(one.release, two.release)
            assert one.bank.hash == two.bank.hash
            assert np.array_equal(one.kept, two.kept)


def test_a_real_run_never_repeats_itself(world: Any) -> None:
    first, second = (evolve(*world.arguments, 1, keep=world.keep) for _ in range(2))
    assert not np.array_equal(first.rounds[0].release, second.rounds[0].release)


def test_the_start_may_be_texts_a_bank_or_candidates_with_labels(world: Any) -> None:
    labels = tuple("xy"[i % 2] for i in range(24))
    vectors = world.encoder.encode(world.start)
    runs = [
        evolve(world.users, start, world.mechanism, world.encoder, world.generator, 1, keep=world.keep, insecure_seed=2)
        for start in (world.start, Bank(vectors, world.start), CandidateBank(world.start, labels))
    ]
    assert len({done.rounds[0].bank.hash for done in runs}) == 1
    assert set(runs[2].population.labels) == {"x", "y"}


def test_the_total_is_shown_each_round(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    evolve(*world.arguments, 2, keep=world.keep, progress=Lines(sys.stdout, every=0, short=0))
    shown = capsys.readouterr().out
    for t in (1, 2):
        assert f"round {t} of 2, epsilon {epsilon(world.mechanism, t):.4f} (adding up rounds: " in shown


def test_a_finished_run_is_returned_without_another_step(world: Any, tmp_path: Path) -> None:
    first = evolve(*world.arguments, 2, keep=world.keep, folder=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    asked = len(world.generator.asked)
    second = evolve(*world.arguments, 2, keep=world.keep, folder=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert len(world.generator.asked) == asked
    assert np.array_equal(first.rounds[1].release, second.rounds[1].release)


# --- probes ---------------------------------------------------------------------------------------------------------


def test_probes_stay_at_their_positions_and_out_of_everything_else(world: Any) -> None:
    texts = tuple(f"probe zqprobe {i}" for i in range(4))
    # Copies of records: they win votes in plenty, and must not stay for it.
    probes = Probes((17, 2, 9, 0), world.users.vectors[:4], texts)
    quiet = replace(world.mechanism, sigma=1e-3, q=1.0)
    given = (world.users, world.start, quiet, world.encoder, world.generator, 3)
    result = evolve(*given, keep=world.keep, probes=probes, insecure_seed=1)
    for done in result.rounds:
        assert done.bank.size == 28
        assert done.bank.reserved == (17, 2, 9, 0)
        assert done.bank.texts is not None
        assert tuple(done.bank.texts[i] for i in (17, 2, 9, 0)) == texts
        assert np.array_equal(done.bank.vectors[[17, 2, 9, 0]], probes.vectors)
        assert len(done.kept) == 7
        assert not set(done.kept.tolist()) & {17, 2, 9, 0}
        assert done.release[[17, 2, 9, 0]].min() > 0
        assert len(done.votes) == len(done.population) == 24
    everything = [*result.population.texts, *(request.prompt for request in world.generator.asked)]
    assert not any("zqprobe" in text for text in everything)


def test_a_bank_with_probes_in_it_is_taken_as_such(world: Any, tmp_path: Path) -> None:
    bank = Bank(world.encoder.encode(world.start), world.start).reserve(3, seed=4)
    bank = bank.with_probes(world.users.vectors[:3], ("p one", "p two", "p three"))
    result = evolve(world.users, bank, world.mechanism, world.encoder, world.generator, 2, folder=tmp_path)
    assert result.rounds[0].bank.hash == bank.hash
    assert result.rounds[1].bank.reserved == bank.reserved
    assert len(result.population) == 21
    assert Evolution.load(tmp_path).rounds[1].bank.hash == result.rounds[1].bank.hash


def test_probes_are_given_once(world: Any) -> None:
    bank = Bank(world.encoder.encode(world.start), world.start).reserve(1, seed=4)
    probes = Probes((0,), world.users.vectors[:1], ("p",))
    with pytest.raises(ConfigError, match="once"):
        evolve(world.users, bank, world.mechanism, world.encoder, world.generator, 1, probes=probes)


# --- failures -------------------------------------------------------------------------------------------------------


class Failing(ScriptedGenerator):
    """Answer so many requests, then fail as a server that stops; the name is that of the sound one."""

    def __init__(self, script: Any, answers: int) -> None:
        super().__init__(script)
        self.left = answers

    def generate(self, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        for pair in super().generate(requests):
            if self.left == 0:
                raise GenerationError("The server stopped answering.")
            self.left -= 1
            yield pair


def test_a_generator_that_fails_leaves_the_round_resumable_with_its_release(world: Any, tmp_path: Path) -> None:
    script = world.generator._script
    broken = Failing(script, answers=25)
    arguments = (world.users, world.start, world.mechanism, world.encoder)
    with pytest.raises(GenerationError, match="stopped"):
        evolve(*arguments, broken, 3, keep=world.keep, folder=tmp_path)
    partial = Evolution.load(tmp_path)
    assert len(partial.rounds) == 2
    assert partial.spent.releases == 2
    sound = ScriptedGenerator(script)
    finished = evolve(*arguments, sound, 3, keep=world.keep, folder=tmp_path)
    for before, after in zip(partial.rounds, finished.rounds, strict=False):
        assert np.array_equal(before.release, after.release)
    assert finished.spent.releases == 3
    # What was answered before the failure is not asked for again.
    assert not {request.seed for request in broken.asked[:25]} & {request.seed for request in sound.asked}


def test_a_run_in_memory_goes_on_after_a_failure_too(world: Any) -> None:
    generator = Failing(world.generator._script, answers=5)
    plan = EvolutionPlan(world.mechanism, 1, keep=world.keep)
    with EvolutionLoop(world.users, world.start, plan, world.encoder, generator) as run:
        with pytest.raises(GenerationError):
            run.advance()
        entries = run.ledger.entries
        generator.left = 1000
        run.advance()
        assert run.ledger.entries == entries
        assert len(run.conclude().rounds) == 1


def test_a_run_stops_before_it_would_pass_its_budget(world: Any, tmp_path: Path) -> None:
    budget = epsilon(world.mechanism, 2) + 1e-9
    with pytest.raises(BudgetError, match="Release 3 would bring"):
        evolve(*world.arguments, 5, keep=world.keep, budget=budget, folder=tmp_path)
    result = Evolution.load(tmp_path)
    assert len(result.rounds) == result.spent.releases == 2
    assert result.spent.epsilon <= budget
    assert sorted(path.name for path in (tmp_path / "rounds").iterdir()) == ["000", "001", "002"]
    assert not list((tmp_path / "rounds/002").glob("*release*"))
    assert pl.read_parquet(tmp_path / "population.parquet")["id"].to_list() == list(result.population.ids)
    assert read_json(tmp_path / "evolution.json")["complete"] is False


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"mechanism": Mechanism(k=3, clip=0.2, sigma=0.5, q=0.5)}, r"mechanism\.sigma was 1\.0 and is now 0\.5"),
        ({"rounds": 3}, "rounds was 2 and is now 3"),
        ({"budget": 9.0}, r"budget was None and is now 9\.0"),
        ({"insecure_seed": 4}, "insecure_seed was 3 and is now 4"),
        ({"cap": 2}, "cap was 64 and is now 2"),
        ({"feedback": ParaphraseKept()}, r"feedback\.rule was 'in-context' and is now 'paraphrase-kept'"),
        ({"start": ("another text",) * 24}, "first_bank was"),
    ],
)
def test_a_resume_under_other_settings_is_refused_with_a_diff(
    world: Any, tmp_path: Path, change: dict[str, Any], phrase: str
) -> None:
    settings = {"users": world.users, "start": world.start, "mechanism": world.mechanism, "encoder": world.encoder}
    settings |= {"generator": world.generator, "rounds": 2, "keep": world.keep, "insecure_seed": 3}
    evolve(**settings, folder=tmp_path)
    before = (tmp_path / "ledger.log").read_bytes()
    with pytest.raises(ConfigError, match=phrase):
        evolve(**(settings | change), folder=tmp_path)
    assert (tmp_path / "ledger.log").read_bytes() == before


def interrupted(world: Any, folder: Path) -> None:
    """Leave a run whose second round has its release and no bank after it."""
    with pytest.raises(GenerationError):
        evolve(*world.arguments[:4], Failing(world.generator._script, 20), 3, keep=world.keep, folder=folder)


def test_a_release_that_was_made_and_lost_is_never_drawn_again(world: Any, tmp_path: Path) -> None:
    interrupted(world, tmp_path)
    (tmp_path / "rounds/001/release.npy").unlink()
    with pytest.raises(StoreError, match="second release under one entry"):
        evolve(*world.arguments, 3, keep=world.keep, folder=tmp_path)


def test_an_altered_release_is_refused(world: Any, tmp_path: Path) -> None:
    interrupted(world, tmp_path)
    np.save(tmp_path / "rounds/001/release.npy", np.zeros(24))
    with pytest.raises(StoreError, match="not the one in the ledger"):
        evolve(*world.arguments, 3, keep=world.keep, folder=tmp_path)


def test_a_lost_ledger_stops_the_run(world: Any, tmp_path: Path) -> None:
    interrupted(world, tmp_path)
    (tmp_path / "ledger.log").unlink()
    with pytest.raises(StoreError, match="does not account"):
        evolve(*world.arguments, 3, keep=world.keep, folder=tmp_path)


def test_a_release_that_the_ledger_does_not_know_stops_the_run(world: Any, tmp_path: Path) -> None:
    interrupted(world, tmp_path)
    log = Log(tmp_path / "ledger.log")
    log.rewrite([record for record in log.records() if record.get("round") != 1])
    with pytest.raises(StoreError, match="the ledger does not know"):
        evolve(*world.arguments, 3, keep=world.keep, folder=tmp_path)


def test_an_entry_without_a_durable_release_is_drawn_anew_under_the_same_entry(world: Any, tmp_path: Path) -> None:
    interrupted(world, tmp_path)
    log = Log(tmp_path / "ledger.log")
    log.rewrite([record for record in log.records() if (record["kind"], record.get("round")) != ("seal", 1)])
    (tmp_path / "rounds/001/release.npy").unlink()
    result = evolve(*world.arguments, 3, keep=world.keep, folder=tmp_path)
    assert result.spent.releases == 3
    kinds = [(record["kind"], record.get("round")) for record in log.records()[1:]]
    assert kinds == [(kind, t) for t in range(3) for kind in ("entry", "seal")]


def test_two_processes_cannot_share_a_run(world: Any, tmp_path: Path) -> None:
    plan = EvolutionPlan(world.mechanism, 1)
    with (
        EvolutionLoop(*world.arguments[:2], plan, *world.arguments[3:], folder=tmp_path),
        pytest.raises(StoreError, match="in use"),
    ):
        EvolutionLoop(*world.arguments[:2], plan, *world.arguments[3:], folder=tmp_path)


def test_records_from_another_encoder_are_refused_before_anything_is_written(world: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dimension 32 and the bank 16"):
        evolve(*world.arguments[:3], HashingEncoder(16), world.generator, 1, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
