"""Record every number that four commands write, and the seed addresses they ask for; compare a later run with them.

A leaf is a number or a null in a JSON document that a command writes or prints. Its path is the file, then the keys:
``results.json/attacks/nonce/ladder/rule/epsilon``. An item of a list goes by its name where it has one, such as its
attack, so that a ninth attack moves no other path. Lists of plain numbers are one leaf.

    python tests/recorded/leaves.py          record all four again
    python tests/recorded/leaves.py sweep    record one of them

Record again only when the figures of ``CHANGED`` are settled; the entries of both tables then go.
"""

import contextlib
import fnmatch
import io
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
INPUTS = HERE / "folders" / "inputs"
FOOD = HERE / "food"

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "demo": ("demo", "--attack.names", "paper", "--audit.trials", "20000", "--audit.engine", "projected"),
    "reproduce": (
        *("reproduce", "main", "--scale", "small"),
        *("--cohorts.canaries", "2", "--audit.trials", "4000", "--audit.engine", "projected"),
    ),
    "evolve": (
        *("evolve", str(FOOD / "food.toml"), "--evolve.responses", str(FOOD / "answers.jsonl.gz")),
        *("--insecure-seed", "0", "--audit", "nonce-mueff", "--audit.trials", "20000", "--evolve.mauve=false"),
    ),
    "sweep": (
        *("sweep", str(INPUTS / "small.toml"), "--attack.names", "nonce-norm", "--audit.trials", "5000"),
        *("--over", "mechanism.q=0.3,1", "--audit.engine", "projected"),
        *("--over", "audit.method=paper,clopper-pearson,joint,pooled"),
    ),
}
"""What is run, by the engine that draws every trial.

Each has a cache of its own: a stage that is found in the cache asks for no seed.
"""

LEFT_OUT = (
    "*manifest.json/*",  # times, versions, the machine, pieces found in caches; the settings are those of COMMANDS
    "*/schema_version",
    "*/results_layout",
    "*/packages/*",
    "evolution/run.json/version",
    "plain/run.json/version",
    "reproduce/spreads/*/way",  # the version of the spread's recipe
)
"""Leaves that are no figure: versions, times, the machine, caches. Hashes are strings, and no string is a leaf."""

_CANARY = "attacks/*/canaries/nonce-mueff-0"
_FACTS = ("account", "candidates", "cost", "evolve", "insecure_seed", "plain", "stopped", "utility", "voters")
RENAMED: Mapping[str, str] = {
    # An audited evolution has the results of an audit: one entry for each attack and prefix, each with its canaries.
    "audit/prefixes/*/rounds": "attacks/*/rounds",
    "audit/prefixes/*/theory": "attacks/*/ladder/mechanism/epsilon",
    "audit/prefixes/*/accounted": "attacks/*/ladder/accounted/epsilon",
    "audit/prefixes/*/expected": "attacks/*/ladder/expected/epsilon",
    "audit/prefixes/*/expected_low": "attacks/*/ladder/expected/low",
    "audit/prefixes/*/expected_high": "attacks/*/ladder/expected/high",
    "audit/prefixes/*/exact_interval": f"{_CANARY}/supremum",
    "audit/prefixes/*": _CANARY,
    "audit/mu_eff": "attacks/[i]/canaries/nonce-mueff-0/mu_eff",
    "audit/run_scores": "attacks/[i]/canaries/nonce-mueff-0/run_score",
    "results.json/audit/eligible": "results.json/setup/evaluation",
    "results.json/audit/seed": "results.json/seed",
    "printed/audit/eligible": "printed/voters",
    "printed/audit": "printed",
    # What an evolution did stands apart from what its audit found.
    "results.json/rounds/*": "results.json/evolution/rounds/*",
    **{f"results.json/{name}": f"results.json/evolution/{name}" for name in _FACTS},
    # The figures of utility hold what measure/ makes; after the last round there are no votes to measure.
    "cost/*/after": "cost/*/round",
    "figures/*/after": "figures/*/round",
    **{f"figures/2/{name}": "figures/2/concentration" for name in ("effective", "kept_share", "probe_share")},
    **{f"figures/*/{name}": f"figures/*/concentration/{name}" for name in ("effective", "kept_share", "probe_share")},
    **{f"figures/*/distinct_{n}": f"figures/*/variety/distinct_{n}" for n in (1, 2, 3)},
    **{f"figures/*/{name}": f"figures/*/variety/{name}" for name in ("duplicates", "near_duplicates")},
}
"""Parts of paths that have another name now, old to new, such as ``"ladder/attack": "ladder/supremum"``.

A part is one key or several, anywhere in a path; ``*`` is any one key, and stands for the same key in the new name.
Seed addresses are renamed by the same table: they begin with ``seeds``, and their numbers with ``#``. A recorded list
whose items are leaves of their own now has a new name with ``[i]``, the number of the item.
"""

