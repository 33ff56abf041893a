import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from canarybank.encode import (
    CachedEncoder,
    Encoder,
    Precision,
    SentenceEncoder,
    VectorCache,
    find_model,
    half_precision,
)
from canarybank.encode.sentence import TOLERANCE, pick_device
from canarybank.errors import DataError, InputError, MissingError

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder("minilm", device="cpu")


@pytest.mark.usefixtures("offline")
def test_minilm_loads_offline_and_equals_its_library(messages: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = SentenceEncoder("minilm", device="cpu")
    vectors = encoder.encode(messages)
    assert capfd.readouterr() == ("", "")
    library = SentenceTransformer(str(find_model("minilm")), device="cpu", local_files_only=True)
    direct = library.encode(messages, normalize_embeddings=True, show_progress_bar=False)
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.dimension, vectors.dtype) == ("minilm", 384, np.float32)
    assert np.abs(vectors - direct).max() < TOLERANCE[Precision.FLOAT32]
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6


def test_batch_mates_move_no_coordinate_beyond_the_tolerance(encoder: SentenceEncoder, messages: list[str]) -> None:
    messages = messages[::2]
    together = encoder.encode(messages)
    alone = np.concatenate([encoder.encode([text]) for text in messages])
    order = np.random.default_rng(3).permutation(len(messages))
    shuffled = encoder.encode([messages[i] for i in order])
    padded = np.concatenate([encoder.encode([text, "long " * 400])[:1] for text in messages[:2]])
    limit = TOLERANCE[Precision.FLOAT32]
    assert np.abs(alone - together).max() < limit
    assert np.abs(shuffled - together[order]).max() < limit
    assert np.abs(padded - together[:2]).max() < limit
    assert np.array_equal(encoder.encode(messages), together)


@pytest.mark.parametrize("precision", [Precision.FLOAT16, Precision.BFLOAT16])
def test_half_precision_stays_within_its_own_tolerance(
    encoder: SentenceEncoder, messages: list[str], precision: Precision
) -> None:
    if fault := half_precision._fault(precision):
        pytest.skip(f"this processor does not compute in {precision}: the trial {fault}")
    half = SentenceEncoder("minilm", device="cpu", precision=precision, batch_size=4)
    texts = messages[:8]
    vectors = half.encode(texts)
    assert vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6
    alone = np.concatenate([half.encode([text]) for text in texts])
    assert np.abs(alone - vectors).max() < TOLERANCE[precision]
    exact = encoder.encode(texts)
    assert 1e-5 < np.abs(vectors - exact).max() < 4 * TOLERANCE[precision]
    assert half.fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    ("trial", "fault"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "was killed by SIGILL"),
        ("while True: pass", "did not end within 1 s"),
        ("raise RuntimeError('\"addmm_impl_cpu_\" not implemented for \\'Half\\'')", 'failed .*"addmm_impl_cpu_"'),
        ("import sys; sys.exit(3)", "failed .exit code 3."),
    ],
    ids=["dies", "hangs", "fails", "exits"],
)
def test_half_precision_that_the_processor_cannot_run_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, trial: str, fault: str
) -> None:
    half_precision._fault.cache_clear()
    monkeypatch.setattr(half_precision, "_TRIAL", trial)
    monkeypatch.setattr(half_precision, "_SECONDS", 1.0 if "while" in trial else 60.0)
    try:
        with pytest.raises(InputError, match=rf"bfloat16 cannot be used on this processor: .*{fault}.* to float32"):
            SentenceEncoder("minilm", device="cpu", precision="bfloat16")
    finally:
        half_precision._fault.cache_clear()


def test_half_precision_is_tried_once_a_process_and_float32_never(monkeypatch: pytest.MonkeyPatch) -> None:
    half_precision._fault.cache_clear()
    started: list[object] = []
    run = half_precision.subprocess.run
    monkeypatch.setattr(half_precision, "_TRIAL", "pass")
    monkeypatch.setattr(half_precision.subprocess, "run", lambda *a, **k: started.append(a) or run(*a, **k))
    try:
        for precision in (Precision.FLOAT32, Precision.FLOAT16, Precision.FLOAT16, Precision.BFLOAT16):
            half_precision.check_half_precision(precision)
    finally:
        half_precision._fault.cache_clear()
    assert len(started) == 2


