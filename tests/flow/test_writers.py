import pytest

from canarybank.config import Config, GeneratorConfig
from canarybank.errors import ConfigError, MissingError
from canarybank.flow import build_generator
from canarybank.generate import LlamaCppGenerator, OpenAIGenerator


def built(**section):
    return build_generator(Config(generator=GeneratorConfig(**section)))


def test_no_generator_is_none():
    assert built() is None


def test_a_server_is_built_from_its_section_without_its_key_showing(monkeypatch):
    monkeypatch.setenv("MY_KEY", "hunter2")
    config = GeneratorConfig(
        kind="openai",
        model="m",
        base_url="http://localhost:1/v1",
        api_key_env="MY_KEY",
        max_cost=2.0,
        prompt_price=1.0,
        max_tokens=50,
    )
    made = build_generator(Config(generator=config))
    assert isinstance(made, OpenAIGenerator)
    assert (made.spending.ceiling.tokens, made.spending.ceiling.cost) == (50, 2.0)
    assert "hunter2" not in repr(made) + repr(config) + config.model_dump_json()


def test_a_cost_ceiling_needs_prices():
    with pytest.raises(ConfigError, match=r"generator\.prompt_price"):
        built(kind="openai", model="m", base_url="http://localhost:1/v1", max_cost=1.0)


def test_a_gguf_file_that_is_not_here_is_named(tmp_path):
    with pytest.raises(MissingError, match="no GGUF file"):
        built(kind="llamacpp", model=str(tmp_path / "x.gguf"))
    assert built(kind="transformers", model="some/model").name == "some/model"


@pytest.mark.models
def test_smollm2_is_built_without_loading_it():
    assert isinstance(built(kind="smollm2"), LlamaCppGenerator)
