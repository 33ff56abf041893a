"""The study of attacks computes what an audit computes, and counts the votes that stand in the way."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from canarybank.auditing import MemoryTally
from canarybank.mechanism import Mechanism, contributions, epsilon, route

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture(scope="module")
def study():
    sys.path.insert(0, str(TOOLS))
    try:
        yield runpy.run_path(str(TOOLS / "search_study.py"))
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def designed(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    work, seconds = study["timed_designs"](flags(study, folder), folder)
    assert seconds > 0
    return work, study["_reached"]("short", "nonce-norm", work, seconds, "own", 0)


def flags(study, folder):
    study["write_set"](folder, "short", users=40)
    return {
        "users.source": str(folder / "short.jsonl"),
        "bank.source": str(folder / "short-bank.jsonl"),
        "bank.size": 300,
        "attack.names": ("nonce-norm",),
        "attack.probes": 8,
        "attack.pool": 16,
        "cohorts.canaries": 2,
        "audit.threshold": "analytic",
        "audit.trials": 1000,
    }


def test_the_study_finds_what_an_audit_finds(designed):
    work, row = designed
    (found,) = work.attacks(MemoryTally())
    assert row.exact == tuple(each.exact for each in found.canaries)
    assert row.rule == tuple(each.rule.lower for each in found.canaries)
    assert row.mechanism == epsilon(Mechanism()) == found.ladder.mechanism.epsilon
    assert 0 < row.share < 1


def test_votes_in_the_way_are_counted_as_by_routing_every_record_again(designed):
    work, row = designed
    users, mechanism = work.routes[0].evaluation.cohort.users, work.designs.mechanism
    for case, background in zip(work.cases, row.backgrounds, strict=True):
        (design,) = case.designs
        routes = route(users.require_vectors(), design.bank, mechanism.k)
        chosen = np.isin(routes, design.inspected)
        assert sum(background.votes) == chosen.sum() > 0
        assert background.users == len(set(users.owners[chosen.any(axis=1)]))
        assert background.votes == tuple(sorted(background.votes, reverse=True))
        busiest = int(np.bincount(routes[chosen]).argmax())
        assert background.votes[0] == (routes == busiest).sum()
        assert design.bank.texts[busiest] == background.texts[0]
        theirs = sum(
            mechanism.q * (1 - mechanism.q) * (votes[design.inspected] @ design.score.weights) ** 2
            for votes in contributions(routes, users.owners, len(users), design.bank.size, mechanism.clip).toarray()
        )
        noise = sum((mechanism.sigma * mechanism.clip * weight) ** 2 for weight in design.score.weights)
        assert background.variance == pytest.approx(theirs / (theirs + noise))
        own = route(design.canary.vectors, design.bank, mechanism.k)
        counts = np.bincount(own.ravel(), minlength=design.bank.size)
        assert background.shift == pytest.approx(np.linalg.norm(counts[design.inspected]) / np.linalg.norm(counts))


def test_what_falls_short_is_named_with_its_background(study, designed):
    _, row = designed
    lines = list(study["short_of"](row))
    assert len(lines) == sum(value < 0.97 * row.mechanism for value in row.exact) > 0
    assert all(str(background) in line for line, background in zip(lines, row.backgrounds, strict=False))


def test_a_search_can_be_limited_to_a_family_and_its_decoys_are_not_counted_as_probes(study, tmp_path):
    settings = {**flags(study, tmp_path), "cohorts.canaries": 1}
    (row,) = study["measure"]("short", ["searched"], settings, families=["braille"])
    (facts,), (background,) = row.search, row.backgrounds
    assert facts["family"] == "braille"
    assert len(background.votes) == facts["probes"] == 5
    assert facts["decoys"] > 0
    (line,) = list(study["show_search"]([row]))[2:]
    assert f"| braille | {facts['epsilon']:.4f} |" in line
    assert "| yes |" in line
