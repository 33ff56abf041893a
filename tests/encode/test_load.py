import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import canarybank.encode as room
from canarybank.encode import ENCODERS, GivenVectors, HashingEncoder, SentenceEncoder, WordLlamaEncoder, load_encoder
from canarybank.encode.protocol import vocabulary_of
from canarybank.encode.sentence import DeferredMiniLM
from canarybank.errors import ConfigError, InputError, MissingError


def test_names_and_files_give_their_encoders(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", vectors=np.eye(2), texts=np.array(["a", "b"]))
    (tmp_path / "w.NPZ").write_bytes((tmp_path / "v.npz").read_bytes())
    pl.DataFrame({"text": ["a"], "vector": [[1.0]]}).write_parquet(tmp_path / "v.Parquet")
    assert isinstance(load_encoder(tmp_path / "w.NPZ"), GivenVectors)
    assert isinstance(load_encoder(tmp_path / "v.Parquet"), GivenVectors)
    assert isinstance(load_encoder(), WordLlamaEncoder)
    assert isinstance(load_encoder("hashing"), HashingEncoder)
    assert isinstance(load_encoder(tmp_path / "v.npz"), GivenVectors)


@pytest.mark.models
def test_sentence_models_get_their_settings() -> None:
    encoder = load_encoder("minilm", device="cpu", batch_size=5)
    assert isinstance(encoder, DeferredMiniLM)
    assert (encoder.loaded.device, encoder.loaded.batch_size, encoder.block) == ("cpu", 5, 40)
    isolated = load_encoder("minilm", device="cpu", isolated=True)
    assert isinstance(isolated, SentenceEncoder)
    assert (isolated.device, isolated.batch_size, isolated.precision.value) == ("cpu", 1, "float32")


@pytest.mark.models
def test_minilm_is_loaded_with_the_first_text_and_is_the_same_encoder() -> None:
    told = "import sys; from canarybank.encode import load_encoder; encoder = load_encoder('minilm', device='cpu')"
    shown = "print(encoder.fingerprint, encoder.dimension, 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", f"{told}; {shown}"], check=True, capture_output=True, text=True)
    plain, deferred = SentenceEncoder("minilm", device="cpu"), load_encoder("minilm", device="cpu")
    assert found.stdout.split() == [plain.fingerprint, str(plain.dimension), "False"]
    assert np.array_equal(plain.encode(["one text", "another"]), deferred.encode(["one text", "another"]))
    assert vocabulary_of(plain) == vocabulary_of(deferred)


def test_built_in_names_are_listed_and_a_typo_gets_a_hint() -> None:
    assert tuple(ENCODERS.places) == ("hashing", "minilm", "minilm-l12", "mpnet", "wordllama")
    with pytest.raises(ConfigError, match="no encoder 'wordlama'; did you mean 'wordllama'"):
        load_encoder("wordlama")
    with pytest.raises(InputError, match="needs a name or a path"):
        load_encoder("")


@pytest.mark.parametrize("name", ["vectors", "vector", "npz", "parquet", "Vectors"])
@pytest.mark.usefixtures("offline")
def test_a_kind_of_file_in_the_place_of_its_path_gets_a_hint(name: str) -> None:
    with pytest.raises(InputError, match=f"'{name}' names no file; give the path of the npz or parquet file"):
        load_encoder(name)


@pytest.mark.parametrize("name", ["v.npy", "users.csv", "model"])
@pytest.mark.usefixtures("offline")
def test_a_file_that_is_no_model_is_not_looked_for_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("x")
    for given in (name, str(tmp_path / name)):
        with pytest.raises(ConfigError, match=f"{name}' is a file, and neither the folder of a model"):
            load_encoder(given)


def test_a_precision_that_would_be_ignored_is_refused() -> None:
    for name in ("wordllama", "hashing", "x.npz"):
        with pytest.raises(InputError, match="float32 only"):
            load_encoder(name, precision="float16")


@pytest.mark.usefixtures("offline")
def test_a_name_that_nobody_knows_is_missing() -> None:
    with pytest.raises(MissingError, match="is not on this machine"):
        load_encoder("a-model-that-does-not-exist")


def test_the_room_exports_what_it_says_sorted() -> None:
    assert room.__all__ == sorted(room.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert all(hasattr(room, name) for name in room.__all__)


def test_the_room_needs_only_numpy_to_be_imported() -> None:
    code = (
        "import sys\n"
        "for name in ('pydantic', 'polars', 'cyclopts', 'scipy', 'matplotlib', 'dp_accounting'):\n"
        "    sys.modules[name] = None\n"
        "import canarybank.encode\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'wordllama', 'huggingface_hub', 'tokenizers'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
        "print(canarybank.encode.load_encoder('hashing').encode(['a']).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n(1, 64)\n"