CHANGED: Mapping[str, str] = {}
"""Figures that an issue changes on purpose: a pattern of today's paths (``*`` is anything), and the reason.

Leaves that match are not compared, and seed addresses that match may come or go. An entry that excuses nothing in a
recording that it is about fails.
"""

TOLERANCES: tuple[tuple[str, float], ...] = (
    # Computed from counts: the same to the last bit wherever the counts are.
    ("*/bound/*", 0.0),
    ("*/headline/*", 0.0),
    ("*/pooled/*", 0.0),
    ("*/observed", 0.0),
    ("*/observed/*", 0.0),
    # Pictures, written with six digits, from single precision.
    ("*/evidence/*", 1e-5),
    # The forecast of pooled counts at a calibrated threshold goes in steps.
    ("*-method-pooled/*/expected/*", 0.02),
    ("*/cells/*pooled*/expected", 0.02),
    ("*/cells/*pooled*/likely/*", 0.02),
    # A threshold is searched for on a curve that is flat at its top, and these follow from it.
    ("*/threshold", 1e-5),
    ("*/threshold/value", 1e-5),
    ("*_rate/*", 1e-5),
    ("*/rule", 1e-5),
    ("*/rule/*", 1e-5),
    ("*/expected*", 1e-7),
    ("*/likely/*", 1e-7),
    # Composed over rounds by Fourier transforms.
    ("*attacks/[0-9]/*", 1e-9),
    ("*/rounds/*", 1e-9),
    ("*evolution.json/*", 1e-9),
    ("*", 1e-12),
)
"""How far floats may be apart on another processor, relative to the larger; the first pattern that fits holds.

Integers never differ. The other figures do: by the processor, the threads of BLAS, and the releases of numpy, scipy and
the C library. Each line is a tenfold or more of what differed when this machine posed as others (OPENBLAS_CORETYPE
Haswell and Nehalem, NPY_DISABLE_CPU_FEATURES, GLIBC_TUNABLES). With CANARYBANK_EXACT_LEAVES=1 every figure must be the
same to the last bit: for the machine that recorded them, with OMP_NUM_THREADS=1.
"""

