"""Lay a run's results out as one flat table: a row for each canary of each attack, numbers as they are."""

import csv
import io
import math
from pathlib import Path
from typing import Any

from canarybank.auditing import AttackResult, CanaryResult
from canarybank.mechanism import Mechanism
from canarybank.report.numbers import rule_upper
from canarybank.report.text import label
from canarybank.run.commitment import finite
from canarybank.run.results import Results
from canarybank.store import PRIVATE, inert_cell, write_atomic

__all__ = ["as_number", "result_rows", "write_csv", "write_parquet"]


def result_rows(results: Results) -> list[dict[str, Any]]:
    """Return a row for each canary of each attack; ids are made fit to show, numbers stay as they are."""
    return [_row(attack, canary, results.mechanism) for attack in results.attacks for canary in attack.canaries]


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


def _row(attack: AttackResult, canary: CanaryResult, mechanism: Mechanism) -> dict[str, Any]:
    counts, bound = canary.counts, canary.bound
    return {
        "attack": attack.attack,
        "rounds": attack.rounds,
        "canary": label(canary.canary),
        "bound": bound.epsilon,
        "upper": rule_upper(canary, mechanism),
        "confidence": bound.confidence,
        "method": bound.method,
        "branch": bound.branch,
        "tp": counts.tp,
        "fp": counts.fp,
        "n1": counts.n1,
        "n0": counts.n0,
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
        "delta": bound.delta,
        "bank_hash": canary.bank_hash,
    }


def as_number(value: float | None) -> float:
    """Return a number, infinite where it is None: JSON cannot hold an infinite one."""
    return math.inf if value is None else value
