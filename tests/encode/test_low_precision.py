"""What is asked of vectors in low precision first has the answers of full precision."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from canarybank.encode import EncoderRecipe, FastEncoder, Precision, SentenceEncoder, VectorCache
from canarybank.encode.fixed_shapes import (
    TOLERANCE,
    BertLayers,
    FixedShapes,
    Tokens,
    has_mixed_products,
    plain_products,
)
from canarybank.encode.low_precision import SplitEncoder, answer_texts
from canarybank.engine import Threads
from canarybank.errors import InputError

COUNT, DIMENSION = 600, 12


def unit(values: Any) -> NDArray[np.float32]:
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True), np.float32)


class Table:
    """An encoder of numbers by a table; it counts what it is asked."""

    name, dimension, fingerprint = "table", DIMENSION, "table-of-numbers"

    def __init__(self, vectors: NDArray[np.float32], drift: float = 0.0) -> None:
        self.vectors, self.drift, self.asked = vectors, drift, 0
        self.fast_encoder: FastEncoder | None = None
        self.block, self.least_texts = 1024, 1

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.asked += len(texts)
        return self.vectors[[int(text) for text in texts]]


def scene(drift: float) -> tuple[list[str], Table, Table]:
    """Return texts, the exact encoder, and a fast one whose vectors are off by up to the drift."""
    rng = np.random.default_rng(3)
    vectors = unit(rng.normal(size=(COUNT, DIMENSION)))
    moved = vectors + drift * unit(rng.normal(size=vectors.shape)) * rng.uniform(0.3, 1, (COUNT, 1))
    exact, fast = Table(vectors), Table(moved.astype(np.float32), 1.01 * drift + 1e-6)
    exact.fast_encoder = fast
    return [str(number) for number in range(COUNT)], exact, fast


def signs(vectors: NDArray[np.float32], drift: float) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Ask for the sign of each of the first four coordinates, two at a time: settled where none is near zero."""
    for columns in (slice(0, 2), slice(2, 4)):
        yield vectors[:, columns] > 0, (np.abs(vectors[:, columns]) > drift).all(axis=1)


@pytest.mark.parametrize("drift", [0.0, 1e-4, 1e-2, 0.5])
def test_answers_are_those_of_full_precision(drift: float) -> None:
    texts, exact, fast = scene(drift)
    found = answer_texts(texts, fast, exact.encode, signs)
    for table, (expected, _) in zip(found, signs(exact.vectors, 0.0), strict=True):
        assert np.array_equal(table, expected)
    assert fast.asked == COUNT
    if drift == 1e-2:
        plain = [table for table, _ in signs(fast.vectors, 0.0)]
        assert not all(np.array_equal(*pair) for pair in zip(plain, found, strict=True)), "the drift must matter"
        assert 0 < exact.asked < COUNT / 4


def test_a_drift_beyond_its_bound_ends_the_work() -> None:
    texts, exact, fast = scene(0.05)
    fast.drift = 0.02
    with pytest.raises(InputError, match=r"off by .* more than the 2\.0e-02 .* encoder\.keep_vectors to true"):
        answer_texts(texts, fast, exact.encode, signs)


def test_fast_vectors_that_are_no_numbers_settle_nothing() -> None:
    texts, exact, fast = scene(1e-4)
    fast.vectors[[0, 17, 300]] = np.nan
    fast.vectors[301, 3] = np.inf
    found = answer_texts(texts, fast, exact.encode, signs)
    for table, (expected, _) in zip(found, signs(exact.vectors, 0.0), strict=True):
        assert np.array_equal(table, expected)
    assert exact.asked >= 4


def recipe_of(encoder: Table, keep: bool | None) -> EncoderRecipe:
    recipe = EncoderRecipe("table", encoder.fingerprint, keep=keep)
    recipe.provide(encoder)
    return recipe


