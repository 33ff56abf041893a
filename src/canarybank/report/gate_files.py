"""Write what a gate found for a CI system and a pull request: JUnit XML and Markdown, never of an earlier gate."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from canarybank.report.tables import markdown_table, plain
from canarybank.report.text import clean, confidence, epsilon
from canarybank.run.gating import AttackGate, GateOutcome
from canarybank.run.power import Power, Shown, shown_epsilon
from canarybank.store import write_atomic

__all__ = ["GateFiles", "gate_markdown", "junit"]


@dataclass(frozen=True, slots=True)
class GateFiles:
    """Where a gate's outcome goes as JUnit XML and as Markdown; None where it does not."""

    junit: Path | None = None
    markdown: Path | None = None

    def write(self, outcome: GateOutcome) -> None:
        """Write an outcome."""
        self._write(junit(outcome), gate_markdown(outcome))

    def refuse(self, reason: str) -> None:
        """Write that nothing was compared, and why: an error, and neither a failure nor a success."""
        root, suite = _suite(tests=1, errors=1)
        case = SubElement(suite, "testcase", {"classname": "canarybank.gate", "name": "gate"})
        SubElement(case, "error", {"type": "refused", "message": clean(reason, 2000)})
        self._write(_document(root), f"### Privacy audit gate: refused\n\nNo claim was compared. {plain(reason)}\n")

    def _write(self, xml: str, text: str) -> None:
        for path, content in ((self.junit, xml), (self.markdown, text)):
            if path is not None:
                write_atomic(path, content)


def gate_markdown(outcome: GateOutcome) -> str:
    """Return a gate's outcome as Markdown, for a pull request."""
    first, title = outcome.attacks[0].bound, "no violation detected at this power"
    if not outcome.ok:
        is_shown = any(cause.kind == "trials" for cause in outcome.causes)
        title = "violation detected" if is_shown else "the claim is too small"
    parts = [
        f"### Privacy audit gate: {title}",
        outcome.statement,
        markdown_table(
            ["attack", "bound", "share of alpha", "true positives", "false positives", "exact, at least"],
            [
                (
                    plain(each.attack),
                    epsilon(each.bound.epsilon),
                    f"{each.alpha:.4g}",
                    f"{each.bound.counts[0]:,} of {each.bound.trials[0]:,}",
                    f"{each.bound.counts[1]:,} of {each.bound.trials[1]:,}",
                    shown_epsilon(each.exact),
                )
                for each in outcome.attacks
            ],
        ),
        (
            f"Claimed epsilon {outcome.claimed:g} at delta {first.delta:g}; exact epsilon of the mechanism "
            f"{shown_epsilon(outcome.attained)}, computed without trials; method {outcome.method}, declared "
            f"beforehand, {confidence(outcome.confidence)} confidence over all attacks, {outcome.trials:,} trials of "
            f"each hypothesis of each canary. It assumes {first.assumption}."
        ),
        f"Commitment: `{outcome.commitment}`",
    ]
    return "\n\n".join(parts) + "\n"


def junit(outcome: GateOutcome) -> str:
    """Return a gate's outcome as JUnit XML: a test case for each attack and one for the mechanism.

    Whatever exceeds the claim, computed or measured, is a failure. There is at least one exactly where the gate fails.
    """
    failures = len({cause.attack for cause in outcome.causes})
    root, suite = _suite(tests=len(outcome.attacks) + 1, failures=failures)
    properties = SubElement(suite, "properties")
    for name, value in _properties(outcome).items():
        SubElement(properties, "property", {"name": name, "value": clean(value)})
    for each in outcome.attacks:
        _case(suite, each.attack, each.attack, _attack_text(each, outcome), outcome)
    said = f"exact epsilon {shown_epsilon(outcome.attained)}, computed without trials; claimed {outcome.claimed:g}"
    _case(suite, "mechanism", None, said, outcome)
    SubElement(suite, "system-out").text = clean(outcome.statement, 2000)
    return _document(root)


def _suite(*, tests: int, failures: int = 0, errors: int = 0) -> tuple[Element, Element]:
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "skipped": "0"}
    root = Element("testsuites", {"name": "canarybank", **counts})
    return root, SubElement(root, "testsuite", {"name": "canarybank gate", **counts})


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
        "the same at this run's own thresholds, by too little noise": _seen(None if own is None else own.noise),
        "the same at this run's own thresholds, by a contribution above the clip": _seen(
            None if own is None else own.contribution
        ),
        "commitment": outcome.commitment,
    }


def _seen(power: Power | Shown | None) -> str:
    return "none" if power is None else epsilon(power.epsilon)
