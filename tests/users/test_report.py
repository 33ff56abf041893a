import json

from canarybank.users import AdmissionReport, Drop, Fault

REPORT = AdmissionReport(
    rows=12345,
    skipped={Fault.WORDS: 300, Fault.EMPTY: 45},
    first_lines={Fault.WORDS: 7, Fault.EMPTY: 1200},
    users=60,
    admitted=50,
    dropped={Drop.FEW: 10},
    records=3000,
    records_capped=8000,
    records_dropped=1000,
    full=40,
)


def test_the_table_adds_up_as_it_is_printed() -> None:
    counts = {what.strip(): count for what, count, _ in REPORT.table()}
    parts = [count for what, count, _ in REPORT.table() if what.startswith("  ")]
    assert sum(parts) == counts["rows read"] + counts["users seen"]


def test_the_table_as_text() -> None:
    lines = str(REPORT).splitlines()
    assert lines[0].split() == ["rows", "read", "12,345"]
    assert lines[1] == "  skipped: empty text                                 45  first at line 1,200"
    assert "dropped: fewer usable records than the minimum" in str(REPORT)
    assert lines[-1].endswith("50  40 with as many records as the cap")


def test_as_json() -> None:
    values = json.loads(json.dumps(REPORT.as_dict()))
    assert values["skipped"] == {"words": 300, "empty": 45}
    assert values["dropped"] == {"few": 10}
    assert values["rows"] == 12345
