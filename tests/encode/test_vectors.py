from pathlib import Path

import numpy as np
import polars as pl
import pytest

from canarybank.encode import GivenVectors
from canarybank.errors import DataError
from canarybank.store import hash_text

TEXTS = ["alpha", "béta", "gamma\nray", "alpha"]
ROWS = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0], [3.0, 4.0]])
UNIT = np.array([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0], [0.6, 0.8]], dtype=np.float32)


def parquet(path: Path, **columns: object) -> Path:
    pl.DataFrame(columns).write_parquet(path)
    return path


@pytest.mark.parametrize(
    "kind",
    [
        *("npz texts", "npz sha256", "npz bytes", "npz digests"),
        *("parquet text", "parquet sha256", "parquet digests", "parquet float32", "array"),
    ],
)
def test_vectors_are_found_by_text_and_scaled(tmp_path: Path, kind: str) -> None:
    hashes = [hash_text(text) for text in TEXTS]
    path = tmp_path / ("v.npz" if kind.startswith("npz") else "v.parquet")
    match kind:
        case "npz texts":
            np.savez(path, vectors=ROWS, texts=np.array(TEXTS))
        case "npz sha256":
            np.savez(path, vectors=ROWS.astype(np.float16), sha256=np.array([h.upper() for h in hashes]))
        case "npz bytes":
            np.savez(path, vectors=ROWS.astype(np.int64), sha256=np.array(hashes, dtype="S64"))
        case "npz digests":
            np.savez(path, vectors=ROWS, sha256=np.array([bytes.fromhex(h) for h in hashes]))
        case "parquet digests":
            parquet(path, sha256=[bytes.fromhex(h) for h in hashes], vector=ROWS.tolist())
        case "parquet float32":
            parquet(path, text=TEXTS, vector=pl.Series(ROWS.tolist(), dtype=pl.List(pl.Float32)))
        case "parquet text":
            parquet(path, text=TEXTS, vector=ROWS.tolist())
        case "parquet sha256":
            parquet(path, sha256=hashes, vector=ROWS.tolist())
        case "array":
            parquet(path, text=TEXTS, vector=ROWS)
    encoder = GivenVectors(path)
    assert (encoder.dimension, len(encoder), encoder.name) == (2, 3, f"vectors:{path.name}")
    assert np.array_equal(encoder.encode(["gamma\nray", *TEXTS]), UNIT[[2, 0, 1, 2, 3]])
    assert encoder.encode([]).shape == (0, 2)


def test_a_digest_that_ends_in_zero_bytes_is_found(tmp_path: Path) -> None:
    text = next(text for text in map(str, range(10_000)) if hash_text(text).endswith("00"))
    np.savez(tmp_path / "v.npz", vectors=ROWS[:1], sha256=np.array([bytes.fromhex(hash_text(text))]))
    assert np.array_equal(GivenVectors(tmp_path / "v.npz").encode([text]), UNIT[:1])


