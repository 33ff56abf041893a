import pytest

from canarybank.config import fields, resolve


def shown(cli, *words):
    document = cli("config", "show", "--json", *words).document
    return document["values"], document["origins"]


@pytest.mark.parametrize("key", fields())
def test_every_key_is_a_flag(cli, key):
    default = resolve().values()[key]
    values = {bool: None, int: "7", float: "0.25"}
    given = {
        "attack.names": "exact,nonce",
        "system.neighbours": "replace",
        "system.attack": "nonce",
        "system.runs": "77",
        "system.inspect": "bank",
        "system.apart": "33",
        "system.scores": "fitted,length",
        "system.evidence": "bound,betting",
        "one_run.style": "ordinary",
        "one_run.canaries": "70",
        "one_run.coins": "fair",
        "one_run.evidence": "guessing",
        "audit.accounted": "1.5",
        "audit.engine": "literal",
        "audit.method": "joint",
        "audit.system": "a_module:system",
        "run.engine": "serial",
        "audit.threshold": "analytic",
        "attack.pool": "600",
        "bank.near": "0.5",
        "encoder.keep_vectors": None,
        "encoder.precision": "float16",
        "generator.api_key_env": "MY_KEY",
        "generator.base_url": "http://localhost:1",
        "generator.kind": "smollm2",
        "generator.max_cost": "2.5",
        "generator.tries": "3",
        "evolve.audit": "nonce",
        "evolve.feedback": "paraphrase",
        "evolve.keeper": "votes",
        "evolve.parents": "turns",
        "evolve.temperature": "1.1",
        "evolve.noise": "float",
        "mechanism.entry_cap": "0.25",
        "users.strict": None,
        "users.format": "csv",
        "bank.tries": "2.5",
        "attack.tries": "2.5",
    }.get(key, values.get(type(default), "7"))
    words = [f"--{key}=false" if default is True else f"--{key}"] if given is None else [f"--{key}", given]
    found, origins = shown(cli, *words)
    assert found[key] != default
    assert origins[key] == "flag"
    assert {origin for other, origin in origins.items() if other != key} == {"default"}


def test_a_flag_beats_the_file_and_the_file_the_preset(cli, own):
    values, origins = shown(cli, own, "--preset", "embedded", "--audit.trials", "11")
    assert (values["audit.trials"], origins["audit.trials"]) == (11, "flag")
    assert (values["encoder.name"], origins["encoder.name"]) == ("hashing", f"file {own}")
    assert (values["cohorts.fixed"], origins["cohorts.fixed"]) == (["embedded"], "preset embedded")


@pytest.mark.parametrize(("text", "number"), [("1e6", 1_000_000), ("2_000", 2000), ("3.0", 3)])
def test_a_whole_number_may_be_written_in_other_ways(cli, text, number):
    assert shown(cli, "--audit.trials", text)[0]["audit.trials"] == number


def test_a_long_whole_number_keeps_all_its_digits(cli):
    assert shown(cli, "--bank.seed", "9007199254740993")[0]["bank.seed"] == 9007199254740993


@pytest.mark.parametrize("text", ["1.5", "nan", "inf", "1e-3", "ten"])
def test_what_is_no_whole_number_is_refused(cli, text):
    assert cli("config", "show", "--audit.trials", text).code == 2


def test_a_text_of_digits_stays_a_text(cli):
    assert shown(cli, "--generator.revision", "1e3")[0]["generator.revision"] == "1e3"


def test_a_switch_can_be_turned_off(cli):
    assert shown(cli, "--users.no-strict")[0]["users.strict"] is False
    assert shown(cli, "--cohorts.shared")[0]["cohorts.shared"] is True


def test_a_command_with_few_keys_takes_them_by_their_short_names_too(cli):
    short = cli("epsilon", "--json", "--no-opacus", "--sigma", "2").document
    assert short == cli("epsilon", "--json", "--no-opacus", "--mechanism.sigma", "2").document
    assert short["mechanism"]["sigma"] == 2
