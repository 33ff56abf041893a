from pathlib import Path

import numpy as np
import pytest

from canarybank.errors import StoreError
from canarybank.evolve import Archive, FolderArchive, MemoryArchive, Population, Probes, Published
from canarybank.store import read_json


def published(probes: bool = True) -> Published:
    rng = np.random.default_rng(0)
    population = Population.start([f"text {i} \u2028 ü" for i in range(5)], rng.normal(size=(5, 3)), list("ababa"))
    planted = Probes((4, 1), rng.normal(size=(2, 3)), ("first", "second")) if probes else None
    return Published.of(population, planted, {"duplicate": 2})


@pytest.mark.parametrize("probes", [True, False])
@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_what_goes_in_comes_out(tmp_path: Path, kind: str, probes: bool) -> None:
    archive: Archive = MemoryArchive() if kind == "memory" else FolderArchive(tmp_path)
    given = published(probes)
    release = np.random.default_rng(1).normal(size=given.bank.size)
    assert archive.bank(3) is None
    assert archive.release(3) is None
    archive.put_bank(3, given)
    archive.put_release(3, release)
    taken = archive.bank(3)
    assert taken is not None
    assert taken.bank.hash == given.bank.hash
    assert taken.population.candidates == given.population.candidates
    assert np.array_equal(taken.population.vectors, given.population.vectors)
    assert dict(taken.rejected) == {"duplicate": 2}
    if probes:
        assert taken.probes is not None
        assert (taken.probes.positions, taken.probes.texts) == ((4, 1), ("first", "second"))
    assert np.array_equal(archive.release(3), release)


def test_a_bank_counts_only_once_the_file_that_vouches_for_it_is_there(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    (tmp_path / "rounds/000/bank.json").unlink()
    assert archive.bank(0) is None


@pytest.mark.parametrize("name", ["bank.npy", "bank.jsonl", "probes.jsonl"])
def test_an_altered_file_is_refused(tmp_path: Path, name: str) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    path = tmp_path / "rounds/000" / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StoreError, match=name):
        archive.bank(0)


def test_an_altered_hash_is_refused(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_bank(0, published())
    path = tmp_path / "rounds/000/bank.json"
    path.write_text(path.read_text().replace(published().bank.hash, "0" * 64))
    with pytest.raises(StoreError, match="has not the hash"):
        archive.bank(0)


def test_a_broken_release_is_refused(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path)
    archive.put_release(0, np.zeros(3))
    path = tmp_path / "rounds/000/release.npy"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StoreError, match="no numpy array"):
        archive.release(0)


def test_the_remnant_of_an_earlier_draw_goes_before_the_next_is_written(tmp_path: Path) -> None:
    remnant = tmp_path / "rounds/000/.release.npy.1234.abcd.tmp"
    remnant.parent.mkdir(parents=True)
    remnant.write_bytes(b"a whole release that nobody was shown")
    FolderArchive(tmp_path).put_release(0, np.zeros(3))
    assert [path.name for path in remnant.parent.iterdir()] == ["release.npy"]


def test_an_insecure_seed_stamps_banks_and_releases(tmp_path: Path) -> None:
    archive = FolderArchive(tmp_path, insecure_seed=9)
    archive.put_bank(0, published())
    archive.put_release(0, np.zeros(7))
    assert read_json(tmp_path / "rounds/000/bank.json")["insecure_seed"] == 9
    assert (tmp_path / "rounds/000/release.insecure.npy").exists()
    assert not (tmp_path / "rounds/000/release.npy").exists()
    assert FolderArchive(tmp_path).release(0) is None
