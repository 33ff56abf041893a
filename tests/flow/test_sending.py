import json
import shutil

import pytest
from served_answers import serving

from canarybank.config import Config, GeneratorConfig, resolve
from canarybank.errors import GenerationError
from canarybank.flow import build_generator, gather, run_audit, run_evolution
from canarybank.registry import GENERATORS
from canarybank.run import Manifest, Run
from canarybank.store import StageCache

URL = "http://127.0.0.1:9/v1"


def config(kind, **attack):
    flags = {"generator.kind": kind} | ({} if kind == "smollm2" else {"generator.model": "m.gguf"})
    return resolve(flags=flags | {f"attack.{key}": value for key, value in attack.items()}).config


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.models] * (kind == "smollm2")) for kind in GENERATORS.places]
)
def test_a_kind_needs_permission_exactly_if_it_has_a_server(kind, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "key-123456")
    (tmp_path / "m.gguf").touch()

    def may_paraphrase(chosen):
        return "paraphrase" in [attack.name for attack in gather(chosen, StageCache(), None).attacks]

    assert may_paraphrase(config(kind)) == (build_generator(config(kind)).server is None)
    assert may_paraphrase(config(kind, send_records=True))


def test_permission_reaches_the_generator():
    section = GeneratorConfig(kind="openai", model="m", base_url=URL)
    for allowed in (False, True):
        whole = Config(generator=section).model_copy(
            update={"attack": Config().attack.model_copy(update={"send_records": allowed})}
        )
        assert build_generator(whole)._send_records is allowed


@pytest.fixture
def sending(flags):
    """Return the settings of an audit whose attack has a server paraphrase records."""
    told = {"generator.kind": "served_answers:ask", "attack.names": "paraphrase", "attack.send_records": True}
    return flags | told | {"attack.pool": 12, "attack.similarity": 0.0, "audit.threshold": "analytic"}


def sent(folder):
    return [
        (each["server"], each["requests"], each["requests_with_records"], each["records"])
        for each in json.loads((folder / "manifest.json").read_text())["generators"]
    ]


def reword(request):
    return f"{request.records[0]} and so on, {request.seed} times"


@pytest.fixture
def failing(sending, tmp_path):
    """Return a function that runs the audit until its server has answered once; the next request fails."""

    def run(url):
        seen = []

        def answer(request):
            seen.append(sent(tmp_path / "run"))
            if len(seen) > 1:
                raise GenerationError("the server went away")
            return reword(request)

        with serving(answer, url), pytest.raises(GenerationError, match="went away"):
            run_audit(resolve(flags=sending), tmp_path / "run")
        return seen

    return run


@pytest.mark.usefixtures("fresh_cache")
def test_the_server_is_on_disk_before_anything_is_sent_and_the_counts_after_a_failure_too(failing, tmp_path):
    assert failing(URL)[0] == [(URL, 0, 0, 0)]
    ((server, requests, with_records, records),) = sent(tmp_path / "run")
    assert (server, requests, with_records) == (URL, 2, 2)
    assert records in {1, 2}


@pytest.mark.usefixtures("fresh_cache")
def test_a_resumed_run_adds_to_what_it_sent_and_names_another_server_apart(failing, sending, tmp_path):
    other = "http://127.0.0.1:10/v1"
    failing(URL)
    failing(URL)
    with serving(reword, other) as generator:
        run_audit(resolve(flags=sending), tmp_path / "run")
    counted = generator.server
    assert [each[:3] for each in sent(tmp_path / "run")] == [
        (URL, 4, 4),
        (other, counted.requests, counted.requests_with_records),
    ]
    assert sent(tmp_path / "run")[1][3] == len(counted.records) > 2


def test_what_follows_from_releases_is_not_counted(evolving, tmp_path):
    real = {key: value for key, value in evolving.items() if key != "evolve.insecure_seed"}
    with serving(lambda request: f"I saw {request.seed} of them in the garden.", URL) as generator:
        run_evolution(resolve(flags=real | {"generator.kind": "served_answers:ask"}), tmp_path / "run")
    assert generator.server.requests > 0
    assert sent(tmp_path / "run") == [(URL, None, 0, 0)]


@pytest.mark.usefixtures("fresh_cache")
def test_a_model_in_the_process_has_no_server_and_no_generator_no_record(finished, evolving, scripted, tmp_path):
    run_evolution(resolve(flags=evolving), tmp_path / "run")
    assert scripted.asked
    assert sent(tmp_path / "run") == [(None, None, 0, 0)]
    assert sent(finished.folder) == []


def test_a_manifest_from_before_is_still_read(finished, tmp_path):
    folder = shutil.copytree(finished.folder, tmp_path / "run")
    values = json.loads((folder / "manifest.json").read_text())
    del values["generators"]
    assert Manifest.model_validate(values).generators == ()
    (folder / "manifest.json").write_text(json.dumps(values))
    assert Run.open(folder).results == finished.results
