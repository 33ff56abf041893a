"""DPSDA, unmodified: the tap, the claim, and audits of it, in a process of their own."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from canarybank.errors import InputError
from canarybank.systems import Trial, dpsda

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "audit_dpsda.py"
PEERS = Path(os.environ.get("CANARYBANK_PEERS", ROOT.parent / "shared" / "peers"))
MISSING = [
    name for name in ("pandas", "omegaconf", "generalimport", "sklearn", "torch") if not importlib.util.find_spec(name)
]

with_peer = pytest.mark.skipif(
    bool(MISSING) or not (PEERS / "DPSDA" / "pe").is_dir(),
    reason=(
        f"DPSDA needs {', '.join(MISSING)}: install canarybank[dpsda]."
        if MISSING
        else f"No DPSDA in {PEERS.name!r}. Clone microsoft/DPSDA there, or name its parent folder in CANARYBANK_PEERS."
    ),
)

PRELUDE = f"""
import hashlib, json, logging, sys, warnings
sys.path.insert(0, {str(TOOL.parent)!r})
import numpy as np
import audit_dpsda as tool
from canarybank.systems import dpsda
from dataclasses import replace
from pathlib import Path
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
peer = tool.load_peer(tool.find_peers())
settings = {{setting.name: setting for setting in tool.SETTINGS}}
"""


def python(*arguments, at=None):
    environment = {**os.environ, "CANARYBANK_PEERS": str(PEERS), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment, cwd=at
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def block(start):
    """Return the block of Python in the docs that begins so, and what the docs say that it prints."""
    page = (ROOT / "docs" / "dpsda.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"```python\n({re.escape(start)}.*?)```(?:[^`]*?```text\n(.*?)```)?", page, re.DOTALL)
    return found


def lines(code):
    return [line for line in code.splitlines() if line.strip()]


def test_what_is_no_pe_is_refused():
    with pytest.raises(InputError, match=r"not a pe\.runner\.PE"):
        dpsda.tap(object())


def test_nothing_of_dpsda_is_imported_before_it_is_used():
    loaded = "import sys, canarybank.systems.dpsda; print({'pe', 'pandas', 'torch', 'omegaconf'} & set(sys.modules))"
    assert python("-c", loaded).strip() == "set()"


@pytest.mark.parametrize("iterations", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
def test_the_claim_is_that_of_one_gaussian_release_with_the_square_root_of_the_iterations(iterations, epsilon):
    claim = dpsda.claim([5] * (iterations + 1), 1e-5, epsilon=epsilon, save_checkpoint=False)
    ratio = iterations**0.5 / claim.mechanism.sigma
    delta = norm.cdf(-epsilon / ratio + ratio / 2) - math.exp(epsilon) * norm.cdf(-epsilon / ratio - ratio / 2)
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert (claim.epsilon, claim.delta, claim.rounds, claim.refutation) == (epsilon, 1e-5, iterations, None)
    again = dpsda.claim([5] * (iterations + 1), 1e-5, noise_multiplier=claim.mechanism.sigma)
    assert again.epsilon == pytest.approx(epsilon, rel=3e-6)


@pytest.mark.parametrize("given", [{}, {"epsilon": 1.0, "noise_multiplier": 1.0}])
def test_a_run_without_a_budget_claims_nothing(given):
    with pytest.raises(InputError, match="either an epsilon or a noise multiplier"):
        dpsda.claim([5, 5], 1e-5, **given)


def test_a_canary_without_rows_is_refused():
    trial = Trial(1, "eligible", "other", "fit")
    with pytest.raises(InputError, match="no rows of the canary 'other'"):
        dpsda.system(lambda rows: rows, {"canary": []}).play([trial], np.random.default_rng(0))


def test_recorded_releases_are_not_written_over(tmp_path):
    (tmp_path / "releases.csv").touch()
    with pytest.raises(InputError, match="is there already"):
        dpsda.record(lambda rows: rows, tmp_path, tmp_path / "releases.csv")


@with_peer
def test_the_tap_changes_nothing_and_records_what_is_released():
    script = """
setting = tool.Setting("any", "client", labels=3, iterations=2)
run = setting.run(4)
frames = []
for tapped in (False, True):
    pe = tool.build_points(setting, tool.person_rows(setting))
    log = dpsda.tap(pe) if tapped else None
    assert log is None or dpsda.tap(pe) is log
    released, add_noise = [], (log._dp if tapped else pe._dp).add_noise
    def record(syn_data):
        noisy = add_noise(syn_data=syn_data)
        released.append(noisy.data_frame["PE.DP_HISTOGRAM"].tolist())
        return noisy
    (log._dp if tapped else pe._dp).add_noise = record
    np.random.seed(1)
    frames.append(pe.run(**run).data_frame.to_json())
    frames.append(released)
