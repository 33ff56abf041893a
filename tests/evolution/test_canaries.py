"""Canaries vote as users do, their coins alone are kept, and a release that is durable has its own coins beside it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from canarybank.errors import ConfigError, InputError, StoreError
from canarybank.evolution import (
    Canaries,
    Drawn,
    Evolution,
    EvolutionLoop,
    EvolutionPlan,
    FolderArchive,
    MemoryArchive,
    Voters,
    evolve,
)
from canarybank.mechanism import Bank, Grid, Mechanism
from canarybank.users import Users


def crossing(count: int = 6, users: int = 3) -> tuple[Users, Canaries, Bank]:
    """Return users at the first axis and canaries at an axis of their own each; all of them vote for one entry."""
    vectors = np.eye(count + 2, dtype=np.float32)
    people = Users(tuple(map(str, range(users))), np.arange(users), vectors=np.repeat(vectors[:1], users, axis=0))
    canaries = Users(tuple(map(str, range(count))), np.arange(count), vectors=vectors[1:-1])
    return people, Canaries(canaries, np.ones(count, dtype=np.bool_)), Bank(vectors)


@pytest.mark.parametrize("noise", ["discrete", "float", None])
def test_the_coins_that_are_kept_are_those_of_the_votes(noise: str | None) -> None:
    users, canaries, bank = crossing()
    mechanism = Mechanism(k=1, clip=1.0, sigma=0.01, q=0.5)
    voters, rng = Voters(users, canaries=canaries), np.random.default_rng(1)
    draws = [
        voters.release(bank, mechanism, noise) if noise else voters.simulate(bank, mechanism, rng) for _ in range(300)
    ]
    # A vote of 1 under noise of deviation .01: 50 deviations from the threshold. No seed, no false alarm.
    assert all(np.array_equal(draw.histogram[1:-1] > 0.5, draw.took) for draw in draws)
    # All coins are Bernoulli(q), users' and canaries' alike: false alarm below 1e-6 each.
    took = np.array([draw.took for draw in draws])
    people = round(sum(draw.histogram[0] for draw in draws))
    assert stats.binomtest(int(took.sum()), took.size, 0.5).pvalue > 1e-6
    assert stats.binomtest(people, 3 * len(draws), 0.5).pvalue > 1e-6


def test_a_canary_that_is_not_in_never_votes() -> None:
    users, canaries, bank = crossing()
    some = Canaries(canaries.users, np.array([True, False, False, True, False, True]))
    drawn = Voters(users, canaries=some).release(bank, Mechanism(k=1, clip=1.0, sigma=0.01, q=1.0))
    assert np.array_equal(drawn.took, some.eligible)
    assert np.array_equal(drawn.histogram[1:-1] > 0.5, some.eligible)


def test_canaries_add_to_the_users_sum_and_change_nothing_else_in_it() -> None:
    users, canaries, bank = crossing()
    mechanism = Mechanism(k=3)
    alone, beside = Voters(users), Voters(users, canaries=canaries)
    joined = [beside.histogram([*chosen, 5, 7], bank, mechanism) for chosen in ([], [0], [0, 1, 2])]
    sums = [alone.histogram(chosen, bank, mechanism) for chosen in ([], [0], [0, 1, 2])]
    added = joined[0] - sums[0]
    assert added.any()
    assert all(np.array_equal(one - other, added) for one, other in zip(joined, sums, strict=True))


def test_canaries_obey_the_cap() -> None:
    records = np.eye(4, dtype=np.float32)
    people = Users(("a",), np.zeros(1, dtype=np.int64), vectors=records[:1])
    many = Canaries(Users(("a",), np.zeros(3, dtype=np.int64), vectors=records[1:]), np.ones(1, dtype=np.bool_))
    votes = Voters(people, 1, many).histogram([1], Bank(records), Mechanism(k=1))
    assert np.flatnonzero(votes).tolist() == [1]


def test_a_seeded_release_without_canaries_is_as_it_was() -> None:
    users, _, bank = crossing()
    rng = np.random.default_rng(3)
    coins, noise = rng.random(3) < 0.5, rng.standard_normal(bank.size)
    mechanism = Mechanism(k=1, clip=1.0, sigma=2.0, q=0.5)
    drawn = Voters(users).simulate(bank, mechanism, np.random.default_rng(3))
    assert np.abs(drawn.histogram - (coins.sum() * np.eye(bank.size)[0] + 2 * noise)).max() < 2 * 2**-12
    assert len(drawn.took) == 0


@pytest.mark.parametrize("eligible", [np.ones(5, dtype=np.bool_), np.ones(6), np.ones((6, 1), dtype=np.bool_)])
def test_who_is_in_must_be_said_of_each(eligible: Any) -> None:
    with pytest.raises(InputError, match="each of 6 canaries"):
        Canaries(crossing()[1].users, eligible)


def test_canaries_of_another_encoder_are_refused() -> None:
    users, _, bank = crossing()
    other = Canaries(crossing(3)[1].users, np.ones(3, dtype=np.bool_))
    with pytest.raises(InputError, match="different dimensions"):
        Voters(users, canaries=other).check(bank)


@pytest.mark.parametrize("seed", [None, 4])
def test_a_run_keeps_every_rounds_coins_beside_its_release(seed: int | None, world: Any, tmp_path: Path) -> None:
    probes, canaries = world.planted()
    quiet = world.mechanism if seed is None else replace(world.mechanism, sigma=0.05)  # so little is not drawn for real
    given = (world.users, world.start, quiet, world.encoder, world.generator)
    settings = {"keep": world.keep, "insecure_seed": seed, "probes": probes, "canaries": canaries}
    made = evolve(*given, 3, folder=tmp_path / "run", **settings)
    read = Evolution.load(tmp_path / "run")
    for one, other in zip(made.rounds, read.rounds, strict=True):
        assert one.took is not None
        assert other.took is not None
        assert np.array_equal(one.took, other.took)
        # Three votes of .115 under noise of deviation .01 each: ten deviations from the threshold.
        sums = one.release[np.array(probes.positions)].reshape(-1, 3).sum(axis=1)
        assert seed is None or np.array_equal(sums > 0.17, one.took)
    assert made.spent == evolve(*given, 3, **{**settings, "canaries": None}).spent  # the ledger counts users alone


def test_a_resume_with_other_canaries_is_refused(world: Any, tmp_path: Path) -> None:
    probes, canaries = world.planted()
    plan = EvolutionPlan(world.mechanism, 2, keep=world.keep)
    given = (world.users, world.start, plan, world.encoder, world.generator)
    with EvolutionLoop(*given, probes=probes, canaries=canaries, folder=tmp_path / "run") as loop:
        loop.advance()
    for other in (None, Canaries(canaries.users, ~canaries.eligible)):
        with pytest.raises(ConfigError, match="canaries"):
            EvolutionLoop(*given, probes=probes, canaries=other, folder=tmp_path / "run")


class Bare:
    """Release without saying who took part."""

    def release(self, _: int, bank: Bank) -> np.ndarray:
        return np.zeros(bank.size)


def test_a_releaser_that_keeps_the_coins_to_itself_is_refused_before_anything_is_kept(
    world: Any, tmp_path: Path
) -> None:
    probes, canaries = world.planted()
    plan = EvolutionPlan(world.mechanism, 2, keep=world.keep)
    given = (world.users, world.start, plan, world.encoder, world.generator)
    with (
        EvolutionLoop(*given, probes=probes, canaries=canaries, folder=tmp_path / "run", releaser=Bare()) as loop,
        pytest.raises(InputError, match=r"return Drawn\(histogram, took\)"),
    ):
        loop.advance()
    assert not list((tmp_path / "run").rglob("release*"))


@pytest.mark.parametrize("seed", [None, 4])
def test_coins_and_background_are_written_before_the_release(
    seed: int | None, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes, canaries = world.planted()
    order: list[str] = []
    move = Path.replace

    def moved(made: Path, path: Path) -> Path:
        order.append(path.name.partition(".")[0])
        return move(made, path)

    monkeypatch.setattr(Path, "replace", moved)
    settings = {"keep": world.keep, "probes": probes, "canaries": canaries, "insecure_seed": seed}
    evolve(*world.arguments, 1, folder=tmp_path / "run", **settings)
    durable = [name for name in order if name in {"coins", "background", "release"}]
    assert durable == ["coins", *([] if seed is None else ["background"]), "release"]


def test_coins_come_back_as_they_were_kept(tmp_path: Path) -> None:
    took = np.array([False, True, True, False])
    for archive in (MemoryArchive(), FolderArchive(tmp_path), FolderArchive(tmp_path / "seeded", 3)):
        assert archive.coins(2) is None
        archive.put_coins(2, took)
        assert np.array_equal(archive.coins(2), took)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("[1,2]", "[1]"),
        lambda text: text.replace('"round":2', '"round":3'),
        lambda text: text[:-20],
    ],
)
def test_altered_coins_are_refused(change: Any, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_coins(2, np.array([False, True, True, False]))
    (path,) = tmp_path.rglob("coins.json")
    altered = change(path.read_text())
    assert altered != path.read_text()
    path.write_text(altered)
    with pytest.raises(StoreError, match="restore"):
        archive.coins(2)


def test_coins_of_another_round_are_refused_though_their_checksum_fits(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_coins(2, np.array([False, True]))
    (tmp_path / "rounds" / "003").mkdir()
    (tmp_path / "rounds" / "003" / "coins.json").write_bytes((tmp_path / "rounds" / "002" / "coins.json").read_bytes())
    with pytest.raises(StoreError, match="holds no coins of this round"):
        archive.coins(3)


def test_a_bare_histogram_is_a_release_without_canaries() -> None:
    drawn = Drawn.of(np.arange(3.0))
    assert np.array_equal(drawn.histogram, np.arange(3.0))
    assert len(drawn.took) == 0
    assert Drawn.of(drawn) is drawn


# --- what everybody would contribute to the probes: kept by a simulation, never made by a real run --------------------


def test_the_background_is_what_each_voter_contributes_to_the_probes(world: Any) -> None:
    probes, canaries = world.planted()
    some = Canaries(canaries.users, np.array([True, False, True, False]))
    made = evolve(*world.arguments, 2, keep=world.keep, probes=probes, canaries=some, insecure_seed=1)
    everybody = Voters(world.users, 64, canaries)
    for each in made.rounds:
        assert each.background is not None
        votes, grid = each.background.toarray(), Grid.of(world.mechanism)
        assert votes.shape == (len(world.users) + len(canaries), each.bank.size)
        for voter, row in enumerate(votes):
            alone = grid.values(everybody.histogram([voter], each.bank, world.mechanism))
            alone[each.bank.base] = 0.0
            assert row == pytest.approx(alone, abs=2 * grid.step)
        assert votes[-len(canaries) :].any(axis=1).all()


def test_a_real_run_neither_makes_nor_keeps_its_background(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def background(*_: object) -> None:
        raise AssertionError("the contributions of real users were asked for")

    monkeypatch.setattr(Voters, "background", background)
    probes, canaries = world.planted()
    settings = {"keep": world.keep, "probes": probes, "canaries": canaries}
    for folder in (None, tmp_path / "run"):
        made = evolve(*world.arguments, 2, folder=folder, **settings)
        assert all(each.background is None for each in made.rounds)
    assert not list(tmp_path.rglob("background*"))
    with pytest.raises(StoreError, match="A real run keeps nothing of its users but the releases"):
        FolderArchive(tmp_path / "run").put_background(0, csr_array((3, 4)))
    # What somebody else puts there is not read.
    np.savez(tmp_path / "run" / "rounds" / "000" / "background.npz", np.ones(3))
    assert Evolution.load(tmp_path / "run").rounds[0].background is None
    with pytest.raises(AssertionError, match="were asked for"):
        evolve(*world.arguments, 2, insecure_seed=1, **settings)


def test_a_background_comes_back_as_it_was_kept_and_to_the_byte(tmp_path: Path) -> None:
    votes = csr_array(np.array([[0.0, 0.25], [0.0, 0.0], [1 / 3, 0.0]]))
    for archive in (MemoryArchive(), FolderArchive(tmp_path / "one", 3), FolderArchive(tmp_path / "other", 3)):
        assert archive.background(2) is None
        archive.put_background(2, votes)
        found = archive.background(2)
        assert found is not None
        assert np.array_equal(found.toarray(), votes.toarray())
    one, other = (path.read_bytes() for path in tmp_path.rglob("background.npz"))
    assert one == other


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda _: b"", lambda data: data[:-30] + data[-29:]])
def test_a_damaged_background_is_refused(damage: Any, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path, 3)
    archive.put_background(0, csr_array(np.eye(3)))
    (path,) = tmp_path.rglob("background.npz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StoreError, match="restore it from a copy"):
        archive.background(0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_background_that_is_not_finite_is_refused(value: float, tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path, 3)
    archive.put_background(0, csr_array(np.array([[value]])))
    with pytest.raises(StoreError, match="not finite"):
        archive.background(0)
