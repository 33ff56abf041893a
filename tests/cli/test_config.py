import json
import tomllib


def test_show_prints_every_value_and_where_it_came_from(cli, own):
    out = cli("config", "show", own, "--run.seed", "5").out
    line = next(line for line in out.splitlines() if line.strip().startswith("run.seed"))
    assert line.split() == ["run.seed", "5", "flag"]
    told = ("config", "show", "--mechanism.sigma", "2")
    document, lines = cli(*told, "--json").document, [line.split() for line in cli(*told).out.splitlines()]
    shown = {words[0]: words[1:] for words in lines if words and words[0].startswith("mechanism.")}
    assert shown["mechanism.sigma"] == ["2", "flag"]
    for key, value in document["values"].items():
        if key.startswith("mechanism."):
            assert shown[key] == ["-" if value is None else f"{value:g}", document["origins"][key]]


def test_show_can_say_what_each_key_means(cli):
    assert "noise multiplier" in cli("config", "show", "--describe").out


def test_init_writes_a_file_that_shows_what_show_shows(cli, tmp_path):
    assert cli("config", "init").code == 0
    assert tomllib.loads((tmp_path / "canarybank.toml").read_text()) is not None
    given, default = (cli("config", "show", *words, "--json").document["values"] for words in (["canarybank.toml"], []))
    assert given == default


def test_init_with_a_preset_sets_its_values(cli):
    cli("config", "init", "mine.toml", "--preset", "paper-yelp")
    assert cli("config", "show", "mine.toml", "--json").document["values"]["encoder.name"] == "minilm"


def test_init_replaces_nothing_unless_forced(cli, tmp_path):
    (tmp_path / "canarybank.toml").write_text("mine")
    refused = cli("config", "init")
    assert refused.code == 2
    assert "--force" in refused.err
    assert (tmp_path / "canarybank.toml").read_text() == "mine"
    assert cli("config", "init", "--force").code == 0


def test_init_with_an_unknown_preset_writes_nothing(cli, tmp_path):
    assert cli("config", "init", "--preset", "nobody").code == 2
    assert list(tmp_path.iterdir()) == []


def test_schema_is_json_for_editors(cli):
    schema = cli("config", "schema").document
    assert "MechanismConfig" in schema["$defs"]


def test_schema_of_results_describes_every_field(cli):
    schema = json.loads(cli("config", "schema", "--results").out)
    assert set(schema) == {"commitment", "results"}
    for part in schema["results"]["$defs"].values():
        assert all("description" in field for field in part.get("properties", {}).values()), part
