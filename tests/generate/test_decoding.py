"""The decoder draws what transformers draws: the same tokens, prompt for prompt, whatever stands beside them."""

from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from canarybank.generate import (  # noqa: E402
    HFGenerator,
    Request,
    hf,
)
from canarybank.generate.decoding import Decoder, is_known  # noqa: E402

END, PAD, VOCABULARY, TOKENS = 3, 0, 97, 12
LENGTHS = (5, 17, 40, 150, 9, 128)


@pytest.fixture(params=["Llama", "Qwen2"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{request.param}Config")(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    made = getattr(transformers, f"{request.param}ForCausalLM")(config).eval()
    for each in made.parameters():  # loud weights, so that every part of a layer moves the tokens
        each.data.normal_(0, 0.3)
    return made


@pytest.fixture
def prompts() -> list[list[int]]:
    torch.manual_seed(1)
    return [torch.randint(END + 1, VOCABULARY, (length,)).tolist() for length in LENGTHS]


def requests(temperature: float, count: int = len(LENGTHS)) -> list[Request]:
    return [Request("x", seed=2**32 - 1 - i, temperature=temperature, tokens=TOKENS) for i in range(count)]


def by_transformers(model: Any, prompts: list[list[int]], asked: list[Request], min_p: float) -> list[list[int]]:
    """Return what transformers draws for each prompt by itself, up to its end."""
    generator = HFGenerator("unused", min_p=min_p)
    alone = [
        generator._rows(model, PAD, [END], [prompt], [request], TOKENS)[0]
        for prompt, request in zip(prompts, asked, strict=True)
    ]
    return [until_end(row) for row in alone]


def until_end(row: list[int]) -> list[int]:
    return row[: row.index(END) + 1] if END in row else row


@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_tokens_are_those_of_transformers_whatever_the_batch(model, prompts, temperature):
    asked = requests(temperature)
    decoder = Decoder(model, partial(hf._draw, min_p=0.05), frozenset({END}), PAD)
    drawn = decoder.decode(prompts, hf._settings(asked, model.device), TOKENS)
    again = decoder.decode(prompts[2:4], hf._settings(asked[2:4], model.device), TOKENS)
    expected = by_transformers(model, prompts, asked, 0.05)
    assert [until_end(row) for row in drawn if row is not None] == expected
    assert [until_end(row) for row in again if row is not None] == expected[2:4]
    assert len({tuple(row) for row in expected}) == len(prompts)


def test_rows_that_go_on_move_to_a_smaller_batch_and_stay_the_same(model):
    torch.manual_seed(2)
    prompts = [torch.randint(0, VOCABULARY, (1 + 7 * i % 41,)).tolist() for i in range(70)]
    asked, ends = [Request("x", seed=i, temperature=1.3, tokens=40) for i in range(70)], [3, 7, 50, 51, 80]
    decoder = Decoder(model, partial(hf._draw, min_p=0.05), frozenset(ends), PAD)
    drawn = decoder.decode(prompts, hf._settings(asked, model.device), 40)
    expected = HFGenerator("unused")._rows(model, PAD, ends, prompts, asked, 40)

    def to_end(row):
        return row[: next((i + 1 for i, token in enumerate(row) if token in ends), 40)]

    lengths = [len(to_end(row)) for row in expected]
    assert min(lengths) < 16 < max(lengths)
    assert [to_end(row) for row in drawn if row is not None] == list(map(to_end, expected))
    assert {rows for rows, _, _ in decoder._batches} == {64, 256}


def test_a_row_that_is_not_settled_is_left_to_transformers(model, prompts):
    asked, settings = requests(1.0), hf._settings(requests(1.0), model.device)
    narrow = Decoder(model, partial(hf._draw, min_p=0.05, count=2), frozenset({END}), PAD)
    drawn = narrow.decode(prompts, settings, TOKENS)
    expected = by_transformers(model, prompts, asked, 0.05)
    assert None in drawn
    assert all(row is None or until_end(row) == right for row, right in zip(drawn, expected, strict=True))


def test_other_layers_are_left_to_transformers(model):
    assert is_known(model)
    model.config.hidden_act = "gelu"
    assert not is_known(model)
