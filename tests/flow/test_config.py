import subprocess
import sys

import pytest
from pydantic import ValidationError

from canarybank.auditing import ThresholdMode, TrialEngine
from canarybank.config import AuditConfig, Config, GeneratorConfig, fields, resolve
from canarybank.errors import ConfigError
from canarybank.registry import METHODS
from canarybank.users import FORMATS


def test_every_field_says_what_it_is():
    assert all(field.description and field.description.endswith(".") for field in fields().values())


def test_names_and_choices_are_those_of_the_rooms_that_know_them():
    choices = AuditConfig.model_json_schema()["properties"]
    assert choices["method"]["anyOf"][0]["enum"] == list(METHODS.places)
    assert set(choices["threshold"]["enum"]) == {str(mode) for mode in ThresholdMode}
    assert set(choices["engine"]["enum"]) == {str(engine) for engine in TrialEngine}
    formats = Config.model_json_schema()["$defs"]["UsersConfig"]["properties"]["format"]["anyOf"][0]["enum"]
    assert set(formats) == set(FORMATS)


@pytest.mark.parametrize("value", ["inf", "nan", "-1", float("inf")])
def test_an_accounted_epsilon_is_a_finite_number(value):
    with pytest.raises(ConfigError, match=r"audit\.accounted"):
        resolve(flags={"audit.accounted": value})


def test_a_configuration_cannot_be_changed_and_takes_no_unknown_key():
    with pytest.raises(ValidationError, match="frozen"):
        Config().audit.trials = 3
    with pytest.raises(ValidationError, match="Extra inputs"):
        Config.model_validate({"audit": {"trails": 3}})


def test_a_list_may_be_written_with_commas():
    config = Config.model_validate({"attack": {"names": "ordinary, nonce"}, "users": {"labels": "1,5"}})
    assert config.attack.names == ("ordinary", "nonce")
    assert config.users.labels == ("1", "5")


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("attack", {"names": ["ordinary", "ordinary"]}, "named twice"),
        ("attack", {"names": ["all", "nonce"]}, "stand alone"),
        ("attack", {"names": ["nonse"]}, "nonce"),
        ("attack", {"probes": 64, "pool": 63}, "cannot fill 64"),
        ("users", {"quote": "''"}, "at most 1 character"),
        ("mechanism", {"q": 0}, "greater than 0"),
        ("mechanism", {"delta": 1.0}, "less than 1"),
        ("audit", {"trials": 0}, "greater than or equal to 1"),
        ("generator", {"kind": "openai"}, "needs generator.model"),
        ("generator", {"base_url": "http://me:secret@host/v1"}, "environment variable"),
        ("generator", {"base_url": "http://127.0.0.1:99999/v1"}, "a port of at most 65535"),
        ("generator", {"base_url": "http://127.0.0.1:abc/v1"}, "a port of at most 65535"),
        ("generator", {"base_url": "http://[::1/v1"}, "must be like http://host:port"),
        ("generator", {"kind": "smollm2", "model": "foo"}, "has its own model, not 'foo'"),
        ("generator", {"prompt_price": float("inf")}, "finite"),
        ("generator", {"completion_price": float("inf")}, "finite"),
        ("bank", {"tries": float("inf")}, "less than or equal to 1000"),
        ("attack", {"tries": 1e308}, "less than or equal to 1000"),
    ],
)
def test_what_cannot_be_run_is_refused(section, values, message):
    with pytest.raises(ValidationError, match=message):
        Config.model_validate({section: values})


@pytest.mark.parametrize(
    "key",
    [
        *("sk-canary-5f1d0c7e9a", "gsk_5f1d0c7e9a5f1d0c7e9a5f1d0c7e9a", "KEY=sk", "9lives", "my key", "kéy"),
        *("pT9xQabcdefghijklmnopqrstuvw0123", "sk_live_5f1d0c7e9a", "hf_abcdefgh"),
    ],
)
def test_a_key_in_the_place_of_its_variable_is_refused_and_shown_nowhere(key, tmp_path):
    with pytest.raises(ValidationError, match="takes the name of an environment variable") as caught:
        Config.model_validate({"generator": {"api_key_env": key}})
    assert key not in f"{caught.value} {caught.value.errors()} {caught.value.json()}"
    file = tmp_path / "canarybank.toml"
    file.write_text(f'[generator]\napi_key_env = "{key}"\n', encoding="utf-8")
    for given in ({"file": file}, {"flags": {"generator.api_key_env": key}}):
        with pytest.raises(ConfigError, match="not the key itself") as refused:
            resolve(**given)
        assert key not in f"{refused.value!r} {refused.value.__context__!r} {refused.value.__cause__!r}"


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "_key", "k2", "my_key", "Azure_Key", "my_own_key_for_this_server"])
def test_the_name_of_a_variable_is_taken(name):
    assert GeneratorConfig(api_key_env=name).api_key_env == name


def test_only_how_a_run_is_done_may_change_on_resume():
    free = {key for key, field in fields().items() if (field.json_schema_extra or {}).get("decides") is False}
    decides = {f"generator.{name}" for name in GeneratorConfig.model_fields} - free
    assert "run.workers" in free
    assert decides == {"generator.kind", "generator.model", "generator.revision", "generator.prefill"}
    assert {key for key in free if key.partition(".")[0] not in {"run", "generator"}} == {
        "encoder.keep_vectors",
        "evolve.tries",
    }


def test_the_configuration_alone_loads_nothing_heavy():
    code = (
        "import sys; from canarybank.config import Config, PRESETS, resolve, starter; starter('embedded');"
        "print([m for m in ('numpy', 'scipy', 'polars', 'torch', 'matplotlib', 'dp_accounting') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
