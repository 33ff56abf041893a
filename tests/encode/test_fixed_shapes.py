"""A text's vector depends on its own text alone, to the bit, when batches have fixed shapes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from canarybank.encode import Precision, SentenceEncoder, find_model, fixed_shapes
from canarybank.encode.fixed_shapes import TOLERANCE, BertLayers, FixedShapes, SplitLayers, Tokens, plain_products
from canarybank.encode.sentence import device_in_use

pytestmark = pytest.mark.models
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def model() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(find_model("minilm")), device="cpu", local_files_only=True)


@pytest.fixture(scope="module")
def tokens(model: Any) -> Tokens:
    return Tokens(model.tokenizer.backend_tokenizer, 32, "cpu", rows=3)


@pytest.fixture(scope="module")
def exact(model: Any, tokens: Tokens) -> FixedShapes:
    return FixedShapes(BertLayers(model[0].auto_model, Precision.FLOAT32, "cpu"), tokens, "cpu")


class Shapes:
    """The encoder as those of users are, for the check of isolation."""

    def __init__(self, shapes: FixedShapes) -> None:
        self.encode = shapes.encode


@pytest.mark.parametrize("kind", ["exact", "split"])
def test_neighbours_move_no_bit(
    kind: str,
    model: Any,
    tokens: Tokens,
    exact: FixedShapes,
    moved_texts: Callable[..., list[str]],
    messages: list[str],
) -> None:
    shapes = exact if kind == "exact" else FixedShapes(SplitLayers(model[0].auto_model, "cpu"), tokens, "cpu")
    assert moved_texts(Shapes(shapes), [*messages[:5], "", "¿Qué? 😀"], rounds=2) == []


def test_vectors_are_the_librarys(model: Any, messages: list[str]) -> None:
    shapes = FixedShapes.of(model, Precision.FLOAT32, "cpu", rows=2)
    assert shapes is not None
    expected = model.encode(messages[:6], normalize_embeddings=True, show_progress_bar=False)
    assert np.abs(shapes.encode(messages[:6]) - expected).max() <= TOLERANCE[Precision.FLOAT32]


def test_layers_that_are_not_known_are_left_to_their_library(model: Any) -> None:
    class Other:
        """A model whose last step turns a coordinate round."""

        tokenizer, max_seq_length = model.tokenizer, model.max_seq_length

        def __getitem__(self, number: int) -> Any:
            return model[number]

        def encode(self, texts: list[str], **options: Any) -> Any:
            return model.encode(texts, **options) * torch.tensor([-1.0] + [1.0] * 383)

    assert FixedShapes.of(Other(), Precision.FLOAT32, "cpu", rows=2) is None


def test_split_products_are_as_near_to_float32_as_float32_to_itself(
    model: Any, tokens: Tokens, exact: FixedShapes, messages: list[str]
) -> None:
    split = FixedShapes(SplitLayers(model[0].auto_model, "cpu"), tokens, "cpu")
    moved = split.encode(messages[:4]) - exact.encode(messages[:4])
    assert np.abs(moved).max() <= TOLERANCE[Precision.FLOAT32]
    assert np.abs(moved).max() > 0


@pytest.mark.parametrize("block", [1, 7, fixed_shapes.BLOCK_TEXTS])
def test_tokens_are_the_librarys_and_every_text_comes_once(
    model: Any, messages: list[str], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixed_shapes, "BLOCK_TEXTS", block)
    many = [*messages, *messages[::-1], ""]
    tokens = Tokens(model.tokenizer.backend_tokenizer, 64, "cpu", rows=8)
    seen: dict[int, list[int]] = {}
    for batch in tokens.batches(many):
        rows, length = batch.shape
        assert rows == 8
        assert length in tokens.buckets
        for place, ids, count in zip(batch.positions, batch.ids.tolist(), batch.lengths.tolist(), strict=False):
            assert place not in seen
            assert count <= length
            seen[int(place)] = ids[:count]
    expected = model.tokenizer(many, truncation=True, max_length=64)["input_ids"]
    assert [seen[place] for place in range(len(many))] == expected


def test_a_bucket_is_decided_by_the_text_alone(model: Any) -> None:
    tokens = Tokens(model.tokenizer.backend_tokenizer, 256, "cpu")
    assert (np.diff(tokens.buckets) > 0).all()
    assert tokens.buckets[-1] == 256
    assert (tokens.rows * tokens.buckets <= 1 << 11).all()
    for words in (1, 6, 7, 30, 300):
        alone = [number for number, _ in tokens.tokenise(["tea " * words])]
        beside = [number for number, piece in tokens.tokenise(["x", "tea " * words, "y " * 90]) if 1 in piece[0]]
        assert alone == beside


def test_an_encoder_takes_its_vectors_from_its_shapes(model: Any, messages: list[str]) -> None:
    encoder = SentenceEncoder("minilm", device="cpu")
    assert encoder.shapes is None
    assert device_in_use() is None
    encoder.shapes = shapes = FixedShapes.of(model, Precision.FLOAT32, "cpu", rows=2)
    assert shapes is not None
    assert np.array_equal(encoder.encode(messages[:4]), shapes.encode(messages[:4]))
    assert len(shapes.encode([])) == 0


def test_products_stay_plain_and_settings_come_back() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with plain_products():
            assert torch.backends.cuda.matmul.fp32_precision == torch.backends.mkldnn.matmul.fp32_precision == "ieee"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