assert frames[:2] == frames[2:]
first, second = log.observation()
assert first.tolist() == sum(released[:3], []) and second.tolist() == sum(released[3:], [])
assert [(h.iteration, h.label, h.name) for h in log.histograms] == [
    (i, l, name) for i in (1, 2) for l, name in enumerate(("food", "travel", "music"))]
points = [list(point) for point in tool.POINTS.values()]
assert {label: bank.tolist() for label, bank in log.banks(2).items()} == {label: points for label in range(3)}
pe.run(**run)
assert len(log.observation()) == 2 and log.observation()[0].tolist() != first.tolist()
for each in settings.values():
    log.set_epsilon_and_delta(num_iterations=each.iterations, epsilon=each.epsilon, delta=1e-5, noise_multiplier=None)
    assert abs(log._noise_multiplier - each.run(4)["noise_multiplier"]) < 1e-9
system = dpsda.system(lambda rows: tool.build_points(setting, rows), {"canary": []}, **run)
np.random.seed(5)
before = np.random.get_state()[1].tolist()
one, other = (system.once([], np.random.default_rng(seed)).observation()[0].tolist() for seed in (1, 2))
again = system.once([], np.random.default_rng(1)).observation()[0].tolist()
assert one == again != other and np.random.get_state()[1].tolist() == before
print(json.dumps("done"))
"""
    assert json.loads(python("-c", PRELUDE + script)) == "done"


@with_peer
def test_the_norm_that_a_person_attains_without_the_noise():
    script = """
grown = [replace(settings["client level, two labels, two iterations"], clients=clients) for clients in (6, 12)]
print(json.dumps([[tool.attained_norm(each) for each in found] for found in (settings.values(), grown)]))
"""
    norms, grown = json.loads(python("-c", PRELUDE + script))
    two = 2.0**0.5
    assert norms == pytest.approx([1.0, two, 1.0, two, 1.0, 5.0**0.5, 12.3393, two], rel=1e-4)
    assert grown == pytest.approx([2.8936, 5.9371], rel=1e-4)


@pytest.mark.slow
@with_peer
def test_committed_audits_from_python_and_by_the_commands_refute_the_one_setting_and_no_control(tmp_path):
    script = f"""
tool.ALPHA = 0.05
small = dict(judged=20, apart=10)
moved = replace(settings["client level, two labels, two iterations"], clients=16, **small)
control = replace(settings["sample level, one label"], **small)
for setting in (moved, control):
    for way in tool.WAYS:
        folder = Path({str(tmp_path)!r}) / f"{{way}} {{setting.level}}"
        line, digest = tool.audit(way, setting, folder, seed=7)
        committed = next(folder.rglob("commitment.json"))
        assert hashlib.sha256(committed.read_bytes()).hexdigest() == digest and digest[:12] in line
        sealed, results = committed.with_name("sealed.json"), committed.with_name("results.json")
        assert committed.stat().st_mtime_ns <= sealed.stat().st_mtime_ns <= results.stat().st_mtime_ns
        print(way, setting.level, line.strip(" |").split(" | ")[-1])
"""
    assert python("-c", PRELUDE + script).splitlines() == [
        "Python client refuted",
        "commands client refuted",
        "Python sample stands",
        "commands sample stands",
    ]


@with_peer
def test_the_reproduction_in_the_docs_prints_what_the_docs_say():
    code, printed = block("import numpy")
    assert len(lines(code)) < 30
    assert python("-c", PRELUDE + code) == printed


@pytest.mark.slow
@with_peer
def test_the_audit_of_your_own_pe_in_the_docs_runs(tmp_path):
    code, _ = block("import canarybank")
    assert len(lines(code)) < 20
    own = """
setting = tool.Setting("yours", "client", labels=2, iterations=2)
private_rows = [{"text": "ac"[c % 2], "PE.LABEL_ID": label, "PE.CLIENT_ID": c} for c in range(6) for label in range(2)]
label_info = [{"name": name} for name in setting.topics]
population, histogram = (getattr(tool.build_points(setting, []), name) for name in ("_population", "_histogram"))
"""
    short = code.replace("trials=200", "trials=8")
    assert short != code
    printed = python("-c", PRELUDE + own + short, at=tmp_path)
    assert "epsilon 4 at delta 1e-05 for adding or removing one user, over 2 releases" in printed
    assert (tmp_path / "dpsda-audit" / "commitment.json").is_file()
