"""The study of defences finds what the study of attacks finds where none is on, and less behind those that help."""

import runpy
import sys
from pathlib import Path

import pytest

from canarybank.score import Interval

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def studies():
    sys.path.insert(0, str(TOOLS))
    try:
        yield tuple(runpy.run_path(str(TOOLS / f"{name}_study.py")) for name in ("defence", "search"))
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def flags(studies, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    studies[1]["write_set"](folder, "short", users=40)
    return {
        "users.source": str(folder / "short.jsonl"),
        "bank.source": str(folder / "short-bank.jsonl"),
        "bank.size": 300,
        "attack.probes": 8,
        "attack.pool": 16,
        "cohorts.canaries": 2,
    }


def test_without_a_defence_it_finds_what_the_study_of_attacks_finds(studies, flags):
    defence, search = studies
    none, capped, _, vetted, *_ = defence["DEFENCES"]
    cells = {each.defence: each for each in defence["measure"]("short", flags, ("nonce-norm",), (none, capped, vetted))}
    (row,) = search["measure"]("short", ("nonce-norm",), flags)
    assert [each.upper for each in cells["none"].epsilons] == pytest.approx(row.exact, abs=1e-6)
    assert all(each.upper <= other.upper for each, other in pairs(cells["cap C/3"], cells["none"]))
    assert all(each.upper <= other.upper for each, other in pairs(cells["vetting"], cells["none"]))


def pairs(one, other):
    return zip(one.epsilons, other.epsilons, strict=True)


@pytest.mark.slow
def test_behind_a_share_the_attack_that_passes_vetting_reaches_less(studies, flags):
    defence, _ = studies
    none, *_, share, _ = defence["DEFENCES"]
    whole, hidden = defence["measure"]("short", flags, ("passing",), (none, share))
    assert len(whole.epsilons) == 2
    assert len(hidden.epsilons) == 1
    assert hidden.median.upper < whole.median.lower


def test_what_is_kept_stands_beside_what_is_reached(studies, flags):
    defence, _ = studies
    kept = defence["fidelities"](flags, defence["DEFENCES"][:1])
    cell = defence["Cell"]("short", "none", "nonce", (Interval(0.5, 0.5), Interval(0.1, 0.2), Interval(0.9, 1.0)))
    assert str(cell) == "0.500"
    lines = list(defence["show"]([cell], kept))
    assert lines[-1] == f"| none | 0.500 | {kept['none'].kept:.1%} | {kept['none'].votes:.1%} |"
    assert kept["none"].top == 15
