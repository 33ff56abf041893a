"""Lay results out as tables: the rows of a summary once, for the page, Markdown and LaTeX; and flat files of numbers.

What a gate found has two forms more, for a CI system and a pull request: JUnit XML and Markdown, never of an earlier
gate. In none of them is a text from outside markup.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from canarybank.report.summary import rule_upper
from canarybank.report.text import (
    UNKNOWN,
    clean,
    confidence,
    epsilon,
    interval_text,
    label,
    rate,
    rung_text,
    together,
)
from canarybank.run.commitment import finite
from canarybank.run.gating import AttackGate, GateOutcome
from canarybank.run.power import Power, Shown
from canarybank.run.results import Results
from canarybank.store import PRIVATE, inert_cell, write_atomic
from canarybank.wording import sentence_case, shown_epsilon

__all__ = [
    "ATTACK_COLUMNS",
    "CANARY_COLUMNS",
    "GATE_COLUMNS",
    "PACKAGES",
    "PREFIX_COLUMNS",
    "GateFiles",
    "attack_rows",
    "bounds_stand_on",
    "canary_rows",
    "exact_text",
    "gate_markdown",
    "gate_rows",
    "joint_rows",
    "joint_sentence",
    "junit",
    "known_columns",
    "latex",
    "latex_table",
    "latex_tables",
    "markdown_table",
    "plain",
    "prefix_rows",
    "result_rows",
    "summary_markdown",
    "verdict_markdown",
    "write_csv",
    "write_parquet",
]

Row = tuple[str, ...]
ATTACK_COLUMNS = (
    "attack",
    "observed bound",
    "at its share of alpha",
    "pooled beside it",
    "expected",
    "5% to 95%",
    "exact, rule",
    "exact, attack",
)
CANARY_COLUMNS = (
    "attack",
    "canary",
    "bound",
    "upper end",
    "exact, rule",
    "exact, attack",
    "true positives",
    "false positives",
    "trials",
    "exact TPR",
    "exact FPR",
    "mu_eff",
)
PREFIX_COLUMNS = (
    "attack",
    "rounds",
    "theory",
    "exact, attack",
    "exact, rule",
    "expected",
    "observed bound",
    "true positives",
    "false positives",
)
PACKAGES = "% Needs \\usepackage{booktabs} and \\usepackage{textcomp}. Made by canarybank; not differentially private."
GATE_COLUMNS = ("score", "evidence", "outcome", "epsilon at least", "share of alpha")
_SHOWN = {"trials", "betting", "curve"}
"""The causes that runs show; the others are computed."""
_CAPTION = 1600
_MARKUP = re.compile(r"([\\`*_\[\]<>|~$&@:#]|(?<=[wW]{3})\.)")
"""Markdown's own characters, and those that hosts turn into mentions, links, entities or mathematics."""
_LAST_ASCII = 0x7E
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "∞": r"$\infty$",
    "−": "$-$",
    "—": "---",
    "…": r"\ldots{}",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
}


