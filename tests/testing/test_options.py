"""Every key of the configuration is tried in the neighbour test, or refused in a real run, or not read by one.

The tables below walk the configuration's model. A new key fails ``test_no_key_is_forgotten`` until it stands in one.
"""

from unittest.mock import patch

import pytest

from canarybank.experiment import fields
from canarybank.generate import ResponseCache
from canarybank.mechanism import Account
from canarybank.testing import compare_worlds

# Settings of real runs beside those of the fixture, each with a format; {lab} is the folder of the fixture.
TRIED = {
    "how a file is read": (
        "csv",
        {
            "users.format": "csv",
            "users.user": "user",
            "users.text": "text",
            "users.label": "label",
            "users.encoding": "utf-8",
            "users.quote": "'",
            "users.strict": False,
        },
    ),
    "a file in an archive": ("zip", {"users.member": "users.csv"}),
    "who is admitted": (
        "csv",
        {
            "users.minimum": 2,
            "users.maximum": 5,
            "users.cap": 3,
            "users.minimum_words": 2,
            "users.labels": ["a"],
            "cohorts.seed": 4,
        },
    ),
    "the encoder": (
        "csv",
        {
            "encoder.name": "wordllama",
            "encoder.device": "cpu",
            "encoder.batch_size": 3,
            "encoder.precision": "float32",
            "evolve.rounds": 1,
        },
    ),
    "a bank that is written": (
        "csv",
        {
            "bank.source": "generate",
            "bank.size": 20,
            "bank.labels": ["food", "travel"],
            "bank.prompt": "bank-examples",
            "bank.examples": "{lab}/bank.txt",
            "bank.shots": 2,
            "bank.near": 0.99,
            "bank.tries": 20,
            "bank.seed": 3,
        },
    ),
    "a bank from a table": ("csv", {"bank.source": "{lab}/bank.csv", "bank.text": "entry", "bank.size": 20}),
    "the generator": (
        "csv",
        {
            "generator.kind": "openai",
            "generator.model": "m",
            "generator.revision": "r",
            "generator.prefill": True,
            "generator.base_url": "http://127.0.0.1:9/v1",
            "generator.api_key_env": "NO_KEY",
            "generator.concurrency": 2,
            "generator.deadline": 5.0,
            "generator.max_tokens": 10**9,
            "generator.max_cost": 10.0,
            "generator.prompt_price": 1.0,
            "generator.completion_price": 1.0,
            "generator.device": "cpu",
            "generator.threads": 1,
            "evolve.responses": "{lab}/answers.jsonl.gz",
        },
    ),
    "the mechanism": (
        "csv",
        {
            "mechanism.k": 1,
            "mechanism.clip": 0.7,
            "mechanism.sigma": 2.5,
            "mechanism.q": 1.0,
            "mechanism.delta": 1e-6,
            "evolve.noise": "float",
        },
    ),
    "the rounds": (
        "csv",
        {
            "evolve.rounds": 3,
            "evolve.share": 0.4,
            "evolve.keep": 9,
            "evolve.new": 12,
            "evolve.feedback": "in-context",
            "evolve.prompt": "continue",
            "evolve.high": 2,
            "evolve.low": 0,
            "evolve.kind": "a line",
            "evolve.near": 0.99,
            "evolve.tries": 50,
            "evolve.seed": 8,
            "run.workers": 1,
        },
    ),
    "paraphrases as feedback": ("csv", {"evolve.feedback": "paraphrase", "evolve.rounds": 1}),
    "sigma and q from what is declared": (
        "csv",
        {"evolve.epsilon": 6.0, "evolve.users": 4, "evolve.population": 10, "evolve.rounds": 1},
    ),
    "a budget that ends the run": ("csv", {"evolve.budget": 4.0}),
    "an account": ("csv", {"evolve.account": "{place}/account", "mechanism.q": 0.5, "mechanism.sigma": 1.0}),
}

# Values that a real run refuses, with what it says to set.
REFUSED = {
    "users.strict": (True, "Leave it out"),
    "users.limit": (5, "lower mechanism.q"),
    "encoder.name": ("vectors.npz", "such as wordllama"),
    "evolve.users": (4, "Set evolve.population"),
    "evolve.reference": (2, "Set evolve.reference to 0"),
    "evolve.audit": ("nonce", "Leave evolve.audit out"),
}

