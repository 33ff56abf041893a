from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from canarybank.errors import IncompleteError, StoreError
from canarybank.evolution import Evolution, Keep, Ledger, MemoryArchive, Probes, Published, Round, Spent, evolve, split
from canarybank.mechanism import Bank, Mechanism


def test_a_round_keeps_bank_positions_and_never_a_probe() -> None:
    bank = Bank(np.eye(6), tuple("abcdef"), reserved=(1, 4))
    population, probes = split(bank)
    release = np.array([0.1, 9.0, 0.5, 0.3, 8.0, 0.4])
    done = Round.of(0, Published.of(population, probes), release, Keep(0.5), Spent(1, 1.0, 1.0, 1e-5), noise=0.1)
    assert done.kept.tolist() == [2, 5, 3]
    assert done.kept_candidates == (1, 3, 2)
    assert [population.texts[i] for i in done.kept_candidates] == ["c", "f", "d"]
    assert done.votes.tolist() == [0.1, 0.5, 0.3, 0.4]


def test_a_run_that_published_nothing_is_incomplete() -> None:
    with pytest.raises(IncompleteError, match="first bank"):
        Evolution.gather(MemoryArchive(), Ledger(Mechanism()), Keep())


def test_a_folder_without_a_run_is_said_to_be_one_and_stays_untouched(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="no run"):
        Evolution.load(tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_altered_release_is_found_on_loading(world: Any, tmp_path: Path) -> None:
    evolve(*world.arguments, 1, keep=world.keep, folder=tmp_path)
    np.save(tmp_path / "rounds/000/release.npy", np.zeros(24))
    with pytest.raises(StoreError, match="not the one in the ledger"):
        Evolution.load(tmp_path)


def test_the_population_is_written_without_probes(world: Any, tmp_path: Path) -> None:
    probes = Probes((0, 5), world.users.vectors[:2], ("planted", "planted too"))
    result = evolve(*world.arguments, 1, keep=world.keep, probes=probes)
    paths = result.write(tmp_path)
    frame = pl.read_parquet(paths[0])
    assert tuple(frame["text"].to_list()) == result.population.texts
    assert len(frame) == 24
    assert "planted" not in "".join(frame["text"].to_list())


def test_its_text_says_what_was_spent_and_how(world: Any) -> None:
    text = repr(evolve(*world.arguments, 2, keep=world.keep))
    assert text.startswith("Evolution(2 rounds, 24 candidates; epsilon ")
    assert "adding or removing one user" in text
