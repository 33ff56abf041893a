import json
import shutil

import pytest

from canarybank.config import Config, GeneratorConfig, resolve
from canarybank.errors import GenerationError
from canarybank.flow import build_generator
from canarybank.flow.generators import may_send_records, sending_recorded
from canarybank.generate import OpenAIGenerator, ScriptedGenerator
from canarybank.registry import GENERATORS
from canarybank.run import Manifest, Run

URL = "http://127.0.0.1:9/v1"
KINDS = ("none", *GENERATORS.places)


def config(kind, **attack):
    flags = {"generator.kind": kind} | ({} if kind in {"none", "smollm2"} else {"generator.model": "m.gguf"})
    return resolve(flags=flags | {f"attack.{key}": value for key, value in attack.items()}).config


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.models] * (kind == "smollm2")) for kind in KINDS]
)
def test_a_kind_needs_permission_exactly_if_it_has_a_server(kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key-123456")
    (tmp_path / "m.gguf").touch()
    made = build_generator(config(kind))
    assert may_send_records(config(kind)) == (made is None or made.server is None)
    assert may_send_records(config(kind, send_records=True))


def test_permission_reaches_the_generator():
    section = GeneratorConfig(kind="openai", model="m", base_url=URL)
    for allowed in (False, True):
        whole = Config(generator=section).model_copy(
            update={"attack": Config().attack.model_copy(update={"send_records": allowed})}
        )
        assert build_generator(whole)._send_records is allowed


@pytest.fixture
def asked():
    """Return settings with a server, and a generator of it."""
    flags = {"generator.kind": "openai", "generator.model": "m", "generator.base_url": URL, "attack.send_records": True}
    return resolve(flags=flags), OpenAIGenerator("m", URL, send_records=True)


def sent(folder):
    return [
        (each["server"], each["requests"], each["requests_with_records"], each["records"])
        for each in json.loads((folder / "manifest.json").read_text())["generators"]
    ]


def test_the_server_is_on_disk_before_anything_is_sent_and_the_counts_after_a_failure_too(asked, tmp_path):
    resolved, generator = asked

    def fail():
        with (
            Run.held(resolved, tmp_path / "run", "", "audit") as run,
            sending_recorded(run, resolved.config, generator),
        ):
            assert sent(run.folder) == [(URL, 0, 0, 0)]
            generator.server.count(("a record",))
            generator.server.count(())
            raise GenerationError("the server went away")

    with pytest.raises(GenerationError, match="went away"):
        fail()
    assert sent(tmp_path / "run") == [(URL, 2, 1, 1)]


def test_a_resumed_run_adds_to_what_it_sent_and_names_another_server_apart(asked, tmp_path):
    resolved, _ = asked
    for url in (URL, URL, "http://127.0.0.1:10/v1"):
        generator = OpenAIGenerator("m", url)
        with (
            Run.held(resolved, tmp_path / "run", "", "audit") as run,
            sending_recorded(run, resolved.config, generator),
        ):
            generator.server.count(("a record",))
    assert sent(tmp_path / "run") == [(URL, 2, 2, 2), ("http://127.0.0.1:10/v1", 1, 1, 1)]


def test_what_follows_from_releases_is_not_counted(asked, tmp_path):
    resolved, generator = asked
    recorded = sending_recorded
    with (
        Run.held(resolved, tmp_path / "run", "", "audit") as run,
        recorded(run, resolved.config, generator, counted=False),
    ):
        generator.server.count(())
    assert sent(tmp_path / "run") == [(URL, None, 0, 0)]


def test_a_model_in_the_process_has_no_server_and_no_generator_no_record(resolved, tmp_path):
    for name, generator, found in (("a", ScriptedGenerator(["x"]), [(None, None, 0, 0)]), ("b", None, [])):
        with Run.held(resolved, tmp_path / name, "", "audit") as run, sending_recorded(run, resolved.config, generator):
            pass
        assert sent(tmp_path / name) == found


def test_a_manifest_from_before_is_still_read(finished, tmp_path):
    folder = shutil.copytree(finished.folder, tmp_path / "run")
    values = json.loads((folder / "manifest.json").read_text())
    del values["generators"]
    assert Manifest.model_validate(values).generators == ()
    (folder / "manifest.json").write_text(json.dumps(values))
    assert Run.open(folder).results == finished.results
