import json
import math
import re
from dataclasses import replace

from canarybank.run import Results, Run
from canarybank.run.commitment import Record
from canarybank.run.schema import field_texts
from canarybank.score import Interval


def test_every_field_says_what_it_is():
    for kind in Record.__subclasses__():
        assert kind.__doc__
        said = field_texts(kind)
        for name, field in kind.model_fields.items():
            assert (field.description or said.get(name, "")).endswith("."), f"{kind.__name__}.{name}"


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


def test_what_is_infinite_is_null_in_the_file_and_infinite_when_it_is_read(finished, copied):
    first, second = finished.results.attacks
    ladder = replace(first.ladder, rule=replace(first.ladder.rule, epsilon=math.inf, high=math.inf))
    canary = replace(first.canaries[0], supremum=Interval(1.0, math.inf), exact=None)
    first = replace(first, ladder=ladder, canaries=(canary, first.canaries[1]))
    made = finished.results.model_copy(update={"attacks": (first, second), "epsilon": math.inf})
    (copied / "results.json").write_text(made.text())
    kept = json.loads(made.text())
    assert kept["epsilon"] is kept["attacks"][0]["ladder"]["rule"]["epsilon"] is None
    assert kept["attacks"][0]["canaries"][0]["supremum"] == {"lower": 1.0, "upper": None}
    assert Run.open(copied).results == made


def test_attacks_are_found_by_name(finished):
    results = finished.results
    record = results.attack("nonce-norm")
    best = record.canaries[record.headline_canary]
    assert best.bound.epsilon == max(canary.bound.epsilon for canary in record.canaries) == record.headline.epsilon
    assert record.evidence["canary"] == best.canary
    assert record.ladder.observed.epsilon == record.headline.epsilon
    assert record.ladder.mechanism.epsilon == results.epsilon
    assert "nonces, not people" in record.notes[0]
