"""Every key of the configuration is tried in the neighbour test, or refused in a real run, or not read by one.

The tables below walk the configuration's model. A new key fails ``test_no_key_is_forgotten`` until it stands in one.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, get_args, get_origin
from unittest.mock import patch

import numpy as np
import pytest

from canarybank.config import fields
from canarybank.config.loading import registered
from canarybank.errors import MissingError
from canarybank.generate import ResponseCache
from canarybank.mechanism import Account, Mechanism, epsilon
from canarybank.testing import Performance, compare_worlds, perform_evolution

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
            "encoder.keep_vectors": False,
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
    "the embedded bank": ("csv", {"bank.source": "embedded", "bank.size": 30, "evolve.rounds": 1}),
    "in-context feedback over labels": (
        "jsonl",
        {
            "bank.source": "generate",
            "bank.size": 12,
            "bank.labels": ["food"],
            "evolve.feedback": "in-context",
            "evolve.noise": "discrete",
            "users.format": "jsonl",
            "users.cap": 1,
            "mechanism.q": 0.05,
            "mechanism.k": 9,
            "evolve.keep": 5,
        },
    ),
    "lines between tabs": ("tsv", {"users.format": "tsv", "evolve.rounds": 1}),
    "a table": ("parquet", {"users.format": "parquet", "evolve.rounds": 1}),
    "reviews": ("yelp", {"users.format": "yelp", "users.labels": ["a"], "users.cap": 2, "evolve.rounds": 1}),
    "tweets": ("sentiment140", {"users.format": "sentiment140", "users.minimum": 3, "evolve.rounds": 1}),
    "a bank from a table": ("csv", {"bank.source": "{lab}/bank.csv", "bank.text": "entry", "bank.size": 20}),
    "the generator": (
        "csv",
        {
            "generator.kind": "scripted_answers:write",
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
    "the defences": ("csv", {"mechanism.share": 0.5, "mechanism.entry_cap": 0.2, "mechanism.k": 3}),
    "vetting": ("csv", {"bank.source": "embedded", "bank.size": 200, "bank.vet": True, "evolve.rounds": 1}),
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
            "run.shards": 2,
            "run.engine": "serial",
        },
    ),
    "paraphrases as feedback": (
        "csv",
        {"evolve.feedback": "paraphrase", "evolve.rounds": 1, "run.engine": "processes"},
    ),
    "a cluster that is started here": (
        "csv",
        {"run.engine": "ray", "run.workers": 2, "run.shards": 2, "evolve.rounds": 1},
    ),
    "a cluster that is joined": (
        "csv",
        {"run.engine": "engine_tasks:Joining", "run.address": "head:6379", "run.shards": 2, "evolve.rounds": 1},
    ),
    "the keeper votes, parents in turn, vary": (
        "csv",
        {"evolve.keeper": "votes", "evolve.parents": "turns", "evolve.feedback": "vary", "evolve.vary_prompt": "vary"}
        | {"evolve.distance": [0.2, 1.0]},
    ),
    "the keeper threshold, parents by votes, blanks, nothing carried on": (
        "csv",
        {"evolve.keeper": "threshold", "evolve.threshold": 0.5, "evolve.parents": "votes", "evolve.feedback": "blanks"}
        | {"evolve.blanks_prompt": "blanks", "evolve.carry": False, "evolve.temperature": [1.1, 0.7]},
    ),
    "the keeper clusters, neighbours as examples": (
        "csv",
        {"evolve.keeper": "clusters", "evolve.threshold": 0.1, "evolve.parents": "neighbours"},
    ),
    "the keeper projection, fresh candidates": ("csv", {"evolve.keeper": "projection", "evolve.feedback": "fresh"}),
    "a mixture of rules over rounds": (
        "csv",
        {"evolve.keeper": "top", "evolve.parents": "even", "evolve.share": [0.5, 0.3], "evolve.sample": 30}
        | {"evolve.feedback": "in-context:0.4,paraphrase:0.2,vary:0.2,blanks:0.1,fresh:0.1"},
    ),
    "sigma and q from what is declared": (
        "csv",
        {"evolve.epsilon": 6.0, "evolve.users": 4, "evolve.population": 10, "evolve.rounds": 1},
    ),
    "a budget that ends the run": ("csv", {"evolve.budget": 4.0}),
    "its own canaries": (
        "csv",
        {"evolve.audit_one_run": True, "one_run.canaries": 8, "one_run.coins": "known", "evolve.keep": 3}
        | {"one_run.evidence": ["known-coins"]},
    ),
    "canaries left out by fair coins": (
        "csv",
        {
            "evolve.audit_one_run": True,
            "one_run.share": 0.9,
            "one_run.style": "ordinary",
            "one_run.coins": "fair",
            "one_run.evidence": ["guessing", "order-statistics"],
            "evolve.keep": 2,
            "evolve.rounds": 1,
        },
    ),
    "canaries where everybody takes part": (
        "csv",
        {"evolve.audit_one_run": True, "one_run.canaries": 8, "one_run.style": "adaptive", "mechanism.q": 1.0}
        | {"evolve.keep": 3, "evolve.rounds": 1},
    ),
    "canaries of every look": (
        "csv",
        {"evolve.audit_one_run": True, "one_run.canaries": 8, "one_run.style": "nonce", "evolve.keep": 3}
        | {"evolve.rounds": 1, "users.cap": 2},
    ),
    "an account": ("csv", {"evolve.account": "{place}/account", "mechanism.q": 0.5, "mechanism.sigma": 1.0}),
}

# Values that a real run refuses, with what it says to set.
REFUSED = {
    "users.strict": (True, "Leave it out"),
    "users.limit": (5, "lower mechanism.q"),
    "encoder.name": ("vectors.npz", "such as wordllama"),
    "evolve.users": (4, "Set evolve.population"),
    "evolve.reference": (2, "Set evolve.reference to 0"),
    "evolve.audit": (["nonce", "ordinary"], "Leave evolve.audit out"),
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
    "audit.system": "a_module_that_is_never_imported:system",
    "system.name": "another",
    "system.mechanism": False,
    "system.neighbours": "replace",
    "system.rounds": 3,
    "system.attack": "nonce",
    "system.eligible": 9,
    "system.by_label": True,
    "system.inspect": "bank",
    "system.canaries": 2,
    "system.runs": 77,
    "system.apart": 33,
    "system.batch": 11,
    "system.scores": ["length"],
    "system.evidence": ["betting"],
    "system.one_run": True,
    "evolve.canaries": 2,
    "evolve.mauve": False,
    "evolve.buckets": 3,
    "evolve.compare": False,
    "run.seed": 5,
}

# What every run of these tests has or must not have.
ALWAYS = {"users.source", "evolve.insecure_seed"}

NOTE = (
    "In a real run each line of the file of users is one row: a field cannot hold a line break, and lines that cannot "
    "be read are skipped without being counted."
)
NEWCOMER = [("new", "the cat in the rain", "HIV clinic"), ("new", "soup", "a"), ("new", "bread and soup", "a")] * 3


def test_no_key_is_forgotten():
    tried = {key for _, settings in TRIED.values() for key in settings}
    assert tried | set(REFUSED) | set(UNREAD) | ALWAYS == set(fields())
    assert not tried & set(UNREAD)
    assert not set(REFUSED) & set(UNREAD)


# Values that no test here tries, with where they are tried, or why none can be.
ELSEWHERE = {
    "encoder.precision": {"float16", "bfloat16"},  # test_a_sentence_transformer_lets_nothing_leave
    "users.format": {"chitchat"},  # the built-in users: a file that is known to the byte, without a neighbour
    "encoder.name": {"minilm", "minilm-l12", "mpnet"},  # test_a_sentence_transformer_lets_nothing_leave
    "generator.kind": {
        "none",  # refused: an evolution needs a generator
        "openai",  # test_requests_to_a_real_server_tell_nothing
        "smollm2",  # these need a model; a scripted generator stands in
        "llamacpp",
        "transformers",
    },
}


def test_no_choice_of_a_key_is_forgotten():
    tried = {"encoder.name": {"hashing"}, "run.engine": {"threads"}}  # of the fixture
    for _, settings in TRIED.values():
        for key, value in settings.items():
            tried.setdefault(key, set()).update(value if isinstance(value, list) else [value])
    for key, field in fields().items():
        if key not in {*UNREAD, *REFUSED}:
            named = registered(field)
            choices = literals(field.annotation) if named is None else set(named.choices)
            assert choices <= tried.get(key, set()) | ELSEWHERE.get(key, set()), key


def literals(kind):
    """Return the words that a type names."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return set().union(*map(literals, get_args(kind)))


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
    with patch("canarybank.flow.inputs.users_source", side_effect=AssertionError("users were read")):
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
    assert figures(usual) == figures(changed)


