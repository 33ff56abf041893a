from xml.etree import ElementTree as ET

from canarybank.report import junit
from canarybank.run import compare, gate


def suite(outcome):
    return ET.fromstring(junit(outcome)).find("testsuite")  # noqa: S314, our own markup


def test_each_attack_is_a_case(run):
    found = suite(gate(run, 1.695))
    names = [case.get("name") for case in found.findall("testcase")]
    assert names == [*(a.attack for a in run.results.attacks), "mechanism"]
    assert (found.get("tests"), found.get("failures")) == ("4", "0")
    assert "No violation detected at this power" in found.find("testcase/system-out").text


def test_a_bound_above_the_claim_is_a_failure(counted):
    outcome = compare(counted(18_000, 100), 1.695)
    found = suite(outcome)
    assert found.get("failures") == "1"
    failed = [case.get("name") for case in found.findall("testcase") if case.find("failure") is not None]
    assert failed == ["ordinary"]
    assert found.find("testcase/failure").get("message") == outcome.statement


def test_what_the_gate_stands_on_is_a_property(run):
    found = {item.get("name"): item.get("value") for item in suite(gate(run, 1.695)).iter("property")}
    assert found["claimed epsilon"] == "1.695"
    assert found["commitment"] == run.results.commitment


def test_a_gate_without_power_says_so(run):
    blind = gate(run, 1.695).model_copy(update={"power": None})
    found = {item.get("name"): item.get("value") for item in suite(blind).iter("property")}
    assert found["smallest true epsilon that would typically have been seen"] == "none"