def attack_rows(attacks: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each attack, as shown; its share of alpha counts where there are several."""
    return [
        (
            attack["name"],
            epsilon(attack["headline"]["epsilon"]),
            epsilon(attack["share"]["epsilon"]) if len(attacks) > 1 else UNKNOWN,
            UNKNOWN if attack["pooled"] is None else epsilon(attack["pooled"]["epsilon"]),
            rung_text(attack["rungs"].get("expected")),
            interval_text(attack["rungs"].get("expected")),
            rung_text(attack["rungs"].get("rule")),
            rung_text(attack["rungs"].get("attack")),
        )
        for attack in attacks
    ]


def joint_rows(summary: dict[str, Any]) -> list[Row]:
    """Return the rows of the attacks, and below them the headline: the largest bound with alpha split over them all."""
    attacks, rows = summary["attacks"], attack_rows(summary["attacks"])
    if len(attacks) == 1:
        return rows
    furthest = rows[summary["strongest"]][-1]
    unknown = (UNKNOWN,) * (len(ATTACK_COLUMNS) - 4)
    return [*rows, (together(len(attacks)), UNKNOWN, epsilon(summary["joint"]["epsilon"]), *unknown, furthest)]


def joint_sentence(summary: dict[str, Any]) -> str:
    """Say how the headline follows from the bound of one attack; nothing where there is one attack alone."""
    attacks, joint, alpha = summary["attacks"], summary["joint"], summary["audit"]["alpha"]
    if len(attacks) == 1:
        return ""
    leading = next(attack for attack in attacks if attack["name"] == joint["attack"])
    looked_at = sentence_case(together(len(attacks), "attacks"))
    return (
        f"The headline is the row of {together(len(attacks))}. Alone, {leading['name']} shows at least "
        f"{epsilon(leading['headline']['epsilon'])} at alpha {alpha:g}. {looked_at} were looked at, so each gets a "
        f"share of {leading['share']['alpha']:.4g}; at that share the same counts show at least "
        f"{epsilon(joint['epsilon'])}, and this holds with {confidence(1 - alpha)} confidence over all attacks "
        "together."
    )


def canary_rows(attacks: Iterable[dict[str, Any]]) -> list[Row]:
    """Return a row for each canary of each attack, as shown."""
    return [
        (
            attack["name"],
            canary["id"],
            epsilon(canary["bound"]["epsilon"]),
            epsilon(canary["upper"]),
            interval_text(canary["rule"], "lower", "upper"),
            interval_text(canary["supremum"], "lower", "upper"),
            f"{canary['counts']['tp']:,}",
            f"{canary['counts']['fp']:,}",
            f"{canary['counts']['n1']:,}",
            rate(canary["tpr"]),
            rate(canary["fpr"]),
            f"{canary['mu_eff']:.3f}",
        )
        for attack in attacks
        for canary in attack["canaries"]
    ]


def prefix_rows(prefixes: Iterable[dict[str, Any]]) -> list[Row]:
    """Return a row for each attack after each number of rounds, as shown."""
    return [
        (
            each["attack"],
            f"{each['rounds']:,}",
            *(epsilon(each[name]) for name in ("theory", "exact", "rule", "expected", "observed")),
            f"{each['tp']:,}",
            f"{each['fp']:,}",
        )
        for each in prefixes
    ]


def known_columns(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[Row, list[tuple[Any, ...]]]:
    """Return a table without the columns of which nothing is known in any row."""
    kept = [index for index in range(len(columns)) if not rows or any(row[index] != UNKNOWN for row in rows)]
    return tuple(columns[index] for index in kept), [tuple(row[index] for index in kept) for row in rows]


def bounds_stand_on(summary: dict[str, Any]) -> str:
    """Say what the bounds of a run stand on, and what they are held against."""
    audit, claim = summary["audit"], f"The claim is {summary['claim']}"
    against = f"{claim}, the exact epsilon of this mechanism" if not summary["claimed"] else claim
    return (
        f"Bounds are lower bounds on epsilon by the method {audit['method']} at {confidence(1 - audit['alpha'])} "
        f"confidence for each attack, with {audit['trials']:,} trials of each hypothesis of each canary, at delta "
        f"{summary['mechanism']['delta']:g}. {against}. Exact figures need no trials."
    )


def summary_markdown(summary: dict[str, Any]) -> str:
    """Return the summary of an audit, or of an audited evolution, as Markdown.

    Args:
        summary: That summary.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> summary_markdown(summarise_run(open_run("runs/demo"))).splitlines()[0]
        '# canarybank audit: demo'
    """
    verdict, evolution = summary["verdict"], summary["evolution"]
    parts = [
        f"# canarybank audit: {plain(summary['name'])}",
        *verdict_markdown(verdict),
        *([plain(f"{evolution['headline']}.")] if evolution else []),
        f"> {summary['statement']}",
        "## What was audited",
        markdown_table(["what", "value"], summary["facts"]),
        *(f"Note: {plain(note)}" for note in summary["notes"]),
        "## Epsilon by attack",
        bounds_stand_on(summary),
        markdown_table(*known_columns(ATTACK_COLUMNS, joint_rows(summary))),
        *filter(None, [joint_sentence(summary)]),
        *(
            ["## Epsilon by round", markdown_table(PREFIX_COLUMNS, prefix_rows(summary["prefixes"]))]
            if evolution
            else []
        ),
        "## What it stands on",
        "\n".join(f"- {line}" for line in summary["assumptions"]),
        "## What it does not say",
        "\n".join(f"- {line}" for line in summary["limits"]),
        "## Provenance",
        f"Command: {plain(summary['provenance']['command'])}",
        markdown_table(["what", "sha256"], summary["provenance"]["hashes"]),
    ]
    return "\n\n".join(parts) + "\n"


def verdict_markdown(verdict: dict[str, Any]) -> list[str]:
    """Return a verdict as Markdown: what became of the claim, its numbers, its sentences, and what to do next."""
    numbers = [(plain(each["value"]), each["words"], plain(each["note"])) for each in verdict["numbers"]]
    return [
        f"**{verdict['heading']}.** {plain(verdict['sentence'])}",
        *([markdown_table(["epsilon", "what it is", "from"], numbers)] if numbers else []),
        *map(plain, verdict["beside"]),
        "## What to do next",
        "\n".join(f"- {plain(step)}" for step in verdict["next"]),
    ]


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; no cell is markup."""
    lines = [map(sentence_case, columns), ["---"] * len(columns), *(map(plain, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _MARKUP.sub(r"\\\1", clean(text, 2000))


def latex_tables(summary: dict[str, Any]) -> str:
    """Return two tables, of attacks and of canaries, that need the packages booktabs and textcomp.

    Args:
        summary: The summary of an audit, or of an audited evolution.

    Example:
        >>> from canarybank.report import summarise_run
        >>> from canarybank.run import open_run
        >>> latex_tables(summarise_run(open_run("runs/demo"))).count("toprule")
        2
    """
    attacks, stands_on = summary["attacks"], bounds_stand_on(summary)
    tables = [
        PACKAGES,
        latex_table(*known_columns(ATTACK_COLUMNS, joint_rows(summary)), f"Epsilon by attack. {stands_on}"),
        latex_table(
            *known_columns(CANARY_COLUMNS[:8], [row[:8] for row in canary_rows(attacks)]),
            f"Epsilon by canary, each at its share of alpha. {stands_on}",
        ),
    ]
    return "\n\n".join(tables) + "\n"


def latex(text: str, limit: int = 400) -> str:
    """Return a text that LaTeX sets as it is; what neither ASCII nor an accented letter is becomes its code point."""
    return "".join(
        _LATEX.get(sign) or (sign if ord(sign) <= _LAST_ASCII or sign.isalpha() else f"U+{ord(sign):04X}")
        for sign in clean(text, limit)
    )


def latex_table(heads: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> str:
    """Return a table with its caption; every text is escaped."""
    lines = [" & ".join(latex(str(cell)) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{latex(caption, _CAPTION)}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
            r"\toprule",
            " & ".join(latex(sentence_case(head)) for head in heads) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def result_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each canary of each attack; ids are made fit to show, numbers stay as they are."""
    return [
        {
            "attack": attack.attack,
            "rounds": attack.rounds,
            "canary": label(canary.canary),
            "bound": canary.bound.epsilon,
            "upper": rule_upper(canary, results.mechanism),
            "confidence": canary.bound.confidence,
            "method": canary.bound.method,
            "branch": canary.bound.branch,
            "tp": canary.counts.tp,
            "fp": canary.counts.fp,
            "n1": canary.counts.n1,
            "n0": canary.counts.n0,
            "threshold": canary.threshold.value,
            "mu_eff": canary.mu_eff,
            "exact_rule_lower": None if canary.rule is None else canary.rule.lower,
            "exact_rule_upper": None if canary.rule is None else canary.rule.upper,
            "exact_attack_lower": None if canary.supremum is None else canary.supremum.lower,
            "exact_attack_upper": None if canary.supremum is None else canary.supremum.upper,
            "exact_mechanism": finite(attack.ladder.mechanism.epsilon),
            "accounted": finite(attack.ladder.accounted.epsilon),
            "attack_bound": attack.headline.epsilon,
            "attack_confidence": attack.headline.confidence,
            "attack_expected": None if attack.ladder.expected is None else attack.ladder.expected.epsilon,
            "attack_pooled": None if attack.pooled is None else attack.pooled.epsilon,
            "delta": canary.bound.delta,
            "bank_hash": canary.bank_hash,
        }
        for attack in results.attacks
        for canary in attack.canaries
    ]


def write_csv(rows: list[dict[str, Any]], path: Path, *, mode: int | None = PRIVATE) -> None:
    """Write rows as CSV; an id that a spreadsheet would run as a formula gets an apostrophe before it."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: inert_cell(value) for name, value in row.items()} for row in rows)
    write_atomic(path, text.getvalue(), mode=mode)


def write_parquet(rows: list[dict[str, Any]], path: Path, *, mode: int | None = PRIVATE) -> None:
    """Write rows as Parquet."""
    import polars as pl

    buffer = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(buffer, compression="zstd")
    write_atomic(path, buffer.getvalue(), mode=mode)


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
    """Return a gate's outcome as Markdown, for a pull request.

    Args:
        outcome: What a gate found.

    Example:
        >>> from canarybank.run import gate
        >>> gate_markdown(gate("runs/demo", 0.5)).splitlines()[0]
        '### Privacy audit gate: the claim is too small'
    """
    title, kinds = "no violation detected at this power", {cause.kind for cause in outcome.causes}
    if kinds:
        title = "violation detected" if kinds & _SHOWN else "the claim is too small"
    parts = [
        f"### Privacy audit gate: {title}",
        outcome.statement,
        *(_attack_parts(outcome) if outcome.attacks else _evidence_parts(outcome)),
        f"Commitment: `{outcome.commitment}`",
    ]
    return "\n\n".join(parts) + "\n"


def _attack_parts(outcome: GateOutcome) -> list[str]:
    first = outcome.attacks[0].bound
    return [
        markdown_table(
            ["attack", "bound", "share of alpha", "true positives", "false positives", "exact, at least"],
            [
                (
                    plain(each.attack),
                    epsilon(each.bound.epsilon),
                    f"{each.alpha:.4g}",
                    f"{each.bound.counts[0]:,} of {each.bound.trials[0]:,}",
                    f"{each.bound.counts[1]:,} of {each.bound.trials[1]:,}",
                    exact_text(each),
                )
                for each in outcome.attacks
            ],
        ),
        (
            f"Claimed: {outcome.claim}; exact epsilon of the mechanism {shown_epsilon(outcome.attained)}, computed "
            f"without trials; method {outcome.method}, declared beforehand, {confidence(outcome.confidence)} "
            f"confidence over all attacks, {outcome.trials:,} trials of each hypothesis of each canary. It assumes "
            f"{first.assumption}."
        ),
    ]


def _evidence_parts(outcome: GateOutcome) -> list[str]:
    exact = shown_epsilon(outcome.attained) if outcome.is_exact_known else "not known"
    return [
        markdown_table(GATE_COLUMNS, gate_rows(outcome)),
        "\n".join(
            f"- {name}: it assumes {plain(assumption)}. {plain(power)}"
            for name, assumption, power in dict.fromkeys(
                (each.evidence, each.assumption, each.power) for each in outcome.evidence
            )
        ),
        (
            f"Claimed: {outcome.claim}; exact epsilon of the claimed mechanism {exact}; "
            f"{confidence(outcome.confidence)} confidence over all evidence, "
            + (
                f"{outcome.trials:,} judged runs of each hypothesis of each canary."
                if outcome.canaries is None
                else f"one run with {outcome.canaries:,} canaries."
            )
        ),
    ]


def gate_rows(outcome: GateOutcome) -> list[Row]:
    """Return a row for each kind of evidence on each score of a system, as shown."""
    return [
        (
            each.score,
            each.evidence,
            "the claim fails" if each.fails else "no violation detected",
            "-" if each.epsilon is None else epsilon(each.epsilon),
            f"{each.alpha:.4g}",
        )
        for each in outcome.evidence
    ]


def exact_text(attack: AttackGate) -> str:
    """Return an attack's exact epsilon, of which it is the lower end; a dash where nothing is known."""
    return shown_epsilon(attack.exact) if attack.is_exact_known else "-"


def junit(outcome: GateOutcome) -> str:
    """Return a gate's outcome as JUnit XML: a test case for each attack and one for the mechanism.

    Whatever exceeds the claim, computed or measured, is a failure. There is at least one exactly where the gate fails.

    Args:
        outcome: What a gate found.

    Example:
        >>> from canarybank.run import gate
        >>> junit(gate("runs/demo", 5.0)).splitlines()[1]
        '<testsuites name="canarybank" tests="3" failures="0" errors="0" skipped="0">'
    """
    failures = len({cause.attack for cause in outcome.causes})
    root, suite = _suite(tests=len(outcome.attacks) + len(outcome.evidence) + outcome.is_exact_known, failures=failures)
    properties, own = SubElement(suite, "properties"), outcome.frozen_power
    stated = {
        "claim": outcome.claim,
        "claimed epsilon": f"{outcome.claimed:g}",
        "exact epsilon of the mechanism": shown_epsilon(outcome.attained) if outcome.is_exact_known else "not known",
        "exceeded by": ", ".join(dict.fromkeys(cause.kind for cause in outcome.causes)) or "nothing",
        "largest bound": epsilon(outcome.epsilon),
        "method": outcome.method,
        "confidence": f"{outcome.confidence:g}",
        "trials": str(outcome.trials),
        "commitment": outcome.commitment,
    }
    if outcome.attacks:
        stated |= {
            "smallest true epsilon that would typically have been seen": _seen(outcome.power),
            "the same at this run's own thresholds, by too little noise": _seen(None if own is None else own.noise),
            "the same at this run's own thresholds, by a contribution above the clip": _seen(
                None if own is None else own.contribution
            ),
        }
    for name, value in stated.items():
        SubElement(properties, "property", {"name": name, "value": clean(value)})
    for each in outcome.attacks:
        exact = f"at least {exact_text(each)}, computed without trials" if each.is_exact_known else "not known"
        said = (
            f"epsilon >= {epsilon(each.bound.epsilon)} at its share of alpha, {each.alpha:.4g}; claimed "
            f"{outcome.claimed:g}; {each.bound.method}, assumes {each.bound.assumption}; exact epsilon of the attack "
            f"{exact}"
        )
        _case(suite, each.attack, each.attack, said, outcome)
    for shown in outcome.evidence:
        name = f"{shown.score} score, {shown.evidence}"
        found = (
            shown.statement
            if shown.epsilon is None
            else f"epsilon >= {epsilon(shown.epsilon)} at its share of alpha, {shown.alpha:.4g}; claimed "
            f"{outcome.claimed:g}."
        )
        said = f"{found} It assumes {shown.assumption}. {shown.power}"
        _case(suite, name, name, said, outcome)
    if outcome.is_exact_known:
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
        kind = "violation" if _SHOWN & set(kinds) else "claim"
        failure = SubElement(case, "failure", {"type": kind, "message": clean(outcome.statement, 2000)})
        failure.text = clean(said, 2000)
    else:
        SubElement(case, "system-out").text = clean(f"No violation detected at this power: {said}", 2000)


def _seen(power: Power | Shown | None) -> str:
    return "none" if power is None else epsilon(power.epsilon)