def figures(world):
    """Return all that results.json says but the settings."""
    found = json.loads(world.files["results.json"])
    del found["audit"], found["seed"], found["evolution"]["evolve"]
    return found


def test_the_results_of_a_real_run_hold_settings_public_figures_and_nothing_else(lab):
    """Every field is named here: a new one fails this test until somebody says why it may leave."""
    found = figures(lab.world(lab.file("csv")))
    facts, notes = found.pop("evolution"), found.pop("notes")
    assert (found.pop("commitment"), found.pop("setup"), found.pop("attacks")) == (None, None, [])
    assert set(found) == {"schema_version", "canarybank", "statement", "mechanism", "rounds", "epsilon"}
    assert found["mechanism"] | {"k": 3, "q": 0.5} == found["mechanism"]
    assert found["rounds"] == 2
    assert found["epsilon"] == pytest.approx(epsilon(Mechanism(**found["mechanism"]), 2))
    assert notes == [NOTE]
    unsaid = ("voters", "utility", "plain", "account", "stopped", "insecure_seed", "certificate", "carried", "clouds")
    assert [facts.pop(name) for name in unsaid] == [None] * len(unsaid)
    assert facts.pop("cost") == []
    # What is left follows from the noisy releases and from public texts.
    assert set(facts) == {"complete", "encoder", "generator", "rounds", "candidates", "examples"}
    spent = {"epsilon", "added_up", "delta", "slack"}
    assert set(facts["rounds"][0]) == {
        "round",
        "bank",
        "root",
        "entries",
        "probes",
        "barred",
        "kept",
        "born",
        *spent,
    }


