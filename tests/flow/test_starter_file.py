import tomllib

import pytest

from canarybank.config import PRESETS, fields, resolve, starter


def test_a_starter_file_sets_nothing_and_shows_every_key(tmp_path):
    text = starter()
    assert all(not values for values in tomllib.loads(text).values())
    assert all(f"# {field.description}" in text for field in fields().values())
    (tmp_path / "c.toml").write_text(text)
    assert resolve(tmp_path / "c.toml").config == resolve().config


@pytest.mark.parametrize("name", PRESETS)
def test_a_starter_file_of_a_preset_is_that_preset(tmp_path, name):
    (tmp_path / "c.toml").write_text(starter(name))
    found = resolve(tmp_path / "c.toml")
    assert found.config == resolve(preset=name).config


def test_uncommenting_every_default_that_has_a_value_changes_nothing(tmp_path):
    lines = [
        line.removeprefix("# ") if " = " in line and line.startswith("# ") and line[2].islower() else line
        for line in starter().splitlines()
    ]
    (tmp_path / "c.toml").write_text("\n".join(lines))
    found = resolve(tmp_path / "c.toml")
    assert found.config == resolve().config
    assert sum(origin != "default" for origin in found.origins.values()) > 30
