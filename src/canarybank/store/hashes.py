"""Name content by its sha256: bytes, texts, files, arrays, JSON values, whole folders."""

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from canarybank.errors import InputError
from canarybank.store.documents import canonical_json
from canarybank.store.files import file_errors

__all__ = [
    "altered_files",
    "array_bytes",
    "hash_array",
    "hash_bytes",
    "hash_file",
    "hash_folder",
    "hash_json",
    "hash_text",
]


def hash_bytes(data: bytes) -> str:
    """Return the sha256 of bytes, as 64 hexadecimal digits.

    The algorithm: FIPS 180-4 (https://doi.org/10.6028/NIST.FIPS.180-4).

    Args:
        data: The bytes.

    Example:
        >>> hash_bytes(b"abc")
        'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    """
    return hashlib.sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """Return the sha256 of a text's UTF-8 bytes.

    Args:
        text: The text; a lone surrogate counts as its three bytes.

    Example:
        >>> hash_text("é") == hash_bytes("é".encode())
        True
    """
    return hash_bytes(text.encode("utf-8", "surrogatepass"))


def hash_json(value: Any) -> str:
    """Return the sha256 of a value's canonical JSON text.

    Args:
        value: What ``canonical_json`` takes.

    Example:
        >>> hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1})
        True
    """
    return hash_bytes(canonical_json(value).encode())


def hash_array(array: ArrayLike) -> str:
    """Return the sha256 of an array's type, shape and values.

    The memory layout and byte order do not count: the values are hashed in C order, little-endian.

    Args:
        array: Numbers or fixed strings; Python objects are refused.

    Example:
        >>> values = np.arange(6.0).reshape(2, 3)
        >>> hash_array(values) == hash_array(np.asfortranarray(values)), hash_array(values) == hash_array(values.T)
        (True, False)
    """
    values = np.asarray(array)
    if values.dtype.hasobject:
        raise InputError(
            "An array of Python objects has no content hash; convert it to numbers or fixed strings first."
        )
    values = np.asarray(values, dtype=values.dtype.newbyteorder("<"), order="C")
    digest = hashlib.sha256(canonical_json([values.dtype.str, values.shape]).encode())
    digest.update(array_bytes(values))
    return digest.hexdigest()


def array_bytes(array: NDArray[Any]) -> memoryview:
    """Return the bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def hash_file(path: Path | str) -> str:
    """Return the sha256 of a file's bytes, as ``sha256sum`` prints it.

    Args:
        path: The file.

    Example:
        >>> hash_file("bank.txt") == hash_bytes(Path("bank.txt").read_bytes())
        True
    """
    with file_errors(path, "read"), Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_folder(folder: Path | str, *, skip: Collection[str] = ()) -> dict[str, str]:
    """Return the sha256 of every file under a folder by its relative path; hidden files and skipped paths stay out.

    Args:
        folder: The folder.
        skip: Relative paths to leave out.

    Example:
        >>> sorted(hash_folder("runs/demo", skip=["results.csv", "results.parquet", "results.tex", "summary.md"]))
        ['commitment.json', 'manifest.json', 'results.json', 'trials.log']
    """
    root = Path(folder)
    names = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        name: hash_file(path)
        for name, path in names.items()
        if name not in skip and not any(part.startswith(".") for part in Path(name).parts)
    }


def altered_files(folder: Path | str, hashes: Mapping[str, str]) -> dict[str, str]:
    """Compare a folder with the hashes once taken of it, and return what differs: "altered" or "missing" by path.

    A file that no hash was taken of is no difference.

    Args:
        folder: The folder.
        hashes: The sha256 of each file by its relative path, as ``hash_folder`` gave them.

    Example:
        >>> hashes = hash_folder("runs/demo") | {"trials.log": "0" * 64, "notes.txt": "0" * 64}
        >>> altered_files("runs/demo", hashes)
        {'trials.log': 'altered', 'notes.txt': 'missing'}
    """
    root = Path(folder)
    findings = {}
    for name, expected in hashes.items():
        path = root / name
        if not path.is_file():
            findings[name] = "missing"
        elif hash_file(path) != expected:
            findings[name] = "altered"
    return findings
