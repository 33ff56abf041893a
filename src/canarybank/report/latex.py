"""Write a run's tables as LaTeX, every text escaped."""

from collections.abc import Iterable, Sequence
from typing import Any

from canarybank.report.figures.canaries import CANARY_COLUMNS, canary_rows
from canarybank.report.numbers import confidence, epsilon, interval_text, rung_text
from canarybank.report.text import clean

__all__ = ["PACKAGES", "latex", "latex_table", "latex_tables"]

PACKAGES = "% Needs \\usepackage{booktabs} and \\usepackage{textcomp}. Made by canarybank; not differentially private."
_ESCAPES = {
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
_LAST_ASCII = 0x7E
_CAPTION = 1600


def latex_tables(summary: dict[str, Any]) -> str:
    """Return two tables, of attacks and of canaries, that need the packages booktabs and textcomp."""
    audit, delta = summary["audit"], summary["mechanism"]["delta"]
    stands_on = (
        f"Lower bounds by the method {audit['method']} at {confidence(1 - audit['alpha'])} confidence for each attack, "
        f"{audit['trials']:,} trials of each hypothesis of each canary, delta {delta:g}; exact figures need no trials."
    )
    heads = ["attack", "mechanism", "attack, exact", "rule, exact", "expected", "observed", "pooled"]
    tables = [
        PACKAGES,
        latex_table(heads, [_attack_row(attack) for attack in summary["attacks"]], f"Epsilon by attack. {stands_on}"),
        latex_table(
            CANARY_COLUMNS[:8],
            [row[:8] for attack in summary["attacks"] for row in canary_rows(attack)],
            f"Epsilon by canary, each at its share of alpha. {stands_on}",
        ),
    ]
    return "\n\n".join(tables) + "\n"


def latex(text: str, limit: int = 400) -> str:
    """Return a text that LaTeX sets as it is; what neither ASCII nor an accented letter is becomes its code point."""
    return "".join(
        _ESCAPES.get(sign) or (sign if ord(sign) <= _LAST_ASCII or sign.isalpha() else f"U+{ord(sign):04X}")
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
            " & ".join(latex(head) for head in heads) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _attack_row(attack: dict[str, Any]) -> tuple[str, ...]:
    rungs = {rung["name"]: rung for rung in attack["ladder"]}
    exact = [rung_text(rungs[name]) for name in ("mechanism", "attack", "rule")]
    spread = interval_text(rungs["expected"]["low"], rungs["expected"]["high"])
    pooled = "—" if attack["pooled"] is None else epsilon(attack["pooled"]["epsilon"])
    return (attack["name"], *exact, spread, epsilon(rungs["observed"]["epsilon"]), pooled)
