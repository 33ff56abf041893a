"""Write a gate's outcome as JUnit XML, which CI systems show: a test case for the mechanism and one for each attack."""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from canarybank.experiment.gating import AttackGate, GateOutcome
from canarybank.experiment.power import Power, Shown, shown_epsilon
from canarybank.report.numbers import epsilon
from canarybank.report.text import clean

__all__ = ["junit", "junit_error"]


def junit(outcome: GateOutcome) -> str:
    """Return a gate's outcome as JUnit XML; whatever exceeds the claim, computed or measured, is a failure.

    There is at least one failure exactly where the gate fails.
    """
    failing = {cause.attack for cause in outcome.causes}
    tests = len(outcome.attacks) + 1
    counts = {"tests": str(tests), "failures": str(len(failing)), "errors": "0", "skipped": "0"}
    root = Element("testsuites", {"name": "canarybank", **counts})
    suite = SubElement(root, "testsuite", {"name": "canarybank gate", **counts})
    properties = SubElement(suite, "properties")
    for name, value in _properties(outcome).items():
        SubElement(properties, "property", {"name": name, "value": clean(value)})
    for each in outcome.attacks:
        _case(suite, each.attack, each.attack, _attack_text(each, outcome), outcome)
    said = f"exact epsilon {shown_epsilon(outcome.attained)}, computed without trials; claimed {outcome.claimed:g}"
    _case(suite, "mechanism", None, said, outcome)
    SubElement(suite, "system-out").text = clean(outcome.statement, 2000)
    return _document(root)


def junit_error(reason: str) -> str:
    """Return JUnit XML of a gate that compared nothing: one test case with an error that says why."""
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    root = Element("testsuites", {"name": "canarybank", **counts})
    suite = SubElement(root, "testsuite", {"name": "canarybank gate", **counts})
    case = SubElement(suite, "testcase", {"classname": "canarybank.gate", "name": "gate"})
    SubElement(case, "error", {"type": "refused", "message": clean(reason, 2000)})
    return _document(root)


def _document(root: Element) -> str:
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _case(suite: Element, name: str, attack: str | None, said: str, outcome: GateOutcome) -> None:
    case = SubElement(suite, "testcase", {"classname": "canarybank.gate", "name": clean(name, 80)})
    kinds = [cause.kind for cause in outcome.causes if cause.attack == attack]
    if kinds:
        kind = "violation" if "trials" in kinds else "claim"
        failure = SubElement(case, "failure", {"type": kind, "message": clean(outcome.statement, 2000)})
        failure.text = clean(said, 2000)
    else:
        SubElement(case, "system-out").text = clean(f"No violation detected at this power: {said}", 2000)


def _attack_text(each: AttackGate, outcome: GateOutcome) -> str:
    return (
        f"epsilon >= {epsilon(each.bound.epsilon)} at its share of alpha, {each.alpha:.4g}; claimed "
        f"{outcome.claimed:g}; {each.bound.method}, assumes {each.bound.assumption}; exact epsilon of the attack at "
        f"least {shown_epsilon(each.exact)}, computed without trials"
    )


def _properties(outcome: GateOutcome) -> dict[str, str]:
    own = outcome.frozen_power
    return {
        "claimed epsilon": f"{outcome.claimed:g}",
        "exact epsilon of the mechanism": shown_epsilon(outcome.attained),
        "exceeded by": ", ".join(dict.fromkeys(cause.kind for cause in outcome.causes)) or "nothing",
        "largest bound": epsilon(outcome.epsilon),
        "method": outcome.method,
        "confidence": f"{outcome.confidence:g}",
        "trials": str(outcome.trials),
        "smallest true epsilon that would typically have been seen": _seen(outcome.power),
        "the same at this run's own thresholds, by too little noise": _seen(own and own.noise),
        "the same at this run's own thresholds, by a contribution above the clip": _seen(own and own.contribution),
        "commitment": outcome.commitment,
    }


def _seen(power: Power | Shown | None) -> str:
    return "none" if power is None else epsilon(power.epsilon)
