import shutil
import sys

import numpy as np
import pytest
from scipy import stats

from canarybank.errors import ConfigError, GenerationError, InputError, MissingError
from canarybank.flow import embedded_bank
from canarybank.generate import HFGenerator, Request, in_order
from canarybank.generate.llamacpp import SMOLLM2, gguf_path
from canarybank.store import hash_file, hash_json

pytestmark = pytest.mark.models
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    words = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(29))]
    raw = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token=words[2]))
    raw.pre_tokenizer = WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=words[0], eos_token=words[1], unk_token=words[2], chat_template=TEMPLATE
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    path = tmp_path_factory.mktemp("tiny")
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def asks(count, **options):
    return [Request("w1 " * (1 + i % 5), seed=i, **({"tokens": 6, "temperature": 1.0} | options)) for i in range(count)]


def test_an_answer_depends_on_its_own_seed_and_not_on_its_batch_mates(folder):
    requests = asks(12)
    together = in_order(HFGenerator(folder, device="cpu", batch=5), requests)
    alone = [in_order(HFGenerator(folder, device="cpu", batch=1), [r])[0] for r in requests[:4]]
    assert alone == together[:4]
    assert len({a.text for a in together}) > 6
    assert all(a.completion_tokens <= 6 for a in together)
    assert {a.finished for a in together} <= {True, False}


def test_each_request_keeps_its_own_limits_and_opening(folder):
    requests = [Request("w1", seed=1, tokens=2, opening="w5"), Request("w1 w2", seed=1, tokens=9, opening="w5 w6")]
    short, long = in_order(HFGenerator(folder, device="cpu"), requests)
    assert short.text.startswith("w5")
    assert long.text.startswith("w5 w6")
    assert short.completion_tokens <= 2
    assert short.prompt_tokens == 2


def test_an_empty_system_message_does_not_take_the_prompts_place(folder):
    generator = HFGenerator(folder, device="cpu")
    (answer,) = in_order(generator, [Request("w1 w2 w3", system="", seed=1, tokens=2)])
    assert answer.prompt_tokens == 3


def test_temperature_zero_is_the_likeliest_answer(folder):
    answers = in_order(
        HFGenerator(folder, device="cpu"), [Request("w1", seed=i, temperature=0.0, tokens=4) for i in range(3)]
    )
    assert len({a.text for a in answers}) == 1


def test_tokens_are_drawn_from_the_models_law_truncated_as_stated():
    from canarybank.generate.hf import draw_processor

    scores = torch.tensor([[2.0, 1.5, 1.0, 0.0, -3.0]])
    draws = 4000
    requests = [Request("x", seed=i, temperature=0.8, top_p=0.9) for i in range(draws)]
    picked = draw_processor(requests, 0.05, torch.device("cpu"))(None, scores.repeat(draws, 1)).argmax(dim=-1).numpy()
    law = np.exp(scores[0].double().numpy() / 0.8)
    law /= law.sum()
    kept = (np.cumsum(law) - law < 0.9) & (law >= 0.05 * law.max())
    expected = np.where(kept, law, 0) / law[kept].sum()
    counts = np.bincount(picked, minlength=5)
    assert (counts[~kept] == 0).all()
    # Fixed seeds; over random ones this chi-square test would fail with probability 1e-5.
    assert stats.chisquare(counts[kept], draws * expected[kept]).pvalue > 1e-5


def test_the_fingerprint_is_of_the_weights_and_the_truncation(folder):
    one = HFGenerator(folder, batch=3)
    assert one.fingerprint == HFGenerator(folder, device="cpu").fingerprint
    assert one.fingerprint != HFGenerator(folder, min_p=0.1).fingerprint
    assert HFGenerator("hub/name").fingerprint != HFGenerator("hub/name", revision="x").fingerprint
    assert HFGenerator("hub/name").name == "hub/name"


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
        "tokenizer.model",
        "merges.txt",
    ],
)
def test_another_file_that_decides_answers_is_another_model(folder, tmp_path, name):
    copy = shutil.copytree(folder, tmp_path / "elsewhere")
    before = HFGenerator(copy).fingerprint
    assert before == HFGenerator(folder).fingerprint
    path = copy / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b" ")
    assert HFGenerator(copy).fingerprint != before


def test_another_chat_template_asks_otherwise_and_is_another_model(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    tokenizer = transformers.AutoTokenizer.from_pretrained(copy)
    tokenizer.chat_template = f"w9 {TEMPLATE}"
    tokenizer.save_pretrained(copy)
    one, other = HFGenerator(folder, device="cpu"), HFGenerator(copy, device="cpu")
    (mine,), (theirs,) = in_order(one, asks(1)), in_order(other, asks(1))
    assert theirs.prompt_tokens == mine.prompt_tokens + 1
    assert one.fingerprint != other.fingerprint


def test_what_decides_no_answer_is_left_out(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    for name in ("README.md", "LICENSE", ".gitattributes", "._config.json"):
        (copy / name).write_text("words")
    (copy / "onnx.bin").mkdir()
    assert HFGenerator(copy).fingerprint == HFGenerator(folder).fingerprint


def test_a_gguf_file_is_its_own_bytes_whatever_stands_beside_it(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and so on")
    pinned = "d255ef828a9c7e57c3701f7633aade2d77e7c66b964a97c31b3fb65378e13fff"
    assert HFGenerator(path).fingerprint == pinned == hash_json(["transformers", hash_file(path), 0.05])
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    (tmp_path / "config.json").write_text("{}")
    assert HFGenerator(path).fingerprint == pinned


def test_the_model_that_wrote_the_embedded_bank_keeps_its_fingerprint():
    assert HFGenerator(gguf_path(SMOLLM2)).fingerprint == embedded_bank().provenance["fingerprint"]


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_a_device_that_is_not_here_is_named(folder, device):
    with pytest.raises(ConfigError, match=f"device '{device}' cannot be used here .* leave generator.device out"):
        in_order(HFGenerator(folder, device=device), asks(1))


def templated(folder, copy, template):
    shutil.copytree(folder, copy)
    tokenizer = transformers.AutoTokenizer.from_pretrained(copy)
    (copy / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(copy)
    return HFGenerator(copy, device="cpu")


def test_a_model_without_a_chat_template_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"has no chat template, so .* instruct"):
        in_order(templated(folder, tmp_path / "base", None), asks(1))


def test_a_chat_template_that_refuses_a_request_is_quoted(folder, tmp_path):
    strict = "{{ raise_exception('System role not supported') }}"
    with pytest.raises(GenerationError, match=r"template refuses a request \(System role not supported\)"):
        in_order(templated(folder, tmp_path / "strict", strict), asks(1))


def test_cut_weights_are_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "cut")
    (copy / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(MissingError, match="cannot be loaded"):
        in_order(HFGenerator(copy, device="cpu"), asks(1))


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    with pytest.raises(MissingError, match="download it to a folder"):
        in_order(HFGenerator(tmp_path, device="cpu"), asks(1))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[transformers\]'"):
        in_order(HFGenerator(tmp_path), asks(1))
    with pytest.raises(InputError, match="batch"):
        HFGenerator(tmp_path, batch=0)
    with pytest.raises(InputError, match="min_p"):
        HFGenerator(tmp_path, min_p=1.0)