# Keys that say what a real evolution does not do: audits, and figures of utility.
UNREAD = {
    "cohorts.auxiliary": 2,
    "cohorts.calibration": 2,
    "cohorts.evaluation": 2,
    "cohorts.canaries": 1,
    "cohorts.shared": True,
    "cohorts.fixed": ["3"],
    "attack.names": ["nonce"],
    "attack.probes": 3,
    "attack.pool": 7,
    "attack.paraphrase_prompt": "continue",
    "attack.similarity": 0.5,
    "attack.tries": 3.0,
    "attack.send_records": True,
    "audit.trials": 77,
    "audit.alpha": 0.2,
    "audit.method": "joint",
    "audit.threshold": "analytic",
    "audit.engine": "literal",
    "audit.accounted": 3.0,
    "evolve.mauve": False,
    "evolve.buckets": 3,
    "evolve.compare": False,
    "run.seed": 5,
}

# What every run of these tests has or must not have.
ALWAYS = {"users.source", "evolve.insecure_seed"}

NEWCOMER = [("new", "the cat in the rain", "HIV clinic"), ("new", "soup", "a"), ("new", "bread and soup", "a")] * 3


def test_no_key_is_forgotten():
    tried = {key for _, settings in TRIED.values() for key in settings}
    assert tried | set(REFUSED) | set(UNREAD) | ALWAYS == set(fields())
    assert not tried & set(UNREAD)
    assert not set(REFUSED) & set(UNREAD)


@pytest.fixture(scope="module")
def prepared(lab):
    """Write what some settings name."""
    texts = (lab.folder / "bank.txt").read_text().splitlines()
    (lab.folder / "bank.csv").write_text("\n".join(["entry", *texts]) + "\n")
    ResponseCache().export(lab.folder / "answers.jsonl.gz")
    return lab


def placed(value, lab):
    return value.format(lab=lab.folder, place=lab.folder / "place") if isinstance(value, str) else value


@pytest.mark.parametrize("case", TRIED)
def test_no_option_lets_anything_leave(case, prepared):
    lab, (kind, chosen) = prepared, TRIED[case]
    settings = {key: placed(value, lab) for key, value in chosen.items()}

    def perform(values, folder, releaser):
        if "evolve.account" in values:
            Account.open(values["evolve.account"], "the people", budget=20.0, q=0.5, sigma=1.0)
        return lab.python(values, folder, releaser)

    without, joined = lab.file(kind), lab.file(kind, lab.joined(NEWCOMER, "middle"))
    worlds = [lab.world(users, kind, settings, perform) for users in (without, joined)]
    assert worlds[0].performance.code == 0, worlds[0].performance.err
    assert worlds[0].has_run
    assert compare_worlds(*worlds) == ()


@pytest.mark.parametrize("key", REFUSED)
def test_what_cannot_be_private_is_refused_before_anything_is_read(key, lab):
    value, fix = REFUSED[key]
    with patch("canarybank.experiment.admitted.users_source", side_effect=AssertionError("users were read")):
        world = lab.world(lab.file("csv"), settings={key: value})
    assert world.performance.code == 2
    assert fix in world.performance.err
    assert "--insecure-seed 0" in world.performance.err
    assert not world.files


def test_a_simulation_is_not_refused(lab):
    values = {"users.strict": True, "users.limit": 7, "evolve.users": 4, "evolve.reference": 2, "evolve.mauve": False}
    world = lab.world(lab.file("csv"), settings={**values, "evolve.insecure_seed": 0})
    assert world.performance.code == 0
    assert b'"voters": 5' in world.files["results.json"]


def test_what_a_real_run_does_not_read_changes_no_byte(lab):
    usual, changed = (lab.world(lab.file("csv"), settings=settings) for settings in ({}, UNREAD))
    assert usual.performance == changed.performance
    apart = {"manifest.json", "results.json"}
    assert {name for name in usual.files if usual.files[name] != changed.files[name]} <= apart
