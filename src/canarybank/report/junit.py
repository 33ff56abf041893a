"""Write a gate's outcome as JUnit XML, which CI systems show: one test case for each attack that the gate read."""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from canarybank.experiment.gating import AttackGate, GateOutcome
from canarybank.report.numbers import epsilon
from canarybank.report.text import clean

__all__ = ["junit"]


def junit(outcome: GateOutcome) -> str:
    """Return a gate's outcome as JUnit XML; an attack whose bound exceeds the claim is a failure."""
    failures = sum(_fails(each, outcome) for each in outcome.attacks)
    counts = {"tests": str(len(outcome.attacks)), "failures": str(failures), "errors": "0", "skipped": "0"}
    root = Element("testsuites", {"name": "canarybank", **counts})
    suite = SubElement(root, "testsuite", {"name": "canarybank gate", **counts})
    properties = SubElement(suite, "properties")
    for name, value in _properties(outcome).items():
        SubElement(properties, "property", {"name": name, "value": clean(value)})
    for each in outcome.attacks:
        _case(suite, each, outcome)
    SubElement(suite, "system-out").text = clean(outcome.statement, 2000)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _case(suite: Element, each: AttackGate, outcome: GateOutcome) -> None:
    case = SubElement(suite, "testcase", {"classname": "canarybank.gate", "name": clean(each.attack, 80)})
    said = (
        f"epsilon >= {epsilon(each.bound.epsilon)} at its share of alpha, {each.alpha:.4g}; claimed "
        f"{outcome.claimed:g}; {each.bound.method}, assumes {each.bound.assumption}"
    )
    if _fails(each, outcome):
        failure = SubElement(case, "failure", {"type": "violation", "message": clean(outcome.statement, 2000)})
        failure.text = clean(said, 2000)
    else:
        SubElement(case, "system-out").text = clean(f"No violation detected at this power: {said}", 2000)


def _fails(each: AttackGate, outcome: GateOutcome) -> bool:
    return each.bound.epsilon > outcome.claimed


def _properties(outcome: GateOutcome) -> dict[str, str]:
    seen = "none" if outcome.power is None else epsilon(outcome.power.epsilon)
    return {
        "claimed epsilon": f"{outcome.claimed:g}",
        "largest bound": epsilon(outcome.epsilon),
        "method": outcome.method,
        "confidence": f"{outcome.confidence:g}",
        "trials": str(outcome.trials),
        "smallest true epsilon that would typically have been seen": seen,
        "commitment": outcome.commitment,
    }
