import json
import math
import re
from pathlib import Path

import pytest

from canarybank.run.commitment import Record
from canarybank.run.results import IntervalRecord, Results, RungRecord, schema
from canarybank.score import Interval

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["results", "commitment"])
def test_the_schema_is_the_golden_one(name):
    """Regenerate after a deliberate change: python tests/flow/golden/make.py"""
    assert schema()[name] == json.loads((GOLDEN / f"{name}.schema.json").read_text())


def test_every_field_says_what_it_is():
    for kind in Record.__subclasses__():
        assert kind.__doc__
        for name, field in kind.model_fields.items():
            assert (field.description or "").endswith("."), f"{kind.__name__}.{name}"


def test_the_file_reads_back_to_the_same_bytes(finished):
    text = (finished.folder / "results.json").read_text()
    assert Results.model_validate(json.loads(text)).text() == text


def test_results_from_before_pools_were_recorded_are_read(finished):
    kept = json.loads((finished.folder / "results.json").read_text())
    del kept["setup"]["bank_counters"]
    for attack in kept["attacks"]:
        for canary in attack["canaries"]:
            del canary["pool"]
    assert Results.model_validate(kept) == finished.results


def test_the_file_holds_no_time_and_no_host(finished):
    import socket

    text = (finished.folder / "results.json").read_text()
    # A short name of a machine may be a part of any word or number.
    assert not re.search(rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w.-])", text)
    assert str(finished.folder) not in text
    assert not {"started", "finished", "seconds"} & set(json.loads(text))


def test_what_is_infinite_is_null():
    assert IntervalRecord.model_validate(Interval(1.0, math.inf)).upper is None
    assert RungRecord(name="rule", epsilon=math.inf, low=0.0, high=math.inf, source="x").epsilon is None


def test_attacks_are_found_by_name(finished):
    results = finished.results
    record = results.attack("nonce-norm")
    best = record.canaries[record.headline_canary]
    assert best.bound.epsilon == max(canary.bound.epsilon for canary in record.canaries) == record.headline.epsilon
    assert record.evidence["canary"] == best.canary
    assert record.ladder.observed.epsilon == record.headline.epsilon
    assert record.ladder.mechanism.epsilon == results.epsilon
    assert "nonces, not people" in record.notes[0]
