import math

import numpy as np
import pytest

from canarybank.defend import Likelihoods, Measure, Vetting, measure_likelihoods
from canarybank.encode import load_encoder
from canarybank.errors import InputError, MissingError
from canarybank.flow import embedded_bank

pytestmark = pytest.mark.models
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    words = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(29))]
    raw = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[2]))
    raw.pre_tokenizer = WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=words[0], eos_token=words[1], unk_token=words[2], chat_template="{{ messages }}"
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, eos_token_id=1
    )
    path = tmp_path_factory.mktemp("tiny")
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def naive_nats(folder, text):
    """One token at a time, alone, without padding."""
    model = transformers.LlamaForCausalLM.from_pretrained(folder)
    ids = [1, *(int(word[1:]) + 3 for word in text.split())]
    total = 0.0
    for end in range(1, len(ids)):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids[:end]])).logits[0, -1]
        total -= float(torch.log_softmax(logits, dim=-1)[ids[end]])
    return total


def test_likelihoods_are_the_sum_over_tokens_whatever_stands_in_the_batch(folder):
    texts = ["w1 w2 w3", "w4", "w5 " * 9, "", "w7 w1"]
    found = measure_likelihoods(texts, folder, device="cpu")
    np.testing.assert_allclose(found.nats, [naive_nats(folder, text) for text in texts], rtol=1e-4)
    assert found.tokens.tolist() == [3, 1, 9, 0, 2]
    assert found.surprise[3] == 0
    assert found.surprise[1] == pytest.approx(found.nats[1])
    assert found.surprise[0] == pytest.approx(math.log(32), rel=0.2)  # an untrained model knows nothing


def test_a_long_text_is_read_as_far_as_the_limit(folder):
    long, longer = measure_likelihoods(["w1 " * 5000, "w1 " * 6000], folder, device="cpu").tokens.tolist()
    assert 100 < long == longer < 5000


def test_an_unlikely_entry_stands_out_by_perplexity_and_does_not_decide():
    check, texts = Vetting.load(), embedded_bank().texts[:400]
    lengths = np.array([len(text) + 1 for text in texts])
    nats = lengths * np.random.default_rng(0).normal(1, 0.1, size=400)
    nats[7] = lengths[7] * 5
    vectors = load_encoder("wordllama").encode(texts)
    plain = check.vet(texts, vectors)
    asked = check.vet(texts, vectors, likelihoods=Likelihoods(nats, np.full(400, 20)))
    assert asked.standard[Measure.PERPLEXITY].argmax() == 7
    assert asked.standard[Measure.PERPLEXITY][7] > 20
    assert (asked.findings, asked.false_alarms) == (plain.findings, plain.false_alarms)
    np.testing.assert_array_equal(asked.scores, plain.scores)


def test_likelihoods_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match="one finite number"):
        Likelihoods(np.array([1.0, math.nan]), np.array([1, 2]))
    with pytest.raises(InputError, match="one finite number"):
        Likelihoods(np.array([1.0]), np.array([1, 2]))
    texts = embedded_bank().texts[:64]
    with pytest.raises(InputError, match="64 entries but the likelihoods of 2"):
        Vetting.load().vet(texts, np.eye(64), likelihoods=Likelihoods(np.ones(2), np.ones(2, dtype=int)))
    with pytest.raises(MissingError, match="cannot be loaded"):
        measure_likelihoods(["a"], tmp_path / "none", device="cpu")