@pytest.mark.parametrize(
    ("keep", "has_fast"), [(None, True), (None, False), (True, True), (False, True), (False, False)]
)
def test_a_recipe_keeps_vectors_or_encodes_in_low_precision_first(
    keep: bool | None, has_fast: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    texts, exact, fast = scene(1e-3)
    exact.fast_encoder = fast if has_fast else None
    keeps = keep if keep is not None else not has_fast
    recipe = recipe_of(exact, keep)
    for _ in range(2):
        found = list(recipe.answer(texts, signs))
        for table, (expected, _) in zip(found, signs(exact.vectors, 0.0), strict=True):
            assert np.array_equal(table, expected)
    assert next(iter(recipe.answer([], signs))).shape == (0, 2)
    assert (fast.asked > 0) is (has_fast and not keeps)
    assert sum(shelf.vectors for shelf in VectorCache().usage()) == (COUNT if keeps else 0)
    if keeps:
        assert exact.asked == COUNT
    else:
        assert np.array_equal(recipe.encode(texts), exact.vectors)


@pytest.mark.parametrize("keep", [None, False])
def test_an_isolated_encoder_encodes_in_full_precision_alone(
    keep: bool | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARYBANK_CACHE", str(tmp_path))
    texts, exact, fast = scene(0.05)
    fast.drift = 0.02  # whoever encodes in low precision first sees this bound broken
    recipe = EncoderRecipe("table", exact.fingerprint, isolated=True, keep=keep)
    recipe.provide(exact)
    assert np.array_equal(recipe.encode(texts), exact.vectors)
    for table, (expected, _) in zip(recipe.answer(texts, signs), signs(exact.vectors, 0.0), strict=True):
        assert np.array_equal(table, expected)
    assert fast.asked == 0
    assert sum(shelf.vectors for shelf in VectorCache().usage()) == (COUNT if keep is None else 0)


def test_few_texts_are_encoded_in_full_precision_at_once() -> None:
    texts, exact, fast = scene(1e-3)
    fast.least_texts = COUNT
    recipe = recipe_of(exact, keep=False)
    few = next(iter(recipe.answer(texts[1:], signs)))
    assert np.array_equal(few, exact.vectors[1:, :2] > 0)
    assert (fast.asked, exact.asked) == (0, COUNT - 1)
    list(recipe.answer(texts, signs))
    assert fast.asked == COUNT


def test_threads_take_turns_at_a_fast_encoder() -> None:
    texts, exact, fast = scene(1e-3)
    inside, most, encode = [0], [0], fast.encode

    def counted(some: Sequence[str]) -> NDArray[np.float32]:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)  # long enough for another thread to come in
        inside[0] -= 1
        return encode(some)

    fast.encode = counted  # type: ignore[method-assign]
    recipe = recipe_of(exact, keep=None)
    answered = Threads(4).run(lambda some: list(recipe.answer(some, signs)), [texts] * 4)
    assert len(list(answered)) == 4
    assert most == [1]


def test_settled_texts_are_checked_too() -> None:
    texts, exact, fast = scene(0.0)
    assert len(answer_texts(texts, fast, exact.encode, every_one)[0]) == COUNT
    assert 0 < exact.asked <= COUNT / 100
    fast.vectors = unit(fast.vectors + 0.1)
    with pytest.raises(InputError, match="Encoding in low precision is off by"):
        answer_texts(texts, fast, exact.encode, every_one)


def every_one(vectors: NDArray[np.float32], _drift: float) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Ask for what no drift changes."""
    yield np.zeros(len(vectors)), np.ones(len(vectors), dtype=bool)


class Elsewhere:
    """A host that holds an encoder, as a GPU of a cluster does."""

    def __init__(self, held: Table) -> None:
        self.held = held

    def run(self, function: Callable[[Any, Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for index in reversed(range(len(tasks))):
            yield index, function(self.held, tasks[index])


@pytest.mark.parametrize("has_fast", [True, False])
def test_an_encoder_that_is_loaded_elsewhere_offers_what_it_has(has_fast: bool) -> None:
    texts, exact, fast = scene(1e-3)
    exact.fast_encoder = fast if has_fast else None
    exact.block, fast.least_texts = 100, 7
    recipe = EncoderRecipe("table", exact.fingerprint, host=Elsewhere(exact), keep=False)
    assert (recipe.fast_for(7) is not None) is has_fast
    assert recipe.fast_for(6) is None
    for table, (expected, _) in zip(recipe.answer(texts, signs), signs(exact.vectors, 0.0), strict=True):
        assert np.array_equal(table, expected)
    assert fast.asked == COUNT * has_fast
    found = recipe.fast_for(7)
    assert found is None or (found.drift, found.least_texts) == (fast.drift, 7)


@pytest.fixture(scope="module")
def minilm() -> SentenceEncoder:
    pytest.importorskip("torch")
    encoder = SentenceEncoder("minilm", device="cpu")
    assert encoder.fast_encoder is None  # only where texts are encoded in fixed shapes
    shapes = FixedShapes.of(encoder._model, Precision.FLOAT32, "cpu", rows=2)
    assert shapes is not None
    made = SentenceEncoder("minilm", device="cpu")
    made.shapes = shapes
    return made


@pytest.mark.models
def test_the_drift_of_split_products_is_bounded_without_a_look_at_the_texts(
    minilm: SentenceEncoder, messages: list[str]
) -> None:
    fast = minilm.fast_encoder
    assert fast is not None
    texts = [*messages[:6], "", "¿Qué? \ud83d 😀"]
    moved = np.linalg.norm(fast.encode(texts).astype(np.float64) - minilm.encode(texts), axis=1)
    assert 0 < moved.max() < fast.drift / 2
    assert 8 * TOLERANCE[Precision.FLOAT32] <= fast.drift < 1e-4
    half = SentenceEncoder("minilm", device="cpu")
    half.shapes, half.precision = minilm.shapes, Precision.FLOAT16
    assert half.fast_encoder is None
    made = SentenceEncoder("minilm", device="cpu")
    made.shapes, made.device = minilm.shapes, "meta"  # a device that multiplies nothing
    assert made.fast_encoder is None


@pytest.mark.models
@pytest.mark.parametrize("place", [0, -1])
def test_the_bound_on_the_drift_is_eight_times_the_largest_of_all_lengths(minilm: SentenceEncoder, place: int) -> None:
    shapes = minilm.shapes
    assert shapes is not None
    tokens = Tokens(minilm._model.tokenizer.backend_tokenizer, 24, "cpu", rows=2)
    length = int(tokens.buckets[place])

    class Off(BertLayers):
        """Layers that are off by a thousandth for texts of one length."""

        def __call__(self, ids: Any, lengths: Any) -> Any:
            vectors = super().__call__(ids, lengths)
            vectors[:, 0] += 1e-3 * (ids.shape[1] == length)
            return vectors

    off = FixedShapes(Off(shapes.layers.model, Precision.FLOAT32, "cpu"), tokens, "cpu")
    assert SplitEncoder(off).drift == pytest.approx(8e-3, rel=0.01)


@pytest.mark.parametrize("precision", [Precision.FLOAT16, Precision.BFLOAT16])
def test_a_device_that_does_not_multiply_in_half_precision_is_known(precision: Precision) -> None:
    pytest.importorskip("torch")
    assert has_mixed_products("cpu", precision)
    assert not has_mixed_products("meta", precision)


def test_products_stay_plain_until_the_last_thread_is_done() -> None:
    torch = pytest.importorskip("torch")
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with plain_products():
            entered.set()
            leave.wait(60)

    torch.set_float32_matmul_precision("medium")
    matmul = torch.backends.cuda.matmul
    allowed = matmul.fp32_precision
    try:
        with plain_products():
            other = threading.Thread(target=hold)
            other.start()
            assert entered.wait(60)
        assert matmul.fp32_precision == "ieee" != allowed
        leave.set()
        other.join()
        assert matmul.fp32_precision == allowed
    finally:
        leave.set()
        torch.set_float32_matmul_precision("highest")


def test_products_are_plain_again_and_again_where_a_program_has_used_the_later_settings() -> None:
    backends = pytest.importorskip("torch").backends
    places = backends.cuda.matmul, backends.mkldnn.matmul
    before = [each.fp32_precision for each in places]
    backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision = "tf32", "bf16"
    try:
        for _ in range(2):
            with plain_products():
                assert [each.fp32_precision for each in places] == ["ieee", "ieee"]
            assert [each.fp32_precision for each in places] == ["tf32", "bf16"]
    finally:
        for each, value in zip(places, before, strict=True):
            each.fp32_precision = value


def test_settings_that_cannot_be_made_fail_every_time_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = pytest.importorskip("torch").backends

    class Broken:
        fp32_precision = property(lambda _: (_ for _ in ()).throw(RuntimeError("no such setting")))

    with monkeypatch.context() as patched:
        patched.setattr(backends.mkldnn, "matmul", Broken())
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no such setting"), plain_products():
                pass
    with plain_products():
        assert backends.cuda.matmul.fp32_precision == "ieee"


def test_products_are_plain_with_an_older_torch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    older = SimpleNamespace(
        allow_bf16_reduced_precision_reduction=True, allow_fp16_reduced_precision_reduction=(True, True)
    )
    monkeypatch.setattr(torch.backends.cuda, "matmul", older)
    before = vars(older).copy()
    torch.set_float32_matmul_precision("high")
    try:
        with plain_products():
            assert torch.get_float32_matmul_precision() == "highest"
            assert set(vars(older).values()) == {False}
        assert torch.get_float32_matmul_precision() == "high"
        assert vars(older) == before
    finally:
        torch.set_float32_matmul_precision("highest")
