import pytest

from canarybank.config import resolve
from canarybank.flow import gather
from canarybank.generate import CandidateBank
from canarybank.store import StageCache


@pytest.mark.parametrize(
    ("provenance", "counters"),
    [
        ({"counters": {"asked": 3, "kept": "2", "meta": True}}, {"asked": 3}),
        ({"counters": [1]}, {}),
        ({}, {}),
    ],
)
def test_counters_are_numbers_whatever_a_file_says(provenance, counters, tmp_path):
    bank = tmp_path / "bank.parquet"
    CandidateBank(("one", "two"), ("", ""), provenance=provenance).write(bank)
    config = resolve(flags={"bank.source": str(bank)}).config
    assert gather(config, StageCache(tmp_path / "cache"), None).candidates.counters == counters