def test_the_fingerprint_follows_the_contents(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", vectors=ROWS, texts=np.array(TEXTS))
    np.savez(tmp_path / "b.npz", vectors=ROWS[:3], texts=np.array(TEXTS[:3]))
    (tmp_path / "c.npz").write_bytes((tmp_path / "a.npz").read_bytes())
    a, b, c = (GivenVectors(tmp_path / f"{name}.npz").fingerprint for name in "abc")
    assert a == c != b


def test_absent_texts_are_counted_and_the_first_is_shown(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", vectors=ROWS, texts=np.array(TEXTS))
    with pytest.raises(DataError, match=r"no vector for 2 of 3 texts, the first being 'delta'"):
        GivenVectors(tmp_path / "a.npz").encode(["alpha", "delta", "epsilon"])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"vectors": ROWS}, "needs the arrays 'vectors' and 'texts' or 'sha256'"),
        ({"texts": np.array(TEXTS), "other": ROWS}, r"it has \['other', 'texts'\]"),
        ({"vectors": ROWS[:3], "texts": np.array(TEXTS)}, "3 vectors for 4 texts"),
        ({"vectors": ROWS[0], "texts": np.array(TEXTS[:2])}, "must be a table"),
        ({"vectors": ROWS.astype(str), "texts": np.array(TEXTS)}, "must be a table of numbers"),
        ({"vectors": ROWS * [[1], [0], [1], [1]], "texts": np.array(TEXTS)}, "Row 1 .* is zero"),
        ({"vectors": np.where(ROWS == 4, np.nan, ROWS), "texts": np.array(TEXTS)}, "Row 0 .* NaN"),
        ({"vectors": ROWS * [[1, 1], [1, 1], [1, 1], [1, 2]], "texts": np.array(TEXTS)}, "Rows 0 and 3 .* two vectors"),
        ({"vectors": ROWS, "texts": np.array(TEXTS, dtype=object)}, "cannot be read as npz"),
        ({"vectors": ROWS * [[1], [1e-200], [1], [1]], "texts": np.array(TEXTS)}, "Row 1 .* up to 2e-200, beyond what"),
        ({"vectors": ROWS * 1e-42, "texts": np.array(TEXTS)}, "Row 0 .* up to 4e-42, beyond what float32 holds"),
        ({"vectors": ROWS * 1e300, "texts": np.array(TEXTS)}, "Row 0 .* up to 4e.300.* scale the row"),
        ({"vectors": ROWS, "texts": np.array([t.encode() for t in TEXTS])}, r"'texts' .* strings, not \|S9 of shape"),
        ({"vectors": ROWS, "texts": np.array(TEXTS)[:, None]}, r"'texts' .* of shape \(4, 1\); save it as"),
        ({"vectors": ROWS, "texts": np.array("alpha")}, r"'texts' .* of shape \(\)"),
        ({"vectors": ROWS, "sha256": np.arange(4)}, "'sha256' .* must be one row of strings, not int64"),
        ({"vectors": ROWS, "sha256": np.array(TEXTS)}, "Row 0 .* has the sha256 'alpha', which is not one"),
    ],
)
def test_a_bad_npz_is_explained(tmp_path: Path, arrays: dict[str, np.ndarray], words: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=words):
        GivenVectors(tmp_path / "a.npz")


def test_the_name_of_a_parquet_is_no_pattern(tmp_path: Path) -> None:
    path = parquet(tmp_path / "v[1].parquet", text=TEXTS, vector=ROWS.tolist())
    assert np.array_equal(GivenVectors(path).encode(TEXTS), UNIT)


def test_a_bad_parquet_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    with pytest.raises(DataError, match=r"it has \['text'\]"):
        GivenVectors(parquet(path, text=TEXTS))
    with pytest.raises(DataError, match="not lists of 2 numbers"):
        GivenVectors(parquet(path, text=TEXTS[:2], vector=[[1.0, 2.0], [1.0]]))
    with pytest.raises(DataError, match="rows without a vector"):
        GivenVectors(parquet(path, text=TEXTS[:2], vector=[[1.0, 2.0], None]))
    with pytest.raises(DataError, match=r"'vector' .* lists of numbers, but it is of type Float64"):
        GivenVectors(parquet(path, text=TEXTS[:2], vector=[1.0, 2.0]))
    with pytest.raises(DataError, match=r"'text' .* must hold strings, but it is of type List\(String\)"):
        GivenVectors(parquet(path, text=[["a"], ["b"]], vector=[[1.0], [2.0]]))
    with pytest.raises(DataError, match=r"'text' .* must hold strings, but it is of type Binary"):
        GivenVectors(parquet(path, text=[b"\xff", b"\xfe"], vector=[[1.0], [2.0]]))
    with pytest.raises(DataError, match=r"Row 1 .* has the sha256 .* the 32 bytes of the digest"):
        GivenVectors(parquet(path, sha256=[bytes(32), b"\xff"], vector=[[1.0], [2.0]]))
    with pytest.raises(DataError, match=r"up to 1e.300, beyond what float32 holds"):
        GivenVectors(parquet(path, text=TEXTS[:2], vector=[[1e300], [2.0]]))
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        GivenVectors(path)
    (tmp_path / "v.npz").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="cannot be read as npz"):
        GivenVectors(tmp_path / "v.npz")
    with pytest.raises(DataError, match="There is no file of vectors"):
        GivenVectors(tmp_path / "nowhere.npz")


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.npz"
    np.savez_compressed(path, vectors=ROWS, texts=np.array(TEXTS))
    whole = path.read_bytes()
    for end in (10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match="cannot be read as npz"):
            GivenVectors(path)
    with path.open("wb") as file:
        np.save(file, ROWS)
    with pytest.raises(DataError, match="cannot be read as npz"):
        GivenVectors(path)