def test_requests_to_a_real_server_tell_nothing(lab, monkeypatch):
    """The generator is the real one, of the kind openai; a server on this machine answers and records."""
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    with recording_server() as (url, requests):

        def perform(values, folder, releaser):
            requests.clear()
            done = perform_evolution(values, folder, releaser)
            return Performance(done.code, done.out, done.err, tuple(sorted(requests)))

        settings = {
            "generator.kind": "openai",
            "generator.model": "writer",
            "generator.base_url": url,
            "generator.concurrency": 1,
        }
        without, joined = lab.file("csv"), lab.file("csv", lab.joined(NEWCOMER, "first"))
        worlds = [lab.world(users, settings=settings, perform=perform) for users in (without, joined)]
    assert worlds[0].performance.code == 0, worlds[0].performance.err
    assert worlds[0].performance.requests
    assert compare_worlds(*worlds) == ()


@contextmanager
def recording_server():
    """Answer every request for a completion by a sentence that follows from it; yield the address and the requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {key: value for key, value in self.headers.items() if key.lower() != "host"}
            requests.append(f"{self.path} {headers} {asked}")
            seed = int.from_bytes(hashlib.sha256(asked.encode()).digest()[:8], "big")
            message = {"role": "assistant", "content": f"I saw the {sentence(np.random.default_rng(seed))}."}
            usage = {"prompt_tokens": 9, "completion_tokens": 9}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sentence(rng):
    return " ".join(rng.choice(["cat", "dog", "sun", "rain", "soup", "bread", "walk", "blue", "tall"], size=6))


@pytest.mark.models
@pytest.mark.parametrize(
    "precision",
    ["float32", pytest.param("float16", marks=pytest.mark.slow), pytest.param("bfloat16", marks=pytest.mark.slow)],
)
def test_a_sentence_transformer_lets_nothing_leave(precision, lab):
    settings = {"encoder.name": "minilm", "encoder.precision": precision, "evolve.rounds": 1}
    without, joined = lab.file("csv"), lab.file("csv", lab.joined(NEWCOMER, "first"))
    worlds = [lab.world(users, settings=settings) for users in (without, joined)]
    if worlds[0].performance.code == MissingError.exit_code:
        pytest.skip(worlds[0].performance.err)
    assert worlds[0].has_run, worlds[0].performance.err
    assert compare_worlds(*worlds) == ()
