"""One registry mechanism: what a name stands for, what is imported when, and what is said of a name that is unknown."""

import subprocess
import sys
from importlib import metadata

import pytest
from pydantic import ValidationError

from canarybank.cli import main
from canarybank.config import AuditConfig, Config, RunConfig, fields, resolve
from canarybank.config.loading import plugins_of, registered
from canarybank.config.model import RECEIVED
from canarybank.encode import HashingEncoder
from canarybank.engine import Serial, Threads
from canarybank.errors import ConfigError
from canarybank.flow import build_engine
from canarybank.registry import (
    ATTACKS,
    ENCODERS,
    ENGINES,
    REGISTRIES,
    SYSTEMS,
    call_with,
    is_place,
    takes,
)
from canarybank.systems import BankSystem

NAMED = {key: mark for key, field in fields().items() if (mark := registered(field)) is not None}
OWN = [(registry, name) for registry in REGISTRIES.values() for name in registry.places]


@pytest.mark.parametrize(("registry", "name"), OWN, ids=[f"{each.kind} {name}" for each, name in OWN])
def test_every_name_of_our_own_stands_for_something_and_pins_nothing(registry, name):
    assert registry.find(name) is registry.built_in(name) is registry.received(name)
    assert registry.pin(name) is None
    assert registry.check(name) == name


def test_the_keys_that_hold_names_are_known():
    assert {key: mark.kind for key, mark in NAMED.items()} == {
        "encoder.name": "encoder",
        "generator.kind": "generator",
        "attack.names": "attack",
        "audit.method": "method",
        "audit.system": "system",
        "system.attack": "attack",
        "evolve.keeper": "keeper",
        "evolve.feedback": "feedback",
        "evolve.parents": "parent rule",
        "evolve.audit": "attack",
        "run.engine": "engine",
    }


TYPOS = {
    "encoder.name": ("wordlama", "wordllama"),
    "generator.kind": ("opnai", "openai"),
    "attack.names": ("nonce-nrom", "nonce-norm"),
    "audit.method": ("clopper_pearson", "clopper-pearson"),
    "audit.system": ("mechanisms", "mechanism"),
    "system.attack": ("nonce-nrom", "nonce-norm"),
    "evolve.keeper": ("treshold", "threshold"),
    "evolve.feedback": ("in-contxt", "in-context"),
    "evolve.parents": ("neighbors", "neighbours"),
    "evolve.audit": ("exactly", "exact"),
    "run.engine": ("process", "processes"),
}


@pytest.mark.parametrize("key", NAMED)
def test_a_mistyped_name_gets_a_hint_from_a_file_a_flag_and_python(key, tmp_path):
    typo, meant = TYPOS[key]
    section, _, name = key.partition(".")
    (tmp_path / "config.toml").write_text(f'[{section}]\n{name} = "{typo}"\n')
    said = rf"{key} \(from .*\) cannot be used: there is no {NAMED[key].kind} '{typo}'; did you mean '{meant}'\?$"
    for given in ({"file": tmp_path / "config.toml"}, {"flags": {key: typo}}):
        with pytest.raises(ConfigError, match=said):
            resolve(**given)
    with pytest.raises(ValidationError, match=f"did you mean '{meant}'"):
        Config.model_validate({section: {name: typo}})


@pytest.mark.parametrize("key", NAMED)
def test_the_schema_and_the_help_list_what_is_built_in(key, capsys):
    section, _, name = key.partition(".")
    schema = Config.model_json_schema()["$defs"][f"{section.capitalize()}Config"]["properties"][name]
    listed = schema.get("items", schema)
    options = [each for option in listed["anyOf"] for each in option.get("anyOf", [option])]
    assert options[0]["enum"] == list(NAMED[key].choices)
    assert options[1]["type"] == "string"
    if key in {"audit.method", "attack.names", "encoder.name", "generator.kind"}:
        assert main(["audit", "--help"]) == 0
        shown = capsys.readouterr().out.replace("│", " ")
        assert ", ".join(NAMED[key].choices) in " ".join(shown.split())


def test_a_name_that_a_folder_holds_need_not_be_registered_here():
    assert AuditConfig.model_validate({"method": "not-here"}, context=dict(RECEIVED)).method == "not-here"
    with pytest.raises(ValidationError, match="no method 'not-here'; choose one of paper"):
        AuditConfig(method="not-here")


@pytest.mark.parametrize(
    "name", ["some/model", "all-distilroberta-v1", "vectors.npz", "./folder", "module.part:NAME", "hashing", "x" * 5000]
)
def test_an_encoder_may_be_a_path_or_a_name_on_the_hub(name):
    assert ENCODERS.check(name) == name


def test_a_path_with_a_colon_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").mkdir()
    assert not ENCODERS.has("a:b")
    assert ENCODERS.has("a:c")
    assert ATTACKS.has("a:b")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("a:b", True), ("a.b:c.d", True), ("a", False), (":b", False), ("a:", False), ("a:b:c", False), ("1a:b", False)],
)
def test_a_place_is_a_module_and_a_name(name, is_one):
    assert is_place(name) is is_one


def test_a_name_that_two_packages_register_is_refused(monkeypatch):
    group = "canarybank.attacks"
    points = metadata.EntryPoints(metadata.EntryPoint("mine", f"{each}:X", group) for each in ("one", "two"))
    monkeypatch.setattr(metadata, "entry_points", lambda **_: points)
    with pytest.raises(ConfigError, match="register the attack 'mine'; say which you mean: one:X or two:X"):
        ATTACKS.find("mine")


def test_a_plugin_does_not_take_the_place_of_our_own(monkeypatch):
    points = metadata.EntryPoints([metadata.EntryPoint("mechanism", "evil:System", "canarybank.systems")])
    monkeypatch.setattr(metadata, "entry_points", lambda **_: points)
    assert SYSTEMS.find("mechanism") is BankSystem
    assert SYSTEMS.names() == ("mechanism",)


def test_a_factory_gets_the_options_that_it_takes():
    assert call_with(Threads, workers=3) == Threads(3)
    assert call_with(Serial, workers=3) == Serial()
    assert call_with(dict, 7 * [(1, 2)], workers=3) == {1: 2}
    assert call_with(lambda **options: options, a=1, b=2) == {"a": 1, "b": 2}
    assert takes(HashingEncoder, "dimension")
    assert not takes(HashingEncoder, "precision")
    with pytest.raises(ConfigError, match=r"cannot be called with \(int\)"):
        call_with(lambda: None, 3)


@pytest.mark.parametrize("name", ENGINES.places)
def test_every_engine_is_built_with_its_workers(name):
    if name == "ray":
        pytest.importorskip("ray", reason="the light install has no Ray")
    made = build_engine(RunConfig(engine=name, workers=2))
    assert sorted(made.run(abs, [-1, -2])) == [(0, 1), (1, 2)]
    assert getattr(made, "workers", 2) == 2


def test_what_a_run_does_not_use_is_not_imported():
    told = {"audit.method": "no_module:a", "audit.system": "no_module:b", "attack.names": "no_module:c"}
    assert plugins_of(resolve(flags=told).config, evolving=True) == ()
    assert plugins_of(resolve(flags={"evolve.audit": "no_module:d"}).config) == ()


def test_showing_a_configuration_imports_no_plugin(tmp_path, monkeypatch):
    (tmp_path / "noisy_plugin.py").write_text("print('imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    flags = [word for key in NAMED for word in (f"--{key}", "noisy_plugin:THING")]
    for command in (["config", "show", *flags], ["audit", "--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "canarybank", *command], capture_output=True, text=True, check=True
        )
        assert "imported" not in done.stdout