def test_routing_bound_for_moved_vectors_holds() -> None:
    # The claim of the module: distances to two entries move by at most 8 t sqrt(d) against each other.
    rng = np.random.default_rng(11)
    t, d = 1e-3, 384
    unit = rng.normal(size=(3, d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    gap = ((unit[0] - unit[1]) ** 2).sum() - ((unit[0] - unit[2]) ** 2).sum()
    for _ in range(200):
        moved = unit + t * rng.choice([-1, 1], size=unit.shape)
        moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        t_seen = np.abs(moved - unit).max()
        other = ((moved[0] - moved[1]) ** 2).sum() - ((moved[0] - moved[2]) ** 2).sum()
        assert abs(other - gap) <= 8 * t_seen * np.sqrt(d)


def test_a_folder_and_a_hub_snapshot_share_the_fingerprint_of_the_same_model(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    snapshot = tmp_path / "models--sentence-transformers--all-MiniLM-L12-v2" / "snapshots" / ("0" * 40)
    shutil.copytree(find_model("minilm"), snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    from_hub = SentenceEncoder("minilm-l12", device="cpu")
    from_folder = SentenceEncoder(str(snapshot), device="cpu")
    assert from_hub.fingerprint == from_folder.fingerprint == encoder.fingerprint
    cache = VectorCache(tmp_path / "vectors")
    first = CachedEncoder(encoder, cache).encode(["one text"])
    assert CachedEncoder(from_folder, cache).missing(["one text"]) == 0
    assert np.array_equal(CachedEncoder(from_hub, cache).encode(["one text"]), first)


def test_odd_texts_have_vectors(encoder: SentenceEncoder) -> None:
    vectors = encoder.encode(["", "\x00", "\ud800", "   ", "😀" * 2000])
    assert np.isfinite(vectors).all()
    assert encoder.encode([]).shape == (0, 384)


def test_a_forward_pass_takes_as_many_texts_as_was_said(passes: list[tuple[int, int]]) -> None:
    encoder = SentenceEncoder("minilm", device="cpu", batch_size=3)
    passes.clear()  # its maker may try the model
    encoder.encode([f"text number {n}" for n in range(8)])
    assert [texts for texts, _ in passes] == [3, 3, 2]
    assert encoder.block % 3 == 0


def test_batches_are_of_like_numbers_of_tokens_not_of_characters(
    encoder: SentenceEncoder, passes: list[tuple[int, int]]
) -> None:
    # Characters and tokens say the opposite here: common words are one token each, an odd string is many.
    few = [f"international understanding {word}" for word in ("information", "environment", "responsibility")]
    many = ["x7q9z", "q8w7e", "z9k3j", "7v6x5"]
    texts = [many[0], few[0], few[1], many[1], many[2], few[2], many[3]]
    vectors = encoder.encode(texts)
    small = SentenceEncoder("minilm", device="cpu", batch_size=4)
    passes.clear()
    assert np.abs(small.encode(texts) - vectors).max() < TOLERANCE[Precision.FLOAT32]
    lengths = sorted((len(ids) for ids in small._model.tokenizer(texts)["input_ids"]), reverse=True)
    assert [padding for _, padding in passes] == [
        sum(part[0] - length for length in part) for part in (lengths[:4], lengths[4:])
    ]


def test_a_model_whose_tokenizer_only_its_own_code_can_call_is_encoded_too(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding

    plain = encoder._model.tokenizer.backend_tokenizer
    SentenceTransformer(modules=[StaticEmbedding(plain, embedding_dim=8)], device="cpu").save(str(tmp_path / "static"))
    static = SentenceEncoder(str(tmp_path / "static"), device="cpu", batch_size=2)
    texts = ["one", "a much longer text than the others", "another"]
    alone = np.concatenate([static.encode([text]) for text in texts])
    assert np.abs(static.encode(texts) - alone).max() < TOLERANCE[Precision.FLOAT32]


TOKENIZER = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:53aa\nsize 90868376\n"


@pytest.mark.parametrize("gone", [TOKENIZER, TOKENIZER[:2]])
def test_a_model_without_the_vocabulary_of_its_tokenizer_is_refused(tmp_path: Path, gone: tuple[str, ...]) -> None:
    folder = shutil.copytree(find_model("minilm"), tmp_path / "model", ignore=shutil.ignore_patterns(*gone))
    with pytest.raises(DataError, match=r"none of tokenizer\.json, vocab\.txt is there; download the model anew"):
        SentenceEncoder(str(folder), device="cpu")


def test_one_file_of_the_vocabulary_is_enough(tmp_path: Path, encoder: SentenceEncoder) -> None:
    gone = shutil.ignore_patterns("tokenizer.json")
    folder = shutil.copytree(find_model("minilm"), tmp_path / "model", ignore=gone)
    vectors = SentenceEncoder(str(folder), device="cpu").encode(["one text"])
    assert np.abs(vectors - encoder.encode(["one text"])).max() < TOLERANCE[Precision.FLOAT32]


@pytest.mark.parametrize("damage", ["cut weights", "pointer", "no pooling", "modules"])
def test_a_damaged_model_is_refused_with_what_to_do(tmp_path: Path, damage: str) -> None:
    folder = shutil.copytree(find_model("minilm"), tmp_path / "model")
    weights = folder / "model.safetensors"
    match damage:
        case "cut weights":
            weights.write_bytes(weights.read_bytes()[:100_000])
        case "pointer":
            weights.write_bytes(POINTER)
        case "no pooling":
            shutil.rmtree(folder / "1_Pooling")
        case "modules":
            (folder / "modules.json").write_text("[1]")
    with pytest.raises(DataError, match=r"could not be loaded .* download the model anew"):
        SentenceEncoder(str(folder), device="cpu")


def test_the_device_is_the_best_one_here_unless_said() -> None:
    import torch

    assert pick_device("cpu") == "cpu"
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert pick_device() == best


def test_the_device_follows_what_torch_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device() == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device() == "cuda"


def test_bad_choices_and_missing_packages_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="at least one text, not 0"):
        SentenceEncoder("minilm", batch_size=0)
    with pytest.raises(InputError, match="no precision 'int8'"):
        SentenceEncoder("minilm", precision="int8")
    for device in ("cuda:99", "toaster"):
        with pytest.raises(InputError, match=f"device '{device}' cannot be used here"):
            SentenceEncoder("minilm", device=device)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="could not be loaded as a sentence-transformers model"):
        SentenceEncoder(str(tmp_path), device="cpu")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[minilm\]'"):
        SentenceEncoder("minilm", device="cpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingError, match="need torch"):
        SentenceEncoder("minilm")