Leaf = int | float | None | list[Any]
_NAMES = ("attack", "canary", "at")
_HASHED = re.compile(r"-[0-9a-f]{8}(?=/)")
_AS = "as "
_ITEM = "[i]"
_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def leaves(document: Any, path: str) -> Iterator[tuple[str, Leaf]]:
    """Yield each number and null of a document with its path; a list of nothing but numbers is one leaf."""
    if document is None or _is_number(document):
        yield path, document
    elif isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, f"{path}/{key}")
    elif isinstance(document, list):
        if document and _is_numeric(document):
            yield path, document
            return
        for key, value in zip(_item_names(document), document, strict=True):
            yield from leaves(value, f"{path}/{key}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numeric(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, list) and all(_is_numeric(each) for each in value))


def _item_names(items: list[Any]) -> list[str]:
    """Name the items of a list by what they say of themselves, where that tells them apart; else by number."""
    for name in _NAMES:
        named = [_item_name(item[name]) for item in items if isinstance(item, dict) and name in item]
        if len(set(named)) == len(items):
            return named
    return [str(index) for index in range(len(items))]


def _item_name(value: Any) -> str:
    return ",".join(str(each) for each in value.values()) if isinstance(value, dict) else str(value)


def left_out(path: str) -> bool:
    """Return whether a path holds no figure."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in LEFT_OUT)


def written_leaves(folder: Path, printed: Any) -> dict[str, Leaf]:
    """Return the leaves of all JSON documents below a folder, and of the one that was printed."""
    documents = {"printed": printed}
    for path in sorted(folder.rglob("*.json")):
        documents[_HASHED.sub("", path.relative_to(folder).as_posix())] = json.loads(path.read_text(encoding="utf-8"))
    found = (leaf for name, document in documents.items() for leaf in leaves(document, name))
    return {path: value for path, value in found if not left_out(path)}


def run(name: str, folder: Path) -> dict[str, Any]:
    """Run a command in an empty folder; return its leaves, and the seed addresses it asked for."""
    from canarybank import seeds
    from canarybank.cli import main

    asked: set[str] = set()
    real = seeds.sequence

    def sequence(seed: int, *path: str | int) -> Any:
        parts = (part if isinstance(part, str) else f"#{part}" for part in path)
        asked.add("/".join(("seeds", f"#{seed}", *parts)))
        return real(seed, *path)

    out, err = io.StringIO(), io.StringIO()
    words = [*COMMANDS[name], "--folder", name, "--run.workers", "1", "--json", "--quiet"]
    with (
        mock.patch.dict(os.environ, {"CANARYBANK_CACHE": str(folder / "cache")}),
        mock.patch.object(seeds, "sequence", sequence),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(words)
    if code != 0:
        raise AssertionError(f"canarybank {' '.join(words)} ended with {code}: {err.getvalue()}")
    return {"leaves": written_leaves(folder / name, json.loads(out.getvalue())), "seeds": sorted(asked)}


def compare(
    recorded: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    renamed: Mapping[str, str] = RENAMED,
    changed: Mapping[str, str] = CHANGED,
    exact: bool | None = None,
) -> list[str]:
    """Return one line for each recorded leaf that is gone or differs, and each seed address that came or went.

    New leaves are no difference: what was recorded is what must stay.
    """
    exact = bool(os.environ.get("CANARYBANK_EXACT_LEAVES")) if exact is None else exact
    lines = []
    for path, value in _renamed_leaves(recorded["leaves"], renamed):
        if _matches(path, changed):
            continue
        if path not in found["leaves"]:
            lines.append(f"{path}: was {_short(value)}, and is not written now")
        elif not _same(value, found["leaves"][path], 0.0 if exact else tolerance(path)):
            lines.append(f"{path}: was {_short(value)}, is {_short(found['leaves'][path])}")
    before, after = {rename(path, renamed) for path in recorded["seeds"]}, set(found["seeds"])
    moved = [path for path in sorted(before ^ after) if not _matches(path, changed)]
    said = {True: "no longer asked for", False: "asked for now, and not before"}
    return [*lines, *(f"{path}: {said[path in before]}" for path in moved)]


def _renamed_leaves(recorded: Mapping[str, Leaf], renamed: Mapping[str, str]) -> Iterator[tuple[str, Leaf]]:
    """Yield the recorded leaves under the paths that they have now, items of a list that was taken apart each alone."""
    for old, value in recorded.items():
        path = rename(old, renamed)
        if _ITEM in path and isinstance(value, list):
            yield from ((path.replace(_ITEM, str(index)), item) for index, item in enumerate(value))
        else:
            yield path, value


def concerns(pattern: str, recorded: Mapping[str, Any]) -> bool:
    """Return whether an entry of ``CHANGED`` is about leaves or seed addresses of this recording."""
    paths = [rename(path, RENAMED) for path in (*recorded["leaves"], *recorded["seeds"])]
    return bool(fnmatch.filter(paths, pattern))


def excuses(pattern: str, differences: list[str]) -> bool:
    """Return whether an entry of ``CHANGED`` excuses one of the differences that there would be without it."""
    return bool(fnmatch.filter([line.partition(": ")[0] for line in differences], pattern))


def rename(path: str, renamed: Mapping[str, str]) -> str:
    """Return a recorded path as it is called now."""
    for old, new in renamed.items():
        keys = "/".join("([^/]+)" if key == "*" else re.escape(key) for key in old.split("/"))
        groups = iter(range(1, old.split("/").count("*") + 1))
        now = "/".join(f"\\{next(groups)}" if key == "*" else key.replace("\\", "\\\\") for key in new.split("/"))
        path = re.sub(f"(?<![^/]){keys}(?![^/])", now, path)
    return path


def _matches(path: str, patterns: Any) -> bool:
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def tolerance(path: str) -> float:
    """Return how far a float at a path may be from the recorded one, relative to the larger."""
    return next(allowed for pattern, allowed in TOLERANCES if fnmatch.fnmatchcase(path, pattern))


def _same(before: Leaf, now: Leaf, allowed: float, scale: float = 0.0) -> bool:
    """Compare two leaves; the items of a list are compared relative to its largest."""
    if isinstance(before, list) and isinstance(now, list):
        largest = max((abs(each) for each in before if isinstance(each, float) and math.isfinite(each)), default=0.0)
        pairs = zip(before, now, strict=False)
        return len(before) == len(now) and all(_same(*pair, allowed, largest) for pair in pairs)
    if isinstance(before, float) and isinstance(now, float):
        both_nan = math.isnan(before) and math.isnan(now)
        return both_nan or math.isclose(before, now, rel_tol=allowed, abs_tol=allowed * scale)
    return before == now


def _short(value: Leaf, most: int = 100) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def write_fixture(path: Path, recording: Mapping[str, Any]) -> None:
    """Write a recording as JSON, one leaf a line, a list that comes again as "as" and the path of the first.

    Python writes the shortest digits that give the same float, so nothing is lost.
    """
    rows, kept = [], {}
    for key, value in sorted(recording["leaves"].items()):
        text = _text(value)
        first = kept.setdefault(text, key) if isinstance(value, list) else key
        rows.append(f"  {json.dumps(key)}: {text if first == key else json.dumps(_AS + first)}")
    seeds = [f"  {json.dumps(address)}" for address in recording["seeds"]]
    text = '{\n "leaves": {\n' + ",\n".join(rows) + '\n },\n "seeds": [\n' + ",\n".join(seeds) + "\n ]\n}\n"
    path.write_text(text, encoding="utf-8")


def _text(value: Leaf) -> str:
    """Return a leaf as strict JSON: what is not finite becomes a word."""
    if isinstance(value, list):
        return f"[{','.join(_text(each) for each in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(repr(value))
    return json.dumps(value)


def read_fixture(path: Path) -> dict[str, Any]:
    """Return a recording that was written as a fixture."""
    recording: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kept = recording["leaves"]
    for key, leaf in kept.items():
        same = kept[leaf.removeprefix(_AS)] if isinstance(leaf, str) and leaf.startswith(_AS) else leaf
        kept[key] = _value(same)
    return recording


def _value(leaf: Any) -> Any:
    if isinstance(leaf, list):
        return [_value(each) for each in leaf]
    return _WORDS[leaf] if isinstance(leaf, str) else leaf


if __name__ == "__main__":
    for asked_for in sys.argv[1:] or COMMANDS:
        with tempfile.TemporaryDirectory() as temporary:
            write_fixture(HERE / f"{asked_for}.json", run(asked_for, Path(temporary)))
